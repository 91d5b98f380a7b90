"""An acceptance rule and its knob, a draft that stops early: tokens per pass against distance from the target."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Annotated, Any, Literal

import plotly.graph_objects as go
from pydantic import Field, field_validator, model_validator

from app.charts.chart import ABOVE, Chart, lay_out
from app.course.drawing.scene import Columns, Html, Markdown, Part, Place, Values, choose, slide, style
from app.course.facts import rules
from app.course.facts.rules import EXACT, Options
from app.course.files.lesson import Strict
from app.course.files.words import Words
from app.records import examples as recorded
from app.theme import LANES
from specdec_core.foundations.errors import SpecdecError
from specdec_measure.exact.early_stop import StoppedEarly

Name = Literal["speculative-sampling", "ensemble", "typical", "confidence"]
LOSSY: tuple[Name, ...] = ("ensemble", "typical", "confidence")

# From strict to lenient. Medusa's own default for typical acceptance is ε = 0.09 with δ = √ε.
KNOBS: dict[str, tuple[Options, ...]] = {
    "ensemble": tuple((("weight", w),) for w in (1.0, 0.9, 0.7, 0.5, 0.3, 0.1, 0.01)),
    "typical": tuple((("epsilon", e), ("delta", e**0.5)) for e in (1.0, 0.5, 0.3, 0.15, 0.09, 0.05)),
    "confidence": tuple((("threshold", bar),) for bar in (0.6, 0.5, 0.4, 0.3, 0.2, 0.1)),
}
CUTTING = ("typical", "confidence")  # these keep what is above a threshold
LOOK = {EXACT: LANES[3], "ensemble": LANES[2], "typical": LANES[4], "confidence": LANES[1]}


class With(Strict):
    """A small vocabulary (`words`) with distributions `p` and `q`: a row after the root, then one after each word.

    `controls`: what the learner can change. `costs`: c, the time of a drafted token over that of a target pass; the
    first applies if it cannot be changed.
    `example` is a recorded decode with a draft model at a temperature above zero, judged again by the rule.
    """

    words: list[str] = Field(min_length=2, max_length=5)
    p: list[list[float]]
    q: list[list[float]]
    gamma: int = Field(3, ge=1, le=3)
    costs: list[Annotated[float, Field(ge=0.0, le=2.0)]] = Field([0.1], min_length=1, max_length=7)
    stops: list[float] = Field([0.0], min_length=1, max_length=7)
    controls: list[Literal["rule", "stop", "cost"]] = Field(["rule", "stop"], min_length=1)
    example: str | None = None

    @model_validator(mode="after")
    def distributions(self) -> With:
        """Whether p and q are distributions over these words."""
        rules.check_tables(self.p, self.q)
        if len(self.p[0]) != len(self.words):
            raise ValueError(f"p has {len(self.p[0])} columns for {len(self.words)} words")
        return self

    @field_validator("example")
    @classmethod
    def there(cls, given: str | None) -> str | None:
        """Whether it ships."""
        if given is not None and recorded.find(given) is None:
            raise ValueError(f"there is no recorded example “{given}”")
        return given


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The rule, its knob, where the draft stops, and what a guess costs: those that the lesson lets change."""
    words, rule = at.words, EXACT
    parts: list[Part] = []
    knobs = []
    if "rule" in given.controls:
        offered = choose(
            "rule", words("dial.rule"), [EXACT, *LOSSY], EXACT, lambda name: words(f"dial.{name}")
        )
        parts, rule = [offered], offered.of(values)
    if rule in KNOBS:
        knob, places = KNOBS[rule], range(len(KNOBS[rule]))
        knobs.append(
            slide(
                f"knob-{rule}", words(f"dial.knob_{rule}"), places, len(places) // 2,
                lambda place: setting(knob[place], words), help=words(f"dial.about_{rule}"),
            )
        )  # fmt: skip
    for name, offers, named in (
        ("stop", given.stops, lambda stop: stop_name(stop, words)),
        ("cost", given.costs, words.number),
    ):
        if name in given.controls:
            about = words(f"dial.about_{name}")
            knobs.append(slide(name, words(f"dial.{name}"), offers, offers[0], named, help=about))
    return [*parts, Columns(knobs, gap="large", align="top")]


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The two meters, the first word's distribution, and the rule's place among others."""
    words, rule = at.words, values.get("rule", EXACT)
    options = KNOBS[rule][values[f"knob-{rule}"]] if rule in KNOBS else ()
    stop, cost = values.get("stop", given.stops[0]), values.get("cost", given.costs[0])
    found = at_dial(given, rule, options, stop)
    ruled = "rule" in given.controls
    chart = plane(given, rule, options, stop, words) if ruled else pace(given, stop, cost, words)
    first = Html(first_word(found, given, words)), Markdown(words("dial.exact"), "small")
    parts: list[Part] = [
        style(__file__),
        Html(meters(found, given, cost, words)),
        Columns([first, chart], narrowest=380, gap="large", align="top"),
    ]
    if ruled and rule in CUTTING:
        there = at_cut(given, rule, options)
        said = words("dial.cut_said", distance=there.distance, tokens=there.tokens)
        parts.append(Markdown(said, "small"))
    return (
        [*parts, Markdown(on_record(given.example, rule, options, words))]
        if given.example and ruled
        else parts
    )


def at_dial(given: With, rule: str, options: Options, stop: float) -> StoppedEarly:
    """One round, enumerated."""
    return rules.round_with(rule, dict(options), given.p, given.q, given.gamma, stop)


def at_cut(given: With, rule: str, options: Options) -> StoppedEarly:
    """The exact rule towards the target that has been cut off where this rule has its threshold."""
    p, q = (tuple(tuple(row) for row in table) for table in (given.p, given.q))
    return rules.cut_target(p, q, given.gamma, rule, options)


def setting(options: Options, words: Words) -> str:
    """A knob's position in words: its first option."""
    name, value = options[0]
    return words(f"dial.{name}", value=value)


def stop_name(stop: float, words: Words) -> str:
    """A stop in words."""
    return words("dial.never") if stop <= 0.0 else words("dial.below", stop=stop)


def meters(found: StoppedEarly, given: With, cost: float, words: Words) -> str:
    """Two bars from one baseline: distance grows to the left, tokens per pass to the right."""
    plain = at_dial(given, EXACT, (), 0.0)
    most = given.gamma + 1.0
    off = found.distance > 1e-9
    number = words.number
    distance, tokens = number(found.distance if off else 0.0, ".2f"), number(found.tokens, ".2f")
    facts = (
        ("acceptance", number(found.acceptance, ".0%")),
        ("drafted", number(found.drafted, ".2f")),
        ("speed", f"{number(found.speedup(cost), '.2f')}×"),
    )
    mark = "lossy" if off else "lossless"
    return (
        f"<div class='dial'><div class='tug'>"
        f"<div class='side off'><p>{escape(words('dial.distance'))}</p><b>{distance}</b>"
        f"<div class='track'><span class='bar' style='width:{found.distance:.2%}'></span></div>"
        f"<p class='verdict {mark}'>{escape(words(f'dial.{mark}'))}</p></div>"
        f"<div class='side gain'><p>{escape(words('dial.tokens'))}</p><b>{tokens}</b>"
        f"<div class='track'><span class='bar' style='width:{found.tokens / most:.2%}'></span>"
        f"<span class='tick' style='left:{plain.tokens / most:.2%}'></span></div>"
        f"<p class='note'>{escape(words('dial.tick', tokens=plain.tokens))}</p></div></div><dl class='facts'>"
        + "".join(
            f"<div><dt>{escape(words(f'dial.{key}', cost=cost))}</dt><dd>{shown}</dd></div>"
            for key, shown in facts
        )
        + "</dl></div>"
    )


def first_word(found: StoppedEarly, given: With, words: Words) -> str:
    """The first word's distribution: the target's as an outline, what is written as the filling."""
    top = max(*given.p[0], *found.first, *given.q[0])
    rows = []
    for word, wanted, written, drafted in zip(given.words, given.p[0], found.first, given.q[0], strict=True):
        change = written - wanted
        more = "same" if abs(change) < 5e-4 else "more" if change > 0 else "less"
        rows.append(
            f"<tr><th scope='row'>{escape(word)}</th><td class='bars'>"
            f"<span class='written {more}' style='width:{written / top:.2%}'></span>"
            f"<span class='wanted' style='width:{wanted / top:.2%}'></span>"
            f"<span class='drafted' style='left:{drafted / top:.2%}'></span></td>"
            f"<td class='number'>{words.number(wanted, '.2f')}</td>"
            f"<td class='number {more}'>{words.number(written, '.2f')}</td></tr>"
        )
    heads = "".join(f"<th scope='col'>{escape(words(f'dial.{key}'))}</th>" for key in ("wants", "writes"))
    return (
        f"<div class='dial'><table class='distribution'><caption>{escape(words('dial.first_word'))}</caption>"
        f"<thead><tr><td></td><td class='legend'>{escape(words('dial.legend'))}</td>{heads}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def plane(given: With, rule: str, options: Options, stop: float, words: Words) -> Chart:
    """Every rule's path as its knob turns: the distance of its text, and the gain in tokens per pass."""
    figure = go.Figure()
    for name in LOSSY:
        path = [at_dial(given, name, each, 0.0) for each in KNOBS[name]]
        look = LOOK[name]
        figure.add_trace(_path(path, name, words(f"dial.{name}"), look.dash, look.symbol, words))
    if cuts := [at_cut(given, rule, each) for each in KNOBS.get(rule, ()) if rule in CUTTING]:
        figure.add_trace(_path(cuts, rule, words("dial.cut"), "dot", "x-thin-open", words))
    exact = at_dial(given, EXACT, (), 0.0)
    figure.add_scatter(
        x=[0.0],
        y=[exact.tokens],
        name=words(f"dial.{EXACT}"),
        mode="markers",
        marker={"symbol": "star", "size": 16, "color": LOOK[EXACT].colour},
        hovertemplate="%{y:.2f} · %{x:.2f}<extra></extra>",
        cliponaxis=False,
    )
    here = at_dial(given, rule, options, stop)
    figure.add_scatter(
        x=[here.distance],
        y=[here.tokens],
        name=words("dial.here"),
        mode="markers",
        marker={"symbol": "circle-open", "size": 24, "line": {"width": 3}, "color": LOOK[rule].colour},
        hoverinfo="skip",
        cliponaxis=False,
    )
    farthest = max(at_dial(given, name, KNOBS[name][-1], 0.0).distance for name in LOSSY)
    _frame(
        figure,
        words("dial.distance"),
        words("dial.tokens"),
        [-0.03, farthest + 0.05],
        [0.8, given.gamma + 1.3],
    )
    return Chart(
        figure,
        words("dial.plane"),
        words("dial.exact"),
        words(
            "dial.plane_alt",
            rule=words(f"dial.{rule}"),
            distance=max(0.0, here.distance),
            tokens=here.tokens,
            exact=exact.tokens,
        ),
    )


def _path(
    path: Sequence[StoppedEarly], rule: str, name: str, dash: str, symbol: str, words: Words
) -> go.Scatter:
    """What a rule gains and costs as its knob turns."""
    return go.Scatter(
        x=[each.distance for each in path],
        y=[each.tokens for each in path],
        name=name,
        mode="lines+markers",
        line={"color": LOOK[rule].colour, "dash": dash, "width": 2},
        marker={"symbol": symbol, "size": 9, "color": LOOK[rule].colour},
        text=[setting(each, words) for each in KNOBS[rule]],
        hovertemplate="%{text}: %{y:.2f} · %{x:.2f}<extra></extra>",
    )


def pace(given: With, stop: float, cost: float, words: Words) -> Chart:
    """Each stop by its acceptance rate and its speedup: the first rises where the second falls."""
    path = [at_dial(given, EXACT, (), each) for each in given.stops]
    here = at_dial(given, EXACT, (), stop)
    look = LOOK[EXACT]
    figure = go.Figure()
    figure.add_scatter(
        x=[each.acceptance for each in path],
        y=[each.speedup(cost) for each in path],
        text=["\u2003" + stop_name(each, words) for each in given.stops],  # beside the ring
        mode="lines+markers+text",
        textposition="middle right",
        line={"color": look.colour, "dash": look.dash, "width": 2},
        marker={"symbol": look.symbol, "size": 9, "color": look.colour},
        name=words("dial.stop"),
        hovertemplate="%{text}: %{x:.0%} · %{y:.2f}×<extra></extra>",
        cliponaxis=False,
    )
    figure.add_scatter(
        x=[here.acceptance],
        y=[here.speedup(cost)],
        mode="markers",
        name=words("dial.here"),
        marker={"symbol": "circle-open", "size": 24, "line": {"width": 3}, "color": look.colour},
        hoverinfo="skip",
        cliponaxis=False,
    )
    _frame(figure, words("dial.acceptance"), words("dial.speed", cost=cost), None, None)
    low, high = min(each.acceptance for each in path), max(each.acceptance for each in path)
    figure.update_xaxes(tickformat=".0%", range=[low - 0.03, high + 0.35 * (high - low) + 0.01])
    figure.update_layout(showlegend=False)
    return Chart(
        figure,
        words("dial.pace"),
        words("dial.pace_from", cost=cost),
        words("dial.pace_alt", acceptance=here.acceptance, speed=here.speedup(cost)),
    )


def _frame(figure: go.Figure, x: str, y: str, across: Any, up: Any) -> None:
    lay_out(
        figure,
        400,
        {"title": x, "range": across, "zeroline": across is not None},
        {"title": y, "range": up},
        legend=ABOVE,
    )


def on_record(example: str, rule: str, options: Options, words: Words) -> str:
    """A recorded decode judged again by the rule, round by round."""
    shown = recorded.find(example)
    assert shown is not None
    try:
        found = rules.judged_again(example, rule, options)
    except SpecdecError:
        return words("dial.no_record")
    flipped = sum(not row.same for row in found.rounds)
    fewer = (found.tokens_per_pass or 0.0) < (found.recorded_tokens_per_pass or 0.0)
    said = words(
        "dial.record" if flipped else "dial.record_same",
        machine=shown.machine,
        date=shown.recorded[:10],
        now=found.tokens_per_pass,
        then=found.recorded_tokens_per_pass,
        flipped=flipped,
        rounds=len(found.rounds),
        parts=(found.parts_at or 0) + 1,
    )
    return f"{said} {words('dial.record_less')}" if fewer else said
