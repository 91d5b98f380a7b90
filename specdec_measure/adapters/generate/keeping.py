"""Turns rounds that were observed in another engine into rounds of the record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from specdec_core.columns.recorder import Recorder
from specdec_core.engine.text import Text, names_of
from specdec_core.models.tokens.tokenizer import Codec
from specdec_core.record.schema import EndReason, Header, Verdict
from specdec_core.record.stats import RoundTally
from specdec_core.record.trace import Trace
from specdec_core.round import Judged, Note, Proposal, RoundResult
from specdec_core.rules import Decision
from specdec_core.sampling import Warp, residual
from specdec_core.settings import Settings
from specdec_core.tree import TokenTree
from specdec_measure.adapters.foreign import judged


@dataclass(slots=True)
class Observed:
    """One round. Of n candidates and V logits, `logits` and `scores` are (n + 1, V), `drafted` and `q` (n, V)."""

    start_s: float
    candidates: list[int]
    committed: list[int]
    logits: Tensor  # the target's own
    scores: Tensor  # what the engine made of them; p is their softmax
    drafted: Tensor | None  # the draft's own; None where no model drafted
    q: Tensor | None  # what the candidates were drawn from, as scores
    draft_passes: int
    seconds: list[float] = field(default_factory=list)  # draft, verify, judge, commit
    penalised: Tensor | None = None  # `logits` after penalties, before temperature and cuts; None without any


class Keeping:
    """The record of one decode, round by round."""

    def __init__(self, codec: Codec, prompt: list[int], asked: Settings) -> None:
        self.codec, self.prompt = codec, prompt
        self.tally = RoundTally()
        self.text = Text(codec, prompt, frozenset(), asked.but(stop=()))  # generate says where the text ends
        self._recorder: Recorder | None = None

    def take(self, seen: Observed, warp: Warp) -> None:
        """One round, in which `warp` is what the engine did to the logits after penalties."""
        if self._recorder is None:
            self._recorder = Recorder("full", warp)
        sampled = not warp.greedy
        tree, committed = TokenTree.chain(seen.candidates), seen.committed
        p = seen.scores.softmax(-1) if sampled else None
        q = seen.q.softmax(-1) if sampled and seen.q is not None else None
        verdicts, sources = judged(seen.candidates, committed)
        path = list(range(verdicts.count("accepted")))
        decision = Decision(path, verdicts, _thresholds(seen, verdicts, p, q))
        length = len(self.prompt) + len(self.text.output.ids) - 1
        note: Note = {} if self.tally.passes else {"reads_prompt": True}
        self._recorder.add(
            RoundResult(
                index=self.tally.passes,
                start_s=seen.start_s,
                seconds=seen.seconds,
                cache=(length, length + len(committed)),
                proposal=Proposal(tree, logits=seen.drafted, passes=seen.draft_passes, note=note),
                logits=seen.logits,
                judged=Judged(
                    decision,
                    sources[-1],
                    [0.0] * len(tree),
                    committed,
                    seen.penalised,
                    p,
                    q,
                    _final(seen, len(path), p, q) if sources[-1] == "corrected" else None,
                ),
                verdicts=verdicts,
                tokens=committed,
                sources=sources,
            )
        )
        self.tally.add(tree, verdicts, len(committed), seen.draft_passes, seen.seconds)
        self.text.add(committed)

    def trace(self, header: Header, most: int, ends: Sequence[int]) -> Trace:
        """The finished record; `ends` are the tokens that end a text, `most` is how many it may have."""
        rounds = self._recorder.finish() if self._recorder is not None else []
        for row in rounds:
            row.nodes.coin = None  # drawn inside the engine
        output = self.text.finish()
        end: EndReason = "length" if len(output.ids) >= most else "stop"
        if output.ids and output.ids[-1] in ends:
            end = "eos"
        stats = self.tally.stats(0.0, self._recorder.seconds if self._recorder is not None else 0.0)
        return Trace(header, rounds, output, end, stats, names_of(self.codec, rounds, output.ids))


def _thresholds(
    seen: Observed, verdicts: Sequence[Verdict], p: Tensor | None, q: Tensor | None
) -> list[float | None]:
    """The probability with which each judged candidate was to pass."""
    found: list[float | None] = []
    for node, (token, verdict) in enumerate(zip(seen.candidates, verdicts, strict=True)):
        if verdict not in ("accepted", "rejected"):
            found.append(None)
        elif p is None:
            found.append(1.0 if verdict == "accepted" else 0.0)
        elif q is None:  # the target's own draw has to be this token
            found.append(float(p[node, token]))
        else:
            found.append(min(1.0, float(p[node, token] / q[node, token])))
    return found


def _final(seen: Observed, at: int, p: Tensor | None, q: Tensor | None) -> Tensor | None:
    """What a corrected token was drawn from. A draw that is not the candidate is one from what that leaves of p."""
    if p is None:
        return None
    if q is None:
        q = torch.zeros_like(p)
        q[at, seen.candidates[at]] = 1.0
    return residual(p[at], q[at])
