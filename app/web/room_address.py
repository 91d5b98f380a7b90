"""Where a class finds the rooms: the teacher may have opened them under a name that only this computer has."""

from __future__ import annotations

import socket
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import quote

import psutil
from starlette.requests import Request

from app import services
from app.config import EVERY_ADDRESS, is_loopback

from .below import SAFE


def shared(request: Request) -> str | None:
    """The address of the rooms, `http://…/r`, as others can open it; None if only this computer can."""
    if not is_loopback((request.url.hostname or "").strip("[]")):
        return here(request)
    found = network() if services.operator().host in EVERY_ADDRESS else None
    return here(request, found) if found else None


def here(request: Request, host: str | None = None) -> str:
    """The address of the rooms as it was asked for, or with another host name."""
    url = request.url.replace(hostname=host) if host else request.url
    return str(url.replace(query="", path=quote(url.path, SAFE))).partition("/r/")[0] + "/r"


def network() -> str | None:
    """This computer's address in its network: the one that it would send from."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # an address of nobody; connecting sends nothing
        return str(probe.getsockname()[0])
    with suppress(OSError):  # a network without a way out
        for cards in psutil.net_if_addrs().values():
            for card in cards:
                if card.family == socket.AF_INET and not ip_address(card.address).is_loopback:
                    return str(card.address)
    return None
