"""Broken decoders measured: how far from the target's distribution, and what reveals them.

A broken rule comes with a toy example, on which the enumerator gives the exact distance between what the rule writes
and what the target would have written; nothing is hard-coded. A broken cache runs in the real loop: what the
audit says, where the greedy text forks, and how far the logits are from those of a fresh cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from specdec_core.engine.decode import decode
from specdec_core.foundations.lazy_torch import torch
from specdec_core.models.bundle import Models
from specdec_core.models.tokens.chat import Prompt
from specdec_core.record.trace import Trace
from specdec_core.rules import RULES, Judgement, Rule
from specdec_core.settings import Settings
from specdec_core.tree import TokenTree
from specdec_measure.exact.distribution import (
    Context,
    Distribution,
    NextProbs,
    Siblings,
    output_distribution,
    target_distribution,
    total_variation,
)

from .broken import BrokenReader, OneCoin, Side, with_reader

if TYPE_CHECKING:
    from torch import Tensor

Table = tuple[tuple[float, ...], ...]
"""Next-token probabilities: one row for all places, or a row after the root and one after each token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhibit:
    """One mistake.

    Attributes:
        name, title: for links and headings.
        found: in which project, and where.
        story: two sentences: what goes wrong, and why it looks correct.
        caught: which measurement shows it.
    """

    name: str
    title: str
    found: str
    story: str
    caught: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRule(Exhibit):
    """A rule whose output does not follow the target's distribution.

    Attributes:
        rule: the broken one, which is not registered.
        right: the name of the rule it was meant to be.
        p, q: the target's and the draft's distributions of the example.
        parents: the shape of the proposal tree.
        drafts: how siblings are chosen.
        greedy: whether the example is decoded at temperature 0, where the target is one-hot.
        seen: the q that the broken rule is given, where it is not the one the tokens come from.
    """

    rule: type[Rule]
    right: str
    p: Table
    q: Table
    parents: tuple[int, ...]
    drafts: Siblings = "independent"
    greedy: bool = False
    seen: Table | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenCache(Exhibit):
    """A KV cache that gets out of step with the text.

    Attributes:
        side: whose cache it is.
        reader: the broken one; see `broken.with_reader`.
    """

    side: Side
    reader: type[BrokenReader]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenHead(Exhibit):
    """A trained head that computes something else than it was trained for: the text is right, and guesses are not.

    Attributes:
        proposer: which uses it.
        breaks: the same models with the head broken.
    """

    proposer: str
    breaks: Callable[[Models], Models]


@dataclass(frozen=True, slots=True)
class MeasuredExhibit:
    """A broken rule beside the right one on the same example, enumerated.

    Attributes:
        broken, right: total variation from the target's distribution, over all that one round can write.
        target, written: the distribution of the first token: the target's, and the broken rule's.
    """

    broken: float
    right: float
    target: list[float]
    written: list[float]


@dataclass(frozen=True, slots=True)
class Examined:
    """A decode with a broken cache or head beside the same decode with a correct one.

    Attributes:
        audit: the audit of the broken decode's trace.
        forks_at: the first token in which the two texts differ; None if they are the same.
        gap: the largest difference between a proposed token's probability as recorded (by the model whose cache is
            broken) and from a fresh cache; 0 for a head.
        tokens_per_pass: of the broken and of the right decode.
    """

    audit: list[str]
    forks_at: int | None
    gap: float
    tokens_per_pass: tuple[float, float]


def measure(exhibit: BrokenRule) -> MeasuredExhibit:
    """The exact distances of an exhibit's rule and of the right one from the target's distribution, on its example."""
    p = _next_probs(exhibit.p, exhibit.greedy)
    length = max(TokenTree([0] * len(exhibit.parents), exhibit.parents).depths) + 1
    target, written = target_distribution(p, length), _written(exhibit, exhibit.rule(), length)
    width = len(exhibit.p[0])
    return MeasuredExhibit(
        broken=total_variation(written, target),
        right=total_variation(_written(exhibit, RULES[exhibit.right](), length), target),
        target=_first(target, width),
        written=_first(written, width),
    )


def examine(
    exhibit: BrokenCache | BrokenHead, models: Models, prompt: Prompt, settings: Settings | None = None
) -> Examined:
    """Decode with the broken part and with a correct one.

    Args:
        exhibit: the broken cache, or head.
        models: a target with a draft, or with that head.
        prompt: text, or token ids.
        settings: of both decodes; the record is always full.
    """
    settings = (settings or Settings(max_new_tokens=40)).but(record="full")
    if isinstance(exhibit, BrokenHead):
        settings, worse = settings.but(proposer=exhibit.proposer), exhibit.breaks(models)
    else:
        worse = with_reader(models, exhibit.side, exhibit.reader)
    broken = decode(worse, prompt, settings)
    right = decode(models, prompt, settings)
    forks = (
        place
        for place, (one, other) in enumerate(zip(broken.token_ids, right.token_ids, strict=False))
        if one != other
    )
    rates = broken.stats.tokens_per_pass, right.stats.tokens_per_pass
    return Examined(
        audit=broken.audit(),
        forks_at=next(forks, None),
        gap=0.0 if isinstance(exhibit, BrokenHead) else _gap(broken, models, exhibit.side),
        tokens_per_pass=(rates[0] or 0.0, rates[1] or 0.0),
    )


def _next_probs(table: Table, greedy: bool = False) -> NextProbs:
    """A table as a distribution; one-hot at the first largest where greedy."""
    rows = [list(row) for row in table]
    if greedy:
        rows = [[float(token == row.index(max(row))) for token in range(len(row))] for row in rows]
    return lambda context: rows[context[-1] + 1 if context and len(rows) > 1 else 0]


def _written(exhibit: BrokenRule, rule: Rule, length: int) -> Distribution:
    """The distribution of what a round of the rule writes on the example."""
    p, q = _next_probs(exhibit.p, exhibit.greedy), _next_probs(exhibit.q)
    if exhibit.seen is not None and isinstance(rule, exhibit.rule):
        rule = _AnotherQ(rule, _next_probs(exhibit.seen))
    if exhibit.greedy and rule.own_probabilities:
        rule = _OwnProbabilities(rule, _next_probs(exhibit.p), q)
    if not isinstance(rule, OneCoin):
        return output_distribution(rule, exhibit.parents, p, q, length, exhibit.drafts, lazy=False)
    # The enumerator gives each node its own coin. For one value of a shared coin the rule is deterministic, and
    # between two thresholds the value does not matter, so the integral over the coin is a finite sum.
    distribution: Distribution = {}
    coin = 0.0
    while coin < 1.0:
        fixed = _FixedCoin(rule, coin)
        part = output_distribution(fixed, exhibit.parents, p, q, length, exhibit.drafts, lazy=False)
        for text, mass in part.items():
            distribution[text] = distribution.get(text, 0.0) + (fixed.next - coin) * mass
        coin = fixed.next
    return distribution


class _FixedCoin(Rule):
    """A rule all of whose coins have one given value; `next` is the smallest threshold above it that was met."""

    name = "fixed-coin"

    def __init__(self, rule: Rule, coin: float) -> None:
        super().__init__()
        self.rule, self.coin, self.next = rule, coin, 1.0

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        judgement = self.rule.judge(tree, p, q, [self.coin] * len(tree))
        above = [limit for limit in judgement.thresholds if limit is not None and limit > self.coin]
        self.next = min(self.next, *above, 1.0)
        judgement.thresholds = [
            limit if limit is None else float(self.coin < limit) for limit in judgement.thresholds
        ]
        return judgement


class _AnotherQ(Rule):
    """A rule that is given another q than the one its tokens come from."""

    name = "another-q"

    def __init__(self, rule: Rule, seen: NextProbs) -> None:
        super().__init__()
        self.rule, self.seen = rule, seen

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        paths = [tuple(tree.tokens[step] for step in tree.path(node)[:-1]) for node in range(len(tree))]
        return self.rule.judge(tree, p, p.new_tensor([list(self.seen(path)) for path in paths]), coins)


class _OwnProbabilities(Rule):
    """A rule that uses the models' own probabilities, as the loop runs it at temperature 0."""

    name = "own-probabilities"

    def __init__(self, rule: Rule, p: NextProbs, q: NextProbs) -> None:
        super().__init__()
        self.rule, self.p, self.q = rule, p, q

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        contexts: list[Context] = [
            tuple(tree.tokens[step] for step in tree.path(node)) for node in range(-1, len(tree))
        ]
        own_p = p.new_tensor([list(self.p(context)) for context in contexts])
        own_q = p.new_tensor([list(self.q(contexts[parent + 1])) for parent in tree.parents])
        judgement = self.rule.judge(tree, own_p, own_q, coins)
        judgement.final = torch.eye(p.shape[1], dtype=p.dtype)[judgement.final.argmax()]
        return judgement


def _first(distribution: Distribution, width: int) -> list[float]:
    """The marginal distribution of the first token."""
    return [sum(mass for text, mass in distribution.items() if text[0] == token) for token in range(width)]


def _gap(trace: Trace, models: Models, side: Side) -> float:
    """See `Examined.gap`."""
    model = models.target if side == "target" else models.draft
    assert model is not None
    text = list(trace.header.prompt_ids)
    largest = 0.0
    for row in trace.rounds:
        tree = TokenTree(row.nodes.token, row.nodes.parent)
        recorded = row.nodes.model_p if side == "target" else row.nodes.model_q
        reader = model.reader(len(text) + len(tree) + 1)
        reader.prefill(text[:-1])
        fresh = reader.read(text[-1], tree).softmax(-1)
        for node, value in enumerate(recorded or []):
            if value is not None:
                now = float(fresh[tree.parents[node] + 1, tree.tokens[node]])
                largest = max(largest, abs(value - now))
        text += row.committed.token
    return largest
