"""`python -m app`: one process serves the pages, the event streams, the traces and the health check."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware

from app.course import ahead
from app.monitoring import log
from app.records import visitor
from app.web.below import Below
from app.web.headers import KnownHosts, OwnPages, SecurityHeaders
from app.web.routes import routes

from . import services


@asynccontextmanager
async def lifespan(_app: st.App) -> AsyncIterator[None]:
    """Warm up the models and the course in the background, so that the first page does not wait for them."""
    log.join()
    services.shelf().warm()
    if hasattr(os, "nice"):
        # This thread and those it starts from now on: pages give way to the decoder, which `warm` starts.
        os.nice(5)
    ahead.begin(services.shelf().wait, services.runs().busy)
    yield
    services.runs().close()
    if (journal := services.journal()) is not None:
        journal.close()
    services.decoder().close()


app = st.App(
    Path(__file__).with_name("main.py"),
    routes=routes(),
    middleware=[
        Middleware(SecurityHeaders),
        Middleware(Below, path=lambda: services.operator().path),
        Middleware(KnownHosts, hosts=lambda: services.operator().hosts),
        Middleware(OwnPages),
        Middleware(visitor.OwnerCookie),
    ],
    lifespan=lifespan,
)


def main() -> None:
    """Serve until interrupted."""
    log.start()
    try:
        allowed = services.operator()
        visitor.use(services.keys())
        services.decoder()
        services.library()
    except ValueError as error:
        sys.exit(str(error))
    os.chdir(Path(__file__).resolve().parent.parent)  # where .streamlit/config.toml is looked up
    # Streamlit's own cookies, too, are the same for all web processes; it takes their secret from here only.
    os.environ.setdefault("STREAMLIT_SERVER_COOKIE_SECRET", services.keys().secret)
    app.run(
        config={
            "server.address": allowed.host,
            "server.port": allowed.port,
            # Set explicitly, because Streamlit would otherwise ask an internet service for this machine's address.
            "browser.serverAddress": allowed.host if allowed.host not in ("0.0.0.0", "::") else "localhost",
            "server.headless": True,
            "server.fileWatcherType": "none",
            "server.allowedHosts": [],  # `KnownHosts` looks at every request
            "server.maxUploadSize": 40,
            "server.maxWidgetStateSize": 4,
            "browser.gatherUsageStats": False,
            "client.toolbarMode": "minimal",
            "client.showErrorDetails": "none",
            # Streamlit's full garbage collection after each script run holds the GIL for 0.2 s once torch is imported,
            # several times a second while a run is on screen, and stalls the decoder.
            "runner.postScriptGC": False,
        }
    )


if __name__ == "__main__":
    main()
