"""Writing down what happened, cheaply: tensors are kept as they come and described in batches, off the lane's clock.

Describing a round (softmax, top candidates, ranks, entropies) costs about twenty tensor operations whatever its
size, so the recorder describes a handful of rounds at once. The cost is reported as `record_s`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from specdec_core.record.schema import Committed, Nodes, Round
from specdec_core.round import RoundResult
from specdec_core.sampling import Warp
from specdec_core.settings import Record
from specdec_core.tree import TokenTree

from .describe import KeptRound, describe, recorded_positions

PAGE_NUMBERS = 300_000  # logits of a page: 1.2 MB in float32, so that describing it stays in the CPU cache
# at least, whatever the vocabulary: what describing costs for each operation is shared by more rounds
PAGE_ROWS = 20


class LogitsPage:
    """Rows of logits, kept in one reused block, and room for their probabilities.

    The rounds' own tensors go back to the allocator at once: fresh memory for each would cost more than the copy.
    """

    def __init__(self) -> None:
        self._logits: Tensor | None = None
        self._probs: Tensor | None = None
        self._used = 0

    def fits(self, rows: Tensor | None, count: int) -> bool:
        """Whether `count` of these rows (n, V) fit after those already there."""
        if rows is None or self._logits is None:
            return True
        return rows.shape[1] == self._logits.shape[1] and self._used + count <= len(self._logits)

    def write(self, rows: Tensor, some: Sequence[int] | None = None) -> Tensor:
        """Copy rows (n, V), or some of them, onto the page; returns the copies."""
        count = len(rows) if some is None else len(some)
        if self._logits is None or (not self._used and not self.fits(rows, count)):
            size = max(count, PAGE_ROWS, PAGE_NUMBERS // rows.shape[1])
            self._logits, self._probs = (
                rows.new_empty(size, rows.shape[1]),
                rows.new_empty(size, rows.shape[1]),
            )
        written = self._logits[self._used : self._used + count]
        if some is None:
            written.copy_(rows)
        else:
            torch.index_select(rows, 0, torch.tensor(some, device=rows.device), out=written)
        self._used += count
        return written

    def read(self) -> tuple[Tensor, Tensor]:
        """All rows since the last call, and as many for their probabilities; empties the page."""
        assert self._logits is not None and self._probs is not None
        used, self._used = self._used, 0
        return self._logits[:used], self._probs[:used]


@dataclass(slots=True)
class Recorder:
    """Collects rounds and turns them into `Round`s of the trace; `warp` turned the target's logits into p."""

    mode: Record
    warp: Warp
    rounds: list[Round] = field(default_factory=list)
    seconds: float = 0.0
    _waiting: list[KeptRound] = field(default_factory=list)
    _target: LogitsPage = field(default_factory=LogitsPage)
    _draft: LogitsPage = field(default_factory=LogitsPage)

    def add(self, seen: RoundResult) -> Round:
        """Take one round, described now or with the next few; returns its row, which is filled in then."""
        row = new_round(seen)
        if self.mode == "off":
            return row
        began = time.perf_counter()
        self.rounds.append(row)
        if self.mode == "full":
            self._keep(row, seen)
        self.seconds += time.perf_counter() - began
        return row

    def _keep(self, row: Round, seen: RoundResult) -> None:
        positions, guessed = recorded_positions(seen), seen.proposal.logits
        some = positions if len(positions) < len(seen.logits) else None
        if self._waiting and not (
            self._target.fits(seen.logits, len(positions))
            and self._draft.fits(guessed, 0 if guessed is None else len(guessed))
        ):
            self._describe()
        seen.logits = self._target.write(seen.logits, some)
        if guessed is not None:
            seen.proposal = replace(seen.proposal, logits=self._draft.write(guessed))
        if some is not None and seen.judged.penalised is not None:
            seen.judged.penalised = seen.judged.penalised[some]
        rows = None if some is None else {position: at for at, position in enumerate(some)}
        self._waiting.append(KeptRound(row, seen, rows))

    def finish(self) -> list[Round]:
        """Describe the remaining rounds and return all of them."""
        began = time.perf_counter()
        if self._waiting:
            self._describe()
        self.seconds += time.perf_counter() - began
        return self.rounds

    @torch.inference_mode()
    def _describe(self) -> None:
        batch, self._waiting = self._waiting, []
        drafted = any(raw.draft_logits is not None for raw in batch)
        describe(batch, self._target.read(), self._draft.read() if drafted else None, self.warp)


def new_round(seen: RoundResult) -> Round:
    """A round with what all recording modes keep."""
    draft_s, verify_s, judge_s, commit_s = seen.seconds
    proposal, ahead, tree = seen.proposal, seen.ahead, seen.proposal.tree
    dropped = [*proposal.dropped, *ahead.dropped]
    if dropped:  # after the tree's nodes, in the order in which they were dropped
        tree = TokenTree(
            [*tree.tokens, *(one.token for one in dropped)], [*tree.parents, *(one.parent for one in dropped)]
        )
    return Round(
        index=seen.index,
        start_s=seen.start_s,
        draft_s=draft_s,
        verify_s=verify_s,
        judge_s=judge_s,
        commit_s=commit_s,
        cache_before=seen.cache[0],
        cache_after=seen.cache[1],
        draft_passes=proposal.passes,
        nodes=Nodes(
            parent=tree.parents,
            depth=tree.depths,
            token=tree.tokens,
            verdict=[*seen.verdicts, *(one.verdict for one in dropped)],
        ),
        committed=Committed(seen.tokens, seen.sources),
        note=proposal.note,
        ahead_s=ahead.seconds,
        ahead_passes=ahead.passes,
        riders=len(proposal.extra),
    )
