"""What a fit trains before it searches, where that can pay: the draft further, heads where there are none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from . import heads, prompts, tuning
from .candidates import LOADED, TUNED

if TYPE_CHECKING:
    from .run import FitJob

SHARE = 0.25  # of the fit's time
MIN_PROMPTS = 12  # three to train on, three to search on and six to test on
DRAFT, HEADS = "draft", "heads"


def prepare(job: FitJob, train: bool) -> list[str]:
    """Split the prompts and train, or find what was trained; the parts that candidates can decode with.

    Raises:
        Stopped: what is trained already is kept.
    """
    state, clock = job.bench.state, job.bench.clock
    seconds = SHARE * clock.budget
    if "training" not in state.facts:
        state.note("training", _plan(job, train, seconds), clock.spent)
    plan: dict[str, str | None] = state.facts["training"]
    wanted = [part for part in (DRAFT, HEADS) if plan[part] is None]
    job.split = prompts.split(job.cases, job.base.seed, training=bool(wanted))
    for part in wanted:
        if part not in state.facts:
            _train(job, part, seconds / len(wanted))
    if HEADS in wanted and "why_not" not in state.facts[HEADS]:
        job.models = replace(job.models, heads=heads.load(job.models, job.folder / heads.NAME))
    job.bench.views = {LOADED: job.models}
    if DRAFT not in wanted or "why_not" in state.facts[DRAFT]:
        return []
    job.bench.views[TUNED] = tuning.load(job.models, job.folder / tuning.NAME)
    return [TUNED]


def _train(job: FitJob, part: str, seconds: float) -> None:
    bench = job.bench
    work = tuning.Tuning(job.models, job.base, bench.cancelled, lambda words: bench.say("training", words))
    if part == DRAFT:
        work.run(job.split.training, job.folder / tuning.NAME, seconds)
        report = work.report
    else:
        report = heads.train(work, job.split.training, job.load["target"], job.folder, seconds)
    bench.state.note(part, report, bench.clock.spent)


def _plan(job: FitJob, train: bool, seconds: float) -> dict[str, str | None]:
    """For each part None, or why it is not trained, as a sentence."""
    if not train:
        return dict.fromkeys((DRAFT, HEADS), "Nothing was to be trained.")
    if len(job.cases) < MIN_PROMPTS:
        few = f"Training needs prompts of its own, at least {MIN_PROMPTS} in all; there are {len(job.cases)}."
        return dict.fromkeys((DRAFT, HEADS), few)
    reasons = {DRAFT: tuning.why_not(job.models), HEADS: heads.why_not(job.models)}
    both = 2 if not any(reasons.values()) else 1
    for part, least in ((DRAFT, tuning.MIN_TRAINING_S), (HEADS, heads.MIN_TRAINING_S)):
        if reasons[part] is None and seconds / both < least:
            reasons[part] = (
                f"A quarter of the time is for training, and {seconds / both:.0f} seconds are too few for {part}: at "
                f"least {least:.0f} can pay."
            )
    return reasons


def loading(job: FitJob, part: str, proposer: str) -> dict[str, str]:
    """What `load_models` takes in addition, for a choice that decodes with what was trained."""
    more = {}
    if part == TUNED:
        more["draft"] = str(job.folder / tuning.NAME)
    if proposer == "medusa" and "medusa" not in job.load and HEADS in job.bench.state.facts:
        more["medusa"] = str(job.folder / heads.NAME)
    return more


def said(job: FitJob) -> list[str]:
    """What was trained, and what was not, as sentences for the report."""
    facts, found = job.bench.state.facts, []
    plan = facts.get("training") or {}
    if (report := facts.get(DRAFT)) and "why_not" not in report:
        before, after = (f"{loss:.2f}" for loss in report["loss"])
        learnt = f"{before} to {after}" if before != after else f"still {after}"
        found.append(
            f"The draft was trained further for {report['seconds']:.0f} seconds on {report['tokens']:,} tokens that "
            f"the target wrote to {report['prompts']} other prompts: {learnt} nats per token."
        )
    if (report := facts.get(HEADS)) and "why_not" not in report:
        found.append(
            f"Medusa heads were trained for {report['seconds']:.0f} seconds, loading included, on {report['tokens']:,} "
            f"tokens that the target wrote to {report['prompts']} other prompts."
        )
    reasons = [plan.get(part) or (facts.get(part) or {}).get("why_not") for part in (DRAFT, HEADS)]
    return [*found, *dict.fromkeys(filter(None, reasons))]
