"""What models need of the memory, looked up on a thread of its own and remembered for a while."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from specdec_core.foundations.errors import SpecdecError

from .models import ModelChoice

log = logging.getLogger(__name__)

FRESH_S = 600.0  # looking again takes a process of its own for seconds; loading checks what is free then
MOST_KEPT = 100
MOST_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """A sentence for the page; `fits` is whether there is room, None where it is not known."""

    words: str
    fits: bool | None
    at: float


class Needs:
    """Remembers what `look` returns for each choice, a sentence and whether that fits."""

    def __init__(self, look: Callable[[ModelChoice], tuple[str, bool]]) -> None:
        self._look = look
        self._found: OrderedDict[ModelChoice, MemoryAnswer] = OrderedDict()
        self._looking: set[ModelChoice] = set()
        self._guard = threading.Lock()

    def of(self, choice: ModelChoice) -> MemoryAnswer | None:
        """What the choice needs; None while that is being looked up, which this starts if necessary."""
        with self._guard:
            found = self._found.get(choice)
            if found is not None and time.monotonic() - found.at < FRESH_S:
                return found
            if choice not in self._looking and len(self._looking) < MOST_AT_ONCE:
                self._looking.add(choice)
                threading.Thread(target=self._find, args=(choice,), name="needs", daemon=True).start()
            return None

    def _find(self, choice: ModelChoice) -> None:
        fits: bool | None = None
        try:
            words, fits = self._look(choice)
        except SpecdecError as error:
            words = str(error)
        except Exception:
            log.exception("what %s needs could not be looked up", choice.target)
            words = "What these models need of the memory could not be looked up; loading will check it."
        with self._guard:
            self._looking.discard(choice)
            self._found[choice] = MemoryAnswer(words, fits, time.monotonic())
            while len(self._found) > MOST_KEPT:
                self._found.popitem(last=False)
