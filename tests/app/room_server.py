"""The rooms' routes alone, in a process that a test can kill."""

from __future__ import annotations

import os
from collections.abc import Mapping

import uvicorn
from starlette.applications import Starlette

from app.web.room import routes


def serve(port: int, environment: Mapping[str, str]) -> None:
    """Serve until killed."""
    os.environ.update(environment)
    uvicorn.run(Starlette(routes=routes()), host="127.0.0.1", port=port, log_level="warning")
