"""How far a lane's text is from the target's: proved to be zero, counted from the record, or unknown.

Nothing here imports streamlit. Where the record does not say, this says so instead of giving a number.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.text import count
from specdec_core.foundations.errors import SpecdecError
from specdec_core.record.trace import Trace
from specdec_core.rules import lossy
from specdec_measure.analysis import counterfactual

from .numbers import parting


@dataclass(frozen=True, slots=True)
class Distance:
    """What is known about a lane's text.

    Attributes:
        lossless: whether the rule is proved to preserve the target's distribution.
        share: share of the committed tokens known not to be the target's: at temperature 0 all of them, above
            it those that were kept where a lossless rule would have refused; None if it is not counted or cannot
            be.
        short: for a cell of the table; `sentence` also says how it was counted.
        source: "exact", "measured" or "" if nothing is claimed.
        refused: above temperature 0, share of the rejected guesses that a lossless rule would have kept; None if
            this is not counted, or nothing was rejected.
    """

    lossless: bool
    share: float | None
    short: str
    sentence: str
    source: str
    refused: float | None = None


def distance(plain: Trace, lane: Trace) -> Distance:
    """Compare a lane's text with what its target would have written."""
    if not lossy(lane):
        return _lossless(plain, lane)
    if not lane.token_ids:
        return Distance(False, None, "lossy", "The lane wrote nothing.", "")
    greedy = not lane.header.settings.get("temperature")
    return _first_choices(lane) if greedy else _other_verdicts(lane)


def _lossless(plain: Trace, lane: Trace) -> Distance:
    at = parting(plain, lane)
    if lane.header.settings.get("temperature"):
        sentence = "The rule keeps the target's distribution, not its words: above temperature 0 the texts may differ."
        return Distance(True, None, "lossless", sentence, "exact")
    shared = min(len(plain.token_ids), len(lane.token_ids))
    if not shared:
        return Distance(
            True, None, "lossless", "At least one lane wrote nothing, so no text was compared.", "exact"
        )
    if at is None:
        stopped = " The run was stopped." if "cancelled" in (plain.end, lane.end) else ""
        if len(plain.token_ids) == len(lane.token_ids):
            sentence = f"All {count(shared, 'token')} match lane A's.{stopped}"
            return Distance(True, 0.0, "lossless, same text", sentence, "exact")
        short = f"lossless, same as far as both wrote ({count(shared, 'token')})"
        sentence = f"The first {count(shared, 'token')} match lane A's; after them only one of the two wrote.{stopped}"
        uncompared = len(lane.token_ids) > shared
        return Distance(True, None if uncompared else 0.0, short, sentence, "exact")
    sentence = (
        f"At temperature 0 the text should match lane A's, but it differs from token {at + 1} on: two tokens were tied "
        "to within rounding, or the rule is broken."
    )
    return Distance(True, None, f"diverges at token {at + 1}", sentence, "measured")


def _first_choices(lane: Trace) -> Distance:
    """At temperature 0: the committed tokens that are not the target's most likely, penalties included."""
    positions = [position for row in lane.rounds for position in row.positions]
    if len(positions) != len(lane.token_ids):
        sentence = "The record holds no probabilities, so what the rule accepted cannot be counted."
        return Distance(False, None, "lossy, not counted", sentence, "")
    other = sum(position.token != position.p.id[0] for position in positions)
    share = other / len(positions)
    sentence = (
        f"{other} of {count(len(positions), 'token')} are not what the target itself would have written next after the "
        "same text."
    )
    return Distance(False, share, f"lossy: {share:.1%} not the target's own", sentence, "measured")


def _other_verdicts(lane: Trace) -> Distance:
    """Above temperature 0: guesses on which speculative sampling, with the same coins, would have decided otherwise."""
    try:
        again = counterfactual.judge_again(lane, "speculative-sampling")
    except SpecdecError as error:
        return Distance(False, None, "lossy, not counted", f"Not counted: {error}", "")
    verdicts = [
        (verdict, node in judged.path)
        for row, judged in zip(lane.rounds, again.rounds, strict=True)
        for node, verdict in enumerate(row.nodes.verdict)
    ]
    accepted = [keeps for verdict, keeps in verdicts if verdict == "accepted"]
    rejected = [keeps for verdict, keeps in verdicts if verdict == "rejected"]
    kept, refused = accepted.count(False), rejected.count(True)
    short = (
        f"lossy: false acceptances {kept} of {count(len(accepted), 'guess')}, "
        f"false rejections {refused} of {len(rejected)}"
    )
    sentence = (
        "With the same guesses and coins a lossless rule (speculative sampling) would not have kept "
        f"{kept} of the {count(len(accepted), 'guess')} that were kept, and would have kept {refused} of the "
        f"{len(rejected)} that were rejected. Both change the distribution of the text; so may what is drawn after a "
        "rejection, which is not counted here."
    )
    share = kept / len(lane.token_ids)
    return Distance(False, share, short, sentence, "measured", refused / len(rejected) if rejected else None)
