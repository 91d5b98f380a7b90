"""Whatever is offered as a trace, the answer is a trace or one clear sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import specdec_core as sd
from specdec_core.record.schema import MAX_JSON_BYTES
from specdec_measure.testing import scripted

from .distributions import wavering

GOOD = sd.decode(
    scripted(wavering(8, 1), wavering(8, 2)), [0, 1, 2], sd.Settings(temperature=1.0, max_new_tokens=12)
).to_json()
START = '{"format":"specdec-trace","version":1'


def _with(*path: Any, value: Any) -> str:
    """The good trace with one value replaced."""
    content: Any = json.loads(GOOD)
    *above, last = path
    inner = content
    for part in above:
        inner = inner[part]
    inner[last] = value
    return json.dumps(content)


def _refused(text: str | bytes) -> str:
    """The sentence with which a text is refused; fails on any other exception, and on acceptance."""
    with pytest.raises(sd.TraceError) as caught:
        sd.Trace.from_json(text)
    sentence = str(caught.value)
    assert len(sentence) < 400, "a sentence must fit on a page, however large the file is"
    assert "Traceback" not in sentence and "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


NOT_JSON = {
    "empty": "",
    "prose": "hello",
    "truncated": GOOD[: len(GOOD) // 2],
    "one byte short": GOOD[:-1],
    "twice": GOOD + GOOD,
    "NaN": GOOD.replace('"start_s":0.0', '"start_s":NaN', 1),
    "Infinity": _with("rounds", 0, "start_s", value=float("inf")),
    "nested without end": "[" * 100_000,
    "nested too deeply": START + ',"x":' + "[" * 5_000 + "]" * 5_000 + "}",
    "other bytes": b"\xff\xfe\x00",
    "zeros": "\0" * 10,
    "half a character, escaped": START + ',"x":"\\ud800"}',
    "half a character": START + ',"x":"\ud800"}',
}


@pytest.mark.parametrize("text", NOT_JSON.values(), ids=NOT_JSON.keys())
def test_what_is_no_json_is_refused(text: str | bytes) -> None:
    """Catches: another exception than TraceError, and an answer that does not say what is wrong."""
    assert "not a trace" in _refused(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (NOT_JSON["truncated"], "not complete JSON: EOF"),
        (NOT_JSON["NaN"], "not valid JSON: it has NaN or Infinity; write null"),
        (NOT_JSON["twice"], "not valid JSON: trailing"),
        ("runs/trace.json", "takes the text of a record, not a path"),
        ("C:\\runs\\one", "got 'C:\\runs\\one'"),
    ],
)
def test_what_is_wrong_with_the_text_is_said(text: str, said: str) -> None:
    """Catches: a whole text that is called cut off, a path that is called JSON."""
    assert said in _refused(text)


NO_TRACE = {
    "null": "null",
    "a list": "[]",
    "a number": "5",
    "another format": '{"format":"har","version":1}',
    "another version": _with("version", value=2),
    "a version in words": _with("version", value="1"),
    "a true version": _with("version", value=True),
    "only the beginning": START + "}",
    "an unknown key": _with("hello", value=1),
    "an unknown key inside": _with("rounds", 0, "nodes", "hello", value=[1]),
    "no list of rounds": _with("rounds", value={"0": 1}),
    "text for rounds": _with("rounds", value="abc"),
    "a number in words": _with("rounds", 0, "index", value="0"),
    "ids in words": _with("output", "ids", value=["1"] * 12),
    "truth for a number": _with("rounds", 0, "index", value=False),
    "a huge number": _with("rounds", 0, "index", value=10**400),
    "a negative number": _with("rounds", 0, "index", value=-1),
    "an unknown verdict": _with("rounds", 0, "nodes", "verdict", value=["maybe"] * 4),
    "an unknown end": _with("end", value="tired"),
    "a probability of two": _with("rounds", 0, "nodes", "p", value=[2.0] * 4),
    "a script as id": _with("header", "id", value="<script>"),
    "a word as token": _with("texts", value={"x": "y"}),
    "a parent after its child": _with("rounds", 0, "nodes", "parent", value=[1, 0, 1, 2]),
    "a node that is its own parent": _with("rounds", 0, "nodes", "parent", value=[0, 0, 1, 2]),
    "a parent before the root": _with("rounds", 0, "nodes", "parent", value=[-5, 0, 1, 2]),
    "a short column": _with("rounds", 0, "nodes", "token", value=[1]),
    "a long column": _with("rounds", 0, "nodes", "coin", value=[0.5] * 9),
    "a million nodes": _with("rounds", 0, "nodes", "token", value=[1] * 1_000_000),
    "tokens without a source": _with("rounds", 0, "committed", "source", value=[]),
    "a position nowhere": _with("rounds", 0, "positions", 0, "at", value=70),
    "candidates without probabilities": _with("rounds", 0, "positions", 0, "model_p", "prob", value=[0.5]),
    "no candidates": _with("rounds", 0, "positions", 0, "model_p", value={"id": [], "prob": [], "tail": 1.0}),
    "block masses for other nodes": _with("rounds", 0, "block_mass", value=[0.1] * 77),
    "prompt texts for other ids": _with("header", "prompt_texts", value=[]),
    "output texts for other ids": _with("output", "texts", value=[]),
}


@pytest.mark.parametrize("text", NO_TRACE.values(), ids=NO_TRACE.keys())
def test_what_is_no_trace_is_refused(text: str) -> None:
    """Catches: a file that is taken for a trace although a page that draws it would fail or show nonsense."""
    _refused(text)


def test_a_file_over_the_limit_is_refused_unread() -> None:
    """Catches: parsing before the size is looked at."""
    assert "bytes" in _refused("x" * (MAX_JSON_BYTES + 1))


@pytest.mark.parametrize("name", ["settings", "packages"])
def test_a_header_with_a_surprise_does_not_hurt(name: str) -> None:
    """Free-form parts stay data: markup and odd names are kept as text, or refused."""
    value = {"<script>alert(1)</script>": "$x$"}
    trace = sd.Trace.from_json(_with("header", name, value=value))
    assert getattr(trace.header, name) == value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)
CONTENT = json.loads(GOOD)


def _places(content: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of the good trace down to its third level of rounds."""
    keys = content.keys() if isinstance(content, dict) else range(min(len(content), 3))
    places = []
    for key in keys:
        places.append((*at, key))
        if isinstance(content[key], dict | list):
            places += _places(content[key], (*at, key))
    return places


@settings(max_examples=400, deadline=None, derandomize=True)
@given(place=st.sampled_from(_places(CONTENT)), value=JSON)
def test_any_value_at_any_place_is_read_or_refused(place: tuple[Any, ...], value: Any) -> None:
    """What is read can be used: audited, framed and written again. Catches: any exception but TraceError."""
    _read_or_refused(_with(*place, value=value))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(text=st.text(max_size=60) | st.binary(max_size=60), cut=st.integers(0, len(GOOD)))
def test_any_text_is_read_or_refused(text: str | bytes, cut: int) -> None:
    """Free text and bytes, alone and in the place of a piece of a good trace."""
    _read_or_refused(text)
    if isinstance(text, str):
        _read_or_refused(GOOD[:cut] + text + GOOD[cut + len(text) :])


def _read_or_refused(text: str | bytes) -> None:
    try:
        trace = sd.Trace.from_json(text)
    except sd.TraceError:
        return
    uses: list[Callable[[], object]] = [trace.audit, trace.frames, trace.to_json]
    for use in uses:
        use()
