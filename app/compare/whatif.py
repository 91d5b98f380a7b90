"""The what-if view's choices, their form in an address, and its answers. Nothing here imports streamlit.

The sizes of a modelled machine's target and draft are published ones or the visitor's own, such as 14B.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from app.charts.batches import Texts
from app.lanes.fields import Params, short, unknown
from app.lanes.page_settings import whole
from app.text import count
from specdec_core.foundations.errors import SettingsError
from specdec_core.proposers import PROPOSERS
from specdec_core.record.trace import Trace
from specdec_measure.analysis.whatif import WhatIf, on_clock
from specdec_measure.machines.batches import Batches
from specdec_measure.machines.batches import read as read_batches
from specdec_measure.machines.costs import Costs
from specdec_measure.machines.model_sizes import SHAPES, Shape, shape_of
from specdec_measure.machines.profiles import Profile, RecordedProfile, shipped
from specdec_measure.machines.roofline import Modelled
from specdec_measure.sweep.measured import MeasuredCase
from specdec_measure.watching.clock import ServedClock
from specdec_measure.watching.numbers import Watched

from .timing import timing

Machine = Profile | ServedClock
KEYS = ("machine", "batch", "context", "target_size", "draft_size")  # this view's address keys
SIZES = ("target_size", "draft_size")
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
CONTEXTS = (128, 512, 2_048, 8_192, 32_768)  # of modelled machines, the default first
TARGETS = ("8B", "70B", "3B", "1.5B", "1B", "0.5B")
OLD_KEYS = {
    "wp": "machine",
    "wb": "batch",
    "wc": "context",
    "wt": "target_size",
    "wd": "draft_size",
}  # of older links


@dataclass(frozen=True, slots=True)
class WhatIfChoice:
    """The valid choices in the address."""

    profile: str
    batch: int
    context: int
    target: str | None = None
    draft: str | None = None


@cache
def profiles() -> tuple[dict[str, Profile], list[str]]:
    """The profiles that ship, and the errors in those that cannot be read."""
    return shipped()


def watched(servers: Iterable[Watched]) -> dict[str, Machine]:
    """The servers that a visitor has watched, as far as their times are known, by the names that an address has."""
    return {f"watched.{at}": ServedClock(one) for at, one in enumerate(servers, 1) if one.line is not None}


def suited(known: Mapping[str, Machine], target: str) -> dict[str, Machine]:
    """The profiles for rounds of that target; recorded times of another model come last."""
    return dict(
        sorted(
            known.items(),
            key=lambda one: isinstance(one[1], RecordedProfile) and one[1].target.name != target,
        )
    )


def options(known: Mapping[str, Machine], params: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The options for each key with their titles, the default first; later keys depend on earlier ones."""
    found = {"machine": {name: f"{one.kind} · {one.label}" for name, one in known.items()}}
    name = params.get("machine", "")
    profile = known[name if name in known else next(iter(known))]
    if isinstance(profile, ServedClock):
        return found
    if isinstance(profile, RecordedProfile):
        batch = int(one_of(params.get("batch"), [str(one) for one in profile.batches]))
        found["batch"] = {str(one): str(one) for one in profile.batches}
        found["context"] = {str(one): f"{one:,} tokens" for one in profile.contexts(batch)}
        return found
    found["target_size"] = {size: f"{size} ({SHAPES[size].title})" for size in TARGETS}
    if own := own_size(params.get("target_size")):
        found["target_size"].setdefault(params["target_size"], f"{own.name} ({own.title})")
    target = shape_of(one_of(params.get("target_size"), list(found["target_size"])))
    smaller = [one for one in SHAPES.values() if one.parameters < target.parameters]
    # The usual draft has about an eighth of the target's parameters.
    smaller.sort(key=lambda one: abs(one.parameters / target.parameters - 1 / 8))
    found["draft_size"] = {one.name: f"{one.name} ({one.title})" for one in smaller}
    if (own := own_size(params.get("draft_size"))) and own.parameters < target.parameters:
        found["draft_size"].setdefault(params["draft_size"], f"{own.name} ({own.title})")
    found["batch"] = {str(one): str(one) for one in BATCHES}
    found["context"] = {str(one): f"{one:,} tokens" for one in CONTEXTS}
    return found


def own_size(given: str | None) -> Shape | None:
    """The model of a size that the visitor names; None if it names none."""
    try:
        return None if given is None else shape_of(given)
    except SettingsError:
        return None


def no_size(given: str, target: str | None) -> str:
    """Why a typed size is not taken, as one sentence; empty for a published one, which is only not offered now."""
    if given in SHAPES:
        return ""
    try:
        shape_of(given)
    except SettingsError as error:
        return str(error)
    return f"A draft is smaller than its target; {given} is not smaller than {target}."


def choices_in(params: Params) -> dict[str, str]:
    """This view's part of an address, by today's keys."""
    given = {OLD_KEYS.get(key, key): texts[-1] for key, texts in params.items() if texts}
    return {key: given[key] for key in KEYS if key in given}


def _called(key: str) -> str:
    return key.replace("_", " ")


def nonsense(params: Mapping[str, str], servers: Iterable[Watched] = ()) -> list[str]:
    """A sentence for every value in the address that no machine has; which one is used depends on the run."""
    known = {**profiles()[0], **watched(servers)}
    exists: dict[str, Callable[[str], bool]] = {
        "machine": lambda given: given in known,
        **dict.fromkeys(("batch", "context"), lambda given: (whole(given) or 0) > 0),
        **dict.fromkeys(SIZES, lambda given: own_size(given) is not None),
    }
    return [
        f"The link requests the {_called(key)} “{short(params[key])}”, which does not exist; it is left out."
        for key in KEYS
        if key in params and not exists[key](params[key])
    ]


def problems(known: Mapping[str, Machine], params: Mapping[str, str]) -> list[str]:
    """A sentence for every invalid value in the address."""
    offered, found = options(known, params), []
    for key in KEYS:
        if key in params and key not in offered:
            found.append(
                f"The link names a {_called(key)}, and the chosen machine was recorded with its own; it is left out."
            )
        elif key in params and params[key] not in offered[key]:
            used = next(iter(offered[key].values()))
            found.append(unknown(_called(key), params[key], used, offered[key]))
    return found


def costs_of(profile: Machine, choice: WhatIfChoice) -> Costs:
    """The cost of passes under the choice.

    Raises:
        SettingsError: one sentence, if the models do not fit in the machine's memory.
    """
    if isinstance(profile, ServedClock):
        return profile.costs()
    if isinstance(profile, RecordedProfile):
        return profile.costs(choice.batch, choice.context)
    return profile.costs(choice.batch, choice.context, choice.target or TARGETS[0], choice.draft)


def results_of(traces: Sequence[Trace], profile: Machine, costs: Costs) -> list[WhatIf | str]:
    """Each lane on the profile's clock, or a sentence why that is impossible."""
    found: list[WhatIf | str] = []
    for trace in traces:
        try:
            found.append(on_clock(trace, profile, costs, layers_of(trace)))
        except SettingsError as error:
            found.append(str(error))
    return found


def layers_of(trace: Trace) -> int | None:
    """The layer count of the target that wrote the trace, if a recorded profile knows it by name."""
    named = (one.target for one in profiles()[0].values() if isinstance(one, RecordedProfile))
    return next((part.layers for part in named if part.name == trace.header.target.name), None)


def sentences(
    labels: Sequence[str],
    measured: Sequence[float | None],
    results: Sequence[WhatIf],
    profile: Machine,
    choice: WhatIfChoice,
) -> list[str]:
    """What changes there for the fastest lane: the cost of its widest pass, its speedup, and why."""
    if not results:
        return []
    # a bound is the fastest only where there is nothing else
    lane = max(range(len(results)), key=lambda at: (not results[at].off_the_clock, results[at].speedup))
    one, width = results[lane], max(results[lane].widths)
    costs = one.costs
    said = [
        f"At batch {costs.batch} on {profile.label} ({costs.pair}), a target pass over {width} tokens costs "
        f"{costs.ratio(width):.2f} plain passes."
    ]
    drafting = one.draft_s / len(one.rounds) / costs.target(1) if one.rounds else 0.0
    once = measured[lane]
    lead = ""
    if len(results) > 1:
        lead = (
            "Fastest is "
            if one.speedup > 1.0
            else "None is faster than plain decoding there. The fastest is "
        )
    said.append(
        f"{lead}{labels[lane]}: {one.speedup:.2f}× there ({one.how})"
        + (f", its drafting {drafting:.2f} of a plain pass each round" if drafting > 0.0 else "")
        + (
            f"; measured: {once:.2f}×"
            if once is not None
            else "; not measured: no plain lane, or too few tokens"
        )
        + (". Its drafting is on no clock, so this is a bound." if one.off_the_clock else ".")
    )
    if isinstance(profile, Modelled) and choice.target:
        knee = profile.knee(shape_of(choice.target), costs.batch, costs.context)
        said.append(
            "There, a pass of any width spends its time moving weights: guesses cost next to nothing."
            if knee is None
            else f"From {knee:,} tokens on, computing takes longer than moving weights and the KV cache: extra "
            "guesses then cost time in proportion."
            if knee > 1
            else "Even over one token, computing takes longer than moving: guesses cost time in proportion."
        )
    return said


def same_machine(
    plain: Trace | None, profile: Machine, costs: Costs, repeats: Sequence[MeasuredCase] = ()
) -> str | None:
    """Why the two speedups differ although the profile is of the run's machine and model; None otherwise.

    `repeats` of the run take its place, as in the measured speedups.
    """
    if plain is None or not isinstance(profile, RecordedProfile) or costs.batch > 1:
        return None
    header, stats = plain.header, plain.stats
    alike = (header.machine, header.target.name) == (profile.machine, profile.target.name)
    if not alike or not stats.target_passes:
        return None
    times = timing(plain, repeats, 0)
    there, here = costs.target(1), times.verify_s / stats.target_passes
    return (
        f"Both clocks are of {profile.machine}, at different moments: a plain pass takes {1e3 * there:.1f} ms in the "
        f"profile, the quietest of {profile.measurements} measurements of {profile.date[:10]}, "
        f"and took {1e3 * here:.1f} ms in {f'the {times.source}' if times.repeats else 'this run'} of "
        f"{header.created[:10]}, {here / there:.2f} times as long; "
        "what a round spends outside of models is on the run's clock only."
    )


def together() -> tuple[Batches, Texts] | None:
    """What was measured with several requests in each pass, and what its chart says; None where it cannot be read."""
    try:
        found = read_batches()
    except SettingsError:
        return None
    lanes = {
        lane.proposer: PROPOSERS[lane.proposer].title for lane in found.lanes if lane.proposer in PROPOSERS
    }
    said = [
        f"{name}: {one.speedup:.2f} times with {count(one.batch, 'request')}, 95% interval {one.low:.2f} to "
        f"{one.high:.2f}."
        for lane in found.lanes
        if (name := lanes.get(lane.proposer))
        for one in lane.batches
    ]
    return found, Texts(
        title="Measured: the bundled models with several requests in each pass",
        provenance=f"measured · {found.machine}, {count(found.threads, 'thread')}, {found.date[:10]}: {found.target} "
        f"drafted by {found.draft}, γ = {found.draft_length}, {found.repeats} repeats with other prompts; "
        f"{found.repeated:.0%} of the text repeats, which is easy to guess. Expected: a pass over several texts takes "
        "as long as one over as many tokens of one text."
        + (" Other programs were running meanwhile." if found.busy else "")
        + (" Counted is processor time, on a busy machine." if found.clock == "processor" else ""),
        said=" ".join(said),
        x="requests served at once",
        y="speedup over plain decoding of as many",
        measured="measured",
        expected="expected",
        interval="95% interval",
        lanes=lanes,
    )


def one_of(asked: str | None, offered: Sequence[str]) -> str:
    """The requested value, or the default."""
    return asked if asked is not None and asked in offered else offered[0]
