"""The library's page, run in process."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.testclient import TestClient
from streamlit.testing.v1 import AppTest

from app import services
from app.decoding.models import ModelCache, ModelChoice
from app.decoding.runs import Runs
from app.records import access as entries
from app.records import examples as recorded
from app.records import keeping, visitor
from app.records.store import Library, Saved
from app.records.summary import Summary
from app.running import flow
from app.web import routes

from .conftest import scripted_family
from .kept import ANNA, BEN, add, finish
from .library_page import MAIN, page, param, restarted, shown, words
from .tables import tables
from .test_page import page as in_lab


@pytest.mark.parametrize("state", ["loading", "failed"])
def test_examples_can_be_opened_while_models_load_or_after_they_failed(
    fresh: Runs, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    never = threading.Event()

    def load(choice: ModelChoice) -> object:
        never.wait(20)
        raise OSError("no weights")

    shelf = ModelCache(load, lambda *asked: None)
    monkeypatch.setattr(services, "shelf", lambda: shelf)
    shelf.warm()
    if state == "failed":
        never.set()
    deadline = time.monotonic() + 20
    while shelf.status(ModelChoice()).state != state and time.monotonic() < deadline:
        time.sleep(0.01)
    assert shelf.status(ModelChoice()).state == state
    at = page()
    assert "Nothing here yet. Press Run in the Lab" in words(at)
    assert len(shown(at)) == len(recorded.examples()) > 10
    at.button(key="open-recorded.welcome").click().run()
    assert not at.exception and param(at, "run") == "recorded.welcome"
    assert "Speedup in its own run" in tables(at)[0][0]
    never.set()


def test_a_saved_run_appears_is_opened_named_shared_and_deleted(saving: Runs) -> None:
    saved = finish(saving)
    assert saved is not None
    at = page()
    assert shown(at)[0] == "**“abc”**"
    at.button(key=f"open-{saved.id}").click().run()
    assert not at.exception and param(at, "run") == saved.id
    table = tables(at)[0]
    assert [row["Tokens"] for row in table] == ["24", "24"]
    assert table[0]["Speedup in its own run"] == "baseline" and "**" not in table[1]["Speedup in its own run"]
    name = next(box for box in at.text_input if box.label == "Name")
    name.set_value("My <img src=x> run")
    next(button for button in at.button if button.label == "Save name").click().run()
    assert not at.exception
    renamed = services.library().get(ANNA, saved.id)
    assert renamed and renamed.name == "My <img src=x> run"
    assert r"\<img src\=x\>" in words(at)
    at.button(key="share").click().run()
    shared = services.library().get(ANNA, saved.id)
    assert shared and shared.link
    assert parse_qs(urlsplit(at.code[-1].value).query) == {"run": [shared.link]}
    brought = parse_qs(urlsplit(at.code[0].value).query)  # the teacher's link
    assert brought == {"run": [shared.link]}
    at.button(key="revoke").click().run()
    revoked = services.library().get(ANNA, saved.id)
    assert revoked and revoked.link is None
    at.button(key="delete").click().run()
    assert not at.exception and param(at, "run") is None
    assert services.library().runs_of(ANNA) == [] and services.library().size() == 0


@pytest.mark.parametrize("script", ["lab", "compare"])
def test_a_page_lets_go_of_a_run_that_its_visitor_deleted(saving: Runs, script: str) -> None:
    """Catches: a page that puts a deleted run into its address again and calls it a link that is no longer kept."""
    at = AppTest.from_file(MAIN, default_timeout=60)
    at.switch_page(f"app_pages/{script}.py")
    at.query_params["tokens"] = "8"
    at.run()
    at.button(key="go").click().run()
    run = saving.get(param(at, "run"))
    assert run is not None and run.wait(20)
    at.run()
    assert not at.exception and param(at, "run") == run.id
    saving.forget(run.id)  # as the library does when it deletes one
    services.library().delete(ANNA, run.id)
    at.switch_page("app_pages/library.py")
    at.query_params.pop("run", None)
    at.run()
    at.switch_page(f"app_pages/{script}.py").run()
    assert not at.exception and param(at, "run") is None
    assert "no longer kept" not in words(at) and at.button(key="stop_run").disabled


@pytest.mark.parametrize("script", ["lab", "compare"])
def test_a_page_plays_a_run_that_only_the_library_still_holds(
    saving: Runs, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    """Catches: a link to a kept run that shows nothing after the server was started anew."""
    saved = finish(saving)
    assert saved is not None
    monkeypatch.setattr(saving, "get", lambda run_id: None)
    given: list[dict[str, Any]] = []
    draw = flow.player
    monkeypatch.setattr(flow, "player", lambda **shown: given.append(shown) or draw(**shown))
    at = AppTest.from_file(MAIN, default_timeout=60)
    at.switch_page(f"app_pages/{script}.py")
    at.query_params["run"] = saved.id
    at.run()
    assert not at.exception and "no longer kept" not in words(at)
    assert [lane["url"] for lane in given[-1]["traces"]] == [f"/traces/{saved.id}-{n}.json" for n in (0, 1)]


def test_a_link_opens_the_run_and_its_place_for_somebody_else_who_can_only_read(
    saving: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = finish(saving)
    assert saved is not None
    link = services.library().share(ANNA, saved.id)
    monkeypatch.setattr(visitor, "of_session", lambda: BEN)
    at = page(run=link or "", round="2", node="0")
    assert "Shared with you by link" in words(at)
    assert param(at, "round") == "2" and param(at, "node") == "0"
    keys = {button.key for button in at.button}
    assert not keys & {"share", "revoke", "delete"} and "close" in keys
    assert shown(at)[0] != "**“abc”**"  # it is not in the reader's own list
    private = page(run=saved.id)
    assert "This run cannot be opened here" in words(private) and not tables(private)
    services.library().revoke(ANNA, saved.id)
    gone = page(run=link or "")
    assert "no longer shared" in words(gone) and not tables(gone)


@pytest.mark.parametrize("script", ["lab", "compare"])
def test_a_run_in_memory_is_opened_by_its_owner_and_by_a_link_that_holds_and_by_nobody_else(
    saving: Runs, monkeypatch: pytest.MonkeyPatch, played: list[dict[str, Any]], script: str
) -> None:
    """Catches: a link that was revoked, while whoever had it goes on by the run's own id."""
    saved = finish(saving)
    assert saved is not None and saving.get(saved.id) is not None
    link = services.library().share(ANNA, saved.id) or ""

    def opened(key: str) -> str:
        """The page of this run: what it says; what it plays is the last of `played`."""
        played.clear()
        at = AppTest.from_file(MAIN, default_timeout=30)
        at.run()
        at.query_params["run"] = key
        at.switch_page(f"app_pages/{script}.py").run()
        assert not at.exception
        return words(at)

    def status(path: str, cookie: str | None) -> int:
        with TestClient(Starlette(routes=routes.routes())) as client:
            if cookie:
                client.cookies.set(visitor.COOKIE, cookie)
            return client.get(path).status_code

    opened(saved.id)
    mine = [lane["url"] for lane in played[-1]["traces"]]
    assert [status(url, ANNA) for url in mine] == [200, 200]
    assert [status(url, whose) for url in mine for whose in (BEN, None)] == [404] * 4
    assert status(f"/runs/{saved.id}/events", ANNA) == 200
    assert status(f"/runs/{saved.id}/events", BEN) == 404

    monkeypatch.setattr(visitor, "of_session", lambda: BEN)
    opened(link)
    shared = [lane["url"] for lane in played[-1]["traces"]]
    assert [status(url, whose) for url in shared for whose in (BEN, None)] == [200] * 4
    assert "no longer kept" in opened(saved.id) and saved.id not in str(played)

    services.library().revoke(ANNA, saved.id)
    assert "no longer kept" in opened(link) and saved.id not in str(played)
    assert [status(url, whose) for url in (*mine, *shared) for whose in (BEN, None)] == [404] * 8
    assert [status(url, ANNA) for url in mine] == [200, 200]


def test_repeats_are_stopped_by_whoever_began_them_and_by_nobody_else(
    saving: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: a visitor of a shared link who ends its owner's measurement."""
    from app.compare import sweeps

    sweeps.sweeps.cache_clear()
    saved = finish(saving)
    assert saved is not None
    link = services.library().share(ANNA, saved.id) or ""

    def compare(**params: str) -> AppTest:
        at = AppTest.from_file(MAIN, default_timeout=30)
        at.run()
        for key, value in {"tab": "Table", **params}.items():
            at.query_params[key] = value
        at.switch_page("app_pages/compare.py").run()
        assert not at.exception
        return at

    at = compare(run=saved.id)
    with saving.line("cpu").turn(lambda: False, lambda ahead: None):
        at.button(key="repeat").click().run()
        assert not at.exception
        job = sweeps.sweeps().get(param(at, "repeats"), "")
        assert job is not None and job.active and job.owner == ANNA
        monkeypatch.setattr(visitor, "of_session", lambda: BEN)
        keys = {button.key for button in compare(run=link, repeats=job.id).button}
        assert "repeat" in keys and "stop_repeats" not in keys
        monkeypatch.setattr(visitor, "of_session", lambda: ANNA)
        at.run().button(key="stop_repeats").click().run()
        assert not at.exception
        assert job.wait(20) and job.state == "stopped"
    sweeps.sweeps.cache_clear()


def test_a_page_keeps_its_run_while_classmates_fill_the_memory(
    saving: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: an own result that vanishes as if it had been deleted, because others pressed Run."""
    library = services.library()
    runs = Runs(
        lambda choice, gone: scripted_family(),
        owner=lambda: ANNA,
        save=lambda run: keeping.keep(run, library),
        keep=1,
    )
    monkeypatch.setattr(services, "runs", lambda: runs)
    at = in_lab(tokens="8")
    at.button(key="go").click().run()
    key = param(at, "run") or ""
    own = runs.get(key)
    assert own is not None and own.wait(20)
    for prompt in "abc":
        assert finish(runs, prompt) is not None
    assert runs.get(key) is None
    at.run()
    assert not at.exception and param(at, "run") == key
    assert "Target passes saved" in {metric.label for metric in at.metric} or "Target passes saved" in words(
        at
    )
    again = runs.get(key)
    assert again is not None and again is not own and len(again.traces) == 2
    runs.close()


def test_two_runs_of_one_prompt_are_compared_and_two_prompts_are_not(saving: Runs) -> None:
    first, second, other = finish(saving), finish(saving), finish(saving, prompt="cab")
    assert first and second and other
    at = page()

    def tick(run: Saved) -> None:
        next(box for box in at.checkbox if box.key.startswith(f"pick-{run.id}")).check().run()
        assert not at.exception

    tick(first)
    assert at.button(key="compare-now").disabled
    del at.query_params["picked"]  # as the browser knows it that ticks two boxes at once
    tick(second)
    assert param(at, "picked") == f"{first.id},{second.id}"
    at.button(key="compare-now").click().run()
    assert not at.exception and param(at, "run") == f"{first.id},{second.id}"
    assert len(tables(at)[0]) == 2
    tick(other)
    assert at.button(key="compare-now").disabled and "continue different prompts" in words(at)
    refused = page(run=f"{first.id},{other.id}")
    assert "continue different prompts" in words(refused) and not tables(refused)


def test_a_box_that_reports_the_same_again_changes_nothing(
    saving: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does where the page was cut short by the next press. Catches: a choice that is undone by itself."""
    first, second = finish(saving), finish(saving)
    assert first and second
    at = page(picked=first.id)
    draw = st.checkbox

    def twice(*given: Any, on_change: Callable[..., None], args: tuple[str, ...], **named: Any) -> bool:
        return draw(*given, on_change=lambda: [on_change(*args) for _ in range(2)], **named)

    monkeypatch.setattr(st, "checkbox", twice)
    at.run()
    next(box for box in at.checkbox if box.key.startswith(f"pick-{second.id}")).check().run()
    assert param(at, "picked") == f"{first.id},{second.id}"
    next(box for box in at.checkbox if box.key.startswith(f"pick-{first.id}")).uncheck().run()
    assert param(at, "picked") == second.id


def test_a_link_that_hides_parts_opens_the_whole_library(saving: Runs) -> None:
    """Older links could name parts to leave out. Catches: one that is complained about, or still leaves them out."""
    saved = finish(saving)
    assert saved is not None
    at = page(run=saved.id, hide="own,examples,tools,numbers,moon")
    assert not at.warning and tables(at)
    assert "Your runs" in words(at) and "Recorded examples" in words(at)
    assert any(button.key == "share" for button in at.button)


def test_a_presentation_of_the_library_is_the_open_run_alone(saving: Runs) -> None:
    saved = finish(saving)
    assert saved is not None
    at = page(run=saved.id, present="1")
    assert not at.warning and not tables(at) and not at.subheader and not shown(at)
    at.button(key="leave").click().run()
    assert not at.exception and param(at, "present") is None and tables(at)
    assert "There is no run to present" in words(page(present="1"))


def test_made_up_runs_are_not_chosen_and_none_counts_twice(saving: Runs) -> None:
    """Catches: Compare offered for runs that do not exist."""
    saved = finish(saving)
    assert saved is not None
    assert not any(button.key == "compare-now" for button in page(picked="nope,../x").button)
    for picked in (f"{saved.id},nope", f"{saved.id},{saved.id}"):
        at = page(picked=picked)
        assert at.button(key="compare-now").disabled and "1 run" in at.button(key="compare-now").label
        assert ("cannot be opened here" in words(at)) == ("nope" in picked)


@pytest.mark.parametrize("script", ["lab", "compare"])
def test_a_run_that_is_no_longer_in_memory_comes_back_from_the_library_as_it_was(
    saving: Runs, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    """Catches: a classmate's run that takes an own one's place in memory, whose page then has no numbers."""
    saved = finish(saving)
    assert saved is not None
    before = saving.get(saved.id)
    assert before is not None

    def show() -> str:
        at = AppTest.from_file(MAIN, default_timeout=30)
        at.run()
        at.query_params["run"] = saved.id
        at.switch_page(f"app_pages/{script}.py").run()
        assert not at.exception and param(at, "run") == saved.id
        assert "Open it in the library" not in [way.proto.label for way in at.get("page_link")]
        return words(at)

    shown = show()
    restarted(monkeypatch)
    assert show() == shown and "no longer" not in shown
    after = services.runs().get(saved.id)
    assert after is not None and after is not before and after.finished
    for name in ("id", "owner", "request", "ends", "device", "templated", "error"):
        assert getattr(after, name) == getattr(before, name), name
    assert after.traces == before.traces


@pytest.mark.parametrize("script", ["lab", "compare"])
def test_a_run_of_which_too_little_is_known_is_found_in_the_library(
    saving: Runs, kept: list[tuple[Summary, bytes]], monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    """Catches: “no longer kept” over a run that the library has, such as one kept by an earlier version or under
    settings that this one refuses; a way there that loses the run or the place; a way to what is not the visitor's."""
    library = services.library()
    early = add(library, kept)
    later = json.dumps({"lanes": [{"proposer": "none", "a_later_setting": 9}]})
    strange = add(library, kept, request=later)
    partial = add(library, kept, request=json.dumps({"lanes": [{"proposer": "none"}]}))
    link = library.share(ANNA, early) or ""

    def opened(run: str, whose: str) -> AppTest:
        monkeypatch.setattr(visitor, "of_session", lambda: whose)
        at = AppTest.from_file(MAIN, default_timeout=30)
        at.switch_page(f"app_pages/{script}.py")
        at.query_params["run"], at.query_params["round"] = run, "2"
        at.run()
        assert not at.exception
        return at

    for run, whose in ((early, ANNA), (strange, ANNA), (partial, ANNA), (link, BEN)):
        at = opened(run, whose)
        (way,) = at.get("page_link")
        assert "but the library does" in words(at) and "no longer kept" not in words(at)
        assert way.proto.page == "library" and parse_qs(way.proto.query_string) == {
            "run": [run],
            "round": ["2"],
        }
        there = page(run=run, round="2")
        assert tables(there) and param(there, "round") == "2"
    for run in (early, "gone"):
        at = opened(run, BEN)
        assert "no longer kept" in words(at) and not at.get("page_link")
        assert "Its owner can share it: in the Library, open the run and press Share." in words(at)


def test_every_control_of_the_page_comes_back_from_its_address(saving: Runs) -> None:
    saved = finish(saving)
    assert saved is not None
    at = page(q="abc", who="draft-model", sort="speedup", picked=saved.id, run=saved.id, round="3")
    assert at.text_input(key="q").value == "abc"
    assert (at.selectbox(key="who").value, at.selectbox(key="sort").value) == ("draft-model", "speedup")
    assert next(box for box in at.checkbox if saved.id in box.key).value is True
    assert len(tables(at)) == 1
    for key, value in {
        "q": "abc",
        "who": "draft-model",
        "sort": "speedup",
        "picked": saved.id,
        "round": "3",
    }.items():
        assert param(at, key) == value
    assert len(shown(at)) == 1
    at.text_input(key="q").set_value("no such thing").run()
    assert shown(at) == [] and "None of your runs match the search" in words(at)
    strange = page(who="magic", sort="<b>", colour="red")
    for said in ("“magic”", "“\\<b\\>”", "“colour”"):
        assert said in words(strange)


def test_a_browser_without_cookies_owns_what_its_session_made(fresh: Runs) -> None:
    at = page()
    assert "does not keep this server's cookie" in words(at)
    mine = at.session_state[visitor.SESSION]
    assert visitor.named({visitor.COOKIE: mine}) == mine
    other = page()
    assert other.session_state[visitor.SESSION] != mine


def test_without_cookies_the_traces_travel_with_the_page(
    library: Library, kept: list[tuple[Summary, bytes]]
) -> None:
    run = add(library, kept)
    mine = entries.open_one(run, ANNA, library)
    assert mine is not None
    for inline, key in ((True, "trace"), (False, "url")):
        lanes = entries.traces([mine], ANNA, library, inline=inline)
        assert [set(lane) for lane in lanes] == [{"label", key}] * 2
    example = entries.open_one("recorded.draft-model", ANNA, library)
    assert example and "url" in entries.traces([example], ANNA, library, inline=True)[0]
