"""The runs of a room in this server's line of runs: the class's, and each student's own.

They belong to no visitor: the library does not keep them, and a page reads only what `views` takes from them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from app import services
from app.choosing import defaults
from app.decoding.jobs import Busy
from app.decoding.models import family
from app.decoding.run import Request, Run
from app.room.states import RoomRefused
from specdec_core.settings import Settings

from . import together
from .together import ClassRun, RunProgress

MOST_PROMPT = 500
TOKENS = 40
NODES = 8  # of a student's own tree
MAX_BRANCHES, MAX_GUESSES = 4, 8
LATE_S = 5.0  # a run that another process started is in the database after this time
_read: dict[str, tuple[tuple[int, bool], RunProgress]] = {}
MOST_READ = 50


def begin(code: str, prompt: str, number: int, name: str = "") -> ClassRun:
    """Start the class's run, with this family of `kinds` or the first.

    Raises:
        Refused: if there is no prompt, or the server takes no more runs.
    """
    name = name if name in kinds() else kind()
    run = _start(guest(code), prompt, name, {})
    return ClassRun(run.id, run.ticket, number, run.request.prompt, defaults.of(name).short, time.time())


def guest(code: str, seat: str = "") -> str:
    """Whose the class's runs are, and those of a student: no visitor's."""
    return f"room {code} {seat}" if seat else f"room {code}"


def own_tree(whose: str, prompt: str, name: str, width: int, depth: int, over: Callable[[Run], None]) -> Run:
    """Start a student's own run with this family; `over` gets it once it has ended.

    Raises:
        Refused: if it cannot be started, with a sentence.
    """
    if not (1 <= width <= MAX_BRANCHES and 1 <= depth <= MAX_GUESSES):
        raise RoomRefused(
            f"A tree here has a width of 1 to {MAX_BRANCHES} and a depth of 1 to {MAX_GUESSES}."
        )
    shape = {"width": width, "depth": depth, "nodes": NODES, "beam": NODES}
    return _start(whose, prompt, name, {"proposer": "branching", "options": shape}, over)


def said(run: ClassRun | None) -> RunProgress:
    """What a run has said so far, in whichever process it computes; reads the database where it is another one."""
    if run is None:
        return RunProgress()
    found, journal = services.runs().get(run.run), services.journal()
    if found is None and journal is not None:
        found = journal.find(run.run, None, run.ticket)
    if found is None:
        return RunProgress(over=True, lost=True) if time.time() - run.began > LATE_S else RunProgress()
    over = found.finished
    messages = list(found.messages)
    known = _read.get(run.run)
    if known is None or known[0] != (len(messages), over):
        if len(_read) >= MOST_READ:
            _read.clear()
        made = replace(together.read(messages), lost=found.lost is not None)
        known = _read[run.run] = (len(messages), over), replace(made, over=made.over or over)
    return known[1]


def forget(run: ClassRun | None) -> None:
    """End a run and delete what it said."""
    if run is not None and run.run:
        services.runs().forget(run.run)
        _read.pop(run.run, None)


def forget_all(code: str, seats: Collection[str]) -> None:
    """End all runs of a room and of its students, in every web process, and delete what they said."""
    services.runs().forget_all([guest(code), *(guest(code, seat) for seat in seats)])
    _read.clear()


def kind() -> str:
    """The server's family once it is ready; until then the bundled one."""
    return kinds()[0]


def kinds() -> list[str]:
    """The families that a class can run: the server's, once it is ready, and the bundled one, which is fast."""
    name = services.operator().family
    ready = services.shelf().status(family(name)).state == "ready"
    return list(dict.fromkeys([name, defaults.TINY] if ready else [defaults.TINY]))


def _start(
    guest: str,
    prompt: str,
    name: str,
    lane: Mapping[str, Any],
    over: Callable[[Run], None] = lambda run: None,
) -> Run:
    text, habits = prompt.strip(), defaults.of(name)
    if not text or len(text) > MOST_PROMPT:
        raise RoomRefused(f"Type a prompt of up to {MOST_PROMPT} characters.")
    settings = Settings(max_new_tokens=TOKENS, **lane)
    chat = habits.audience == "chat"
    request = Request(text, (settings,), (settings.proposer,), family(name), chat=chat)
    try:
        return services.runs().start(request, guest=guest, over=over)
    except Busy as error:
        raise RoomRefused(str(error)) from error
