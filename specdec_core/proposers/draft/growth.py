"""A growing draft tree, one pass of the draft per level, and drafting the next one ahead.

Above temperature 0 a drawn token stays in the tree, whatever it is. Only where to continue is chosen: how
many children a node gets is decided before any of them is drawn, from the draft's distributions and from what is
already in the tree. Its children are then fresh draws from its q, which is all that recursive rejection requires. To
drop, add or reorder siblings based on their values would change the text's distribution.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from specdec_core.foundations.lazy_torch import torch
from specdec_core.record.schema import Verdict
from specdec_core.round import Context, Dropped, Outcome
from specdec_core.sampling import draw, first_best
from specdec_core.tree import ROOT, TokenTree

from .draft_model import fit

if TYPE_CHECKING:
    from torch import Tensor

    from specdec_core.runtime.reader import Reader

    from .branching import Branching


@dataclass(slots=True)
class Node:
    """A drafted token; `value` is the product along its path, `own` is the draft's own at temperature 1, `penalised`
    the same after penalties, if there are any."""

    token: int
    parent: int
    value: float
    own: float
    penalised: float | None = None


class Rows:
    """What the draft has read after its kept tokens: rows of a tree, starting with its root."""

    def __init__(self, reader: Reader, tokens: list[int], parents: list[int]) -> None:
        self.reader, self.tokens, self.parents = reader, tokens, parents

    def __len__(self) -> int:
        return len(self.tokens)

    def read(self, tokens: list[int], parents: list[int]) -> Tensor:
        """Read further tokens below rows read before or earlier in the list; logits (m, V_draft)."""
        known = len(self)
        self.tokens += tokens
        self.parents += parents
        tree = TokenTree(self.tokens[1:], [parent - 1 for parent in self.parents[1:]])
        return self.reader.read(self.tokens[0], tree, known)

    def path(self, row: int) -> list[int]:
        """The rows from the first down to `row`."""
        path = []
        while row >= 0:
            path.append(row)
            row = self.parents[row]
        return path[::-1]

    def split(self, last: int, start: int) -> Rows:
        """Keep the path down to row `last`; the rows from `start` on, all below it, become a separate tree."""
        path, moved = self.path(last), range(start, len(self))
        self.reader.keep([*path, *moved])
        self.reader.rewind(self.reader.length - len(moved))
        parents = [max(-1, parent - start) for parent in self.parents[start:]]
        return Rows(self.reader, self.tokens[start:], parents)


class Growth:
    """A tree to which each `advance` adds one level.

    Args:
        rows: the draft's rows.
        unread: tokens to read first, the last of which is the tree's root; they hang below row `below`.
        context: of the round.
        options: of the proposer.
        depth: the most levels, at least 1.
        budget: the most nodes, at least 1.
    """

    def __init__(
        self,
        rows: Rows,
        unread: list[int],
        below: int,
        context: Context,
        options: Branching.Options,
        depth: int,
        budget: int,
    ) -> None:
        self.rows, self.unread, self.below = rows, unread, below
        self.warp, self.vocabulary, self.options = context.warp, context.vocabulary, options
        self.past = context.past
        self.depth, self.budget = depth, budget
        self.drawn = not self.warp.greedy and options.draw != "likeliest"
        self.ranked = options.rerank and not self.drawn  # grow everything, then keep the best nodes
        self.numbers = context.uniforms(budget) if self.drawn else []
        self.nodes: list[Node] = []
        self.q: list[Tensor] = []  # per node, if drawn
        self.logits: list[Tensor] = []  # per level (m, V)
        self.scores: list[Tensor] = []  # the same after penalties, if there are any
        self.logit_row: dict[int, int] = {}  # node, or ROOT, → its row in all of them together
        self.row: dict[int, int] = {}  # node, or ROOT, → its row in the draft's memory
        self.frontier = [ROOT]  # whose children come next
        self.levels = 0
        self.passes = 0  # made so far and not yet reported

    @property
    def over(self) -> bool:
        """Whether the tree is complete."""
        spent = not self.ranked and len(self.nodes) >= self.budget
        return self.levels == self.depth or not self.frontier or spent

    def advance(self) -> bool:
        """Read the frontier in one pass of the draft and grow its children; returns whether there is more to do."""
        for place, node in enumerate(self.frontier, start=len(self.logit_row)):
            self.logit_row[node] = place
        logits = self._read()
        self.passes += 1
        self.logits.append(logits)
        scores = logits
        if self.past is not None:
            scores = self.past.penalised(logits, [self._tokens(node) for node in self.frontier])
            self.scores.append(scores)
        probs = scores.softmax(-1) if self.warp.greedy else self.warp(scores)
        above = [1.0 if node == ROOT else self.nodes[node].value for node in self.frontier]
        best = probs.topk(min(self.options.width, probs.shape[-1]))
        slots = [
            [value * chance for chance in row] for value, row in zip(above, best.values.tolist(), strict=True)
        ]
        counts = self._counts(slots)
        start = len(self.nodes)
        owners = [place for place, count in enumerate(counts) for _ in range(count)]
        if not owners:
            self.frontier = []
            return False
        if self.drawn:
            tokens = self._drawn(probs, counts)
        else:
            ranks = [rank for count in counts for rank in range(count)]
            tokens = best.indices[owners, ranks]
        chances = probs[owners, tokens]
        own, after = (
            (rows[owners, tokens] - rows.logsumexp(-1)[owners]).exp().tolist() for rows in (logits, scores)
        )
        found = zip(owners, tokens.tolist(), chances.tolist(), own, after, strict=True)
        self.nodes += [
            Node(
                token, self.frontier[owner], above[owner] * chance, mine, None if self.past is None else left
            )
            for owner, token, chance, mine, left in found
        ]
        self.levels += 1
        self.frontier = self._next(start)
        return not self.over

    def _tokens(self, node: int) -> list[int]:
        """The tokens from the first level down to `node`."""
        tokens: list[int] = []
        while node != ROOT:
            tokens.append(self.nodes[node].token)
            node = self.nodes[node].parent
        return tokens[::-1]

    def _read(self) -> Tensor:
        """Float32 logits (m, V) after every node of the frontier."""
        if self.frontier == [ROOT]:
            first = len(self.rows)
            chain = [self.below, *range(first, first + len(self.unread) - 1)]
            logits = self.rows.read(self.unread, chain)[-1:]
            self.row[ROOT] = len(self.rows) - 1
        else:
            for row, node in enumerate(self.frontier, start=len(self.rows)):
                self.row[node] = row
            family = [self.nodes[node] for node in self.frontier]
            logits = self.rows.read(
                [node.token for node in family], [self.row[node.parent] for node in family]
            )
        return fit(logits, self.vocabulary)

    def _counts(self, slots: list[list[float]]) -> list[int]:
        """How many children each node of the frontier gets; `slots` are their values if they were the most likely ones.

        With ranking, all possible ones. Else the level's even share of the remaining budget goes to the best
        slots; a token of probability 0 is never a child.
        """
        possible = [value for row in slots for value in row if value > 0.0]
        share = len(possible)
        if not self.ranked:
            share = min(share, -((len(self.nodes) - self.budget) // (self.depth - self.levels)))
        if share == 0:
            return [0] * len(slots)
        least = sorted(possible, reverse=True)[share - 1]
        counts = [sum(value > least for value in row) for row in slots]
        spare = share - sum(counts)
        for place, row in enumerate(slots):  # ties: the earlier node first
            more = min(spare, row.count(least))
            counts[place] += more
            spare -= more
        return counts

    def _drawn(self, probs: Tensor, counts: list[int]) -> Tensor:
        """Children drawn from their parents' distributions, with or without replacement: int64 (m,)."""
        tokens: list[Tensor] = []
        for row, count in zip(probs, counts, strict=True):
            q = row
            for child in range(count):
                if child and self.options.draw == "distinct":
                    q = q.index_fill(0, tokens[-1], 0.0)
                    q = q / q.sum()
                tokens.append(draw(q, self.numbers[len(self.q)]))
                self.q.append(q)
        return torch.stack(tokens)

    def _next(self, start: int) -> list[int]:
        """Which of the nodes from `start` on get children."""
        seen: set[tuple[int, int]] = set()
        able = []
        for node in range(start, len(self.nodes)):
            pair = self.nodes[node].parent, self.nodes[node].token
            # A repeated sibling is never accepted: after the first one fails, no p is left at that token.
            if pair not in seen and self.nodes[node].value >= self.options.threshold:
                able.append(node)
            seen.add(pair)
        able.sort(key=lambda node: -self.nodes[node].value)
        return sorted(able[: self.options.beam])

    def given_up(self, nodes: list[int], number: dict[int, int], verdict: Verdict) -> list[Dropped]:
        """Nodes in ascending order as dropped tokens; `number` maps each node, or ROOT, to its number."""
        dropped = [(self.nodes[node], number[self.nodes[node].parent]) for node in nodes]
        return [Dropped(one.token, parent, verdict, one.own, one.penalised) for one, parent in dropped]

    def discarded(self, root: int, start: int) -> list[Dropped]:
        """All nodes as dropped tokens, numbered from `start` on, below node number `root`."""
        numbers = {ROOT: root} | {node: start + node for node in range(len(self.nodes))}
        return self.given_up(list(range(len(self.nodes))), numbers, "discarded")


class TreeGuess:
    """Drafts ahead, guessing that the most likely path is accepted and followed by the draft's most likely token.

    Args:
        growth: of the round.
        path: the guessed path as nodes of the proposal, and as nodes of `growth`.
        context: of the round.
        depth, budget: of the next round's tree.
    """

    def __init__(
        self, growth: Growth, path: tuple[list[int], list[int]], context: Context, depth: int, budget: int
    ) -> None:
        self.growth, self.plan = growth, (depth, budget)
        self.path, self.grown = path
        tokens = [growth.nodes[node].token for node in self.grown]
        past = context.past.extended(tokens) if context.past is not None else None
        self.context = replace(context, round=context.round + 1, past=past)
        # the guessed token, and the draft's probability of it before and after penalties
        self.guess: tuple[int, float, float | None] | None = None
        self.leaf = -1  # its parent's row
        self.next: Growth | None = None
        self.passes = 0  # to reach the guess

    def take_passes(self) -> int:
        """How many passes were made; reported now, so the next round's tree starts counting at 0."""
        made = self.passes
        if self.next is not None:
            made, self.next.passes = made + self.next.passes, 0
        return made

    def advance(self) -> bool:
        """One pass; returns whether there is more to draft."""
        if self.next is not None:
            # How far it gets is a matter of time, and further levels are the length policy's to decide.
            return self.next.advance() and not self.context.policy.can_stop
        growth, leaf = self.growth, self.grown[-1]
        if leaf in growth.row:
            self.leaf = growth.row[leaf]
            logits = torch.cat(growth.logits)[growth.logit_row[leaf]]
        else:
            node = growth.nodes[leaf]
            self.leaf = len(growth.rows)
            self.passes += 1
            logits = fit(growth.rows.read([node.token], [growth.row[node.parent]]), growth.vocabulary)[0]
        past = self.context.past
        scores = logits if past is None else past.next(logits)
        token = int(first_best(scores))
        self.guess = token, float(logits.softmax(-1)[token]), None
        if past is not None:
            self.guess = *self.guess[:2], float(scores.softmax(-1)[token])
            past.extend([token])
        self.next = Growth(growth.rows, [token], self.leaf, self.context, growth.options, *self.plan)
        return True

    def came_true(self, outcome: Outcome) -> bool:
        """Whether the guess came true."""
        return (
            self.guess is not None
            and outcome.path == self.path
            and outcome.tokens[len(self.path) :] == [self.guess[0]]
        )

    def collect(self) -> Growth:
        """The next round's tree, its rows directly after the accepted text."""
        growth = self.next
        assert growth is not None
        start = growth.row.get(ROOT, len(growth.rows))
        growth.rows = growth.rows.split(self.leaf, start)
        growth.row = {node: row - start for node, row in growth.row.items()}
        growth.below = -1
        return growth

    def given_up(self, number: int) -> list[Dropped]:
        """What was drafted ahead on a wrong guess; the guess is node `number`."""
        if self.guess is None or self.next is None:
            return []
        token, own, after = self.guess
        return [
            Dropped(token, self.path[-1], "discarded", own, after),
            *self.next.discarded(number, number + 1),
        ]
