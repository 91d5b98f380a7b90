"""The routes besides the pages: health, event streams of runs, traces, and the player's files."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from app import services
from app.decoding.models import ModelChoice, family
from app.decoding.run import MAX_ANSWER, Run
from app.monitoring import figures
from app.records import examples, visitor
from app.records.database import Unavailable
from app.room import here

from . import modules, room
from .headers import foreign

PACE_S = 0.01  # between two parts of a stream: 100 times a second is more than a screen shows
LOOK_S = 0.25  # a stream looks for news this often even if nobody told it of any
PLACE_S = 0.7  # no longer is a waiting visitor left without a word on its turn
HEARTBEAT_S = 15.0
RETRY = "retry: 1000\n"  # milliseconds; browsers wait three to five seconds before they look for another web process
MOST_STREAMS = 1_000  # open at once; each is polled
MAX_ANSWER_BYTES = 12 * MAX_ANSWER + 100  # a character can take twelve bytes as JSON


def routes() -> list[BaseRoute]:
    """All routes of the app besides Streamlit's own."""
    return [
        Route("/healthz", healthz),
        Route("/metrics", metrics),
        Route("/lab", lab),
        Route("/runs/{run_id}/events", events),
        Route("/runs/{run_id}/answer", answer, methods=["POST"]),
        Route("/traces/{name}", trace),
        Route("/player/{name}", modules.player),
        *room.routes(),
    ]


async def healthz(_request: Request) -> Response:
    """The state of the server: 503 once its models have failed. `models` says whether a run can start at once,
    `default` the same for the default family."""
    shelf, usual = services.shelf(), family(services.operator().family)
    words = {"ready": "ready", "failed": "failed"}
    failed = shelf.status(ModelChoice()).state == "failed"
    body = {
        "status": "failing" if failed else "ok",
        "models": words.get(shelf.status(ModelChoice()).state, "warming"),
        "default": words.get(shelf.status(usual).state, "warming"),
        "decoders_lost": services.decoder().lost(),
        "runs": services.runs().counts(),
    }
    return JSONResponse(body, 503 if failed else 200, headers={"Cache-Control": "no-store"})


async def metrics(_request: Request) -> Response:
    """The operator's figures, as Prometheus reads them. They name no visitor and no prompt."""
    for state, number in services.runs().counts().items():
        figures.runs.labels(state).set(number)
    figures.streams.set(len(_open) + here.live().streams)
    figures.lost.set(services.decoder().lost())
    figures.decoders_ready.set(await asyncio.to_thread(services.decoder().ready))
    for name, choice in (("bundled", ModelChoice()), ("default", family(services.operator().family))):
        figures.ready.labels(name).set(services.shelf().status(choice).state == "ready")
    return Response(generate_latest(figures.REGISTRY), media_type=CONTENT_TYPE_LATEST)


async def lab(request: Request) -> Response:
    """The lab is the page without a name; requests for its name are redirected there."""
    return RedirectResponse(f"./?{request.url.query}", status_code=307)


async def events(request: Request) -> Response:
    """A run's messages as server-sent events, from the beginning or from where the browser left off."""
    try:
        run = await asyncio.to_thread(_said, request, request.path_params["run_id"])
    except Unavailable as error:
        return _refused(503, str(error))
    if run is None:
        return _missing("This run does not exist, or is no longer kept.")
    last = request.headers.get("last-event-id", "")
    start = run.after(int(last)) if last.isdecimal() and len(last) < 10 else 0
    if run.finished and start >= len(run.messages):
        return Response(status_code=204)  # makes an EventSource stop reconnecting
    if len(_open) >= MOST_STREAMS:
        return _refused(503, "Too many runs are being watched on this server; try again in a moment.")
    return StreamingResponse(
        _stream(run, start),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def answer(request: Request) -> Response:
    """The visitor's next words for a run that requests them: {"question": its number, "words": text}.

    Only the run's owner may answer, and only from a page of this site.
    """
    if foreign(request.headers):
        return _refused(403, "A guess is accepted only from this server's own pages.")
    run = _own(request, request.path_params["run_id"])
    if run is None:
        return _missing("This run does not exist, or is no longer kept.")
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_ANSWER_BYTES:
            return _refused(413, f"A guess has at most {MAX_ANSWER} characters.")
    try:
        content = json.loads(body)
        question, words = content["question"], content["words"]
    except (ValueError, KeyError, TypeError, RecursionError):
        question, words = None, None
    if type(question) is not int or not isinstance(words, str) or len(words) > MAX_ANSWER:
        return _refused(400, f"A guess is a question's number and up to {MAX_ANSWER} characters.")
    if not run.answer(question, words):
        return _refused(409, "The run has continued or ended; this guess came too late.")
    return Response(status_code=204)


_open: set[object] = set()  # a mark for each open stream


async def _stream(run: Run, sent: int) -> AsyncIterator[str]:
    mark = object()
    _open.add(mark)
    try:
        async for part in _messages(run, sent):
            yield part
    finally:
        _open.discard(mark)


async def _messages(run: Run, sent: int) -> AsyncIterator[str]:
    spoke, first = time.monotonic(), RETRY
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    with run.told(lambda: loop.call_soon_threadsafe(told.set)):
        while True:
            told.clear()
            ended = run.finished  # read before the messages, so that none in between is missed
            news = run.messages[sent:]
            if news:
                yield first + "".join(
                    f"id: {run.number(sent + at)}\ndata: {message}\n\n" for at, message in enumerate(news)
                )
                sent, spoke, first = sent + len(news), time.monotonic(), ""
                await asyncio.sleep(PACE_S)
            if ended:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(told.wait(), LOOK_S)
            silent = time.monotonic() - spoke
            if silent >= PLACE_S and (waiting := run.waiting):
                yield f"event: waiting\ndata: {waiting}\n\n"  # true for a moment only: it has no number and is not kept
                spoke = time.monotonic()
            elif silent >= HEARTBEAT_S:
                yield ": still here\n\n"
                spoke = time.monotonic()


def trace(request: Request) -> Response:
    """A trace as JSON: a bundled one, or a lane of a run that is the visitor's own or opened by a shared link."""
    name = str(request.path_params["name"])
    trace_id = name.removesuffix(".json")
    if not name.endswith(".json") or not examples.TRACE_ID.fullmatch(trace_id):
        return _missing("A trace's address is /traces/, its name of letters, digits, - and _, and .json.")
    shipped = examples.files().get(trace_id)
    key, _, lane = trace_id.rpartition("-")
    body = shipped.read_bytes() if shipped else None
    if body is None and _own(request, key):
        body = services.runs().trace(trace_id)
    if body is None and lane.isascii() and lane.isdecimal() and len(lane) < 3:
        try:
            body = services.library().trace(key, int(lane), visitor.named(request.cookies))
        except Unavailable as error:
            return _refused(503, str(error))
    if body is None:
        return _missing("This trace does not exist, or is no longer kept.")
    cache = "no-cache" if shipped else "no-store"
    return Response(body, media_type="application/json", headers={"Cache-Control": cache})


def _own(request: Request, run_id: str) -> Run | None:
    """The run with that id, if it is in memory and the requesting browser is its owner's.

    Nothing else opens a run here: addresses that people pass on contain its id, and a shared link can be revoked.
    """
    run = services.runs().get(run_id)
    ticket = request.query_params.get("ticket", "")
    return run if run is not None and run.belongs_to(visitor.named(request.cookies), ticket) else None


def _said(request: Request, run_id: str) -> Run | None:
    """The same, or as far as the journal has it: it runs elsewhere, or its messages are no longer in memory."""
    run, journal = _own(request, run_id), services.journal()
    if journal is None or (run is not None and not run.restored):
        return run
    ticket = request.query_params.get("ticket", "")
    return journal.find(run_id, visitor.named(request.cookies), ticket) or run


def _missing(sentence: str) -> Response:
    return _refused(404, sentence)


def _refused(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status_code=status)
