"""The search: a few scouts of each family, then the near ones' relatives by successive halving.

All candidates take turns on the same prompts, plain decoding among them. A candidate's score is the geometric mean over
prompts of its speed over plain decoding's in the same turn. After each step the worse half is out, so that the time
goes to those that are hard to tell apart. A run that was held up is repeated before anything is decided by it. Only
prompts for tuning are used.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from specdec_measure.sweep.cases import Case

from .bench import Bench, speeds
from .candidates import Candidate, scouts, variants
from .outliers import held_up
from .state import Stage

PROBE = 48  # tokens written by a scout, at the most
KEEP_WITHIN = 0.8  # of the best scout's score: families below it are left alone
FINALISTS = 3
REPEATS = 5  # of a prompt, at the most
AGAIN = 0.25  # of a turn's time, at the most, for runs that were held up; at least one is repeated
SCOUTING, HALVING = 0.3, 0.8  # of the search's time, when scouting and halving end


def search(
    bench: Bench, found: Sequence[Candidate], tuning: Sequence[Case], until: float, lossy: bool
) -> list[Candidate]:
    """The finalists, the best first. `until`: seconds of the fit; by then it ends, with what is known."""
    known = {one.label: one for one in found}
    known |= {new.label: new for one in found for new in variants(one, lossy)}
    if (before := _decided(bench, "finalists", known)) is not None:
        return before
    begun = min(bench.clock.spent, until)

    def at(share: float) -> float:
        return begun + share * (until - begun)

    field = _decided(bench, "families", known)
    if field is None:
        first = scouts(found)
        race(bench, "scouting", first, order(tuning), at(SCOUTING), until, PROBE)
        field = _near(found, scores(bench, ["scouting"], first))
        _decide(bench, "families", field)
    half = len(tuning) // 2
    tuning = [*tuning[half:], *tuning[:half]]  # not again the scouts' first prompts first
    field = _halved(bench, field, known, tuning, (at(HALVING), until))
    tried = {one.label for one in (*found, *field)}
    near = [new for one in ranked(bench, field)[:2] for new in variants(one, lossy)]
    field = [*field, *{one.label: one for one in near if one.label not in tried}.values()]
    race(bench, "search", field, order(tuning), until, until)
    finalists = ranked(bench, field)[:FINALISTS]
    _decide(bench, "finalists", finalists)
    return finalists


def order(cases: Sequence[Case]) -> Iterator[tuple[int, Case]]:
    """Every prompt once, then every prompt again."""
    return product(range(REPEATS), cases)


def race(
    bench: Bench,
    stage: Stage,
    field: Sequence[Candidate],
    turns: Iterator[tuple[int, Case]],
    until: float,
    latest: float,
    tokens: int = 0,
) -> None:
    """Turn after turn until the fit's seconds `until`, at least one new one, but none of its cells after `latest`. Each
    begins with another lane, so that none is always first on a machine that changes its pace, and ends with runs that
    were held up, once more."""
    took, new, seen = 0.0, 0, dict[tuple[str, str], Case]()
    for first, (repeat, case) in enumerate(turns):
        begun, before = bench.clock.spent, len(bench.state.cells)
        if new and begun + took > until:
            return
        seen[case.family, case.name] = case
        if not bench.turn(stage, case, repeat, field, latest, tokens, first):
            return
        if len(bench.state.cells) > before:
            spare = min(latest, bench.clock.spent + AGAIN * (bench.clock.spent - begun))
            _repeat(bench, stage, field, seen, spare, tokens)
            took, new = bench.clock.spent - begun, new + 1


def _repeat(
    bench: Bench,
    stage: Stage,
    field: Sequence[Candidate],
    seen: Mapping[tuple[str, str], Case],
    until: float,
    tokens: int,
) -> None:
    """Measure what was held up once more, the worst first, until the fit's seconds `until`."""
    lanes = {lane.label: lane for lane in (bench.plain, *field)}
    for cell in held_up(bench.state, stage):
        case = seen.get((cell.measured.family, cell.measured.name))
        if bench.clock.spent >= until:
            return
        if case is not None and cell.candidate in lanes:
            bench.again(cell, case, lanes[cell.candidate], tokens)


def scores(bench: Bench, stages: Sequence[Stage], field: Sequence[Candidate]) -> dict[str, float]:
    """By label, the geometric mean of the speed over plain decoding's, on the prompts that all of them have."""
    found = {one.label: speeds(bench.state, stages, one.label) for one in field}
    found = {label: by_prompt for label, by_prompt in found.items() if by_prompt}
    common = set.intersection(*(set(by_prompt) for by_prompt in found.values())) if found else set()
    return {
        label: mean([by_prompt[place] for place in common] if common else list(by_prompt.values()))
        for label, by_prompt in found.items()
    }


def ranked(bench: Bench, field: Sequence[Candidate]) -> list[Candidate]:
    """Those with a score, the best first. Of the search's scores and the scouts' those that more of them have."""
    searched, probed = (scores(bench, [stage], field) for stage in ("search", "scouting"))
    found = searched if len(searched) >= len(probed) else probed
    return sorted((one for one in field if one.label in found), key=lambda one: -found[one.label])


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios))


def _near(found: Sequence[Candidate], scored: Mapping[str, float]) -> list[Candidate]:
    """All members of the families with a scout near the best."""
    best: dict[tuple[str, str, str], float] = {}
    for one in found:
        if one.label in scored:
            best[one.family] = max(best.get(one.family, 0.0), scored[one.label])
    top = max(best.values(), default=0.0)
    return [one for one in found if best.get(one.family, 0.0) >= KEEP_WITHIN * top > 0.0]


def _halved(
    bench: Bench,
    field: list[Candidate],
    known: Mapping[str, Candidate],
    tuning: Sequence[Case],
    ends: tuple[float, float],
) -> list[Candidate]:
    """What is left after the better half was kept again and again."""
    step = 1
    while len(field) > FINALISTS:
        name = f"step {step}"
        kept = _decided(bench, name, known)
        if kept is None:
            steps = math.ceil(math.log2(len(field) / FINALISTS))
            now = min(bench.clock.spent, ends[0])
            race(bench, "search", field, order(tuning), now + (ends[0] - now) / steps, ends[1])
            kept = ranked(bench, field)[: max(FINALISTS, math.ceil(len(field) / 2))]
            _decide(bench, name, kept)
        if len(kept) >= len(field):
            break
        field, step = kept, step + 1
    return field


def _decided(bench: Bench, name: str, known: Mapping[str, Candidate]) -> list[Candidate] | None:
    labels = bench.state.decided.get(name)
    return None if labels is None else [known[label] for label in labels if label in known]


def _decide(bench: Bench, name: str, kept: Sequence[Candidate]) -> None:
    bench.state.decide(name, [one.label for one in kept], bench.clock.spent)
