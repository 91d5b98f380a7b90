"""Which process of which machine is this, and does that one still live?"""

from __future__ import annotations

import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path

import psutil


def own_name() -> str:
    """A name for this process, by which others find out whether it lives."""
    me = psutil.Process()
    return f"{_machine()}|{me.pid}|{me.create_time():.2f}|{secrets.token_hex(4)}"


def lives(process: str) -> bool | None:
    """Whether a process of this machine lives; None for one of another."""
    machine, pid, born, _ = process.split("|")
    if machine != _machine():
        return None
    try:
        found = psutil.Process(int(pid))
        return bool(abs(found.create_time() - float(born)) < 1) and bool(
            found.status() != psutil.STATUS_ZOMBIE
        )
    except psutil.Error:
        return False


def is_dead(process: str, silent_s: float, patience_s: float) -> bool:
    """Whether a process has died; one of another machine is taken for dead once it was silent for `patience_s`."""
    here = lives(process)
    return silent_s > patience_s if here is None else not here


def _machine() -> str:
    """What this process sees of a machine: two with the same can look for each other by number."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    return socket.gethostname()
