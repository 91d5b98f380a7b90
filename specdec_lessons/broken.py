"""Rules and caches that are wrong in the ways found in the wild: real implementations, for `gallery` and the tests.

Nothing here is registered: no rule is in `RULES`, and no reader is used unless requested by name. Each
class stays as close to its correct counterpart as possible, so that the difference is the mistake.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from specdec_core.foundations.lazy_torch import torch
from specdec_core.models.bundle import Model, Models
from specdec_core.models.heads.mtp_joining import Joining
from specdec_core.record.schema import Source, Verdict
from specdec_core.rules import Judgement, Rule
from specdec_core.rules.block import Block
from specdec_core.rules.speculative_sampling import SpeculativeSampling, at_nodes
from specdec_core.runtime.reader import Listener, Reader
from specdec_core.sampling import residual
from specdec_core.tree import TokenTree

if TYPE_CHECKING:
    from torch import Tensor


class SoftmaxGreedy(SpeculativeSampling):
    """Given softmax distributions where temperature 0 needs one-hot ones; the loop then takes the argmax of `final`."""

    name = "broken-softmax-greedy"
    lossless = False
    own_probabilities = True


class PathByPath(Rule):
    """Each path from the root to a leaf draws separately; the longest match wins, and the next token is drawn from p.

    The paths' draws are independent, so the distribution of where the winner ends is a product, and a walk with one
    coin per node that follows it is the same rule in distribution. Of equally long matches the first path's is taken.
    """

    name = "broken-path-by-path"
    lossless = False

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        verdicts: list[Verdict] = ["unreached"] * len(tree)
        thresholds: list[float | None] = [None] * len(tree)
        below = _winners(tree, at_nodes(tree, p, None)[0]) if len(tree) else []
        path: list[int] = []
        position, left = 0, 1.0
        while True:
            for child in tree.children[position]:
                threshold = min(1.0, below[child] / left) if left > 0.0 else 0.0
                thresholds[child] = threshold
                if coins[child] < threshold:
                    verdicts[child] = "accepted"
                    path.append(child)
                    position, left = child + 1, below[child]
                    break
                verdicts[child] = "rejected"
                left -= below[child]
            else:
                source: Source = "corrected" if tree.children[position] else "bonus"
                return Judgement(path, verdicts, thresholds, p[position], source)


def _winners(tree: TokenTree, p_at: list[float]) -> list[float]:
    """For each node the probability that the winning match ends at or below it."""
    paths = [tree.path(node) for node in range(len(tree)) if not tree.children[node + 1]]
    reach = []  # per path and depth d: the probability that its first d draws match
    for path in paths:
        row = [1.0]
        for node in path:
            row.append(row[-1] * p_at[node])
        reach.append(row + [0.0] * (len(tree) + 2 - len(row)))
    below = [0.0] * len(tree)
    for number, path in enumerate(paths):
        for depth in range(1, len(path) + 1):
            chance = reach[number][depth] - reach[number][depth + 1]
            for other in range(len(paths)):
                if other != number:  # an earlier path wins with an equal length
                    chance *= 1.0 - reach[other][depth + (other > number)]
            for node in path[:depth]:
                below[node] += chance
    return below


class ResamplesFromTarget(SpeculativeSampling):
    """After a rejection the next token is drawn from p instead of the residual."""

    name = "broken-resample"
    lossless = False

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        judgement = super().judge(tree, p, q, coins)
        judgement.final = p[_end(judgement)]
        return judgement


class SoftmaxedResidual(SpeculativeSampling):
    """max(0, p − q) is normalised by softmax instead of by its sum."""

    name = "broken-softmaxed-residual"
    lossless = False

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        judgement = super().judge(tree, p, q, coins)
        if judgement.source == "corrected":
            rows = q if q is not None else _points(tree, p)
            end = _end(judgement)
            judgement.final = (p[end] - rows[tree.children[end][0]]).clamp_min(0.0).softmax(-1)
        return judgement


class JudgedByAnotherQ(SpeculativeSampling):
    """Judges by a q from which the tokens were not drawn, see `BrokenRule.seen`; the rule itself is the right one."""

    name = "broken-another-q"
    lossless = False


class OneCoin(SpeculativeSampling):
    """All nodes of a round meet the same coin."""

    name = "broken-one-coin"
    lossless = False

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        return super().judge(tree, p, q, [coins[0]] * len(tree) if len(tree) else coins)


class MisalignedResidual(SpeculativeSampling):
    """p − q subtracts the n-th candidate of q from the n-th of p, which are the same token only by luck."""

    name = "broken-misaligned-residual"
    lossless = False

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        judgement = super().judge(tree, p, q, coins)
        if judgement.source == "corrected":
            end = _end(judgement)
            rows = q if q is not None else _points(tree, p)
            in_p, in_q = p[end].nonzero().flatten(), rows[tree.children[end][0]].nonzero().flatten()
            left, drawn = p[end][in_p].clone(), rows[tree.children[end][0]][in_q]
            count = min(len(left), len(drawn))
            left[:count] = (left[:count] - drawn[:count]).clamp_min(0.0)
            judgement.final = torch.zeros_like(p[end]).scatter(0, in_p, left / left.sum())
        return judgement


class StaleBonus(SpeculativeSampling):
    """The bonus token is drawn from the row that judged the last proposed token, one too early."""

    name = "broken-stale-bonus"
    lossless = False

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        judgement = super().judge(tree, p, q, coins)
        if judgement.source == "bonus" and judgement.path:
            judgement.final = p[tree.parents[judgement.path[-1]] + 1]
        return judgement


class BlockEarlyStop(Block):
    """Block verification that stops at the first coin that fails, as token-by-token rules do."""

    name = "broken-block-early-stop"
    lossless = False

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        thresholds = super().judge(tree, p, q, coins).thresholds
        passed = [
            coin < threshold
            for coin, threshold in zip(coins, thresholds, strict=True)
            if threshold is not None
        ]
        kept = next((node for node, passes in enumerate(passed) if not passes), len(passed))
        return super().judge(tree, p, q, [*coins[:kept], *[1.0] * (len(tree) - kept)])


class BlockTokenResidual(Block):
    """Block verification that corrects from max(0, p − q), without the running product in front of p."""

    name = "broken-block-token-residual"
    lossless = False

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        judgement = super().judge(tree, p, q, coins)
        if judgement.source == "corrected":
            end = _end(judgement)
            judgement.final = residual(p[end], (q if q is not None else _points(tree, p))[end])
        return judgement


def _end(judgement: Judgement) -> int:
    """The position the round's last token follows."""
    return judgement.path[-1] + 1 if judgement.path else 0


def _points(tree: TokenTree, p: Tensor) -> Tensor:
    """Point masses at the nodes' tokens, (n, V): what q = None means."""
    tokens = torch.tensor(tree.tokens, device=p.device).unsqueeze(1)
    return p.new_zeros(len(tree), p.shape[1]).scatter_(1, tokens, 1.0)


class BrokenReader:
    """A `Reader` that delegates to another one; subclasses get one thing wrong.

    `offset` is how many more rows the wrapped cache holds than this reader reports.
    """

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.vocabulary, self.device = reader.vocabulary, reader.device
        self.offset = 0
        self.width = 0  # rows of the last pass

    @property
    def length(self) -> int:
        return self.reader.length - self.offset

    def prefill(self, tokens: Sequence[int]) -> None:
        self.reader.prefill(tokens)

    def read(self, root: int, tree: TokenTree, known: int = 0) -> Tensor:
        self.width = 1 + len(tree)
        return self.reader.read(root, tree, known)

    def step(self, tokens: Tensor) -> Tensor:
        return self.reader.step(tokens)

    def keep(self, positions: Sequence[int]) -> None:
        self.reader.keep(positions)

    def rewind(self, length: int) -> None:
        self.reader.rewind(length + self.offset)

    def synchronise(self) -> None:
        self.reader.synchronise()

    def watch(self, listener: Listener, layers: Sequence[int] = ()) -> None:
        self.reader.watch(listener, layers)


class ForgetsAccepted(BrokenReader):
    """Keeps one row too few whenever a proposed token was accepted."""

    def keep(self, positions: Sequence[int]) -> None:
        self.reader.keep(positions[:-1] if len(positions) > 1 else positions)


class KeepsRejected(BrokenReader):
    """Cannot be trimmed, and does not say so: rows of rejected tokens stay visible."""

    def keep(self, positions: Sequence[int]) -> None:
        self.reader.keep(range(self.width))
        self.offset += self.width - len(positions)


class ResetsInstead(BrokenReader):
    """Where rows of rejected tokens must be dropped, everything is: prompt and text as well."""

    def keep(self, positions: Sequence[int]) -> None:
        if len(positions) == self.width:
            self.reader.keep(positions)
            return
        length = self.length + len(positions)
        self.reader.rewind(0)
        self.offset = -length


class ForgetsDrafted(BrokenReader):
    """Reads only the newest token, though after a full acceptance the one before is unread as well."""

    def step(self, tokens: Tensor) -> Tensor:
        self.offset -= len(tokens) - 1
        return self.reader.step(tokens[-1:])


class _BrokenModel:
    """A `Model` whose readers are wrapped in a broken one."""

    def __init__(self, model: Model, kind: type[BrokenReader]) -> None:
        self.model, self.kind = model, kind
        self.info, self.vocabulary = model.info, model.vocabulary
        self.positions, self.kv_bytes = model.positions, model.kv_bytes
        self.mask = model.mask

    def reader(self, capacity: int, widest: int = 0) -> Reader:
        """With room to spare, since a cache that forgets nothing outgrows the plan."""
        return self.kind(self.model.reader(capacity * (2 + widest), widest))


def with_swapped_joining(models: Models) -> Models:
    """`models` with MTP modules that read embedding and state in the other order than the one they were trained in."""
    head = deepcopy(models.heads["mtp"])
    for module in head.modules():
        if isinstance(module, Joining):
            module.states_first = not module.states_first
    return replace(models, heads={**models.heads, "mtp": head})


Side = Literal["target", "draft"]


def with_reader(models: Models, side: Side, kind: type[BrokenReader]) -> Models:
    """`models` with the KV caches of the target or the draft broken in that way."""
    if side == "target":
        return replace(models, target=_BrokenModel(models.target, kind))
    assert models.draft is not None, "there is no draft to break"
    return replace(models, draft=_BrokenModel(models.draft, kind))
