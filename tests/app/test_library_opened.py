"""What is opened from the library, what the player receives of it, and links that last."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from app import services
from app.decoding.models import ModelChoice
from app.decoding.run import Request
from app.decoding.runs import Runs
from app.records import access as entries
from app.records import examples as recorded
from app.records import visitor
from app.records.summary import Summary

from .kept import ANNA, BEN, LANES, add, finish
from .library_page import page, param, restarted, words
from .test_page import page as in_lab


def test_an_example_opens_at_a_round_that_shows_guesses(fresh: Runs, played: list[dict[str, Any]]) -> None:
    """Catches: “a wide tree that mostly goes to waste” opened at its last round, where nothing was proposed."""
    for example in recorded.examples():
        trace = json.loads((recorded.FOLDER / f"{example.files[-1]}.json").read_text(encoding="utf-8"))
        up = [
            sum(verdict in ("accepted", "rejected", "unreached") for verdict in row["nodes"]["verdict"])
            for row in trace["rounds"]
        ]
        if not max(up):
            assert example.opens is None
            continue
        assert example.opens is not None and up[example.opens - 1] == max(up)
        assert max(up[example.opens :], default=0) < max(up)
    at = page(run="recorded.wide-tree")
    (wide,) = (example for example in recorded.examples() if example.id == "wide-tree")
    assert played[-1]["cursor"]["round"] == wide.opens and param(at, "round") is None
    page(run="recorded.wide-tree", round="2")
    assert played[-1]["cursor"]["round"] == 2


def test_a_run_of_this_server_is_measured_wherever_it_is_shown_and_everything_else_recorded(
    saving: Runs, played: list[dict[str, Any]]
) -> None:
    """Catches: a card that says “measured” over a player that says “recorded”."""
    saved = finish(saving)
    assert saved is not None
    at = page(run=saved.id)
    assert "speedup, measured" in words(at)
    assert played[-1]["provenance"] == "measured" and played[-1]["provenance_note"].startswith(saved.machine)
    page(run="recorded.welcome")
    assert played[-1]["provenance"] == "recorded"
    elsewhere = finish(saving)
    assert elsewhere is not None
    page(run=f"{saved.id},{elsewhere.id}")
    assert played[-1]["provenance"] == "measured"


def test_beside_a_recorded_example_an_own_run_is_named_as_measured(
    saving: Runs, played: list[dict[str, Any]], kept: list[tuple[Summary, bytes]]
) -> None:
    (welcome,) = (example for example in recorded.examples() if example.id == "welcome")
    mine = add(services.library(), kept, prompt=welcome.prompt)
    page(run=f"{mine},recorded.welcome")
    assert (played[-1]["provenance"], played[-1]["provenance_note"]) == (
        "recorded",
        "each in a run of its own, some of them measured here",
    )


def test_compare_says_beside_its_button_why_it_cannot(saving: Runs) -> None:
    """Catches: a comparison that is offered, pressed and then refused at the other end of the page."""
    at = page(picked="recorded.wide-tree,recorded.medusa")
    assert at.button(key="compare-now").disabled and "continue different prompts" in words(at)
    at = page(picked="recorded.medusa,recorded.eagle")
    assert not at.button(key="compare-now").disabled and "continue different prompts" not in words(at)


def test_the_teacher_s_link_of_an_own_run_outlasts_the_server_once_it_is_shared(
    saving: Runs, monkeypatch: pytest.MonkeyPatch, played: list[dict[str, Any]]
) -> None:
    """Catches: a link that promises a run and, after a restart, plays another."""
    saved = finish(saving)
    assert saved is not None
    at = in_lab(run=saved.id, round="2")
    assert parse_qs(urlsplit(at.code[0].value).query)["run"] == [saved.id]
    assert "to nobody else until you share it" in words(at)
    at.button(key="share_in_link_lab").click().run()
    assert not at.exception
    shared = services.library().get(ANNA, saved.id)
    assert shared and shared.link
    brought = parse_qs(urlsplit(at.code[0].value).query)
    assert brought["run"] == [shared.link] and brought["round"] == ["2"]
    assert "shows this run to anyone who has it" in words(at)
    assert not any(button.key == "share_in_link_lab" for button in at.button)

    monkeypatch.setattr(visitor, "of_session", lambda: BEN)
    for script in ("lab", "compare"):  # as long as the run is in memory, its page is as the teacher's
        other = in_lab()
        other.query_params["run"] = shared.link
        other.switch_page(f"app_pages/{script}.py").run()
        assert not other.exception and played[-1]["of"].startswith(saved.id), script
        assert "no longer" not in words(other)

    restarted(monkeypatch)
    other = in_lab(run=shared.link, round="2")
    assert [lane["url"] for lane in played[-1]["traces"]] == [
        f"/traces/{shared.link}-{lane}.json" for lane in range(2)
    ]
    assert played[-1]["cursor"]["round"] == 2 and played[-1]["provenance"] == "measured"
    assert "Recorded example" not in words(other)


def test_a_link_to_a_run_says_how_long_it_holds(saving: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = finish(saving)
    assert saved is not None
    assert not services.library().lasting
    at = in_lab(run=saved.id)
    at.button(key="share_in_link_lab").click().run()
    assert "to anyone who has it, until this server stops" in words(at)
    assert "the run at this position" in words(at)
    for nothing in ({}, {"run": "gone"}):
        assert "It includes the prompt and the settings." in words(in_lab(**nothing)).replace("\\", "")
    library = page(run=saved.id)
    services.library().revoke(ANNA, saved.id)
    library.run()
    assert "to nobody else until you share it" in words(library)
    monkeypatch.setattr(visitor, "of_session", lambda: BEN)
    assert not any(button.key == "share_in_link_lab" for button in in_lab(run=saved.id).button)


def test_a_run_that_the_library_could_not_keep_is_not_promised(
    saving: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = saving.start(Request("abc", LANES, ("Plain decoding", "Draft model"), ModelChoice()))
    assert run.wait(20)
    deadline = time.monotonic() + 20
    while services.library().get(ANNA, run.id) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    services.library().delete(ANNA, run.id)
    at = in_lab(run=run.id)
    at.button(key="share_in_link_lab").click().run()
    assert "could not keep the run" in words(at) and f"run={run.id}" in at.code[0].value


def test_where_the_examples_were_recorded_is_said_once_for_each_machine() -> None:
    """Catches: a machine named again for every day."""
    found = [
        entries.of_example(replace(recorded.examples()[0], machine=machine, recorded=f"{day}T10:00:00+00:00"))
        for machine, day in (
            ("B", "2026-11-23"),
            ("A", "2026-11-24"),
            ("B", "2026-11-21"),
            ("B", "2026-11-22"),
        )
    ]
    assert entries.origins(found) == "A, 2026-11-24 and B, 2026-11-21 to 2026-11-23"
