"""What the room's pages follow: an event stream of views, each sent when it has changed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from app.room import asked as asking
from app.room import here, lesson_plan
from app.room.live import Followed
from app.room.pages import views
from app.room.states import Room

from .room_request import NO_STORE, Body, Stop, code_of, host_only, room_of, seat_of

MOST_STREAMS = 2_000
HEARTBEAT_S = 15.0
STREAM = "text/event-stream"


async def student_events(request: Request) -> Response:
    """What a student's page shows, as it changes."""
    try:
        seat = await seat_of(request)
    except Stop as error:
        if error.status != 401:
            raise
        # Not an error: everybody's first look at the page. Browsers would report the status as one.
        return StreamingResponse(
            iter([f"event: join\ndata: {json.dumps(error.more)}\n\n"]), media_type=STREAM
        )
    language = lesson_plan.spoken(request.query_params.get("lang", "en"))

    def seen(found: Followed, room: Room, at: float) -> Body:
        return views.student(room, language, found.of(seat), at, found.run(at)) | {"away": found.away}

    return _stream(request, seen, seat=seat, language=language)


async def screen_events(request: Request) -> Response:
    """What the projector shows, as it changes."""
    await room_of(request)

    def seen(found: Followed, room: Room, at: float) -> Body:
        return views.screen(room, found.all_votes(), found.here, at, found.run(at))

    return _stream(request, seen)


async def host_events(request: Request) -> Response:
    """What the host sees, as it changes."""
    await host_only(request)

    def seen(found: Followed, room: Room, at: float) -> Body:
        titles = lesson_plan.titles(room.language)
        return views.host(room, found.all_votes(), found.here, found.lost, at, titles, found.run(at))

    return _stream(request, seen, host=True)


Seen = Callable[[Followed, Room, float], Body]


def _stream(
    request: Request, seen: Seen, *, seat: str = "", host: bool = False, language: str = ""
) -> Response:
    if here.live().streams >= MOST_STREAMS:
        raise Stop(503, "Too many pages are open on this server; try again in a moment.")
    return StreamingResponse(
        _views(code_of(request), seen, seat, host, language),
        media_type=STREAM,
        headers={**NO_STORE, "X-Accel-Buffering": "no"},
    )


async def _views(code: str, seen: Seen, seat: str, host: bool, language: str) -> AsyncIterator[str]:
    """The page's view, whenever it has changed; `gone` once the room is deleted."""
    last = ""
    async with here.live().follow(code, seat=seat, host=host) as found:
        while True:
            news = found.stepped if seat else found.changed
            if found.room is None:
                yield "event: gone\ndata: {}\n\n"
                return
            if not asking.fresh(language or found.room.language, found.room.now):
                # A lesson's first reading takes seconds, for which no other page should wait.
                await asyncio.to_thread(views.current, found.room, language or found.room.language)
                continue
            at = time.time()
            view = json.dumps(seen(found, found.room, at), ensure_ascii=False)
            yield f"data: {view}\n\n" if view != last else ": still here\n\n"
            last = view
            try:
                await asyncio.wait_for(
                    news.wait(), min(HEARTBEAT_S, (found.next_s(at) or HEARTBEAT_S) + 0.01)
                )
            except TimeoutError:
                continue
