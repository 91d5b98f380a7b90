"""The library in the app: owners, runs that are kept by themselves, finding them, and the page, run in process."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from streamlit.testing.v1 import AppTest

from app import services
from app.choosing.usual import REAL
from app.decoding.models import Choice, Shelf
from app.decoding.run import Request
from app.decoding.runs import Runs
from app.lanes import links
from app.library import rows, unusual
from app.records import access as entries
from app.records import examples as recorded
from app.records import importing, keeping, listing, visitor
from app.records.listing import Entry
from app.records.store import Library, Saved
from app.records.summary import Summary, summarize
from app.running import flow
from app.ui import presenter
from app.web import routes
from specdec_core.analysis.diagnosis import why
from specdec_core.record.read import race_json
from specdec_core.record.trace import Trace
from specdec_core.settings import Settings

from .conftest import scripted_family, scripted_models
from .kept import ANNA, BEN, add
from .tables import tables
from .test_page import page as in_lab

MAIN = Path(__file__).resolve().parents[2] / "app" / "main.py"


# The owner


def test_a_browser_gets_one_secret_with_the_page_and_keeps_it() -> None:
    def page(request: object) -> PlainTextResponse:
        return PlainTextResponse("page", headers={"Cache-Control": "public"})

    app = Starlette(routes=[Route("/{path:path}", page)], middleware=[Middleware(visitor.OwnerCookie)])
    with TestClient(app) as client:
        assert "set-cookie" not in client.get("/static/app.js", headers={"Accept": "*/*"}).headers
        first = client.get("/", headers={"Accept": "text/html,*/*"})
        cookie = first.headers["set-cookie"]
        assert (
            "HttpOnly" in cookie
            and "SameSite=Lax" in cookie
            and "Path=/" in cookie
            and "Secure" not in cookie
        )
        assert first.headers["cache-control"].startswith("private")
        secret = client.cookies[visitor.COOKIE]
        assert len(secret) >= 32 and visitor.named({visitor.COOKIE: secret}) == secret
        again = client.get("/library", headers={"Accept": "text/html"})
        assert again.headers["set-cookie"].startswith(f"{visitor.COOKIE}={secret};")
        client.cookies.clear()
        assert secret not in client.get("/", headers={"Accept": "text/html"}).headers["set-cookie"]
        client.cookies.set(visitor.COOKIE, "<script>")
        assert "<script>" not in client.get("/", headers={"Accept": "text/html"}).headers["set-cookie"]
    with TestClient(app, base_url="https://lab.example") as client:
        assert "; Secure" in client.get("/", headers={"Accept": "text/html"}).headers["set-cookie"]


@pytest.mark.parametrize("value", ["", "short", "x" * 65, "a b" * 12, "ä" * 40, "../" * 12])
def test_a_cookie_that_we_did_not_make_names_nobody(value: str) -> None:
    assert visitor.named({visitor.COOKIE: value}) is None


# Saving


@pytest.fixture
def saving(fresh: Runs, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    """Runs as the app has them: saved for whoever is at the page."""
    library = services.library()
    shelf = Shelf(lambda choice: scripted_family(), lambda *asked: None)
    runs = Runs(
        lambda choice, gone: shelf.get(choice, gone),
        owner=lambda: ANNA,
        save=lambda run: keeping.keep(run, library),
    )
    monkeypatch.setattr(services, "runs", lambda: runs)
    monkeypatch.setattr(visitor, "of_session", lambda: ANNA)
    monkeypatch.setattr(visitor, "is_remembered", lambda: True)
    yield runs
    runs.close()


LANES = (Settings(proposer="none", max_new_tokens=24), Settings(max_new_tokens=24))


def finish(runs: Runs, prompt: str = "abc", lanes: tuple[Settings, ...] = LANES) -> Saved | None:
    """A run, and what the library has of it a moment after its end."""
    run = runs.start(Request(prompt, lanes, ("Plain decoding", "Draft model, γ = 4")[: len(lanes)], Choice()))
    assert run.wait(20)
    deadline = time.monotonic() + 20
    while (saved := services.library().get(ANNA, run.id)) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return saved


def test_runs_on_one_prompt_are_told_apart_by_their_unusual_settings(saving: Runs) -> None:
    """Catches: two cards alike, of a run at temperature 0 and one at 0.7 with a seed; the usual settings on each; an
    option that the lane's name leaves out."""
    warm = {"temperature": 0.7, "seed": 1_234_567, "top_k": 5, "max_new_tokens": 24, "stop": ("\n\n",)}
    lanes = (
        Settings(proposer="none", **warm),
        Settings(memory_budget_mb=50, **warm),
    )
    saved = finish(saving, lanes=lanes)
    assert saved is not None and saved.request is not None
    shown = unusual.of(saved)
    assert shown.shared == (
        *("temperature 0.7", "top-k 5", "seed 1234567"),
        *("up to 24 tokens", "stops at “\\n\\n”"),
    )
    assert shown.lanes == ((), ("γ = 4", "50 MB a round"))
    content = json.loads(saved.request)
    content["choice"]["target"] = REAL
    begins = {"depth": 3, "top_k": 2, "nodes": 4}
    for options, words in ((begins, ()), ({**begins, "nodes": 9}, ("tokens sent = 9",))):
        content["lanes"][1] |= {"proposer": "eagle", "options": options, "memory_budget_mb": 0.0}
        assert unusual.of(replace(saved, request=json.dumps(content))).lanes[1] == words
    for broken in (None, "", "{}", json.dumps({**content, "ends": {"7": "eos"}})):
        assert unusual.of(replace(saved, request=broken)) == unusual.Unusual((), ((), ()))
    usual = finish(saving, lanes=(Settings(proposer="none"), Settings()))
    assert usual is not None and unusual.of(usual).shared == ()
    at = AppTest.from_file(MAIN, default_timeout=60)
    at.switch_page("app_pages/library.py").run()
    assert not at.exception
    said = [note.value.replace("\\", "") for note in at.caption if "Plain decoding" in note.value]
    assert any("B · Draft model, γ = 4, 50 MB a round · temperature 0.7 · top-k 5" in line for line in said)
    assert any("B · Draft model, γ = 4 · " in line and "temperature" not in line for line in said)


def test_an_own_run_imported_again_has_its_prompt_as_title_and_the_time_of_its_recording(
    saving: Runs,
) -> None:
    """Catches: “race” as a title, the time of the import as that of the run, “recorded elsewhere” of what ran here."""
    saved = finish(saving, "once upon")
    assert saved is not None
    lanes = [Trace.from_json(services.library().trace(saved.id, lane, ANNA) or b"") for lane in (0, 1)]
    for trace in lanes:
        trace.header = replace(trace.header, created="2026-01-02T03:04:05+00:00")
    run, _ = importing.take(ANNA, race_json(lanes).encode(), services.library())
    again = services.library().get(ANNA, run)
    assert again is not None and entries.of_saved(again).title == "“once upon”"
    recorded_at, came = rows.times(again)
    assert recorded_at == "recorded 2 Jan 2026, 03:04" and came == f"**imported** {rows.when(again.created)}"
    assert "elsewhere" not in entries.origin(entries.of_saved(again))
    assert rows.times(replace(again, recorded="yesterday")) == [came]


def test_a_finished_run_is_kept_with_all_its_lanes(saving: Runs) -> None:
    saved = finish(saving)
    assert saved is not None
    assert (saved.prompt, saved.origin, [lane.label for lane in saved.lanes]) == (
        "abc",
        "measured",
        ["Plain decoding", "Draft model, γ = 4"],
    )
    run = saving.get(saved.id)
    assert run is not None
    for lane, trace in run.traces.items():
        assert Trace.from_json(services.library().trace(saved.id, lane, ANNA) or b"") == trace
        assert trace.audit() == []
    assert services.library().runs_of(BEN) == []


def test_a_run_without_an_owner_or_without_tokens_is_not_kept(fresh: Runs, saving: Runs) -> None:
    run = fresh.start(Request("abc", LANES, ("a", "b"), Choice()))  # `fresh` knows no owner
    assert run.wait(20)
    failed = saving.start(Request("abc", (LANES[1].but(proposer="medusa"),), ("x",), Choice()))
    assert failed.wait(20) and failed.error
    time.sleep(0.2)
    assert services.library().runs_of(ANNA) == []


def test_a_library_that_fails_does_not_fail_the_run(fresh: Runs, caplog: pytest.LogCaptureFixture) -> None:
    def broken(run: object) -> None:
        raise OSError("disk full")

    shelf = Shelf(lambda choice: scripted_family(), lambda *asked: None)
    runs = Runs(lambda choice, gone: shelf.get(choice, gone), owner=lambda: ANNA, save=broken)
    run = runs.start(Request("abc", LANES, ("a", "b"), Choice()))
    assert run.wait(20) and run.error is None and len(run.traces) == 2
    deadline = time.monotonic() + 20
    while "could not be saved" not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.01)
    assert "disk full" in caplog.text
    runs.close()


def test_a_kept_trace_is_served_to_its_owner_and_to_who_has_the_link(
    saving: Runs, kept: list[tuple[Summary, bytes]]
) -> None:
    library = services.library()
    run = add(library, kept)
    link = library.share(ANNA, run)
    app = Starlette(routes=routes.routes())
    with TestClient(app) as client:
        assert client.get(f"/traces/{run}-1.json").status_code == 404
        assert client.get(f"/traces/{link}-1.json").content == kept[1][1]
        for strange in (f"{run}-9", f"{run}-", f"{run}-99999999999999999999", f"{run}-¹", "-1", "--1"):
            assert client.get(f"/traces/{strange}.json").status_code == 404
        client.cookies.set(visitor.COOKIE, BEN)
        assert client.get(f"/traces/{run}-1.json").status_code == 404
        client.cookies.set(visitor.COOKIE, ANNA)
        answer = client.get(f"/traces/{run}-1.json")
        assert answer.content == kept[1][1] and answer.headers["cache-control"] == "no-store"
        library.revoke(ANNA, run)
        client.cookies.clear()
        assert client.get(f"/traces/{link}-1.json").status_code == 404


# Finding


def entry(key: str, *, prompt: str = "a prompt", created: float = 0.0, **changes: object) -> Entry:
    values: dict[str, object] = {
        "label": "Draft model, γ = 4", "proposer": "draft-model", "rule": "speculative-sampling", "lossy": False,
        "target": "specdec-target", "draft": "specdec-draft", "tokens": 24, "passes": 8, "acceptance": 0.5,
        "tokens_per_pass": 3.0, "tokens_per_second": 9.0, "speedup": 1.5, "end": "length", "problem": None,
    }  # fmt: skip
    return Entry(key, key, prompt, created, (Summary(**{**values, **changes}),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"proposer": "prompt-lookup", "max_new_tokens": 5}, "nothing was judged."),
        ({"proposer": "branching", "max_new_tokens": 24}, "its proposals were trees"),
        ({"proposer": "lookahead", "max_new_tokens": 1}, "nothing was judged, or"),
        ({"proposer": "draft-model", "max_new_tokens": 24}, None),
        ({"proposer": "none", "max_new_tokens": 24}, None),
    ],
)
def test_the_reason_for_a_missing_alpha_is_that_of_the_record(
    choices: dict[str, Any], reason: str | None
) -> None:
    """Catches: “proposals were trees” of a lookup that found nothing."""
    from specdec_core import decode

    trace = decode(scripted_models(), "abc", Settings(**choices))  # type: ignore[arg-type]
    (summary,) = summarize([trace], ["x"])
    found = rows.why_no_alpha(summary)
    assert (found is None) == (reason is None) and (found or "").startswith(reason or "")
    judged = sum(verdict in ("accepted", "rejected") for row in trace.rounds for verdict in row.nodes.verdict)
    branched = any(len(set(row.nodes.parent)) < len(row.nodes.parent) for row in trace.rounds)
    assert {"nothing was judged.": not judged, "its proposals were trees": branched}.get(str(reason), True)


def test_a_lane_without_alpha_says_why_below_the_table(saving: Runs) -> None:
    saved = finish(
        saving, lanes=(LANES[0].but(max_new_tokens=5), Settings(proposer="prompt-lookup", max_new_tokens=5))
    )
    assert saved is not None
    at = page(run=saved.id)
    assert tables(at)[0][1]["Acceptance rate α"] == "—"
    said = [caption.value for caption in at.caption if caption.value.startswith("No α")]
    assert len(said) == 1 and said[0].endswith(": nothing was judged.")


def test_a_search_finds_prompt_name_proposer_rule_and_model() -> None:
    entries = [
        entry("Straße", prompt="Once upon a TIME"),
        entry("b", proposer="eagle", label="EAGLE head", rule="typical", target="gpt2"),
    ]

    def keys(words: str, proposer: str = "any") -> list[str]:
        return [found.key for found in listing.find(entries, words, proposer, "name")]

    assert keys("") == ["b", "Straße"]
    assert keys("STRASSE") == keys("upon time") == keys("time upon") == keys("γ") == ["Straße"]
    assert keys("eagle") == keys("Typical accept") == keys("gpt2") == ["b"]
    assert keys("eagle upon") == keys("%") == keys("nothing like it") == []
    assert keys("", "eagle") == ["b"] and keys("upon", "eagle") == []


def test_orders_sort_by_what_they_say_and_put_what_has_no_figure_last() -> None:
    entries = [
        entry("b", created=2, tokens_per_pass=3.0, speedup=None),
        entry("A", created=3, tokens_per_pass=None, speedup=0.8),
        entry("c", created=1, tokens_per_pass=1.5, speedup=1.2),
    ]

    def keys(order: str) -> str:
        return "".join(found.key for found in listing.find(entries, "", "any", order))

    assert {order: keys(order) for order in listing.ORDERS} == {
        "newest": "Abc",
        "oldest": "cbA",
        "tokens-per-pass": "bcA",
        "speedup": "cAb",
        "name": "Abc",
    }


@pytest.mark.parametrize("off_the_clock", ["oracle", "you"])
def test_a_bound_is_no_measured_speedup_in_the_order(off_the_clock: str) -> None:
    """Catches: the oracle, whose guesses cost nothing, on top of everything that was measured, by either figure."""
    bound = entry("bound", proposer=off_the_clock, speedup=9.0, tokens_per_pass=5.0)
    slow = entry("slow", speedup=0.5)
    both = Entry("both", "both", "a prompt", 0.0, (*bound.lanes, *entry("x", speedup=0.7).lanes))
    order = listing.find([bound, slow, both], "", "any", "speedup")
    assert [found.key for found in order] == ["both", "slow", "bound"]
    some = entry("some", speedup=0.5, tokens_per_pass=1.5)
    assert listing.find([bound, some], "", "any", "tokens-per-pass")[0] is some


def test_a_card_shows_every_lane_with_its_letter() -> None:
    """Catches: “and 2 more lanes”, one of which was the fastest; figures that belong to no name."""

    def of(*lanes: tuple[str, float]) -> Entry:
        made = [
            entry("x", proposer=name, tokens_per_second=speed, speedup=speed / 10) for name, speed in lanes
        ]
        return Entry("all", "all", "a prompt", 0.0, tuple(lane.lanes[0] for lane in made))

    many = of(("none", 10), ("draft-model", 11), ("eagle", 8), ("oracle", 99), ("eagle3", 20), ("medusa", 7))
    lines = rows.lines(many)
    assert [line[:8] for line in lines] == [f"**{letter}** · " for letter in "ABCDEF"]
    assert "10 tokens/s" in lines[0] and "**1.10×**" in lines[1] and "**2.00×**" in lines[4]
    (alone,) = rows.lines(of(("none", 10)))
    assert "**A**" not in alone


def test_a_speedup_that_chance_could_bring_is_no_clear_one() -> None:
    """By the intervals of “Why faster, why slower”, as in the player's headline. Catches: 1.17× in the library of what
    the run itself called not clearly faster; a doubt about runs that were kept before it was asked."""
    said = [
        rows.speedup(entry("x", speedup=speedup, firm=firm, tokens_per_pass=2.0).lanes[0], elsewhere=False)
        for speedup, firm in (
            *((1.17, False), (0.9, False), (1.001, False), (2.4, False)),
            *((1.17, True), (1.17, None)),
        )
    ]
    assert said == [
        "**1.17×** speedup, measured, not clearly faster",
        "**0.90×** speedup, measured, not clearly slower",
        "**1.00×** speedup, measured, not clearly faster or slower",
        "**2.40×** speedup, measured, above the tokens per pass: timing noise",
        "**1.17×** speedup, measured",
        "**1.17×** speedup, measured",
    ]


def test_whether_a_speedup_is_clear_is_kept_with_it() -> None:
    """Rounds of 10 ms against 30 ms for over three tokens; then every other plain round takes a second. Catches:
    another test than that of the diagnosis, a baseline that is compared with itself."""
    from specdec_core import decode

    plain, lane = (
        decode(scripted_models(), "abc", Settings(proposer=name, max_new_tokens=24))
        for name in ("none", "draft-model")
    )
    for trace, took in ((plain, 0.010), (lane, 0.030)):
        for row in trace.rounds:
            row.draft_s, row.verify_s, row.judge_s, row.commit_s = 0.0, took, 0.0, 0.0
        rate = trace.stats.tokens / took / len(trace.rounds)
        trace.stats = replace(
            trace.stats, draft_s=0.0, verify_s=took * len(trace.rounds), other_s=0.0, tokens_per_second=rate
        )
    for slow, firm in ((0.010, True), (1.0, False)):
        for row in plain.rounds[::2]:
            row.verify_s = slow
        found = why(plain, lane)
        assert found is not None and (found.low > 1) is firm
        assert [one.firm for one in summarize([plain, lane], ["a", "b"])] == [None, firm]


def test_only_runs_of_one_prompt_stand_side_by_side_and_never_with_another_s_baseline() -> None:
    one, same, other = entry("a"), entry("b"), entry("c", prompt="another")
    plain = entry("d", proposer="none")
    both = Entry("e", "e", "a prompt", 0.0, (*plain.lanes, *one.lanes))
    assert listing.together([one, same]) is None
    assert "“a” and “c” continue different prompts" in (listing.together([one, same, other]) or "")
    assert "plain decoding alone" in (listing.together([one, plain]) or "")
    assert "7 lanes; up to 6" in (listing.together([one] * 7) or "")
    assert [(found.key, lane) for found, lane in listing.side_by_side([both])] == [("e", 0), ("e", 1)]
    assert [(found.key, lane) for found, lane in listing.side_by_side([both, same])] == [("e", 1), ("b", 0)]


# The page


def page(**params: str) -> AppTest:
    at = AppTest.from_file(MAIN, default_timeout=30)
    at.run()
    for key, value in params.items():
        at.query_params[key] = value
    at.switch_page("app_pages/library.py").run()
    assert not at.exception
    return at


def words(at: AppTest) -> str:
    kinds = (
        at.subheader,
        at.error,
        at.warning,
        at.caption,
        at.markdown,
        at.info,
        at.success,
        at.code,
        at.button,
    )
    return "\n".join(str(getattr(part, "label", None) or part.value) for kind in kinds for part in kind)


def shown(at: AppTest) -> list[str]:
    """The titles of the cards on the page."""
    return [button.label for button in at.button if button.key.startswith("open-")]


def param(at: AppTest, key: str) -> str | None:
    value = at.query_params.get(key)
    return value[-1] if isinstance(value, list) else value


@pytest.mark.parametrize("state", ["loading", "failed"])
def test_examples_can_be_opened_while_models_load_or_after_they_failed(
    fresh: Runs, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    never = threading.Event()

    def load(choice: Choice) -> object:
        never.wait(20)
        raise OSError("no weights")

    shelf = Shelf(load, lambda *asked: None)
    monkeypatch.setattr(services, "shelf", lambda: shelf)
    shelf.warm()
    if state == "failed":
        never.set()
    deadline = time.monotonic() + 20
    while shelf.status(Choice()).state != state and time.monotonic() < deadline:
        time.sleep(0.01)
    assert shelf.status(Choice()).state == state
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
    assert brought == {"run": [shared.link], "hide": ["search,own,examples,link"]}
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


def test_a_link_hides_parts_of_the_library(saving: Runs) -> None:
    """Each part by itself. Catches: a part that is named and stays, or one that goes with another."""
    saved = finish(saving)
    assert saved is not None
    there = {
        "own": lambda at: "Your runs" in words(at),
        "examples": lambda at: "Recorded examples" in words(at),
        "tools": lambda at: any(button.key == "share" for button in at.button),
        "numbers": lambda at: bool(tables(at)),
        "link": lambda at: any(button.key == "present_now_library" for button in at.button),
        "download": lambda at: bool(at.get("download_button")),
    }
    for away in [set(), *({part} for part in links.PARTS["library"]), set(links.PARTS["library"])]:
        at = page(run=saved.id, hide=",".join(away))
        assert not at.warning
        for part, shows in there.items():
            assert shows(at) == (part not in away), (part, away)
        styled = " ".join(element.proto.body for element in at.get("html"))
        for part in ("title", "search"):
            assert (f".st-key-{presenter.box(part)}" in styled) == (part in away)
    (strange,) = page(hide="own,lanes").warning
    assert "hides “lanes”" in strange.value and "it can hide title, search, own" in strange.value


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


# What is opened, what the player receives of it, and links that last


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the player is given."""
    given: list[dict[str, Any]] = []
    draw = flow.player
    monkeypatch.setattr(flow, "player", lambda **shown: given.append(shown) or draw(**shown))
    return given


def restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a restart of the server: no run is in memory, the library is as it was."""
    runs = Runs(lambda choice, gone: scripted_family())
    monkeypatch.setattr(services, "runs", lambda: runs)


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
    run = saving.start(Request("abc", LANES, ("Plain decoding", "Draft model"), Choice()))
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
