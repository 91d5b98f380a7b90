"""Where the text ends: end of sequence, length limit, stop strings, cancellation."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import specdec_core as sd
from specdec_measure.testing import scripted

from .tiny import PROMPTS, generate, module, pair
from .trees import Oracle

# c d e f …: what the scripted target writes after a, b
STORY = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]


def _next_letter(text: tuple[int, ...]) -> Sequence[float]:
    """Sure of the next letter of the story."""
    return [1.0 if token == len(text) else 0.0 for token in range(20)]


def _models(eos: tuple[int, ...] = (), bos: int | None = None) -> sd.Models:
    return scripted(_next_letter, _next_letter, eos=eos, bos=bos)


def _settings(proposer: str, **changes: object) -> sd.Settings:
    return sd.Settings(**{"proposer": proposer, "draft_length": 5, "max_new_tokens": 14, **changes})


@pytest.fixture(params=["draft-model", "test-oracle"], ids=["chain", "tree"])
def proposer(request: pytest.FixtureRequest, proposers: object, monkeypatch: pytest.MonkeyPatch) -> str:
    """A chain and a tree that both know the story, so that blocks of several tokens are accepted."""
    monkeypatch.setattr(Oracle, "truth", [0, 1, *STORY])
    name: str = request.param
    return name


@pytest.mark.parametrize("eos", STORY)
def test_the_end_of_sequence_cuts_an_accepted_block_exactly_there(proposer: str, eos: int) -> None:
    """Every place within and between blocks. Catches: tokens after the end, a missing end, a cache or a count that
    still holds what was cut."""
    trace = sd.decode(_models(eos=(eos,)), [0, 1], _settings(proposer))
    assert trace.token_ids == STORY[: STORY.index(eos) + 1]
    assert trace.end == "eos"
    assert trace.audit() == []


@pytest.mark.parametrize("length", range(1, 15))
def test_the_length_limit_cuts_an_accepted_block_exactly_there(proposer: str, length: int) -> None:
    """Every limit within and between blocks."""
    trace = sd.decode(_models(), [0, 1], _settings(proposer, max_new_tokens=length))
    assert trace.token_ids == STORY[:length]
    assert trace.end == "length"
    assert trace.audit() == []


@pytest.mark.parametrize(
    ("stops", "text"),
    [
        (("f",), "cdef"),
        (("efg",), "cdefg"),
        (("zz", "gh", "h"), "cdefgh"),
        (("ab",), "cdefghijklmnop"),  # the prompt's own text does not count
        (("bc",), "c"),  # it may begin there, as in transformers
        (("p",), "cdefghijklmnop"),
    ],
)
def test_a_stop_string_ends_the_text_with_the_token_that_completes_it(
    proposer: str, stops: tuple[str, ...], text: str
) -> None:
    """Catches: a stop string across tokens or blocks that is missed, or one that ends in the prompt."""
    trace = sd.decode(_models(), [0, 1], _settings(proposer, stop=stops))
    assert trace.text == text
    assert trace.end == ("length" if stops == ("ab",) else "stop")
    assert trace.audit() == []


def test_cut_nodes_are_told_from_judged_ones() -> None:
    """The first block holds five nodes and the end is its second token, so three were judged in vain. Catches: an
    acceptance rate that counts what was not used."""
    trace = sd.decode(_models(eos=(3,)), [0, 1], _settings("draft-model"))
    assert trace.rounds[0].nodes.verdict == ["accepted", "accepted", "cut", "cut", "cut"]
    assert trace.stats.acceptance_rate == 1.0
    assert trace.stats.cut == 3


@pytest.mark.parametrize("architecture", ["gpt2", "llama", "olmo2"])
def test_the_end_of_sequence_is_generates(architecture: str) -> None:
    """A real model, several ends: the same text as `generate` with the same eos_token_id."""
    models = pair(architecture)
    for prompt in PROMPTS:
        free = generate(module(models), prompt, 30)
        for eos in {free[3], free[11], free[29]}:
            ending = sd.Models(models.codec, models.target, models.draft, eos=frozenset({eos}))
            trace = sd.decode(ending, prompt, sd.Settings(max_new_tokens=30, draft_length=6))
            assert trace.token_ids == generate(module(models), prompt, 30, eos_token_id=eos, pad_token_id=0)
            assert trace.audit() == []


def test_cancelling_between_rounds_gives_a_clean_trace_of_what_is_there() -> None:
    """Catches: a cancelled run without its record, or one that goes on."""
    steps: list[sd.Step] = []
    trace = None
    for event in sd.stream(_models(), [0, 1], _settings("none"), cancelled=lambda: len(steps) == 3):
        if isinstance(event, sd.Step):
            steps.append(event)
        if isinstance(event, sd.Finished):
            trace = event.trace
    assert trace is not None
    assert (trace.end, trace.token_ids) == ("cancelled", STORY[:3])
    assert trace.audit() == []
    assert sd.Trace.from_json(trace.to_json()) == trace


def test_cancelling_before_the_first_round_gives_an_empty_clean_trace() -> None:
    """Catches: statistics that divide by zero rounds."""
    *_, last = sd.stream(_models(), [0, 1], _settings("draft-model"), cancelled=lambda: True)
    assert isinstance(last, sd.Finished)
    trace = last.trace
    assert (trace.end, trace.token_ids, trace.stats.tokens_per_pass) == ("cancelled", [], None)
    assert trace.audit() == []
    assert sd.Trace.from_json(trace.to_json()) == trace
    assert all(frame.empty for frame in trace.frames().values())


def test_closing_the_stream_ends_it() -> None:
    """Catches: a generator that swallows its close, or computes on after it."""
    asked = 0

    def next_probs(text: tuple[int, ...]) -> Sequence[float]:
        nonlocal asked
        asked += 1
        return _next_letter(text)

    events = sd.stream(scripted(next_probs), [0, 1], _settings("none"))
    while not isinstance(next(events), sd.Step):
        pass
    events.close()  # type: ignore[attr-defined]
    before = asked
    assert next(events, None) is None
    assert asked == before


def test_events_come_as_they_happen_and_add_up_to_the_trace() -> None:
    """Started, a Step per round, Ended, Finished. Catches: steps whose columns or totals differ from the record."""
    events = list(sd.stream(_models(), [0, 1], _settings("draft-model"), lane=3))
    assert isinstance(events[0], sd.Started) and isinstance(events[-1], sd.Finished)
    steps = [event for event in events if isinstance(event, sd.Step)]
    assert isinstance(events[-2], sd.Ended)
    assert len(steps) == len(events) - 3
    assert {event.lane for event in events} == {3}
    trace = events[-1].trace
    assert [token for step in steps for token in step.tokens] == trace.token_ids
    assert "".join(text for step in steps for text in step.texts) == trace.text
    assert [step.verdict for step in steps] == [row.nodes.verdict for row in trace.rounds]
    assert [step.parent for step in steps] == [row.nodes.parent for row in trace.rounds]
    assert [step.clock_s for step in steps] == sorted(step.clock_s for step in steps)
    assert steps[-1].total == len(trace.token_ids)
