"""The library of runs: owners, and what is kept by itself."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from streamlit.testing.v1 import AppTest

from app import services
from app.choosing.defaults import REAL
from app.decoding.models import ModelCache, ModelChoice
from app.decoding.run import Request
from app.decoding.runs import Runs
from app.library import rows, unusual
from app.records import access as entries
from app.records import importing, visitor
from app.records.summary import Summary
from app.web import routes
from specdec_core.record.read import race_json
from specdec_core.record.trace import Trace
from specdec_core.settings import Settings

from .conftest import scripted_family
from .kept import ANNA, BEN, LANES, add, finish
from .library_page import MAIN


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


def test_a_page_in_another_sites_frame_keeps_a_secret_for_that_site_behind_tls() -> None:
    """Catches: a cookie that a browser refuses in a frame, and a laxer one where nobody frames the app."""

    def page(_: object) -> PlainTextResponse:
        return PlainTextResponse("page")

    framed = {"Accept": "text/html", "Sec-Fetch-Dest": "iframe"}
    for allowed, base, given, inside in (
        (True, "https://lab.example", framed, True),
        (True, "https://lab.example", {"Accept": "text/html"}, False),
        (True, "http://lab.example", framed, False),
        (False, "https://lab.example", framed, False),
    ):
        own = Middleware(visitor.OwnerCookie, framed=lambda allowed=allowed: allowed)
        with TestClient(Starlette(routes=[Route("/", page)], middleware=[own]), base_url=base) as client:
            cookie = client.get("/", headers=given).headers["set-cookie"]
        assert ("; SameSite=None; Partitioned; Secure" in cookie) is inside
        assert ("; SameSite=Lax" in cookie) is not inside


@pytest.mark.parametrize("value", ["", "short", "x" * 65, "a b" * 12, "ä" * 40, "../" * 12])
def test_a_cookie_that_we_did_not_make_names_nobody(value: str) -> None:
    assert visitor.named({visitor.COOKIE: value}) is None


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
    begins = {"depth": 2, "top_k": 2, "nodes": 3}
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
    run = fresh.start(Request("abc", LANES, ("a", "b"), ModelChoice()))  # `fresh` knows no owner
    assert run.wait(20)
    failed = saving.start(Request("abc", (LANES[1].but(proposer="medusa"),), ("x",), ModelChoice()))
    assert failed.wait(20) and failed.error
    time.sleep(0.2)
    assert services.library().runs_of(ANNA) == []


def test_a_library_that_fails_does_not_fail_the_run(fresh: Runs, caplog: pytest.LogCaptureFixture) -> None:
    def broken(run: object) -> None:
        raise OSError("disk full")

    shelf = ModelCache(lambda choice: scripted_family(), lambda *asked: None)
    runs = Runs(lambda choice, gone: shelf.get(choice, gone), owner=lambda: ANNA, save=broken)
    run = runs.start(Request("abc", LANES, ("a", "b"), ModelChoice()))
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
