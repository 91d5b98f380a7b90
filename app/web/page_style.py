"""Puts the pages' own style into the document that Streamlit serves.

A style that a page's script draws comes after the page's first parts, which then jump to their places.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PAGE = b'<div id="root">'  # what its document has, and no other
END = b"</body>"  # ours comes last, since Streamlit's own rules are added to the head


class PageStyle:
    """ASGI middleware: writes a style at the end of Streamlit's document.

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
                before, end, after = body.rpartition(END)
                if end and PAGE in body:
                    body = before + self.style().encode() + end + after
                headers = MutableHeaders(raw=start["headers"])
                headers["content-length"] = str(len(body))
                for name in ("etag", "last-modified"):
                    del headers[name]
                await send(start)
                message = {"type": "http.response.body", "body": body}
            await send(message)

        await self.app(scope, receive, with_style)
