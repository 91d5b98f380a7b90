"""The width curve of this machine, measured once for everybody who asks: the bundled models, in the line of the runs.

Nothing here imports streamlit. Who asks while one is being measured, or soon after, gets that one.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from app import services
from app.decoding.models import Choice
from specdec_core.errors import SpecdecError

if TYPE_CHECKING:
    from specdec_core.runtime.width_curve import WidthCurve

log = logging.getLogger(__name__)

FRESH_S = 60.0  # for this long a curve is not measured again
BUDGET_S = 2.0


@dataclass(slots=True)
class Measuring:
    """The one measurement of this process: what it is doing, and the last curve."""

    state: Literal["idle", "loading", "queued", "measuring", "failed"] = "idle"
    curve: WidthCurve | None = None
    error: str = ""
    ahead: int = 0
    _ended: float = 0.0

    @property
    def active(self) -> bool:
        """Whether a curve is on its way."""
        return self.state in ("loading", "queued", "measuring")

    def begin(self) -> None:
        """Measure, unless that is under way or was done a moment ago."""
        with _guard:
            if self.active or (self.curve is not None and time.monotonic() - self._ended < FRESH_S):
                return
            self.state, self.error = "loading", ""
        threading.Thread(target=self._work, name="width-curve", daemon=True).start()

    def _work(self) -> None:
        try:
            models = services.shelf().get(Choice())
            from specdec_core.runtime.width_curve import width_curve  # here and not above: it brings torch

            with services.runs().line(str(models.device)).turn(lambda: False, self._queued):
                self.state = "measuring"
                self.curve = width_curve(models, repeats=200, budget_s=BUDGET_S)
            self._ended = time.monotonic()
            self.state = "idle"
        except Exception as error:
            if not isinstance(error, SpecdecError):
                log.exception("the width curve could not be measured")
            self.error = str(error) if isinstance(error, SpecdecError) else ""
            self.state = "failed"

    def _queued(self, ahead: int) -> None:
        self.state, self.ahead = "queued", ahead


_guard = threading.Lock()


@cache
def here() -> Measuring:
    """This process's."""
    return Measuring()
