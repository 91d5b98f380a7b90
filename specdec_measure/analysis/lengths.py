"""How good a choice of draft length was: policies replayed on one recorded decode, against the best that was possible.

A greedy decode recorded with a long fixed draft shows, for every place of its text, what the draft would have guessed
from there, how confident it was, and how far that was right. So any policy can be replayed on it, on a clock made of
a width curve: a round that drafts n tokens takes n draft passes and one target pass over n + 1 tokens. The oracle
knows what will be accepted and plans the whole text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specdec_core.foundations.errors import TraceError
from specdec_core.lengths import LengthPolicy, policy_class, read_options
from specdec_core.lengths.survival import Survival
from specdec_core.record.trace import Trace
from specdec_core.round import Context, Outcome
from specdec_core.rules import lossy
from specdec_core.runtime.timing.pass_times import Curve, pass_time
from specdec_core.sampling import Warp
from specdec_core.settings import Settings

FEWEST = 8  # guesses in a point of the reliability diagram
PARTS = 5  # points per depth, of equally many guesses


@dataclass(frozen=True, slots=True)
class Stretch:
    """What the draft guesses from one place of the text on: its confidence in each guess, and how many are accepted."""

    confidences: tuple[float, ...]
    accepted: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """A policy on a record.

    Attributes:
        seconds: for the whole text, in the curve's unit.
        tokens: of the text.
        lengths: drafted in each round.
        regret: its time over that of the oracle, which may draft as far as the record goes, less 1.
    """

    policy: str
    seconds: float
    tokens: int
    lengths: tuple[int, ...]
    regret: float


@dataclass(frozen=True, slots=True)
class Reliability:
    """Guesses of one depth and similar predicted chance: the mean prediction, the share accepted, their number."""

    depth: int
    predicted: float
    accepted: float
    count: int


def stretches(trace: Trace) -> list[Stretch]:
    """One per place of the text at which a round could begin.

    Raises:
        TraceError: one sentence, if the record is not of a greedy chain with the draft's own probabilities.
    """
    if trace.header.settings.get("temperature") != 0.0:
        raise TraceError("Draft lengths are replayed on greedy records; record one at temperature 0.")
    if lossy(trace):
        raise TraceError(
            "Draft lengths are replayed on records of exact rules, and this one's keeps wrong guesses."
        )
    found: list[Stretch] = []
    for row in trace.rounds:
        size = row.nodes_read
        confidences = [value for value in (row.nodes.model_q or [])[:size] if value is not None]
        if len(confidences) < size or row.nodes.parent[:size] != list(range(-1, size - 1)):
            raise TraceError(
                "Draft lengths are replayed on chains with the draft's own probabilities; "
                f"round {row.index} of this record is another, or lacks them."
            )
        accepted = sum(verdict == "accepted" for verdict in row.nodes.verdict[:size])
        places = len(row.committed.token)
        found += [Stretch(tuple(confidences[at:]), max(0, accepted - at)) for at in range(places)]
    return found


def replayed(
    found: Sequence[Stretch], policy: str, options: Mapping[str, Any], most: int, curve: Curve, cost: float
) -> Replayed:
    """A policy on a record.

    Args:
        found: from `stretches`.
        policy, options: of `LENGTH_POLICIES`.
        most: γ of the settings.
        curve: T(n) of the target's passes, in any unit.
        cost: the time of a draft pass in that unit.

    Raises:
        SettingsError: one sentence, for an unknown policy or wrong options.
    """
    settings = Settings(draft_length=most, length_policy=policy, length_options=dict(options))
    chooser = policy_class(settings)(read_options(settings))
    at, seconds, lengths = 0, 0.0, list[int]()
    while at < len(found):
        stretch, limit = found[at], len(found) - at - 1
        context = Context(settings, Warp(), 1, 1, [0], limit=limit, room=10**6, round=len(lengths))
        length = max(0, min(chooser.length(context), limit, len(stretch.confidences)))
        context = Context(
            settings, Warp(), 1, 1, [0], limit=limit, length=length, room=10**6, round=len(lengths)
        )
        drafted = _drafted(chooser, context, stretch, length)
        accepted = min(drafted, stretch.accepted)
        times = drafted * cost, pass_time(curve, drafted + 1)
        chooser.observe(context, Outcome(list(range(accepted)), [0] * (accepted + 1), seconds=times))
        seconds += sum(times)
        lengths.append(drafted)
        at += accepted + 1
    best = oracle(found, max(len(one.confidences) for one in found), curve, cost) if found else 0.0
    return Replayed(policy, seconds, len(found), tuple(lengths), seconds / best - 1.0 if best else 0.0)


def oracle(found: Sequence[Stretch], most: int, curve: Curve, cost: float) -> float:
    """The least time in which the text can be written with drafts of up to `most` tokens: every length is tried at
    every place, from the end of the text backwards."""
    times = [drafted * cost + pass_time(curve, drafted + 1) for drafted in range(most + 1)]
    left = [0.0] * (len(found) + 1)
    for at in range(len(found) - 1, -1, -1):
        useful = min(most, found[at].accepted, len(found) - at - 1)
        left[at] = min(times[drafted] + left[at + drafted + 1] for drafted in range(useful + 1))
    return left[0]


def reliability(trace: Trace, deepest: int = 4) -> list[Reliability]:
    """What the online fit predicted of each judged guess before it was judged, against what became of it, by depth.

    Raises:
        TraceError: as `stretches`.
    """
    stretches(trace)
    fit, seen = Survival(), [list[tuple[float, bool]]() for _ in range(deepest)]
    for row in trace.rounds:
        confidences = [value or 0.0 for value in (row.nodes.model_q or [])[: row.nodes_read]]
        accepted = sum(verdict == "accepted" for verdict in row.nodes.verdict)
        for place, chance in enumerate(fit.chances(confidences[: accepted + 1])[:deepest]):
            seen[place].append((chance, place < accepted))
        fit.observe(confidences, accepted)
    points = []
    for place, pairs in enumerate(seen):
        pairs.sort()
        parts = max(1, min(PARTS, len(pairs) // FEWEST))
        for part in range(parts if pairs else 0):
            some = pairs[part * len(pairs) // parts : (part + 1) * len(pairs) // parts]
            predicted = sum(chance for chance, _ in some) / len(some)
            points.append(
                Reliability(place + 1, predicted, sum(kept for _, kept in some) / len(some), len(some))
            )
    return points


def _drafted(chooser: LengthPolicy, context: Context, stretch: Stretch, length: int) -> int:
    """How many of the stretch's guesses the policy drafts."""
    for drafted in range(1, length):
        if chooser.can_stop and not chooser.more(context, drafted, stretch.confidences[drafted - 1]):
            return drafted
    return length
