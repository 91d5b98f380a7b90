"""The what-if clock: the rounds of a recorded decode, on the clock of another machine.

What was proposed and accepted stays as recorded. Only time changes: each round takes its draft passes and
one target pass over all its nodes, at what the profile says they cost; plain decoding of as many tokens takes one pass
over one token each. What a round spends outside the models (searching, judging, Python) is left out, as it belongs to
the machine it was measured on. So the result is modelled, never measured or recorded, even where the pass times were.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specdec_core.foundations.errors import SettingsError, kind_of
from specdec_core.proposers import Proposer
from specdec_core.record.schema import ModelInfo, Round
from specdec_core.record.trace import Trace, as_trace
from specdec_measure.machines.costs import Costs, NamedClock
from specdec_measure.machines.profiles import Profile, RecordedProfile

from .draft_costs import assumption, drafts_with, proposer_of, tokens_in_a_pass

OVERLAPPED = (
    "What was drafted beside the target's pass takes the longer of the two (PEARL), as if neither slowed the other; as "
    "much is drafted ahead as the record shows, whatever there would be time for."
)
WITHIN = (
    "A round takes what that server took for one with as many guesses: its own drafting is in it, and what this lane's "
    "would cost there is unknown."
)


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A recorded decode on a profile's clock. Times in seconds, per text where a batch has several.

    Attributes:
        label, kind: the profile's.
        origin: where the profile's times come from.
        costs: the times of its passes; also batch, context and models.
        widths: tokens in the target's pass, round by round.
        rounds: seconds of each round.
        draft_s, verify_s: their drafting, and their target passes; of overlapped drafting, the part not hidden.
        plain_s: plain decoding of as many tokens, under the same profile.
        tokens: committed per text of the batch.
        off_the_clock: whether drafting is not timed, which makes the speedup an upper bound.
        assumptions: sentences on how the rounds were priced.
    """

    label: str
    kind: Literal["recorded", "modelled"]
    origin: str
    costs: Costs
    widths: tuple[int, ...]
    rounds: tuple[float, ...]
    draft_s: float
    verify_s: float
    plain_s: float
    tokens: int
    off_the_clock: bool
    assumptions: tuple[str, ...]

    @property
    def how(self) -> str:
        """How its figures came about, in a few words."""
        return "modelled from recorded pass times" if self.kind == "recorded" else "modelled"

    @property
    def provenance(self) -> str:
        """Where its figures come from, in a few words."""
        return f"{self.how} · {self.origin}"

    @property
    def seconds(self) -> float:
        """Of the whole decode, prefill excluded."""
        return self.draft_s + self.verify_s

    @property
    def speedup(self) -> float:
        """Over plain decoding under the same profile."""
        return self.plain_s / self.seconds

    @property
    def tokens_per_second(self) -> float:
        """Per text; multiply by the batch for the total."""
        return self.tokens / self.seconds


def replay(
    trace: Trace,
    profile: Profile,
    *,
    batch: int = 1,
    context: int | None = None,
    target: str | None = None,
    draft: str | None = None,
    layers: int | None = None,
) -> WhatIf:
    """Put the recorded rounds of `trace` on the clock of `profile`.

    Args:
        batch: texts decoded together, all going through these rounds in step.
        context: tokens in the KV cache, in each round; None for the profile's default.
        target, draft: sizes of a modelled profile's models, such as "8B" or "360M": any number of parameters from 10M
            to 2000B (see `shape_of`); None for its defaults. Recorded ones have their own.
        layers: of the target that wrote the trace, needed to express an early exit as a share.

    Raises:
        SettingsError: if the profile does not cover that batch, context or these models, or the trace has
            no rounds.
        TraceError: if it is no trace.
    """
    trace = as_trace(trace)
    if not isinstance(profile, Profile):
        raise SettingsError(
            f"A profile is one of profiles.shipped(), or what profiles.read() returns, got {kind_of(profile)}."
        )
    if isinstance(profile, RecordedProfile):
        if target is not None or draft is not None:
            raise SettingsError(
                f"The profile '{profile.label}' was recorded with its own models; leave sizes out."
            )
        costs = profile.costs(batch, context)
        if profile.target.name == trace.header.target.name:
            layers = layers or profile.target.layers
    else:
        sizes = {name: size for name, size in (("target", target), ("draft", draft)) if size is not None}
        costs = profile.costs(batch, context, **sizes)
    return on_clock(trace, profile, costs, layers)


def on_clock(trace: Trace, profile: NamedClock, costs: Costs, layers: int | None = None) -> WhatIf:
    """As `replay`, with the costs already looked up; `profile` supplies the name."""
    if not trace.rounds:
        raise SettingsError(
            "This trace holds no rounds, so there is nothing to time on another machine. Record it with rounds."
        )
    kind = proposer_of(trace.header.settings)
    options = trace.header.settings.get("options")
    front = tokens_in_a_pass(kind, options if isinstance(options, dict) else {}) if kind else None
    widths, rounds, drafting, verifying = [], [], 0.0, 0.0
    for row in trace.rounds:
        width = row.width
        verify = costs.target(width)
        draft = sum(_draft_pass(trace, row, costs, kind, rows, layers) for rows in _draft_rows(row, front))
        if row.ahead_passes:  # one token each: overlapped drafting is not recorded level by level
            ahead = row.ahead_passes * _draft_pass(trace, row, costs, kind, 1, layers)
            draft += max(0.0, ahead - verify)
        widths.append(width)
        rounds.append(draft + verify)
        drafting += draft
        verifying += verify
    tokens = sum(len(row.committed.token) for row in trace.rounds)
    how = [WITHIN if costs.drafting_within else assumption(kind)]
    if any(row.ahead_passes for row in trace.rounds):
        how.append(OVERLAPPED)
    how.append(
        "Which guesses were accepted is taken from the record: another pair of models would agree more, or less."
    )
    heads = kind is not None and drafts_with(kind) == "heads" and not costs.drafting_within
    if heads and any(head.output_rows is None for head in trace.header.heads):
        how.append(
            "The record does not say how much of the output matrix the heads read, so the whole is counted."
        )
    if heads:
        how.append(
            "A head keeps the size, relative to its target, that it has in the record. The target's output matrix does "
            f"not: it is {costs.output_share:.0%} of what a pass reads there, and usually a larger share of a smaller "
            "target. So heads that read its rows (EAGLE) cost more of a pass on a small target, and those with an "
            "output matrix of their own (EAGLE-3) do not."
        )
    if costs.batch > 1:
        how.append("All texts of the batch go through these rounds together, as if each were this one.")
    return WhatIf(
        label=profile.label,
        kind=profile.kind,
        origin=profile.origin,
        costs=costs,
        widths=tuple(widths),
        rounds=tuple(rounds),
        draft_s=drafting,
        verify_s=verifying,
        plain_s=tokens * costs.target(1),
        tokens=tokens,
        off_the_clock=kind is not None and kind.off_the_clock,
        assumptions=tuple(how),
    )


def _draft_rows(row: Round, front: int | None) -> list[int]:
    """Tokens read by each pass of the draft phase: as noted, or one and then `front`, else those of a level that have
    children."""
    passes, read = row.draft_passes, row.note.get("draft_read")
    if isinstance(read, int) and passes == 1:
        return [read]
    if not passes:
        return []
    if front is not None:
        return [1] + [front] * (passes - 1)
    nodes = row.nodes
    parents: dict[int, set[int]] = {}
    for parent, depth, verdict in zip(nodes.parent, nodes.depth, nodes.verdict, strict=True):
        if verdict != "discarded":  # drafted beside an earlier pass or this one, so not in this phase
            parents.setdefault(depth, set()).add(parent)
    levels = [len(parents[depth]) for depth in sorted(parents)]
    # Levels that were drafted ahead come first and took no pass of this phase; a pass may also have produced nothing.
    return [1] * (passes - len(levels)) + levels[-passes:]


def _draft_pass(
    trace: Trace, row: Round, costs: Costs, kind: type[Proposer] | None, tokens: int, layers: int | None
) -> float:
    """Seconds of one drafting pass over `tokens` tokens."""
    if costs.drafting_within or (kind and kind.off_the_clock):
        return 0.0
    priced = drafts_with(kind) if kind else "draft"
    if priced == "heads":
        return _heads_share(trace, costs) * costs.target(tokens)
    if priced == "first layers":
        share = _exit_share(trace, row, layers)
        return (share * (1.0 - costs.output_share) + costs.output_share) * costs.target(tokens)
    if costs.draft is None:
        raise SettingsError(
            f"The rounds of this trace were drafted by a model, and the profile knows none ({costs.pair}). "
            "Choose another profile, or one with a draft."
        )
    return costs.draft(tokens)


def _heads_share(trace: Trace, costs: Costs) -> float:
    """What a pass of the heads reads, as a share of what a target pass reads: the heads' own parameters as in the
    record, and their rows of the profile's output matrix."""
    header = trace.header
    own = sum(_read(head) for head in header.heads) / max(1, _read(header.target))
    rows = [
        1.0 if head.output_rows is None else head.output_rows / max(1, header.vocabulary)
        for head in header.heads
    ]
    return own + min(1.0, max(rows, default=1.0)) * costs.output_share


def _read(model: ModelInfo) -> int:
    return model.parameters if model.read is None else model.read


def _exit_share(trace: Trace, row: Round, layers: int | None) -> float:
    """The share of the target's layers run before the early exit."""
    options = trace.header.settings.get("options")
    asked = options.get("layer", 0) if isinstance(options, dict) else 0
    exit_layer = row.note.get("exit_layer")
    if layers is not None and isinstance(exit_layer, int):
        if not 1 <= exit_layer <= layers:
            raise SettingsError(
                f"The record leaves the target after layer {exit_layer}, which a target of {layers} layers lacks."
            )
        return exit_layer / layers
    if not asked:
        return 1 / 3  # the option's default
    raise SettingsError(
        f"The record leaves the target after layer {asked} and does not say of how many. Say so with layers=…."
    )
