"""Draft and target as two lanes of a Gantt chart, one after the other or side by side; wasted drafts are hatched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
import plotly.graph_objects as go
from pydantic import Field

from app.charts.chart import Chart, below, lay_out
from app.course.drawing.scene import Columns, Markdown, Part, Place, Values, choose, scale
from app.course.files.lesson import Strict
from app.course.files.words import Words
from app.theme import CLEAR, GREY, ORANGE, PAGE, PARTS, WHITE, fill
from specdec_measure import theory

Mode = Literal["serial", "overlap"]
MODES: tuple[Mode, ...] = ("serial", "overlap")


class With(Strict):
    """Initial α and draft time in target passes; γ, the rounds, the seed; `fixed`: both ways, no control."""

    alpha: float = Field(ge=0.0, le=1.0)
    gamma: int = Field(4, ge=1, le=8)
    drafting: float = Field(1.0, ge=0.25, le=2.0)
    rounds: int = Field(8, ge=2, le=20)
    seed: int = 7
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """A computation from `start` on, in plain target passes: tokens drafted, or committed by a check."""

    what: Literal["draft", "lost", "verify"]
    round: int
    start: float
    length: float
    tokens: float


@dataclass(frozen=True, slots=True)
class Timetable:
    """The rounds of one way of working."""

    spans: tuple[Work, ...]
    end: float
    tokens: int
    won: int
    lost_tokens: float


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The way of working, α, and how long a draft takes."""
    words = at.words
    if given.fixed:
        return []
    sliders = [
        scale("alpha", words("overlap-gantt.alpha"), 0.0, 1.0, given.alpha, 0.05, words, ".0%"),
        scale("drafting", words("overlap-gantt.drafting"), 0.25, 2.0, given.drafting, 0.25, words),
    ]
    mode = choose(
        "mode", words("overlap-gantt.mode"), MODES, MODES[0], lambda name: words(f"overlap-gantt.{name}")
    )
    return [mode, Columns(sliders, (1, 1))]


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """Both ways of working, or the chosen one."""
    if given.fixed:
        one, other = (gantt(given, given.alpha, given.drafting, mode, at.words) for mode in MODES)
        steady = expected(given, given.alpha, given.drafting, at.words, "overlap-gantt.steady")
        return [above(one), other, Markdown(steady)]
    alpha, drafting = values["alpha"], values["drafting"]
    chart = gantt(given, alpha, drafting, values["mode"], at.words)
    return [chart, Markdown(expected(given, alpha, drafting, at.words))]


def above(chart: Chart) -> Chart:
    """The same without what the chart below it says too, so that a projector shows both."""
    figure = go.Figure(chart.figure).update_layout(height=150, showlegend=False)
    return replace(chart, figure=figure.update_xaxes(title_text=""), provenance="")


def expected(
    given: With, alpha: float, drafting: float, words: Words, key: str = "overlap-gantt.expected"
) -> str:
    """The exact mean gain of overlap, and its gain with these random numbers."""
    cost = drafting / given.gamma
    one, other = (rounds(given, alpha, drafting, mode) for mode in MODES)
    return words(
        key,
        gain=theory.overlap_gain(alpha, given.gamma, cost),
        won=words.number(theory.correct_guess_rate(alpha, given.gamma), ".0%"),
        here=one.end / other.end,
        lost=f"{other.lost_tokens:.0f}",
    )


def gantt(given: With, alpha: float, drafting: float, mode: Mode, words: Words) -> Chart:
    """Two lanes on one clock; the dashed line is where the other way of working would have finished."""
    shown = rounds(given, alpha, drafting, mode)
    serial = rounds(given, alpha, drafting, "serial")
    rest = rounds(given, alpha, drafting, "overlap" if mode == "serial" else "serial")
    lanes = {"draft": words("overlap-gantt.draft_lane"), "verify": words("overlap-gantt.target_lane")}
    figure = _bars(shown, lanes, words)
    if abs(rest.end - shown.end) > 1e-9:
        figure.add_vline(x=rest.end, line={"color": GREY, "width": 2, "dash": "dash"})
        figure.add_annotation(
            x=rest.end,
            y=1.0,
            yref="paper",
            yanchor="bottom",
            xanchor="right" if rest.end > 0.4 * serial.end else "left",
            text=words("overlap-gantt.other_serial" if mode == "overlap" else "overlap-gantt.other_overlap"),
            showarrow=False,
            font={"size": 13},
        )
    lay_out(
        figure,
        250,
        {"title": words("overlap-gantt.time"), "range": [0, serial.end * 1.02]},
        {
            "title": "",
            "categoryorder": "array",
            "categoryarray": [lanes["verify"], lanes["draft"]],
            "automargin": True,
            "tickfont": {"size": 14},
        },
        # below the axis title on a phone too, where three rows leave the plot little height
        legend=below(0.48) | {"traceorder": "normal"},
        margin={"t": 30},
        barmode="overlay",
        bargap=0.3,
    )
    values = {"time": shown.end, "rounds": given.rounds, "tokens": shown.tokens, "won": shown.won}
    title = words(f"overlap-gantt.title_{mode}", **values)
    return Chart(
        figure,
        title,
        words("overlap-gantt.modelled", gamma=given.gamma, seed=given.seed),
        words("overlap-gantt.alt", title=title, lost=f"{shown.lost_tokens:.0f}"),
    )


def _bars(shown: Timetable, lanes: Mapping[str, str], words: Words) -> go.Figure:
    """What was drafted, what of it is thrown away, and the passes."""
    looks = {
        "draft": fill(PARTS["draft"][0], ""),  # only what is thrown away is hatched
        "lost": {
            "color": CLEAR,
            "pattern": {"shape": "x", "size": 7, "solidity": 0.3, "fillmode": "overlay", "fgcolor": ORANGE},
            "line": {"width": 1.5, "color": ORANGE},
        },
        "verify": fill(*PARTS["target pass"]),
    }
    figure = go.Figure()
    for what, look in looks.items():
        spans = [span for span in shown.spans if span.what == what]
        figure.add_bar(
            name=words(f"overlap-gantt.{what}"),
            orientation="h",
            y=[lanes["verify" if what == "verify" else "draft"]] * len(spans),
            base=[span.start for span in spans],
            x=[span.length for span in spans],
            text=[f"+{span.tokens:.0f}" if what == "verify" else "" for span in spans],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            textfont={"size": 13, "color": WHITE},
            constraintext="none",
            marker=look | {"line": {"width": 1.5, "color": ORANGE if what == "lost" else PAGE.light}},
            customdata=[
                [span.round + 1, words(f"overlap-gantt.{what}"), span.tokens, span.length] for span in spans
            ],
            hovertemplate=words("overlap-gantt.hover") + "<extra></extra>",
        )
    return figure


def rounds(given: With, alpha: float, drafting: float, mode: Mode) -> Timetable:
    """The rounds of seeded random numbers, the same for either way of working and for every α."""
    return timetable(
        random_numbers(given.seed, given.rounds, given.gamma), alpha, drafting, mode == "overlap"
    )


@lru_cache(maxsize=64)
def random_numbers(seed: int, count: int, gamma: int) -> tuple[tuple[float, ...], ...]:
    """For each round a number for each guess and one for the token after them."""
    drawn = np.random.default_rng(seed).random((count, gamma + 1))
    return tuple(tuple(row) for row in drawn.tolist())


def timetable(
    random_numbers: Sequence[Sequence[float]], alpha: float, drafting: float, overlap: bool
) -> Timetable:
    """Which lane is busy when, in plain target passes: a check takes one, a draft `drafting`.

    A guess passes if its number is below α. During a check the draft already drafts the next round, assuming that all
    guesses and its own guess of the token after them are right, and that guess takes a draft pass of its own. If they
    are, the draft is continued; otherwise it is thrown away when the check ends.
    """
    spans: list[Work] = []
    clock, left, tokens, won, lost = 0.0, drafting, 0, 0, 0.0
    gamma = len(random_numbers[0]) - 1
    one_pass = drafting / gamma
    for number, row in enumerate(random_numbers):
        if left > 0.0:
            spans.append(Work("draft", number, clock, left, left / one_pass))
            clock += left
        accepted = next((at for at, coin in enumerate(row[:gamma]) if coin >= alpha), gamma)
        held = accepted == gamma and row[gamma] < alpha
        spans.append(Work("verify", number, clock, 1.0, accepted + 1))
        left = drafting
        if overlap and number + 1 < len(random_numbers):
            ahead = min(drafting + one_pass, 1.0)
            spans.append(Work("draft" if held else "lost", number + 1, clock, ahead, ahead / one_pass))
            if held:
                left, won = drafting + one_pass - ahead, won + 1
            else:
                lost += ahead / one_pass
        clock += 1.0
        tokens += accepted + 1
    return Timetable(tuple(spans), clock, tokens, won, lost)
