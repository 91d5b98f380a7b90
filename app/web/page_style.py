"""Puts the pages' own style into the document that Streamlit serves.

A style that a page's script draws comes after the page's first parts, which then jump to their places.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# What its document has, and no other. Streamlit's own rules come before it, in the head, and those of a page in it.
PAGE = b'<div id="root">'


class PageStyle:
    """ASGI middleware: writes a style into Streamlit's document.

    Args:
        style: returns a `<style>` element.
    """

    def __init__(self, app: ASGIApp, style: Callable[[], str]) -> None:
        self.app, self.style = app, style

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; the answer's body is held until it is whole."""
        if scope["type"] != "http" or scope["method"] != "GET" or "." in scope["path"].rpartition("/")[2]:
            await self.app(scope, receive, send)
            return
        # Half a page, or word that the browser's old copy is still right, has no place for the style.
        unconditional = (b"range", b"if-none-match", b"if-modified-since", b"accept-encoding")
        scope = {**scope, "headers": [one for one in scope["headers"] if one[0] not in unconditional]}
        start: Message | None = None
        body = b""

        async def with_style(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start":
                kind = MutableHeaders(raw=message["headers"]).get("content-type", "")
                if message["status"] == 200 and kind.startswith("text/html"):
                    start = message
                    return
            elif start is not None and message["type"] == "http.response.body":
                body += message.get("body", b"")
                if message.get("more_body", False):
                    return
                before, page, after = body.partition(PAGE)
                if page:
                    body = before + self.style().encode() + page + after
                headers = MutableHeaders(raw=start["headers"])
                headers["content-length"] = str(len(body))
                for name in ("etag", "last-modified"):
                    del headers[name]
                await send(start)
                message = {"type": "http.response.body", "body": body}
            await send(message)

        await self.app(scope, receive, with_style)
