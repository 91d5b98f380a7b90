"""The page that plays traces by itself: a head in plain HTML, the records as JSON, and the player's code.

The same traces give the same bytes. The page's own policy forbids every request; its one script is allowed by its hash.
"""

from __future__ import annotations

import html
import json
import re
import zlib
from base64 import b64encode
from collections.abc import Iterable, Sequence, Sized
from datetime import datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from app.lanes import of_trace as lane
from app.theme import CSS
from specdec_core.foundations.errors import SettingsError
from specdec_core.models.generation import OFF
from specdec_core.record.schema import Header, ModelInfo
from specdec_core.record.trace import Trace, as_trace
from specdec_core.settings import MAX_LANES, SAMPLING, Settings

from .linker import link
from .served import PLAYER

ENTRY, OPEN = "export.js", "openPage"
PACK_BYTES = 400_000  # a record above this is packed; below, it stays readable in the page's source
PROMPT_SHOWN = 4_000  # characters
ORDER = ("max_new_tokens", "stop")  # shared by all lanes of a race, besides what their times depend on

USUAL = Settings()
# Settings always shown wherever a lane uses them, options included; the others only where they are not the usual.
ALWAYS = ("proposer", "rule", "draft_length", "max_new_tokens", "temperature", "seed")

PRINTED = """
@media print {
  .player .controls, .player .help-box, .player .how { display: none !important; }
  .player .pane { block-size: auto !important; max-block-size: none !important; overflow: visible !important; }
}
"""


def make(
    traces: Sequence[Trace],
    labels: Sequence[str] | None = None,
    *,
    title: str | None = None,
    cursor: dict[str, int] | None = None,
    raced: bool | None = None,
) -> str:
    """A complete HTML document that plays `traces`, one lane each, the last one leading.

    Args:
        labels: the lanes' names; by default from their settings.
        title: the page's heading; by default from the leading lane.
        cursor: where the player opens; by default at the end.
        raced: whether the lanes ran in one race, if known; by default inferred from their records.

    Raises:
        SpecdecError: one sentence, if there are no lanes, too many, or lanes of different prompts.
    """
    if not 1 <= len(traces := [as_trace(trace) for trace in traces]) <= MAX_LANES:
        raise SettingsError(f"A page shows 1 to {MAX_LANES} traces as lanes, got {len(traces)}.")
    if any(trace.header.prompt != traces[0].header.prompt for trace in traces):
        raise SettingsError("The lanes of a page share one prompt, and these do not; export them one by one.")
    names = [label(trace) for trace in traces] if labels is None else list(labels)
    if len(names) != len(traces):
        raise SettingsError(f"Every lane has a label: there are {len(traces)} lanes and {len(names)} labels.")
    if raced is None:
        raced = of_one_race(traces)
    heading = title or f"Speculative decoding, replayed: {names[-1]}"
    code, style = _code()
    policy = (
        f"default-src 'none'; script-src 'sha256-{b64encode(sha256(code.encode()).digest()).decode()}'; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    records = "\n".join(_record(trace.to_json()) for trace in traces)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="Specdec Lab">
<title>{_text(heading)}</title>
<link rel="icon" href="data:,">
<style>{_own_style()}</style>
<style id="player-style" media="not all">{style}</style>
</head>
<body>
{_head(traces, names, heading, raced)}
<main>
<p id="notice" role="status">The player needs JavaScript; the record itself is in this page as JSON.</p>
<div id="player"></div>
</main>
{_foot(traces)}
<script type="application/json" id="settings">{_json(_settings(traces, names, cursor, raced))}</script>
{records}
<script>{code}</script>
</body>
</html>
"""


def label(trace: Trace) -> str:
    """A lane's name from its settings; from its proposer if this program does not understand them."""
    return lane.named(trace.header) or str(trace.header.settings.get("proposer", "A lane"))[:60]


def differing(traces: Sequence[Trace]) -> list[str]:
    """Differences between the lanes that make their times incomparable."""
    heads = [trace.header for trace in traces]
    found: dict[str, Sized] = {
        "machine": {head.machine for head in heads},
        "device": {head.device for head in heads},
        "number format": {head.dtype for head in heads},
        "target model": {repr(head.target) for head in heads},
        "prompt": {tuple(head.prompt_ids) for head in heads},
        **{
            key.replace("_", "-"): {repr(_setting(head, key)) for head in heads}
            for key in (*SAMPLING, "seed")
        },
    }
    return [what for what, values in found.items() if len(values) > 1]


def _setting(header: Header, key: str) -> Any:
    """A recorded setting; off if it was left open and the model sets nothing."""
    value = header.settings.get(key)
    return OFF.get(key) if value is None else value


def of_one_race(traces: Sequence[Trace]) -> bool | None:
    """Whether comparable lanes ran in one race, inferred from their records; None if they did not.

    A record is dated when its lane ends, to the second. Lanes that all decoded for longer than their dates are apart
    ran side by side. The lanes of a race end within the sum of their times, plus some for work off the clock.
    """
    if len(traces) == 1:
        return True
    races = {trace.header.race.id if trace.header.race else None for trace in traces}
    if None not in races:
        return len(races) == 1
    if len({repr([trace.header.packages, *map(trace.header.settings.get, ORDER)]) for trace in traces}) > 1:
        return False
    dates = [_time(trace.header) for trace in traces]
    known = [date for date in dates if date is not None]
    if len(known) < len(dates):
        return None
    apart = max(known) - min(known)
    if apart + 1 <= min(trace.stats.decode_s for trace in traces):
        return True
    if any(trace.header.settings.get("proposer") == "you" for trace in traces):  # thinking is off the clock
        return None
    spent = sum(trace.stats.prefill_s + trace.stats.decode_s + trace.stats.record_s for trace in traces)
    return False if apart > 2 * spent + 10 else None


def _caveat(raced: bool | None, lanes: int) -> str:
    """The caveat next to a speedup between the lanes; empty if they were raced."""
    runs = f"{'two ' if lanes == 2 else ''}separate runs"
    said = f"{runs} on the same machine" if raced is False else f"one race or {runs}: the record does not say"
    return "" if raced else said


def _settings(
    traces: Sequence[Trace], names: list[str], cursor: dict[str, int] | None, raced: bool | None
) -> dict[str, Any]:
    """The player's input besides the traces; the keys are those of its `Data`."""
    from specdec_core.proposers import PROPOSERS
    from specdec_core.rules import RULES
    from specdec_measure.sweep.totals import MIN_TOKENS

    compared = not differing(traces)
    caveat = _caveat(raced, len(traces)) if compared else ""
    rules = sorted({str(trace.header.settings.get("rule")) for trace in traces} & RULES.keys())
    used = sorted({str(trace.header.settings.get("proposer")) for trace in traces} & PROPOSERS.keys())
    return {
        "labels": names,
        "mode": "replay",
        "events": None,
        "provenance": "recorded",
        "provenance_note": " · ".join(filter(None, (_place(traces), caveat))),
        "cursor": cursor or {},
        "autoplay": False,
        "compared": compared,
        "rules": {name: {"title": RULES[name].title, "lossless": RULES[name].lossless} for name in rules},
        "proposers": {name: PROPOSERS[name].summary for name in used},
        "least": MIN_TOKENS,
    }


def _head(traces: Sequence[Trace], names: list[str], heading: str, raced: bool | None) -> str:
    prompt = traces[0].header.prompt
    shown = _text(prompt[:PROMPT_SHOWN])
    if len(prompt) > PROMPT_SHOWN:
        shown += f"… ({len(prompt):,} characters in all; the record below has every one)"
    notes = [
        f"Recorded on {_place(traces)}. All that is shown is in the recording; nothing is decoded again "
        "here, and no model is needed."
    ]
    if unlike := differing(traces):
        notes.append(
            f"The lanes come from separate runs that differ in {', '.join(unlike)}, so their times are not compared."
        )
    elif raced is False:
        notes.append(
            f"The lanes come from {_caveat(raced, len(traces))}. A speedup between them is valid only if the machine "
            "was equally free in each; a race would have measured both under the same load."
        )
    elif raced is None:
        notes.append(
            "The records do not say whether the lanes ran in one race or one after the other. A speedup between "
            "them holds as far as the machine was equally free."
        )
    for name, trace in zip(names, traces, strict=True):
        if broken := trace.audit():
            notes.append(f"The record of “{name}” is inconsistent: {broken[0]}")
    paragraphs = "\n".join(f"<p>{_text(note)}</p>" for note in notes)
    return f"""<header>
<h1>{_text(heading)}</h1>
{paragraphs}
<details>
<summary>Prompt, settings, models and versions</summary>
<pre>{shown}</pre>
<div class="facts" tabindex="0" role="region" aria-label="Settings of each lane">
{_table(names, _facts(traces))}
</div>
</details>
</header>"""


def _foot(traces: Sequence[Trace]) -> str:
    version = traces[-1].header.packages.get("specdec_core", "")
    return f"""<footer>
<p>Made with Specdec Lab{_text(f" {version}" if version else "")}. This file is complete: it makes no requests,
and it plays wherever it is opened. The place you are at is in its address, after the #.</p>
<div id="saving"></div>
<p>A saved record is read by <code>specdec_core.Trace.from_json</code>, by <code>python -m specdec_core export</code>,
which makes a page like this one, and by the import of the lab's library.</p>
</footer>"""


def _facts(traces: Sequence[Trace]) -> list[tuple[str, list[str]]]:
    """Rows of the table: a name, and a text for each lane."""
    heads = [trace.header for trace in traces]
    usual = USUAL.model_dump(mode="json")
    settings = [lane.in_force(head) for head in heads]
    rows = []
    for name in dict.fromkeys(name for known in settings for name in [*usual, *known]):
        values = [known.get(name) for known in settings]
        if name in ALWAYS or any(value not in (None, usual.get(name)) for value in values):
            rows.append((name.replace("_", " "), [_value(value) for value in values]))
    rows += [
        ("target", [_model(head.target) for head in heads]),
        ("draft", [_model(head.draft) if head.draft else "" for head in heads]),
        ("heads", [", ".join(info.name for info in head.heads) for head in heads]),
        ("device", [f"{head.device}, {head.dtype}" for head in heads]),
        ("machine", [head.machine for head in heads]),
        ("recorded", [head.created for head in heads]),
        ("versions", [", ".join(f"{name} {number}" for name, number in head.packages.items()) for head in heads]),
        ("ended by", [trace.end for trace in traces]),
        ("record", [f"{head.id}, goes on from {of.trace}" if (of := head.branch) else head.id for head in heads]),
    ]  # fmt: skip
    return [(name, values) for name, values in rows if any(values)]


def _model(info: ModelInfo) -> str:
    """A model's name and size; records of other programs may not have the size."""
    return f"{info.name}, {info.parameters:,} parameters" if info.parameters else info.name


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} = {_value(given)}" for name, given in value.items())
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _table(names: list[str], rows: Iterable[tuple[str, list[str]]]) -> str:
    head = "".join(f'<th scope="col">{_text(name)}</th>' for name in names)
    body = "\n".join(
        f'<tr><th scope="row">{_text(name)}</th>{"".join(f"<td>{_text(value[:600])}</td>" for value in values)}</tr>'
        for name, values in rows
    )
    return f"<table>\n<thead><tr><td></td>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _place(traces: Sequence[Trace]) -> str:
    """The machines and days of the recording as text."""
    heads = [trace.header for trace in traces]
    places = dict.fromkeys(", ".join(filter(None, [head.machine, head.created[:10]])) for head in heads)
    return " and ".join(places)


def _time(head: Header) -> float | None:
    try:
        return datetime.fromisoformat(head.created).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _record(text: str) -> str:
    if len(text) <= PACK_BYTES:
        return f'<script type="application/json" class="trace">{_inert(text)}</script>'
    packed = b64encode(zlib.compress(text.encode(), level=9)).decode()
    return f'<script type="application/json" class="trace" data-packed="deflate">"{packed}"</script>'


def _json(value: Any) -> str:
    return _inert(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _inert(text: str) -> str:
    """JSON that cannot end the element around it; it parses to the same value."""
    return text.replace("<", "\\u003c")


def _text(text: str) -> str:
    """Text as HTML; control characters become visible signs, since HTML cannot hold them."""
    visible = re.sub(
        r"[\x00-\x08\x0b-\x1f\x7f]",
        lambda found: chr(0x2400 + min(ord(found[0]), 0x21)),
        text.replace("\r\n", "\n"),
    )
    return html.escape(visible)


def _code() -> tuple[str, str]:
    """The player's code and style, linked again only when its files change."""
    return _linked(tuple((path.name, path.stat().st_mtime_ns) for path in sorted(PLAYER.rglob("*.*"))))


@cache
def _linked(_files: tuple[tuple[str, int], ...]) -> tuple[str, str]:
    sheets = [path.read_text(encoding="utf-8") for path in sorted(PLAYER.glob("style/*.css"))]
    return link(PLAYER, ENTRY, OPEN), _sealed("\n".join([*sheets, PRINTED]))


@cache
def _own_style() -> str:
    return _sealed(CSS + Path(__file__).with_suffix(".css").read_text(encoding="utf-8"))


def _sealed(css: str) -> str:
    return css.replace("</", "<\\/")
