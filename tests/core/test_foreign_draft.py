"""Drafts with another tokenizer: the two splits of one text, the shared tokens, and that no text changes."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

import specdec_core as sd
from specdec_core.models.assembling import assemble, foreign
from specdec_core.models.bundle import HubModel
from specdec_core.models.tokens.tokenizer import HubCodec
from specdec_core.models.tokens.translation import ForeignDraft, Spelling
from specdec_core.proposers.draft.shared_tokens import SharedReader
from specdec_core.rules import RULES
from specdec_measure.exact.distribution import distance
from specdec_measure.testing import Letters, ScriptedModel, Syllables, scripted

from .distributions import wavering
from .tiny import build, generate, like, module, renumbered, tokenizer

BOTH = ("text-draft", "shared-tokens")
TEXTS = [
    "the cat sat on the mat",
    "  two spaces\n\nand lines",
    "naïve 🦊 café, déjà vu!",
    "x",
    "the the  the\ttabs",
]
SENTENCES = ["a fox and a dog met on the mat", "the fox sat and the dog ran to the cat"] * 4


@cache
def pieces() -> PreTrainedTokenizerFast:
    """BPE as SentencePiece writes it: '▁' for spaces, and bytes as <0x…> where a character is unknown."""
    rust = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    rust.pre_tokenizer = pre_tokenizers.Metaspace()
    rust.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    named = ["</s>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=330, special_tokens=named, show_progress=False)
    rust.train_from_iterator(SENTENCES, trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=rust, eos_token="</s>", unk_token="<unk>")
    made.backend_tokenizer.encode_special_tokens = True
    return made


@cache
def reordered() -> PreTrainedTokenizerFast:
    """`tokenizer()` with its ids in the opposite order, so that an id that is not translated means something else."""
    import json

    kept = json.loads(tokenizer().backend_tokenizer.to_str())
    vocabulary = kept["model"]["vocab"]
    kept["model"]["vocab"] = {name: len(vocabulary) - 1 - token for name, token in vocabulary.items()}
    for special in kept["added_tokens"]:
        special["id"] = len(vocabulary) - 1 - special["id"]
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(kept)), bos_token="<s>", eos_token="</s>"
    )


@cache
def across(own: str, noise: float = 0.0) -> sd.Models:
    """A tiny target with a draft of that tokenizer: the same weights under other numbers, or weights of its own."""
    size = len(tokenizer())
    target = build("llama", vocab_size=size)
    models = assemble(tokenizer(), target)
    if own == "reordered":
        draft = renumbered(like(target, "llama", noise, vocab_size=size) if noise else target)
        models.foreign_draft = foreign(models, reordered(), draft)
    else:
        models.foreign_draft = foreign(models, pieces(), build("gpt2", seed=4, vocab_size=len(pieces())))
    return models


def shared_only(vocabulary: int = 3) -> tuple[sd.Models, ForeignDraft]:
    """A scripted target of letters and a draft of four tokens, of which 'a' and 'c' are the target's as well."""
    models = scripted(wavering(vocabulary, seed=1))
    draft = ScriptedModel(wavering(4, seed=2), 4, "other")
    made = ForeignDraft(draft, Syllables("c", "ab", "a", "bc"), 1, None, (models.codec, vocabulary, None))
    return replace(models, foreign_draft=made), made


@pytest.mark.parametrize("made", [tokenizer, pieces], ids=["byte-level", "sentencepiece"])
def test_a_text_cut_anywhere_is_written_by_the_two_splits(made: object) -> None:
    """Catches: lost leading spaces, halves of characters, a token that reaches over the cut."""
    spelling = Spelling(HubCodec(made()), 10**6)  # type: ignore[operator]
    for text in TEXTS:
        data = text.encode()
        for cut in range(len(data) + 1):
            assert spelling.text(spelling.after(data[:cut], data[cut:])) == data[cut:], (text, cut)
    words = b"the cat sat on the mat and the dog sat too"
    whole = spelling.codec.split(words.decode())
    for count in range(1, len(whole)):  # where a token begins, the split is the tokenizer's own
        start = len(words) - len(spelling.text(whole[count:]))
        assert spelling.after(words[:start], words[start:]) == whole[count:]


def test_shared_tokens_write_the_same_bytes() -> None:
    """Also between byte-level and SentencePiece names. Catches: a map by names or by ids, the wrong direction."""
    for family in (across("reordered"), across("pieces")):
        draft = family.foreign_draft
        assert draft is not None
        ordinary = {token: own for token, own in draft.shared.items() if token in draft.target.bytes}
        assert len(ordinary) > 200
        assert all(draft.target.bytes[token] == draft.own.bytes[own] for token, own in ordinary.items())
        assert sum(token != own for token, own in ordinary.items()) > 150
        assert draft.shared[draft.target_eos or -1] == draft.eos
        for token in family.codec.split(" the mat and the dog"):
            assert draft.own.text(draft.spelled(token)) == draft.target.bytes[token]


@pytest.mark.parametrize("proposer", BOTH)
@pytest.mark.parametrize("own", ["reordered", "pieces"])
def test_greedy_text_is_the_targets(proposer: str, own: str) -> None:
    """As `generate` writes it, plain and with the assistant and its tokenizer. Catches: a guess taken unverified, a
    draft's cache out of step with the text."""
    models = across(own)
    draft = models.foreign_draft
    assert draft is not None and isinstance(draft.model, HubModel)
    for prompt in ("the cat sat on", "café 🦊 the"):
        ids = models.codec.encode(prompt)
        trace = sd.decode(models, ids, sd.Settings(proposer=proposer, max_new_tokens=40))
        expected = generate(module(models), ids, 40)
        assert trace.token_ids == expected and trace.audit() == []
        # once; and of vocabularies of one size transformers assumes that they are the same
        if own == "pieces" and proposer == "text-draft" and prompt.isascii():
            assisted = generate(
                module(models), ids, 16, assistant_model=draft.model.model, tokenizer=models.codec.tokenizer,  # type: ignore[attr-defined]
                assistant_tokenizer=draft.codec.tokenizer,  # type: ignore[attr-defined]
            )  # fmt: skip
            assert trace.token_ids[:16] == assisted
        assert trace.header.draft == draft.model.info


def test_the_target_under_other_numbers_is_always_right() -> None:
    """Its own weights draft, with every token renumbered. Catches: ids that are translated in one direction only, a
    position or a row too few, the draft's KV cache after a rejection."""
    models = across("reordered")
    ids = models.codec.encode("the dog and the cat")
    for temperature in (0.0, 1.0):
        trace = sd.decode(
            models, ids, sd.Settings(proposer="shared-tokens", temperature=temperature, max_new_tokens=48)
        )
        assert trace.stats.acceptance_rate == pytest.approx(1.0, abs=0.03)
        assert trace.stats.tokens_per_pass is not None and trace.stats.tokens_per_pass > 4.5
    again = sd.decode(models, ids, sd.Settings(proposer="text-draft", max_new_tokens=48))
    assert again.stats.accepted > 0.5 * 48


@pytest.mark.parametrize("proposer", BOTH)
def test_drafting_goes_on_when_the_drafts_window_is_full(proposer: str) -> None:
    """Catches: a draft read beyond what it can hold, a draft that falls silent for good."""
    models = across("reordered")
    draft = models.foreign_draft
    assert draft is not None and isinstance(draft.model, HubModel)
    short = HubModel("short", draft.model.model)
    short.positions = 40
    target = draft.target_codec, draft.vocabulary, draft.target_eos
    cut = replace(models, foreign_draft=ForeignDraft(short, draft.codec, 0, draft.eos, target))
    ids = models.codec.encode("the cat sat on the mat and the dog sat too, " * 3)
    trace = sd.decode(cut, ids, sd.Settings(proposer=proposer, max_new_tokens=60))
    assert trace.token_ids == generate(module(models), ids, 60) and trace.audit() == []
    assert trace.rounds[-2].nodes.token


def test_q_is_the_drafts_restricted_to_the_shared_tokens() -> None:
    """Catches: mass on tokens the draft lacks, a distribution that was not renormalised, text that was read in the
    target's numbers."""
    _, draft = shared_only()
    reader = SharedReader(draft.model.reader(100), draft, 100)
    reader.prefill([0, 2])  # 'ac' is 'a', 'c' to the draft
    logits = reader.step(torch.tensor([1, 0]))  # 'b' is nothing it has, and is left out; then 'a'
    own = draft.model.next_probs((2, 0, 2))  # type: ignore[attr-defined]
    wanted = torch.tensor([own[2], 0.0, own[0]]) / (own[2] + own[0])
    assert torch.allclose(logits.softmax(-1), wanted, atol=1e-6)


@pytest.mark.parametrize(
    "rule", [name for name, kind in RULES.items() if kind.lossless and name != "exact-match"]
)
def test_the_rules_are_exact_on_shared_tokens(rule: str) -> None:
    """Enumerated to rounding, over chains of q as this reader gives it. Catches: a q that is no distribution."""
    models, draft = shared_only()
    target = models.target.next_probs  # type: ignore[attr-defined]

    def q(context: tuple[int, ...]) -> list[float]:
        reader = SharedReader(draft.model.reader(100), draft, 100)
        reader.prefill([0])
        chances = reader.step(torch.tensor([2, *context])).double().softmax(-1)
        return chances.tolist()

    if RULES[rule].unsuited("chain") is None:
        for shape in ((-1,), (-1, 0), (-1, 0, 1)):
            assert (
                distance(RULES[rule](), shape, lambda context: target((0, 2, *context)), q, "independent")
                < 1e-12
            )


@pytest.mark.parametrize("proposer", BOTH)
def test_the_record_keeps_the_drafts_own_tokens(proposer: str) -> None:
    """Ids, their texts in one, and where each ends; a trace stays readable by versions that know none of them.
    Catches: the target's ids in their place, texts that do not match the ids."""
    models = across("pieces")
    draft = models.foreign_draft
    assert draft is not None
    trace = sd.decode(models, "the cat", sd.Settings(proposer=proposer, max_new_tokens=12))
    again = sd.Trace.from_json(trace.to_json())
    assert again == trace
    seen = 0
    for row in again.rounds:
        if not row.nodes.token:
            continue
        ids, text, ends = (row.note[name] for name in ("draft_ids", "draft_text", "draft_ends"))
        assert isinstance(ids, list) and isinstance(text, str) and isinstance(ends, list)
        cut = [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        assert cut == draft.codec.names(ids)  # type: ignore[arg-type]
        assert row.draft_passes == len(ids)
        seen += 1
    assert seen > 2


def test_both_ways_are_named_where_a_draft_is_refused(tmp_path: Path) -> None:
    """And work as the sentence says. Catches: names of proposers or of an argument that do not exist."""
    for name, words in (("mine", tokenizer()), ("other", reordered())):
        build("llama", vocab_size=len(words)).save_pretrained(tmp_path / name)
        words.save_pretrained(tmp_path / name)
    with pytest.raises(sd.ModelError) as refused:
        sd.load_models(tmp_path / "mine", tmp_path / "other", device="cpu")
    assert all(f"'{name}'" in str(refused.value) for name in BOTH) and "foreign_draft=" in str(refused.value)
    models = sd.load_models(tmp_path / "mine", foreign_draft=tmp_path / "other", device="cpu")
    assert models.draft is None
    for name in BOTH:
        assert sd.decode(models, "the cat", sd.Settings(proposer=name, max_new_tokens=4)).audit() == []


def test_what_cannot_draft_is_refused_with_a_sentence() -> None:
    models = scripted(wavering(3, 1))
    for name in BOTH:
        with pytest.raises(sd.SettingsError, match=r"another tokenizer.*foreign_draft="):
            sd.decode(models, [0], sd.Settings(proposer=name))
    apart = ForeignDraft(
        ScriptedModel(wavering(2, 1), 2), Syllables("x", "y"), 0, None, (Letters(3), 3, None)
    )
    with pytest.raises(sd.SettingsError, match=r"no token in common.*'text-draft'"):
        sd.decode(replace(models, foreign_draft=apart), [0], sd.Settings(proposer="shared-tokens"))


def test_random_texts_and_rollbacks_end_in_the_same_text() -> None:
    """A noisy draft is right about half the time, so rounds end everywhere in its tokens. Catches: a draft whose text
    is not the committed one after a partial round."""
    models = across("reordered", 0.3)
    numbers = random.Random(2)
    for proposer in BOTH:
        ids = [numbers.randrange(3, 270) for _ in range(9)]
        settings = sd.Settings(proposer=proposer, draft_length=5, max_new_tokens=60)
        trace = sd.decode(models, ids, settings)
        assert trace.token_ids == generate(module(models), ids, 60)
        assert 0 < trace.stats.accepted < trace.stats.proposed
