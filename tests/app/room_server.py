"""`python -m tests.app.room_server <port>`: the rooms' routes alone, in a process that a test can kill."""

from __future__ import annotations

import sys

import uvicorn
from starlette.applications import Starlette

from app.web.room import routes

if __name__ == "__main__":
    uvicorn.run(Starlette(routes=routes()), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
