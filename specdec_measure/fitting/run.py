"""A fit: from a model and a person's own prompts to a tested configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from specdec_core.engine.prompt import check_window, read_prompt
from specdec_core.foundations.errors import PromptError, SettingsError, SpecdecError
from specdec_core.settings import Settings
from specdec_measure.sweep import cases as sources
from specdec_measure.sweep.cases import Case
from specdec_measure.sweep.measured import fingerprint

from . import prompts as own
from . import trained_parts
from .bench import Bench, Clock, FitProgress, FitStopped
from .candidates import LOADED, Candidate, RefusedCandidate, candidates, plain, scouts
from .search import order, race, ranked, search
from .state import FitState
from .verdict import FitVerdict, judge

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models

Wish = Literal["latency", "throughput"]
MAX_MINUTES = 24 * 60.0
MIN_MINUTES = 0.05
CONTINUED = "continued"  # the phase in which a fit says what it takes up of an earlier one
TRAINING, SEARCH, HELD_BACK = (
    0.25,
    0.5,
    0.96,
)  # of the time: training's share; the search's of what is left; the end


@dataclass(frozen=True, slots=True)
class Fit:
    """The outcome of a fit. Its folder holds config.json, table.csv, report.html, trace.json and state.jsonl.

    Attributes:
        settings: the chosen configuration; plain decoding where nothing was faster.
        load: what `load_models` takes for it, by parameter.
        sentence: the result in words: how much faster, on how many held-back prompts, with which interval.
        verdict: the figures behind it.
        whole: whether it went through; False where it was stopped, which the sentence says too.
    """

    settings: Settings
    load: dict[str, str]
    sentence: str
    verdict: FitVerdict
    whole: bool
    folder: Path


@dataclass(slots=True)
class FitJob:
    """What a fit was asked for, and what it found on the way: what the report is written from."""

    models: Models
    cases: list[Case]
    folder: Path
    base: Settings
    wish: Wish
    requests: int
    lossy: bool
    load: dict[str, str]
    notes: list[str]
    bench: Bench
    split: own.Split = field(default_factory=own.Split)
    found: Sequence[Candidate] = ()
    refused: Sequence[RefusedCandidate] = ()
    finalists: Sequence[Candidate] = ()


def fit(
    models: Models,
    prompts: str | Path | Sequence[str],
    out: str | Path,
    *,
    settings: Settings | None = None,
    minutes: float = 15.0,
    wish: Wish = "latency",
    requests: int = 8,
    lossy: bool = False,
    train: bool = True,
    chat: bool = True,
    system: str = "",
    load: Mapping[str, str] | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    on_progress: Callable[[FitProgress], None] = lambda progress: None,
) -> Fit:
    """Find the fastest way to decode a person's own prompts with these models, and test it on prompts held back.

    Half of the prompts are for the search, the other half only tests its choice, in turns with plain decoding. The
    figure of the outcome is that of the second half. The same call continues a fit that was stopped.

    Args:
        prompts: a file (.txt with one prompt a line, .jsonl, .csv), a folder of .txt and .md files, or a list.
        out: the folder for everything that the fit writes.
        settings: what the text is to be: its length, temperature and the like; proposer and rule are what is sought.
        minutes: how long it may take, with everything.
        wish: latency is one request at a time, measured. Throughput is many at a time, calculated from what is
            measured for one and from the times of this machine's passes.
        requests: how many at a time, for throughput.
        lossy: whether rules that change the text's distribution are tried too.
        train: whether the draft may be trained further on some of the prompts, where that can pay.
        chat: whether prompts are messages in the chat template, where the model has one; `system` is its system line.
        load: how these models were loaded, as parameters of `load_models`, for the configuration that is written.
        cancelled: polled within rounds; then the fit ends with what is known.
        on_progress: receives the progress.

    Raises:
        SpecdecError: one sentence, before anything is measured.
    """
    check_asked(minutes, wish, requests)
    clock, base = Clock(60.0 * minutes), plain(settings or Settings()).settings
    template = models.chat_template and chat
    cases = sources.fitted([replace(case, chat=True) for case in own.read(prompts)], template, system)
    cases, notes = _readable(models, cases, base)
    notes = [*filter(None, [own.few(len(cases))]), *notes]
    named = dict(load or {"target": models.target.info.name})
    state = FitState.open(
        Path(out),
        _header(models, named, cases, base, (wish, requests if wish == "throughput" else 0, lossy, train)),
    )
    state.plan(minutes)
    clock.before = state.spent
    bench = Bench({LOADED: models}, plain(base), state, clock, cancelled, on_progress)
    if state.cells or state.spent:
        bench.say(
            CONTINUED, f"{len(state.cells):,} runs were measured before, in {state.spent / 60:.1f} minutes"
        )
    job = FitJob(models, cases, Path(out), base, wish, requests, lossy, named, notes, bench)
    return _finish(job, _go(job, train))


def check_asked(minutes: float, wish: str, requests: int) -> None:
    """Refuse what no fit can be asked for; needs no models.

    Raises:
        SettingsError: one sentence.
    """
    if not MIN_MINUTES <= minutes <= MAX_MINUTES:
        raise SettingsError(f"A fit takes {MIN_MINUTES:g} to {MAX_MINUTES:,.0f} minutes, got {minutes:g}.")
    if wish not in ("latency", "throughput"):
        raise SettingsError(f"A fit's wish is latency or throughput, got '{wish}'.")
    if wish == "throughput":
        from .throughput import check_requests

        check_requests(requests)


def _go(job: FitJob, train: bool) -> bool:
    """Train, search and test; False if it was stopped before the search had its finalists tested."""
    bench, clock = job.bench, job.bench.clock
    try:
        trained = trained_parts.prepare(job, train)
        if job.wish == "throughput":
            from .throughput import Price

            bench.say("search", "timing this machine's passes")
            bench.price = Price(job.models, job.requests)
        job.found, job.refused = candidates(job.models, job.base, trained)
        spent = min(clock.spent, clock.budget)
        until = spent + SEARCH * (clock.budget - spent)
        job.finalists = search(bench, job.found, job.split.tuning, until, job.lossy)
        if not job.finalists:
            return True
        end = HELD_BACK * clock.budget
        race(bench, "held back", job.finalists, order(job.split.held_back), end, clock.budget)
    except FitStopped:
        if not job.finalists:
            job.finalists = ranked(bench, job.found)[:1]
        return False
    return True


def _finish(job: FitJob, whole: bool) -> Fit:
    from .outcome import write

    state, base = job.bench.state, job.models.generation.resolved(job.base)
    verdict = judge(state, job.finalists, plain(base), job.requests if job.wish == "throughput" else 0)
    choice = verdict.choice
    load = {**job.load, **trained_parts.loading(job, choice.part, choice.settings.proposer)}
    sentence = verdict.sentence if whole else f"Stopped early. {verdict.sentence}"
    if whole and (missing := _not_reached(job)):
        sentence += f" The time was too short for {missing} of the {len(scouts(job.found))} scouts."
    outcome = Fit(choice.settings.but(record="full"), load, sentence, verdict, whole, job.folder)
    job.bench.say("report", "writing the report")
    write(job, outcome)
    return outcome


def _not_reached(job: FitJob) -> int:
    """How many scouts were not measured."""
    measured = {cell.candidate for cell in job.bench.state.cells.values()}
    return sum(one.label not in measured for one in scouts(job.found))


def _readable(models: Models, cases: Sequence[Case], base: Settings) -> tuple[list[Case], list[str]]:
    """The prompts that the models can read with the text after them, and a sentence for each of the others."""
    found, notes = [], []
    for case in cases:
        try:
            _, ids = read_prompt(models, case.asked)
            check_window(models, ids, base.max_new_tokens)
        except PromptError as error:
            notes.append(f"Left out: '{case.name}'. {error}")
        else:
            found.append(case)
    if len(found) < own.MIN_PROMPTS:
        raise SpecdecError(
            f"Only {len(found)} of {len(cases)} prompts can be read by these models, and a fit needs "
            f"{own.MIN_PROMPTS}. {notes[0]}"
        )
    return found, notes


def _header(
    models: Models,
    load: dict[str, str],
    cases: Sequence[Case],
    base: Settings,
    asked: tuple[Wish, int, bool, bool],
) -> dict[str, Any]:
    """What has to be the same for a fit to be continued; the minutes may differ."""
    from specdec_core.runtime.machine import packages

    wish, requests, lossy, train = asked
    return {
        "load": load,
        "models": {
            "target": asdict(models.target.info),
            "draft": asdict(models.draft.info) if models.draft else None,
            "heads": sorted(models.heads),
        },
        "device": models.device,
        "dtype": models.dtype,
        "machine": models.machine,
        "packages": packages(),
        "settings": base.model_dump(mode="json"),
        "prompts": fingerprint([(case.family, case.name, case.asked) for case in cases]),
        "wish": wish,
        "requests": requests,
        "lossy": lossy,
        "training": train,
    }
