"""Acceptance rules in the course: exact figures by hand, the dial's two meters, and the lesson's own answers."""

from __future__ import annotations

import math
from itertools import pairwise, product

import pytest
from pydantic import ValidationError

from app.course.facts import rules
from app.course.files import reading
from app.course.files.lesson import Lesson
from app.course.files.words import Words
from app.course.pictures.odds import dial
from specdec_core.record.trace import Trace

from .gallery import picture, written

WORDS = Words("en", reading.FOLDER)
LOSSLESS, LOSSY = "lossless: the distribution", "lossy: other"
P = [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.6, 0.2, 0.2], [0.1, 0.2, 0.7]]
Q = [[0.6, 0.3, 0.1], [0.45, 0.35, 0.2], [0.3, 0.6, 0.1], [0.4, 0.3, 0.3]]


@pytest.fixture(scope="module")
def lesson() -> Lesson:
    found, problems = reading.read("en", "rules")
    assert found is not None, problems
    return found


@pytest.fixture(scope="module")
def given(lesson: Lesson) -> dial.With:
    return dial.With.model_validate(lesson.front.change.given)


def rounds_by_hand(p: list, q: list, gamma: int, stop: float) -> tuple[float, float, float]:
    """Drafted, judged and accepted guesses of speculative sampling, summed over every text."""
    drafted = judged = accepted = 0.0
    for text in product(range(len(p[0])), repeat=gamma):
        rows = [0, *(token + 1 for token in text)]
        drawn = [q[row][token] for row, token in zip(rows, text, strict=False)]
        wanted = [p[row][token] for row, token in zip(rows, text, strict=False)]
        chance = 1.0
        for value in drawn:
            chance *= value
        length = next((at for at, value in enumerate(drawn, 1) if value < stop), gamma)
        drafted += chance * length
        for at in range(length):
            judged += chance
            chance *= min(1.0, wanted[at] / drawn[at])
            accepted += chance
    return drafted, judged, accepted


@pytest.mark.parametrize("stop", [0.0, 0.15, 0.35, 1.0])
def test_stops_are_what_summing_every_text_gives(stop: float) -> None:
    drafted, judged, accepted = rounds_by_hand(P, Q, 2, stop)
    assert rules.stop_drafted(P, Q, 2, stop) == pytest.approx(drafted)
    assert rules.stop_acceptance(P, Q, 2, stop) == pytest.approx(accepted / judged)
    assert rules.stop_tokens(P, Q, 2, stop) == pytest.approx(1 + accepted)
    assert rules.stop_speedup(P, Q, 2, stop, 0.2) == pytest.approx((1 + accepted) / (1 + 0.2 * drafted))
    assert rules.stop_distance(P, Q, 2, stop) < 1e-12


def test_one_guess_under_each_rule_by_hand() -> None:
    """γ = 1 at the root. Ensemble: off by (1 − w) TV(p, q). A bar on p of 0.25: the third word never passes, so it is
    written with q₂ p₂ alone. All kept: off by TV(p, q)."""
    off = 0.5 * sum(abs(one - other) for one, other in zip(P[0], Q[0], strict=True))
    assert rules.rule_distance("ensemble", {"weight": 0.4}, P, Q, 1) == pytest.approx(0.6 * off)
    barred = [Q[0][0] + Q[0][2] * P[0][0], Q[0][1] + Q[0][2] * P[0][1], Q[0][2] * P[0][2]]
    assert rules.rule_distance("confidence", {"threshold": 0.25}, P, Q, 1) == pytest.approx(
        0.5 * sum(abs(one - other) for one, other in zip(barred, P[0], strict=True))
    )
    assert rules.rule_acceptance("confidence", {"threshold": 0.25}, P, Q, 1) == pytest.approx(0.9)
    assert rules.rule_tokens("confidence", {"threshold": 0.1}, P, Q, 1) == pytest.approx(2)
    assert rules.rule_distance("confidence", {"threshold": 0.1}, P, Q, 1) == pytest.approx(off)


def test_tables_that_are_no_distributions_are_refused() -> None:
    with pytest.raises(ValueError, match="add up"):
        rules.rule_tokens("typical", {}, [[0.5, 0.6], [0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5]] * 3, 1)
    with pytest.raises(ValueError, match="rows"):
        rules.rule_tokens("typical", {}, [[0.5, 0.5]], [[0.5, 0.5]], 1)
    with pytest.raises(ValueError, match="weight"):
        rules.rule_tokens("ensemble", {"weight": 7}, P, Q, 1)


def test_the_lesson_s_answers_by_hand(lesson: Lesson) -> None:
    """What the question tells is so: more is accepted, it is slower, less is drafted, and nothing is lost."""
    facts = lesson.facts
    p, q, gamma = facts["p"], facts["q"], facts["gamma"]
    before, after = rounds_by_hand(p, q, gamma, 0.0), rounds_by_hand(p, q, gamma, facts["doubt"])
    assert facts["before"] == pytest.approx(before[2] / before[1])
    assert facts["after"] == pytest.approx(after[2] / after[1]) and facts["after"] > facts["before"] + 0.1
    assert facts["fast"] == pytest.approx((1 + before[2]) / (1 + facts["cost"] * before[0]))
    assert facts["slow"] == pytest.approx((1 + after[2]) / (1 + facts["cost"] * after[0]))
    assert facts["slow"] < facts["fast"] and after[0] < before[0]
    assert lesson.right == {"predict": {"speed", "tokens"}, "check": {"target"}}
    assert facts["tokens_after"] < facts["tokens_before"] and facts["stop_off"] < 1e-12
    assert facts["draft_side"] < 1e-12 and facts["target_side"] > 0.1 and facts["dropped"] > 0.1
    assert set(lesson.front.check.mistakes.values()) == {"M2", "M5"}


def test_a_strict_lossy_rule_loses_twice(lesson: Lesson, given: dial.With) -> None:
    """What the text of `change` promises can be found on the dial: off the target's distribution, and below speculative
    sampling."""
    plain = dial.at_dial(given, rules.EXACT, (), 0.0)
    both = [
        found
        for name in dial.LOSSY
        for options in dial.KNOBS[name]
        if (found := dial.at_dial(given, name, options, 0.0)).distance > 0.05 and found.tokens < plain.tokens
    ]
    assert both
    assert lesson.facts["strict_tokens"] < plain.tokens == pytest.approx(lesson.facts["tokens_before"])


def test_the_meters_move_in_opposite_directions(given: dial.With) -> None:
    """Along the ensemble's knob both grow at every step: more tokens, farther from the target's distribution. At w = 1
    it is exact."""
    path = [dial.at_dial(given, "ensemble", options, 0.0) for options in dial.KNOBS["ensemble"]]
    assert path[0].distance < 1e-12
    for strict, lenient in pairwise(path):
        assert lenient.tokens > strict.tokens and lenient.distance > strict.distance


def test_costly_guesses_make_the_stop_pay(lesson: Lesson) -> None:
    """What `watch` asks: at the lowest cost on the dial stopping loses, at the highest it wins."""
    given = dial.With.model_validate(lesson.front.watch.given)
    found = [dial.at_dial(given, rules.EXACT, (), stop) for stop in given.stops]
    cheap = [each.speedup(given.costs[0]) for each in found]
    costly = [each.speedup(given.costs[-1]) for each in found]
    assert max(cheap) == cheap[0] and max(costly) > costly[0]
    assert [each.acceptance for each in found] == sorted(each.acceptance for each in found)


def test_the_meters_say_lossless_only_where_it_is(given: dial.With) -> None:
    exact = dial.meters(dial.at_dial(given, rules.EXACT, (), 0.0), given, 0.1, WORDS)
    loose = dial.meters(dial.at_dial(given, "ensemble", (("weight", 0.5),), 0.0), given, 0.1, WORDS)
    assert LOSSLESS in exact and LOSSY not in exact and "<b>0.00</b>" in exact
    assert LOSSY in loose and LOSSLESS not in loose


def test_words_reach_the_page_as_text(given: dial.With) -> None:
    strange = given.model_copy(update={"words": ["<script>", "a", "b", "c"]})
    shown = dial.first_word(dial.at_dial(strange, rules.EXACT, (), 0.0), strange, WORDS)
    assert "<script>" not in shown and "&lt;script&gt;" in shown


def test_on_the_record_it_is_the_record_itself(given: dial.With) -> None:
    """The rule that was used reproduces the record; a lenient ensemble lets other guesses pass than it did."""
    assert given.example is not None
    found = rules.judged_again(given.example, rules.EXACT, ())
    trace: Trace = rules.trace(given.example)
    assert found.tokens_per_pass == pytest.approx(trace.stats.tokens / len(trace.rounds))
    assert "accept the same guesses" in dial.on_record(given.example, rules.EXACT, (), WORDS)
    lenient = rules.judged_again(given.example, "ensemble", (("weight", 0.01),))
    assert lenient.tokens_per_pass > found.tokens_per_pass
    assert "instead of" in dial.on_record(given.example, "ensemble", (("weight", 0.01),), WORDS)


def test_charts_say_what_they_show(given: dial.With) -> None:
    chart = dial.plane(given, "typical", dial.KNOBS["typical"][0], 0.0, WORDS)
    assert [trace.name for trace in chart.figure.data][:3] == [WORDS(f"dial.{name}") for name in dial.LOSSY]
    assert "total variation" in chart.provenance and chart.alt
    chart = dial.pace(given, 0.0, 0.1, WORDS)
    assert all(
        text.startswith("\u2003") for text in chart.figure.data[0].text
    )  # beside the ring around the one in use
    assert len(chart.figure.data[0].x) == len(given.stops)


def test_what_a_lesson_may_not_ask_of_it(given: dial.With) -> None:
    good = given.model_dump()
    for wrong in (
        {"words": ["one", "two"]},
        {"p": [[1.0]]},
        {"gamma": 9},
        {"controls": ["volume"]},
        {"example": "nothing"},
        {"costs": []},
    ):
        with pytest.raises(ValidationError):
            dial.With.model_validate(good | wrong)


def test_turning_the_dial() -> None:
    """From the locked prediction to the target's side: a lossless start, then a lossy rule says so."""
    assert LOSSLESS in written(picture("rules", "watch").parts({"stop": 1}))
    change = picture("rules", "change")
    assert LOSSLESS in written(change.parts())
    loose = written(change.parts({"rule": "ensemble"}))
    assert LOSSY in loose and LOSSLESS not in loose
    assert LOSSLESS in written(
        change.parts({"rule": "ensemble", "knob-ensemble": 0})
    )  # w = 1 is the exact rule


def test_a_target_cut_off_at_the_threshold_by_hand(given: dial.With) -> None:
    """One guess on one row: p without its last two tokens is (4/7, 3/7, 0, 0), so it keeps 0.7 of the guesses; a
    threshold above all tokens keeps the likeliest. Catches: a row that is not made whole again, a distance from the cut
    target instead of the whole one, the other rule's threshold."""
    rows = tuple(tuple(given.p[0]) for _ in given.p)
    found = rules.cut_target(rows, rows, 1, "confidence", (("threshold", 0.3),))
    assert found.first == pytest.approx((4 / 7, 3 / 7, 0, 0))
    # kept (0.7) and followed by the cut target, or corrected (0.3) and followed by p, against p twice
    assert found.distance == pytest.approx(0.7 + 0.3 * 0.7 - 0.7**2)
    alone = rules.cut_target(rows, rows, 1, "confidence", (("threshold", 0.99),))
    assert alone.first == pytest.approx((1, 0, 0, 0))
    entropy = -sum(x * math.log(x) for x in rows[0])
    bar = 0.5 * math.exp(-entropy)
    assert 0.1 < bar < 0.2
    typical = rules.cut_target(rows, rows, 1, "typical", (("epsilon", 1.0), ("delta", 0.5)))
    assert typical.first == pytest.approx((4 / 9, 3 / 9, 2 / 9, 0))


@pytest.mark.parametrize("rule", ["typical", "confidence"])
def test_both_ways_of_leaving_out_unlikely_tokens_are_shown(given: dial.With, rule: str) -> None:
    """Catches: a dotted path that is missing, or drawn for a rule without a threshold."""
    words = Words("en", reading.FOLDER)
    chart = dial.plane(given, rule, dial.KNOBS[rule][1], 0.0, words)
    (drawn,) = [one for one in chart.figure.data if one.name == words("dial.cut")]
    there = dial.at_cut(given, rule, dial.KNOBS[rule][1])
    assert (drawn.x[1], drawn.y[1]) == pytest.approx((there.distance, there.tokens))
    other = dial.plane(given, "ensemble", dial.KNOBS["ensemble"][1], 0.0, words)
    assert words("dial.cut") not in [one.name for one in other.figure.data]
