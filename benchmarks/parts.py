"""A report measured in parts: each has its time, and none that fails or hangs takes another's figures with it."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import typer

Found = dict[str, Any]
Result = TypeVar("Result")


class TimeUp(BaseException):
    """A part's time is over. No `Exception`: nothing in a part may take it for an error that it knows."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise `TimeUp` in here after so many seconds; an alarm that was set before is set again at the end."""

    def ring(*_: object) -> None:
        raise TimeUp

    handler = signal.signal(signal.SIGALRM, ring)
    # again every few seconds: what is raised while an object is finalised is lost
    before = signal.setitimer(signal.ITIMER_REAL, seconds, 5.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *before)


class Report:
    """The figures so far, in a file that is whole after each part.

    Args:
        folder: for `speed.json`.
        budget: seconds for all parts.
        shares: of each part in it; the last one gets what the others left, if that is more.
    """

    def __init__(self, folder: Path, budget: float, shares: Mapping[str, float]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path, self.budget, self.shares = folder / "speed.json", budget, shares
        self.began = time.perf_counter()
        self.content: dict[str, Found] = {}

    def part(self, name: str, measure: Callable[[Found, float], Result]) -> Result | None:
        """Let a part fill its figures; what it returns, None if it failed.

        It receives the moment after which it should begin nothing more, and is interrupted after twice its time.
        """
        began = time.perf_counter()
        seconds = self.shares[name] * self.budget
        if name == list(self.shares)[-1]:
            seconds = max(seconds, self.budget - (began - self.began))
        found: Found = {"error": "The run was cut off in this part."}
        self.content[name] = found
        self._write()
        result = None
        try:
            with at_most(2 * seconds):
                result = measure(found, began + seconds)
            del found["error"]
        except TimeUp:
            found["error"] = f"It was interrupted after {2 * seconds:.0f} s."
        except Exception as error:  # of any kind: the other parts are to be measured all the same
            found["error"] = told(error)
        found["took_s"] = time.perf_counter() - began
        self._write()
        typer.echo(f"{name}: {json.dumps(found)}")
        return result

    def _write(self) -> None:
        unfinished = self.path.with_name(self.path.name + ".part")
        unfinished.write_text(json.dumps(self.content, indent=1) + "\n", encoding="utf-8")
        unfinished.replace(self.path)


def told(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
