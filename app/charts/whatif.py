"""The same rounds on two clocks: measured speedups next to those under a profile, and the profile's width curve.

Measured bars are never combined with modelled ones into one figure or ratio.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import log10

import plotly.graph_objects as go

from app.text import count
from app.theme import BLUE, GREY, PAGE, look
from specdec_measure.analysis.whatif import WhatIf
from specdec_measure.machines.costs import Costs

from .chart import AT_BOTTOM, Chart, lay_out
from .panels import broken, distinct, empty

TITLE = "Would it pay off there? Bars beyond 1× would"
MAX_WIDTH = 64
GAP = 0.35  # of a group's height, between two groups of bars


def clocks(
    labels: Sequence[str], measured: Sequence[float | None], results: Sequence[WhatIf | None], here: str
) -> Chart:
    """Two bars per lane: its measured speedup (`here` says where and when), and the one under the profile.

    Args:
        measured: None where there is no baseline, or too few tokens.
        results: None where the profile has nothing to say about a lane.
    """
    first = next((one for one in results if one is not None), None)
    if first is None or not labels:
        said = "This profile does not apply to these lanes."
        return Chart(empty(said), TITLE, here, said)
    names, dotted = distinct(labels, 18), {"color": GREY, "width": 1.5, "dash": "dot"}
    bounds = [" a bound" if one and one.off_the_clock else "" for one in results]
    bars: tuple[tuple[str, list[float | None], str, str], ...] = (
        ("measured", [*measured], GREY, ""),
        ("modelled", [one.speedup if one else None for one in results], BLUE, "/"),
    )
    figure = go.Figure()
    for kind, speedups, colour, pattern in bars:
        figure.add_bar(
            name=f"{kind} · {here if kind == 'measured' else first.label}",
            orientation="h",
            y=names,
            x=speedups,
            text=[f" {one:.2f}×{bound}" if one else "" for one, bound in zip(speedups, bounds, strict=True)],
            textposition="outside",
            textfont={"size": 13},
            cliponaxis=False,
            marker={
                "color": colour,
                "pattern": {"shape": pattern, "size": 6, "solidity": 0.3},
                "line": {"width": 0},
            },
            hovertemplate=f"{kind}: " + "%{x:.2f}× plain decoding<extra>%{y}</extra>",
        )
    for y0, y1 in _between(len(labels)):
        figure.add_shape(type="line", x0=1.0, x1=1.0, y0=y0, y1=y1, opacity=0.7, layer="below", line=dotted)
    most = max(1.0, *(speedup for _, speedups, _, _ in bars for speedup in speedups if speedup))
    lay_out(
        figure,
        150 + 74 * len(labels),
        {"title": "speedup over plain decoding on the same machine", "range": [0, most]},
        # Plotly stacks a group's bars upwards, so the axis is reversed to put the first lane and its first bar on top.
        {"categoryorder": "array", "categoryarray": names, "autorange": "reversed", "automargin": True},
        legend=AT_BOTTOM | {"traceorder": "normal"},
        margin={"r": 104 if any(bounds) else 56, "b": 96},  # room for the figures
        barmode="group",
        bargap=GAP,
    )
    said = " ".join(map(_sentence, labels, measured, results))
    return Chart(
        figure,
        TITLE,
        f"measured · {here}   |   {first.provenance}",
        f"Speedups over plain decoding, here and under {first.label}. {said}",
    )


def _sentence(label: str, once: float | None, one: WhatIf | None) -> str:
    """Both bars of a lane in words."""
    here = "not measured" if once is None else f"{once:.2f} times, measured"
    if one is None:
        return f"{label}: {here}; nothing under the profile."
    return f"{label}: {here}; {one.speedup:.2f} times, {one.how}{', a bound' * one.off_the_clock}."


def _between(groups: int) -> list[tuple[float, float]]:
    """Where the line at 1× is drawn, in places of the groups of bars: not beside the bars, where their figures are."""
    beside = [(at - (1 - GAP) / 2, at + (1 - GAP) / 2) for at in range(groups)]
    starts = [-0.5, *(end for _, end in beside)]
    return list(zip(starts, [*(start for start, _ in beside), groups - 0.5], strict=True))


def widths(
    costs: Costs,
    labels: Sequence[str],
    lanes: Sequence[int],
    results: Sequence[WhatIf | None],
    provenance: str,
) -> Chart:
    """T(n)/T(1) of the profile, with the widths of the lanes' rounds marked; a larger mark means more rounds.

    `lanes` are their numbers, which determine their style.
    """
    found = [Counter(one.widths) if one else Counter() for one in results]
    widest = costs.widest or max([MAX_WIDTH, *(width for counts in found for width in counts)])
    steps = sorted({*range(1, min(33, widest + 1)), *range(32, widest + 1, max(1, widest // 128)), widest})
    figure = go.Figure(
        go.Scatter(
            name="T(n)/T(1)",
            x=steps,
            y=[costs.ratio(step) for step in steps],
            mode="lines",
            line={"color": GREY, "width": 2.5},
            hovertemplate="%{x} tokens in a pass: %{y:.2f} plain passes<extra></extra>",
        )
    )
    for lane, label, counts in zip(lanes, labels, found, strict=True):
        if counts:
            figure.add_trace(_marks(costs, lane, label, counts))
    top = costs.ratio(widest)
    lay_out(
        figure,
        360,
        {
            "title": "tokens in a target pass, n",
            "type": "log",
            "range": [-0.03, log10(widest) + 0.05],
            "tickvals": [one for one in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) if one <= widest],
        },
        {"title": "plain passes, T(n)/T(1)", "range": [0, max(2.0, top * 1.08)]},
        legend=AT_BOTTOM,
        margin={"b": 96},
    )
    said = ", ".join(
        f"{width} tokens {costs.ratio(width):.2f}" for width in (1, 5, 9, 17, 33, 65) if width <= widest
    )
    marked = " ".join(
        f"{label}: most rounds have {count(counts.most_common(1)[0][0], 'token')} in the pass."
        for label, counts in zip(labels, found, strict=True)
        if counts
    )
    return Chart(
        figure,
        "What does a wide pass cost there? Guesses are cheap where the line is flat",
        f"{provenance} · a marker at n: the lane has rounds with n tokens in the target's pass; the larger, the more "
        "of its rounds",
        f"Cost of a target pass by its width, in plain passes: {said}. {marked}",
    )


def _marks(costs: Costs, lane: int, label: str, counts: Counter[int]) -> go.Scatter:
    """The widths of a lane's rounds on the curve."""
    rounds = sum(counts.values())
    return go.Scatter(
        name=broken(label, 28, 1),
        x=[*counts],
        y=[costs.ratio(width) for width in counts],
        customdata=[*counts.values()],
        mode="markers",
        cliponaxis=False,
        marker={
            "color": look(lane).colour,
            "symbol": look(lane).symbol,
            "size": [7 + 9 * (times / rounds) ** 0.5 for times in counts.values()],
            "opacity": 0.85,
            "line": {"width": 1, "color": PAGE.light},
        },
        hovertemplate="tokens in the pass: %{x}<br>rounds: %{customdata}, %{y:.2f} plain passes each<extra>"
        + broken(label)
        + "</extra>",
    )
