"""On a GPU: passes captured as graphs, and bfloat16, whose rounding lets two nearly equal tokens change places. The
float32 tests run there as they are: their `device` has a CUDA case."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

import specdec_core as sd
from specdec_core.models.bundle import HubModel
from specdec_core.runtime.architectures.t5 import EncoderDecoder
from specdec_core.runtime.cuda_graphs import GraphedReader, Graphs, works
from specdec_core.runtime.reader import CausalReader
from specdec_core.sampling import Warp
from specdec_core.tree import TokenTree
from specdec_measure.testing import Letters

from .distributions import chance_of, exact_distribution, model_next_probs, sample
from .offers import fitting_rule, offered
from .tiny import ARCHITECTURES, PROMPTS, build, generate, like, module, pair, tokenizer
from .tiny_t5 import KINDS, generate_t5, module_t5, pair_t5
from .trees import Oracle, largest_difference, paths_alone, random_tree
from .walks import walk

LENGTH = 40
LARGEST_MARGIN = 0.1  # logits; two bfloat16 numbers near 4 that differ by more are more than two steps apart

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no CUDA device"),
]


def _margin(model: torch.nn.Module, text: Sequence[int]) -> float:
    """How far the two best next tokens are apart, in logits of one plain float32 read-out of the same weights."""
    with torch.inference_mode():
        logits = model(torch.tensor([list(text)], device="cuda")).logits[0, -1].float()
    best = logits.topk(2).values
    return float(best[0] - best[1])


@pytest.mark.usefixtures("proposers")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_in_bfloat16_text_forks_only_where_two_tokens_nearly_tie(
    architecture: str, monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    """Every proposer and rule against `generate`, in bfloat16: a fork is no bug if the best two tokens were within
    rounding of each other. The first forks go to the report (`--junitxml FILE`); fails on a margin
    above 0.1 logits."""
    models = pair(architecture, "cuda", torch.bfloat16)
    runs, forks = 0, []
    for prompt in PROMPTS:
        expected = generate(module(models), prompt, LENGTH)
        monkeypatch.setattr(Oracle, "truth", [*prompt, *expected])
        for proposer in ("none", "draft-model", "prompt-lookup", "test-oracle", "test-ranked"):
            for rule in ("speculative-sampling", "token-matching", "exact-match"):
                trace = sd.decode(
                    models, prompt, sd.Settings(proposer=proposer, rule=rule, max_new_tokens=LENGTH)
                )
                assert trace.audit() == []
                assert len(trace.token_ids) == LENGTH
                runs += 1
                pairs = zip(trace.token_ids, expected, strict=True)
                place = next((at for at, (one, other) in enumerate(pairs) if one != other), None)
                if place is not None:
                    margin = _margin(module(models), [*prompt, *expected[:place]])
                    forks.append((proposer, rule, place, round(margin, 4)))
    record_property("runs", runs)
    record_property("forks", forks)  # proposer, rule, token, margin
    assert all(margin <= LARGEST_MARGIN for *_, margin in forks)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_in_bfloat16_a_tree_pass_is_near_its_paths(architecture: str) -> None:
    """Tolerance 0.1 logits: a few steps of bfloat16 at the logits' size."""
    rng = random.Random(2)
    reader = pair(architecture, "cuda", torch.bfloat16).target.reader(96)
    reader.prefill([rng.randrange(97) for _ in range(12)])
    tree = random_tree(12, 97, rng)
    together = reader.read(5, tree)
    assert together.dtype == torch.float32
    for node in range(len(tree)):
        assert largest_difference(together[node + 1], reader.read(5, paths_alone(tree, node))[-1]) <= 0.1


@pytest.mark.parametrize("dtype", ["auto", "float32", "bfloat16", "float16"])
def test_a_folder_is_loaded_onto_the_gpu(dtype: str, tmp_path: Path) -> None:
    """`auto` is bfloat16 there; sampling and recording work in every dtype."""
    build("llama", vocab_size=len(tokenizer())).save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    models = sd.load_models(tmp_path, device="cuda", dtype=dtype)
    trace = sd.decode(
        models, [1, 2, 3], sd.Settings(proposer="prompt-lookup", temperature=1.0, max_new_tokens=20)
    )
    assert trace.audit() == []
    assert trace.header.dtype == ("bfloat16" if dtype == "auto" else dtype)
    assert sd.Trace.from_json(trace.to_json()) == trace


def test_drafting_does_not_wait_for_the_device() -> None:
    """Catches: a synchronisation per drafted token, which would cost more than the draft itself."""
    models = pair("llama", "cuda")
    assert models.draft is not None
    draft = models.draft.reader(64)
    draft.prefill([1, 2, 3])
    token = torch.tensor([4], device="cuda")
    draft.step(token)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(4):
            token = draft.step(token).argmax().reshape(1)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert draft.length == 8


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_captured_passes_equal_ordinary_ones(architecture: str) -> None:
    """All widths, beside an ordinary reader that is asked the same, twice, so that the second walk replays what the
    first captured and finds its blocks used. Catches: a position, a mask or a tree that was baked into a graph, and
    logits or states that the next replay writes over. Tolerance 1e-4: other shapes, other kernels."""
    model = module(pair(architecture, "cuda"))
    graphs = Graphs(model)
    for seed in (21, 22):
        reader = graphs.reader(200, 9)
        assert {width for width, one in reader.static.passes.items() if one.graph is not None} >= {
            1,
            2,
            4,
            8,
            16,
        }
        walk(CausalReader(model, 200), reader, 1e-4, seed)
        assert all(one.graph is not None for one in reader.static.passes.values())
        static = reader.static
        del reader
        gc.collect()
    assert graphs.reader(200).static is static


def test_a_captured_pass_is_sent_in_one_piece() -> None:
    """Tokens, positions, rows and the tree's shape in one copy, and the mask made on the device. Catches: an upload for
    each of them, which costs more than the pass of a small draft."""
    reader = Graphs(build("llama").to("cuda")).reader(64, 8)
    reader.prefill([1, 2, 3])
    tree = TokenTree([5, 6, 7, 8], [-1, -1, 0, 1])
    reader.read(4, tree)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        reader.read(4, tree)
        torch.cuda.synchronize()
    assert sum(event.count for event in profile.key_averages() if "Memcpy HtoD" in event.key) == 1


@pytest.mark.usefixtures("proposers")
@pytest.mark.parametrize("architecture", ["llama", "gpt2", "qwen3", "opt"])
def test_greedy_text_of_every_proposer_equals_generate_through_graphs(
    architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Float32, every registered proposer that needs no trained heads, chains and trees, with and without overlap where
    it can. Catches: a proposer that reads beside the captured passes and disturbs them."""
    models = pair(architecture, "cuda")
    for prompt in PROMPTS:
        expected = generate(module(models), prompt, LENGTH)
        monkeypatch.setattr(Oracle, "truth", [*prompt, *expected])
        for proposer in offered(models):
            for overlap in {False, sd.PROPOSERS[proposer].can_overlap}:
                settings = sd.Settings(
                    proposer=proposer, rule=fitting_rule(proposer), max_new_tokens=LENGTH, overlap=overlap
                )
                trace = sd.decode(models, prompt, settings)
                assert trace.token_ids == expected, f"{proposer}, overlap {overlap}, prompt {prompt}"
                assert trace.audit() == []


@pytest.mark.usefixtures("proposers")
def test_sampled_texts_of_every_proposer_follow_the_distribution_through_graphs() -> None:
    """A Llama of six tokens, 400 texts of four for each registered proposer with a rule that suits it, chi-square
    against plain transformers passes. Catches: rows of a rejected branch that a replay still sees. The bound is for the
    smallest of a dozen comparisons (`Meter`): false alarm about 1e-4 per proposer."""
    big = build("llama", vocab_size=6)
    small = like(big, "llama", 0.3, vocab_size=6)
    models = sd.Models(
        Letters(6),
        HubModel("tiny target", big.to("cuda")),
        HubModel("tiny draft", small.to("cuda")),
        device="cuda",
    )
    assert isinstance(models.target, HubModel)
    expected = exact_distribution(model_next_probs(models.target), [1, 2, 3], 4, Warp(1.5))
    for proposer in offered(models):
        if proposer == Oracle.name:
            continue  # it knows a greedy text
        settings = sd.Settings(
            proposer=proposer,
            rule=fitting_rule(proposer),
            draft_length=2,
            temperature=1.5,
            max_new_tokens=4,
            record="off",
        )
        assert chance_of(sample(models, [1, 2, 3], settings, 400), expected) > 1e-5, proposer


def test_graphs_are_chosen_by_themselves_and_can_be_declined(tmp_path: Path) -> None:
    """Catches: a loaded model without them, and an opt-out that is ignored."""
    build("llama", vocab_size=len(tokenizer())).save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    assert isinstance(sd.load_models(tmp_path, device="cuda").target.reader(64), GraphedReader)
    plain = sd.load_models(tmp_path, device="cuda", graphs=False).target.reader(64)
    assert isinstance(plain, CausalReader) and not isinstance(plain, GraphedReader)


def test_a_model_that_asks_the_device_in_the_middle_of_a_pass_is_decoded_without_graphs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such a pass cannot be captured. Catches: a failed capture that fails the load, or that leaves the device unable
    to work."""
    model = build("llama", vocab_size=len(tokenizer())).to("cuda")
    forward = model.forward

    def asking(*args: object, **kwargs: torch.Tensor) -> object:
        assert int(kwargs["input_ids"].max()) >= 0
        return forward(*args, **kwargs)

    monkeypatch.setattr(model, "forward", asking)
    assert not works(model)
    models = sd.assemble(tokenizer(), model)
    assert not isinstance(models.target.reader(64), GraphedReader)
    trace = sd.decode(models, [5, 9, 3], sd.Settings(proposer="prompt-lookup", max_new_tokens=20))
    assert trace.token_ids == generate(model, [5, 9, 3], 20, pad_token_id=0)


@pytest.mark.usefixtures("proposers")
@pytest.mark.parametrize("kind", KINDS)
def test_t5_writes_what_generate_writes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Float32 on the device, chains and trees. Catches: a correction or a source left on the host. These sharp models
    round by 1e-4 of a logit, so a fork where the best two are nearer than 0.01 ends the comparison there."""
    models = pair_t5(kind, "cuda")
    assert isinstance(models.target, EncoderDecoder)
    source = [96, 50, 12, 12, 60, 31, 2, 77, 8, 12, 12, 1]
    expected = generate_t5(module_t5(models), source, LENGTH)
    monkeypatch.setattr(Oracle, "truth", [0, *expected])
    for proposer in offered(models):
        settings = sd.Settings(proposer=proposer, rule=fitting_rule(proposer), max_new_tokens=LENGTH)
        trace = sd.decode(models, source, settings)
        assert trace.audit() == []
        pairs = zip(trace.token_ids, expected, strict=True)
        place = next((at for at, (one, other) in enumerate(pairs) if one != other), None)
        if place is not None:
            with torch.inference_mode():
                best = module_t5(models)(
                    input_ids=torch.tensor([source], device="cuda"),
                    decoder_input_ids=torch.tensor([[0, *expected[:place]]], device="cuda"),
                    use_cache=False,
                ).logits[0, -1].topk(2).values  # fmt: skip
            assert float(best[0] - best[1]) < 0.01, f"{kind}, {proposer}, token {place}"
