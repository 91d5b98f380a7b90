"""The charts of a comparison and of a sweep draw what the traces say, worked out here once more from the rounds."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from app import charts
from app.charts import budget, depth, surface
from app.charts.chart import Chart
from app.charts.difference import MARKS
from app.charts.draw import inked
from app.charts.panels import broken
from app.metrics import numbers
from app.metrics.differences import NO_GUESS
from app.theme import LANES, MORE, SIGNS, SLOWER_FASTER, SOURCES, look
from specdec_core.engine.events import Finished
from specdec_core.record.trace import Trace
from specdec_core.settings import Settings
from specdec_measure import sweep, theory
from specdec_measure.sweep.cases import Case

from .conftest import scripted_models

LABELS = ["Plain decoding", "Draft model, γ = 4", "Prompt <b>lookup</b>", "Branching draft"]
LANES_RUN = [
    Settings(proposer="none", max_new_tokens=40),
    Settings(max_new_tokens=40),
    Settings(proposer="prompt-lookup", max_new_tokens=40),
    Settings(proposer="branching", max_new_tokens=40),
]
OF_TRACES: list[Callable[..., Chart]] = [
    charts.round_timeline,
    charts.tokens_against_time,
    charts.acceptance_by_depth,
    charts.tokens_per_pass,
    charts.speedup_surface,
    charts.time_budget,
    charts.difference_strip,
]


@pytest.fixture(scope="module")
def traces() -> list[Trace]:
    from specdec_core import race

    events = race(scripted_models(), "abcabcab", LANES_RUN)
    found = {event.lane: event.trace for event in events if isinstance(event, Finished)}
    return [found[lane] for lane in range(len(LANES_RUN))]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """A sweep on a clock of our own: a pass takes a second and a guess a fiftieth, so no speedup is above its τ."""
    cases = [Case("tales", "one", "abc"), Case("tales", "two", "cab"), Case("<code>", "one", "bbb")]
    rows = sweep.sweep(scripted_models(), cases, LANES_RUN, labels=LABELS, repeats=2)
    return sweep.summary(replace(row, seconds=row.target_passes + 0.02 * row.proposed) for row in rows)


def clock(trace: Trace, verify: float, draft: float = 0.0) -> Trace:
    """The trace with times given by hand: each pass takes `verify` seconds per token in it, each draft pass `draft`."""
    rounds = []
    for row in trace.rounds:
        width = 1 + len(row.nodes.token)
        passes = max(row.draft_passes, len(row.nodes.token))
        rounds.append(
            replace(row, verify_s=verify * (10 + width), draft_s=draft * passes, judge_s=0.5, commit_s=0.25)
        )
    stats = trace.stats
    verify_s, draft_s, other_s = (
        sum(row.verify_s for row in rounds), sum(row.draft_s for row in rounds), 0.75 * len(rounds)
    )  # fmt: skip
    timed = replace(
        stats, verify_s=verify_s, draft_s=draft_s, other_s=other_s,
        tokens_per_second=stats.tokens / (verify_s + draft_s + other_s),
    )  # fmt: skip
    return replace(trace, rounds=rounds, stats=timed)


@pytest.mark.parametrize("draw", OF_TRACES)
def test_every_chart_has_words_for_eyes_ears_and_origin(
    draw: Callable[..., Chart], traces: list[Trace]
) -> None:
    chart = draw(traces, LABELS, "measured · here")
    assert chart.title and "measured · here" in chart.provenance
    assert len(chart.alt) > 60 and "nan" not in chart.alt.lower()
    assert chart.figure.to_json() == draw(traces, LABELS, "measured · here").figure.to_json(), (
        "a pure function"
    )


@pytest.mark.parametrize("draw", OF_TRACES)
def test_charts_of_nothing_say_so(draw: Callable[..., Chart], traces: list[Trace]) -> None:
    """Stopped at once, recorded without rounds, plain decoding alone, no lane at all. Catches: a division by zero."""
    nothing = replace(
        traces[1].stats, tokens=0, target_passes=0, accepted=0, rejected=0, tokens_per_second=None,
        tokens_per_pass=None, acceptance_rate=None, draft_s=0.0, verify_s=0.0, other_s=0.0,
    )  # fmt: skip
    output = replace(traces[1].output, ids=[], texts=[], offsets=[], text="")
    cut = [replace(trace, rounds=[], stats=nothing, output=output) for trace in traces]
    off = [replace(trace, rounds=[]) for trace in traces]
    for given in (cut, off, traces[:1], [traces[0], traces[0]], []):
        chart = draw(given, LABELS[: len(given)], "measured")
        assert chart.alt and chart.title and chart.figure.to_json()


@pytest.mark.parametrize("draw", OF_TRACES)
def test_text_of_a_lane_reaches_a_figure_as_text_only(
    draw: Callable[..., Chart], traces: list[Trace]
) -> None:
    """plotly reads a little HTML in its texts. Catches: a label or token that becomes a link."""
    assert "<a " not in draw(traces, ['<a href="x">A</a>'] * len(traces), "measured").figure.to_json()


def test_acceptance_by_depth_counts_places_not_siblings(traces: list[Trace]) -> None:
    """Oracle: each round's path is followed from the root; at each depth it either went on or was refused."""
    chart = charts.acceptance_by_depth(traces, LABELS, "measured")
    assert [line.name for line in chart.figure.data] == [escape(label) for label in LABELS[1:]], (
        "nothing of plain decoding was judged"
    )
    for line, trace in zip(chart.figure.data, traces[1:], strict=True):
        passed: dict[int, int] = {}
        judged: dict[int, int] = {}
        for row in trace.rounds:
            nodes = row.nodes
            at, level = -1, 1
            while True:
                children = [node for node, parent in enumerate(nodes.parent) if parent == at]
                verdicts = [nodes.verdict[child] for child in children]
                if not {"accepted", "rejected"} & set(verdicts):
                    break
                judged[level] = judged.get(level, 0) + 1
                if "accepted" not in verdicts:
                    break
                passed[level] = passed.get(level, 0) + 1
                at, level = children[verdicts.index("accepted")], level + 1
        shares = [passed.get(level, 0) / judged[level] for level in sorted(judged)]
        assert list(line.x) == sorted(judged)
        assert list(line.y) == pytest.approx(shares)
        assert list(line.y) == pytest.approx(trace.stats.acceptance_by_depth)
        bounds = [sweep.wilson(passed.get(level, 0), judged[level]) for level in sorted(judged)]
        assert list(line.error_y.array) == pytest.approx(
            [high - y for (_, high), y in zip(bounds, shares, strict=True)]
        )
        assert list(line.error_y.arrayminus) == pytest.approx(
            [y - low for (low, _), y in zip(bounds, shares, strict=True)]
        )
    assert depth.depth_counts(traces[0]) == []


def test_tokens_per_pass_are_shares_of_rounds(traces: list[Trace]) -> None:
    chart = charts.tokens_per_pass(traces, LABELS, "measured")
    for bars, trace in zip(chart.figure.data, traces[1:], strict=True):
        sizes = [len(row.committed.token) for row in trace.rounds]
        assert list(bars.y) == [sizes.count(size) / len(sizes) for size in bars.x]
        assert sum(bars.y) == pytest.approx(1.0)
        assert sum(size * share for size, share in zip(bars.x, bars.y, strict=True)) == pytest.approx(
            trace.stats.tokens_per_pass
        )
    means = [shape.x0 for shape in chart.figure.layout.shapes]
    assert means == pytest.approx([trace.stats.tokens_per_pass for trace in traces[1:]])
    assert [words.text.rpartition("<br>")[2] for words in chart.figure.layout.annotations[:3]] == [
        f"τ = {trace.stats.tokens_per_pass:.2f}" for trace in traces[1:]
    ]


@pytest.mark.parametrize("rounds", [3, 60])
def test_a_part_in_the_time_chart_tells_its_own_seconds(traces: list[Trace], rounds: int) -> None:
    """Catches: plotly's x in a tooltip, which for an offset bar is its end and not its length."""
    lane = clock(traces[1], 1.0, 0.5)
    first = lane.rounds[0]
    span = first.draft_s + first.verify_s + first.judge_s + first.commit_s
    lane = replace(lane, rounds=[replace(first, index=at, start_s=at * span) for at in range(rounds)])
    for bars in charts.round_timeline([lane], ["chain"], "measured").figure.data:
        own = {
            "draft": first.draft_s, "target pass": first.verify_s, "other work": first.judge_s + first.commit_s,
        }[bars.name]  # fmt: skip
        seconds = [told[1] for told in bars.customdata]
        assert seconds == pytest.approx([own] * rounds if rounds == 3 else [own * rounds])
        assert "%{customdata[1]" in bars.hovertemplate
        assert "%{x" not in bars.hovertemplate


def test_figures_and_axis_titles_fit_a_phone(traces: list[Trace]) -> None:
    """A page of 390 pixels leaves a chart 358. Catches: “484.48 ms” cut at the edge, passes in 70 pixels beside the
    lanes' names, a title of an axis that is longer than the axis."""
    labels = ["A · Plain decoding", *["D · Prompt lookup, max n-gram = 12, match = first"] * 3]
    budget = charts.time_budget([clock(traces[0], 0.0044), *traces[1:]], labels, "measured").figure
    (written,) = [part for part in budget.data if part.type == "scatter"]
    assert 7 * max(map(len, written.text)) <= budget.layout.margin.r + 4
    assert budget.layout.xaxis.range[1] == pytest.approx(max(written.x)), (
        "the longest bar ends where the margin begins"
    )
    line = charts.round_timeline(traces, labels, "measured").figure
    longest = max(len(part) for name in line.layout.yaxis.categoryarray for part in name.split("<br>"))
    for_bars = 358 - 16 - 7 * longest
    said = charts.speedup_surface(traces[:1], labels[:1], "measured").figure.layout.annotations[0].text
    assert all(7.2 * len(part) <= 358 for part in said.split("<br>"))
    assert for_bars >= 190 and 7.5 * len(line.layout.xaxis.title.text) <= for_bars + 20


def test_the_time_budget_adds_up_to_the_time_of_a_token(traces: list[Trace]) -> None:
    timed = [clock(traces[0], 1.0), clock(traces[1], 1.0, 0.5), *traces[2:]]
    chart = charts.time_budget(timed, LABELS, "measured")
    bars = {bar.name: list(bar.x) for bar in chart.figure.data if bar.type == "bar"}
    for lane, trace in enumerate(timed):
        parts = {name: values[lane] for name, values in bars.items()}
        assert sum(parts.values()) == pytest.approx(1e3 * trace.stats.decode_s / trace.stats.tokens)
    tokens, rounds = timed[1].stats.tokens, timed[1].rounds
    around = sum(row.judge_s + row.commit_s for row in rounds)
    assert bars["other work"][1] == pytest.approx(1e3 * around / tokens) and around >= 0.5 * len(rounds)
    assert bars["draft"][1] == pytest.approx(1e3 * sum(row.draft_s for row in rounds) / tokens)
    assert bars["draft"][0] == 0.0, "plain decoding drafts nothing"
    assert budget.budget(replace(traces[1], rounds=[]))["other work"] == pytest.approx(
        1e3 * traces[1].stats.other_s / traces[1].stats.tokens
    )
    twins = charts.time_budget(timed, ["same"] * 4, "measured").figure.data[0].y
    assert len(set(twins)) == 4, "lanes of one name keep a bar each"


def test_the_surface_is_the_formula_and_the_point_the_measurement(traces: list[Trace]) -> None:
    """Times by hand: T(n) = 10 + n, a draft pass 0.5 s, 0.75 s around each pass. Oracle: Leviathan's expectation over
    those times, written out. Catches: a surface of another c, a point that was moved onto its surface."""
    timed = [clock(trace, 1.0, 0.5 if lane else 0.0) for lane, trace in enumerate(traces)]
    chart = charts.speedup_surface(timed, LABELS, "measured")
    heat = next(part for part in chart.figure.data if part.type == "heatmap")
    (dot,) = [part for part in chart.figure.data if part.type == "scatter"][:1]
    stats, plain = timed[1].stats, timed[0].stats
    expected_measured = (plain.decode_s / plain.tokens) / (stats.decode_s / stats.tokens)
    assert (dot.x[0], dot.y[0]) == (stats.acceptance_rate, 4)
    assert dot.customdata[0][0] == pytest.approx(expected_measured)

    def by_hand(alpha: float, gamma: int) -> float:
        tokens = gamma + 1 if alpha == 1 else (1 - alpha ** (gamma + 1)) / (1 - alpha)
        seen = sorted(surface.widths_seen(timed))
        assert 1 in seen and 5 in seen
        return tokens * 11.75 / (gamma * draft + 10 + gamma + 1 + 0.75)

    draft = stats.draft_s / stats.draft_passes
    for alpha in (0.0, 0.2, 0.48, 1.0):
        at = list(heat.x).index(pytest.approx(alpha))
        assert heat.customdata[3][at] == pytest.approx(by_hand(alpha, 4))
        assert (heat.z[3][at] > 0) == (by_hand(alpha, 4) > 1)
    assert dot.customdata[0][1] == pytest.approx(by_hand(stats.acceptance_rate, 4))
    assert "modelled" in chart.provenance and "marker: the run's α and γ, measured" in chart.provenance
    given = charts.speedup_surface(timed, LABELS, "measured", curve={1: 1.0, 5: 1.0})
    found = surface.point(timed, 1, {1: 1.0, 5: 1.0})
    assert found is not None and found.curve[1] == pytest.approx(1.75) and given.figure.data


def test_the_map_is_told_as_a_map_and_its_colours_have_a_bar(traces: list[Trace]) -> None:
    """Catches: a title that speaks of points above a surface, over a flat map; colours without a scale; a panel's
    figure that is not named."""
    timed = [clock(trace, 1.0, 0.5 if lane else 0.0) for lane, trace in enumerate(traces)]
    chart = charts.speedup_surface(timed, LABELS, "measured")
    said = chart.title + chart.provenance + chart.alt
    assert "bove" not in said and "surface" not in said and "marker" in chart.title
    axis = chart.figure.layout.coloraxis
    bar = axis.colorbar
    assert bar.title.text and all(part.coloraxis for part in chart.figure.data if part.type == "heatmap")
    assert (axis.cmin, axis.cmax) == (bar.tickvals[0], bar.tickvals[-1]) and bar.tickvals[2] == pytest.approx(
        0, abs=0.01
    )
    assert "<br>measured " in chart.figure.layout.annotations[0].text
    assert "<br>on the map " in chart.figure.layout.annotations[0].text


def test_the_map_has_no_hole_where_nothing_is_won_or_lost(traces: list[Trace]) -> None:
    """Free drafts and passes of one price: at α = 0 the speedup is 1 to the last digit. The scale's middle is clear,
    for figures that round to 1×. Catches: a white cell on the line at 1.0."""
    chart = charts.speedup_surface(
        [clock(trace, 1.0) for trace in traces], LABELS, "measured", curve={1: 1.0, 5: 1.0, 13: 1.0}
    )
    clear = [at for at, colour in SLOWER_FASTER if not colour.endswith(("0.62)", "0.22)"))]
    heats = [part for part in chart.figure.data if part.type == "heatmap"]
    assert any(
        speed == pytest.approx(1.0, abs=1e-4) for heat in heats for row in heat.customdata for speed in row
    )
    shades = [(shade + 1) / 2 for heat in heats for row in heat.z for shade in row]
    assert not any(min(clear) <= shade <= max(clear) for shade in shades)


@pytest.mark.parametrize(
    "draw",
    [charts.acceptance_by_depth, charts.tokens_per_pass, charts.speedup_surface],
    ids=lambda draw: draw.__name__,
)
def test_a_panel_s_title_has_room_below_the_ticks_of_the_panel_above(
    draw: Callable[..., Chart], traces: list[Trace]
) -> None:
    """Catches: a title of two lines and a figure over the tick labels above it, or cut at the figure's top."""
    labels = [
        "A · Plain decoding",
        "B · Draft model, threshold = 0.35",
        "C · Prompt lookup, γ = 12, match = first",
    ]
    given = [clock(trace, 1.0, 0.5 if lane else 0.0) for lane, trace in enumerate(traces[:3])]
    figure = draw([*given, *given[1:]], [*labels, *labels[1:]], "measured").figure
    layout = figure.layout
    inside = layout.height - layout.margin.t - layout.margin.b
    titles = [words for words in layout.annotations if words.yanchor == "bottom"]
    assert len(titles) >= 2
    for words in titles:
        tall = 16 * (words.text.count("<br>") + 1)
        ends = [axis.domain[0] for axis in figure.select_yaxes() if axis.domain[0] > words.y]
        room = (min(ends) - words.y) * inside - 24 if ends else layout.margin.t  # ticks' labels
        assert tall <= room, words.text


def test_the_surface_prices_the_draft_passes_that_were_recorded(traces: list[Trace]) -> None:
    """A drafter that reads on after its last guess makes γ + 1 passes for γ guesses, at every γ. By hand: T(n) =
    10 + n, a pass 0.5 s, 0.75 s around each round. Catches: γ passes of the price of γ + 1."""
    timed = [clock(trace, 1.0, 0.5 if lane else 0.0) for lane, trace in enumerate(traces)]
    before = surface.point(timed[:2], 1)
    stats = timed[1].stats
    further = stats.target_passes
    more = replace(stats, draft_passes=stats.proposed + further, draft_s=stats.draft_s + 0.5 * further)
    found = surface.point([timed[0], replace(timed[1], stats=more)], 1)
    assert before is not None and found is not None
    assert found.draft_s == pytest.approx(0.5)
    for gamma in (1, 4, 9):
        won = (gamma + 1) * 11.75  # seconds of plain decoding that a round saves at α = 1
        assert won / found.modelled(1.0, gamma) == pytest.approx(won / before.modelled(1.0, gamma) + 0.5)


def test_only_lanes_the_formula_speaks_of_have_a_surface(traces: list[Trace]) -> None:
    """Trees, and lanes that rarely draft γ tokens, are none of the theorem's."""
    assert surface.point(traces, 3) is None
    lossy = replace(
        traces[1], header=replace(traces[1].header, settings=LANES_RUN[1].but(rule="typical").model_dump())
    )
    assert surface.point([traces[0], lossy], 1) is None
    slow = surface.Point(0.5, 4, 1.0, 0.1, 0.0, {1: 1.0, 5: 1.0})
    assert slow.modelled(0.5, 4) == pytest.approx(theory.speedup(0.5, 4, 0.1))
    assert slow.cost == pytest.approx(0.1)


def test_the_difference_strip_marks_each_lane_s_tokens(traces: list[Trace]) -> None:
    chart = charts.difference_strip(traces, LABELS, "measured")
    names = {name: source for source, (_, _, name) in SOURCES.items()}
    found: dict[tuple[int, int], str] = {}
    block = len(traces) + 1
    marks = [part for part in chart.figure.data if part.mode == "text"]
    for part in marks:
        for x, y in zip(part.x, part.y, strict=True):
            line, lane = divmod(y, block)
            found[lane - 1, line * 24 + x - 1] = names[part.name]
    for lane, trace in enumerate(traces):
        sources = [source for row in trace.rounds for source in row.committed.source]
        assert [found[lane, at] for at in range(len(sources))] == sources
    keys = [part.name for part in chart.figure.data if part.mode == "markers"]
    assert keys == [f"{part.text} {part.name}" for part in marks] and len({part.text for part in marks}) == 4


def test_the_difference_strip_has_the_player_s_signs() -> None:
    """Catches: a sign that says “corrected” here, or in a room, and “rejected” in the player."""
    script = (Path(__file__).parents[2] / "app" / "player" / "static" / "text" / "signs.js").read_text(
        encoding="utf-8"
    )
    (marks,) = re.findall(r"export const MARK = \{\n(.*?)\n\};", script, re.DOTALL)
    player_marks = dict(re.findall(r'(\w+): "([^"]*)"', marks))
    assert {name: player_marks[name] for name in SIGNS} == SIGNS
    for source in ("accepted", "corrected", "bonus"):
        assert MARKS[source][1] == player_marks[source]
    assert MARKS["parted"][1] == player_marks["parted"]
    room = (Path(__file__).parents[2] / "app" / "room" / "static" / "run.js").read_text(encoding="utf-8")
    (glyphs,) = re.findall(r"const GLYPHS = \{(.*?)\};", room)
    room_marks = dict(re.findall(r'(\w+): "([^"]+)"', glyphs))
    assert len(room_marks) == 4 and room_marks.items() <= SIGNS.items()
    assert MARKS["plain"][1] == NO_GUESS and NO_GUESS not in player_marks.values()


def test_the_difference_strip_ends_where_texts_part(traces: list[Trace]) -> None:
    """Catches: tokens of two different texts that are compared as if they were one."""
    output = traces[1].output
    other = replace(
        traces[1], output=replace(output, ids=[*output.ids[:7], (output.ids[7] + 1) % 8, *output.ids[8:]])
    )
    chart = charts.difference_strip([traces[0], other], LABELS[:2], "measured")
    drawn = [data[0] for part in chart.figure.data for data in part.customdata or () if data[1] == LABELS[1]]
    assert sorted(drawn) == list(range(1, 8))
    assert numbers.parting(traces[0], other) == 7 and "from token 8 on, its text differs" in chart.alt


def test_a_place_that_is_not_compared_is_marked_as_such(traces: list[Trace]) -> None:
    """Catches: rows that are empty for a reason that no legend tells, and lines in which only the first lane has
    marks."""
    output = traces[1].output

    def parting_at(at: int) -> Trace:
        ids = [*output.ids[:at], (output.ids[at] + 1) % 8, *output.ids[at + 1 :]]
        return replace(traces[1], output=replace(output, ids=ids))

    chart = charts.difference_strip([traces[0], parting_at(3), parting_at(7)], LABELS[:3], "measured")
    marked = {
        part.name: [(data[0], data[1]) for data in part.customdata]
        for part in chart.figure.data
        if part.mode == "text"
    }
    assert marked["text already differs, not compared"] == [(at, LABELS[1]) for at in (4, 5, 6, 7)]
    assert max(at for places in marked.values() for at, _ in places) == 7
    assert "drawn up to token 7" in chart.provenance and "empty" not in chart.provenance
    apart = charts.difference_strip([traces[0], parting_at(0), parting_at(0)], LABELS[:3], "measured")
    assert "begins like the first lane" in apart.alt
    whole = charts.difference_strip(traces, LABELS, "measured")
    assert whole.provenance == "measured"


def test_the_difference_strip_s_rows_are_named_shortly_where_that_tells_them_apart(
    traces: list[Trace],
) -> None:
    def rows(*labels: str) -> list[str]:
        ticks = charts.difference_strip(traces[:2], labels, "measured").figure.layout.yaxis.ticktext
        return list(ticks[:2])

    assert rows("A · Plain decoding", "B · Draft model, γ = 4") == ["A · Plain decoding", "B · Draft model"]
    assert rows("Draft, γ = 2", "Draft, γ = 4") == ["Draft, γ\u00a0=\u00a02", "Draft, γ\u00a0=\u00a04"]


def firm(table: pd.DataFrame) -> pd.DataFrame:
    """The same figures of enough prompts that agree."""
    return table.assign(compared=8, speedup_q1=table["speedup"], speedup_q3=table["speedup"])


def test_a_cell_that_may_be_luck_is_neither_faster_nor_slower(table: pd.DataFrame) -> None:
    """Catches: a cell in the colour of “faster” above a sentence that calls three prompts too few to tell."""
    lane = table["lane"] == 1
    sure, few, wide = (firm(table.assign(speedup=1.25)) for _ in range(3))
    few.loc[lane, "compared"] = 3
    wide.loc[lane, "speedup_q1"] = 0.9
    for made, sign in ((sure, "▲"), (few, "≈"), (wide, "≈")):
        heat = charts.comparison_matrix(made, "speedup", "measured").figure.data[0]
        assert heat.text[0][0].startswith(f"{sign} 1.25×") and (heat.z[0][0] > 0) == (sign == "▲")


def test_the_matrix_holds_the_summary(table: pd.DataFrame) -> None:
    table = firm(table)
    chart = charts.comparison_matrix(table, "speedup", "measured")
    (heat,) = chart.figure.data
    lines = {(line["family"], line["lane"]): line for line in table.to_dict("records")}
    for row, family in enumerate(("tales", "<code>")):
        for column, lane in enumerate((1, 2, 3)):
            speedup = lines[family, lane]["speedup"]
            assert heat.text[row][column] == f"{sweep_mark(speedup)} {speedup:.2f}× ↺"  # its letters go round
            assert (heat.z[row][column] > 0, heat.z[row][column] < 0) == (speedup > 1.005, speedup < 0.995)
            assert f"{lines[family, lane]['speedup_q1']:.2f}" in heat.customdata[row][column]
            assert heat.text[row][column] in chart.alt
    assert chart.figure.layout.yaxis.ticktext == ("tales", "&lt;code&gt;")
    assert "<code>" not in chart.figure.to_json()
    tau = charts.comparison_matrix(table, "tokens_per_pass", "measured").figure.data[0]
    assert tau.text[0][0] == f"{lines['tales', 1]['tokens_per_pass']:.2f} ↺"
    alpha = charts.comparison_matrix(table, "alpha", "measured").figure.data[0]
    assert alpha.text[0][0] == f"{lines['tales', 1]['alpha']:.0%} ↺"
    assert alpha.text[0][2] == "–" and alpha.z[0][2] is None, "a tree has no single rate"


def test_a_speedup_that_its_passes_cannot_explain_is_doubted(table: pd.DataFrame) -> None:
    """A round takes at least a plain pass, so a speedup above τ tells of a disturbed clock; half a per cent is let go.
    Catches: a mark that is missing in the cell, on hover or in the text alternative, one on a speedup that is just
    large or on the cell beside it, one on a measure that no clock made."""
    (tau,) = table.loc[(table["family"] == "tales") & (table["lane"] == 1), "tokens_per_pass"]
    assert tau > 2
    for share, doubted in ((0.5, False), (1.0, False), (1.004, False), (1.006, True), (3.0, True)):
        made = table.copy()
        made.loc[(made["family"] == "tales") & (made["lane"] == 1), "speedup"] = share * tau
        for measure in ("speedup", "tokens_per_pass", "alpha"):
            chart = charts.comparison_matrix(made, measure, "measured")
            (heat,) = chart.figure.data
            marked = doubted and measure == "speedup"
            assert (" ?" in heat.text[0][0]) == marked, (share, measure)
            assert (f"? more than its {tau:.2f} tokens per pass" in heat.customdata[0][0]) == marked
            rest = [*heat.text[0][1:], *heat.text[1], *heat.customdata[0][1:], *heat.customdata[1]]
            assert not any("?" in text for text in rest)
            assert chart.alt.count(" ?") == marked
    none = table.assign(tokens_per_pass=float("nan"))
    assert " ?" not in charts.comparison_matrix(none, "speedup", "measured").alt


def test_cells_with_loops_are_marked_and_counted(table: pd.DataFrame) -> None:
    """Catches: a mark on a cell without loops, one that is missing in a measure or in the text alternative."""
    made = table.assign(looping=[0, 1, 0, 2] + [float("nan")] * 4, repeated=0.25)
    for measure in ("speedup", "tokens_per_pass", "alpha"):
        chart = charts.comparison_matrix(made, measure, "measured")
        (heat,) = chart.figure.data
        found = {
            (family, lane): number for family, lane, number in made[["family", "lane", "looping"]].to_numpy()
        }
        for row, family in enumerate(("tales", "<code>")):
            for column, lane in enumerate((1, 2, 3)):
                marked = found[family, lane] > 0 and heat.text[row][column] != "–"
                assert ("↺" in heat.text[row][column]) == marked
                assert ("texts loop" in heat.customdata[row][column].replace("text loops", "texts loop")) == (
                    found[family, lane] > 0
                )
        assert chart.alt.count("↺") == sum(text.count("↺") for line in heat.text for text in line)
    assert "↺ 1 of 2 texts loops, which flatters it: 25% of all tokens repeat" in heat.customdata[0][0]


def sweep_mark(speedup: float) -> str:
    return "▲" if speedup > 1.005 else "▼" if speedup < 0.995 else "="


def test_slower_is_seen_as_well_as_faster(table: pd.DataFrame) -> None:
    """0.8× and 1.25× have equally strong colours, and 0.97× is no paler than a fifth of the strongest."""
    made = table.copy()
    made.loc[made["lane"] == 1, "speedup"] = 0.8
    made.loc[made["lane"] == 2, "speedup"] = 1.25
    made.loc[made["lane"] == 3, "speedup"] = 0.97
    heat = charts.comparison_matrix(firm(made), "speedup", "measured").figure.data[0]
    assert heat.z[0][0] == pytest.approx(-heat.z[0][1])
    assert heat.z[0][2] < -0.001
    opacity = [float(re.findall(r"[\d.]+", colour)[-1]) for _, colour in SLOWER_FASTER]
    assert opacity == pytest.approx(opacity[::-1]) and opacity[1] >= 0.2
    assert [colour[:5] for _, colour in MORE] == ["rgba("] * 2


def test_a_median_over_some_of_the_prompts_says_over_how_many(table: pd.DataFrame) -> None:
    """Catches: one prompt's speedup as the median over two, because the other's text was too short."""
    made = table.copy()
    made.loc[made["lane"] == 1, "compared"] = 1
    some, every = charts.comparison_matrix(made, "speedup", "measured").figure.data[0].customdata[0][:2]
    assert "2 prompts<br>of which 1 with enough tokens to compare speeds:<br>" in some
    assert "of which" not in every


def test_a_lane_s_letter_stands_above_its_name(table: pd.DataFrame) -> None:
    made = table.assign(label=[f"{'ABCD'[lane]} · <i>lane</i> γ = 4" for lane in table["lane"]])
    heads = charts.comparison_matrix(made, "speedup", "measured").figure.layout.xaxis.ticktext
    assert heads[0].startswith("<b>B</b><br>&lt;i&gt;") and "γ\u00a0=\u00a04" in heads[0]


def test_the_matrix_s_heads_are_whole_and_there_is_room_for_them(table: pd.DataFrame) -> None:
    """Catches: one row of cells above which letters are cut off, “head, lev / els = 3”, and three lanes that are all
    “lossy: …”."""
    names = (
        "A · Plain decoding",
        "B · EAGLE head, levels = 3, followed per level = 2, tokens sent = 4",
        "C · Draft model, γ = 4, lossy: Typical acceptance",
        "D · Draft model, γ = 4, lossy: Confidence threshold",
    )
    made = table[table["family"] == "tales"].assign(label=lambda rows: [names[lane] for lane in rows["lane"]])
    layout = charts.comparison_matrix(made, "speedup", "measured").figure.layout
    heads = [head.replace("<b>", "").replace("</b><br>", " · ") for head in layout.xaxis.ticktext]
    assert [head.replace("<br>", " ").replace("\u00a0", " ") for head in heads] == list(names[1:])
    lines = max(head.count("<br>") + 1 for head in layout.xaxis.ticktext)
    assert layout.margin.t >= 1.3 * layout.xaxis.tickfont.size * lines
    assert layout.height - layout.margin.t - layout.margin.b >= layout.minreducedheight, (
        "else Plotly cuts the heads"
    )


def test_an_unfinished_or_failed_cell_says_so(table: pd.DataFrame) -> None:
    partial = table[~((table["family"] == "<code>") & (table["lane"] == 3))].copy()
    partial.loc[(partial["family"] == "<code>") & (partial["lane"] == 2), "prompts"] = 0
    heat = charts.comparison_matrix(partial, "speedup", "measured").figure.data[0]
    assert (heat.text[1][1:], heat.z[1][1:]) == (["failed", "…"], [None, None])
    assert charts.comparison_matrix(table[:0], "speedup", "measured").alt == "Nothing has been measured yet."


def test_six_lanes_differ_in_more_than_colour() -> None:
    assert len({(lane.dash) for lane in LANES}) == len({lane.symbol for lane in LANES}) == 6
    assert len({lane.pattern for lane in LANES}) == len({lane.colour for lane in LANES}) == 6
    assert look(7) == LANES[1]


def test_text_takes_the_page_s_colour_and_the_chart_stays_as_it_was(
    traces: list[Trace], table: pd.DataFrame
) -> None:
    made: list[Any] = [draw(traces, LABELS, "measured").figure for draw in OF_TRACES]
    made.append(charts.comparison_matrix(table, "speedup", "measured").figure)
    for figure in made:
        before = figure.to_json()
        dressed = inked(figure, "#123456")
        assert figure.to_json() == before
        assert dressed.layout.font.color == dressed.layout.hoverlabel.font.color == "#123456"
        assert all(words.font.color == "#123456" for words in dressed.layout.annotations)
    assert inked(made[-1], "#123456").data[0].textfont.color == "#123456"
    timed = [clock(trace, 1.0, 0.5 if lane else 0.0) for lane, trace in enumerate(traces)]
    bar = inked(charts.speedup_surface(timed, LABELS, "measured").figure, "#123456").layout.coloraxis.colorbar
    assert bar.tickfont.color == bar.title.font.color == "#123456"


def test_labels_are_broken_where_words_end() -> None:
    assert broken("Draft model, γ = 4", 16) == "Draft model,<br>γ\u00a0=\u00a04"
    assert broken("one two three four five", 9, 2) == "one two<br>three fo…"
    assert broken("EAGLE head, levels = 3", 9, 4) == "EAGLE<br>head,<br>levels\u00a0=\u00a03", (
        "a usual word is whole"
    )
    assert broken("a" * 30, 9, 4).count("<br>") == 2, "and a longer one is not"
    assert broken("<b>", 9) == "&lt;b&gt;"
