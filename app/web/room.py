"""The rooms' routes: plain pages that follow an event stream, so that a class of hundreds costs no Streamlit session.

The host's page and the projector's are plain as well: they follow the same stream, open on a phone at once, and one
look at the room's state draws them. A seat's token and the host's secret are in cookies that no script can read.
"""

from __future__ import annotations

import asyncio
import io
import json
import time
from contextlib import suppress
from html import escape
from pathlib import Path
from urllib.parse import quote

import plotly
import segno
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from app.choosing import defaults
from app.course import pictures
from app.course.files import reading
from app.course.files.lesson import Given
from app.records.database import Unavailable
from app.room import codes, export, here, host_actions, lesson_plan
from app.room.asked import asked, fresh
from app.room.limits import Limit
from app.room.pages import stills, views
from app.room.runs import running, together, trees
from app.room.states import Now
from app.room.store import Cast
from app.theme import CSS

from . import room_address
from .modules import Modules
from .room_request import (
    NO_STORE,
    Body,
    Endpoint,
    Stop,
    address_of,
    body_of,
    code_of,
    handle_errors,
    host_only,
    hosts,
    room_of,
    seat_of,
    secret_of,
    unknown,
    with_cookie,
)
from .room_stream import host_events, screen_events, student_events

STATIC = Path(__file__).resolve().parents[1] / "room" / "static"
BUILDER = Path(pictures.__file__).with_name("runs") / "tree_builder.js"
PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
HOST_COOKIE = "specdec_host_"
started = Limit(20, 3600.0)  # rooms, for each address
busy = Limit(120, 60.0)  # pictures of one's own, for each seat
busy_runs = Limit(10, 60.0)  # runs of one's own, for each seat


def routes() -> list[BaseRoute]:
    """All routes of the rooms."""
    code, host = "/r/{code}", "/r/{code}/host"
    return [
        Route("/r", page("student", 0)),
        Route("/r/start", page("start", 1)),
        Route("/r/start", handle_errors(start), methods=["POST"]),
        Route("/r/cards", page("cards", 1)),
        Route("/r/plotly.js", script(PLOTLY, "max-age=86400")),
        Route("/r/tree_builder.js", script(BUILDER, "no-cache")),
        Mount("/r/assets", Modules(directory=STATIC)),
        Route(code, page("student", 1)),
        Route(f"{code}/join", handle_errors(join), methods=["POST"]),
        Route(f"{code}/events", handle_errors(student_events)),
        Route(f"{code}/vote", handle_errors(vote), methods=["POST"]),
        Route(f"{code}/run", handle_errors(own), methods=["POST"]),
        Route(f"{code}/lost", handle_errors(lost), methods=["POST"]),
        Route(f"{code}/still/{{step}}", handle_errors(still), methods=["GET", "POST"]),
        Route(f"{code}/qr.svg", handle_errors(qr)),
        Route(f"{code}/screen", page("screen", 2)),
        Route(f"{code}/screen/events", handle_errors(screen_events)),
        Route(host, page("host", 2)),
        Route(host, handle_errors(enter), methods=["POST"]),
        Route(f"{host}/events", handle_errors(host_events)),
        Route(f"{host}/drive", handle_errors(steer), methods=["POST"]),
        Route(f"{host}/delete", handle_errors(delete), methods=["POST"]),
        Route(f"{host}/votes.{{kind}}", handle_errors(votes)),
        Route(f"{host}/qr.svg", handle_errors(host_qr)),
    ]


def script(path: Path, cache: str) -> Endpoint:
    """A script that pictures need and that lies elsewhere."""

    async def answer(_request: Request) -> Response:
        return FileResponse(path, media_type="text/javascript", headers={"Cache-Control": cache})

    return answer


def page(name: str, depth: int) -> Endpoint:
    """A page's shell: its style, its words and its module; `depth` is how many folders below the app's root it is."""

    async def answer(request: Request) -> Response:
        language = await spoken(request, name)
        strings = lesson_plan.words(language)
        data: Body = {"words": strings, "language": language, "languages": list(reading.languages())}
        data["refused"] = lesson_plan.refusals(language)
        if name == "start":
            data |= {"presets": lesson_plan.presets(language), "titles": lesson_plan.titles(language)}
            data["rooms"] = await hosted(request)
        if name in ("start", "screen"):
            data["address"] = room_address.shared(request)
        if name == "host":
            data["models"] = [
                [name, defaults.of(name).short, trees.challenge(name)] for name in running.kinds()
            ]
        assets = "../" * max(depth - 1, 0) + ("assets" if depth else "r/assets")
        packed = json.dumps(data).replace("<", "\\u003c")
        return HTMLResponse(
            f'<!doctype html><html lang="{escape(language)}"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(strings['title'])}</title><style>{CSS}</style>"
            f'<link rel="stylesheet" href="{assets}/room.css"><link rel="icon" href="data:,">'
            f'<script type="application/json" id="data">{packed}</script>'
            f'<script type="module" src="{assets}/{name}.js"></script></head>'
            f'<body class="{name}"><main id="page"></main><div id="status" role="status" aria-live="polite"></div>'
            f"<noscript>{escape(strings['noscript'])}</noscript></body></html>",
            headers=NO_STORE,
        )

    return answer


async def spoken(request: Request, name: str) -> str:
    """On the big screen and the host's page the room's own, in which the lessons are there, whatever the browser's."""
    if name in ("screen", "host"):
        with suppress(Unavailable):  # the page itself says so
            if room := await asyncio.to_thread(here.rooms().room, code_of(request)):
                return room.language
    return lesson_plan.spoken(
        request.query_params.get("lang") or lesson_plan.read(request.headers.get("accept-language", ""))
    )


async def hosted(request: Request) -> list[str]:
    """The rooms that this browser leads and that have not ended: the way back after a closed tab."""

    def led(code: str, secret: str) -> bool:
        room = here.rooms().room(code)
        return room is not None and room.now.state != "ended" and here.rooms().hosts(code, secret)

    kept = [(name.removeprefix(HOST_COOKIE), held) for name, held in request.cookies.items()]
    found = [(code, held) for code, held in kept if codes.is_code(code) and codes.TOKEN.fullmatch(held)]
    return [code for code, held in found if await asyncio.to_thread(led, code, held)]


async def start(request: Request) -> Response:
    """Make a room: {"lessons": […], "language", "named"}; answers its code and the host's secret, once."""
    body = await body_of(request)
    language = lesson_plan.spoken(str(body.get("language", "en")))
    wanted = body.get("lessons")
    lessons = lesson_plan.chosen(language, wanted if isinstance(wanted, list) else [])
    if not lessons:
        raise Stop(400, "Choose at least one lesson.")
    if started.count(address_of(request)):
        raise Stop(429, "Too many rooms were started from here; try again later.")
    code, secret = await asyncio.to_thread(
        host_actions.start, here.rooms(), lessons, language, body.get("named") is True
    )
    return JSONResponse({"code": code, "host": secret}, headers=NO_STORE)


async def join(request: Request) -> Response:
    """Take a seat, or come back to it: {"name"}. The seat's token is set as a cookie."""
    body, room = await body_of(request), await room_of(request)
    token = secret_of(request, "seat") or codes.token()
    await asyncio.to_thread(here.rooms().join, room.code, token, str(body.get("name", "")))
    here.live().touch()
    return with_cookie(
        request, "seat", room.code, token, JSONResponse({"named": room.named}, headers=NO_STORE)
    )


async def vote(request: Request) -> Response:
    """An answer: {"step", "given"}, the step of the page that it was given on; 204 once it is stored."""
    seat, body = await seat_of(request), await body_of(request)
    code = code_of(request)
    room = here.live().room(code)  # `cast` looks again, with the room locked
    if room is None or body.get("step") != room.now.step:
        room = await asyncio.to_thread(here.rooms().room, code)
    now = room.now if room is not None else None
    if now is None or body.get("step") != now.step:
        raise Stop(409, "This question is closed; your answer came too late.")
    if now.state != "run" and fresh("en", now):
        found = judged(now, body.get("given"))
    else:
        found = await asyncio.to_thread(judged, now, body.get("given"))
    if found is None:
        raise Stop(400, "This is not an answer to the question.")
    counts = now.votes_on(time.time())
    if counts is None:
        raise Stop(409, "This question is closed; your answer came too late.")
    reason = await here.live().cast(Cast(code, seat, *counts, *found))
    if reason is not None:
        raise Stop(409, reason)
    return Response(status_code=204)


def judged(now: Now, given: object) -> tuple[Given, bool] | None:
    """An answer to what the room asks, and whether it is right; None if it is none."""
    if now.state == "run" and now.run is not None:
        rounds = running.said(now.run).rounds
        first = rounds[now.run.shown].first if now.run.shown < len(rounds) else None
        return (str(given), given == first) if first and given in together.ANSWERS else None
    question = asked("en", now.lesson, now.part)
    read = question.read(given) if question is not None else None
    return None if question is None or read is None else (read, question.is_right(read))


async def lost(request: Request) -> Response:
    """A student is lost at a step: {"step"}."""
    seat, body = await seat_of(request), await body_of(request)
    if type(body.get("step")) is not int:
        raise Stop(400, "The step is missing.")
    await asyncio.to_thread(here.rooms().lost, code_of(request), seat, body["step"])
    here.live().touch()
    return Response(status_code=204)


async def still(request: Request) -> Response:
    """The picture of a step: as the class follows it, or (POST {"moves": […]}) with one's own moves while all play."""
    room = await room_of(request)
    step, now = str(request.path_params["step"]), room.now
    hosting = await hosts(request, room.code)
    if not now.lesson or not (views.may_see(now, step) or (hosting and now.state != "ended")):
        raise Stop(403, "This picture is not open now.")
    moves = now.moves if step == now.picture and now.state in ("follow", "play") else ()
    if request.method == "POST":
        body = await body_of(request)
        if not hosting and (
            now.state != "play" or busy.count(f"{address_of(request)} {secret_of(request, 'seat')}")
        ):
            raise Stop(409, "The pictures are your teacher's again.")
        moves = host_actions.moves(body.get("moves"))
    language = lesson_plan.spoken(request.query_params.get("lang", room.language))
    nodes = await asyncio.to_thread(stills.still, language, now.lesson, step, moves)
    return JSONResponse(nodes or [], headers=NO_STORE)


async def own(request: Request) -> Response:
    """A student's own run while all play: {"step", "prompt", "width", "depth"}; the answer says where it is streamed.

    Without a prompt it is the challenge's, and what it measures counts.
    """
    seat, body, code = await seat_of(request), await body_of(request), code_of(request)
    room = await room_of(request)
    if room.now.state != "play" or body.get("step") != room.now.step:
        raise Stop(409, "The runs are your teacher's again.")
    if busy_runs.count(f"{code} {seat}"):
        raise Stop(429, "Wait a minute before the next run; others want a turn too.")
    run = await asyncio.to_thread(trees.begin, here.rooms(), room, seat, body)
    return JSONResponse({"events": run.events_path.lstrip("/")}, headers=NO_STORE)


async def enter(request: Request) -> Response:
    """The host's secret, from the part of the link that browsers keep to themselves, becomes a cookie."""
    body = await body_of(request)
    code, secret = code_of(request), str(body.get("secret", "")) or secret_of(request, "host") or ""
    if unknown.reached(address_of(request)):
        raise Stop(429, "Too many tries; wait a minute.")
    if not codes.TOKEN.fullmatch(secret) or not await asyncio.to_thread(here.rooms().hosts, code, secret):
        unknown.count(address_of(request))
        raise Stop(403, "Only the host's link opens this page.")
    return with_cookie(request, "host", code, secret, Response(status_code=204))


async def steer(request: Request) -> Response:
    """A move of the host's, see `drive.changed`."""
    body = await body_of(request)
    code = code_of(request)
    await host_only(request)
    await asyncio.to_thread(host_actions.perform, here.rooms(), code, body)
    here.live().touch()
    return Response(status_code=204)


async def delete(request: Request) -> Response:
    """Delete the room with everything in it."""
    code = code_of(request)
    await body_of(request)
    await host_only(request)
    await asyncio.to_thread(host_actions.delete, here.rooms(), code)
    here.live().touch()
    return Response(status_code=204)


async def votes(request: Request) -> Response:
    """The room's votes as CSV or JSON."""
    room = await room_of(request)
    await host_only(request)
    kind = request.path_params["kind"]
    news = await asyncio.to_thread(here.rooms().news, room.code, -1)
    names = await asyncio.to_thread(here.rooms().names, room.code)
    if news is None or kind not in ("csv", "json"):
        raise Stop(404, "There is no such file.")
    rows = export.rows(news[0], news[1], names, time.time())
    text = export.as_csv(rows) if kind == "csv" else export.as_json(room, rows)
    name = {"Content-Disposition": f'attachment; filename="room-{room.code}.{kind}"', **NO_STORE}
    return Response(text, media_type="text/csv" if kind == "csv" else "application/json", headers=name)


async def qr(request: Request) -> Response:
    """The room's address as a QR code, drawn here."""
    code = codes.typed(code_of(request))
    if not codes.is_code(code):
        raise Stop(404, "There is no room with this code.")
    return drawn(f"{room_address.shared(request) or room_address.here(request)}/{quote(code)}")


async def host_qr(request: Request) -> Response:
    """The host's link as a QR code, for a phone."""
    await host_only(request)
    where = room_address.shared(request) or room_address.here(request)
    language = lesson_plan.spoken(request.query_params.get("lang", "en"))
    return drawn(f"{where}/{quote(code_of(request))}/host?lang={language}#host={secret_of(request, 'host')}")


def drawn(address: str) -> Response:
    """An address as a QR code."""
    out = io.BytesIO()
    segno.make(address, error="m").save(out, kind="svg", border=3, xmldecl=False, light="white")
    return Response(out.getvalue(), media_type="image/svg+xml", headers=NO_STORE)
