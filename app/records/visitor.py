"""The owner of a run: a secret in a cookie that no script can read. Without cookies, the session is the owner.

There are no accounts. Clearing the browser's cookies makes a new owner; runs shared by link stay reachable.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Mapping

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .database import Unavailable
from .keys import Keys

COOKIE = "specdec_owner"
SECURE = f"__Host-{COOKIE}"  # its name behind TLS: no other host can set it
AGE_S = 400 * 24 * 3600  # as long as browsers keep any cookie; renewed with every visit
SECRET = re.compile(r"[A-Za-z0-9_-]{32,64}")
SESSION = "session_owner"  # the session's own owner, without cookies


_keys: Keys | None = None


def use(keys: Keys | None) -> None:
    """Accept only owners that these keys signed; without keys, as in a test, a cookie is just the owner."""
    global _keys
    _keys = keys


def named(cookies: Mapping[str, str]) -> str | None:
    """The owner in these cookies."""
    return _read(cookies.get(SECURE)) or _read(cookies.get(COOKIE))


def _read(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    owner = _keys.owner(value) if _keys else value
    return owner if owner and SECRET.fullmatch(owner) else None


def of_session() -> str:
    """The owner of the page on which this is called."""
    found = named(st.context.cookies.to_dict())
    return found or str(st.session_state.setdefault(SESSION, secrets.token_urlsafe(24)))


def is_remembered() -> bool:
    """Whether the browser keeps the owner between sessions."""
    return named(st.context.cookies.to_dict()) is not None


def _owner(cookies: Mapping[str, str], tls: bool) -> str:
    """The owner of a browser that requests a page: as before, or a new one."""
    try:
        # Behind TLS the plain name is not believed: a neighbouring host could have set it.
        if owner := _read(cookies.get(SECURE if tls else COOKIE)):
            if _keys:
                _keys.came_back(owner)
            return owner
        old = cookies.get(COOKIE, "")
        if _keys and SECRET.fullmatch(old) and _keys.is_old(old):
            return old
    except Unavailable:  # it has been logged, and the page says so
        pass
    return secrets.token_urlsafe(24)


class OwnerCookie:
    """ASGI middleware that gives each browser its secret, on page requests only.

    A page's many files are requested at once, and each response would otherwise set another secret.

    Args:
        framed: returns whether other sites may show the app in a frame. Behind TLS a page in a frame then gets a secret
            for that site alone; without it, browsers keep none.
    """

    def __init__(self, app: ASGIApp, framed: Callable[[], bool] = bool) -> None:
        self.app, self.framed = app, framed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and set the cookie on the response if needed."""
        headers = Headers(scope=scope) if scope["type"] == "http" else {}
        if (
            scope["type"] != "http"
            or scope["method"] != "GET"
            or "text/html" not in headers.get("accept", "")
        ):
            await self.app(scope, receive, send)
            return
        # A proxy in front says whether it speaks TLS. A visitor who says so can make only their own cookie stricter.
        tls = "https" in (scope.get("scheme"), headers.get("x-forwarded-proto"))
        owner = await asyncio.to_thread(_owner, cookie_parser(headers.get("cookie", "")), tls)
        value = _keys.sign(owner) if _keys else owner
        inside = tls and headers.get("sec-fetch-dest") == "iframe" and self.framed()
        cookie = f"{SECURE if tls else COOKIE}={value}; Path=/; Max-Age={AGE_S}; HttpOnly"
        cookie += "; SameSite=None; Partitioned" if inside else "; SameSite=Lax"
        cookie += "; Secure" if tls else ""

        async def with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                answer.append("Set-Cookie", cookie)
                # proxies must not cache one visitor's secret for the next
                answer["Cache-Control"] = "private, no-cache"
            await send(message)

        await self.app(scope, receive, with_cookie)
