"""Measured points on a map of the formula's speedup: how well does the formula predict this machine?

Over α and γ the map shows `theory.speedup_on`, which accounts for the cost of wider passes, with T(n), the time of a
draft pass, and the overhead of judging and committing as measured in this run. Where the measured speedup is not the
map's, it is due to what the formula leaves out, above all that guesses are not equally easy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import copysign, log
from statistics import fmean
from typing import Any

import plotly.graph_objects as go

from app.metrics import numbers
from app.theme import GREY, PAGE, SLOWER_FASTER, look
from specdec_core.record.trace import Trace
from specdec_core.settings import Settings
from specdec_measure import theory

from .chart import Chart
from .panels import broken, empty, panels, place

TITLE = "Is the run as fast as its α, γ and pass times say? Compare its speedup with the map's where the marker is"
BAR = "speedup by the formula"
TICKS = (1 / 3, 0.5, 1.0, 2.0, 3.0)  # of the colours
RATES = [at / 25 for at in range(26)]
LONGEST_DRAFT = 12  # γ
LEVELS = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
SMALLEST_SHADE = 0.001  # of a shade: just outside the clear middle of the scale
OFTEN = 3  # passes of a width needed before their mean counts as its cost


@dataclass(frozen=True, slots=True)
class Point:
    """A lane's point on the map, and the map's parameters. Times in seconds."""

    alpha: float
    gamma: int
    measured: float
    draft_s: float  # one draft pass
    overhead_s: float  # beyond a plain round's, including draft passes that produced no guess
    curve: Mapping[int, float]  # T(n), including the overhead of plain decoding

    @property
    def cost(self) -> float:
        """c: a draft pass over a plain round."""
        return self.draft_s / self.curve[1]

    def modelled(self, alpha: float, gamma: int) -> float:
        """The formula's speedup at another α and γ, all else as in this lane."""
        expected = theory.tokens_per_pass(alpha, gamma)
        return theory.speedup_on(self.curve, expected, gamma, self.draft_s, self.overhead_s)


def speedup_surface(
    traces: Sequence[Trace],
    labels: Sequence[str],
    provenance: str,
    curve: Mapping[int, float] | None = None,
) -> Chart:
    """A panel for each lane that drafts chains of fixed length; the first trace is plain decoding.

    Args:
        curve: {n: T(n)} in seconds, measured separately; by default it is taken from the passes of these traces.
    """
    points = {lane: point(traces, lane, curve) for lane in range(1, len(traces))}
    drawn = [lane for lane, found in points.items() if found]
    if not drawn:
        said = "The formula compares chains of a fixed length with plain decoding; there is none to compare here."
        return Chart(empty(said), TITLE, provenance, said)
    named = [labels[lane] for lane in drawn]
    figure = panels(named, 190, ("acceptance rate α", "draft length γ"), more=2, below=124)
    sentences = []
    for panel, lane in enumerate(drawn):
        found = points[lane]
        assert found is not None
        _panel(figure, place(panel, named), found, lane)
        expected = found.modelled(found.alpha, found.gamma)
        sentences.append(
            f"{labels[lane]}: measured {found.measured:.2f}×, the map says {expected:.2f}× at "
            f"α = {found.alpha:.0%}, γ = {found.gamma}, c = {found.cost:.3f}."
        )
        words = figure.layout.annotations[panel]
        words.text = (
            f"{broken(labels[lane], lines=1)}<br>measured {found.measured:.2f}×<br>on the map {expected:.2f}×"
        )
    figure.update_xaxes(range=[0, 1], tickformat=".0%", tickvals=[0.25, 0.5, 0.75])
    figure.update_yaxes(range=[0.5, LONGEST_DRAFT + 0.5], tickvals=[1, 4, 8, 12])
    margin = figure.layout.margin
    figure.update_layout(coloraxis=_colours(figure.layout.height - margin.t - margin.b))
    return Chart(
        figure,
        TITLE,
        f"marker: the run's α and γ, {provenance} · colours and lines: the formula's speedup, modelled from this "
        "run's times as if every guess had the same chance α; blue is faster than plain decoding, orange slower; each "
        "line joins points of equal speedup, and at 1.0 nothing is gained",
        "Map of the modelled speedup over acceptance rate and draft length, with the measured runs' places. "
        + " ".join(sentences),
    )


def point(traces: Sequence[Trace], lane: int, curve: Mapping[int, float] | None = None) -> Point | None:
    """A lane's point; None where the formula does not apply or nothing was timed."""
    plain, other = traces[0].stats, traces[lane].stats
    settings = Settings(**traces[lane].header.settings)
    if numbers.unmodelled(settings) or not 1 <= settings.draft_length <= LONGEST_DRAFT:
        return None
    modelled = numbers.modelled_speedup(plain, other, settings.draft_length)
    measured = numbers.measured_speedup(plain, other)
    widths = dict(curve) if curve is not None else widths_seen(traces)
    if modelled is None or measured is None or widths.get(1, 0.0) <= 0.0:
        return None
    # A round may take one more pass than it has guesses, never fewer; a lookup runs none and is charged per guess.
    drafted = max(other.draft_passes, other.proposed)
    draft_s = other.draft_s / drafted
    further = (drafted - other.proposed) / other.target_passes
    around = plain.other_s / plain.target_passes
    return Point(
        alpha=modelled.alpha,
        gamma=modelled.gamma,
        measured=measured,
        draft_s=draft_s,
        overhead_s=max(0.0, other.other_s / other.target_passes - around) + further * draft_s,
        curve={width: seconds + around for width, seconds in widths.items()},
    )


def widths_seen(traces: Sequence[Trace]) -> dict[int, float]:
    """{n: mean seconds of the target passes over n tokens} in these traces, for widths that occur often enough.

    The mean, because a measured speedup is a ratio of sums, slow passes included.
    """
    times: dict[int, list[float]] = defaultdict(list)
    for trace in traces:
        for row in trace.rounds:
            if row.ahead_passes:  # slowed down by concurrent drafting
                continue
            times[row.width].append(row.verify_s)
    return {width: fmean(seconds) for width, seconds in sorted(times.items()) if len(seconds) >= OFTEN}


def _panel(figure: go.Figure, at: dict[str, int], found: Point, lane: int) -> None:
    lengths = list(range(1, LONGEST_DRAFT + 1))
    speeds = [[found.modelled(alpha, gamma) for alpha in RATES] for gamma in lengths]
    figure.add_heatmap(
        **at,
        x=RATES,
        y=lengths,
        z=[[_shade(speed) for speed in row] for row in speeds],
        coloraxis="coloraxis",
        customdata=speeds,
        hovertemplate="modelled %{customdata:.2f}×<br>at α = %{x:.0%}, γ = %{y}<extra></extra>",
    )
    for level in LEVELS:
        if not min(map(min, speeds)) < level < max(map(max, speeds)):
            continue
        figure.add_contour(
            **at,
            x=RATES,
            y=lengths,
            z=speeds,
            contours={
                "start": level,
                "end": level,
                "size": 1,
                "coloring": "none",
                "showlabels": True,
                "labelfont": {"size": 12},
                "labelformat": ".1f",
            },
            line={"width": 3 if level == 1.0 else 1, "color": GREY},
            showscale=False,
            hoverinfo="skip",
        )
    expected = found.modelled(found.alpha, found.gamma)
    figure.add_scatter(
        **at,
        x=[found.alpha],
        y=[found.gamma],
        mode="markers",
        name="measured",
        marker={
            "symbol": look(lane).symbol,
            "size": 13,
            "color": look(lane).colour,
            "line": {"width": 2, "color": PAGE.light},
        },
        customdata=[[found.measured, expected]],
        hovertemplate="measured %{customdata[0]:.2f}×, the map says %{customdata[1]:.2f}×<br>"
        "at α = %{x:.1%}, γ = %{y}<extra></extra>",
    )


def _colours(inside: float) -> dict[str, Any]:
    """The colours of all panels, with their bar below them; `inside`: pixels between the figure's margins."""
    return {
        "colorscale": SLOWER_FASTER,
        "cmin": -1.0,
        "cmax": 1.0,
        "colorbar": {
            "orientation": "h",
            "title": {"text": BAR, "side": "top", "font": {"size": 12}},
            "tickvals": [_shade(speed) for speed in TICKS],
            "ticktext": ["⅓×", "0.5×", "1×", "2×", "3×"],
            "thickness": 10,
            "len": 0.8,
            "y": -56 / inside,  # below the axis title
            "yanchor": "top",
            "ypad": 0,
        },
    }


def _shade(speed: float) -> float:
    """Position on the colour scale, −1 … 1 (a third as fast … three times as fast), logarithmic.

    Never in its middle, where the scale is as good as clear for figures that round to 1×: here that would be a hole.
    """
    shade = max(-1.0, min(1.0, log(speed) / log(3.0)))
    return shade if abs(shade) > SMALLEST_SHADE else copysign(SMALLEST_SHADE, shade)
