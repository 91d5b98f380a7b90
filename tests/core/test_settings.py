"""Settings: every value that cannot be served is refused with one sentence, before anything is loaded or computed."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

import specdec_core as sd
from specdec_core.proposers import available
from specdec_measure.testing import scripted

from .distributions import wavering

BAD = [
    {"draft_length": -1},
    {"draft_length": 0},
    {"draft_length": 65},
    {"draft_length": 2.5},
    {"draft_length": True},
    {"draft_length": "four"},
    {"draft_length": "4"},
    {"temperature": "0.5"},
    {"min_p": b"0.1"},
    {"overlap": "yes"},
    {"overlap": 1},
    {"draft_length": None},
    {"draft_length": math.nan},
    {"draft_length": 10**400},
    {"max_new_tokens": 0},
    {"max_new_tokens": -5},
    {"max_new_tokens": 5000},
    {"max_new_tokens": math.inf},
    {"temperature": -0.1},
    {"temperature": math.nan},
    {"temperature": "nan"},
    {"temperature": math.inf},
    {"temperature": "inf"},
    {"temperature": 11},
    {"temperature": True},
    {"temperature": [1.0]},
    {"top_k": -1},
    {"top_k": 0.5},
    {"top_k": True},
    {"temperature": 1e-45},
    {"temperature": 0.009},
    {"top_p": 0.0},
    {"top_p": 1.1},
    {"top_p": -1},
    {"top_p": math.nan},
    {"top_p": True},
    {"min_p": -0.1},
    {"min_p": 1.1},
    {"min_p": math.nan},
    {"min_p": True},
    {"repetition_penalty": 0},
    {"repetition_penalty": -1.0},
    {"repetition_penalty": 11},
    {"repetition_penalty": math.inf},
    {"repetition_penalty": True},
    {"repetition_penalty": "high"},
    {"no_repeat_ngram_size": -1},
    {"no_repeat_ngram_size": 101},
    {"no_repeat_ngram_size": 2.5},
    {"no_repeat_ngram_size": True},
    {"seed": -1},
    {"seed": 2**63},
    {"seed": True},
    {"seed": "seven"},
    {"stop": ("",)},
    {"stop": ("x" * 65,)},
    {"stop": tuple("abcdefghi")},
    {"stop": 5},
    {"stop": "x"},
    {"stop": (5,)},
    {"record": "some"},
    {"record": None},
    {"options": {"x": None}},
    {"options": 5},
    {"proposer": 5},
    {"proposer": "x" * 100},
    {"rule": None},
    {"colour": "blue"},
    {"temprature": 0.5},
]

UNSERVED = [
    {"proposer": "crystal-ball"},
    {"proposer": ""},
    {"rule": "majority"},
    {"rule": "exact-match", "temperature": 0.1},
    {"options": {"depth": 3}},
    {"proposer": "prompt-lookup", "options": {"max_ngram": "three"}},
    {"proposer": "prompt-lookup", "options": {"max_ngram": True}},
    {"proposer": "prompt-lookup", "options": {"max_ngram": 0}},
    {"proposer": "prompt-lookup", "options": {"max_ngram": -1}},
    {"proposer": "prompt-lookup", "options": {"max_ngrams": 3}},
    {"rule_options": {"epsilon": 0.1}},
]


def _is_one_sentence(text: str) -> bool:
    return text.endswith((".", "?")) and "\n" not in text and len(text) < 400 and "Traceback" not in text


@pytest.mark.parametrize("values", BAD, ids=lambda values: str(values)[:40])
def test_a_bad_value_is_refused(values: dict[str, object]) -> None:
    """Catches: a value that pydantic would bend into shape, several lines of its own wording, and another exception."""
    with pytest.raises(sd.SettingsError) as caught:
        sd.Settings(**values)
    assert _is_one_sentence(str(caught.value))
    assert next(iter(values)) in str(caught.value)
    assert "pydantic" not in str(caught.value) and "tuple" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"draft_length": 0}, "'draft_length' has to be a whole number from 1 to 64, got 0."),
        ({"top_p": "x"}, "'top_p': a number is expected, got 'x'."),
        ({"record": "all"}, "'record' has to be one of full, tokens, off, got 'all'."),
        ({"proposr": "x"}, "'proposr' is not a known field (did you mean 'proposer'?)."),
        ({"colour": 1}, "'colour' is not a known field."),
        ({"proposer": "x" * 65}, "'proposer' may have at most 64 characters, got "),
        ({"stop": [""]}, "'stop.0' needs at least 1 character, got ''."),
        ({"rule": None}, "'rule' has to be a text, got None."),
    ],
)
def test_a_refusal_says_what_would_be_taken(values: dict[str, object], said: str) -> None:
    """Catches: pydantic's own words, a bound without the other one, a misspelt name without the one that is meant."""
    with pytest.raises(sd.SettingsError) as caught:
        sd.Settings(**values)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("values", UNSERVED, ids=lambda values: str(values)[:60])
def test_what_no_proposer_or_rule_can_serve_is_refused(values: dict[str, object]) -> None:
    """Refused when the stream is asked for, not at its first event."""
    models = scripted(wavering(5, 1), wavering(5, 2))
    with pytest.raises(sd.SettingsError) as caught:
        sd.stream(models, [1], sd.Settings(**values))
    assert _is_one_sentence(str(caught.value))


def test_a_proposer_that_needs_a_draft_is_refused_without_one() -> None:
    """The sentence names the proposer; the same reason is what a picker shows."""
    models = scripted(wavering(5, 1))
    with pytest.raises(sd.SettingsError, match="'draft-model' needs a draft model") as caught:
        sd.decode(models, [1])
    assert available(models)["draft-model"] == str(caught.value)
    assert available(models)["none"] is None


def test_the_defaults_are_those_of_the_design() -> None:
    """Section 5; catches a default that drifts."""
    assert sd.Settings().model_dump() == {
        "proposer": "draft-model",
        "rule": "speculative-sampling",
        "draft_length": 4,
        "max_new_tokens": 128,
        "temperature": 0.0,
        "top_k": 0,
        "top_p": 1.0,
        "min_p": None,
        "repetition_penalty": None,
        "no_repeat_ngram_size": None,
        "seed": 0,
        "stop": (),
        "options": {},
        "rule_options": {},
        "length_policy": "fixed",
        "length_options": {},
        "memory_budget_mb": 0.0,
        "overlap": False,
        "record": "full",
    }


def test_settings_are_immutable_and_but_validates() -> None:
    """Catches: a lane that changes another lane's settings, and a change that skips the checks."""
    base = sd.Settings()
    with pytest.raises(ValidationError):
        base.seed = 3  # type: ignore[misc]
    assert base.but(seed=3).seed == 3 and base.seed == 0
    with pytest.raises(sd.SettingsError):
        base.but(draft_length=-1)


@pytest.mark.parametrize("temperature", [0.01, 0.05, 1.0, 10.0])
@pytest.mark.parametrize("proposer", ["none", "draft-model"])
def test_every_temperature_that_is_taken_can_be_decoded_at(temperature: float, proposer: str) -> None:
    """Catches: logits divided to infinity, whose softmax is not a number."""
    models = scripted(wavering(12, 1), wavering(12, 2))
    settings = sd.Settings(proposer=proposer, max_new_tokens=12)
    trace = sd.decode(models, [1, 2], settings.but(temperature=temperature))
    assert trace.audit() == []


def test_errors_are_value_errors() -> None:
    """What a script would catch without knowing this package."""
    for kind in (sd.SettingsError, sd.PromptError, sd.ModelError, sd.TraceError):
        assert issubclass(kind, sd.SpecdecError) and issubclass(kind, ValueError)
