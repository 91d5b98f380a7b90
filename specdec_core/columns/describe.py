"""A batch of rounds in words and numbers: probabilities, ranks, entropies, leading candidates, from their tensors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specdec_core.record.schema import Candidates, Position, Round
from specdec_core.round import Dropped, RoundResult
from specdec_core.rules.block import recorded_masses
from specdec_core.rules.speculative_sampling import at_nodes, thresholds
from specdec_core.sampling import Warp, first_best
from specdec_core.tree import TokenTree

from .probs import Described, Probs, candidates_of, ranks, rows_of, spread


@dataclass(slots=True)
class KeptRound:
    """A round that waits to be described, of n nodes and V logits. Position 0 is the root, i + 1 is node i.

    Attributes:
        row: the round in the record, whose columns are filled.
        seen: the round as the loop saw it; its logits, the draft's among them, as the recorder keeps them.
        rows: the rows of the target's logits by position; None: row i at position i.
    """

    row: Round
    seen: RoundResult
    rows: dict[int, int] | None = None

    @property
    def tree(self) -> TokenTree:
        """The proposed nodes."""
        return self.seen.proposal.tree

    @property
    def logits(self) -> Tensor:
        """The target's."""
        return self.seen.logits

    @property
    def penalised(self) -> Tensor | None:
        """The same after penalties; None where there are none."""
        return self.seen.judged.penalised

    @property
    def draft_logits(self) -> Tensor | None:
        """(m, k), the draft's; None where no model drafted."""
        return self.seen.proposal.logits

    @property
    def p(self) -> Tensor | None:
        """(n + 1, V), what the rule judged by; None: one-hot at the argmax."""
        return self.seen.judged.p

    @property
    def q(self) -> Tensor | None:
        """(n, V); None: the children were deterministic."""
        return self.seen.judged.q

    @property
    def dropped(self) -> list[Dropped]:
        """Drafted tokens that the target never read."""
        return [*self.seen.proposal.dropped, *self.seen.ahead.dropped]

    def target_row(self, position: int) -> int:
        """The row of `logits` at a recorded position."""
        return position if self.rows is None else self.rows[position]

    def draft_row(self, position: int) -> int:
        """The row of `draft_logits` that guessed what follows a position; −1 if there is none."""
        if self.draft_logits is None:
            return -1
        if (rows := self.seen.proposal.logit_rows) is not None:
            return rows[position]
        return position if position < len(self.draft_logits) else -1


def recorded_positions(seen: RoundResult) -> list[int]:
    """The positions of which the record keeps something, in order: those with a guess or a committed token after them.
    Of a tree this leaves out most leaves."""
    after = (at + 1 for at in committed_after(seen))
    return sorted({0, *(parent + 1 for parent in seen.proposal.tree.parents), *after})


def describe(
    batch: list[KeptRound], target: tuple[Tensor, Tensor], draft: tuple[Tensor, Tensor] | None, warp: Warp
) -> None:
    """Fill the rows of a batch's rounds in the record.

    Args:
        target: the target's logits of all rounds, concatenated (N, V), and a buffer of that shape for probabilities.
        draft: the same for the draft's logits; None if no round has any.
        warp: turned the target's logits into p.
    """
    target_described = Described(*target)
    # of all rounds in which anything was drafted
    ids = next((raw.seen.proposal.ids for raw in batch if raw.draft_logits is not None), None)
    draft_described = Described(*draft, ids) if draft is not None else None
    scores = [raw.penalised for raw in batch if raw.penalised is not None]  # of all rounds or of none
    penalised = torch.cat(scores) if scores else None
    own = warp.greedy and batch[0].p is not None  # p and q are the models' own after penalties already
    # of all rounds in which anything was drafted, or of none
    guessed = [one for raw in batch if (one := raw.seen.proposal.penalised) is not None]
    after = _After(
        None if penalised is None or own else Probs(penalised),
        Probs(torch.cat(guessed), None, ids) if guessed and not own else None,
    )
    heads = _Heads(batch, target_described, draft_described, after)
    nodes = _Guesses.of(batch, target_described.logits.device)
    _fill_nodes(batch, nodes, target_described, draft_described, penalised, warp)
    after.fill_nodes(batch, nodes)
    row = draft_row = 0
    for raw in batch:
        raw.row.positions = heads.positions(raw, row, draft_row)
        row += len(raw.logits)
        if raw.draft_logits is not None:
            draft_row += len(raw.draft_logits)


@dataclass(slots=True)
class _Guesses:
    """The nodes of all rounds: for each the row of the target's logits at its parent, that of the draft's (−1 without
    one), and its token, int64 (n,)."""

    rows: list[int]
    drafted: list[int]
    token: Tensor

    @classmethod
    def of(cls, batch: list[KeptRound], device: torch.device) -> _Guesses:
        """Those of a batch."""
        rows: list[int] = []
        drafted: list[int] = []
        row = draft_row = 0
        for raw in batch:
            rows += [row + raw.target_row(parent + 1) for parent in raw.tree.parents]
            known = [raw.draft_row(parent + 1) for parent in raw.tree.parents]
            drafted += [draft_row + where if where >= 0 else -1 for where in known]
            row += len(raw.logits)
            draft_row += 0 if raw.draft_logits is None else len(raw.draft_logits)
        tokens = [token for raw in batch for token in raw.tree.tokens]
        return cls(rows, drafted, torch.tensor(tokens, device=device, dtype=torch.long))


@dataclass(slots=True)
class _After:
    """The models' own probabilities after penalties, where the record keeps them."""

    target: Probs | None
    draft: Probs | None

    def fill_nodes(self, batch: list[KeptRound], all_nodes: _Guesses) -> None:
        """Fill the columns of all rounds' nodes."""
        if self.target is None:
            return
        p = self.target.at(all_nodes.rows, all_nodes.token)
        q = _known(self.draft, all_nodes)
        start = 0
        for raw in batch:
            nodes, end = raw.row.nodes, start + len(raw.tree)
            unseen: list[None] = [None] * (len(nodes.token) - len(raw.tree))
            nodes.penalised_p = [*p[start:end], *unseen]
            if self.draft is not None or any(one.penalised_q is not None for one in raw.dropped):
                nodes.penalised_q = [*q[start:end], *(one.penalised_q for one in raw.dropped)]
            start = end


def _fill_nodes(
    batch: list[KeptRound],
    all_nodes: _Guesses,
    target: Described,
    draft: Described | None,
    penalised: Tensor | None,
    warp: Warp,
) -> None:
    """Fill the columns of all rounds' nodes; the rows of `target`, `draft` and `penalised` (the target's logits after
    penalties) follow the batch's order."""
    rows, token = all_nodes.rows, all_nodes.token
    at = torch.tensor(rows, device=token.device, dtype=torch.long)
    model_p = target.probs[at, token].tolist()
    scores = target.logits if penalised is None else penalised
    favourite = target.best if penalised is None else first_best(penalised)
    rank = ranks(scores, rows, token.tolist())
    best = (favourite[at] == token).float().tolist()
    # Of tokens tied for first place, one is the argmax.
    rank = [2 if place == 1 and not first else place for place, first in zip(rank, best, strict=True)]
    entropy, largest = target.entropy, target.largest
    # of all rounds or of none
    warped_p = [
        raw.p if raw.rows is None else rows_of(raw.p, list(raw.rows)) for raw in batch if raw.p is not None
    ]
    warped = bool(warped_p) and (penalised is not None or (not warp.greedy and warp != Warp(1.0)))
    if warped:
        # no cancellation at a low temperature
        below = scores - scores.gather(-1, favourite.unsqueeze(-1))
        entropy, largest = spread(torch.cat(warped_p), below, favourite, warp.temperature or 1.0)
    model_q = _known(draft, all_nodes)
    start = 0
    for raw in batch:
        nodes, end = raw.row.nodes, start + len(raw.tree)
        unseen: list[None] = [None] * (len(nodes.token) - len(raw.tree))
        nodes.coin, nodes.threshold = (
            [*raw.seen.judged.coins, *unseen],
            [*raw.seen.judged.decision.thresholds, *unseen],
        )
        nodes.model_p, nodes.rank = [*model_p[start:end], *unseen], [*rank[start:end], *unseen]
        nodes.model_q = [*model_q[start:end], *(one.model_q for one in raw.dropped)]
        nodes.tree_q = raw.seen.proposal.tree_q
        nodes.entropy = [*(target.entropy[where] for where in rows[start:end]), *unseen]
        nodes.p_max = [*(largest[where] for where in rows[start:end]), *unseen]
        nodes.p_entropy = [*(entropy[where] for where in rows[start:end]), *unseen] if warped else None
        one_hot = best[start:end], [1.0] * len(raw.tree)
        p_at, q_at = one_hot if raw.p is None else at_nodes(raw.tree, raw.p, raw.q)
        nodes.p, nodes.q = [*p_at, *unseen], [*q_at, *unseen]
        if raw.tree.is_chain:
            masses = recorded_masses(raw.tree, raw.p, raw.q, p_at, q_at)
            raw.row.block_mass = masses + [0.0] * len(unseen)
        elif raw.p is not None and raw.q is not None and not warp.greedy:
            nodes.recursive = [*thresholds(raw.tree, raw.p, raw.q), *unseen]
        start = end


def _known(draft: Probs | None, all_nodes: _Guesses) -> list[float | None]:
    """The draft's probability of every node; None where no row of its logits guessed it."""
    known: list[float | None] = [None] * len(all_nodes.drafted)
    if draft is not None:
        places = [place for place, where in enumerate(all_nodes.drafted) if where >= 0]
        values = draft.at([all_nodes.drafted[place] for place in places], all_nodes.token[places])
        for place, value in zip(places, values, strict=True):
            known[place] = value
    return known


class _Heads:
    """The leading candidates of every distribution at every committed position of a batch."""

    def __init__(
        self, batch: list[KeptRound], target: Described, draft: Described | None, after: _After
    ) -> None:
        self.target, self.draft, self.after = target, draft, after
        target_rows, draft_rows, warped, drafted = [], [], [], []
        row = draft_row = 0
        for raw in batch:
            for at in committed_after(raw.seen):
                target_rows.append(row + raw.target_row(at + 1))
                if (where := raw.draft_row(at + 1)) >= 0:
                    draft_rows.append(draft_row + where)
                if raw.p is not None:
                    warped.append(raw.p[at + 1])
                    if raw.q is not None and (children := raw.tree.children[at + 1]):
                        drafted.append(raw.q[children[0]])
            row += len(raw.logits)
            draft_row += 0 if raw.draft_logits is None else len(raw.draft_logits)
        corrected = [
            raw.seen.judged.final
            for raw in batch
            if _has_residual(raw) and raw.p is not None and raw.seen.judged.final is not None
        ]
        self.model_p = iter(target.candidates(target_rows))
        self.model_q = iter(draft.candidates(draft_rows) if draft is not None and draft_rows else [])
        self.penalised_p = iter(after.target.candidates(target_rows) if after.target else [])
        self.penalised_q = iter(after.draft.candidates(draft_rows) if after.draft and draft_rows else [])
        self.p = iter(candidates_of(torch.stack(warped)) if warped else [])
        self.q = iter(candidates_of(torch.stack(drafted)) if drafted else [])
        self.residual = iter(candidates_of(torch.stack(corrected)) if corrected else [])

    def positions(self, raw: KeptRound, row: int, draft_row: int) -> list[Position]:
        """The committed positions of one round, in order; rounds must be requested in the batch's order."""
        committed, positions = raw.row.committed, []
        places = committed_after(raw.seen)
        for place, at in enumerate(places):
            model_p = next(self.model_p)
            p = next(self.p) if raw.p is not None else _point(self._best(raw, at, model_p))
            where = raw.draft_row(at + 1)
            model_q = next(self.model_q) if where >= 0 else None
            nodes = raw.tree.children[at + 1]
            children = [raw.tree.tokens[child] for child in nodes]
            q: Candidates | None = None
            overlap: float | None = None
            if raw.q is not None and raw.p is not None and nodes:
                q = next(self.q)
                overlap = float(torch.minimum(raw.p[at + 1], raw.q[nodes[0]]).sum())
            elif children:
                q = _point(children[0]) if len(set(children)) == 1 else None
                overlap = _mass(raw, at, set(children), p)
            last = place == len(places) - 1 and committed.source[place] != "accepted"
            positions.append(
                Position(
                    at=at,
                    token=committed.token[place],
                    source=committed.source[place],
                    p=p,
                    model_p=model_p,
                    q=q,
                    model_q=model_q,
                    residual=self._residual(raw, committed.token[place]) if last else None,
                    entropy_p=self.target.entropy[row + raw.target_row(at + 1)],
                    entropy_q=self.draft.entropy[draft_row + where] if where >= 0 and self.draft else None,
                    overlap=overlap,
                    draw=raw.seen.judged.draw if last else None,
                    penalised_p=next(self.penalised_p) if self.after.target else None,
                    penalised_q=next(self.penalised_q) if self.after.draft and where >= 0 else None,
                )
            )
        return positions

    def _best(self, raw: KeptRound, at: int, model_p: Candidates) -> int:
        """The token that greedy decoding takes after a node."""
        return (
            model_p.id[0] if raw.penalised is None else int(first_best(raw.penalised[raw.target_row(at + 1)]))
        )

    def _residual(self, raw: KeptRound, token: int) -> Candidates | None:
        """What a corrected token was drawn from; one-hot at temperature 0."""
        if not _has_residual(raw):
            return None
        return _point(token) if raw.p is None else next(self.residual)


def committed_after(seen: RoundResult) -> list[int]:
    """The node each committed token of the round follows; −1 is the root."""
    return [-1, *seen.judged.decision.path][: len(seen.tokens)]


def _has_residual(raw: KeptRound) -> bool:
    return raw.row.committed.source[-1] == "corrected"


def _mass(raw: KeptRound, at: int, tokens: set[int], p: Candidates) -> float:
    """Σ p over deterministic children: under speculative sampling the probability that one passes."""
    if raw.p is None:
        return 1.0 if p.id[0] in tokens else 0.0
    return min(1.0, float(raw.p[at + 1, list(tokens)].sum()))


def _point(token: int) -> Candidates:
    return Candidates([token], [1.0], 0.0)
