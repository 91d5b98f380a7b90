"""What strangers send: some hundred hostile addresses, headers, cookies and bodies to the whole app, in one process.

Every answer is one of ours: no traceback, no status of 500, nothing of what another visitor has, and nothing in the log
but sentences.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient
from streamlit.testing.v1 import AppTest

from app import services
from app.decoding.models import ModelChoice
from app.decoding.run import Request, Run
from app.decoding.runs import Runs
from app.records import visitor
from app.records.database import Database
from app.room import codes, here
from app.room.limits import Limit
from app.room.live import Live
from app.room.store import Rooms
from app.web import room as room_routes
from app.web import room_request
from specdec_core.record.trace import Trace
from specdec_core.settings import Settings

from .kept import ANNA, BEN

MAIN = Path(__file__).resolve().parents[2] / "app" / "main.py"
PRIVATE = "hgfedcba"  # Ben's prompt
STRIDE = 3  # of all combinations: each text meets a third of the places, and each place a third of the texts
NASTY = (
    "", ".", "..", "../../etc/passwd", "..\\..\\secrets", "....//....//etc/passwd", "/etc/passwd", "C:\\x", "a\0b",
    "a\r\nSet-Cookie: x=1", "<script>alert(1)</script>", "'; DROP TABLE runs; --", "{{7*7}}", "${x}", "%s%n", "-1",
    "1e309", "NaN", "٣", "null", "[]", "__proto__", "x" * 5_000, "é", "\u202e", "😀", "\ufdd0", ";", "?", "#", "%",
    "recorded.", "recorded...", "a,b,c", ",".join("a" * 400),
)  # fmt: skip
BODIES = (
    b"", b"null", b"[]", b"{", b"\xff\xfe", b"[" * 50_000, b'{"a":' * 5_000, b"x" * 1_000_000, b'{"question": 1e400}',
    b'{"question": -1, "words": null}', b'{"question": 1, "words": "\\ud800"}', b'{"step": true, "given": {}}',
    b'{"lessons": {"a": 1}, "language": [], "named": 2}', b'{"lessons": ["race"], "language": "\\u0000"}',
    b'{"move": [], "step": 1e99}', b'{"secret": {"a": 1}}', b'{"moves": [[[[]]], 1, null]}', b'{"name": ["\\ud800"]}',
    b'{"step": 99999999999999999999999999, "given": "\\ud800"}', b'{"name": "\\ud800\\u0000", "step": 0}',
)  # fmt: skip


@pytest.fixture
def bens(fresh: Runs, race_traces: list[Trace], monkeypatch: pytest.MonkeyPatch) -> Run:
    """A run of Ben's in memory; the same prompt in his library, and a room that he leads."""
    database = Database()
    rooms = Rooms(database)
    live = Live(lambda: rooms)
    monkeypatch.setattr(services, "database", lambda: database)
    monkeypatch.setattr(here, "rooms", lambda: rooms)
    monkeypatch.setattr(here, "live", lambda: live)
    monkeypatch.setattr(room_request, "unknown", Limit(10**6, 60.0))  # all of them are to be looked at
    monkeypatch.setattr(room_routes, "unknown", room_request.unknown)
    monkeypatch.setattr(visitor, "of_session", lambda: BEN)
    run = fresh.start(
        Request(PRIVATE, (Settings(proposer="none", max_new_tokens=4),), ("x",), choice=ModelChoice())
    )
    assert run.wait(20) and run.error is None
    monkeypatch.setattr(visitor, "of_session", lambda: ANNA)
    return run


@pytest.fixture
def stranger(bens: Run, caplog: pytest.LogCaptureFixture) -> Iterator[TestClient]:
    """Anna's browser, on the app that is served; what the app raises, it raises. Nothing is warmed up."""
    from app.web.server import app

    client = TestClient(app, base_url="http://127.0.0.1:8713", follow_redirects=False)
    with caplog.at_level(logging.WARNING):
        yield client
    assert not [record.getMessage() for record in caplog.records if record.exc_info]


def addresses(run: Run, text: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Method, address and headers of each request with that text in it."""
    part, whole, query = quote(text), quote(text, safe=""), quote(text, safe="")
    for path in (
        "/",
        "/traces/",
        "/runs/",
        "/r/",
        "/r/assets/",
        "/player/",
        "/media/",
        "/component/",
    ):
        yield "GET", path + part, {}
        yield "GET", path + whole, {}
    for path in ("/traces/{}.json", "/runs/{}/events", "/r/{}/events", "/r/{}/qr.svg", "/r/{}/host/events",
                 "/r/{}/screen/events", "/r/{}/still/{}", "/r/{}/host/votes.{}"):  # fmt: skip
        yield "GET", path.replace("{}", whole), {}
    for path in ("/runs/{}/answer", "/r/{}/join", "/r/{}/vote", "/r/{}/host", "/r/{}/host/drive"):
        yield "POST", path.replace("{}", whole), {}
    for path in (f"/runs/{run.id}/events?ticket=", f"/traces/{run.id}-0.json?ticket=", "/r?lang=",
                 "/r/start?lang=", "/lab?", "/?run=", "/healthz?x="):  # fmt: skip
        yield "GET", path + query, {}
    shown = (
        text.encode("utf-8", "replace")
        .decode("latin-1")
        .replace("\r", "")
        .replace("\n", "")
        .replace("\0", "")
    )
    for header in (
        "last-event-id",
        "host",
        "origin",
        "cookie",
        "accept",
        "range",
        "x-forwarded-proto",
        "sec-fetch-site",
    ):
        yield "GET", f"/runs/{run.id}/events", {header: shown}
    for name in (visitor.COOKIE, visitor.SECURE):
        yield "GET", f"/traces/{run.id}-0.json", {"cookie": f"{name}={shown}", "accept": "text/html"}


def is_ours(status: int, body: bytes, asked: object) -> None:
    assert status < 500 or status == 503, asked
    assert b"Traceback" not in body and b'File "' not in body, asked
    assert PRIVATE.encode() not in body and BEN.encode() not in body, asked


def test_hostile_addresses_and_headers_are_answered(stranger: TestClient, bens: Run) -> None:
    asked = [request for text in NASTY for request in addresses(bens, text)][::STRIDE]
    assert len(asked) > 400
    for method, address, headers in asked:
        answer = stranger.request(
            method, address, headers={name: value.encode("latin-1") for name, value in headers.items()}
        )
        is_ours(answer.status_code, answer.content, (method, address[:200], headers))
        assert "x" not in answer.cookies, address
    own = {"cookie": f"{visitor.COOKIE}={BEN}"}  # and it was there to be found
    assert PRIVATE in stranger.get(f"/traces/{bens.id}-0.json", headers=own).text


@pytest.mark.parametrize("cookie", ["", "specdec_seat_{}={}", "specdec_host_{}={}"])
def test_hostile_bodies_are_answered(stranger: TestClient, bens: Run, cookie: str) -> None:
    """With a seat and with the host's secret too: a student and a teacher can send what they like."""
    rooms = here.rooms()
    code, secret = rooms.create(["race"], "en", named=True)
    seat = codes.token()
    rooms.join(code, seat, "Anna")
    with_cookie = {"cookie": cookie.format(code, seat if "seat" in cookie else secret)}
    paths = (f"/runs/{bens.id}/answer", "/r/start", *(f"/r/{code}/{what}" for what in
             ("join", "vote", "lost", "still/0", "still/x", "host", "host/drive")))  # fmt: skip
    for path in paths:
        for body in BODIES:
            answer = stranger.post(path, content=body, headers=with_cookie)
            is_ours(answer.status_code, answer.content, (path, body[:80]))
            if answer.status_code >= 400:
                assert json.loads(answer.content)["error"].endswith(".")


@pytest.mark.parametrize("page", ["lab", "library"])
def test_hostile_names_of_runs_open_a_page_that_says_so(
    bens: Run, page: str, race_traces: list[Trace]
) -> None:
    """Ben's run by its id among them."""
    at = AppTest.from_file(MAIN, default_timeout=60)
    if page != "lab":
        at.switch_page(f"app_pages/{page}.py")
    for text in (bens.id, f"{bens.id},{bens.id}", *NASTY[3::9]):
        at.query_params.clear()
        at.query_params["run"] = at.query_params["round"] = at.query_params["view"] = text
        at.run()
        assert not at.exception, text
        assert not any(PRIVATE in str(element.value) for element in (*at.markdown, *at.text_area, *at.info))
