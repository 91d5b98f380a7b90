"""What a request to a room's routes brings: its body, its room, its seat, its right to drive; each refusal a sentence.

A seat's token and the host's secret are in cookies that no script can read.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.records.database import Unavailable
from app.records.keys import digest
from app.room import codes, here
from app.room.limits import Limit
from app.room.states import Room, RoomRefused

from .headers import foreign

MOST_BYTES = 20_000  # of a request
MOST_NUMBER = 2**31 - 1
AGE_S = 7 * 24 * 3600
NO_STORE = {"Cache-Control": "no-store"}
unknown = Limit(40, 60.0)  # codes tried that open nothing, for each address

Body = dict[str, Any]
Endpoint = Callable[[Request], Awaitable[Response]]


class Stop(Exception):
    """A request that is refused: its status and one sentence."""

    def __init__(self, status: int, sentence: str, **more: bool) -> None:
        super().__init__(sentence)
        self.status, self.more = status, more


def handle_errors(endpoint: Endpoint) -> Endpoint:
    """The endpoint, whose refusals are sentences."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except (Stop, RoomRefused, Unavailable) as error:
            status = (
                error.status if isinstance(error, Stop) else 409 if isinstance(error, RoomRefused) else 503
            )
            more = error.more if isinstance(error, Stop) else {}
            return JSONResponse({"error": str(error), **more}, status_code=status, headers=NO_STORE)

    return answer


async def body_of(request: Request) -> Body:
    """A request's JSON object, from this site's own pages."""
    if foreign(request.headers):
        raise Stop(403, "This is accepted only from this server's own pages.")
    taken = b""
    async for part in request.stream():
        taken += part
        if len(taken) > MOST_BYTES:
            raise Stop(413, "This request is too large.")
    try:
        found = json.loads(taken or b"{}", parse_int=_whole)
        # Half an emoji, as a field that is cut to its length may send, is no text: nothing could write it again.
        found = json.loads(json.dumps(found, ensure_ascii=False).encode(errors="ignore"))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Stop(400, "This request cannot be read.")
    return found


def _whole(digits: str) -> int:
    """A number that a database can hold."""
    if abs(number := int(digits)) > MOST_NUMBER:
        raise ValueError
    return number


async def room_of(request: Request) -> Room:
    """The room in the address. Codes that open nothing are counted, so that nobody can try them all."""
    code, address = code_of(request), address_of(request)
    room = await asyncio.to_thread(here.rooms().room, code) if codes.is_code(code) else None
    # The same answer whether or not there is such a room; only who is in it already gets through.
    if unknown.reached(address) and not (room and await _belongs(request, code)):
        raise Stop(429, "Too many codes were tried from here; wait a minute.")
    if room is None:
        unknown.count(address)
        raise Stop(404, "There is no room with this code.")
    return room


async def _belongs(request: Request, code: str) -> bool:
    """Whether the room's host asks, or somebody who has a seat in it."""
    token = secret_of(request, "seat")
    seated = token is not None and await asyncio.to_thread(here.rooms().seated, code, token) is not None
    return seated or await hosts(request, code)


async def seat_of(request: Request) -> str:
    """The seat of the student who asks; known at once if a page of that student is open."""
    token = secret_of(request, "seat")
    if token and here.live().room(code_of(request), digest(token)):
        return digest(token)
    room = await room_of(request)
    seat = await asyncio.to_thread(here.rooms().seated, room.code, token) if token else None
    if seat is None:
        raise Stop(401, "Join the room first.", named=room.named)
    return seat


async def host_only(request: Request) -> None:
    """Refuses everybody but the host."""
    if not await hosts(request, code_of(request)):
        raise Stop(403, "Only the host's link can do this.")


async def hosts(request: Request, code: str) -> bool:
    """Whether the host asks."""
    secret = secret_of(request, "host")
    return secret is not None and await asyncio.to_thread(here.rooms().hosts, code, secret)


def code_of(request: Request) -> str:
    """The code in the address, as somebody typed it."""
    return codes.typed(str(request.path_params["code"]))


def secret_of(request: Request, kind: str) -> str | None:
    """The seat's token or the host's secret in the request's cookies."""
    found = request.cookies.get(f"specdec_{kind}_{code_of(request)}", "")
    return found if codes.TOKEN.fullmatch(found) else None


def with_cookie(request: Request, kind: str, code: str, secret: str, answer: Response) -> Response:
    """The answer, with a seat's token or the host's secret for the browser to keep."""
    answer.set_cookie(
        f"specdec_{kind}_{code}",
        secret,
        max_age=AGE_S,
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return answer


def address_of(request: Request) -> str:
    """Whose tries are counted together."""
    return request.client.host if request.client else ""
