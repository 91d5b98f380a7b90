"""Who owns a run: a secret in a cookie that no script can read. Where cookies are off, the session is the owner.

There are no accounts. Whoever clears the browser's cookies is somebody new; what was shared by link stays reachable.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping

import streamlit as st
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "specdec_owner"
AGE_S = 400 * 24 * 3600  # as long as browsers keep any cookie; begins anew with every visit
SECRET = re.compile(r"[A-Za-z0-9_-]{32,64}")
SESSION = "session_owner"  # where the session keeps its own, without cookies


def named(cookies: Mapping[str, str]) -> str | None:
    """The owner that these cookies name."""
    secret = cookies.get(COOKIE)
    return secret if isinstance(secret, str) and SECRET.fullmatch(secret) else None


def of_session() -> str:
    """The owner on whose page this is called."""
    found = named(st.context.cookies.to_dict())
    return found or str(st.session_state.setdefault(SESSION, secrets.token_urlsafe(24)))


def is_remembered() -> bool:
    """Whether the browser keeps the owner from one session to the next."""
    return named(st.context.cookies.to_dict()) is not None


class OwnerCookie:
    """ASGI middleware that gives each browser its secret, with the page and with nothing else.

    Only a request for a page: the many files that a page brings along are asked for at once and would each get another.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and put the cookie on the answer where it is due."""
        headers = Headers(scope=scope) if scope["type"] == "http" else {}
        if (
            scope["type"] != "http"
            or scope["method"] != "GET"
            or "text/html" not in headers.get("accept", "")
        ):
            await self.app(scope, receive, send)
            return
        secret = named(cookie_parser(headers.get("cookie", ""))) or secrets.token_urlsafe(24)
        secure = "; Secure" if scope.get("scheme") == "https" else ""
        cookie = f"{COOKIE}={secret}; Path=/; Max-Age={AGE_S}; HttpOnly; SameSite=Lax{secure}"

        async def with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                answer.append("Set-Cookie", cookie)
                # no proxy may hand one visitor's secret to the next
                answer["Cache-Control"] = "private, no-cache"
            await send(message)

        await self.app(scope, receive, with_cookie)
