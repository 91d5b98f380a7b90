"""Every set-up for a kind of text on one plane, speed over arithmetic; the learner places their own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import log10
from urllib.parse import urlencode

import plotly.graph_objects as go
from pydantic import Field, field_validator

from app.charts.chart import AT_BOTTOM, Chart, lay_out
from app.choosing import presets
from app.course.drawing.scene import Columns, Link, Markdown, Part, Place, Values, choose, slide
from app.course.facts.designs import (
    CHAINS,
    EAGLE3,
    GAMMA,
    LONGEST_CHAIN,
    LOOKUP,
    LOOKUP_LENGTH,
    PARALLEL,
    WIDE,
    Design,
    design,
    designs,
    within,
)
from app.course.files.lesson import Strict
from app.course.files.words import Words
from app.course.live import measured
from app.lanes.lane import Lane, encode
from app.theme import GREY, ORANGE, PURPLE, look

EDITS = dict.fromkeys(("verbatim edits", "conversions"), "copy")  # kinds from one family of prompts
ORDER = ("plain", *CHAINS, LOOKUP, *reversed(WIDE), EAGLE3, PARALLEL)  # determines each one's style


class With(Strict):
    """`text`: the initial kind of text; `limit`: how much more arithmetic is allowed (0.5: half as much again)."""

    text: str
    limit: float = Field(0.5, gt=0.0, le=20.0)
    view_only: bool = False

    @field_validator("text")
    @classmethod
    def there(cls, given: str) -> str:
        """Whether anything was measured on it."""
        known = measured.figures().cells
        if given not in known:
            raise ValueError(f"nothing was measured on “{given}”; there are {', '.join(known)}")
        return given


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The kind of text, the proposer, and the draft length of a chain."""
    if given.view_only:
        return []
    words = at.words
    text, lane = (
        choose(name, words(f"workshop.{name}"), offered, start, partial(_named, name, words), look="list")
        for name, offered, start in _offered(given, values)
    )
    gamma: Part = Markdown(words("workshop.no_gamma"), "small")
    if lane.of(values) in CHAINS:
        gamma = slide("gamma", words("workshop.gamma"), range(1, LONGEST_CHAIN + 1), GAMMA)
    return [Columns([text, lane, gamma], (1, 1, 1))]


def _offered(given: With, values: Values) -> list[tuple[str, list[str], str]]:
    """The kinds of text, and the proposers that were measured on the chosen one; each with the first choice."""
    texts = list(measured.figures().cells)
    text = values.get("text", given.text)
    lanes = list(dict.fromkeys(each.lane for each in designs(text if text in texts else given.text)))
    return [("text", texts, given.text), ("lane", lanes, lanes[0])]


def _named(kind: str, words: Words, name: str) -> str:
    return measured.name(kind, name, words)


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The plane, with the learner's set-up unless it is only for viewing."""
    if given.view_only:
        return [plane(given.text, None, given.limit, at.words)]
    text = values["text"]
    mine = design(text, values["lane"], values.get("gamma", GAMMA))
    link = Link(at.words("workshop.race"), f"compare?{race(text, mine, given.limit)}", "flag")
    return [
        Markdown(verdict(mine, within(text, given.limit), given.limit, at.words)),
        plane(text, mine, given.limit, at.words),
        Columns([link, Markdown(at.words("workshop.race_about"), "small")], gap="small", align="center"),
    ]


def verdict(mine: Design, best: Design, limit: float, words: Words) -> str:
    """The result of the learner's set-up, and whether the limit holds."""
    if mine.least > 1.0 + limit:
        said = "over"
    elif mine.most > 1.0 + limit:
        said = "unsure"
    elif mine.speed >= best.speed:
        said = "best"
    else:
        said = "within"
    how = words("workshop.how_modelled" if mine.modelled else "workshop.how_measured")
    if mine.lane == "plain":
        how = words("workshop.how_plain")
    sentence = words("workshop.yours", speed=mine.speed, how=how, work=work(mine, words))
    return f"{sentence} {words(f'workshop.{said}', limit=words.number(limit, '.0%'))}"


def work(shown: Design, words: Words) -> str:
    """Its arithmetic in words: a factor, or bounds."""
    if shown.most - shown.least < 0.005:
        return words("workshop.work", work=shown.most)
    return words("workshop.work_between", least=shown.least, most=shown.most)


def race(text: str, mine: Design, limit: float) -> str:
    """The address of a comparison: the learner's set-up, the fastest within the limit, and the fastest of all."""
    rivals = [mine, within(text, limit), within(text, float("inf"))]
    lanes = dict.fromkeys(encode(as_lane(each)) for each in rivals if each.lane != "plain")
    return urlencode([*prompt(text), *(("lane", lane) for lane in lanes)])


def prompt(text: str) -> list[tuple[str, str]]:
    """Address values for a prompt of that kind: the first bundled one, and the temperature of its measurement."""
    kind, _, heat = text.partition(", temperature ")
    family = next((each for each in presets.families() if each.name == EDITS.get(kind, kind)), None)
    found = [("preset", family.presets[0].id)] if family else []
    return [*found, ("temperature", heat)] if heat else found


def as_lane(shown: Design) -> Lane:
    """A set-up as a lane of the comparison."""
    if shown.lane == "draft-model, larger":
        return Lane(proposer="draft-model", gamma=shown.gamma, options={"draft": "larger"})
    if shown.lane == "early-exit":
        layer = measured.figures().exit_layer
        return Lane(proposer="early-exit", gamma=shown.gamma, options={"layer": layer})
    if shown.lane == "prompt-lookup":
        return Lane(proposer="prompt-lookup", gamma=LOOKUP_LENGTH)
    return Lane(proposer=shown.lane, gamma=shown.gamma or GAMMA)


def plane(text: str, mine: Design | None, limit: float, words: Words) -> Chart:
    """Speed over arithmetic: chains as lines over γ, the rest as points, the limit as a wall."""
    found = designs(text)
    figure = go.Figure()
    right = max(each.most for each in found) * 1.25
    for lane in dict.fromkeys(each.lane for each in found):
        figure.add_trace(_lane(lane, [each for each in found if each.lane == lane], words))
    if mine is not None:
        figure.add_scatter(
            name=words("workshop.mine"),
            x=[(mine.least * mine.most) ** 0.5],
            y=[mine.speed],
            mode="markers",
            marker={"symbol": "circle-open", "size": 30, "color": PURPLE, "line": {"width": 4}},
            hoverinfo="skip",
        )
    wall = 1.0 + limit
    figure.add_vline(x=wall, line={"color": ORANGE, "width": 3})
    figure.add_vrect(x0=wall, x1=right, fillcolor=ORANGE, opacity=0.1, line_width=0, layer="below")
    figure.add_hline(y=1.0, line={"color": GREY, "width": 1.5, "dash": "dot"})
    highest = max(each.speed for each in found)
    figure.add_annotation(
        x=0.99, xref="paper", xanchor="right", y=0.995, yref="paper", yanchor="top",
        text=words("workshop.wall", limit=words.number(limit, ".0%")), showarrow=False, font={"size": 13},
    )  # fmt: skip
    lay_out(
        figure,
        480,
        {
            "title": words("workshop.x"),
            "type": "log",
            "range": [-0.06, log10(right)],
            "tickvals": [1, 1.5, 2, 3, 5, 8, 12, 20],
            "ticktext": [f"{words.number(value)}×" for value in (1, 1.5, 2, 3, 5, 8, 12, 20)],
            "automargin": True,
        },
        {"title": words("workshop.y"), "range": [0, highest * 1.15]},
        legend=AT_BOTTOM,
    )
    name = measured.name("text", text, words)
    listed = "; ".join(
        words(
            "workshop.alt_one",
            name=measured.name("lane", each.lane, words),
            speed=each.speed,
            work=work(each, words),
        )
        for each in found
        if each.gamma in (0, GAMMA)
    )
    return Chart(
        figure,
        words("workshop.title", text=name),
        words("workshop.provenance", source=measured.source(words)),
        words("workshop.alt", text=name, listed=listed, gamma=GAMMA),
    )


def _lane(lane: str, own: Sequence[Design], words: Words) -> go.Scatter:
    """A lane's set-ups, with the bounds of their arithmetic."""
    number = ORDER.index(lane)
    style, name = look(number), measured.name("lane", lane, words)
    chain = len(own) > 1
    labels = [words("workshop.at_gamma", name=name, gamma=each.gamma) if chain else name for each in own]
    return go.Scatter(
        name=name,
        x=[(each.least * each.most) ** 0.5 for each in own],
        y=[each.speed for each in own],
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [each.most - (each.least * each.most) ** 0.5 for each in own],
            "arrayminus": [(each.least * each.most) ** 0.5 - each.least for each in own],
            "thickness": 2,
            "width": 6,
            "color": style.colour,
            "visible": any(each.most - each.least > 0.005 for each in own),
        },
        mode="lines+markers" if chain else "markers",
        line={"color": style.colour, "width": 2, "dash": style.dash},
        marker={"symbol": _symbol(number), "size": 9 if chain else 15, "color": style.colour},
        customdata=[[label, work(each, words)] for label, each in zip(labels, own, strict=True)],
        hovertemplate="%{customdata[0]}: %{y:.2f}×<br>%{customdata[1]}<extra></extra>",
    )


def _symbol(number: int) -> str:
    """A symbol for each lane, since there are more lanes than styles."""
    symbols = (
        "circle", "square", "diamond", "triangle-up", "x", "star", "hexagon", "pentagon", "cross", "triangle-down",
        "bowtie", "hourglass",
    )  # fmt: skip
    return symbols[number % len(symbols)]
