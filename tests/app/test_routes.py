"""The routes beside the pages: health, event streams, traces, headers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.testclient import TestClient

from app import config as policy
from app import services
from app.decoding.run import Request, Run
from app.decoding.runs import Runs
from app.records import examples, visitor
from app.room import here
from app.web import ending, routes
from app.web.headers import SecurityHeaders
from specdec_core.record.trace import Trace
from specdec_core.settings import Settings

from .kept import ANNA, BEN


@pytest.fixture
def client(fresh: Runs, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """A browser of Anna's, who begins all runs here."""
    monkeypatch.setattr(visitor, "of_session", lambda: ANNA)
    app = Starlette(routes=routes.routes(), middleware=[Middleware(SecurityHeaders)])
    with TestClient(app, raise_server_exceptions=False) as client:
        client.cookies.set(visitor.COOKIE, ANNA)
        yield client


@pytest.fixture
def run(client: TestClient, fresh: Runs) -> Run:
    lanes = (Settings(proposer="none", max_new_tokens=8), Settings(max_new_tokens=8))
    run = fresh.start(Request("abc", lanes, ("Plain decoding", "Draft model"), choice=_bundled()))
    assert run.wait(10)
    assert run.error is None
    return run


def _bundled() -> object:
    from app.decoding.models import ModelChoice

    return ModelChoice()


def events_of(text: str) -> list[tuple[int, dict[str, object]]]:
    found = []
    for block in text.strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines())
        found.append((int(lines["id"]), json.loads(lines["data"])))
    return found


def test_health_tells_that_the_models_failed(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a container that is healthy and cannot decode."""
    from app import services
    from app.decoding.loaded import Loaded
    from app.decoding.models import ModelCache, ModelChoice
    from specdec_core.foundations.errors import ModelError

    def broken(choice: ModelChoice) -> Loaded:
        raise ModelError("no weights")

    shelf = ModelCache(broken, lambda *asked: None)
    monkeypatch.setattr(services, "shelf", lambda: shelf)
    with pytest.raises(ModelError):
        shelf.get(ModelChoice())
    answer = client.get("/healthz")
    assert (answer.status_code, answer.json()["status"], answer.json()["models"]) == (
        503,
        "failing",
        "failed",
    )


def test_health_is_json_and_tells_whether_the_models_are_ready(client: TestClient) -> None:
    answer = client.get("/healthz")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "status": "ok",
        "models": "ready",
        "default": "ready",
        "decoders_lost": 0,
        "runs": {"loading": 0, "queued": 0, "running": 0, "asking": 0, "writing": 0, "done": 0},
    }


def test_every_response_has_the_security_headers(client: TestClient) -> None:
    for path in ("/healthz", "/traces/nope.json", "/no/such/route"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "SAMEORIGIN"
        assert headers["referrer-policy"] == "no-referrer"
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'self'" in policy
        scripts = policy.split("script-src")[1].split(";")[0]
        assert "unsafe-inline" not in scripts
        assert "unsafe-eval" not in scripts


def test_an_operator_names_who_may_frame_the_app() -> None:
    """Catches: a site that is named and still refused, a room in a frame, a policy kept from before."""
    named = policy.read(
        {"SPECDEC_LIBRARY": "", "SPECDEC_FRAME_ANCESTORS": "https://LMS.example:8443 , https://*.b.example"}
    )
    assert named.frames == ("https://lms.example:8443", "https://*.b.example")
    app = Starlette(middleware=[Middleware(SecurityHeaders, frames=lambda: named.frames)])
    with TestClient(app) as client:
        shown, room = client.get("/lab").headers, client.get("/r/abc").headers
    wanted = "frame-ancestors 'self' https://lms.example:8443 https://*.b.example"
    assert shown["content-security-policy"].endswith(wanted) and "x-frame-options" not in shown
    assert room["content-security-policy"].endswith("frame-ancestors 'self'")
    assert room["x-frame-options"] == "SAMEORIGIN"


def test_a_stream_has_numbered_events_from_started_to_done(client: TestClient, run: Run) -> None:
    answer = client.get(f"/runs/{run.id}/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.startswith("retry: 1000\n") and answer.text.count("retry") == 1
    events = events_of(answer.text)
    assert [number for number, _ in events] == list(range(len(events)))
    kinds = [event["type"] for _, event in events]
    assert kinds[:2] == ["started", "started"] and kinds.index("done") == len(kinds) - 1
    for lane in range(2):
        of_lane = [event["type"] for _, event in events if event.get("lane") == lane]
        rounds = len(run.traces[lane].rounds)
        assert of_lane == ["started", *["step"] * rounds, "finished"]
    written = [
        text
        for _, event in events
        if event["type"] == "step" and event["lane"] == 1
        for text in event["texts"]
    ]  # type: ignore[attr-defined]
    assert "".join(written) == run.traces[1].text


def test_a_stream_goes_on_after_the_last_event_the_browser_has_seen(client: TestClient, run: Run) -> None:
    whole = events_of(client.get(f"/runs/{run.id}/events").text)
    rest = events_of(client.get(f"/runs/{run.id}/events", headers={"Last-Event-ID": "4"}).text)
    assert rest == whole[5:]
    last = str(whole[-1][0])
    assert client.get(f"/runs/{run.id}/events", headers={"Last-Event-ID": last}).status_code == 204


@pytest.mark.parametrize("value", ["-1", "abc", "9" * 40])
def test_a_strange_last_event_id_begins_at_the_beginning(client: TestClient, run: Run, value: str) -> None:
    first = events_of(client.get(f"/runs/{run.id}/events", headers={"Last-Event-ID": value}).text)[0]
    assert first[0] == 0


@pytest.mark.parametrize("run_id", ["nope", "..", "%2e%2e", "a" * 500, "<script>"])
def test_a_run_that_does_not_exist_is_a_sentence(client: TestClient, run_id: str) -> None:
    answer = client.get(f"/runs/{run_id}/events")
    assert answer.status_code == 404
    assert run_id == ".." or run_id == "%2e%2e" or answer.json()["error"].endswith("no longer kept.")


def test_a_finished_lane_s_trace_is_served(client: TestClient, run: Run) -> None:
    answer = client.get(run.trace_path(1))
    assert answer.status_code == 200
    assert Trace.from_json(answer.content) == run.traces[1]


@pytest.mark.parametrize(
    "name",
    [
        "nope.json",
        "welcome-plain",
        "..%2f..%2fpyproject.toml",
        "..%2f..%2fassets%2ftraces%2fwelcome-plain.json",
        "%2e%2e%2fREADME.json",
        "a" * 100 + ".json",
        "a%00.json",
        "é.json",
        "x%22%0d%0aSet-Cookie:a.json",
    ],
)
def test_hostile_trace_names_are_a_sentence_and_read_no_file(client: TestClient, name: str) -> None:
    answer = client.get(f"/traces/{name}")
    assert answer.status_code == 404
    assert "content-disposition" not in answer.headers


def test_traces_that_ship_are_served_by_name(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "welcome-plain.json").write_text('{"format": "specdec-trace"}', encoding="utf-8")
    (tmp_path / "no good name.json").write_text("{}", encoding="utf-8")
    monkeypatch.setattr(examples, "FOLDER", tmp_path)
    examples.files.cache_clear()
    try:
        assert set(examples.files()) == {"welcome-plain"}
        assert client.get("/traces/welcome-plain.json").json() == {"format": "specdec-trace"}
    finally:
        examples.files.cache_clear()


def test_an_answer_to_nothing_is_refused_with_a_sentence(client: TestClient, run: Run) -> None:
    """Catches: a guess that is taken for a run that has ended or never was, and bodies of any size or shape."""
    address = f"/runs/{run.id}/answer"
    assert client.post("/runs/nope/answer", content=b"{}").status_code == 404
    late = client.post(address, json={"question": 1, "words": "x"})
    assert (late.status_code, "too late" in late.json()["error"]) == (409, True)
    for body in (b"", b"[]", b"null", b'{"question": 1}', b'{"question": true, "words": "x"}', b"[" * 5_000):
        assert client.post(address, content=body).status_code == 400
    assert client.post(address, json={"question": 1, "words": "x" * 501}).status_code == 400
    assert client.post(address, content=b"x" * 1_000_000).status_code == 413
    assert client.get(address).status_code == 405


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"origin": "https://elsewhere.example"}, 403),
        ({"origin": "https://testserver.elsewhere.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "same-site", "origin": "http://other.testserver"}, 403),
        ({"origin": "http://testserver"}, 409),
        ({"sec-fetch-site": "same-origin", "origin": "https://public.example"}, 409),  # behind a proxy
        ({}, 409),
    ],
)
def test_an_answer_from_another_site_is_refused(
    client: TestClient, run: Run, headers: dict[str, str], status: int
) -> None:
    """Catches: a page of another site that answers for the visitor, and a check that refuses the app's own page."""
    sent = client.post(f"/runs/{run.id}/answer", json={"question": 1, "words": "x"}, headers=headers)
    assert sent.status_code == status  # 409: let in, and too late
    assert (sent.json()["error"] == "A guess is accepted only from this server's own pages.") == (
        status == 403
    )


def test_streams_are_limited_and_counted_back(
    client: TestClient, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: somebody who opens streams until the server does nothing but poll them, and a count that never falls."""
    path = f"/runs/{run.id}/events"
    monkeypatch.setattr(routes, "MOST_STREAMS", 1)
    assert [client.get(path).status_code for _ in range(3)] == [200, 200, 200], "one after the other"
    monkeypatch.setattr(routes, "MOST_STREAMS", 0)
    refused = client.get(path)
    assert refused.status_code == 503 and "try again" in refused.json()["error"]


def test_nobody_but_its_owner_answers_for_a_run_or_watches_it(client: TestClient, run: Run) -> None:
    """Catches: whoever knows a run's id types for the visitor who began it."""
    question = {"question": 1, "words": "x"}
    assert client.post(f"/runs/{run.id}/answer", json=question).status_code == 409  # let in, and too late
    paths = (f"/runs/{run.id}/events", run.trace_path(0))
    assert [client.get(path).status_code for path in paths] == [200, 200]
    for cookies in ({}, {visitor.COOKIE: BEN}, {visitor.COOKIE: ""}):
        client.cookies.clear()
        client.cookies.update(cookies)
        assert client.post(f"/runs/{run.id}/answer", json=question).status_code == 404
        assert [client.get(path).status_code for path in paths] == [404, 404]


def test_a_browser_without_cookies_opens_what_its_own_page_began(client: TestClient, fresh: Runs) -> None:
    """Catches: a run that its owner cannot watch, and a ticket that opens another run or is handed to a viewer."""
    from app import services

    def begin(whose: str) -> Run:
        runs = Runs(lambda choice, gone: services.shelf().get(choice, gone),
                    owner=lambda: whose, remembered=lambda: False)  # fmt: skip
        found = runs.start(Request("abc", (Settings(proposer="none", max_new_tokens=8),), ("x",), _bundled()))
        assert found.wait(10) and found.error is None
        fresh.take_back(found, {lane: trace.to_json().encode() for lane, trace in found.traces.items()})
        return found

    mine, other = begin("a session"), begin("another")
    client.cookies.clear()
    assert client.get(mine.events_path).status_code == client.get(mine.trace_path(0)).status_code == 200
    assert "ticket" in events_of(client.get(mine.events_path).text)[-2][1]["trace"]  # type: ignore[operator]
    answer = mine.events_path.replace("/events", "/answer")
    assert client.post(answer, json={"question": 1, "words": "x"}).status_code == 409  # let in, and too late
    for ticket in ("", "x", other.ticket):
        for path in (f"/runs/{mine.id}/events", f"/traces/{mine.id}-0.json"):
            assert client.get(path, params={"ticket": ticket}).status_code == 404
    assert mine.ticket not in mine.seen_by("a-link").trace_path(0)


def test_a_visitor_s_words_reach_the_run_through_the_server(client: TestClient, fresh: Runs) -> None:
    """The whole way of a guess: asked in the stream, answered by a post, proposed and judged."""
    lanes = (Settings(proposer="none", max_new_tokens=6), Settings(proposer="you", max_new_tokens=6))
    run = fresh.start(Request("abc", lanes, ("Plain decoding", "You"), choice=_bundled()))
    deadline = time.monotonic() + 20
    answered = 0
    while not run.finished:
        assert time.monotonic() < deadline
        questions = [json.loads(text) for text in list(run.messages) if '"type":"ask"' in text]
        if len(questions) > answered:
            sent = client.post(
                f"/runs/{run.id}/answer", json={"question": questions[-1]["question"], "words": "d"}
            )
            assert sent.status_code == 204
            answered += 1
        time.sleep(0.005)
    assert answered
    assert run.error is None
    plain, you = run.traces.values()
    assert you.text == plain.text
    assert you.rounds[0].note["typed"] == "d"
    assert you.rounds[0].nodes.verdict == ["accepted"]


def test_the_operator_s_figures_count_runs(
    client: TestClient, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: figures that stand still, or that another host name's scraper cannot read; streams without a room's."""
    before = figures(client)
    assert before["specdec_decoders_ready"] == services.decoder().ready()
    monkeypatch.setattr(here, "live", lambda: SimpleNamespace(streams=400))
    assert figures(client)["specdec_event_streams"] == before["specdec_event_streams"] + 400
    again = services.runs().start(run.request)
    assert again.wait(10)
    after = figures(client)
    for name in (
        'specdec_jobs_ended_total{end="done",kind="run"}',
        "specdec_wait_seconds_count",
        "specdec_device_seconds_count",
    ):
        assert after[name] == before[name] + 1, name
    assert after['specdec_runs{state="done"}'] == before['specdec_runs{state="done"}'] + 1


def figures(client: TestClient) -> dict[str, float]:
    lines = client.get("/metrics").text.splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def test_the_log_can_be_json(tmp_path: Path) -> None:
    """Catches: a line that a log collector cannot read, an error's traceback among them."""
    code = (
        "import logging; from app.monitoring import log; log.start();"
        "logging.getLogger('app.x').info('run %s', 'é\\n1');"
        "\ntry: 1 / 0\nexcept ZeroDivisionError: logging.exception('bad')"
    )
    done = in_json(code)
    first, second = (json.loads(line) for line in done.stderr.splitlines())
    assert (first["level"], first["logger"], first["message"]) == ("INFO", "app.x", "run é\n1")
    assert datetime.fromisoformat(first["time"]).tzinfo is not None
    assert "ZeroDivisionError" in second["exc_info"]


def test_what_a_library_prints_is_in_the_json_log_too() -> None:
    """Catches: Ray's own lines between the objects of a log that a program reads."""
    code = (
        "import logging, sys; from app.monitoring import log; log.start();"
        "print('\\x1b[36m(Replica pid=7)\\x1b[0m WARNING 2026 slow', file=sys.stderr, flush=True);"
        "print('one\\ntwo', end=''); print();"
        "own = logging.getLogger('ray'); own.propagate = False; own.addHandler(logging.StreamHandler());"
        "own.warning('of its own'); sys.exit('No.')"
    )
    done = in_json(code)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(line["level"], line["logger"], line["message"]) for line in lines] == [
        ("WARNING", "stderr", "(Replica pid=7) WARNING 2026 slow"),
        ("INFO", "stdout", "one"),
        ("INFO", "stdout", "two"),
        ("INFO", "stderr", "of its own"),
        ("INFO", "stderr", "No."),
    ]
    assert done.stdout == ""


def test_a_log_that_cannot_be_written_complains_of_it_and_goes_on() -> None:
    """Catches: a complaint that is logged, which cannot be written either, and so on."""
    code = (
        "import logging, sys; from app.monitoring import log; log.start();"
        "logging.root.handlers[0].stream = None; logging.info('x'); print('y')"
    )
    done = in_json(code)
    assert done.returncode == 0
    assert "--- Logging error" in done.stderr and "RecursionError" not in done.stderr


def in_json(code: str) -> subprocess.CompletedProcess[str]:
    """Run it with the log as JSON."""
    environment = {**os.environ, "SPECDEC_LOG": "json"}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)


def test_the_log_s_forms_have_the_same_lines() -> None:
    """Catches: a warning of the web server in a form of its own, which a program that collects logs cannot read."""
    code = (
        "import logging; from uvicorn.config import Config; from app.monitoring import log; log.start();"
        "Config(None, access_log=False); log.join(); logging.getLogger('uvicorn.error').warning('late')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d [\d:,]+ WARNING uvicorn.error: late\n", done.stderr)


def test_event_streams_end_when_the_server_is_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a server that waits, for as long as a room is open, before it stops."""
    sent: list[Any] = []

    async def endless(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        await asyncio.Event().wait()

    async def stopped() -> None:
        stopping = asyncio.Event()
        monkeypatch.setattr(ending, "_stopping", [stopping])
        scope = {"type": "http", "path": "/r/ABCDEF/events"}
        answer = asyncio.ensure_future(ending.EndingStreams(endless)(scope, receive, send))
        await asyncio.sleep(0.05)
        assert len(sent) == 1 and not answer.done()
        stopping.set()
        await asyncio.wait_for(answer, 5)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, stopped()).result(20)
    assert sent[-1] == {"type": "http.response.body", "body": b""}
