"""What the command line prints. Verdicts are shown by colour and mark, lossy rules by the word."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import TextIOWrapper
from statistics import median
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from specdec_core.engine.events import Step
from specdec_core.foundations.errors import SpecdecError
from specdec_core.foundations.options import OptionField, fields
from specdec_core.models import catalogue
from specdec_core.models.gguf_files import cache as conversions
from specdec_core.proposers import PROPOSERS
from specdec_core.record.schema import Source, Stats
from specdec_core.record.trace import Trace
from specdec_core.rules import lossy
from specdec_measure.adapters.acceptance import Acceptance
from specdec_measure.records.repeats import percent
from specdec_measure.records.repeats import sentences as repeats
from specdec_measure.sweep.totals import MIN_TOKENS

for _stream in (sys.stdout, sys.stderr):  # replace characters that the terminal lacks
    if isinstance(_stream, TextIOWrapper):
        _stream.reconfigure(errors="replace")
out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False)

STYLES: dict[Source, tuple[str, str]] = {
    "accepted": ("green", ""),
    "corrected": ("yellow", "↻"),
    "bonus": ("cyan", "★"),
    "plain": ("", ""),
    "unknown": ("dim", "?"),
}
SHOWN_REJECTED = 3  # a tree may reject dozens at one position


def shown(text: str) -> str:
    """Text that may go to a terminal: control characters other than line breaks and tabs as ⟨…⟩."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda found: f"⟨{ord(found[0]):02X}⟩", text)


def verdicts(step: Step) -> Text:
    """The committed pieces, each after the proposals rejected at its position, struck through."""
    line = Text()
    path = [node for node, verdict in enumerate(step.verdict) if verdict == "accepted"]
    for parent, text, source in zip([-1, *path], step.texts, step.sources, strict=False):
        style, mark = STYLES[source]
        nodes = zip(step.parent, step.node_texts, step.verdict, strict=True)
        rejected = [lost for above, lost, verdict in nodes if above == parent and verdict == "rejected"]
        for lost in rejected[:SHOWN_REJECTED]:
            line.append(f"✗{shown(lost)}", style="red strike")
        if len(rejected) > SHOWN_REJECTED:
            line.append(f"✗+{len(rejected) - SHOWN_REJECTED}", style="red")
        line.append(mark + shown(text), style=style)
    return line


def legend() -> Text:
    """What the colours and marks mean."""
    return Text.assemble(
        ("accepted (no mark)", "green"), "  ", ("✗rejected", "red strike"), "  ", ("↻corrected", "yellow"), "  ",
        ("★bonus", "cyan"),
    )  # fmt: skip


def numbers(traces: Mapping[str, Trace], baseline: Stats | None = None) -> Table:
    """One row per lane; a speedup only where a baseline was measured in the same run."""
    notes = []
    if baseline is not None:
        notes.append("speedup: measured in this run, against plain decoding")
        if min(baseline.tokens, *(trace.stats.tokens for trace in traces.values())) < MIN_TOKENS:
            notes.append(f"–: no speedup, fewer than {MIN_TOKENS} tokens in a lane")
    if any(off_the_clock(trace) for trace in traces.values()):
        notes.append("*: this proposer's own time is not counted, so its speed is a bound, not a speedup")
    if any(
        trace.stats.acceptance_rate is None and trace.stats.acceptance_by_depth for trace in traces.values()
    ):
        notes.append("α: one number on chains only; a tree's rates by depth are in the trace")
    looped = {name: trace.loops() for name, trace in traces.items()}
    if any(loops.spans for loops in looped.values()):
        notes.append("repeats: this share of the text repeats earlier text, which flatters every figure")
    caption = "\n".join(notes) or None
    table = Table(
        box=SIMPLE_HEAD, collapse_padding=True, pad_edge=False, caption=caption, caption_justify="left"
    )
    titles = ["proposer", "tokens", "passes", "tokens/pass", "accepted/\njudged", "α", "tokens/s"]
    for title in titles if baseline is None else [*titles, "speedup"]:
        if title == "proposer":
            table.add_column(title, min_width=14)
        else:
            table.add_column(title, justify="right", no_wrap=True)
    for name, trace in traces.items():
        stats = trace.stats
        cells = [
            re.sub("[:,]", " ", name)
            + "*" * off_the_clock(trace)
            + (" (lossy)" if lossy(trace) else "")
            + (f" (repeats {percent(looped[name].share)})" if looped[name].spans else ""),
            str(stats.tokens),
            str(stats.target_passes),
            _figure(stats.tokens_per_pass),
            f"{stats.accepted}/{stats.judged}",
            _figure(stats.acceptance_rate),
            _figure(stats.tokens_per_second, ".1f"),
        ]
        if baseline is not None:
            rate, plain = stats.tokens_per_second, baseline.tokens_per_second
            enough = min(stats.tokens, baseline.tokens) >= MIN_TOKENS
            cells.append(f"{rate / plain:.2f}×" if enough and rate and plain else "–")
        table.add_row(*cells)
    return table


def off_the_clock(trace: Trace) -> bool:
    """Whether drafting is off the lane's clock (an oracle, a person)."""
    kind = PROPOSERS.get(str(trace.header.settings.get("proposer")))
    return kind is not None and kind.off_the_clock


def loss(traces: Iterable[Trace]) -> Text | None:
    """A sentence about lossy rules, if any was used."""
    names = sorted({str(trace.header.settings["rule"]) for trace in traces if lossy(trace)})
    if not names:
        return None
    named = " and ".join(f"'{name}'" for name in names)
    return Text.assemble(
        ("lossy: ", "bold yellow"), f"the text judged by {named} may not follow the target's distribution."
    )


def loops(traces: Mapping[str, Trace]) -> list[Text]:
    """Sentences about repeated text, if any."""
    said = repeats({name: trace.loops() for name, trace in traces.items()})
    return [Text.assemble(("repeats: ", "bold yellow"), sentence) for sentence in said]


def comparison(traces: Mapping[str, Trace]) -> str:
    """Whether the lanes wrote the same text as the first one, and what that means."""
    names = list(traces)
    plain = traces[names[0]]
    differing = [name for name in names if traces[name].token_ids != plain.token_ids]
    if not differing and any(map(lossy, traces.values())):
        return "The texts happen to be equal; a lossy rule does not guarantee it."
    if not differing:
        return "All texts are equal."
    if plain.header.settings["temperature"] == 0.0:
        first = "plain decoding" if plain.header.settings["proposer"] == "none" else names[0]
        said = f"Texts that differ from {first}'s: {', '.join(differing)}."
        unexpected = [name for name in differing if not lossy(traces[name])]
        if lossy(plain) or not unexpected:
            return said
        return (
            f"{said} At temperature 0 a lossless rule writes the target's own text, so in {' and '.join(unexpected)} "
            f"two tokens were tied to within rounding (the weights are {plain.header.dtype}), or the rule is broken."
        )
    return "Tokens were drawn at random and the texts differ: compare their speeds, not their words."


def _figure(value: float | None, form: str = ".2f") -> str:
    return "–" if value is None else format(value, form)


def known_models() -> RenderableType:
    """The catalogue; each id whole and on a separate line, so that it can be copied."""
    rows: list[RenderableType] = []
    for entry in catalogue.entries():
        here = " (here)" if entry.bundled and (catalogue.bundled_folder() / entry.target).is_dir() else ""
        rows.append(Text.assemble((entry.name, "bold cyan"), f"  {entry.title}"))
        rows.append(Text(f"    --model {entry.target}  {entry.parameters:g} M parameters{here}"))
        draft = catalogue.shipped(entry.draft) if entry.draft else None
        if entry.draft and (draft is None or draft.is_dir()):
            size = f"  {entry.draft_parameters:g} M parameters" if entry.draft_parameters else ""
            rows.append(Text(f"    --draft {entry.draft}{size}"))
        rows.append(Text(f"    {entry.note}\n"))
    return Group(*rows)


def converted_models() -> RenderableType:
    """What the cache of converted models holds, and where it is."""
    copies = conversions.copies()
    rows: list[RenderableType] = [Text(f"Converted models, kept in {conversions.folder()}", style="bold")]
    for copy in copies:
        origin = f"from {copy.origin.name}" if copy.origin else "damaged; it is made again when needed"
        rows.append(Text(f"    {copy.name}  {copy.bytes / 1e6:,.0f} MB, {origin}"))
    return Group(*rows, *([] if copies else [Text("    none")]), Text())


def kinds(
    title: str, option: str, table: Mapping[str, Any], reasons: Mapping[str, str | None] | None = None
) -> RenderableType:
    """Proposers, rules or length policies: name, title, two sentences, options, and why one cannot run.

    Args:
        option: the flag that sets one of their options.
        reasons: by name, None if it can run with the loaded models, else a sentence.
    """
    rows: list[RenderableType] = [Text(title, style="bold underline")]
    for name, kind in table.items():
        head = Text.assemble((name, "bold cyan"), f"  {kind.title}")
        if not getattr(kind, "lossless", True):
            head.append("  lossy", style="bold yellow")
        if getattr(kind, "can_overlap", False):
            head.append("  --overlap", style="dim")
        lines: list[RenderableType] = [Text(kind.summary)]
        lines += [_option(option, field) for field in fields(kind.Options).values()]
        if reasons and reasons.get(name):
            lines.append(Text.assemble(("cannot run here: ", "bold red"), reasons[name] or ""))
        rows += [head, Padding(Group(*lines), (0, 0, 1, 4))]
    return Group(*rows)


def _option(flag: str, field: OptionField) -> Text:
    default = "" if field.default is None else field.write(field.default)
    line = Text.assemble((f"{flag} {field.name}={default}", "green"), f"  {field.help}")
    return line.append(f" ({field.wanted})", style="dim")


def audit(traces: Sequence[Trace]) -> None:
    """Report broken conservation laws."""
    for trace in traces:
        for problem in trace.audit():
            err.print(Text.assemble(("audit: ", "bold red"), problem))


@contextlib.contextmanager
def sentences() -> Iterator[None]:
    """Show a refusal as one sentence and exit with status 2; Ctrl+C exits quietly."""
    try:
        yield
    except SpecdecError as error:
        err.print(Text.assemble(("error: ", "bold red"), shown(str(error))))
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        err.print("stopped")
        raise typer.Exit(130) from None


def acceptance(found: Acceptance) -> Group:
    """What an engine counted, with what each number means; what it does not tell is 'unknown'."""
    rows: list[tuple[str, str, str]] = [
        ("rounds with guesses", _whole(found.rounds), ""),
        ("guesses", _whole(found.drafted), ""),
        ("accepted", _whole(found.accepted), ""),
        ("tokens per round", _known(found.per_round), "1 + accepted / rounds"),
        ("accepted of all guesses", _known(found.of_drafted), "with those that a rejection left unjudged"),
        ("acceptance rate α", _known(found.rate), "accepted / judged"),
    ]
    if found.tokens is not None:
        rows.append(("tokens", _whole(found.tokens), ""))
    if found.passes is not None:
        rows.append(("passes of the target", _whole(found.passes), "with and without guesses"))
        rows.append(("tokens per pass", _known(found.per_pass), "tokens / passes"))
    if (found.rounds, found.drafted, found.accepted, found.tokens) == (None,) * 4:
        rows = []
    for one in found.stated:
        spread = f"{min(one.values):g} to {max(one.values):g}"
        rows.append((f"{one.name}, as printed", f"{median(one.values):g}", spread))
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    for cells in rows:
        table.add_row(*cells)
    for place, count in enumerate(found.at):
        share = f"{count / found.rounds:.1%} of rounds" if found.rounds else ""
        given = found.reached[place] if found.reached else 0
        table.add_row(
            f"accepted at position {place + 1}",
            f"{count:,}",
            share + (f", {count / given:.1%} of judged" if given else ""),
        )
    head = f"{found.engine}, {found.source}: counts, not a record of rounds"
    return Group(Text(head), table, *(Text(remark) for remark in found.remarks))


def _whole(count: int | None) -> str:
    return "unknown" if count is None else f"{count:,}"


def _known(value: float | None) -> str:
    return "unknown" if value is None else _figure(value)
