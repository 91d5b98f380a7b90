"""Lessons 9 to 12: draft length, overlap, failures, the sandbox; their figures by other arithmetic, and their pages."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from dataclasses import replace
from functools import cache
from urllib.parse import parse_qsl

import numpy as np
import pytest

from app.charts import contours
from app.choosing import form, presets
from app.course import progress
from app.course.drawing import projector
from app.course.drawing.scene import Choice
from app.course.facts import designs as made
from app.course.facts import failing, formulas, functions
from app.course.facts.recorded import trace
from app.course.files import reading
from app.course.files.lesson import STEPS
from app.course.files.words import Words
from app.course.live import measured
from app.course.pictures.costs import (
    crowd,
    fails_matrix,
    length_chances,
    length_surface,
    overlap_gantt,
    workshop,
)
from app.course.pictures.odds import heat
from app.course.pictures.own import teach_back
from app.lanes import lane as lanes
from app.lanes import page_settings
from app.records import examples as recorded
from specdec_core.rules import RULES
from specdec_core.settings import Settings
from specdec_measure.machines import batches
from specdec_measure.machines.model_sizes import shape

from .course_page import page, predict, press, sent
from .gallery import picture, written

LESSONS = ("length", "overlap", "fails", "sandbox")
WORDS = Words("en", reading.FOLDER)
RAW = json.loads(measured.MEASUREMENTS.read_text(encoding="utf-8"))
CROWD = crowd.With(examples=["medusa", "eagle"])
TARGET, DRAFT = (3.0, 1.2, 0.4, 0.2, 0.0), (2.2, 1.9, 0.2, 0.4, 0.0)


def lesson(key: str) -> reading.Lesson:
    """A lesson of ours; it has to be in order."""
    found, problems = reading.read("en", key)
    assert found is not None, [str(problem) for problem in problems]
    return found


# --- 9: how long a draft ---------------------------------------------------------------------------------------------


def outcomes(alpha: float, gamma: int) -> list[tuple[float, int]]:
    """Every outcome of γ independent guesses, with its chance, and how many are used."""
    cases = []
    for passed in itertools.product((True, False), repeat=gamma):
        chance = math.prod(alpha if each else 1.0 - alpha for each in passed)
        cases.append((chance, next((at for at, each in enumerate(passed) if not each), gamma)))
    return cases


def test_length_asks_for_the_mean_over_all_outcomes_of_the_guesses() -> None:
    cases, found = outcomes(0.8, 5), lesson("length")
    mean = sum(chance * (used + 1) for chance, used in cases)
    assert found.answer == pytest.approx(mean, abs=1e-12) == pytest.approx(3.68928)
    assert (
        found.facts["used"]
        == pytest.approx(sum(chance * used for chance, used in cases) / 5)
        == pytest.approx(0.537856)
    )
    assert found.right["check"] == {"depends"}


def test_best_lengths_are_those_of_the_formula_as_it_is_written() -> None:
    def gain(alpha: float, gamma: int, cost: float, slope: float) -> float:
        return (1 - alpha ** (gamma + 1)) / ((1 - alpha) * (1 + gamma * cost + gamma * slope))

    found = lesson("length").facts
    assert (found["cheap_best"], round(found["cheap_gain"], 2)) == (8, 3.09)
    assert (found["costly_best"], round(found["costly_gain"], 2)) == (4, 1.87)
    for alpha, cost, slope in itertools.product((0.1, 0.5, 0.8, 0.95), (0.0, 0.05, 0.3), (0.0, 0.02, 0.2)):
        speeds = [gain(alpha, gamma, cost, slope) for gamma in range(17)]
        for gamma, speed in enumerate(speeds):
            assert formulas.speedup_sloped(alpha, gamma, cost, slope) == pytest.approx(speed, abs=1e-12)
        best = formulas.best_length_sloped(alpha, cost, slope)
        assert speeds[best] == pytest.approx(max(speeds), abs=1e-12)


@pytest.mark.parametrize(("alpha", "gamma"), [(0.8, 5), (0.3, 2), (1.0, 4), (0.0, 3)])
def test_columns_say_what_becomes_of_each_guess(alpha: float, gamma: int) -> None:
    parts, cases = length_chances.shares(alpha, gamma), outcomes(alpha, gamma)
    for place in range(gamma):
        used = sum(chance for chance, count in cases if count > place)
        refused = sum(chance for chance, count in cases if count == place)
        unseen = sum(chance for chance, count in cases if count < place)
        assert [parts[key][place] for key in ("used", "refused", "unseen")] == pytest.approx(
            [used, refused, unseen], abs=1e-12
        )
    assert parts["own"][-1] == 1.0
    chart = length_chances.columns(alpha, gamma, WORDS)
    assert f"{sum(parts['used']) + 1:.2f} tokens a round" in chart.title


def test_dots_stand_where_they_were_measured() -> None:
    """Every group's draft lanes of measurements.json, and every example with a chain that the formula speaks of."""
    names = tuple((name, name) for name in {*RAW["figures"]["groups"], *measured.figures().lanes})
    dots = length_surface.dots(names)
    for group, found in RAW["figures"]["groups"].items():
        for lane in ("draft-model", "draft-model, larger"):
            mine = found["lanes"][lane]
            assert any(
                (dot.name, dot.alpha, dot.speedup, dot.gamma)
                == (f"{group}, {lane}", mine["alpha"], mine["speedup"], 4)
                for dot in dots
            )
    shown = {dot.name: dot for dot in dots if dot.example}
    for example in recorded.examples():
        stats = trace(example.id).stats
        settings = Settings(**trace(example.id).header.settings)
        if settings.proposer == "draft-model" and example.title in shown:
            assert shown[example.title].alpha == stats.accepted / (stats.accepted + stats.rejected)
            assert shown[example.title].gamma == settings.draft_length
    assert len(shown) >= 3


def test_the_surface_has_its_ridge_where_the_best_lengths_are() -> None:
    chart = length_surface.surface(0.8, 0.05, 0.0, WORDS)
    ridge = next(each for each in chart.figure.data if each.name == WORDS("length-surface.ridge"))
    best = dict(zip(ridge.x, ridge.y, strict=True))
    assert best[0.8] == 8 and best[0.0] is None
    assert "modelled" in chart.provenance and "measured" in chart.provenance
    assert "γ = 8: 3.09×" in length_surface.cut(0.8, 0.05, 0.0, WORDS).alt


@pytest.mark.parametrize(("alpha", "cost"), [(0.85, 0.2), (0.75, 0.1), (0.8, 0.05), (0.3, 0.6)])
def test_the_numbers_of_the_lines_are_beside_their_lines_and_under_nothing(alpha: float, cost: float) -> None:
    """Catches: “1.5” of which a dot covers the 1."""
    figure = length_surface.surface(alpha, cost, 0.0, WORDS).figure
    (named,) = [each for each in figure.data if each.type == "scatter" and each.mode == "text"]
    points = [each for each in figure.data if each.type == "scatter" and each.mode == "markers"]
    drawn = [point for each in points for point in zip(each.x, each.y, strict=True)]
    ridge = next(each for each in figure.data if each.name == WORDS("length-surface.ridge"))
    drawn += [point for point in zip(ridge.x, ridge.y, strict=True) if point[1] is not None]
    shown = [each.contours.start for each in figure.data if each.type == "contour"]
    assert set(named.text) <= {f"{level:.1f}" for level in shown} and len(named.text) >= len(shown) - 1
    for x, y, level in zip(named.x, named.y, named.text, strict=True):
        near = min(contours.apart((x, y), point, length_surface.PIXELS) for point in drawn)
        assert near >= 14, (level, x, y)
        speeds = [
            length_surface.speedup_sloped(min(1.0, x + side), int(y), cost, 0.0) for side in (-0.05, 0.05)
        ]
        assert speeds[0] < float(level) < speeds[1]


# --- 10: overlap -----------------------------------------------------------------------------------------------------


def test_overlap_gains_less_than_twice_and_hardly_anything_at_half() -> None:
    found = lesson("overlap")
    assert found.right == {"predict": {"quarter"}, "check": {"hardly"}}
    assert found.facts["most"] == 2 / 1.25  # drafting ahead: four guesses, and the token before them
    assert found.facts["fair"] == pytest.approx(2 / (1.25 * 0.9**5 + (1 - 0.9**5) * 2))
    assert found.facts["won"] == pytest.approx(1 / 32)
    assert found.facts["less"] == pytest.approx(2 / (1.25 / 32 + 31 / 32 * 2))


@pytest.mark.parametrize("language", ["en", "de"])
def test_a_span_of_the_timetable_tells_its_own_length(language: str) -> None:
    """Catches: plotly's x in a tooltip, which for an offset bar is its end and not its length."""
    given = overlap_gantt.With(alpha=0.8, gamma=3, rounds=5, seed=4)
    chart = overlap_gantt.gantt(given, 0.8, 0.5, "serial", Words(language, reading.FOLDER))
    for bars in chart.figure.data:
        assert [told[3] for told in bars.customdata] == list(bars.x)
        assert "%{customdata[3]" in bars.hovertemplate
        assert "%{x" not in bars.hovertemplate


@pytest.mark.parametrize("drafting", [0.25, 1.0, 1.75])
@pytest.mark.parametrize("alpha", [0.0, 0.5, 0.9, 1.0])
def test_the_timetable_is_that_of_two_machines(alpha: float, drafting: float) -> None:
    """Against two machines that are each free from some time on; no machine ever does two things at once."""
    given = overlap_gantt.With(alpha=alpha, gamma=3, rounds=20, seed=4)
    random_numbers = overlap_gantt.random_numbers(4, 20, 3)
    serial, beside = (overlap_gantt.rounds(given, alpha, drafting, mode) for mode in overlap_gantt.MODES)
    assert (
        serial.tokens
        == beside.tokens
        == sum(
            1 + sum(1 for _ in itertools.takewhile(lambda coin: coin < alpha, row[:3]))
            for row in random_numbers
        )
    )
    assert serial.end == pytest.approx(20 * (1 + drafting))
    ready, clock, won = drafting, 0.0, 0
    for number, row in enumerate(random_numbers):
        began = max(ready, clock)
        clock = began + 1.0
        correct = all(coin < alpha for coin in row)
        # Made ahead, the draft is of three guesses and the token before them.
        ready = began + drafting * 4 / 3 if correct else clock + drafting
        won += correct and number < 19
    assert beside.end == pytest.approx(clock)
    assert beside.won == won
    assert beside.lost_tokens == pytest.approx((19 - won) * min(4.0, 3.0 / drafting))
    for table in (serial, beside):
        for lane in (("verify",), ("draft", "lost")):
            spans = sorted((span.start, span.length) for span in table.spans if span.what in lane)
            assert all(one + long <= other + 1e-9 for (one, long), (other, _) in itertools.pairwise(spans))


def test_the_chart_hatches_what_is_thrown_away() -> None:
    given = overlap_gantt.With(alpha=0.5, gamma=4)
    chart = overlap_gantt.gantt(given, 0.5, 1.0, "overlap", WORDS)
    bars = {bar.name: bar for bar in chart.figure.data}
    lost = bars[WORDS("overlap-gantt.lost")]
    assert lost.marker.pattern.shape == "x" and len(lost.x) > 0
    assert not bars[WORDS("overlap-gantt.draft")].marker.pattern.shape
    assert "**1.01×**" in overlap_gantt.expected(given, 0.5, 1.0, WORDS)


# --- 11: when it fails -----------------------------------------------------------------------------------------------


def softmax(logits: tuple[float, ...], heat: float) -> np.ndarray:
    """A distribution by its definition."""
    powers = np.exp(np.array(logits) / heat)
    return powers / powers.sum()


def test_acceptance_over_temperature_by_the_definition() -> None:
    """The published example: a drawn guess dips and comes back, the favourite falls."""
    heats = (0.1, 0.3, 0.5, 0.7, 1.0, 2.0, 4.0)
    rolled = [np.minimum(softmax(TARGET, one), softmax(DRAFT, one)).sum() for one in heats]
    favourite = [softmax(TARGET, one)[int(np.argmax(DRAFT))] for one in heats]
    assert failing.over_temperatures("rolled", TARGET, DRAFT, heats) == pytest.approx(rolled, abs=1e-9)
    assert failing.over_temperatures("favourite", TARGET, DRAFT, heats) == pytest.approx(favourite, abs=1e-9)
    assert [round(value, 2) for value in rolled] == [0.95, 0.73, 0.66, 0.66, 0.72, 0.87, 0.94]
    assert [round(value, 2) for value in favourite] == [1.0, 1.0, 0.96, 0.88, 0.74, 0.47, 0.32]
    found = lesson("fails")
    assert found.right == {"predict": {"dip"}, "check": {"lone"}}
    assert f"overlap by {rolled[1]:.0%}" in heat.bars(TARGET, DRAFT, 0.3, WORDS).title


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([3, 2, 1], "falls"),
        ([1, 2, 2, 3], "rises"),
        ([3, 1, 1, 2], "dips"),
        ([1, 3, 2], "peaks"),
        ([1, 3, 2, 3], "other"),
        ([1.0, 0.999, 1.0], "other"),
        ([3, 1, 2, 1], "other"),
    ],
)
def test_tendencies(values: list[float], said: str) -> None:
    assert failing.tendency(values) == said


@pytest.mark.parametrize(("shown", "field"), [("speedup", "speedup"), ("worst", "speedup_low")])
def test_the_matrix_shows_every_cell_and_marks_those_that_lose(shown: str, field: str) -> None:
    html = fails_matrix.table(shown, WORDS)
    rows = re.findall(r"<tr role='row'><th scope='row' role='rowheader'>(.*?)</th>(.*?)</tr>", html)
    groups = RAW["figures"]["groups"]
    assert len(rows) == len(groups)
    for (_, cells), group in zip(rows, groups.values(), strict=True):
        said = re.findall(r"<td class='(\w+)'.*?</span> ([\d.]+)×</td>", cells)
        values = [lane[field] for lane in group["lanes"].values()]
        assert [float(number) for _, number in said] == [
            pytest.approx(value, abs=0.00501) for value in values
        ]
        for (kind, _), value in zip(said, values, strict=True):
            assert kind == ("faster" if value > 1.005 else "slower" if value < 0.995 else "same")
    lost = sum(lane[field] < 0.995 for group in groups.values() for lane in group["lanes"].values())
    assert html.count("▼</span>") == lost == failing.cells_lost(shown)
    assert failing.cells_measured() == sum(len(group["lanes"]) for group in groups.values())


def test_unknown_names_are_shown_as_they_are_and_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured.name("text", "<b>new</b>", WORDS) == "<b>new</b>"
    assert measured.name("lane", "eagle", WORDS) == "EAGLE head"
    for group, lane in itertools.product(RAW["figures"]["groups"], measured.figures().lanes):
        assert measured.name("text", group, WORDS) != group and measured.name("lane", lane, WORDS) != lane
    cell = measured.KindFigures(1.0, 1.0, 1.0, 1.0, None, 1)
    odd = replace(measured.figures(), cells={"<b>new</b>": {"<i>own</i>": cell}})
    monkeypatch.setattr(measured, "figures", lambda: odd)
    html = fails_matrix.table("alpha", WORDS)
    assert "&lt;b&gt;new" in html and "&lt;i&gt;own" in html and "<b>" not in html and "<i>" not in html
    assert "class='none'" in html


def by_hand(tokens: int, batch: int, context: int, model: str) -> float:
    """Seconds of a pass on the modelled card, from its data sheet and the model's shape alone."""
    one = shape(model)
    card = json.loads((reading.FOLDER.parent / "profiles" / "h100-sxm.json").read_text(encoding="utf-8"))
    seen = context + tokens
    moved = 2 * (one.read + batch * seen * one.kv_numbers) / card["bytes_per_s"]
    products = batch * tokens * (2 * one.read + 4 * one.layers * one.heads * one.head_dim * seen)
    return max(moved, products / card["flops_per_s"]) + 10 * one.layers * card["kernel_s"]


def prompt_by_hand(tokens: int, model: str) -> float:
    """The same for a prompt, token by token: each sees those before it and itself, the last alone gets logits."""
    one = shape(model)
    card = json.loads((reading.FOLDER.parent / "profiles" / "h100-sxm.json").read_text(encoding="utf-8"))
    moved = 2 * (one.read + tokens * one.kv_numbers) / card["bytes_per_s"]
    products = 2 * one.width * one.vocabulary
    for seen in range(1, tokens + 1):
        products += (
            2 * (one.read - one.width * one.vocabulary) + 4 * one.layers * one.heads * one.head_dim * seen
        )
    return max(moved, products / card["flops_per_s"]) + 10 * one.layers * card["kernel_s"]


@pytest.mark.parametrize(("batch", "context"), [(1, 512), (64, 128), (512, 512)])
def test_a_crowd_on_the_roofline_by_hand(batch: int, context: int) -> None:
    rounds = trace("prompt-lookup").rounds
    seconds = sum(by_hand(row.width, batch, context, "8B") for row in rounds)
    plain = sum(len(row.committed.token) for row in rounds) * by_hand(1, batch, context, "8B")
    assert failing.crowd_speedup("prompt-lookup", "h100-sxm", batch, context) == pytest.approx(
        plain / seconds
    )
    found = lesson("fails").facts
    assert found["full"] < 1 < found["alone"]


def test_long_texts_bring_some_of_it_back_and_what_does_not_fit_is_reported() -> None:
    short, long = (failing.crowd("eagle", "h100-sxm", 128, context) for context in (128, 2_048))
    assert short is not None and long is not None and long > short
    assert failing.crowd("eagle", "h100-sxm", 512, 32_768) is None
    with pytest.raises(ValueError, match="do not fit"):
        failing.crowd_speedup("eagle", "h100-sxm", 512, 32_768)
    with pytest.raises(ValueError, match="There is no machine “abacus”"):
        failing.machines("abacus")


@pytest.mark.parametrize("language", ["en", "de"])
def test_beside_the_model_is_what_was_measured(language: str) -> None:
    """Catches: a figure of the lesson that is not the file's, an interval of another batch, a measurement that does not
    say of which machine, and when."""
    words, found = Words(language, reading.FOLDER), batches.read()
    chart = crowd.together(CROWD, words)
    points, expected, *_ = chart.figure.data
    lane = found.lanes[0]
    assert list(points.y) == [one.speedup for one in lane.batches]
    assert [y - minus for y, minus in zip(points.y, points.error_y.arrayminus, strict=True)] == pytest.approx(
        [one.low for one in lane.batches]
    )
    assert list(expected.y) == [one.expected for one in lane.batches] and points.name != expected.name
    assert found.machine in chart.provenance and found.date[:10] in chart.provenance
    facts = lesson("fails").facts
    of = found.of("draft-model")
    assert of is not None and (facts["one"], facts["many"]) == tuple(
        one.speedup for one in of.batches if one.batch in (1, 16)
    )
    with pytest.raises(ValueError, match="was not measured with 3 requests"):
        failing.served_speedup("draft-model", 3)


def test_a_proposer_looks_alike_in_both_charts_and_each_says_whether_it_is_modelled() -> None:
    """Catches: an orange diamond that is Medusa above and prompt lookup below."""
    picture = lesson("fails").front.explain.picture
    assert picture is not None
    given = crowd.With.model_validate(picture.given)
    above, below = crowd.lines(given, 1, 512, WORDS), crowd.together(given, WORDS)
    styles: dict[tuple[str, str], set[str]] = {}
    for line in [*above.figure.data, *below.figure.data]:
        if line.mode == "lines+markers":
            name = re.split(r" ·|,", line.name)[0]
            styles.setdefault((line.line.color, line.marker.symbol), set()).add(name)
    assert all(len(names) == 1 for names in styles.values()) and len(styles) == 4
    assert above.title.startswith("Modelled") and below.title.startswith("Measured")
    assert all(measured.name("lane", lane.proposer, WORDS) in below.title for lane in batches.read().lanes)


def test_the_first_token_comes_later() -> None:
    """Catches: a first token that has to wait for a round of guesses, which in a serving engine it does not; logits of
    the whole prompt, attention to later tokens."""
    plain = prompt_by_hand(1000, "8B")
    guessed = plain + prompt_by_hand(1000, "1B")
    assert failing.first_token_ratio("h100-sxm", 1000) == pytest.approx(guessed / plain)
    assert failing.first_token_ratio("h100-sxm", 1000, False) == 1.0
    assert 1 < lesson("fails").facts["first"] < 1.2


def test_lines_that_are_compared_are_of_one_prompt() -> None:
    """Catches: a proposer that wins because it was recorded on another text."""
    with pytest.raises(ValueError, match="one prompt"):
        crowd.With(examples=["prompt-lookup", "eagle"])
    picture = lesson("fails").front.explain.picture
    assert picture is not None
    given = crowd.With.model_validate(picture.given)
    prompt = trace(given.examples[0]).header.prompt
    assert all(trace(example).header.prompt == prompt for example in given.examples)
    assert str(prompt) in crowd.lines(given, 1, 512, WORDS).provenance


def test_a_draft_made_ahead_is_exact_at_temperature_zero_alone() -> None:
    """Catches: α^(γ+1) said of sampling, where the token after the guesses has to be drawn the same."""
    facts = lesson("overlap").facts
    assert facts["agreed"] == pytest.approx(1.0) and facts["matched"] == pytest.approx(0.01)
    assert "temperature zero" in lesson("overlap").sections["explain"].prose
    assert "temperature 0" in WORDS("overlap-gantt.expected") and "temperature 0" in WORDS(
        "overlap-gantt.modelled"
    )


# --- 12: the sandbox -------------------------------------------------------------------------------------------------


def test_the_figures_were_measured_with_the_lengths_that_are_assumed() -> None:
    from training.results import figures

    gammas = {each.name: each.settings.draft_length for each in figures.LANES}
    assert gammas[made.LOOKUP] == made.LOOKUP_LENGTH
    assert {gammas[lane] for lane in made.CHAINS if lane in gammas} == {made.GAMMA} == {figures.GAMMA}
    gammas |= {each.name: each.settings.draft_length for each in figures.LATER}
    known = {*made.CHAINS, *made.WIDE, made.LOOKUP, made.EAGLE3, made.PARALLEL}
    assert set(gammas) | {"early-exit"} == known == set(workshop.ORDER) - {"plain"}
    assert all(each.settings.options == {} for each in figures.LATER)
    for group, cells in RAW["figures"]["groups"].items():
        assert {each.lane for each in made.designs(group)} == {"plain", *cells["lanes"]}


def test_chains_by_the_formulas_as_they_are_written() -> None:
    figures, group = RAW["figures"], "story"
    alpha = figures["groups"][group]["lanes"]["draft-model"]["alpha"]
    curve = dict(
        zip(figures["curves"]["usual"]["widths"], figures["curves"]["usual"]["seconds"], strict=True)
    )
    cost = RAW["parameters"]["draft"] / RAW["parameters"]["target"]
    for gamma in (1, 2, 4, 8):
        tokens = sum(alpha**depth for depth in range(gamma + 1))
        assert made.design_work(group, "draft-model", gamma) == pytest.approx(
            (gamma * cost + gamma + 1) / tokens
        )
        speed = tokens * curve[1] / (gamma * figures["curves"]["usual"]["draft_s"] + curve[gamma + 1])
        if gamma + 1 in curve:
            assert made.design_speed(group, "draft-model", gamma) == pytest.approx(speed)


def test_the_sandbox_says_how_far_its_model_is_from_what_was_measured() -> None:
    """Modelled by the formula as it is written; measured as the matrix of lesson 11 shows it."""
    figures = RAW["figures"]
    lane, curve = figures["groups"]["story"]["lanes"]["draft-model"], figures["curves"]["usual"]
    seconds = dict(zip(curve["widths"], curve["seconds"], strict=True))
    tokens = sum(lane["alpha"] ** depth for depth in range(5))
    line = tokens * seconds[1] / (4 * curve["draft_s"] + seconds[5])
    prose = lesson("sandbox").sections["change"].prose
    assert f"γ = 4 is shown at {line:.2f}×" in prose and f"reached {lane['speedup']:.2f}×" in prose
    assert f" {lane['speedup']:.2f}×" in fails_matrix.table("speedup", WORDS)
    assert lesson("fails").front.title in prose


def test_wide_proposals_cost_what_their_recorded_rounds_read() -> None:
    """Lookahead runs no draft: a round's operations are its width. Medusa adds its heads and the output matrix."""
    tau = RAW["figures"]["groups"]["code"]["lanes"]["lookahead"]["tokens_per_pass"]
    rounds = trace("lookahead").rounds
    width = sum(row.width for row in rounds) / len(rounds)
    assert made.design_work("code", "lookahead") == pytest.approx(width / tau)
    rows, header = trace("medusa").rounds, trace("medusa").header
    heads = sum(part.parameters for part in header.heads) / header.target.parameters
    home = json.loads(
        (reading.FOLDER.parent / "profiles" / "amd-epyc-2-cores.json").read_text(encoding="utf-8")
    )
    output = home["target"]["width"] * home["target"]["vocabulary"] / home["target"]["parameters"]
    mean = sum(row.width + row.draft_passes * (heads + output) for row in rows) / len(rows)
    tau = RAW["figures"]["groups"]["code"]["lanes"]["medusa"]["tokens_per_pass"]
    assert made.design_work("code", "medusa") == pytest.approx(mean / tau, rel=1e-6)


def test_the_rounds_that_are_priced_were_recorded_as_they_were_measured() -> None:
    """Catches: the arithmetic of another tree than the one whose speed is shown."""
    for lane in (*made.WIDE, made.PARALLEL):
        assert trace(lane).header.settings["options"] == {}


def test_a_parallel_draft_costs_its_own_size_and_eagle3_what_its_tree_can_read() -> None:
    """Catches: the parallel draft priced as the small one; a bound that leaves out what the head reads."""
    cells = RAW["figures"]["groups"]["story"]["lanes"]
    recorded = trace("parallel-draft")
    draft = recorded.header.draft
    assert draft is not None
    share = draft.parameters / recorded.header.target.parameters
    rounds = recorded.rounds
    mean = sum(row.width + share * int(row.note.get("draft_read", 0)) for row in rounds) / len(rounds)
    assert made.design_work("story", "parallel-draft") == pytest.approx(
        mean / cells["parallel-draft"]["tokens_per_pass"]
    )
    header = trace("eagle3").header
    head = header.heads[0].parameters / header.target.parameters
    found, tau = made.design("story", "eagle3"), cells["eagle3"]["tokens_per_pass"]
    assert found.least == pytest.approx((17 + (1 + 16) * head) / tau)
    assert found.most == pytest.approx((17 + (tau + 16) * head) / tau)


def test_bounds_of_a_lookup_hold_whatever_was_proposed() -> None:
    """Rounds with proposals of any length up to ten: what was truly read lies between the bounds."""
    random_numbers = random.Random(3)
    for _ in range(200):
        chance, finds = random_numbers.random(), random_numbers.random()
        read = kept = refused = 0
        for _ in range(50):
            length = random_numbers.randint(1, 10) if random_numbers.random() < finds else 0
            passed = next((at for at in range(length) if random_numbers.random() >= chance), length)
            read, kept, refused = read + length, kept + passed, refused + (passed < length)
        if not kept:
            continue
        tau = 1 + kept / 50
        cell = measured.KindFigures(1.0, 1.0, 1.0, tau, kept / (kept + refused), 1)
        least, most = made._lookup(cell)
        assert least - 1e-9 <= (1 + read / 50) / tau <= most + 1e-9


def test_the_fastest_within_a_limit_is_found_and_named() -> None:
    for group, limit in itertools.product(RAW["figures"]["groups"], (0.0, 0.5, 3.0)):
        best = made.within(group, limit)
        allowed = [each for each in made.designs(group) if each.most <= 1 + limit]
        assert best in allowed and all(each.speed <= best.speed for each in allowed)
    assert made.fastest_kind("story", 0.0) == "plain"
    found = lesson("sandbox")
    assert found.right["predict"] == {made.within("story", 0.5).kind}
    assert found.right["check"] == {made.within("story", 0.1).kind}
    with pytest.raises(ValueError, match="Nothing was measured on “opera”"):
        made.designs("opera")


def test_a_design_is_said_to_be_over_unsure_within_or_best() -> None:
    def said(mine: made.Design) -> str:
        return workshop.verdict(mine, best, 0.5, WORDS)[-60:]

    best = made.Design("draft-model", 2, 1.6, 1.4, 1.4, modelled=True)
    assert "nothing within it is faster" in said(best)
    assert "something faster" in said(made.PLAIN)
    assert "over the limit" in workshop.verdict(
        made.Design("eagle", 0, 2.0, 4.0, 4.0, False), best, 0.5, WORDS
    )
    assert "may be over" in workshop.verdict(
        made.Design("prompt-lookup", 0, 2.0, 1.2, 4.0, False), best, 0.5, WORDS
    )


def test_the_race_holds_two_to_four_lossless_lanes_that_compare_understands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(made, "designs", cache(made.designs))  # worked out anew for every design otherwise
    for group in RAW["figures"]["groups"]:
        for mine in made.designs(group):
            raced = parse_qsl(workshop.race(group, mine, 0.5))
            texts = [text for key, text in raced if key == "lane"]
            found, complaints = lanes.from_address(texts)
            assert complaints == [] and 1 <= len(texts) <= 3 and len(found) == len(texts)
            assert {key for key, _ in raced} <= {"lane", "preset", "temperature"}
            assert all(RULES[lane.settings(Settings()).rule].lossless for lane in found)
    assert workshop.prompt("code") == [
        ("preset", next(each.presets[0].id for each in presets.families() if each.name == "code"))
    ]
    assert workshop.prompt("conversions")[0][1].startswith("copy/")
    assert (
        workshop.prompt("poem, temperature 1")[1] == ("temperature", "1") and workshop.prompt("opera") == []
    )
    larger = made.design("code", "draft-model, larger", 3)
    assert workshop.as_lane(larger).options == {"draft": "larger"} and workshop.as_lane(larger).gamma == 3


# --- the page --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "secrets"),
    [
        ("length", ["3.69", "54%"]),
        ("overlap", ["1.60×", "longer of both times"]),
        ("fails", ["95%", "look alike"]),
        ("sandbox", ["the wall is the limit"]),
    ],
)
def test_every_step_of_a_lesson_is_drawn_and_nothing_is_given_away_before_the_prediction(
    key: str, secrets: list[str]
) -> None:
    at = page(lesson=key)
    before = sent(at)
    assert not any(secret in before for secret in secrets)
    at = predict(at, lesson(key))
    after = sent(at)
    for step in STEPS[2:]:
        at = press(at, "course-next")
        after += sent(at)
        assert at.query_params["at"] in (step, [step])
    assert all(secret in after for secret in secrets)


def test_what_is_written_is_kept_cut_and_taken_home() -> None:
    at = page(lesson="sandbox")
    at = predict(at, lesson("sandbox"))
    for _ in range(2):
        at = press(at, "course-next")
    field = at.text_area(key="course-sandbox-explain-note")
    field.set_value("A short chain.\x00\n**Cheap** and <b>quick</b>.").run()
    kept = at.session_state[progress.STORE]
    assert kept.notes["sandbox"] == "A short chain.\n**Cheap** and <b>quick</b>."
    assert json.loads(progress.as_json(kept))["notes"] == kept.notes
    assert not any("quick" in element.value for element in (*at.markdown, *at.caption))
    at.session_state["course-sandbox-explain-note"] = "x" * 5_000
    at = press(at, "course-back")
    at = press(at, "course-next")
    assert at.text_area(key="course-sandbox-explain-note").value == kept.notes["sandbox"]
    at.text_area(key="course-sandbox-explain-note").set_value("  ").run()
    assert "sandbox" not in at.session_state[progress.STORE].notes


def test_a_note_is_no_longer_than_allowed() -> None:
    teach_back.keep("sandbox", "y" * (teach_back.MAX_CHARS + 50))
    assert len(progress.here().notes["sandbox"]) == teach_back.MAX_CHARS


def test_the_workshop_answers_to_its_controls() -> None:
    workshop = picture("sandbox", "change")
    assert not [part for part in workshop.parts() if isinstance(part, Choice) and part.name == "gamma"]
    shown = written(workshop.parts({"lane": "draft-model", "gamma": 1}))
    assert f"{made.design_work('story', 'draft-model', 1):.2f}× the arithmetic" in shown


@pytest.mark.parametrize("key", LESSONS)
def test_the_way_on_leads_to_an_address_that_the_page_understands(key: str) -> None:
    lab = lesson(key).front.lab
    settings = {
        name: [str(each) for each in (value if isinstance(value, list) else [value])]
        for name, value in lab.settings.items()
    }
    assert "preset" not in settings or presets.find(settings["preset"][-1]) is not None
    if lab.page == "compare":
        assert lanes.from_address(settings.pop("lane"))[1] == []
    assert page_settings.read(settings, (*form.TABLE, *lanes.table()), lanes.TABLES)[1] == []


def test_a_projected_chart_has_larger_letters_and_the_same_figures() -> None:
    small = length_surface.surface(0.8, 0.05, 0.0, WORDS).figure
    large = projector.enlarged(small)
    numbers, larger = (
        next(each for each in figure.data if each.type == "scatter" and each.mode == "text")
        for figure in (small, large)
    )
    assert larger.textfont.size > 1.5 * numbers.textfont.size
    star, other = (
        next(each for each in figure.data if each.type == "scatter" and each.marker.symbol == "star")
        for figure in (small, large)
    )
    assert other.marker.size > star.marker.size and (other.x, other.y) == (star.x, star.y)
    assert large.data[1].contours.size == small.data[1].contours.size  # the step between levels, no letter
    sizes = projector.enlarged(crowd.lines(CROWD, 4, 512, WORDS).figure).data[0].marker.size
    assert max(sizes) > 17 and len(sizes) == len(crowd.BATCHES)


def test_no_name_of_ours_is_taken_twice() -> None:
    assert {"speedup_sloped", "overlap_gain", "crowd_speedup", "fastest_kind"} <= functions().keys()
