"""Traces from files: what is taken, what is refused in a sentence, and that nothing of them acts on the page."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app import services
from app.decoding.runs import Runs
from app.export.page import of_one_race
from app.library import imports
from app.records import importing, visitor
from app.records.store import Full, Library, Limits
from specdec_core.foundations.errors import TraceError
from specdec_core.record.read import race_json
from specdec_core.record.schema import Race
from specdec_core.record.trace import Trace

from .tables import tables

ANNA = "anna" * 8
MAIN = Path(__file__).resolve().parents[2] / "app" / "main.py"
HOSTILE = '<img src=x onerror="alert(1)"> **bold** :red[x] $x$'


def changed(trace: Trace, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The trace's JSON with a change that its schema does not care about being made."""
    content = json.loads(trace.to_json())
    change(content)
    return json.dumps(content).encode()


def test_a_trace_is_kept_as_imported(race_traces: list[Trace], library: Library) -> None:
    # Indented: what is stored is the trace as this program writes it, not the file.
    data = json.dumps(json.loads(race_traces[1].to_json()), indent=2).encode()
    run, (summary,) = importing.take(ANNA, data, library)
    (saved,) = library.runs_of(ANNA)
    assert (saved.id, saved.origin, saved.name) == (run, "imported", None)
    assert saved.recorded == race_traces[1].header.created and saved.machine == race_traces[1].header.machine
    assert saved.lanes == (summary,) and summary.problem is None
    assert summary.speedup is None  # whatever it was raced against stayed where it was
    assert library.trace(run, 0, ANNA) == race_traces[1].to_json().encode()


def test_a_race_is_one_file_and_keeps_its_baseline(race_traces: list[Trace], library: Library) -> None:
    """Catches: lanes that arrive one by one, each without the baseline of its speedup; lanes of two races as one."""
    run, lanes = importing.take(ANNA, race_json(race_traces).encode(), library)
    (saved,) = library.runs_of(ANNA)
    assert saved.id == run and saved.lanes == lanes and [lane.plain for lane in lanes] == [True, False]
    speeds = [trace.stats.tokens_per_second or 0.0 for trace in race_traces]
    assert lanes[1].speedup == pytest.approx(speeds[1] / speeds[0])
    kept = [Trace.from_json(library.trace(run, lane, ANNA) or b"") for lane in (0, 1)]
    assert kept == race_traces and of_one_race(kept) is True
    other = replace(race_traces[1], header=replace(race_traces[1].header, race=Race("another", 1, 2)))
    assert of_one_race([race_traces[0], other]) is False
    for wrong, said in (
        ([race_traces[0], other], "of different races"),
        ([race_traces[0]] * 7, "up to 6"),
        ([], "has 0"),
    ):
        with pytest.raises(TraceError, match=said):
            importing.take(ANNA, race_json(wrong).encode(), library)
    older = [json.loads(trace.to_json()) for trace in race_traces]  # of a version without the field
    for content in older:
        del content["header"]["race"]
    _, lanes = importing.take(ANNA, json.dumps(older).encode(), library)
    assert lanes[1].speedup is not None


def test_contradictions_are_reported_and_the_trace_is_kept(race_traces: list[Trace]) -> None:
    library = Library()
    data = changed(race_traces[1], lambda content: content["stats"].update(accepted=0))
    _, (summary,) = importing.take(ANNA, data, library)
    problems = Trace.from_json(data).audit()
    assert problems and summary.problem == problems[0]
    library.close()


def many_nodes(content: dict[str, Any]) -> None:
    """A million nodes in one round."""
    nodes = content["rounds"][0]["nodes"]
    for name, column in nodes.items():
        if column is not None:
            nodes[name] = [{"parent": -1, "depth": 1, "verdict": "accepted"}.get(name, 0)] * 1_000_000


BROKEN: dict[str, tuple[Callable[[Trace], bytes], str]] = {
    "nothing": (lambda trace: b"", "is empty"),
    "a picture": (lambda trace: b"\x89PNG\r\n\x1a\n" + bytes(100), "not valid JSON"),
    "half": (lambda trace: trace.to_json().encode()[:-50], "not complete JSON"),
    "another thing": (lambda trace: b'{"format": "something"}', "its 'format' is not"),
    "a comparison's table": (
        lambda trace: b'{"format": "specdec-comparison"}',
        "but 'specdec-comparison', a comparison's figures without any rounds; take the file of Race (JSON), from an "
        "open run's Download in the Library",
    ),
    "a server's answer": (
        lambda trace: json.dumps(
            {"timings": {"predicted_n": 9, "draft_n": 6, "draft_n_accepted": 4}}
        ).encode(),
        "it has what llama.cpp counted (one answer), without any rounds to play",
    ),
    "a list": (lambda trace: b"[1, 2]", "its 'format' is not"),
    "another version": (
        lambda trace: changed(trace, lambda content: content.update(version=7)),
        "has version 7; this program reads version 1",
    ),
    "not a number": (
        lambda trace: changed(trace, lambda content: content["stats"].update(draft_s=math.nan)),
        "not valid JSON",
    ),
    "a strange field": (
        lambda trace: changed(trace, lambda content: content.update(script="alert(1)")),
        "not a valid trace: 'script' is not a known field",
    ),
    "deep": (lambda trace: b"[" * 100_000, "This is not a trace"),
    "a million nodes": (lambda trace: changed(trace, many_nodes), "a trace of up to 12 MB is taken"),
    "huge": (lambda trace: b" " * 12_000_001, "12,000,001 bytes"),
    "a million nodes in a small file": (
        lambda trace: changed(
            trace, lambda content: content["rounds"][0]["nodes"].update(token=[1] * 1_000_000)
        ),
        "at most 4096",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_trace_is_refused_in_one_sentence(name: str, race_traces: list[Trace]) -> None:
    library = Library()
    make, said = BROKEN[name]
    with pytest.raises(TraceError) as caught:
        importing.take(ANNA, make(race_traces[1]), library)
    sentence = str(caught.value)
    assert said in sentence and "\n" not in sentence and len(sentence) < 400
    assert library.runs_of(ANNA) == [] and library.size() == 0
    library.close()


def test_strange_settings_name_the_lane_as_far_as_they_can(race_traces: list[Trace]) -> None:
    def strange(content: dict[str, Any]) -> None:
        content["header"]["settings"] = {"proposer": HOSTILE, "rule": ["x"], "draft_length": {"deep": [1]}}

    library = Library()
    _, (summary,) = importing.take(ANNA, changed(race_traces[1], strange), library)
    assert summary.label.startswith("Proposer “<img") and summary.rule == "unknown"
    library.close()


def test_a_full_library_says_so(race_traces: list[Trace]) -> None:
    library = Library(limits=Limits(runs=1))
    data = race_traces[1].to_json().encode()
    first, _ = importing.take(ANNA, data, library)  # it does not go by itself
    with pytest.raises(Full, match="Delete some"):
        importing.take(ANNA, data, library)
    assert [saved.id for saved in library.runs_of(ANNA)] == [first]
    library.close()


def test_hostile_texts_are_shown_as_text_and_bad_files_as_a_sentence(
    fresh: Runs, monkeypatch: pytest.MonkeyPatch, race_traces: list[Trace]
) -> None:
    def hostile(content: dict[str, Any]) -> None:
        header = content["header"]
        header["machine"] = header["created"] = header["target"]["name"] = HOSTILE
        header["prompt"] = header["settings"]["proposer"] = HOSTILE
        content["stats"]["accepted"] = 0

    monkeypatch.setattr(visitor, "of_session", lambda: ANNA)
    monkeypatch.setattr(visitor, "is_remembered", lambda: True)
    library = services.library()
    imported = [
        imports._take(f"{HOSTILE}.json", changed(race_traces[1], hostile), library),
        imports._take("bad.json", b"{", library),
        imports._take("good.json", race_traces[1].to_json().encode(), library),
    ]
    assert [sound for sound, _ in imported] == [False, False, True]
    (bad,) = [saved for saved in library.runs_of(ANNA) if saved.prompt == HOSTILE]
    at = AppTest.from_file(MAIN, default_timeout=30)
    at.run()
    at.session_state["imported"] = imported
    at.query_params["run"] = bad.id
    at.switch_page("app_pages/library.py").run()
    assert not at.exception
    shown = [*at.markdown, *at.caption, *at.warning, *at.success, *at.subheader]
    texts = [str(element.value) for element in shown] + [button.label for button in at.button]
    assert any("**imported**" in text for text in texts)
    assert any("contradicts itself" in text for text in texts)
    assert any("bad\\.json was not imported" in text for text in texts)
    assert any("good\\.json was imported" in text for text in texts)
    assert "measured" not in " ".join(tables(at)[0][0].values())
    marked = [text for text in texts if "onerror" in text]
    assert marked
    for text in marked:  # every sign that would make markup of it is escaped
        assert not re.search(r"(?<!\\)(<img|=\"alert|\*\*bold|:red|\$x)", text)
