"""T(n)/T(1): what a pass over n tokens costs in plain passes, on recorded and modelled machines, and measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import log10
from typing import TYPE_CHECKING

from pydantic import Field, field_validator

from app.course.drawing.scene import Button, Html, Notice, Part, Place, Values, slide
from app.course.facts.machines import profile
from app.course.files.lesson import Strict
from app.course.files.words import Words
from app.course.live import measuring
from app.course.live.measured import origin
from app.text import plain
from specdec_measure.machines.profiles import RecordedProfile

if TYPE_CHECKING:
    from app.charts import Chart

WIDTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
SAID = {  # messages about a running measurement
    "loading": "width-curve.loading", "queued": "width-curve.queued", "running": "width-curve.measuring",
}  # fmt: skip


class With(Strict):
    """`machines`: profiles of assets/profiles by name, each with its title; `start`: the initially marked number of
    tokens; `measure`: whether this machine can be measured too."""

    machines: dict[str, str] = Field(min_length=1, max_length=4)
    start: int = 8
    measure: bool = False

    @field_validator("machines")
    @classmethod
    def there(cls, given: dict[str, str]) -> dict[str, str]:
        """Whether the profiles exist."""
        for machine in given:
            profile(machine)
        return given

    @field_validator("start")
    @classmethod
    def offered(cls, given: int) -> int:
        """Whether it is one of the slider's."""
        if given not in WIDTHS:
            raise ValueError(f"the first number of tokens is one of {', '.join(map(str, WIDTHS))}")
        return given


@dataclass(frozen=True, slots=True)
class Line:
    """A machine's curve: its name, its source, T(n)/T(1) by n, and the n that were measured, if any were."""

    name: str
    provenance: str
    ratios: Mapping[int, float]
    measured: Sequence[int] = ()


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The marked number of tokens, and the button that measures this machine."""
    words = at.words
    parts: list[Part] = [slide("tokens", words("width-curve.tokens"), WIDTHS, given.start)]
    if given.measure:
        label, about = words("width-curve.measure"), words("width-curve.measure_help")
        parts.append(Button("measure", label, icon="speed", off=active(), help=about))
    return parts


def active() -> bool:
    """Whether this machine is being measured."""
    return measuring.here().active


def acted(name: str, act: object, given: With, values: Values, at: Place) -> Values:
    """Measure this machine."""
    if name == "measure":
        measuring.here().begin()
    return {}


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The curves and the marked number of tokens."""
    lines, found = recorded(given, at.words), measuring.here()
    parts: list[Part] = []
    if given.measure:
        parts = _wait(found, at.words)
        lines = lines[:3] + measured(found, at.words)
    marked = values["tokens"]
    return [*parts, chart(lines, marked, at.words), Html(table(lines, marked, at.words))]


def _wait(found: measuring.Measuring, words: Words) -> list[Part]:
    """One sentence while this machine is being measured, or if it could not be."""
    job = found.job
    if job is not None and job.state in SAID:
        return [Notice("info", words(SAID[job.state], ahead=job.place), "hourglass_top")]
    if job is not None and job.state == "failed":
        return [Notice("warning", plain(job.error or "") or words("width-curve.failed"), "error")]
    return []


def recorded(given: With, words: Words) -> list[Line]:
    """The curves of the profiles."""
    lines = []
    for machine, name in given.machines.items():
        found = profile(machine)
        costs = found.costs()
        source, widths = origin(found, words), tuple[int, ...]()
        if isinstance(found, RecordedProfile):
            widths = tuple(min(found.curves, key=lambda curve: curve.context).widths)
            source = between(source, widths, words)
        lines.append(Line(name, source, {width: costs.ratio(width) for width in shown(widths)}, widths))
    return lines


def shown(measured: Sequence[int]) -> list[int]:
    """The widths of a line: the slider's, and those that were measured."""
    return sorted({*WIDTHS, *(width for width in measured if width <= WIDTHS[-1])})


def between(source: str, widths: Sequence[int], words: Words) -> str:
    """A measured curve's source, and what its line is where nothing was measured."""
    listed = ", ".join(words.number(width, "d") for width in widths)
    return words("width-curve.between", source=source, widths=listed)


def measured(found: measuring.Measuring, words: Words) -> list[Line]:
    """This machine's curve, once measured."""
    if found.curve is None:
        return []
    curve = found.curve
    source = words("width-curve.here", model=curve.model, machine=curve.machine, time=curve.date[11:16])
    source, first = between(source, curve.widths, words), curve.at(1)
    ratios = {width: curve.at(width) / first for width in shown(curve.widths)}
    return [Line(words("width-curve.this"), source, ratios, tuple(curve.widths))]


def table(lines: list[Line], tokens: int, words: Words) -> str:
    """The marked number of tokens on each machine."""
    rows = "".join(
        f"<tr><th scope='row'>{escape(line.name)}</th><td>{words.number(line.ratios[tokens], '.2f')}×</td>"
        f"<td>{words.number(tokens / line.ratios[tokens], '.1f')}×{_beyond(line, tokens, words)}</td></tr>"
        for line in lines
    )
    heads = "".join(
        f"<th scope='col'>{escape(words(f'width-curve.{key}', tokens=tokens))}</th>"
        for key in ("machine", "cost", "at_best")
    )
    return (
        "<style>.width-table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
        ".width-table :is(th,td){text-align:left;padding:.25rem 1.25rem .25rem 0;font-weight:400;"
        "border-bottom:1px solid color-mix(in srgb,currentColor 25%,transparent)}"
        ".width-table td{font-weight:650}</style>"
        f"<table class='width-table'><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _beyond(line: Line, tokens: int, words: Words) -> str:
    """A note on a figure from beyond the widths that were measured."""
    if not line.measured or tokens <= max(line.measured):
        return ""
    widest = words.number(max(line.measured), "d")
    return f" <small>{escape(words('width-curve.beyond', widest=widest))}</small>"


def chart(lines: list[Line], tokens: int, words: Words) -> Chart:
    """The curves between the two wrong beliefs: one pass whatever the width, and as many passes as tokens."""
    import plotly.graph_objects as go

    from app.charts.chart import AT_BOTTOM, Chart, lay_out
    from app.theme import GREY, PURPLE, look

    figure = go.Figure()
    for name, dash, belief in (("all", "dot", [*map(float, WIDTHS)]), ("one", "dash", [1.0] * len(WIDTHS))):
        figure.add_scatter(
            x=WIDTHS,
            y=belief,
            name=words(f"width-curve.{name}"),
            mode="lines",
            line={"color": GREY, "width": 2, "dash": dash},
            hoverinfo="skip",
        )
    for number, line in enumerate(lines, 1):
        style = look(number)
        shown = line.measured or line.ratios  # where a curve was measured, or all over a modelled one
        figure.add_scatter(
            x=list(line.ratios),
            y=list(line.ratios.values()),
            name=line.name,
            mode="lines+markers",
            line={"color": style.colour, "width": 3, "dash": style.dash},
            marker={"symbol": style.symbol, "size": [8 * (width in shown) for width in line.ratios]},
            hovertemplate="n = %{x}: %{y:.2f}×<extra>" + escape(line.name) + "</extra>",
        )
    figure.add_vline(x=tokens, line={"color": PURPLE, "width": 2, "dash": "solid"})
    lay_out(
        figure,
        400,
        {
            "title": words("width-curve.x"),
            "type": "log",
            "range": [-0.03, log10(WIDTHS[-1]) + 0.03],
            "tickvals": [1, 2, 4, 8, 16, 32, 64, 128, 256],
        },
        {
            "title": words("width-curve.y"),
            "type": "log",
            "range": [-0.06, log10(40)],
            "tickvals": [1, 2, 4, 8, 16, 32],
        },
        legend=AT_BOTTOM,
        margin={"b": 110},
    )
    said = "; ".join(
        f"{line.name}: "
        + ", ".join(f"{width} {words.number(line.ratios[width], '.2f')}" for width in (8, 64, 256))
        for line in lines
    )
    return Chart(
        figure,
        words("width-curve.title"),
        plain("   |   ".join(dict.fromkeys(line.provenance for line in lines))),
        words("width-curve.alt", said=said),
    )
