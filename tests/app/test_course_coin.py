"""Lessons 3, 4 and 5 (a round, the coin, what lossless means): their facts, pictures and answers, worked out apart."""

from __future__ import annotations

import random
import re
import struct
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from streamlit.testing.v1 import AppTest

from app.course.facts import coin, greedy_round, same_distribution
from app.course.files import reading
from app.course.files.words import Words
from app.course.pictures.odds import batch_shape, bridge, hundred, rounding, trials
from app.course.pictures.odds import coin as coin_picture
from app.course.pictures.odds import same_distribution as same_distribution_picture
from app.course.pictures.runs import stairs

PAGE = Path(__file__).resolve().parents[2] / "app" / "main.py"
WORDS = Words("en", reading.FOLDER)
P, Q = (0.5, 0.3, 0.2), (0.2, 0.3, 0.5)
RULES = (
    "speculative-sampling",
    "token-matching",
    "resample-from-target",
    "softmaxed-residual",
    "exact-match",
)


def lesson(key: str) -> Any:
    found, problems = reading.read("en", key)
    assert not problems
    assert found is not None
    return found


def random_pairs(count: int) -> list[tuple[list[float], list[float]]]:
    """Random pairs of distributions over two to five tokens, some with zeros."""
    source = random.Random(5)
    found = []
    for _ in range(count):
        size = source.randint(2, 5)
        rows = [[source.choice([0.0, 1.0, 2.0, 3.0]) * source.random() for _ in range(size)] for _ in "pq"]
        if all(sum(row) > 0.1 for row in rows):
            found.append(tuple([value / sum(row) for value in row] for row in rows))
    return found  # type: ignore[return-value]


# --- lesson 3: a round -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 4, 5])
def test_a_round_writes_the_right_guesses_and_one_token_of_the_target(length: int) -> None:
    assert greedy_round.greedy_tokens(length, 0) == length + 1
    for wrong in range(1, length + 1):
        assert greedy_round.greedy_tokens(length, wrong) == wrong
    with pytest.raises(ValueError, match="cannot be played"):
        greedy_round.greedy_tokens(length, length + 1)


def test_a_round_of_words() -> None:
    played = greedy_round.play("sat on the mat and slept".split(), "sat on your chair and ate".split())
    assert played.guesses == ("sat", "on", "your", "chair", "and")
    assert played.verdicts == ("accepted", "accepted", "rejected", "unreached", "unreached")
    assert played.answers == ("sat", "on", "the", "chair", "and", "ate")
    assert played.written == ("sat", "on", "the")
    assert played.last == "corrected"


@pytest.fixture(scope="module")
def round_of() -> stairs.With:
    return stairs.With.model_validate({**lesson("draft-verify").front.watch.given})


def test_every_wrong_place_of_the_lesson_is_played(round_of: stairs.With) -> None:
    for wrong in range(6):
        played = round_of.round(wrong)
        assert len(played.written) == (wrong or 6)
        assert played.written == tuple(round_of.target.split()[: wrong or 6])


def test_the_stairs_show_nothing_before_its_moment(round_of: stairs.With) -> None:
    played = round_of.round(3)
    last = stairs.steps(played)
    assert last == 5  # the guesses, the pass, three judged, what is written
    drawn = [stairs.picture("cat", played, stairs.moment(played, step), WORDS) for step in range(last + 1)]
    assert "class='answer" not in drawn[0] and "<b>the</b>" not in drawn[0]
    assert drawn[1].count("class='answer waiting new'") == 6
    for step, html in enumerate(drawn[:-1]):
        assert html.count("class='guess accepted") == max(0, min(step - 1, 2))
        assert ("rejected" in html) == (step >= 4)
        assert "class='token" not in html
    assert re.findall(r"class='token (\w+) new'><b>(\w+)", drawn[-1]) == [
        ("accepted", "sat"), ("accepted", "on"), ("corrected", "the")
    ]  # fmt: skip
    assert drawn[-1].count("class='answer unreached'") == 3
    assert WORDS("stairs.count", tokens=3) in drawn[-1]


def test_each_answer_stands_below_the_guess_that_it_judges(round_of: stairs.With) -> None:
    html = stairs.picture("cat", round_of.round(0), stairs.moment(round_of.round(0), 99), WORDS)
    rows = [
        re.findall(r"<td[^>]*>", row) for row in re.findall(r"<tr.*?</tr>", html) if "class='read'" in row
    ]
    assert [next(at for at, cell in enumerate(row) if "answer" in cell) for row in rows] == [1, 2, 3, 4, 5, 6]
    assert all(len(row) == 7 for row in rows)
    assert "bonus" in rows[-1][6]


def test_the_question_does_not_hold_its_answer(round_of: stairs.With) -> None:
    html = stairs.question("cat", round_of.round(3), 3, WORDS)
    assert "<b>the</b>" not in html and "accepted" not in html and "corrected" not in html
    assert html.count("✗") == 1 and not re.search(r">\d+<", html)  # a number missing at the ✗ is the answer


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"drafts": ["sat on"]}, "has 2 words"),
        ({"drafts": ["sat on the mat and slept"]}, "has to leave"),
        ({"drafts": ["a on the mat and slept", "b on the mat and slept"]}, "has to leave"),
        ({"wrong": 4, "drafts": ["a on the mat and slept"]}, "first wrong at guess 4"),
    ],
)
def test_stairs_that_cannot_be_drawn_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        stairs.With.model_validate({"before": "cat", "target": "sat on the mat and slept", **change})


def test_lesson_3() -> None:
    found = lesson("draft-verify")
    assert found.right["check"] == {"range"} and found.answer == 3
    assert (found.facts["out"], found.facts["fewest"], found.facts["most"]) == (3, 1, 6)


# --- lesson 4: the coin ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "q"), random_pairs(12))
def test_the_masses_are_those_of_the_formulas(p: list[float], q: list[float]) -> None:
    overlap = [min(one, other) for one, other in zip(p, q, strict=True)]
    missing = 1.0 - sum(overlap)
    short = [max(0.0, one - other) for one, other in zip(p, q, strict=True)]
    right = coin.masses("speculative-sampling", p, q)
    assert right.kept == pytest.approx(overlap)
    assert right.filled == pytest.approx(short)
    assert right.written == pytest.approx(p)
    again = coin.masses("resample-from-target", p, q)
    assert again.written == pytest.approx([one + missing * two for one, two in zip(overlap, p, strict=True)])
    matched = coin.masses("token-matching", p, q)
    assert matched.kept == pytest.approx([one * other for one, other in zip(p, q, strict=True)])
    assert matched.written == pytest.approx(p)
    top = coin.masses("exact-match", p, q)
    assert top.written == pytest.approx([float(at == p.index(max(p))) for at in range(len(p))])
    for token, bar in enumerate(right.thresholds):
        assert bar == (pytest.approx(min(1.0, p[token] / q[token])) if q[token] else None)


def test_the_numbers_of_the_lesson_by_hand() -> None:
    assert coin.written("resample-from-target", P, Q) == pytest.approx([0.35, 0.39, 0.26])
    assert coin.off_target("resample-from-target", P, Q) == pytest.approx(0.15)
    assert coin.off_target("speculative-sampling", P, Q) < 1e-12
    assert coin.masses("speculative-sampling", P, Q).after == pytest.approx([1.0, 0.0, 0.0])
    even = coin.uniform(100)
    assert coin.kept_share("token-matching", even, even) == pytest.approx(0.01)
    assert coin.kept_share("speculative-sampling", even, even) == pytest.approx(1.0)


@pytest.mark.parametrize("rule", RULES)
def test_trials_settle_on_the_masses(rule: str) -> None:
    found = coin.masses(rule, P, Q)
    shares, accepted = coin.tried(rule, P, Q, 10_000, 4)
    for share, chance in zip(shares, found.written, strict=True):
        assert abs(share - chance) <= 5 * (chance * (1 - chance) / 10_000) ** 0.5 + 1e-12
    kept = sum(found.kept)
    assert abs(sum(accepted) / 10_000 - kept) <= 5 * (kept * (1 - kept) / 10_000) ** 0.5


@pytest.mark.parametrize(
    ("p", "q", "message"),
    [
        ([0.5, 0.6], [0.5, 0.5], "add up to 1"),
        ([0.5, 0.5], [0.2, 0.3, 0.5], "same tokens"),
        ([1.0], [1.0], "two or"),
    ],
)
def test_what_is_no_distribution_is_refused(p: list[float], q: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        coin.masses("speculative-sampling", p, q)
    with pytest.raises(ValueError, match="there is no rule “luck”"):
        coin.rule_named("luck")


def parts(html: str, kind: str) -> list[tuple[float, float]]:
    """Bottom and height in percent of every part of a kind."""
    found = re.findall(rf"class='{kind}' style='bottom:([\d.]+)%;height:([\d.]+)%'", html)
    return [(float(bottom), float(height)) for bottom, height in found]


def test_the_bars_are_drawn_to_scale() -> None:
    found = coin.masses("resample-from-target", P, Q)
    html = coin_picture.bars(P, Q, found, WORDS)
    scale = 100 / 0.5  # p(A) = q(C) is the tallest
    assert [height for _, height in parts(html, "wanted")] == pytest.approx([value * scale for value in P])
    assert parts(html, "falls") == [(pytest.approx(0.2 * scale), pytest.approx(0.3 * scale))]
    tops = [bottom + height for bottom, height in parts(html, "fills")]
    assert tops == pytest.approx([value * scale for value in (0.35, 0.39, 0.26)])


def test_the_coin_lies_in_the_part_that_it_decides() -> None:
    found = coin.masses("speculative-sampling", P, Q)
    for u in (0.0, 0.2, 0.39, 0.41, 0.7, 0.99):
        html = coin_picture.bars(P, Q, found, WORDS, coin_at=(2, u))
        said = coin_picture.tossed(P, Q, found, 2, u, WORDS)
        height = float(re.findall(r"class='toss \w+' style='bottom:([\d.]+)%'", html)[0])
        edge = parts(html, "falls")[0][0]
        assert ("toss kept" in html) == ("tossed kept" in said) == (height < edge) == (u < 0.4)


def test_the_question_shows_p_and_q_alone() -> None:
    html = coin_picture.question(P, Q, WORDS)
    assert not any(kind in html for kind in ("kept", "falls", "fills", "written"))


def test_the_trials_say_how_far_off_a_rule_is() -> None:
    given = trials.With(p=list(P), q=list(Q), rules=list(RULES))
    message = trials.said(given, "resample-from-target", 100, (0.4, 0.4, 0.2), 71, WORDS)
    assert "0.15" in message and "0.100" in message and "71 of 100" in message and "70%" in message
    assert WORDS("trials.lossless") in trials.said(given, "token-matching", 1, (1.0, 0.0, 0.0), 0, WORDS)
    for rule in RULES:
        verdict = trials.said(given, rule, 100, (0.4, 0.4, 0.2), 71, WORDS)
        assert ("<b>✓" in verdict) == (coin.off_target(rule, P, Q) < 1e-9) != ("<b>✗" in verdict)
    assert "trials from p: 0.100" in message, "a distance says from what"


def test_a_rules_name_does_not_say_whether_it_is_right() -> None:
    """The learner finds out, and Streamlit's sign for what is chosen stands alone."""
    assert not [rule for rule in RULES if set(WORDS(f"trials.{rule}")) & set("✓✗")]
    assert not set(WORDS("trials.rule")) & set("✓✗")


def test_a_hundred_rounds_of_equal_distributions() -> None:
    given = hundred.With(tokens=100, rules=["token-matching", "speculative-sampling"])
    matching, sampling = (hundred.panel(given, rule, WORDS) for rule in given.rules)
    assert sampling.count("class='yes'") == 100 and "100%" in sampling
    assert matching.count("class='yes'") < 10 and "1%" in matching


def test_lesson_4() -> None:
    found = lesson("coin")
    assert found.right == {"predict": frozenset({"A", "B"}), "check": frozenset({"exact"})}
    assert found.facts["keep"] == pytest.approx(0.4)
    # p = .3 .5 .2, q = .1 .4 .5: .7 are kept, and .3 of p are added to .1 .4 .2.
    assert [found.facts[name] for name in ("wa", "wb", "wc")] == pytest.approx([0.19, 0.55, 0.26])
    assert found.front.check.mistakes == {"never": "M11a", "bent": "M5", "again": "M11b"}


# --- lesson 4a: what two distributions share -------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_kept_shared_and_apart_are_one_number(seed: int) -> None:
    """α by the rule's own code, Σ min(p, q), and 1 − TV, of random distributions. Catches: a picture that shows a sum
    which is not what the rule does."""
    draw = np.random.default_rng(seed)
    p, q = (draw.dirichlet([0.5] * 3).tolist() for _ in range(2))
    found = bridge.shared(p, q)
    assert found.overlap == pytest.approx(sum(map(min, p, q)))
    assert found.distance == pytest.approx(
        0.5 * sum(abs(one - other) for one, other in zip(p, q, strict=True))
    )
    assert found.kept == pytest.approx(found.overlap) == pytest.approx(1 - found.distance)


def test_the_same_number_is_named_where_it_returns() -> None:
    """Catches: four lessons that treat one quantity as four."""
    said = {}
    for key in ("coin", "shared", "lossless", "length", "fails"):
        lesson, problems = reading.read("en", key)
        assert lesson is not None, problems
        texts = [each.prose for each in lesson.sections.values()]
        texts += [item.text for each in lesson.sections.values() for item in each.items.values()]
        said[key] = " ".join([lesson.front.explain.formula, *texts])
    assert all("min(p, q)" in said[key] for key in ("coin", "shared", "length", "fails"))
    assert "one minus α" in said["lossless"] and "1 - \\alpha" in said["shared"]
    lesson, _ = reading.read("en", "shared")
    assert lesson is not None and lesson.answer == pytest.approx(10 + 35 + 20)


# --- lesson 5: lossless ----------------------------------------------------------------------------------------------


def tables() -> tuple[Any, Any]:
    given = lesson("lossless").front.given
    return given["target"], given["draft"]


def by_hand(target: Any, draft: Any) -> dict[str, float]:
    """The distribution of the first two words of a round of two guesses, from Leviathan's Algorithm 1, term by term."""
    distribution: dict[str, float] = {}

    def add(words: tuple[str, ...], mass: float) -> None:
        if len(words) >= 2:
            key = " ".join(words[:2])
            distribution[key] = distribution.get(key, 0.0) + mass
        else:
            for word, chance in target[words[-1]].items():
                add((*words, word), mass * chance)

    def left(word: str) -> dict[str, float]:
        short = {key: max(0.0, value - draft[word].get(key, 0.0)) for key, value in target[word].items()}
        total = sum(short.values())
        return {key: value / total for key, value in short.items()} if total else {}

    for one, two in product(draft, draft):
        chance = draft["the"].get(one, 0.0) * draft[one].get(two, 0.0)
        if chance == 0.0:
            continue
        keep = [min(1.0, target[a].get(b, 0.0) / draft[a][b]) for a, b in (("the", one), (one, two))]
        for word, share in left("the").items():
            add((word,), chance * (1 - keep[0]) * share)
        for word, share in left(one).items():
            add((one, word), chance * keep[0] * (1 - keep[1]) * share)
        add((one, two), chance * keep[0] * keep[1])
    return distribution


def test_the_distribution_of_speculative_decoding_is_the_targets() -> None:
    target, draft = tables()
    of = same_distribution.language("the", target, draft)
    plain, written = same_distribution.exact(of, 2, 2)
    direct = by_hand(target, draft)
    wanted = {f"{one} {two}": a * b for one, a in target["the"].items() for two, b in target[one].items()}
    assert direct == pytest.approx(wanted)
    for distribution in (plain, written):
        assert {of.text(text): mass for text, mass in distribution.items()} == pytest.approx(wanted)
    assert same_distribution.distribution_distance("the", target, draft, 2, 2) < 1e-12


def test_two_runs_of_one_seed_differ_and_each_can_be_repeated() -> None:
    target, draft = tables()
    of = same_distribution.language("the", target, draft)
    plain, guessed = same_distribution.texts(of, 12, 2, 0)
    same_distribution.texts.cache_clear()
    again = same_distribution.texts(of, 12, 2, 0)
    assert [trace.token_ids for trace in again] == [plain.token_ids, guessed.token_ids]
    differing = sum(one != other for one, other in zip(plain.token_ids, guessed.token_ids, strict=True))
    assert same_distribution.differing_words("the", target, draft, 12, 2, 0) == differing > 0
    assert len(plain.rounds) == 12 > len(guessed.rounds)
    html = same_distribution_picture.lanes(of, (plain, guessed), 0, WORDS)
    assert html.count("differs") == 2 * differing


def test_many_runs_of_both_settle_on_the_distribution() -> None:
    target, draft = tables()
    of = same_distribution.language("the", target, draft)
    distribution, _ = same_distribution.exact(of, 2, 2)
    for shares in same_distribution.sampled(of, 2, 2, 10_000, 3):
        for text, chance in distribution.items():
            assert abs(shares[text] - chance) <= 5 * (chance * (1 - chance) / 10_000) ** 0.5


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"a": {"b": 1.0}, "c": {"a": 1.0}}, "does not say what follows “b”"),
        ({"a": {"b": 0.5}, "b": {"a": 1.0}}, "add up to 1"),
        ({"a": {"b": 1.5, "a": -0.5}, "b": {"a": 1.0}}, "add up to 1"),
    ],
)
def test_tables_that_are_no_language_are_refused(target: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        same_distribution_picture.With.model_validate({"before": "a", "target": target, "draft": target})


def bfloat16(value: float) -> float:
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    bits += 0x7FFF + (bits >> 16 & 1)
    return float(struct.unpack("<f", struct.pack("<I", bits >> 16 << 16))[0])


def test_the_order_of_adding_turns_the_word_around() -> None:
    def chosen(raised: float, backwards: bool) -> int:
        sums = []
        for terms in ([17.25, 0.06, 0.06], [17.25, 0.0, raised]):
            total = 0.0
            for term in terms[::-1] if backwards else terms:
                total = bfloat16(total + bfloat16(term))
            sums.append(total)
        return sums.index(max(sums))

    logits = lesson("lossless").front.given["logits"]
    flips = []
    for step in range(31):
        raised = step * 0.01
        flips.append(chosen(raised, False) != chosen(raised, True))
        assert same_distribution.flips(logits, "bfloat16", raised) == flips[-1]
    assert 0 < sum(flips) < 31 and flips[10]
    fine = [same_distribution.flips(logits, "float32", step * 0.01) for step in range(31)]
    assert sum(fine) < sum(flips)


def test_the_rounding_picture_names_both_words_where_they_part() -> None:
    given = rounding.With.model_validate(lesson("lossless").front.change.given)
    parted = rounding.verdict(given, "bfloat16", 0.1, WORDS)
    assert WORDS("rounding.flip", forth="dog", back="cat") in parted.replace("&quot;", '"')
    assert "0.02" in parted
    assert "class='rounding-said'" in rounding.verdict(given, "bfloat16", 0.0, WORDS)
    html = rounding.strips(given, "bfloat16", 0.1, WORDS)
    assert html.count("class='flip") == sum(
        same_distribution.flips(given.logits, name, step * 0.01)
        for name in given.formats
        for step in range(31)
    )
    assert html.count(" here'") == 1


def test_sums_that_differ_are_counted_and_the_widest_gap_is_shown() -> None:
    given = batch_shape.With(sums=10)
    html = batch_shape.picture(given, ((1.0, 1.0), (2.0, 2.5), (3.0, 3.25)), WORDS)
    assert html.count("class='differs'") == 2 and html.count("class='same'") == 1
    assert WORDS("batch_shape.summary", differing=2, sums=3, rows=6) in html
    assert WORDS("batch_shape.widest", alone="2", among="2.5") in html
    assert WORDS("batch_shape.none") in batch_shape.picture(given, ((1.0, 1.0),), WORDS)


def test_lesson_5() -> None:
    found = lesson("lossless")
    assert found.right == {"predict": frozenset({"words", "greedy"}), "check": frozenset({"near"})}
    assert found.front.check.mistakes == {"broken": "M6"}


# --- on the page -----------------------------------------------------------------------------------------------------


def bodies(at: AppTest) -> str:
    return "\n".join(element.proto.body for element in at.get("html"))


@pytest.mark.parametrize(
    ("key", "given", "hidden"),
    [
        ("draft-verify", 2, "class='token"),
        ("coin", ["B"], "class='fills'"),
        ("lossless", ["shares"], "class='texts'"),
    ],
)
def test_each_lesson_from_prediction_to_check(key: str, given: Any, hidden: str) -> None:
    at = AppTest.from_file(PAGE, default_timeout=60)
    at.switch_page("app_pages/course.py")
    at.query_params["lesson"] = key
    at.query_params["at"] = "explain"  # not before a prediction
    at.run()
    assert not at.exception
    assert hidden not in bodies(at)
    if isinstance(given, int):
        at.number_input(key=f"course-{key}-prediction").set_value(given).run()
    else:
        at.button_group(key=f"course-{key}-prediction").set_value(given).run()
    at.button(key="course-lock").click().run()
    seen = bodies(at)
    for _ in range(5):  # to the last step
        assert not at.exception
        at.button(key="course-next").click().run()
        seen += bodies(at)
    assert not at.exception
    assert hidden in seen
