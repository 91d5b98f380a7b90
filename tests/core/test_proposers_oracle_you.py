"""The ceiling and the human: the oracle is never wrong and never paid, and what a person types is what is proposed."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest

import specdec_core as sd
from specdec_core.models.bundle import HubModel
from specdec_core.models.tokens.tokenizer import Codec, HubCodec
from specdec_core.proposers.you import continuation
from specdec_core.sampling import Warp
from specdec_measure.testing import scripted

from .distributions import chances, exact_distribution, model_next_probs, samples, wavering
from .tiny import PROMPTS, build, generate, module, pair, tokenizer

ORACLE = sd.Settings(proposer="oracle", draft_length=4, max_new_tokens=30)
YOU = sd.Settings(proposer="you", max_new_tokens=12)


CERTAIN = ["gpt2", "llama", "qwen3", "phi"]


@pytest.mark.parametrize("gamma", [1, 4, 9])
@pytest.mark.parametrize("architecture", CERTAIN)
def test_at_temperature_0_the_oracle_is_always_right(architecture: str, gamma: int) -> None:
    """Everything is accepted, γ + 1 tokens per pass to the end, the text is `generate`'s, and no draft pass is counted;
    two prompts in turn, so that every length meets all four. Catches: an oracle whose memory is a token behind or ahead
    of the text."""
    models = pair(architecture)
    for prompt in PROMPTS[CERTAIN.index(architecture) % 2 :: 2]:
        trace = sd.decode(models, prompt, ORACLE.but(draft_length=gamma))
        assert trace.token_ids == generate(module(models), prompt, 30)
        assert trace.audit() == []
        assert trace.stats.acceptance_rate == 1.0
        assert [len(row.committed.token) for row in trace.rounds[:-1]] == [gamma + 1] * (29 // (gamma + 1))
        assert trace.stats.draft_passes == 0
        for row in trace.rounds:
            assert row.note.get("unpaid_passes", 0) == len(row.nodes.token)


@pytest.mark.parametrize("rule", ["speculative-sampling", "token-matching"])
@pytest.mark.parametrize("guess", ["drawn", "most-likely"])
def test_above_temperature_0_it_proposes_what_the_target_would_say_there(guess: str, rule: str) -> None:
    """A real model: drawn guesses have q = p, so speculative sampling rejects none; likeliest guesses are those of
    `generate`. Catches: a memory that keeps rejected tokens (here many rounds reject), and p and q at two places."""
    models = pair("llama")
    settings = ORACLE.but(rule=rule, options={"guess": guess}, temperature=1.3, top_k=20)
    trace = sd.decode(models, PROMPTS[0], settings)
    text = list(PROMPTS[0])
    for row in trace.rounds:
        assert row.nodes.p is not None and row.nodes.q is not None
        if guess == "drawn":
            depth = len(row.nodes.token)
            assert row.nodes.q == pytest.approx(row.nodes.p, abs=1e-5) and depth <= 4
        elif row.nodes.token:
            assert row.nodes.token == generate(module(models), text, len(row.nodes.token))
        text += row.committed.token
    assert trace.audit() == []
    if (guess, rule) == ("drawn", "speculative-sampling"):
        assert trace.stats.rejected == 0
    else:
        assert trace.stats.rejected > 3


def test_the_oracles_texts_follow_the_targets_distribution() -> None:
    """150 texts of four tokens of either guess with either rule, one by one and together; false alarm 1e-4.
    Catches: a proposal that looks at the coins to come."""
    target, prompt = wavering(3, seed=7), [0, 1, 2]
    settings = ORACLE.but(temperature=1.0, draft_length=2, max_new_tokens=4, record="off")
    cases = {
        (guess, rule): settings.but(rule=rule, options={"guess": guess})
        for guess in ("drawn", "most-likely")
        for rule in ("speculative-sampling", "token-matching")
    }
    found = chances(
        samples(scripted(target), prompt, cases, 150), exact_distribution(target, prompt, 4, Warp(1.0))
    )
    assert min(found.values()) > 1e-4, found


def test_the_oracles_texts_follow_a_real_models_distribution() -> None:
    """A Llama of six tokens and its distribution by plain passes; 110 texts of three tokens, false alarm
    1e-4. Catches: rows of the oracle's own memory that outlive a rejection."""
    models = sd.Models(HubCodec(tokenizer()), HubModel("tiny target", build("llama", vocab_size=6)))
    settings = ORACLE.but(
        options={"guess": "most-likely"}, temperature=1.5, draft_length=2, max_new_tokens=3, record="off"
    )
    expected = exact_distribution(model_next_probs(models.target), [1, 2, 3], 3, Warp(1.5))  # type: ignore[arg-type]
    assert chances(samples(models, [1, 2, 3], {(): settings}, 110), expected)["all"] > 1e-4


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in seconds; it moves only where a test moves it."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def test_the_oracles_time_is_not_counted(clock: list[float]) -> None:
    """Its looks take as long as the target's own, and the lane's draft phases nothing. Catches: an oracle that pays."""
    next_probs, looks = wavering(4, 1), 0

    def slow(text: tuple[int, ...]) -> list[float]:
        nonlocal looks
        clock[0] += 1.0
        looks += 1
        return list(next_probs(text))

    trace = sd.decode(scripted(slow), [0], ORACLE.but(max_new_tokens=10, record="off"))
    assert trace.stats.target_passes == 2
    assert trace.stats.draft_s == 0.0
    assert trace.stats.verify_s == 10.0, "two passes of five rows"
    assert looks > 10 + trace.stats.prefill_s, "the oracle looked too"


def _typed(
    answers: Iterable[str], settings: sd.Settings = YOU, prompt: str | list[int] = "the cat sat"
) -> tuple[sd.Trace, list[str]]:
    """Decode with a person who gives these answers and then none; the trace and the texts the person was shown."""
    left, shown = iter(answers), list[str]()

    def ask(text: str) -> str:
        shown.append(text)
        return next(left, "")

    models = sd.Models(HubCodec(tokenizer()), HubModel("tiny target", build("llama", vocab_size=300)))
    events = list(sd.stream(models, prompt, settings, ask=ask))
    assert isinstance(events[-1], sd.Finished)
    return events[-1].trace, shown


def test_the_person_sees_the_text_and_its_words_are_proposed() -> None:
    """Spaces, joined words, characters of several bytes, an empty answer. Catches: words tokenised as if they began a
    text, an answer that is proposed a round too late, and an empty answer that proposes something."""
    answers = [" on the mat", "urday", "", " naïve 🙂 — ok", "\n\nthe dog", "  two  spaces "]
    trace, shown = _typed(answers)
    codec, text = HubCodec(tokenizer()), list(trace.header.prompt_ids)
    assert shown[0] == "the cat sat"
    for row, answer, seen in zip(trace.rounds, [*answers, *[""] * 12], [*shown, ""], strict=False):
        limit = 12 - (len(text) - len(trace.header.prompt_ids)) - 1
        if limit > 0:
            assert seen == codec.decode(text)
            proposed = codec.decode([*text, *row.nodes.token])
            left_out = row.note["left_out"]
            assert isinstance(left_out, int) and row.note["typed"] == answer
            if left_out == 0:
                assert proposed == seen + answer
            else:
                assert len(row.nodes.token) == limit
        text += row.committed.token
    assert trace.rounds[2].nodes.token == []
    assert trace.audit() == []


def test_who_types_what_the_model_writes_is_always_right() -> None:
    """A person who knows the text by heart: all accepted, and in words as the model's tokenizer would have split them.
    Catches: ids that give the right text and are still not the model's."""
    models = sd.Models(HubCodec(tokenizer()), HubModel("tiny target", build("llama", vocab_size=300)))
    codec = models.codec
    truth = "the cat sat on the mat and the dog sat too"
    ids = codec.encode(truth)
    target = scripted(
        lambda text: [1.0 if token == ids[len(text) % len(ids)] else 0.0 for token in range(300)]
    ).target
    models = sd.Models(codec, target)
    start = len(codec.encode("the cat"))
    settings = YOU.but(max_new_tokens=len(ids) - start)
    events = list(sd.stream(models, "the cat", settings, ask=lambda text: truth[len(text) :][:9]))
    assert isinstance(events[-1], sd.Finished)
    stats = events[-1].stats
    assert events[-1].trace.text == " sat on the mat and the dog sat too"
    assert stats.accepted > 4 and stats.target_passes < len(ids) - start
    first = events[-1].trace.rounds[0]
    assert first.nodes.token == codec.encode("the cat sat on t")[start:][: len(first.nodes.token)]


@pytest.mark.parametrize("bos", [False, True])
@pytest.mark.parametrize("before", ["", "the", "the ca", "naï", "on the mat\n", "sat "])
@pytest.mark.parametrize("typed", [" cat", "t", "cat sat", "🙂", " 🙂ïx", "\n", " ", "the the", "</s>"])
def test_typed_text_is_appended_to_the_letter(before: str, typed: str, bos: bool) -> None:
    """The text of all tokens ends with what was typed, no beginning-of-text token stands in between, and where the
    joint tokenisation leaves the text's own tokens alone its tail is taken. Catches: a doubled space or BOS."""
    fast = tokenizer(bos=bos)
    codec = HubCodec(fast)
    tokens = codec.encode(before)
    ids = continuation(codec, tokens, typed)
    assert fast.decode([*tokens, *ids], skip_special_tokens=False) == ("<s>" if bos else "") + before + typed
    joint = codec.encode(before + typed)
    if joint[: len(tokens)] == tokens and typed != "</s>":
        assert ids == joint[len(tokens) :]


class SpaceAdding:
    """A codec in the manner of SentencePiece: words are tokens with their space, and a text's first word gets one.

    With `normalises` it takes line breaks for nothing, as T5's does for spaces.
    """

    words = ("▁hello", "▁world", "world", "\n", "s", "▁", "▁hellos")

    def __init__(self, normalises: bool) -> None:
        self.normalises = normalises

    def encode(self, text: str) -> list[int]:
        text = text.replace("\n", "") if self.normalises else text
        rest, ids = ("▁" + text.replace(" ", "▁") if text else ""), [100]
        while rest:
            token = self.words.index(max(filter(rest.startswith, self.words), key=len))
            ids.append(token)
            rest = rest[len(self.words[token]) :]
        return [*ids, 101]

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(self.words[token] for token in ids if token < 100).replace("▁", " ").removeprefix(" ")

    def names(self, ids: Iterable[int]) -> list[str]:
        return [str(token) for token in ids]


@pytest.mark.parametrize("normalises", [False, True])
@pytest.mark.parametrize(
    ("typed", "expected"), [("world", [2]), (" world", [1]), (" worlds", [1, 4]), ("worlds", [2, 4])]
)
def test_a_tokenizer_that_begins_every_text_with_a_space_does_not_add_one(
    typed: str, expected: list[int], normalises: bool
) -> None:
    """And special tokens at both ends are left off. Catches: 'hello' + 'world' proposed as 'hello world'."""
    codec: Codec = SpaceAdding(normalises)  # type: ignore[assignment]
    assert continuation(codec, [100, 0], typed) == expected


def test_what_grows_into_the_last_token_gets_no_space_either() -> None:
    """'hello' + 's' would be one token of the whole text; alone it would be ' s'. Catches: the typed text taken by
    itself where its neighbour is lost."""
    assert continuation(SpaceAdding(normalises=False), [100, 0], "s") == [4]  # type: ignore[arg-type]


def test_at_most_64_tokens_are_proposed_and_never_beyond_the_limit() -> None:
    """Catches: KV memory written beyond what was reserved, and a person asked when nothing can be used any more."""
    models = sd.Models(HubCodec(tokenizer()), HubModel("tiny target", build("llama", vocab_size=300)))
    for length in (1, 2, 5, 100):
        asked: list[str] = []

        def ask(text: str, asked: list[str] = asked) -> str:
            asked.append(text)
            return " the cat" * 500

        events = list(sd.stream(models, "the", YOU.but(max_new_tokens=length), ask=ask))
        assert isinstance(events[-1], sd.Finished)
        trace, written = events[-1].trace, 0
        for row in trace.rounds:
            assert len(row.nodes.token) == min(64, length - written - 1)
            written += len(row.committed.token)
        assert len(asked) == sum(bool(row.nodes.token) for row in trace.rounds)


def test_the_persons_time_is_not_counted(clock: list[float]) -> None:
    """Catches: a clock that runs while somebody thinks."""

    def slow(text: str) -> str:
        clock[0] += 60.0
        return "b"

    events = list(sd.stream(scripted(wavering(4, 1)), [0], YOU.but(max_new_tokens=4), ask=slow))
    assert isinstance(events[-1], sd.Finished)
    assert clock[0] >= 60.0
    assert events[-1].stats.draft_s == 0.0


def test_half_a_character_and_an_unknown_letter_do_no_harm() -> None:
    """A lone surrogate, as a browser can send it, would stop the tokenizer and the record. Letters the vocabulary lacks
    propose nothing."""
    trace, _ = _typed(["\ud83d the", "ok\udc00"])
    assert trace.rounds[0].note["typed"] == " the"
    assert sd.Trace.from_json(trace.to_json()) == trace


def test_nobody_to_ask_is_refused_in_one_sentence() -> None:
    """Catches: a traceback, or a decode that silently proposes nothing."""
    with pytest.raises(sd.SettingsError, match="needs a person"):
        sd.decode(scripted(wavering(4, 1)), [0], YOU)


def test_the_oracle_obeys_a_length_policy_that_asks() -> None:
    """A draft ends after the first token that the target itself gives less than the threshold. Catches: a policy that
    is not asked, and a memory that is out of step after a short draft."""
    # a threshold among this tiny model's flat probabilities
    models, threshold, written = pair("gpt2"), 0.042, 0
    settings = ORACLE.but(length_policy="confidence", length_options={"threshold": threshold})
    trace = sd.decode(models, PROMPTS[0], settings)
    assert trace.token_ids == generate(module(models), PROMPTS[0], 30)
    assert trace.stats.acceptance_rate == 1.0
    lengths = set()
    for row in trace.rounds:
        assert row.nodes.model_p is not None
        sure = [chance is not None and chance >= threshold for chance in row.nodes.model_p]
        assert all(sure[:-1])
        assert len(sure) == min(4, 30 - written - 1) or not sure[-1]
        written += len(row.committed.token)
        lengths.add(len(sure))
        assert row.note.get("unpaid_passes", 0) == len(sure)
    assert len(lengths) > 2
