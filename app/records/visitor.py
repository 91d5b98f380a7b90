"""The owner of a run: a secret in a cookie that no script can read. Without cookies, the session is the owner.

There are no accounts. Clearing the browser's cookies makes a new owner; runs shared by link stay reachable.
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
AGE_S = 400 * 24 * 3600  # as long as browsers keep any cookie; renewed with every visit
SECRET = re.compile(r"[A-Za-z0-9_-]{32,64}")
SESSION = "session_owner"  # the session's own owner, without cookies


def named(cookies: Mapping[str, str]) -> str | None:
    """The owner in these cookies."""
    secret = cookies.get(COOKIE)
    return secret if isinstance(secret, str) and SECRET.fullmatch(secret) else None


def of_session() -> str:
    """The owner of the page on which this is called."""
    found = named(st.context.cookies.to_dict())
    return found or str(st.session_state.setdefault(SESSION, secrets.token_urlsafe(24)))


def is_remembered() -> bool:
    """Whether the browser keeps the owner between sessions."""
    return named(st.context.cookies.to_dict()) is not None


class OwnerCookie:
    """ASGI middleware that gives each browser its secret, on page requests only.

    A page's many files are requested at once, and each response would otherwise set another secret.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

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
        secret = named(cookie_parser(headers.get("cookie", ""))) or secrets.token_urlsafe(24)
        secure = "; Secure" if scope.get("scheme") == "https" else ""
        cookie = f"{COOKIE}={secret}; Path=/; Max-Age={AGE_S}; HttpOnly; SameSite=Lax{secure}"

        async def with_cookie(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                answer.append("Set-Cookie", cookie)
                # proxies must not cache one visitor's secret for the next
                answer["Cache-Control"] = "private, no-cache"
            await send(message)

        await self.app(scope, receive, with_cookie)
