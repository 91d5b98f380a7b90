"""FLy: a guess that fails where the target is unsure stays if all of the next guesses pass. Lossy, and looks ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from specdec_core.foundations.lazy_torch import torch
from specdec_core.record.schema import Verdict
from specdec_core.sampling import residual

from .base import Decision, Judgement, Rule
from .speculative_sampling import at_nodes, over

if TYPE_CHECKING:
    from torch import Tensor

    from specdec_core.tree import Drafts, TokenTree

    from .recorded import RecordedRound


class Fly(Rule):
    """Loose verification (Li et al. 2025, arXiv 2511.22972), as vLLM applies it to sampled chains (`fly`).

    A guess that fails its coin stays nevertheless if the entropy of the target there is at least `entropy` (in nats;
    vLLM takes it over the three likeliest tokens), the target does not rule it out, and the next `window` guesses are
    there and pass their own coins. So whether a token stays depends on tokens after it, which is one reason why the
    text does not follow the target's distribution. At temperature 0 p is one-hot, without entropy, and the rule is
    exact; vLLM looks at the model's own probabilities there.
    """

    name = "fly"
    title = "FLy"
    summary = (
        "Judges like speculative sampling, but keeps a guess that failed where the target was unsure if the next "
        "guesses all pass. It accepts more on long drafts, and the text no longer follows the target's distribution."
    )
    lossless = False
    looks_ahead = True

    class Options(Rule.Options):
        entropy: float = Field(
            0.3,
            ge=0.0,
            le=30.0,
            description="The least entropy of the target, in nats, at a guess that failed.",
        )
        window: int = Field(
            6,
            ge=1,
            le=64,
            description="How many of the next guesses have to pass; a shorter rest keeps nothing.",
        )

    options: Options

    @classmethod
    def unsuited(cls, drafts: Drafts) -> str | None:
        if drafts in ("none", "chain"):
            return None
        return (
            "The rule 'fly' looks at the guesses after one that failed, and in a tree there are several. Choose a "
            "proposer that drafts a chain, or the rule 'speculative-sampling'."
        )

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        """See `Rule.judge`.

        Raises:
            ValueError: if `tree` is not a chain.
        """
        if not tree.is_chain:
            raise ValueError("FLy judges chains, got a tree with branches")
        p_at, q_at = at_nodes(tree, p, q)
        limits = _limits(p_at, q_at)
        unsure: list[float] = torch.special.entr(p[: len(tree)]).sum(-1).tolist()
        decision = self._decide(limits, p_at, unsure, coins)
        final = p[decision.end]
        if decision.end < len(tree):
            drafted = torch.zeros_like(final) if q is None else q[decision.end]
            if q is None:
                drafted[tree.tokens[decision.end]] = 1.0
            final = residual(final, drafted)
        judgement = decision.then(tree, final)
        judgement.limits = limits
        return judgement

    def judge_recorded(self, seen: RecordedRound) -> Decision:
        limits = _limits(seen.p, seen.q)
        decision = self._decide(limits, seen.p, seen.entropy, seen.coins)
        if seen.met is not None:
            pairs = zip(decision.thresholds, seen.met, strict=False)
            decision.thresholds = [new if old is None or new is None else old for new, old in pairs]
        return decision

    def _decide(
        self, limits: Sequence[float], p_at: Sequence[float], entropy: Sequence[float], coins: Sequence[float]
    ) -> Decision:
        """How far a chain is kept; per node where its coin passes, p of its token, and p's entropy at its parent."""
        size, kept = len(limits), 0
        passes = [coin < limit for coin, limit in zip(coins, limits, strict=True)]
        thresholds: list[float | None] = [None] * size
        verdicts: list[Verdict] = ["unreached"] * size
        for node in range(size):
            following = passes[node + 1 : node + 1 + self.options.window]
            resumes = len(following) == self.options.window and all(following)
            loose = resumes and p_at[node] > 0.0 and entropy[node] >= self.options.entropy
            thresholds[node] = 1.0 if loose else limits[node]
            verdicts[node] = "accepted" if loose or passes[node] else "rejected"
            if verdicts[node] == "rejected":
                break
            kept += 1
        return Decision(list(range(kept)), verdicts, thresholds)


def _limits(p_at: Sequence[float], q_at: Sequence[float]) -> list[float]:
    """Where each node's own coin passes."""
    return [min(1.0, over(*pair)) for pair in zip(p_at, q_at, strict=True)]
