"""Logits waiting to be described: one reused block of memory per lane and model."""

from __future__ import annotations

from torch import Tensor

PAGE_NUMBERS = 600_000  # logits of a page: 2.4 MB in float32, so that describing it stays in the CPU cache


class Page:
    """Rows of logits, kept in one reused block, and room for their probabilities.

    The rounds' own tensors go back to the allocator at once: fresh memory for each would cost more than the copy.
    """

    def __init__(self) -> None:
        self._logits: Tensor | None = None
        self._probs: Tensor | None = None
        self._used = 0

    def fits(self, rows: Tensor | None) -> bool:
        """Whether these rows (n, V) fit after those already there."""
        if rows is None or self._logits is None:
            return True
        return rows.shape[1] == self._logits.shape[1] and self._used + len(rows) <= len(self._logits)

    def write(self, rows: Tensor) -> Tensor:
        """Copy rows (n, V) onto the page; returns the copies."""
        if self._logits is None or (not self._used and not self.fits(rows)):
            size = max(len(rows), PAGE_NUMBERS // rows.shape[1])
            self._logits, self._probs = (
                rows.new_empty(size, rows.shape[1]),
                rows.new_empty(size, rows.shape[1]),
            )
        written = self._logits[self._used : self._used + len(rows)]
        written.copy_(rows)
        self._used += len(rows)
        return written

    def read(self) -> tuple[Tensor, Tensor]:
        """All rows since the last call, and as many for their probabilities; empties the page."""
        assert self._logits is not None and self._probs is not None
        used, self._used = self._used, 0
        return self._logits[:used], self._probs[:used]
