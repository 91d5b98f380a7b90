"""One target and one draft over five tokens while the temperature rises: their overlap, and acceptance over T."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import plotly.graph_objects as go
from pydantic import Field, model_validator

from app.charts.chart import Chart, below, lay_out
from app.course.drawing.scene import Columns, Part, Place, Values, slide
from app.course.facts.failing import favourite_acceptance, rolled_acceptance
from app.course.files.lesson import Strict
from app.course.files.words import Words
from app.theme import BLUE, CLEAR, GREEN, GREY, ORANGE, PAGE, fill
from specdec_core.sampling import at_temperature

STEPS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)


class With(Strict):
    """`target` and `draft`: logits over the same tokens; `temperature`: the slider's initial value."""

    target: list[float] = Field(min_length=2, max_length=8)
    draft: list[float] = Field(min_length=2, max_length=8)
    temperature: float = 0.3

    @model_validator(mode="after")
    def fits(self) -> With:
        """Whether both have the same tokens, and the slider has that temperature."""
        if len(self.target) != len(self.draft):
            raise ValueError("the target and the draft need logits over the same number of tokens")
        if self.temperature not in STEPS:
            raise ValueError(f"the slider knows the temperatures {', '.join(f'{step:g}' for step in STEPS)}")
        return self


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The temperature."""
    words = at.words
    return [slide("temperature", words("heat.temperature"), STEPS, given.temperature, words.number)]


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The bars and the two curves."""
    target, draft, heat = tuple(given.target), tuple(given.draft), values["temperature"]
    charts = bars(target, draft, heat, at.words), curves(target, draft, heat, at.words)
    return [Columns(charts, (1, 1), align="top")]


def bars(target: Sequence[float], draft: Sequence[float], heat: float, words: Words) -> Chart:
    """p and q side by side, and the part that they share."""
    p, q = at_temperature(target, heat), at_temperature(draft, heat)
    names = [words("heat.token", letter=chr(ord("A") + at)) for at in range(len(p))]
    shared = [min(one, other) for one, other in zip(p, q, strict=True)]
    figure = go.Figure()
    for name, values, colour, offset in (("p", p, BLUE, 0), ("q", q, ORANGE, 1)):
        figure.add_bar(
            name=words(f"heat.{name}"),
            x=names,
            y=values,
            offsetgroup=offset,
            marker={"color": CLEAR, "line": {"width": 2.5, "color": colour}},
            hovertemplate=f"{name}: %{{y:.1%}}<extra></extra>",
        )
        figure.add_bar(
            name=words("heat.shared"),
            showlegend=offset == 0,
            x=names,
            y=shared,
            offsetgroup=offset,
            marker=fill(GREEN, "/"),
            hovertemplate="%{y:.1%}<extra>" + words("heat.shared") + "</extra>",
        )
    rolled = rolled_acceptance(target, draft, heat)
    lay_out(
        figure,
        340,
        {"tickfont": {"size": 15}},
        {"range": [0, 1.02], "tickformat": ".0%", "title": words("heat.chance")},
        legend=below(0.14),
        barmode="overlay",
        bargap=0.25,
    )
    title = words("heat.bars", heat=heat, rolled=words.number(rolled, ".0%"))
    listed = "; ".join(
        words("heat.alt_token", name=name, p=words.number(one, ".0%"), q=words.number(other, ".0%"))
        for name, one, other in zip(names, p, q, strict=True)
    )
    return Chart(figure, title, words("heat.exact"), f"{title} {listed}.")


def curves(target: Sequence[float], draft: Sequence[float], heat: float, words: Words) -> Chart:
    """Acceptance over temperature for a draft that samples, and for one that names its most likely token."""
    temperatures, rolled, favourite = _over(tuple(target), tuple(draft))
    figure = go.Figure()
    for name, values, colour, dash in (
        ("rolled", rolled, GREEN, "solid"),
        ("favourite", favourite, ORANGE, "dash"),
    ):
        figure.add_scatter(
            name=words(f"heat.{name}"),
            x=temperatures,
            y=values,
            mode="lines",
            line={"color": colour, "width": 4, "dash": dash},
            hovertemplate="T = %{x:.2g}: %{y:.0%}<extra>" + words(f"heat.{name}") + "</extra>",
        )
    now = [rolled_acceptance(target, draft, heat), favourite_acceptance(target, draft, heat)]
    upper = 0 if now[0] >= now[1] else 1
    figure.add_scatter(
        x=[heat, heat],
        y=now,
        mode="markers+text",
        showlegend=False,
        text=[f"<b>{words.number(value, '.0%')}</b>" for value in now],
        textposition=["top right" if at == upper else "bottom right" for at in (0, 1)]
        if heat < 2
        else ["top left" if at == upper else "bottom left" for at in (0, 1)],
        textfont={"size": 15},
        marker={
            "size": 14,
            "symbol": ["circle", "diamond"],
            "color": [GREEN, ORANGE],
            "line": {"width": 2, "color": PAGE.light},
        },
        hoverinfo="skip",
        cliponaxis=False,
    )
    figure.add_vline(x=heat, line={"color": GREY, "width": 1.5, "dash": "dot"})
    lay_out(
        figure,
        340,
        {"title": words("heat.axis"), "type": "log", "tickvals": [0.1, 0.2, 0.5, 1, 2, 4]},
        {
            "title": words("heat.accepted"),
            "range": [0, 1.15],
            "tickvals": [0, 0.2, 0.4, 0.6, 0.8, 1],
            "tickformat": ".0%",
        },
        legend=below(0.2),
    )
    said = {"heat": heat, "rolled": words.number(now[0], ".0%"), "favourite": words.number(now[1], ".0%")}
    return Chart(figure, words("heat.curves"), words("heat.exact"), words("heat.alt", **said))


@lru_cache(maxsize=32)
def _over(
    target: tuple[float, ...], draft: tuple[float, ...]
) -> tuple[list[float], list[float], list[float]]:
    temperatures = [0.1 * 40 ** (at / 40) for at in range(41)]
    return (
        temperatures,
        [rolled_acceptance(target, draft, heat) for heat in temperatures],
        [favourite_acceptance(target, draft, heat) for heat in temperatures],
    )
