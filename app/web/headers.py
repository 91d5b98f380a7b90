"""Security headers on every response, including the page's content security policy."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import cache
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.config import answers_to
from app.ui.quirks import inline_scripts

from .below import UNNAMED, inside, refuse

ROOMS = re.compile(r"/r(/|$)")


@cache
def content_security_policy(*, streamlit: bool, frames: tuple[str, ...] = ()) -> str:
    """The policy: everything from this server, and on Streamlit's pages what its front end needs, one by one.

    `frames`: the other origins whose pages may show it in a frame."""
    rules = {
        "default-src": ["'self'"],
        # Components' code comes as blob URLs. Plotly needs no 'unsafe-eval'; Vega's charts would.
        "script-src": ["'self'", *(["blob:", *inline_scripts()] if streamlit else [])],
        "style-src": ["'self'", "'unsafe-inline'"],
        "img-src": ["'self'", "data:", "blob:"],
        "font-src": ["'self'", "data:"],
        "connect-src": ["'self'"],
        "worker-src": ["'self'", *(["blob:"] if streamlit else [])],
        "frame-src": ["'none'"],
        "object-src": ["'none'"],
        "base-uri": ["'self'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'self'", *frames],
    }
    return "; ".join(" ".join([name, *sources]) for name, sources in rules.items())


def foreign(headers: Headers) -> bool:
    """Whether a browser sends this from a page of another site, including another port of this machine.

    Programs other than browsers do not say where they come from.
    """
    site = headers.get("sec-fetch-site")
    if site in ("same-origin", "cross-site"):  # the browser knows even if a proxy renames the host
        return site == "cross-site"
    origin = headers.get("origin")
    try:
        return origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower()
    except ValueError:  # no address at all
        return True


class KnownHosts:
    """ASGI middleware: responds only to the host names that the operator allows, against DNS rebinding.

    Args:
        hosts: returns the names, as in the operator's policy.
    """

    def __init__(self, app: ASGIApp, hosts: Callable[[], Collection[str]]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or reject it with a sentence."""
        hosts = self.hosts()
        # These come under other names, and tell nothing about visitors.
        if scope["type"] in ("http", "websocket") and inside(scope) not in UNNAMED:
            named = Headers(scope=scope).get("host", "")
            name = named if named.endswith("]") else named.rpartition(":")[0] or named
            if not answers_to(name, hosts):
                refusal = PlainTextResponse(
                    "This server does not answer to that host name. Whoever runs it can name it in "
                    "SPECDEC_ALLOWED_HOSTS.",
                    status_code=400,
                )
                await (
                    refuse(receive, send) if scope["type"] == "websocket" else refusal(scope, receive, send)
                )
                return
        await self.app(scope, receive, send)


class OwnPages:
    """ASGI middleware: accepts web sockets from this server's own pages only.

    A browser sends a visitor's cookie with any page's web socket, so another site could read and press what the
    visitor can. Streamlit compares the host name only, and treats every port of this machine as its own.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the connection on, or reject it."""
        if scope["type"] == "websocket" and foreign(Headers(scope=scope)):
            await refuse(receive, send)
        else:
            await self.app(scope, receive, send)


class SecurityHeaders:
    """ASGI middleware; plain ASGI rather than Starlette's base class, so that event streams are not buffered.

    Args:
        path: returns the path that the app is below, as in the operator's policy.
        frames: returns the origins whose pages may show the app in a frame, likewise; none may show a room.
    """

    def __init__(
        self, app: ASGIApp, path: Callable[[], str] = str, frames: Callable[[], tuple[str, ...]] = tuple
    ) -> None:
        self.app, self.path, self.frames = app, path, frames
        self.headers = {
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",  # a page's address contains the prompt
            "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                # A room's pages are our own, and strangers' words are on them.
                own = bool(ROOMS.match(scope["path"].removeprefix(self.path())))
                frames = () if own else self.frames()
                policy = content_security_policy(streamlit=not own, frames=frames)
                older = {} if frames else {"X-Frame-Options": "SAMEORIGIN"}  # which cannot name origins
                MutableHeaders(scope=message).update(
                    self.headers | older | {"Content-Security-Policy": policy}
                )
            await send(message)

        await self.app(scope, receive, with_headers)
