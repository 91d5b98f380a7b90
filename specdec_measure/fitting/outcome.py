"""What a fit leaves behind: the configuration, the table, a race of the choice, and the report."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from specdec_core.engine.choice import check, usual
from specdec_core.engine.events import Finished
from specdec_core.engine.race import race
from specdec_core.foundations.errors import SpecdecError
from specdec_core.models.bundle import HubModel
from specdec_core.models.generation import OFF
from specdec_core.models.tokens.chat import Chat
from specdec_core.record.read import race_json
from specdec_measure.portable import servers as servers
from specdec_measure.portable import transformers_vllm as portable

from .candidates import TUNED
from .report import CONFIG, TABLE, TRACE, page
from .table import to_csv, tried

if TYPE_CHECKING:
    from .run import Fit, FitJob

REPORT = "report.html"


def write(job: FitJob, fit: Fit) -> None:
    """Write all files; each is replaced whole.

    Raises:
        SpecdecError: one sentence, if one of them cannot be written.
    """
    lines = tried(job, fit)
    raced = _raced(job, fit) if fit.whole else None
    files = {
        CONFIG: json.dumps(config(job, fit), indent=1, ensure_ascii=False) + "\n",
        TABLE: to_csv(lines),
        REPORT: page(job, fit, lines, elsewhere(job, fit)),
    }
    if raced is not None:
        files[TRACE] = raced
    for name, text in files.items():
        path = job.folder / name
        try:
            beside = path.with_name(name + ".new")
            beside.write_text(text, encoding="utf-8", newline="\n")
            os.replace(beside, path)
        except OSError as error:
            raise SpecdecError(
                f"'{path}' could not be written: {error.strerror or 'unknown error'}. The measurements are kept; "
                "repeat the command to write it again."
            ) from None


def config(job: FitJob, fit: Fit) -> dict[str, Any]:
    """`sd.load_models(**config["load"])` and `sd.Settings(**config["settings"])` decode as was chosen."""
    from specdec_core.runtime.machine import packages

    pair = fit.verdict.pair
    figure = None
    if pair is not None:
        low, high = (pair.low, pair.high) if pair.cases > 1 else (None, None)
        figure = {
            "speedup": pair.ratio, "low": low, "high": high, "prompts": pair.cases, "clear": pair.clear,
        }  # fmt: skip
    return {
        "format": "specdec-fit-config",
        "version": 1,
        "load": fit.load,
        "settings": fit.settings.model_dump(mode="json", exclude={"record"}, exclude_none=True),
        "chat": job.cases[0].chat,
        "system": job.cases[0].system,
        "wish": job.wish,
        "requests": job.requests if fit.verdict.calculated else 1,
        "held_back": figure,
        "source": "calculated" if fit.verdict.calculated else "measured",
        "sentence": fit.sentence,
        "whole": fit.whole,
        "machine": job.models.machine,
        "device": job.models.device,
        "dtype": job.models.dtype,
        "packages": packages(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def elsewhere(job: FitJob, fit: Fit) -> list[tuple[str, str]]:
    """Each engine, and the chosen settings in its terms."""
    models, choice = job.models, fit.verdict.choice
    target, asked = job.load["target"], job.cases[0].asked
    chat = asked if isinstance(asked, Chat) else None
    # What the target's own config requests is written out: not every program reads it.
    resolved = models.generation.resolved(fit.settings)
    lane = usual(models, fit.settings).but(**{name: getattr(resolved, name) for name in OFF})
    draft, kind = None, check(lane).proposer
    if choice.part == TUNED:
        draft = fit.load["draft"]
    elif kind.uses_draft():
        which = kind.which_draft(kind.read_options(lane))
        beside = which == "parallel" and models.parallel_draft is None  # the usual draft serves it
        named = "draft" if which == "usual" or beside else f"{which}_draft"
        drafting = models.drafting(which).draft
        draft = job.load.get(named) or (drafting.info.name if drafting else None)
    layers = None
    if isinstance(models.target, HubModel):
        layers = int(models.target.model.config.num_hidden_layers)
    transformers = portable.transformers_code(
        lane, target, draft, models.dtype, layers, chat=chat, requested=models.generation
    )
    return [
        (f"transformers {portable.TRANSFORMERS}", transformers),
        ("vLLM", portable.vllm_code(lane, target, draft, chat)),
        (servers.SGLANG, servers.sglang_code(lane, target, draft, chat)),
        (servers.LLAMA_CPP, servers.llama_cpp_code(lane, target, draft, chat)),
    ]


def _raced(job: FitJob, fit: Fit) -> str | None:
    """A race of the choice against plain decoding on the first held-back prompt, recorded in full."""
    bench, choice = job.bench, fit.verdict.choice
    lanes = (
        [bench.plain.settings, choice.settings]
        if choice.label != bench.plain.label
        else [bench.plain.settings]
    )
    models, asked = bench.views[choice.part], job.split.held_back[0].asked
    events = race(models, asked, [lane.but(record="full") for lane in lanes], cancelled=bench.cancelled)
    traces = {event.lane: event.trace for event in events if isinstance(event, Finished)}
    if len(traces) < len(lanes):
        return None
    return race_json(traces[lane] for lane in range(len(lanes)))
