"""One process serves the pages, the event streams, the traces and the health check."""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import streamlit as st
from starlette.middleware import Middleware
from uvicorn.config import LOGGING_CONFIG

from app import config, services
from app.choosing import more_settings
from app.course import ahead, landing
from app.decoding.in_child import forking
from app.monitoring import log as server_log
from app.records import visitor
from app.running import header_links, headline, results
from app.ui import presenter, quirks
from app.web.below import SAFE, PathPrefix
from app.web.ending import EndingStreams, watch
from app.web.headers import KnownHosts, OwnPages, SecurityHeaders
from app.web.page_style import PageStyle
from app.web.routes import routes

log = logging.getLogger("app")
FIRST_PAGE = more_settings, header_links, headline, results  # imported before somebody waits for it


@asynccontextmanager
async def lifespan(_app: st.App) -> AsyncIterator[None]:
    """Warm up the models and the course in the background, so that the first page does not wait for them."""
    server_log.join()
    logging.getLogger("uvicorn.error").addFilter(quirks.drop_double_close)
    logging.getLogger(quirks.SCRIPTS_LOG).addFilter(quirks.drop_missing_fragment)
    watch()
    landing.drawn()
    services.shelf().warm()
    if hasattr(os, "nice"):
        # This thread and those it starts from now on: pages give way to the decoder, which `warm` starts.
        os.nice(5)
    ahead.begin(services.shelf().wait, services.runs().busy)
    log.info(
        "Specdec Lab listens on %s, library %s", _address(services.operator()), services.database().place
    )
    yield
    log.info("stopping")
    services.runs().close()
    if (journal := services.journal()) is not None:
        journal.close()
    services.decoder().close()


app = st.App(
    Path(__file__).parent.with_name("main.py"),
    routes=routes(),
    middleware=[
        Middleware(EndingStreams),
        Middleware(
            SecurityHeaders,
            path=lambda: services.operator().path,
            frames=lambda: services.operator().frames,
        ),
        Middleware(PathPrefix, path=lambda: services.operator().path),
        Middleware(KnownHosts, hosts=lambda: services.operator().hosts),
        Middleware(OwnPages),
        Middleware(visitor.OwnerCookie, framed=lambda: bool(services.operator().frames)),
        Middleware(PageStyle, style=lambda: presenter.look() + landing.STYLE),
    ],
    lifespan=lifespan,
)


def main() -> None:
    """Serve until interrupted (Ctrl+C: status 130 or 0); an unusable setting ends it with 2 and a sentence."""
    server_log.start()
    try:
        allowed = services.operator()
        _port_is_free(allowed)
        visitor.use(services.keys())
        services.decoder()
        services.library()
    except ValueError as error:
        forking.end()
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    os.chdir(Path(__file__).resolve().parents[2])  # where .streamlit/config.toml is looked up
    # Streamlit's own cookies, too, are the same for all web processes; it takes their secret from here only.
    os.environ.setdefault("STREAMLIT_SERVER_COOKIE_SECRET", services.keys().secret)
    for logger in LOGGING_CONFIG["loggers"].values():
        logger["level"] = "WARNING"  # else a line for each web socket, with its visitor's address
    app.run(
        config={
            "server.address": allowed.host,
            "server.port": allowed.port,
            # Set explicitly, because Streamlit would otherwise ask an internet service for this machine's address.
            "browser.serverAddress": allowed.host
            if allowed.host not in config.EVERY_ADDRESS
            else "localhost",
            "logger.hideWelcomeMessage": True,  # `lifespan` says it in the log
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


def _port_is_free(allowed: config.Policy) -> None:
    """Look before anything is opened or changed.

    Raises:
        ValueError: one sentence, if this address and port cannot be listened on.
    """
    family, kind, _, _, address = socket.getaddrinfo(
        allowed.host, allowed.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
            probe.listen()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise ValueError(f"Port {allowed.port} is in use; PORT names another.") from None
            if error.errno == errno.EADDRNOTAVAIL:
                raise ValueError(
                    f"HOST has to be an address of this machine, got {allowed.host!r}."
                ) from None
            raise ValueError(
                f"Port {allowed.port} cannot be listened on ({error.strerror}); PORT names another."
            ) from None


def _address(allowed: config.Policy) -> str:
    """Where a browser on this machine finds the app."""
    host = "localhost" if allowed.host in config.EVERY_ADDRESS else allowed.host
    shown = f"http://{f'[{host}]' if ':' in host else host}:{allowed.port}{quote(allowed.path, SAFE)}/"
    return shown if host == allowed.host else f"{shown} and all other addresses of this machine"
