"""Advice: exact where it can be, against scipy's own tests, and never sure of what is luck."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from scipy import stats

from specdec_core.foundations.errors import SettingsError
from specdec_measure.analysis import advice
from specdec_measure.sweep.measured import MeasuredCase

LABELS = ["Plain", "Draft", "Lookup"]


def rows(speeds: dict[int, list[float]], prompts: bool = True, tokens: int = 64) -> list[MeasuredCase]:
    """Cells of the given tokens per second: one prompt each, or repeats of one."""
    return [
        MeasuredCase(
            family="story",
            name=f"prompt {case}" if prompts else "one",
            lane=lane,
            label=LABELS[lane],
            repeat=0 if prompts else case,
            tokens=tokens,
            seconds=tokens / speed,
        )
        for lane, column in speeds.items()
        for case, speed in enumerate(column)
    ]


@pytest.mark.parametrize(("wins", "losses"), [(0, 0), (1, 0), (5, 0), (6, 0), (9, 1), (5, 5), (13, 4)])
def test_the_sign_test_is_the_exact_binomial_one(wins: int, losses: int) -> None:
    tosses = wins + losses
    expected = stats.binomtest(wins, tosses, 0.5).pvalue if tosses else 1.0
    assert advice.sign_test(wins, losses) == pytest.approx(expected)


def test_ratio_and_interval_are_those_of_the_pairs() -> None:
    """The estimate is the geometric mean of paired ratios; scipy's bootstrap of the same means finds the interval."""
    rng = random.Random(4)
    second = [rng.uniform(50, 500) for _ in range(24)]  # prompts differ tenfold, which pairing takes out
    first = [speed * math.exp(rng.gauss(0.25, 0.1)) for speed in second]
    pair = advice.compare(first, second)
    logs = [math.log(a / b) for a, b in zip(first, second, strict=True)]
    reference = stats.bootstrap(
        (logs,), lambda x, axis: x.mean(axis=axis), method="percentile", n_resamples=20_000, rng=1
    ).confidence_interval
    assert pair.ratio == pytest.approx(math.exp(sum(logs) / 24))
    assert pair.low == pytest.approx(math.exp(reference.low), rel=0.01)
    assert pair.high == pytest.approx(math.exp(reference.high), rel=0.01)
    assert pair.wins == sum(log > 0 for log in logs)
    assert pair.clear


def test_no_difference_is_seldom_called_one() -> None:
    """400 pairs of equal lanes: a false alarm at 5% each would be 20; more than 36 has a chance below 1 in 1,000."""
    rng = random.Random(7)
    alarms = sum(
        advice.compare([rng.lognormvariate(0, 0.2) for _ in range(10)], [1.0] * 10).clear for _ in range(400)
    )
    assert alarms <= 36


def test_a_clear_winner_is_named_with_its_counts() -> None:
    plain = [100.0, 110, 90, 100, 95, 105, 100, 98, 102, 100]
    draft = [
        speed * factor
        for speed, factor in zip(plain, [1.3, 1.2, 1.4, 1.3, 1.5, 0.9, 1.3, 1.2, 1.4, 1.3], strict=True)
    ]
    found = advice.advise(rows({0: plain, 1: draft}), LABELS)
    assert found is not None
    assert (found.best, found.unit, found.clear) == (1, "prompt", True)
    pair = found.pairs[0]
    assert (pair.wins, pair.cases) == (9, 10)
    assert found.answer == "Draft is clearly faster than Plain."
    assert found.lines == [
        f"Draft against Plain: {pair.ratio:.2f}× (95% interval {pair.low:.2f} to {pair.high:.2f}), "
        "faster on 9 of 10 prompts; clear."
    ]
    assert found.notes == "The ratios are geometric means over the prompts."
    assert found.text == f"{found.answer}\n- {found.lines[0]}\n{found.notes}"


def test_the_third_lane_that_is_too_close_is_said_to_be_so() -> None:
    plain = [100.0 + case for case in range(8)]
    draft = [speed * 1.5 for speed in plain]
    lookup = [speed * (1.45 if case % 2 else 1.55) for case, speed in enumerate(plain)]
    found = advice.advise(rows({0: plain, 1: draft, 2: lookup}), LABELS)
    assert found is not None
    assert not found.clear
    clear = {pair.second: pair.clear for pair in found.pairs}
    assert clear[0] and not clear[3 - found.best]
    best = LABELS[found.best]
    assert found.answer == (
        f"No clear winner between Draft and Lookup; {best} was the fastest on average, and clearly faster than Plain."
    )
    assert found.lines[0].endswith("faster on all 8 prompts; clear.")
    assert found.lines[1].endswith("faster on 4 of 8 prompts; not clear, as it lost about as many as it won.")


def test_a_count_that_luck_explains_is_said_to_be_one() -> None:
    """Ahead in six of seven: 2 · (1 + 7) / 2⁷. Catches: "too few to tell" beside an interval that leaves out 1, and
    "not clear" beside it without a reason."""
    found = advice.advise(rows({0: [100.0] * 7, 1: [150.0] * 6 + [99.0]}, prompts=False), LABELS)
    assert found is not None and found.pairs[0].chance == pytest.approx(0.125)
    assert found.pairs[0].low > 1.0
    assert found.answer == "No clear winner between Plain and Draft; Draft was the fastest on average."
    assert found.lines[0].endswith(
        "faster in 6 of 7 repeats; not clear, as two equal lanes would be this one-sided in 12 of 100 tries."
    )
    assert "An interval above 1 is not enough for “clear”" in found.notes


def test_the_answer_comes_first_and_each_pair_has_a_line() -> None:
    """Catches: lanes strung together in one sentence, odds in a form that must be read twice, an unnamed mean."""
    found = advice.advise(rows({0: [100.0, 100], 1: [150.0, 150], 2: [140.0, 155]}), LABELS)
    assert found is not None
    assert found.text.splitlines() == [
        "Two prompts are too few to tell; at least six are needed. So far Draft was the fastest.",
        "- Draft against Plain: 1.50× (95% interval 1.50 to 1.50), faster on both prompts.",
        "- Draft against Lookup: 1.02× (95% interval 0.97 to 1.07), faster on 1 of 2 prompts.",
        "The ratios are geometric means over the prompts.",
    ]


def test_equal_lanes_are_called_equal_and_not_too_few_to_tell() -> None:
    """Catches: a lane that is "ahead" after losing most repeats, and seven that are "too few" for an equal result."""
    column = [101.0, 99, 102, 98, 99, 99, 110]
    found = advice.advise(rows({0: [50.0] * 7, 1: column, 2: [100.0] * 7}, prompts=False), LABELS)
    assert found is not None and found.pairs[1].wins == 3
    assert found.answer.startswith(
        "No clear winner between Draft and Lookup; Draft was the fastest on average"
    )
    assert found.lines[1] == (
        "Draft against Lookup: 1.01× (95% interval 0.99 to 1.04), faster in 3 of 7 repeats; not clear, as it lost "
        "about as many as it won."
    )
    assert "too few" not in found.text and "not enough" not in found.text


def test_one_case_has_no_interval() -> None:
    """Catches: "95% interval 1.11 to 1.11"."""
    found = advice.advise(rows({0: [100.0], 1: [111.0]}), LABELS)
    assert found is not None and found.lines == ["Draft against Plain: 1.11×, faster in the one repeat."]


def test_prompts_whose_texts_are_too_short_are_said_to_be_left_out() -> None:
    """Catches: a sweep of two prompts described as one prompt that was repeated."""
    cells = rows({0: [100.0, 100], 1: [150.0, 150]})
    short = [replace(cell, tokens=8) if cell.name == "prompt 1" else cell for cell in cells]
    found = advice.advise(short, LABELS)
    assert found is not None and found.unit == "prompt"
    assert "One prompt is too few" in found.answer and "same seed" not in found.notes
    assert "1 of 2 prompts is left out: a lane wrote fewer than 16 tokens there" in found.notes


def test_times_that_cannot_be_right_are_said_beside_the_advice() -> None:
    """Catches: a speedup marked as impossible in the table and used as evidence without a word below it."""
    cells = [
        replace(cell, tokens_per_pass=1.4 if cell.lane else 1.0)
        for cell in rows({0: [100.0] * 6, 1: [130.0] * 5 + [150.0]})
    ]
    found = advice.advise(cells, LABELS)
    assert found is not None
    assert "In 1 of 6 races against plain decoding the speedup exceeds the tokens per pass" in found.notes
    assert "exceeds" not in advice.advise(cells[:5] + cells[6:11], LABELS).text  # type: ignore[union-attr]


@pytest.mark.parametrize("cases", [1, 3, 5])
def test_fewer_than_six_cases_never_tell(cases: int) -> None:
    """Even five wins out of five, each by a factor of ten."""
    found = advice.advise(rows({0: [10.0] * cases, 1: [100.0] * cases}, prompts=False), LABELS)
    assert found is not None
    assert found.best == 1 and not found.clear
    assert "too few to tell" in found.answer
    assert "one prompt, repeated" in found.notes
    assert found.notes.endswith("nothing about other prompts or, above temperature 0, other draws.")
    assert advice.advise(rows({0: [10.0] * 6, 1: [100.0] * 6}, prompts=False), LABELS).clear  # type: ignore[union-attr]


def test_repeats_of_a_prompt_are_one_case_when_there_are_several_prompts() -> None:
    """Catches: ten repeats on two prompts passed off as twenty prompts."""
    cells = [
        MeasuredCase("story", name, lane, LABELS[lane], repeat, tokens=64, seconds=64 / (speed + repeat))
        for name in ("one", "two")
        for lane, speed in ((0, 100.0), (1, 200.0))
        for repeat in range(10)
    ]
    found = advice.advise(cells, LABELS)
    assert found is not None
    assert found.pairs[0].cases == 2 and not found.clear
    assert found.pairs[0].ratio == pytest.approx(204.5 / 104.5)  # of the medians


def test_what_cannot_be_compared_is_left_out() -> None:
    cells = rows({0: [100.0] * 7, 1: [150.0] * 7, 2: [900.0] * 7})
    assert advice.advise(cells, LABELS, leave_out=[2]).best == 1  # type: ignore[union-attr]
    cells[0].error = "It broke."
    assert advice.advise(cells, LABELS, leave_out=[2]).pairs[0].cases == 6  # type: ignore[union-attr]
    assert advice.advise(rows({0: [100.0], 1: [150.0]}, tokens=8), LABELS) is None
    assert advice.advise(rows({0: [100.0]}), LABELS) is None
    assert advice.advise([], LABELS) is None


@pytest.mark.parametrize("speeds", [([], []), ([1.0], [1.0, 2.0]), ([0.0], [1.0]), ([float("nan")], [1.0])])
def test_speeds_that_do_not_pair_are_refused_in_a_sentence(speeds: tuple[list[float], list[float]]) -> None:
    with pytest.raises(SettingsError, match=r"\.$"):
        advice.compare(*speeds)


def test_texts_that_loop_are_said_beside_the_advice() -> None:
    """Catches: loops said of texts that have none, lanes counted for texts, repeats that were never measured said to
    be none or all."""
    cells = rows({0: [10.0] * 6, 1: [30.0] * 6})
    plain = advice.advise(cells, LABELS)
    for at, row in enumerate(cells):
        row.repeated = 0.9 if at % 6 in (1, 4) else 0.19
    found = advice.advise(cells, LABELS)
    assert plain is not None and found is not None and "loop" not in plain.notes
    assert found.notes == plain.notes + " 2 of 6 texts loop, which can flatter a proposer."
    again = rows({0: [10.0] * 6, 1: [30.0] * 6}, prompts=False)
    for row in again:
        row.repeated = 0.5
    found = advice.advise(again, LABELS)
    assert found is not None
    assert found.notes.endswith(" 50% of the text repeats, which can flatter a proposer.")
