"""Encoder–decoder models: the encoder reads the prompt, the decoder is decoded speculatively, chains and trees alike.

The oracle is transformers' `generate` without its cache, which runs the whole decoder anew for every token.
"""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import BartConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast, UMT5Config

import specdec_core as sd
from specdec_core.lengths import LENGTH_POLICIES
from specdec_core.models.files.hub import check_architecture
from specdec_core.models.tokens.tokenizer import HubCodec, Pieces
from specdec_core.proposers import available
from specdec_core.runtime.architectures.t5 import EncoderDecoder
from specdec_core.runtime.reader import Reader
from specdec_core.sampling import Warp
from specdec_core.tree import TokenTree
from specdec_measure.testing import Letters, NextProbs

from .distributions import chance_of, exact_distribution, sample
from .offers import fitting_rule, offered
from .tiny import VOCABULARY, build, tokenizer
from .tiny_t5 import KINDS, generate_t5, module_t5, noisy_t5, pair_t5, tiny_t5
from .trees import BRANCHING, Oracle, largest_difference, paths_alone, random_tree

SOURCES = [[5, 9, 3, 22, 7, 1], [1], [96, 50, 12, 12, 60, 31, 2, 77, 8, 12, 12, 1]]
LENGTH = 24
# Logits of models in float64, whose spread is 1 to 10; in float32 these sharp models round by 1e-4.
TOLERANCE = 1e-5
FALSE_ALARM = 1e-4


@cache
def precise(kind: str) -> PreTrainedModel:
    return tiny_t5(kind).double()


def reader(kind: str, source: list[int], capacity: int = 96) -> Reader:
    return EncoderDecoder("precise", precise(kind), source).reader(capacity)


@pytest.mark.usefixtures("proposers")
@pytest.mark.parametrize("kind", KINDS)
def test_greedy_output_equals_generate(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every proposer that needs no heads, chains and trees, and three sources in turn, so that each proposer reads all
    three over the kinds; every trace is clean and equal to itself after a JSON round trip. Catches: a tree's distances,
    the start token, a draft with another source, rows that stay after a rollback. The last checks keep the test honest:
    texts that vary, drafts that are right in part."""
    models = pair_t5(kind)
    names = offered(models)
    assert {"none", "draft-model", "prompt-lookup"} | {one.name for one in BRANCHING} <= set(names)
    rates, written = [], set()
    for number, proposer in [*enumerate(names), *((at, "draft-model") for at in range(len(SOURCES)))]:
        source = SOURCES[(KINDS.index(kind) + number) % len(SOURCES)]
        expected = generate_t5(module_t5(models), source, LENGTH)
        written |= set(expected)
        monkeypatch.setattr(Oracle, "truth", [0, *expected])
        settings = sd.Settings(proposer=proposer, rule=fitting_rule(proposer), max_new_tokens=LENGTH)
        trace = sd.decode(models, source, settings)
        assert trace.token_ids == expected, f"{kind}, {proposer}, source {source}"
        assert trace.audit() == []
        assert sd.Trace.from_json(trace.to_json()) == trace
        if proposer == "draft-model" and trace.stats.acceptance_rate is not None:
            rates.append(trace.stats.acceptance_rate)
    assert len(written) > 15
    assert min(rates) < 0.95 and max(rates) > 0.1


@pytest.mark.parametrize("policy", LENGTH_POLICIES)
def test_no_length_policy_changes_greedy_text(policy: str) -> None:
    """Catches: a policy that reads the prompt in `tokens`, where only the start token stands."""
    models = pair_t5("mt5")
    settings = sd.Settings(length_policy=policy, max_new_tokens=LENGTH)
    assert sd.decode(models, SOURCES[2], settings).token_ids == generate_t5(
        module_t5(models), SOURCES[2], LENGTH
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_tree_pass_equals_its_paths_read_alone(kind: str) -> None:
    """Every position of random trees, 1 to 20 nodes, after 1 to 30 decoder tokens, against chains, which need no
    correction. Catches: a distance counted along the rows of the pass. Tolerance 1e-5."""
    rng = random.Random(7)
    for size in (1, 2, 5, 20):
        one = reader(kind, SOURCES[size % 3])
        one.prefill([0, *(rng.randrange(VOCABULARY) for _ in range(rng.randrange(0, 30)))])
        root, tree = rng.randrange(VOCABULARY), random_tree(size, VOCABULARY, rng)
        together = one.read(root, tree)
        for node in range(size):
            alone = one.read(root, paths_alone(tree, node))
            assert largest_difference(together[node + 1], alone[-1]) <= TOLERANCE
            assert largest_difference(together[0], alone[0]) <= TOLERANCE


@pytest.mark.parametrize("kind", KINDS)
def test_compacted_memory_equals_a_fresh_pass_over_the_whole_text(kind: str) -> None:
    """Six rounds that each keep a random path of a random tree, then the logits against one transformers pass without
    any memory. Catches: rows gathered wrongly, a source that is encoded again or not at all. Tolerance 1e-5."""
    rng = random.Random(11)
    one = reader(kind, SOURCES[0])
    text = [0]
    for _ in range(6):
        tree = random_tree(rng.randrange(9), VOCABULARY, rng)
        one.read(text[-1], tree)
        path = tree.path(rng.randrange(-1, len(tree)))
        one.keep([0, *(node + 1 for node in path)])
        text += [tree.tokens[node] for node in path] + [rng.randrange(VOCABULARY)]
        assert one.length == len(text) - 1
        with torch.inference_mode():
            expected = precise(kind)(
                input_ids=torch.tensor([SOURCES[0]]), decoder_input_ids=torch.tensor([text]), use_cache=False
            ).logits[0, -1]
        assert largest_difference(one.read(text[-1], TokenTree())[0], expected) <= TOLERANCE


def test_a_tree_grown_level_by_level_equals_one_pass() -> None:
    """Positions that are known are not read again. Catches: a correction for the wrong rows. Tolerance 1e-5."""
    one = reader("t5", SOURCES[0])
    one.prefill([0, 4, 5])
    tree = TokenTree([9, 8, 7, 6, 5, 4], [-1, -1, 0, 0, 1, 3])
    expected = one.read(11, tree)
    rows = [*one.read(11, TokenTree(tree.tokens[:2], tree.parents[:2])), *one.read(11, tree, known=3)]
    assert largest_difference(torch.stack(rows), expected) <= TOLERANCE


def test_the_header_says_what_the_encoder_read_and_the_decoder_started_from() -> None:
    """Catches: a source counted as decoder text, in the record or in the cache."""
    trace = sd.decode(pair_t5("t5"), SOURCES[0], sd.Settings(max_new_tokens=5))
    assert trace.header.prompt_ids == SOURCES[0]
    assert trace.header.decoder_start == [0]
    assert trace.rounds[0].cache_before == 0
    assert trace.stats.prefill_s > 0


def t5_next_probs(model: PreTrainedModel, source: list[int]) -> NextProbs:
    """A model's conditionals given the decoder's text, by passes over the whole of it."""
    known: dict[tuple[int, ...], list[float]] = {}

    def next_probs(text: tuple[int, ...]) -> list[float]:
        if text not in known:
            with torch.inference_mode():
                output = model(
                    input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([text]), use_cache=False
                )
            known[text] = output.logits[0, -1].double().softmax(-1).tolist()
        return known[text]

    return next_probs


@pytest.mark.usefixtures("proposers")
@pytest.mark.parametrize("proposer", ["draft-model", "test-drawn"])
def test_sampled_texts_follow_the_models_distribution(proposer: str) -> None:
    """Four tokens, 130 texts of three of them, against plain passes over whole texts. Catches: a draft or a
    rejected branch that leaves a trace in the distribution. False alarm 1e-4."""
    shape = {"vocab_size": 4, "num_layers": 1, "num_decoder_layers": 1}
    target = tiny_t5("t5-v1.1", **shape)
    models = sd.Models(
        Letters(4),
        EncoderDecoder("target", target),
        EncoderDecoder("draft", noisy_t5(target, "t5-v1.1", 0.3, **shape)),
    )
    settings = sd.Settings(proposer=proposer, draft_length=2, temperature=3.0, max_new_tokens=3, record="off")
    expected = exact_distribution(t5_next_probs(target, [2, 3, 1]), [0], 3, Warp(3.0))
    assert max(expected.values()) < 0.25, "the distribution is too sharp to test a sampler"
    assert chance_of(sample(models, [2, 3, 1], settings, 130), expected) > FALSE_ALARM


@cache
def words() -> PreTrainedTokenizerFast:
    """A tokenizer like T5's: pieces with a mark for the space before them, an end token after every text."""
    text = "the cat sat on mat and dog too said a man in moon"
    pieces = ["<pad>", "</s>", "<unk>", *(f"▁{word}" for word in text.split()), "▁", *"acdehimnost"]
    rust = Tokenizer(
        models.Unigram([(piece, -1.0 - number) for number, piece in enumerate(pieces)], unk_id=2)
    )
    rust.add_special_tokens(pieces[:3])
    rust.pre_tokenizer = pre_tokenizers.Metaspace()
    rust.decoder = decoders.Metaspace()
    rust.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=rust, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


def test_folders_are_loaded_and_text_goes_in_and_out(tmp_path: Path) -> None:
    """From safetensors on disk to a text that ends at the end token, equal to `generate` and to its own ids' text.
    Catches: a causal class that reads half of the weights, an end token in the text, a space before its first word."""
    size = len(words())
    target = tiny_t5("mt5", vocab_size=size, eos_token_id=1)
    draft = noisy_t5(target, "mt5", vocab_size=size, eos_token_id=1)
    for name, model in (("target", target), ("draft", draft)):
        model.save_pretrained(tmp_path / name)
        words().save_pretrained(tmp_path / name)
    loaded = sd.load_models(tmp_path / "target", tmp_path / "draft", device="cpu")
    assert isinstance(loaded.target, EncoderDecoder)
    trace = sd.decode(loaded, "the cat sat", sd.Settings(max_new_tokens=25))
    ids = words().encode("the cat sat")
    assert ids[-1] == 1 and trace.header.prompt_ids == ids and trace.header.prompt == "the cat sat"
    expected = generate_t5(loaded.target.model, ids, 25)
    assert trace.token_ids == expected
    assert trace.text and not trace.text.startswith(" ")
    assert trace.text == words().decode(expected, skip_special_tokens=True)
    assert trace.header.target.architecture == "mt5"
    assert trace.audit() == []


def test_a_word_after_a_token_without_text_keeps_its_space() -> None:
    """Sentinels and unknown tokens are left out of the text. Catches: words that run together across them."""
    ids = [0, *words().encode("the cat")[:-1], 2, *words().encode("sat on")]
    pieces = Pieces(HubCodec(words()), ids[:1])
    assert "".join(map(pieces.push, ids[1:])) == "the cat sat on"


def test_a_text_ends_at_the_end_token() -> None:
    """Catches: an end token that is looked for in the source, or not at all."""
    models = pair_t5("mt5")
    expected = generate_t5(module_t5(models), SOURCES[2], LENGTH)
    end = expected[len(expected) // 2]
    models = sd.Models(models.codec, models.target, models.draft, eos=frozenset({end}))
    trace = sd.decode(models, SOURCES[2], sd.Settings(max_new_tokens=LENGTH))
    assert trace.token_ids == expected[: expected.index(end) + 1]
    assert trace.end == "eos"


def test_what_does_not_fit_is_one_sentence() -> None:
    """A prompt longer than the encoder reads, more tokens than the decoder writes. Catches: one limit for both."""
    target = tiny_t5("t5", n_positions=20)
    models = sd.Models(Letters(VOCABULARY), EncoderDecoder("tiny", target))
    settings = sd.Settings(proposer="prompt-lookup", max_new_tokens=19)
    assert len(sd.decode(models, [5] * 20, settings).token_ids) == 19
    for prompt, length, words_of_it in (([5] * 21, 5, "has 21 tokens"), ([5], 20, "writes at most 19")):
        with pytest.raises(sd.PromptError, match=words_of_it) as caught:
            sd.decode(models, prompt, settings.but(max_new_tokens=length))
        assert str(caught.value).count("\n") == 0 and str(caught.value).endswith(".")


def test_what_needs_a_causal_model_is_not_offered(tmp_path: Path) -> None:
    """Catches: a proposer that runs the encoder's layers, or waits for states that never come."""
    models = pair_t5("t5")
    for name in ("early-exit", "medusa", "eagle"):
        if name in sd.PROPOSERS:
            sentence = available(models)[name]
            assert sentence is not None and sentence.endswith(".")

    class Layered(sd.PROPOSERS["none"]):  # type: ignore[misc, valid-type]
        needs = ("layers", "states")

    assert "causal language models only" in str(Layered.why_not(models))
    words().save_pretrained(tmp_path)
    tiny_t5("t5", vocab_size=len(words())).save_pretrained(tmp_path)
    with pytest.raises(sd.ModelError, match="without heads"):
        sd.load_models(tmp_path, medusa=tmp_path, device="cpu")


def test_a_pair_of_two_kinds_is_refused() -> None:
    """Catches: a draft without an encoder, which would be given nothing but the start token."""
    size = len(tokenizer())
    with pytest.raises(sd.ModelError, match="one of them has an encoder"):
        sd.assemble(tokenizer(), tiny_t5("t5", vocab_size=size), build("llama", vocab_size=size))
    with pytest.raises(sd.ModelError, match="one of them has an encoder"):
        sd.assemble(tokenizer(), build("llama", vocab_size=size), tiny_t5("t5", vocab_size=size))


def test_a_decoder_that_ignores_its_mask_is_refused() -> None:
    """The check at loading, which reads a tree. Catches: an attention to which the correction means nothing."""
    model = tiny_t5("t5", vocab_size=len(tokenizer()))
    forward = model.forward

    def blind(*args: object, decoder_attention_mask: torch.Tensor, **kwargs: object) -> object:
        plain = (
            decoder_attention_mask.clamp(max=0).amax(1, keepdim=True).where(decoder_attention_mask < -1e9, 0)
        )
        return forward(*args, decoder_attention_mask=plain.amin(1, keepdim=True), **kwargs)

    model.forward = blind  # type: ignore[method-assign]
    with pytest.raises(sd.ModelError, match="differently from its branches"):
        sd.assemble(tokenizer(), model)


@pytest.mark.parametrize("config", [BartConfig(), UMT5Config()], ids=["bart", "umt5"])
def test_other_encoder_decoders_are_refused(config: PreTrainedConfig) -> None:
    """BART counts positions by itself, UMT5 has a bias per layer: neither can be corrected by one mask."""
    with pytest.raises(sd.ModelError, match="T5") as caught:
        check_architecture(config, "model")
    assert str(caught.value).endswith(".")


def test_the_catalogue_knows_a_pair_t5() -> None:
    """Catches: an entry that an encoder–decoder's usual name does not find."""
    entry = sd.catalogue.find("google-t5/t5-base")
    assert entry is not None and entry.draft == "google-t5/t5-small"
