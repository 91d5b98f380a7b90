"""JavaScript modules as they are served: a browser asks each time whether they changed, so that versions never mix."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from app.player import STATIC


class Modules(StaticFiles):
    """A folder of modules."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response


class PlayerModules(Modules):
    """The player's modules.

    With a `catalogue`, a folder of the course's language, its modules `text*.js` replace the player's own.
    """

    def __init__(self, catalogue: Path | None = None) -> None:
        self.catalogue = catalogue
        super().__init__(directory=STATIC)

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        if self.catalogue is not None and re.fullmatch(r"text\w*\.js", path):
            own = self.catalogue / path
            if own.is_file():
                return str(own), own.stat()
        return super().lookup_path(path)
