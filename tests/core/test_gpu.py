"""On a GPU: bfloat16, whose rounding lets two nearly equal tokens change places. The float32 tests run there as they
are: their `device` has a CUDA case."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

import specdec_core as sd

from .tiny import ARCHITECTURES, PROMPTS, build, generate, module, pair, tokenizer
from .trees import Oracle, largest_difference, paths_alone, random_tree

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
    architecture: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every proposer and rule against `generate`, in bfloat16: a fork is no bug if the best two tokens were within
    rounding of each other. Reports rate, place and margin of first forks; fails on a margin above 0.1 logits."""
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
    with capsys.disabled():
        print(
            f"\n{architecture}, bfloat16: {len(forks)} of {runs} runs fork; (proposer, rule, token, margin): {forks}"
        )
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
