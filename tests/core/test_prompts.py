"""What a prompt may be, and with which sentence everything else is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

import specdec_core as sd
from specdec_core.models.bundle import HubModel
from specdec_core.models.tokens.tokenizer import HubCodec
from specdec_measure.testing import Letters, scripted

from .distributions import wavering
from .tiny import build, pair, tokenizer

SHORT = sd.Settings(proposer="none", max_new_tokens=5)


def _text_models(bos: bool = False) -> sd.Models:
    words = tokenizer(bos=bos)
    return sd.Models(
        HubCodec(words),
        HubModel("tiny", build("llama", vocab_size=len(words) + 4)),
        bos=words.bos_token_id if bos else None,
    )


def _refused(models: sd.Models, prompt: str | Sequence[int], settings: sd.Settings = SHORT) -> str:
    with pytest.raises(sd.PromptError) as caught:
        sd.stream(models, prompt, settings)  # refused at the call, before the first event is asked for
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence
    return sentence


@pytest.mark.parametrize("prompt", ["", []])
def test_an_empty_prompt_is_refused_where_there_is_no_bos(prompt: str | list[int]) -> None:
    """Catches: reading from nothing."""
    assert "empty" in _refused(scripted(wavering(5, 1)), prompt)


@pytest.mark.parametrize("prompt", ["", []])
@pytest.mark.parametrize("proposer", ["none", "draft-model", "prompt-lookup"])
def test_an_empty_prompt_starts_from_bos(prompt: str | list[int], proposer: str) -> None:
    """Equal to the prompt that is BOS alone. Catches: an empty prefill, or BOS in the text."""
    models = scripted(wavering(5, 1), wavering(5, 2), bos=0)
    trace = sd.decode(models, prompt, SHORT.but(proposer=proposer))
    assert trace.header.prompt_ids == [0]
    assert trace.token_ids == sd.decode(models, [0], SHORT.but(proposer=proposer)).token_ids
    assert trace.audit() == []


@pytest.mark.parametrize("prompt", [[0, 97], [-1], [2, 10**12]])
def test_ids_out_of_range_are_refused(prompt: list[int]) -> None:
    """Catches: an IndexError from the embedding, or a negative id that wraps round."""
    assert "knows ids 0 to 96" in _refused(pair("llama"), prompt)


def test_the_last_id_of_the_vocabulary_is_valid() -> None:
    """Catches: refusing by the tokenizer's size instead of the model's."""
    assert sd.decode(pair("llama"), [96], SHORT).audit() == []


@pytest.mark.parametrize("prompt", [["a"], [1.5], [None], [float("nan")], b"abc", {}, {1}, 7], ids=repr)
def test_ids_that_are_no_integers_is_refused(prompt: object) -> None:
    """Catches: a TypeError from deep inside, 1.5 read as 1, and bytes whose numbers are taken for tokens."""
    _refused(pair("llama"), prompt)  # type: ignore[arg-type]


def test_what_goes_where_is_said_to_whoever_mistakes_it() -> None:
    """Catches: an AttributeError from deep inside; {} that is taken for the defaults, a text for a list of letters."""
    models = scripted(wavering(5, 1), wavering(5, 2), bos=0)
    trace = sd.decode(models, "ab", SHORT)
    wrong: list[Callable[[], object]] = [
        lambda: sd.decode("tiny", "ab"),  # type: ignore[arg-type]
        lambda: sd.decode(models, "ab", {}),  # type: ignore[arg-type]
        lambda: sd.race(models, "ab", None),  # type: ignore[arg-type]
        lambda: sd.race(models, "ab", ["plain"]),  # type: ignore[list-item]
        lambda: sd.decode_batch(models, "ab"),
        lambda: sd.decode_batch(None, ["ab"]),  # type: ignore[arg-type]
        lambda: sd.counterfactual.judge_again(None, "block"),  # type: ignore[arg-type]
        lambda: trace.show(3),  # type: ignore[arg-type]
        lambda: sd.show.show(trace),  # type: ignore[arg-type]
        lambda: sd.Chat(3),  # type: ignore[arg-type]
        lambda: sd.Chat("a", None),  # type: ignore[arg-type]
        lambda: list(sd.stream(models, "ab", sd.Settings(proposer="you"), ask=lambda text: 3)),  # type: ignore[arg-type, return-value]
        lambda: sd.portable.transformers_code(3, "a", "b"),  # type: ignore[arg-type]
        lambda: sd.portable.vllm_code(None, "a"),  # type: ignore[arg-type]
        lambda: sd.portable_servers.sglang_code({}, "a"),  # type: ignore[arg-type]
        lambda: sd.portable_servers.llama_cpp_code({}, "a"),  # type: ignore[arg-type]
        lambda: sd.portable_servers.lm_studio_code({}, "a"),  # type: ignore[arg-type]
    ]
    for call in wrong:
        with pytest.raises(sd.SpecdecError, match=r"got (None|a value of type \w+)\.$"):
            call()


def test_a_prompt_longer_than_the_models_window_is_refused() -> None:
    """The room asked for counts too: 256 positions in all. Catches: an index error late in the run."""
    models = pair("gpt2")
    assert "256" in _refused(models, [1] * 252)
    assert len(sd.decode(models, [1] * 251, SHORT).token_ids) == 5
    full = sd.decode(models, [1] * 200, sd.Settings(draft_length=64, max_new_tokens=56))
    assert len(full.token_ids) == 56


def test_a_hundred_kilobytes_are_refused_with_a_sentence() -> None:
    """Catches: a page that hangs, or a traceback."""
    assert "Shorten the prompt" in _refused(_text_models(), "word " * 20_000)
    assert "Shorten it" in _refused(_text_models(), "x" * 1_000_001)


def test_half_a_character_is_refused() -> None:
    """A lone surrogate, as a browser can send it. Catches: UnicodeEncodeError in the tokenizer."""
    assert "surrogate" in _refused(_text_models(), "a\ud83d")


@pytest.mark.parametrize(
    "prompt",
    [
        "   ",
        "\n\t",
        "\0",
        "😀👩‍👩‍👧‍👦",
        "مرحبا بالعالم",
        "你好，世界",
        "é́́́",
        "<script>alert(1)</script> $math$",
        "a\u202eb",
    ],
    ids=ascii,
)
@pytest.mark.parametrize("bos", [False, True])
def test_any_text_is_a_prompt(prompt: str, bos: bool) -> None:
    """Spaces, control marks, emoji, right-to-left, markup. Catches: a text that changes on its way into the trace."""
    trace = sd.decode(_text_models(bos), prompt, SHORT.but(proposer="prompt-lookup"))
    assert trace.header.prompt == prompt
    assert len(trace.header.prompt_texts) == len(trace.header.prompt_ids)
    assert trace.audit() == []
    assert sd.Trace.from_json(trace.to_json()) == trace


def test_a_models_prompt_ids_may_be_any_sequence_of_integers() -> None:
    """A tuple, a range, numpy's integers. Catches: a trace that holds numbers JSON cannot write."""
    import numpy as np

    models = sd.Models(Letters(97), pair("llama").target)
    for prompt in ((1, 2), range(1, 3), np.array([1, 2])):
        trace = sd.decode(models, prompt, SHORT)  # type: ignore[arg-type]
        assert trace.header.prompt_ids == [1, 2]
        assert sd.Trace.from_json(trace.to_json()) == trace
