"""How often somebody may try: a window of time per address, in memory."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable

MOST_KEYS = 20_000


class Limit:
    """At most `most` tries within `seconds` for each key."""

    def __init__(self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self.seconds, self._clock = most, seconds, clock
        self._tries: defaultdict[str, deque[float]] = defaultdict(deque)

    def reached(self, key: str) -> bool:
        """Whether no try is left."""
        tries, now = self._tries.get(key), self._clock()
        while tries and now - tries[0] > self.seconds:
            tries.popleft()
        return tries is not None and len(tries) >= self.most

    def count(self, key: str) -> bool:
        """Count a try; returns whether it was one too many."""
        if self.reached(key):
            return True
        if len(self._tries) >= MOST_KEYS:
            self._tries.clear()
        self._tries[key].append(self._clock())
        return False
