"""The app below a path of its host name, such as https://school.example/specdec/."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

SAFE = "/!$&'()*+,;=:@~"  # of a path, what stands in an address as it is
UNNAMED = ("/healthz", "/metrics")  # asked by other programs, of the process itself


class PathPrefix:
    """ASGI middleware: every address of the app begins with a path, which no route or page needs to know.

    It becomes the request's `root_path`, which routing skips and redirects keep. Addresses in pages are relative to the
    page or to the player's modules.

    Args:
        path: returns the path, as in the operator's policy; empty for an app at the root.
    """

    def __init__(self, app: ASGIApp, path: Callable[[], str]) -> None:
        self.app, self.path = app, path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or say where the app is."""
        path = self.path()
        if not path or scope["type"] not in ("http", "websocket") or scope["path"] in UNNAMED:
            await self.app(scope, receive, send)
        elif scope["path"].startswith(f"{path}/"):
            await self.app({**scope, "root_path": path}, receive, send)
        elif scope["type"] == "websocket":
            await refuse(receive, send)
        elif scope["path"] in (path, "/"):  # relative addresses need the slash
            query = scope["query_string"].decode("latin-1")
            to = f"{quote(path, SAFE)}/" + (f"?{query}" if query else "")
            await RedirectResponse(to, status_code=307)(scope, receive, send)
        else:
            answer = PlainTextResponse(f"The app is at {quote(path, SAFE)}/ on this server.", status_code=404)
            await answer(scope, receive, send)


def inside(scope: Scope) -> str:
    """The request's path, without the one that the app is below."""
    whole: str = scope["path"]
    return whole.removeprefix(scope.get("root_path", ""))


async def refuse(receive: Receive, send: Send) -> None:
    """Reject a web socket before it opens; the server responds with 403."""
    await receive()
    await send({"type": "websocket.close", "code": 1008})
