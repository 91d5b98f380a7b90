"""The report of a fit: one HTML file without scripts, which asks nothing of any network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING

from specdec_measure.analysis.advice import ComparedPair
from specdec_measure.records.document import document
from specdec_measure.sweep.totals import MIN_TOKENS

from . import outliers, trained_parts
from .search import PROBE
from .table import Tried
from .verdict import span

if TYPE_CHECKING:
    from .run import Fit, FitJob

CONFIG, TABLE, TRACE = "config.json", "table.csv", "trace.json"


def page(job: FitJob, fit: Fit, lines: Sequence[Tried], engines: Sequence[tuple[str, str]]) -> str:
    """The whole document."""
    parts = [
        f"<h1>Fit of {escape(job.load['target'])}</h1>",
        f'<p class="quiet">{escape(_asked(job))}</p>',
        f'<p class="lead">{escape(_capital(fit.sentence))}</p>',
        _tested(fit),
        _settings(job, fit),
        _engines(engines),
        _tried(job, lines),
        _how(job, fit),
    ]
    return document(f"Fit of {job.load['target']}", parts)


def _asked(job: FitJob) -> str:
    wish = (
        "least time for one request"
        if job.wish == "latency"
        else f"throughput at {job.requests} requests at a time"
    )
    base = job.base
    sampled = "greedy" if base.temperature == 0 else f"temperature {base.temperature:g}"
    return (
        f"Wish: {wish}. {len(job.cases)} prompts, up to {base.max_new_tokens} tokens each, {sampled}. "
        f"{job.models.machine}, {job.models.dtype}, {datetime.now(UTC):%Y-%m-%d}."
    )


def _tested(fit: Fit) -> str:
    """The finalists on the held-back prompts: figures and intervals on one scale."""
    shown = [(one, one.pair) for one in fit.verdict.tested if one.pair is not None]
    if not shown:
        return ""
    low = min(1.0, *(pair.low for _, pair in shown))
    high = max(1.0, *(pair.high for _, pair in shown))
    rows = []
    for one, pair in shown:
        mark = ' class="choice"' if one.candidate is fit.verdict.choice else ""
        same = f"{one.same} of {one.texts}"
        passes = "–" if one.tokens_per_pass is None else f"{one.tokens_per_pass:.2f}"
        rows.append(
            f"<tr{mark}><th>{escape(one.candidate.label)}</th>"
            f'<td class="number">{pair.ratio:.2f}×</td><td class="number">{_interval(pair)}</td>'
            f"<td>{_scale(pair, low, high)}</td>"
            f'<td class="number">{pair.wins} of {pair.cases}</td><td class="number">{passes}</td>'
            f'<td class="number">{same}</td></tr>'
        )
    how = "calculated" if fit.verdict.calculated else "measured"
    head = _head(
        "candidate",
        "speed over plain",
        "95% interval",
        "",
        "prompts faster",
        "tokens per pass",
        "same text as plain",
    )
    return (
        f"<h2>On the prompts held back</h2>\n<div class='scroll'><table><caption>Speeds are {how}. The vertical line "
        f"is plain decoding, 1.00×; the bar is the interval.</caption>"
        f"{head}<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _interval(pair: ComparedPair) -> str:
    return span(pair.low, pair.high) if pair.cases > 1 else "–"


def _scale(pair: ComparedPair, low: float, high: float) -> str:
    def at(value: float) -> float:
        return 100.0 * (value - low) / max(1e-9, high - low)

    return (
        f'<div class="scale" role="img" aria-label="{pair.ratio:.2f}, {_interval(pair)}">'
        f'<i style="inset-inline-start:{at(1.0):.1f}%"></i>'
        f'<b style="inset-inline-start:{at(pair.low):.1f}%;inline-size:{at(pair.high) - at(pair.low):.1f}%"></b>'
        f'<u style="inset-inline-start:{at(pair.ratio):.1f}%"></u></div>'
    )


def _settings(job: FitJob, fit: Fit) -> str:
    load = ", ".join(f"{name}={value!r}" for name, value in fit.load.items())
    chosen = json.dumps(
        fit.settings.model_dump(mode="json", exclude={"record"}, exclude_defaults=True), ensure_ascii=False
    )
    code = (
        "import json\n\nimport specdec_core as sd\n\n"
        f"config = json.load(open({CONFIG!r}))\n"
        f'models = sd.load_models(**config["load"])  # {load}\n'
        f'settings = sd.Settings(**config["settings"])  # {chosen}\n'
    )
    return f"<h2>The settings</h2>\n<pre>{escape(code)}</pre>"


def _engines(engines: Iterable[tuple[str, str]]) -> str:
    parts = [
        f"<details><summary>{escape(name)}</summary><pre>{escape(code)}</pre></details>"
        for name, code in engines
    ]
    return (
        "<h2>In other engines</h2>\n<p class='quiet'>Lines that begin with “Not here” name what an engine lacks. The "
        "figures above are this decoder's; another engine's differ.</p>\n" + "\n".join(parts)
    )


def _tried(job: FitJob, lines: Sequence[Tried]) -> str:
    rows = []
    for line in lines:
        short = line.prompts and line.probed is not None and line.probed < job.base.max_new_tokens
        figure = "–" if line.speedup is None else f"{line.speedup:.2f}×"
        mark = ' class="choice"' if line.why == "the choice" else ""
        prompts = f"{line.prompts}{', short texts' if short else ''}"
        rows.append(
            f"<tr{mark}><th>{escape(line.candidate.label)}</th><td class='number'>{figure}</td>"
            f"<td class='number'>{prompts}</td><td class='why'>{escape(line.why)}</td></tr>"
        )
    refused = "".join(
        f"<tr><th>{escape(one.proposer)}</th><td></td><td></td><td class='why'>{escape(one.reason)}</td></tr>"
        for one in job.refused
    )
    head = _head("candidate", "speed over plain", "prompts", "what became of it")
    return (
        "<h2>What was tried</h2>\n<div class='scroll'><table><caption>On the prompts of the search, which the choice "
        "was made on: such figures flatter the best. The order is how far a candidate went, and the figure is that of "
        "all its turns: one that was dropped early has few, and may show a higher figure than those that went on, "
        f"which had more turns after it.</caption>"
        f"{head}<tbody>{''.join(rows)}{refused}</tbody></table></div>"
    )


def _how(job: FitJob, fit: Fit) -> str:
    """How it was measured, and what was left out."""
    state, split = job.bench.state, job.split
    said = [
        f"{len(split.tuning)} prompts for the search and {len(split.held_back)} to test its choice, drawn with seed "
        f"{job.base.seed}. {len(state.cells):,} runs were measured in {state.spent / 60:.1f} minutes, of "
        f"{len({cell.candidate for cell in state.cells.values()} - {job.bench.plain.label})} candidates.",
        "All candidates of a turn ran on the same prompt one after the other, plain decoding among them, each turn "
        "beginning with another. Times are the decoder's own clock, without reading the prompt.",
        f"{_written(job.base.max_new_tokens)} The interval is a bootstrap over prompts of the mean ratio, so it says "
        "how much other prompts of this kind may differ.",
        outliers.repeated(state),
        *trained_parts.said(job),
        *job.notes,
        f"The table is in {TABLE}"
        + (f", and a race of the choice in {TRACE} (specdec export)." if fit.whole else "."),
    ]
    if fit.verdict.calculated:
        from .throughput import ASSUMPTION

        said.insert(0, ASSUMPTION.format(requests=job.requests))
    short = sum(cell.usable and cell.measured.tokens < MIN_TOKENS for cell in state.cells.values())
    if short:
        said.append(
            f"{short} of the texts {'has' if short == 1 else 'have'} fewer than {MIN_TOKENS} tokens; "
            "such times are uncertain."
        )
    if not job.lossy:
        said.append("Only rules that keep the target's distribution were tried.")
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in said if sentence)
    return f"<h2>How it was measured</h2>\n<ul>{items}</ul>"


def _written(most: int) -> str:
    if most <= PROBE:
        return f"All wrote up to {most} tokens."
    return f"Scouts wrote up to {PROBE} tokens, all others up to {most}."


def _head(*names: str) -> str:
    return "<thead><tr>" + "".join(f"<th scope='col'>{escape(name)}</th>" for name in names) + "</tr></thead>"


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
