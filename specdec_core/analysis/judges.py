"""The acceptance rules once more, on the numbers that a trace keeps: what `counterfactual` judges rounds with.

`rules` judges whole distributions, as tensors. Here are the same decisions from what the record holds of them, in
plain Python numbers and without torch; the tests hold both to each other. A missing number is refused with a sentence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from specdec_core.errors import TraceError
from specdec_core.record.schema import Round, Verdict
from specdec_core.settings import Settings

if TYPE_CHECKING:
    from specdec_core.rules import Rule


class Seen:
    """One recorded round as a rule of some kind would have seen it; lists have one entry per node of the tree.

    `p` and `q` are what the rule judges by; `p_max` and `entropy` belong to the distribution that p is taken from.
    They are the warped ones above temperature 0, and at temperature 0 one-hot vectors, or the models' own
    probabilities for a rule that asks for those. A deterministic proposal has q = 1. `own_probabilities` is what the
    record's header says.
    """

    def __init__(
        self, row: Round, kind: type[Rule], settings: Settings, repeats: bool, own_probabilities: bool = False
    ) -> None:
        nodes, size = row.nodes, row.seen
        self.row, self.size, self.rule = row, size, kind.name
        self.parent, self.token, self.depth = nodes.parent[:size], nodes.token[:size], nodes.depth[:size]
        self.coin = _numbers(nodes.coin, size)
        self.met: Sequence[float | None] = (nodes.threshold if repeats else None) or [None] * size
        self.one_hot = settings.temperature == 0.0 and not kind.own_probabilities
        penalised = bool(settings.no_repeat_ngram_size) or (settings.repetition_penalty or 1.0) != 1.0
        if self.one_hot:
            self.p, self.q = [float(rank == 1) for rank in _numbers(nodes.rank, size)], [1.0] * size
        elif settings.temperature == 0.0 and penalised:
            # The record has the models' own probabilities before the penalty, and after it only where they were judged.
            if not own_probabilities:
                raise self.lacks("the models' probabilities after the penalty")
            self.p, self.q = _numbers(nodes.p, size), _numbers(nodes.q, size)
        elif settings.temperature == 0.0:
            self.p, self.q = _numbers(nodes.model_p, size), self._guessed(nodes.model_q)
        else:
            self.p, self.q = _numbers(nodes.p, size), _numbers(nodes.q, size)
        self.warped = penalised or (
            settings.temperature > 0.0
            and (
                settings.temperature != 1.0
                or settings.top_k > 0
                or settings.top_p < 1.0
                or bool(settings.min_p)
            )
        )
        self.drawn = any(value != 1.0 for value in self.q)
        self.children: dict[int, list[int]] = {node: [] for node in range(-1, size)}
        for node, parent in enumerate(self.parent):
            self.children[parent].append(node)

    @property
    def chain(self) -> bool:
        return all(parent == node - 1 for node, parent in enumerate(self.parent))

    @property
    def p_max(self) -> list[float]:
        return self._known(self.row.nodes.p_max, "the largest probabilities")

    @property
    def entropy(self) -> list[float]:
        """That of p above temperature 0 or after a penalty; it is the model's own where nothing was warped."""
        if not self.warped:
            return _numbers(self.row.nodes.entropy, self.size)
        return self._known(self.row.nodes.p_entropy, "the entropy of the warped distributions")

    @property
    def recursive(self) -> list[float]:
        """The threshold of recursive rejection at every node of a drawn tree."""
        return self._known(self.row.nodes.recursive, "what drawn siblings leave of the target's distribution")

    def _known(self, column: Sequence[float | None] | None, what: str) -> list[float]:
        """A column that not every trace has."""
        values = _numbers(column, self.size)
        if len(values) < self.size:
            raise self.lacks(what)
        return values

    def _guessed(self, model_q: list[float | None] | None) -> list[float]:
        """The draft's own probabilities; 1 for a proposal that has none."""
        values = (model_q or [])[: self.size]
        known = [value for value in values if value is not None]
        if not known:
            return [1.0] * self.size
        if len(known) < self.size:
            raise self.lacks("the draft's own probability of every proposed token")
        return known

    def path(self, node: int) -> list[int]:
        """The nodes from the first level down to `node`."""
        above: list[int] = []
        while node >= 0:
            above.append(node)
            node = self.parent[node]
        return above[::-1]

    def lacks(self, what: str) -> TraceError:
        """The refusal where the record does not hold what the rule needs."""
        return TraceError(
            f"Round {self.row.index} of this trace does not hold {what}, which the rule '{self.rule}' needs to judge "
            "it again. Record the decode again, with this rule or by this version."
        )


def _numbers(column: Sequence[float | None] | None, size: int) -> list[float]:
    """The first `size` entries of a column, without those that are missing."""
    return [value for value in (column or [])[:size] if value is not None]


Judged = tuple[list[int], list[Verdict], list[float | None]]  # path, verdicts, thresholds
Threshold = Callable[[Seen, int, list[int], Any], float]
"""The threshold of a node whose earlier siblings (in the list) have failed, under the given options."""


def _walk(threshold: Threshold) -> Callable[[Seen, Any], Judged]:
    """A rule that tries the children of a node one by one, goes on below the first that passes, else stops."""

    def judge(seen: Seen, options: Any) -> Judged:
        path: list[int] = []
        verdicts: list[Verdict] = ["unreached"] * seen.size
        thresholds: list[float | None] = [None] * seen.size
        position: int | None = -1
        while position is not None:
            failed: list[int] = []
            here, position = position, None
            for child in seen.children[here]:
                met = seen.met[child]
                bar = threshold(seen, child, failed, options) if met is None else met
                thresholds[child] = bar
                if seen.coin[child] < bar:
                    verdicts[child] = "accepted"
                    path.append(child)
                    position = child
                    break
                verdicts[child] = "rejected"
                failed.append(child)
        return path, verdicts, thresholds

    return judge


def _matching(seen: Seen, node: int, failed: list[int], options: Any) -> float:
    """p(x) of what the failed siblings, each a point mass, have left of p."""
    token, tried = seen.token[node], {seen.token[other]: seen.p[other] for other in failed}
    if token in tried or seen.p[node] == 0.0:
        return 0.0
    return min(1.0, seen.p[node] / max(seen.p[node], 1.0 - math.fsum(tried.values())))


def _rejection(seen: Seen, node: int, failed: list[int], options: Any) -> float:
    """min(1, p/q), with p as the failed siblings left it."""
    if failed and seen.drawn:
        return seen.recursive[node]
    if not seen.drawn:
        return _matching(seen, node, failed, options)
    return min(1.0, seen.p[node] / seen.q[node]) if seen.q[node] > 0.0 else 0.0


def _ensemble(seen: Seen, node: int, failed: list[int], options: Any) -> float:
    weight: float = options.weight
    return 1.0 - weight + weight * _rejection(seen, node, failed, options)


def _sequential(seen: Seen, node: int, failed: list[int], options: Any) -> float:
    """k-SEQ at a node without siblings, or whose siblings are different point masses: there ρ is 1."""
    siblings = seen.children[seen.parent[node]]
    if len({seen.token[other] for other in siblings}) < len(siblings) or (seen.drawn and len(siblings) > 1):
        raise seen.lacks("the scale ρ at nodes with several drawn children")
    return min(1.0, seen.p[node] / seen.q[node]) if seen.q[node] > 0.0 else 0.0


def _confidence(seen: Seen, options: Any) -> Judged:
    if options.reading == "target":
        return _walk(lambda seen, node, failed, options: float(seen.p[node] >= options.threshold))(
            seen, options
        )
    verdicts: list[Verdict] = ["unreached"] * seen.size
    thresholds: list[float | None] = [None] * seen.size
    path: list[int] = []
    while children := seen.children[path[-1] if path else -1]:
        path.append(children[0])
    if not path:
        return path, verdicts, thresholds
    values = seen.q if options.reading == "draft" else seen.p_max
    sure = sum(values[node] for node in path) / len(path) >= options.threshold
    for node in path:
        thresholds[node], verdicts[node] = float(sure), "accepted" if sure else "unreached"
    if not sure:
        verdicts[path[0]] = "rejected"
    return path if sure else [], verdicts, thresholds


def _typical(seen: Seen, options: Any) -> Judged:
    """The longest path of nodes above the bar; of equally long ones the likeliest, then the first."""
    entropy = seen.entropy
    thresholds: list[float | None] = [None] * seen.size
    scores = {-1: 0.0}
    for node, parent in enumerate(seen.parent):
        if parent in scores:
            passes = seen.p[node] > min(options.epsilon, options.delta * math.exp(-entropy[node]))
            thresholds[node] = float(passes)
            if passes:
                scores[node] = scores[parent] + math.log(seen.p[node])
    best = max(scores, key=lambda node: (seen.depth[node] if node >= 0 else 0, scores[node], -node))
    path = seen.path(best)
    verdicts: list[Verdict] = ["unreached"] * seen.size
    for node, parent in enumerate(seen.parent):
        if node in path:
            verdicts[node] = "accepted"
        elif thresholds[node] == 0.0 and parent in (-1, *path):
            verdicts[node] = "rejected"
    return path, verdicts, thresholds


def _block(seen: Seen, options: Any) -> Judged:
    """Sun et al. 2024, Algorithm 2, with the recorded S_i."""
    if not seen.chain:
        raise TraceError(
            f"Round {seen.row.index} of this trace proposes a tree, and the rule 'block' judges chains. Choose "
            "'speculative-sampling', or a trace of a proposer that drafts a chain."
        )
    masses = seen.row.block_mass
    if masses is None and not seen.one_hot:
        raise seen.lacks("the masses of block verification")
    claim, thresholds = 1.0, []
    for node in range(seen.size):
        claim = min(1.0, claim * seen.p[node] / seen.q[node]) if seen.q[node] > 0.0 else 0.0
        if node + 1 == seen.size:
            thresholds.append(claim)
            break
        # One-hot vectors are not what the masses were taken from, if a rule with its own view of T = 0 judged.
        mass = claim * (1.0 - seen.p[node + 1]) if seen.one_hot or masses is None else masses[node + 1]
        thresholds.append(mass / (mass + 1.0 - claim) if mass + 1.0 - claim > 0.0 else 1.0)
    thresholds = [bar if met is None else met for bar, met in zip(thresholds, seen.met, strict=False)]
    kept = max((node + 1 for node in range(seen.size) if seen.coin[node] < thresholds[node]), default=0)
    verdicts: list[Verdict] = ["accepted" if node < kept else "unreached" for node in range(seen.size)]
    if kept < seen.size:
        verdicts[kept] = "rejected"
    return list(range(kept)), verdicts, [*thresholds]


JUDGES: dict[str, Callable[[Seen, Any], Judged]] = {
    "speculative-sampling": _walk(_rejection),
    "token-matching": _walk(_matching),
    "exact-match": _walk(_matching),
    "ensemble": _walk(_ensemble),
    "kseq": _walk(_sequential),
    "confidence": _confidence,
    "typical": _typical,
    "block": _block,
}
