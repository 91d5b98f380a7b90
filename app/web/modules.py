"""JavaScript as it is served: the player's one file for good, other modules with a question whether they changed."""

from __future__ import annotations

import re
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.staticfiles import StaticFiles

from app.export import served


class Modules(StaticFiles):
    """A folder of modules; a browser asks each time whether they changed, so that versions never mix."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


def player(request: Request) -> Response:
    """The player in a language. A page from before an update asks for a name that is gone, and gets today's player."""
    asked = str(request.path_params["name"])
    found = re.fullmatch(r"([a-z]{2,8})-[0-9a-f]{16}\.js", asked)
    if found is None or found[1] not in {"en", *served.catalogues()}:
        return PlainTextResponse("The player's file is named after its language and content.", 404)
    current = asked == served.name(found[1])
    cached = "public, max-age=31536000, immutable" if current else "no-cache"
    return Response(served.code(found[1]), media_type="text/javascript", headers={"Cache-Control": cached})
