"""How many CPU threads compute a pass: all of them, or half while other programs need the CPU too.

The threads of a pass wait for each other after each of its hundreds of operations. If one of them loses its core to
another program, all wait: on two cores beside a browser that draws a run, passes on both took 2.5 times as long as at
rest, beside another decoder 5 times; on one core 1.3 and 1.9 times. How busy a machine is cannot be read portably (a
container sees cores that it may not use), but passes over equally many tokens tell it. Records do not depend on the
number of threads: no operation splits a sum between them.
"""

from __future__ import annotations

import threading
from functools import cache

CROWDED_RATIO = (
    1.6  # passes this many times as long as the fastest are a crowd's; half the threads rarely take longer
)
NEWEST_WEIGHT = 0.25  # of the newest pass in the running mean
MAX_PASS_RATIO = 3.0  # counts of a single pass, so that one hiccup is not yet a crowd: two in a row are
REMEMBERED_PASSES = 8  # passes with half of them that are remembered, and the fewest between trials
TRIAL_PASSES = 4  # passes with all threads that decide whether the crowd has gone
MIN_REST_S, MAX_REST_S = 1.0, 8.0  # seconds of passes until that is tried; twice as long after each failure


class ThreadTuner:
    """Chooses between all threads and half of them, by the durations of a model's passes.

    Args:
        most: all threads.
        computing: whether a CPU computes the passes; else all threads stay.

    Attributes:
        count: the threads that compute the next pass.
    """

    def __init__(self, most: int, computing: bool = True) -> None:
        self.most, self.choosing = most, computing and most > 1
        self.count = most
        self._fastest: dict[int, float] = {}  # seconds of a pass over so many tokens, with all threads
        self._mean = 1.0  # of durations against the fastest
        self._rest = MIN_REST_S
        self._left = 0.0  # seconds of passes until all threads are tried again,
        self._due = 0  # and how many passes it takes at least
        self._few: list[float] = []  # durations against the fastest, with half the threads
        self._trial: list[tuple[int, float]] | None = None  # widths and seconds of the passes that are tried
        self._lock = threading.Lock()  # runs may share it

    def observe(self, width: int, seconds: float, count: int) -> None:
        """Take note of a pass over `width` tokens, computed with `count` threads; of one with another number than now,
        as another run has changed it meanwhile, nothing."""
        if self.choosing:
            with self._lock:
                if count == self.count:
                    self._observe(width, seconds)

    def _observe(self, width: int, seconds: float) -> None:
        known = self._fastest.get(width)
        if self.count < self.most:
            if known is not None:
                self._few = [*self._few[1 - REMEMBERED_PASSES :], seconds / known]
            self._left -= seconds  # not the time between runs: each would begin with a trial
            self._due -= 1
            if self._left <= 0 and self._due <= 0:
                self.count, self._trial, self._mean = self.most, [] if self._few else None, 1.0
        elif self._trial is not None and known is not None:
            self._trial.append((width, seconds))
            self._judge(self._trial)
        else:  # a trial also ends where nothing can be compared
            self._trial = None
            fastest = self._fastest[width] = seconds if known is None else min(seconds, known)
            if known is not None:  # the first pass over so many tokens tells nothing
                self._mean += NEWEST_WEIGHT * (min(seconds / fastest, MAX_PASS_RATIO) - self._mean)
            if self._mean > CROWDED_RATIO:
                self._halve()

    def _judge(self, trial: list[tuple[int, float]]) -> None:
        """All threads stay if `TRIAL_PASSES` passes were faster with them; later ones are measured by what those took.

        One pass may take as long as all of them should: then the others are not tried.
        """
        took = sum(seconds / self._fastest[width] for width, seconds in trial)
        if took >= TRIAL_PASSES * sum(self._few) / len(self._few):
            self._rest, self._trial = min(2 * self._rest, MAX_REST_S), None
            self._halve()
        elif len(trial) == TRIAL_PASSES:
            self._rest, self._few, self._trial = MIN_REST_S, [], None
            self._fastest = {
                width: min(seconds for other, seconds in trial if other == width) for width, _ in trial
            }

    def _halve(self) -> None:
        self.count = max(1, self.most // 2)
        self._left, self._due = self._rest, REMEMBERED_PASSES


@cache
def thread_tuner(model: str, dtype: str, most: int, computing: bool) -> ThreadTuner:
    """The tuner of all of this process's runs with that target. Unless the CPU is `computing`, it stays at `most`."""
    return ThreadTuner(most, computing)
