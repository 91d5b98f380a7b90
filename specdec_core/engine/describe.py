"""A batch of rounds in words and numbers: probabilities, ranks, entropies, leading candidates, from their tensors."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from specdec_core.record.schema import TOP, Candidates, Position, Round
from specdec_core.rules import Decision
from specdec_core.rules.block import recorded_masses
from specdec_core.rules.speculative_sampling import at_nodes, thresholds
from specdec_core.sampling import Warp, first_best
from specdec_core.tree import TokenTree

BLOCK = 32  # numbers of a row that are looked through together


@dataclass(slots=True)
class RawRound:
    """One round as the loop saw it. Of n nodes and V logits `logits`, `p` and `scores` are (n + 1, V), `q` (n, V).

    Position 0 is the root, i + 1 is node i.
    """

    row: Round
    tree: TokenTree
    decision: Decision
    coins: list[float]
    logits: Tensor
    p: Tensor | None  # None: greedy, p is one-hot at the argmax
    q: Tensor | None  # None: the children were deterministic
    draft_logits: Tensor | None  # (m, k)
    # per position the row of `draft_logits`, −1 without one; None: row i at position i
    draft_rows: list[int] | None
    draw: float | None
    dropped_q: list[float | None] = field(default_factory=list)  # of drafted tokens the target never saw
    scores: Tensor | None = None  # the logits after penalties; None: there are none
    final: Tensor | None = None  # (V,), what the last token was drawn from; None: greedy
    # the rows of `logits` and `scores` by position; None: row i at position i
    rows: dict[int, int] | None = None
    draft_ids: Tensor | None = None  # (k,), the tokens of `draft_logits`' columns; None: all V
    draft_scores: Tensor | None = (
        None  # (m, k), `draft_logits` after penalties, where q is one-hot; None: without any
    )

    def told_of(self) -> list[int]:
        """The positions that the record tells something of, in order: those with a guess or a committed token after
        them. Of a tree this leaves out most leaves."""
        return sorted(
            {0, *(parent + 1 for parent in self.tree.parents), *(at + 1 for at in committed_after(self))}
        )

    def target_row(self, position: int) -> int:
        """The row of `logits` at a position that is told of."""
        return position if self.rows is None else self.rows[position]

    def draft_row(self, position: int) -> int:
        """The row of `draft_logits` that guessed what follows a position; −1 if there is none."""
        if self.draft_logits is None:
            return -1
        if self.draft_rows is not None:
            return self.draft_rows[position]
        return position if position < len(self.draft_logits) else -1


def describe(
    batch: list[RawRound], target: tuple[Tensor, Tensor], draft: tuple[Tensor, Tensor] | None, warp: Warp
) -> None:
    """Fill the rows of a batch's rounds in the record.

    Args:
        target: the target's logits of all rounds, concatenated (N, V), and a buffer of that shape for probabilities.
        draft: the same for the draft's logits; None if no round has any.
        warp: turned the target's logits into p.
    """
    target_described = _Described(*target)
    # of all rounds in which anything was drafted
    ids = next((raw.draft_ids for raw in batch if raw.draft_logits is not None), None)
    draft_described = _Described(*draft, ids) if draft is not None else None
    scores = [raw.scores for raw in batch if raw.scores is not None]  # of all rounds or of none
    penalised = torch.cat(scores) if scores else None
    # of all rounds in which anything was drafted, or of none
    guessed = [raw.draft_scores for raw in batch if raw.draft_scores is not None]
    after = _After(
        # where p is not one-hot, it has the penalties
        None if penalised is None or batch[0].p is not None else _Probs(penalised),
        _Probs(torch.cat(guessed), None, ids) if guessed else None,
    )
    heads = _Heads(batch, target_described, draft_described, after)
    _fill_nodes(batch, target_described, draft_described, penalised, warp)
    after.fill_nodes(batch)
    row = draft_row = 0
    for raw in batch:
        raw.row.positions = heads.positions(raw, row, draft_row)
        row += len(raw.logits)
        if raw.draft_logits is not None:
            draft_row += len(raw.draft_logits)


class _Probs:
    """Stacked logits (N, k) of the tokens `ids`, or of all V, and their softmax."""

    def __init__(self, logits: Tensor, room: Tensor | None = None, ids: Tensor | None = None) -> None:
        self.logits, self.ids = logits, ids
        self.probs = torch.softmax(logits, -1, out=room)

    def at(self, rows: list[int], tokens: Tensor) -> list[float]:
        """The probability of a token in each of these rows; 0 of one that is not among the logits."""
        if self.ids is None:
            every: list[float] = self.probs[rows, tokens].tolist()
            return every
        columns = torch.searchsorted(self.ids, tokens).clamp_max_(len(self.ids) - 1)
        found: list[float] = (self.probs[rows, columns] * (self.ids[columns] == tokens)).tolist()
        return found

    def candidates(self, rows: list[int]) -> list[Candidates]:
        """The leading candidates of these rows."""
        return _candidates(_rows(self.probs, rows), self.ids)


class _Described(_Probs):
    """The models' own probabilities (temperature 1) with their entropies."""

    def __init__(self, logits: Tensor, room: Tensor, ids: Tensor | None = None) -> None:
        super().__init__(logits, room, ids)
        self.best = first_best(logits)
        self.entropy, self.largest = _spread(self.probs, logits, self.best)


@dataclass(slots=True)
class _After:
    """The models' own probabilities after penalties, where the record keeps them."""

    target: _Probs | None
    draft: _Probs | None

    def fill_nodes(self, batch: list[RawRound]) -> None:
        """Fill the columns of all rounds' nodes."""
        if self.target is None:
            return
        rows, drafted = _rows_of_nodes(batch)
        token = torch.tensor([token for raw in batch for token in raw.tree.tokens], dtype=torch.long)
        token = token.to(self.target.logits.device)
        p = self.target.at(rows, token)
        q = _known(self.draft, drafted, token)
        start = 0
        for raw in batch:
            nodes, end = raw.row.nodes, start + len(raw.tree)
            unseen: list[None] = [None] * (len(nodes.token) - len(raw.tree))
            nodes.penalised_p = [*p[start:end], *unseen]
            nodes.penalised_q = None if self.draft is None else [*q[start:end], *unseen]
            start = end


def _spread(
    probs: Tensor, logits: Tensor, best: Tensor, temperature: float = 1.0
) -> tuple[list[float], list[float]]:
    """Entropy and largest probability per row (N, V) of `probs`, which are softmax(logits / T), cut or not; `best` are
    the places (N,) of the largest."""
    # H = log Σ exp z − Σ p z with z = logits / T, and log Σ exp z = max z − log max p, where the sums run over what the
    # cut left: no logarithm or exponential per number.
    places = best.unsqueeze(-1)
    largest = probs.gather(-1, places).squeeze(-1)
    mean = torch.linalg.vecdot(probs, logits)
    if not bool(mean.isfinite().all()):  # 0 × −∞: an id that a draft lacks, or that a penalty bans
        mean = torch.linalg.vecdot(probs, logits.clamp_min(torch.finfo(logits.dtype).min))
    entropy = ((logits.gather(-1, places).squeeze(-1) - mean) / temperature - largest.log()).clamp_min(0.0)
    # Nine decimals are precise enough for float32 and take half the space in JSON.
    return _short(entropy), _short(largest)


def _short(values: Tensor) -> list[float]:
    return [round(value, 9) for value in values.tolist()]


def _fill_nodes(
    batch: list[RawRound],
    target: _Described,
    draft: _Described | None,
    penalised: Tensor | None,
    warp: Warp,
) -> None:
    """Fill the columns of all rounds' nodes; the rows of `target`, `draft` and `penalised` (the target's logits after
    penalties) follow the batch's order."""
    rows, drafted = _rows_of_nodes(batch)
    tokens = [token for raw in batch for token in raw.tree.tokens]
    device = target.logits.device
    at, token = (
        torch.tensor(rows, device=device, dtype=torch.long),
        torch.tensor(tokens, device=device, dtype=torch.long),
    )
    model_p = target.probs[at, token].tolist()
    scores = target.logits if penalised is None else penalised
    favourite = target.best if penalised is None else first_best(penalised)
    rank = _ranks(scores, rows, tokens)
    best = (favourite[at] == token).float().tolist()
    # Of tokens tied for first place, one is the argmax.
    rank = [2 if place == 1 and not first else place for place, first in zip(rank, best, strict=True)]
    entropy, largest = target.entropy, target.largest
    # of all rounds or of none
    warped_p = [
        raw.p if raw.rows is None else _rows(raw.p, list(raw.rows)) for raw in batch if raw.p is not None
    ]
    warped = bool(warped_p) and (penalised is not None or (not warp.greedy and warp != Warp(1.0)))
    if warped:
        # no cancellation at a low temperature
        below = scores - scores.gather(-1, favourite.unsqueeze(-1))
        entropy, largest = _spread(torch.cat(warped_p), below, favourite, warp.temperature or 1.0)
    model_q = _known(draft, drafted, token)
    start = 0
    for raw in batch:
        nodes, end = raw.row.nodes, start + len(raw.tree)
        unseen: list[None] = [None] * (len(nodes.token) - len(raw.tree))
        nodes.coin, nodes.threshold = [*raw.coins, *unseen], [*raw.decision.thresholds, *unseen]
        nodes.model_p, nodes.rank = [*model_p[start:end], *unseen], [*rank[start:end], *unseen]
        nodes.model_q = [*model_q[start:end], *raw.dropped_q]
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


def _known(draft: _Probs | None, drafted: list[int], tokens: Tensor) -> list[float | None]:
    """The draft's probability of a token in each of these rows; None where the row is −1."""
    known: list[float | None] = [None] * len(drafted)
    if draft is not None:
        places = [place for place, where in enumerate(drafted) if where >= 0]
        values = draft.at([drafted[place] for place in places], tokens[places])
        for place, value in zip(places, values, strict=True):
            known[place] = value
    return known


def _rows_of_nodes(batch: list[RawRound]) -> tuple[list[int], list[int]]:
    """For each node of all rounds the row of the target's logits at its parent, and that of the draft's; −1 without
    one."""
    rows: list[int] = []
    drafted: list[int] = []
    row = draft_row = 0
    for raw in batch:
        rows += [row + raw.target_row(parent + 1) for parent in raw.tree.parents]
        known = [raw.draft_row(parent + 1) for parent in raw.tree.parents]
        drafted += [draft_row + where if where >= 0 else -1 for where in known]
        row += len(raw.logits)
        draft_row += 0 if raw.draft_logits is None else len(raw.draft_logits)
    return rows, drafted


def _ranks(scores: Tensor, rows: list[int], tokens: list[int]) -> list[int]:
    """1 + the number of scores (N, V) above that of a token, for one token of each of these rows."""
    if scores.device.type == "cpu" and scores.dtype == torch.float32:
        # a row is compared where it lies; torch would copy it for each of its guesses
        numbers = scores.numpy()
        return [
            1 + int(np.count_nonzero(numbers[row] > numbers[row, token]))
            for row, token in zip(rows, tokens, strict=True)
        ]
    chosen = scores[rows]
    above = chosen > chosen.gather(1, torch.tensor(tokens, device=scores.device).unsqueeze(1))
    return [1 + int(count) for count in above.sum(-1).tolist()]


class _Heads:
    """The leading candidates of every distribution at every committed position of a batch."""

    def __init__(
        self, batch: list[RawRound], target: _Described, draft: _Described | None, after: _After
    ) -> None:
        self.target, self.draft, self.after = target, draft, after
        target_rows, draft_rows, warped, drafted = [], [], [], []
        row = draft_row = 0
        for raw in batch:
            for at in committed_after(raw):
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
            raw.final for raw in batch if _has_residual(raw) and raw.p is not None and raw.final is not None
        ]
        self.model_p = iter(target.candidates(target_rows))
        self.model_q = iter(draft.candidates(draft_rows) if draft is not None and draft_rows else [])
        self.penalised_p = iter(after.target.candidates(target_rows) if after.target else [])
        self.penalised_q = iter(after.draft.candidates(draft_rows) if after.draft and draft_rows else [])
        self.p = iter(_candidates(torch.stack(warped)) if warped else [])
        self.q = iter(_candidates(torch.stack(drafted)) if drafted else [])
        self.residual = iter(_candidates(torch.stack(corrected)) if corrected else [])

    def positions(self, raw: RawRound, row: int, draft_row: int) -> list[Position]:
        """The committed positions of one round, in order; rounds must be requested in the batch's order."""
        committed, positions = raw.row.committed, []
        places = committed_after(raw)
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
                    draw=raw.draw if last else None,
                    penalised_p=next(self.penalised_p) if self.after.target else None,
                    penalised_q=next(self.penalised_q) if self.after.draft and where >= 0 else None,
                )
            )
        return positions

    def _best(self, raw: RawRound, at: int, model_p: Candidates) -> int:
        """The token that greedy decoding takes after a node."""
        return model_p.id[0] if raw.scores is None else int(first_best(raw.scores[raw.target_row(at + 1)]))

    def _residual(self, raw: RawRound, token: int) -> Candidates | None:
        """What a corrected token was drawn from; one-hot at temperature 0."""
        if not _has_residual(raw):
            return None
        return _point(token) if raw.p is None else next(self.residual)


def committed_after(raw: RawRound) -> list[int]:
    """The node each committed token of the round follows; −1 is the root."""
    return [-1, *raw.decision.path][: len(raw.row.committed.token)]


def _has_residual(raw: RawRound) -> bool:
    return raw.row.committed.source[-1] == "corrected"


def _mass(raw: RawRound, at: int, tokens: set[int], p: Candidates) -> float:
    """Σ p over deterministic children: under speculative sampling the probability that one passes."""
    if raw.p is None:
        return 1.0 if p.id[0] in tokens else 0.0
    return min(1.0, float(raw.p[at + 1, list(tokens)].sum()))


def _rows(probs: Tensor, rows: list[int]) -> Tensor:
    """Those rows of (N, V); a fifth of the time of `probs[rows]`."""
    return probs.index_select(0, torch.tensor(rows, device=probs.device))


def _point(token: int) -> Candidates:
    return Candidates([token], [1.0], 0.0)


def _candidates(probs: Tensor, ids: Tensor | None = None) -> list[Candidates]:
    """The leading `TOP` of each row of (N, k), without zeros, and the mass of the rest; `ids` as in `_Described`."""
    leading, tokens = _leading(probs)
    tokens = tokens if ids is None else ids[tokens]
    # Subtracted from 1, not from the row's sum: over many tokens a float32 sum errs in the sixth digit.
    tails = (1.0 - leading.double().sum(-1)).clamp(0.0, 1.0).tolist()
    heads = []
    for names, values, tail in zip(tokens.tolist(), leading.tolist(), tails, strict=True):
        count = sum(value > 0.0 for value in values)
        heads.append(Candidates(names[:count], values[:count], tail if count == len(values) else 0.0))
    return heads


def _leading(probs: Tensor) -> tuple[Tensor, Tensor]:
    """The `TOP` largest of each row of (N, V) and their places, (N, TOP) each: all of them are in the `TOP` blocks with
    the largest maxima. A search of whole rows takes two to five times as long."""
    count, width = probs.shape
    blocks = width // BLOCK
    if blocks <= TOP:
        return probs.topk(min(TOP, width), -1)
    cut = blocks * BLOCK
    whole = probs[:, :cut].view(count, blocks, BLOCK)
    best = whole.amax(-1).topk(TOP, -1).indices
    places = (best.unsqueeze(-1) * BLOCK + torch.arange(BLOCK, device=probs.device)).flatten(1)
    if cut < width:
        rest = torch.arange(cut, width, device=probs.device).expand(count, -1)
        places = torch.cat((places, rest), 1)
    leading, order = probs.gather(1, places).topk(TOP, -1)
    return leading, places.gather(1, order)
