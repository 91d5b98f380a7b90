"""The headline numbers of a run: pure functions from the lanes' statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.text import count
from specdec_core.proposers import PROPOSERS
from specdec_core.record.schema import Stats
from specdec_core.record.stats import RoundTally
from specdec_core.record.trace import Trace
from specdec_core.rules import RULES, lossy
from specdec_core.settings import Settings
from specdec_core.tree import TokenTree
from specdec_measure import theory
from specdec_measure.sweep.totals import MIN_TOKENS

# a random number of its own for each token
TOKEN_BY_TOKEN = ("speculative-sampling", "token-matching", "exact-match")


@dataclass(frozen=True, slots=True)
class ModelledSpeedup:
    """Leviathan's Theorem 3.8 with this run's α and c."""

    speedup: float
    alpha: float
    gamma: int
    cost: float
    proposed_per_round: float

    @property
    def tokens(self) -> float:
        """What a round brings by the formula."""
        return theory.tokens_per_pass(self.alpha, self.gamma)

    @property
    def time(self) -> float:
        """How many plain passes a round takes by the formula."""
        return 1.0 + self.gamma * self.cost


def measured_speedup(plain: Stats, other: Stats) -> float | None:
    """Time per token of the plain lane over that of the other lane; None unless both have decoded enough."""
    if min(plain.tokens, other.tokens) < MIN_TOKENS:
        return None
    if not plain.tokens_per_second or not other.tokens_per_second:
        return None
    return other.tokens_per_second / plain.tokens_per_second


def unmodelled(lane: Settings) -> str | None:
    """Why the formula does not apply to a lane, in a few words; None if it does."""
    kind = PROPOSERS[lane.proposer]
    if kind.drafts(lane) != "chain":
        return "not available for trees"
    if kind.off_the_clock:
        return "drafting is not on the clock"
    if "length" not in kind.uses:
        return "the proposer does not draft γ tokens"
    if kind.own_tokens:
        return "γ counts the draft's own tokens, not the target's"
    if lane.rule not in TOKEN_BY_TOKEN:
        return "the rule judges by another measure"
    if lane.length_policy != "fixed":
        return "γ differs from round to round"
    if lane.memory_budget_mb > 0:
        return "the memory budget may shorten the drafts"
    return "drafting overlaps the target pass" if lane.overlap else None


def modelled_speedup(plain: Stats, other: Stats, gamma: int) -> ModelledSpeedup | None:
    """The formula's prediction; None if α is undefined or nothing was timed.

    c is the time of one draft pass over that of one plain target pass. A proposer that runs no model, or guesses
    several tokens in a pass, is charged per proposed token, as the formula counts γ times c.
    """
    drafted = max(other.draft_passes, other.proposed)
    if other.target_passes and other.proposed / other.target_passes < 0.8 * gamma:
        return None  # γ tokens were rarely drafted, e.g. by a lookup that finds nothing
    if other.acceptance_rate is None or not drafted or not plain.target_passes or plain.verify_s <= 0:
        return None
    cost = (other.draft_s / drafted) / (plain.verify_s / plain.target_passes)
    return ModelledSpeedup(
        speedup=theory.speedup(other.acceptance_rate, gamma, cost),
        alpha=other.acceptance_rate,
        gamma=gamma,
        cost=cost,
        proposed_per_round=other.proposed / other.target_passes,
    )


def passes_saved(other: Stats) -> int:
    """How many target passes the lane saved: plain decoding needs one per token."""
    return other.tokens - other.target_passes


def parting(first: Trace, second: Trace) -> int | None:
    """The first position at which the two outputs differ; None if one is the beginning of the other."""
    pairs = zip(first.token_ids, second.token_ids, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), None)


def _only_best(settings: Mapping[str, Any]) -> bool:
    """Whether only the most likely token can be drawn, whatever the temperature."""
    return settings.get("top_k") == 1 or settings.get("min_p") == 1


def verdict_on_texts(plain: Trace, other: Trace) -> tuple[bool | None, str]:
    """Whether the texts agree, and a sentence that says so; None if they are not expected to agree."""
    temperature = other.header.settings.get("temperature", 0.0)
    at = parting(plain, other)
    compares = measured_speedup(plain.stats, other.stats) is not None
    shared = min(len(plain.token_ids), len(other.token_ids))
    if not shared:
        return None, "At least one lane wrote nothing, so there are no texts to compare."
    if lossy(other):
        title = RULES[other.header.settings["rule"]].title
        outcome = (
            f"Here the lanes diverge at token {at + 1}"
            + (", so the speedup compares two different texts." if compares else ".")
            if at is not None
            else "Here the lanes happened to write the same text, which the rule does not guarantee."
        )
        return None, f"Lossy: {title} changes the target's distribution. {outcome}"
    if temperature and temperature > 0 and not _only_best(other.header.settings):
        outcome = (
            f"they diverge at token {at + 1}"
            + (", so the speedup compares two different texts" if compares else "")
            if at is not None
            else "here they happened to write the same text"
        )
        return None, (
            f"At temperature {temperature:g} the lanes draw tokens at random; {outcome}. "
            "A lossless rule keeps the target's distribution, not its words."
        )
    if at is not None:
        where = "where only the most likely token is left" if temperature else "at temperature 0"
        return False, (
            f"The lanes wrote different texts from token {at + 1} on, though {where} a lossless rule must not "
            "change the text: either the rule is not lossless or two tokens were tied to within rounding."
        )
    if len(plain.token_ids) != len(other.token_ids):
        return True, f"Both lanes wrote the same text as far as both wrote ({count(shared, 'token')})."
    same = "token" if shared == 1 else f"{shared} tokens"
    return True, f"Both lanes wrote the same {same}: speculation changed the time, not the text."


def by_level(trace: Trace, most: int = 3) -> str:
    """How often, of the rounds in which anything was judged on a level of the tree, a guess was accepted there; for the
    first `most` levels, as `Stats.acceptance_by_depth`."""
    tally = RoundTally()
    for one in trace.rounds:
        tally.add(TokenTree(one.nodes.token, one.nodes.parent), one.nodes.verdict, 0, 0, (0.0, 0.0, 0.0, 0.0))
    levels = sorted(tally.judged)[:most]
    name = "level 1" if levels == [1] else f"levels 1 to {levels[-1]}" if levels else "no level"
    return f"{name}: " + ", ".join(f"{tally.passed[level]} of {tally.judged[level]}" for level in levels)
