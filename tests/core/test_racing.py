"""A prompt raced through servers: a record says what each server's counts force, and no more."""

from __future__ import annotations

import json
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest

from specdec_core.foundations.errors import SpecdecError, TraceError
from specdec_core.record.trace import Trace
from specdec_measure.watching import asking, numbers, racing, report
from specdec_measure.watching.cause import cause
from specdec_measure.watching.client import Server, WatchError
from specdec_measure.watching.clock import ServedClock

from . import watched_server
from .watched_server import Planted, served

RATES = (0.8, 0.6, 0.5)
FORCED = {
    "vLLM, detailed": Planted(rates=RATES, detailed=True),
    "vLLM, counters and chunks": Planted(rates=RATES),
    "vLLM without guesses": Planted(),
    "llama.cpp": Planted("llamacpp", rates=RATES),
    "llama.cpp, some passes": Planted("llamacpp", rates=RATES, guessing=0.5),
    "llama.cpp without guesses": Planted("llamacpp"),
}


def raced(*planted: Planted, length: int = 60) -> list[racing.Entrant]:
    with ExitStack() as stack:
        urls = [stack.enter_context(served(one)) for one in planted]
        return racing.race([Server(url, 10) for url in urls], "Once upon", length)


def passes(trace: Trace) -> list[tuple[int, int, int]]:
    """Of each pass after the prompt's: guesses (−1: unknown), accepted and written tokens."""
    rows = trace.rounds[1:]
    return [
        (
            -1 if row.committed.source[-1] == "unknown" else len(row.nodes.token),
            row.nodes.verdict.count("accepted"),
            len(row.committed.token),
        )
        for row in rows
    ]


def truth(planted: Planted) -> list[tuple[int, int, int]]:
    """The same of the server; what the end of the text cut off was not accepted."""
    return [(guessed, min(kept, written), written) for guessed, kept, written in planted.log]


@pytest.mark.parametrize("name", FORCED)
def test_rounds_that_the_counts_force_are_the_servers(name: str) -> None:
    """Catches: a guess, an accepted one or a time in another round; a record that contradicts itself."""
    planted = FORCED[name]
    (lane,) = raced(planted)
    trace = lane.trace
    assert lane.unknown == "" and trace.audit() == []
    assert passes(trace) == truth(planted) and trace.text == "x" * 60
    assert trace.header.settings["proposer"] == ("unknown" if planted.rates else "none")
    assert trace.header.target.name == ("m.gguf" if "llama" in name else "m")
    took = sum(planted.plain_s + guessed * planted.guess_s for guessed, _, _ in planted.log)
    assert 0.9 * took <= trace.stats.decode_s < 3 * took + 2 and trace.stats.prefill_s > 0
    assert trace.end == "length" and Trace.from_json(trace.to_json()) == trace


@pytest.mark.parametrize("detailed", [True, False])
def test_what_the_counts_leave_open_is_unknown_and_never_wrong(detailed: bool) -> None:
    """Catches: a pass without guesses taken for one whose guesses were rejected, or the reverse; a rate made of it."""
    for guessing in (0.2, 0.5, 0.8):
        planted = Planted(rates=RATES, guessing=guessing, detailed=detailed)
        (lane,) = raced(planted, length=90)
        found, real = passes(lane.trace), truth(planted)
        assert len(found) == len(real) and lane.trace.audit() == []
        for one, (guessed, kept, written) in zip(found[:-1], real[:-1], strict=True):
            assert one in ((guessed, kept, written), (-1, written - 1, written))
        assert any(guessed < 0 for guessed, _, _ in found) and lane.trace.stats.acceptance_rate is None
        if detailed:
            assert all(guessed >= 0 for guessed, _, written in found[:-1] if written > 1)
        with pytest.raises(WatchError, match="does not tell which guesses were rejected"):
            numbers.of_records([lane.trace])


def test_chunks_of_several_passes_have_no_rounds() -> None:
    """Catches: a chunk taken for a pass where the server put two into it."""
    (lane,) = raced(Planted(rates=RATES, guessing=0.5, merged=True))
    assert lane.trace.rounds == [] and "does not say which of its passes" in lane.unknown
    assert lane.trace.text == "x" * 60 and lane.trace.stats.tokens_per_second and lane.trace.audit() == []


def test_passes_that_nobody_counted_are_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: passes worked out from the tokens, which a text that was cut off makes wrong."""
    monkeypatch.setitem(asking.NAMES, "steps", ())
    (lane,) = raced(Planted(rates=RATES, detailed=True))
    assert lane.trace.rounds == [] and lane.unknown


def test_a_race_that_is_none_is_refused() -> None:
    """Catches: lanes of different prompts, of an engine that names no tokens, or with others' counts."""
    with pytest.raises(WatchError, match="different tokens"):
        raced(Planted(), Planted(first_id=300))
    with pytest.raises(WatchError, match="is SGLang, which does not name its tokens"):
        raced(Planted("sglang", rates=RATES))
    busy = Planted(rates=RATES)
    real = busy.page
    busy.page = lambda: (busy.count(3, 1, 2, 0.01), real())[1]  # type: ignore[method-assign]
    with pytest.raises(WatchError, match="Others used"):
        raced(busy)


def test_a_race_says_what_other_draft_lengths_would_give() -> None:
    """Catches: times or acceptance of the wrong lane; a length that never was, or a wider pass, given a figure."""
    lanes = raced(
        Planted(plain_s=0.006),
        Planted(rates=RATES, plain_s=0.006, round_s=0.002, guess_s=0.002),
        length=200,
    )
    found = numbers.of_records([lane.trace for lane in lanes])
    assert found.plain_step_s == pytest.approx(0.006, rel=0.4) and found.step_s == pytest.approx(
        0.014, rel=0.2
    )
    assert found.pass_s(3) == pytest.approx(0.014, rel=0.4) and found.depth == 3
    expected = (1 + sum(found.survival)) * found.plain_step_s / found.pass_s(3)  # type: ignore[operator]
    assert found.speedup_at(3) == pytest.approx(expected) and found.speedup_at(4) is None
    rows = report.lengths(found)
    assert [row["guesses a round"] for row in rows] == ["0", "1", "2", "3, as now", "4 and more"]
    assert rows[3]["speedup, modelled"] == f"{expected:.2f}×" and rows[4]["speedup, modelled"] == "unknown"
    costs = ServedClock(found).costs()
    assert costs.target(4) == found.pass_s(3) and costs.draft is not None and costs.draft(1) == 0
    with pytest.raises(Exception, match="up to 3 guesses a pass"):
        costs.target(5)
    content = json.dumps(report.as_json(found, cause(found))).encode()
    assert report.read(content) == found


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 2}, "its format is not"), ({"format": None}, "its format is not"), ({"engine": 5}, "engine"),
        ({"at": [[2.0, 0.1, 0.2]]}, "a share is not"), ({"step_s": -1.0}, "a time or a speed"),
        ({"line": {"a": -1, "b": 0, "a_span": [0, 1], "b_span": [0, 1], "lengths": [0, 3]}}, "is no time"),
        ({"depth": 10**9}, "no draft length"), ({"tps": float("nan")}, "specdec watch"), ({"url": None}, "url"),
    ],
)  # fmt: skip
def test_a_file_that_lies_gets_one_sentence(change: dict[str, object], said: str) -> None:
    """Catches: a clock made of a file whose numbers are none."""
    lanes = raced(Planted(), Planted(rates=RATES))
    found = numbers.of_records([lane.trace for lane in lanes])
    content = report.as_json(found, cause(found)) | change
    with pytest.raises(TraceError, match=said) as error:
        report.read(json.dumps(content).encode())
    assert str(error.value).count(". ") <= 1
    with pytest.raises(TraceError):
        report.read(b"[]")


def test_answers_that_lie_get_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: an answer's value of another kind that ends in a traceback."""
    random, send = Random(4), watched_server.Handler._send

    def spoilt(value: Any) -> Any:
        if random.random() < 0.06:
            return random.choice([None, 5, -3, "x", [], {}, [1, "a"], {"a": 1}, 1e300, True, 10**15, [[1]]])
        if isinstance(value, dict):
            return {key: spoilt(one) for key, one in value.items() if random.random() > 0.03}
        return [spoilt(one) for one in value] if isinstance(value, list) else value

    monkeypatch.setattr(
        watched_server.Handler,
        "_send",
        lambda handler, event: send(handler, spoilt(event) if random.random() < 0.3 else event),
    )
    refused = 0
    for turn in range(60):
        engine = ("vllm", "llamacpp")[turn % 2]
        planted = Planted(
            engine, rates=RATES if turn % 3 else (), plain_s=0.0, guess_s=0.0, detailed=turn % 4 > 1
        )
        try:
            (lane,) = raced(planted, length=20)
        except SpecdecError:
            refused += 1
        else:
            assert lane.trace.audit() == []
    assert 0 < refused < 60
