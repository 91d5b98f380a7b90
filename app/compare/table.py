"""The table of a comparison: one row per figure, one column per lane, each figure with its source.

Nothing here imports streamlit. Every cell has a displayed text and a value; the page shows the text, the downloads hold
the value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from app.metrics.distance import distance
from app.metrics.numbers import by_level, measured_speedup, parting
from app.text import count
from app.ui.chip import chip
from specdec_core.proposers import PROPOSERS
from specdec_core.record.trace import Trace
from specdec_core.rules import lossy
from specdec_core.settings import Settings
from specdec_measure.analysis.advice import MIN_CASES, compare
from specdec_measure.analysis.memory import MemoryLine, total
from specdec_measure.records.repeats import LOOP, RUN, Loops, percent
from specdec_measure.sweep.measured import MeasuredCase
from specdec_measure.sweep.totals import MIN_TOKENS, beyond, wilson

from .timing import Timing, best, pass_cost, speedup, speedups, timing

if TYPE_CHECKING:
    import pandas as pd

NOTHING = "—"


@dataclass(frozen=True, slots=True)
class Cell:
    """`text` and the smaller `note` are displayed; `value` is None where there is none."""

    text: str
    value: Any = None
    note: str = ""
    bar: float | None = None  # a share of the cell's width, drawn under a figure


@dataclass(frozen=True, slots=True)
class Row:
    """One figure for all lanes."""

    key: str
    title: str
    brief: str  # what it is, in so few words that they fit below the title
    words: str  # the definition
    cells: list[Cell] = field(default_factory=list)
    source: str = "measured"  # or modelled, or a mixture in words


def table(
    traces: Sequence[Trace],
    lanes: Sequence[Settings],
    repeats: Sequence[MeasuredCase] = (),
    ledgers: Sequence[list[MemoryLine] | None] = (),
    numbers: Sequence[int] = (),
) -> list[Row]:
    """All rows. The first lane is plain decoding.

    Args:
        repeats: further turns of the same lanes on the same prompt.
        numbers: the lanes' places in the run, by which `repeats` name them; 0, 1, 2, … unless given.
    """
    plain, numbers = traces[0], numbers or range(len(traces))
    loops = [trace.loops() for trace in traces]
    times = [timing(trace, repeats, number) for number, trace in zip(numbers, traces, strict=True)]
    return [
        Row("speedup", "Measured speedup", "over plain decoding", "Plain decoding's time per token divided by the "
            "lane's, in the same run, without prefill and recording. More than τ is timing noise. The Race tab's 95% "
            "interval, shown where no winner is clear, is from the scatter of the rounds within this one run. Only "
            "repeats show how runs differ: then this is the geometric mean of theirs, each over plain in its turn. "
            f"Its 95% interval, from {MIN_CASES} repeats on, is by bootstrap over them, and holds for this prompt.",
            [_speedup(plain, trace, lane, number, repeats, found)
             for number, trace, lane, found in zip(numbers, traces, lanes, loops, strict=True)]),
        Row("tokens_per_second", "Tokens per second", "without the prefill", "Committed tokens divided by decoding "
            "time. After repeats, all times in this table come from them; counts are the same in each, as the seed is.",
            [_figure(time.tokens_per_second, "{:.1f}", time.source) for time in times]),
        Row("acceptance_rate", "Acceptance rate α", "accepted of judged guesses", "Accepted guesses divided by judged "
            "guesses; those never reached do not count. Its 95% interval (Wilson) takes guesses as independent. "
            "A tree has a rate for each level: of the rounds that judged a guess there, the share that accepted one.",
            [_alpha(trace, found) for trace, found in zip(traces, loops, strict=True)]),
        Row("tokens_per_pass", "Tokens per pass τ", "written per target pass", "Committed tokens divided by target "
            "passes, corrected and bonus tokens included. Plain decoding has exactly 1.",
            [_figure(trace.stats.tokens_per_pass, "{:.2f}", _flattered(trace, found))
             for trace, found in zip(traces, loops, strict=True)]),
        Row("repeated", "Repeated text", "loops are easy to guess", "The share of the lane's tokens in sequences of "
            f"{RUN} that its text had before, word for word, and has more often than the prompt. A loop flatters every "
            f"proposer; with {LOOP:.0%} or more the text counts as one. “τ before that” is of the rounds before the "
            "first repeated token.", [_repeated(found) for found in loops]),
        Row("target_passes", "Target passes", "without the prefill", "How often the target model ran after the "
            "prefill. Plain decoding needs one pass for every token.", [_passes(trace) for trace in traces]),
        Row("proposed", "Guesses", "proposed in all rounds", "Guesses in all rounds. Those that were pruned, or "
            "drafted ahead and discarded, were never sent to the target. A tree's pruned candidates count only where "
            "the proposer guessed on after them.", [_proposed(trace) for trace in traces]),
        Row("wasted", "Wasted guesses", "not accepted", "Guesses that were rejected, never reached, pruned, cut off by "
            "the end of the text, or drafted ahead and discarded.", [_wasted(trace) for trace in traces]),
        *_clock(times, traces),
        Row("memory", "Memory", "weights, KV cache, logits", "Bytes of weights, keys and values, and logits; the "
            "ledger below lists them all.", [_memory(lines) for lines in ledgers or [None] * len(traces)],
            "computed from the models' shapes"),
        Row("text", "Output", "the target's own, or not", "Whether the rule keeps the target's distribution and, "
            "if not, how many tokens were kept that are not the target's, and how many were rejected that a lossless "
            "rule would keep.", [Cell("the target's own", "lossless"), *(_text(plain, trace) for trace in traces[1:])],
            "proved or measured"),
    ]  # fmt: skip


def _clock(times: Sequence[Timing], traces: Sequence[Trace]) -> list[Row]:
    """The figures in seconds, and what a pass costs."""
    return [
        Row("draft_s", "Drafting", "time spent guessing", "Seconds of the draft phases, in one run of the lane.",
            [_seconds(time, "draft_s") for time in times]),
        Row("verify_s", "Checking", "time in target passes", "Seconds of the target's passes.",
            [_seconds(time, "verify_s") for time in times]),
        Row("pass_cost", "Cost of a pass", "T(n)/T(1), in plain passes", "The mean time of a target pass over plain "
            "decoding's; n is how many tokens it reads on average. c is the same of a draft pass: none where no model "
            "drafts, or drafts while the target checks.",
            [_pass_cost(times[0], time, trace) for time, trace in zip(times, traces, strict=True)]),
        Row("other_s", "Other work", "time outside the models", "Seconds of judging and committing; for plain decoding "
            "also the time before its passes, when other lanes draft.", [_seconds(time, "other_s") for time in times]),
    ]  # fmt: skip


def frame(rows: Sequence[Row], labels: Sequence[str]) -> pd.DataFrame:
    """The values as a data frame, one row per lane."""
    import pandas as pd

    columns: dict[str, list[Any]] = {"lane": list(labels)}
    for row in rows:
        parts = [cell.value if isinstance(cell.value, dict) else {"value": cell.value} for cell in row.cells]
        for part in dict.fromkeys(("value", *(name for found in parts for name in found))):
            name = row.key if part == "value" else f"{row.key}_{part}"
            columns[name] = [found.get(part) for found in parts]
    return pd.DataFrame(columns)


def to_json(rows: Sequence[Row], labels: Sequence[str], about: Mapping[str, Any],
            ledgers: Sequence[list[MemoryLine] | None] = ()) -> str:  # fmt: skip
    """Everything as JSON: definitions, sources, values and caveats."""
    return json.dumps(
        {
            **about,
            "figures": [
                {"key": row.key, "title": row.title, "source": row.source, "definition": row.words} for row in rows
            ],
            "lanes": [
                {"label": label, **{row.key: row.cells[lane].value for row in rows},
                 "ledger": [asdict(line) for line in ledgers[lane] or []] if ledgers else []}
                for lane, label in enumerate(labels)
            ],
        },
        ensure_ascii=False,
        indent=1,
    )  # fmt: skip


def html(rows: Sequence[Row], titles: Sequence[str], numbers: Sequence[int]) -> str:
    """The table as HTML; all texts are escaped.

    Args:
        titles, numbers: the lanes' names and places in the run, for their chips.
    """
    head = "".join(
        f'<th scope="col">{chip(number)}<span>{escape(title).replace(" = ", "&nbsp;=&nbsp;")}</span></th>'
        for number, title in zip(numbers, titles, strict=True)
    )
    wide = f'<col style="width:{84 / len(titles):.1f}%">' * len(titles)
    body = "".join(
        f'<tr><th scope="row">{escape(row.title)}<small>{escape(row.brief)}</small></th>'
        + "".join(map(_td, row.cells, best(row.key, [cell.value for cell in row.cells])))
        + "</tr>"
        for row in rows
    )
    return (
        f"<style>{STYLE}</style>"
        '<div class="sd-scroll" tabindex="0" role="region" aria-label="Figures of all lanes">'
        f'<table class="sd-table"><colgroup><col>{wide}</colgroup>'
        f'<thead><tr><th scope="col">Figure</th>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


# The titles have a ground: content scrolls under them. A shadow at the right edge says that there is more; what covers
# it scrolls with the table and is over it at the end.
STYLE = """
.sd-scroll{overflow-x:auto;max-width:100%;background:
linear-gradient(to left,var(--page) 50%,transparent) right/3rem 100% no-repeat local,
linear-gradient(to left,color-mix(in srgb,currentColor 20%,transparent),transparent) right/1.1rem 100% no-repeat scroll}
.sd-table{border-collapse:separate;border-spacing:0;width:100%;font-variant-numeric:tabular-nums;font-size:.95rem}
.sd-table th,.sd-table td{padding:.5rem .75rem;text-align:left;vertical-align:top;
border-bottom:1px solid color-mix(in srgb,currentColor 16%,transparent);min-width:8.5rem}
.sd-table thead th{font-weight:600}.sd-table thead th span{overflow-wrap:anywhere}
.sd-table thead th>span:last-child{display:block;margin-top:.35rem;font-size:.875rem;line-height:1.3}
.sd-table tbody th,.sd-table thead th:first-child{font-weight:600;position:sticky;left:0;z-index:1;min-width:9rem;
background:var(--page)}
.sd-table small{display:block;font-weight:400;font-size:.8rem;opacity:.78;line-height:1.35}
.sd-table td b{font-weight:650;font-size:1.02rem}.sd-table em{font-style:normal;font-size:.75rem;color:var(--accent)}
.sd-table td i{display:block;height:4px;border-radius:2px;margin-top:.3rem;background:currentColor;opacity:.55}
@media (max-width:600px){.sd-table th,.sd-table td{padding:.4rem .5rem;min-width:7.2rem}
.sd-table tbody th,.sd-table thead th:first-child{min-width:6.8rem}}
"""


def _td(cell: Cell, mark: bool) -> str:
    bar = f'<i style="width:{max(2.0, 100 * min(1.0, cell.bar)):.1f}%"></i>' if cell.bar is not None else ""
    note = f"<small>{escape(cell.note)}</small>" if cell.note else ""
    best = " <em title='best of these lanes'>best</em>" if mark else ""
    return f"<td><b>{escape(cell.text)}</b>{best}{note}{bar}</td>"


def _speedup(
    plain: Trace, trace: Trace, lane: Settings, number: int, repeats: Sequence[MeasuredCase], loops: Loops
) -> Cell:
    if number == 0:
        return Cell("1×", {"value": 1.0}, "the baseline")
    once, found = measured_speedup(plain.stats, trace.stats), speedups(repeats, number)
    shown = speedup(plain, trace, repeats, number)
    if shown is None:
        return Cell(NOTHING, None, f"fewer than {MIN_TOKENS} tokens in a lane")
    value: dict[str, Any] = {"value": shown, "repeats": len(found), "race": once}
    notes = ["one run, not repeated"]
    if found:
        value |= {"lowest": min(found), "highest": max(found)}
        spread = f"lowest {min(found):.2f}, highest {max(found):.2f}"
        notes = [f"mean of {len(found)} repeats: {spread}" if len(found) > 1 else "one repeat"]
    if len(found) >= MIN_CASES:
        pair = compare(found, [1.0] * len(found))
        value |= {"low": pair.low, "high": pair.high}
        notes.insert(0, f"95% interval {pair.low:.2f} to {pair.high:.2f}")
    if PROPOSERS[lane.proposer].off_the_clock:
        notes.append("a bound: drafting is not counted")
    if beyond(shown, trace.stats.tokens_per_pass):
        notes.append("more than τ: timing noise")
    if loops.spans:
        notes.append(_flattered(trace, loops))
    if (lane.temperature > 0 or lossy(trace)) and parting(plain, trace) is not None:
        notes.append("texts differ")
    return Cell(f"{shown:.2f}×", value, "; ".join(notes))


def _figure(value: float | None, form: str, note: str = "") -> Cell:
    return Cell(NOTHING) if value is None else Cell(form.format(value), value, note)


def _flattered(trace: Trace, loops: Loops) -> str:
    """The note on a figure that repeated text flatters; plain decoding guesses nothing."""
    if not loops.spans or trace.header.settings.get("proposer") == "none":
        return ""
    return f"{percent(loops.share)} of the text repeats"


def _repeated(loops: Loops) -> Cell:
    before = loops.before.tokens_per_pass if loops.before else None
    value = {"value": loops.share, "tokens": loops.repeated, "before_tokens_per_pass": before}
    if not loops.spans:
        return Cell("none", value)
    note = loops.what + (f"; τ before that: {before:.2f}" if before is not None else "")
    return Cell(percent(loops.share), value, note, loops.share)


def _alpha(trace: Trace, loops: Loops) -> Cell:
    stats = trace.stats
    if stats.acceptance_rate is not None:
        low, high = wilson(stats.accepted, stats.judged)
        value = {"value": stats.acceptance_rate, "low": low, "high": high, "judged": stats.judged}
        notes = f"95% interval {low:.0%} to {high:.0%}, {stats.judged:,} judged", _flattered(trace, loops)
        return Cell(f"{stats.acceptance_rate:.0%}", value, "; ".join(filter(None, notes)))
    if stats.acceptance_by_depth:
        shown = stats.acceptance_by_depth[:4]
        deeper = "; deeper ones not shown" if len(stats.acceptance_by_depth) > len(shown) else ""
        notes = f"{by_level(trace, len(shown))}{deeper}", _flattered(trace, loops)
        first = " · ".join(f"{rate:.0%}" for rate in shown)
        return Cell(first, {"by_depth": stats.acceptance_by_depth}, "; ".join(filter(None, notes)))
    return Cell(NOTHING, None, "nothing was judged")


def _passes(trace: Trace) -> Cell:
    stopped = ", stopped" if trace.end == "cancelled" else ""
    return Cell(
        f"{trace.stats.target_passes:,}",
        trace.stats.target_passes,
        f"for {count(trace.stats.tokens, 'token')}{stopped}",
    )


def _proposed(trace: Trace) -> Cell:
    stats = trace.stats
    sent = stats.proposed - stats.pruned - stats.discarded
    note = f"{sent:,} of them sent to the target" if sent != stats.proposed else ""
    return Cell(f"{stats.proposed:,}", {"value": stats.proposed, "sent": sent}, note)


def _most(share: float) -> str:
    """A share in per cent that is not rounded to all."""
    return "> 99%" if 0.995 <= share < 1.0 else f"{share:.0%}"


def _wasted(trace: Trace) -> Cell:
    stats = trace.stats
    wasted = stats.proposed - stats.accepted
    share = wasted / stats.proposed if stats.proposed else None
    note = f"{_most(share)} of its guesses" if share is not None else "nothing was guessed"
    return Cell(f"{wasted:,}", {"value": wasted, "share": share}, note, share)


def _seconds(time: Timing, name: str) -> Cell:
    seconds, whole = float(getattr(time, name)), time.whole
    share = seconds / whole if whole else None
    return Cell(f"{seconds:.3f} s", seconds, f"{share:.0%} of the time" if share is not None else "", share)


def _pass_cost(plain: Timing, time: Timing, trace: Trace) -> Cell:
    if (cost := pass_cost(plain, time, trace)) is None:
        return Cell(NOTHING)
    note = f"over {cost['tokens']:.1f} tokens" + (f"; c = {cost['c']:.3f}" if cost["c"] else "")
    return Cell(f"{cost['value']:.2f}", cost, note)


def _memory(lines: list[MemoryLine] | None) -> Cell:
    if lines is None:
        return Cell(NOTHING, None, "the models are no longer loaded")
    size = total(lines)
    return Cell(megabytes(size), size)


def megabytes(size: int) -> str:
    """Bytes as text."""
    if size >= 1e9:
        return f"{size / 1e9:.2f} GB"
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


def _text(plain: Trace, trace: Trace) -> Cell:
    found = distance(plain, trace)
    value = {
        "value": "lossless" if found.lossless else "lossy",
        "share": found.share,
        "refused": found.refused,
        "source": found.source,
    }
    return Cell(
        found.short, value, " · ".join(filter(None, (found.sentence.removesuffix("."), found.source)))
    )
