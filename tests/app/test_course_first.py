"""Lessons 0 to 2: their facts against the files and plain arithmetic, their pictures, and how they are gone through."""

from __future__ import annotations

import json
import math
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.course.facts import ease, first_word, machines
from app.course.facts import recorded as recorded_facts
from app.course.files import reading
from app.course.files.lesson import STEPS, Lesson
from app.course.files.words import Words
from app.course.live import asking, measured, measuring
from app.course.pictures.costs import conveyor, width_curve
from app.course.pictures.costs import first_word as first_word_picture
from app.course.pictures.runs import race, ribbon
from app.decoding.models import ModelCache
from app.decoding.runs import Runs

from .course_page import page, predict, press, sent
from .gallery import picture, written

ASSETS = Path(__file__).resolve().parents[2] / "assets"
MINE = ("race", "weights", "first-word", "tokens")
WORDS = Words("en", reading.FOLDER)


def lesson_of(key: str) -> Lesson:
    lesson, problems = reading.read("en", key)
    assert lesson is not None, "\n".join(map(str, problems))
    return lesson


def raw(name: str) -> Any:
    """A recorded trace as plain JSON."""
    return json.loads((ASSETS / "traces" / f"{name}.json").read_text(encoding="utf-8"))


def profile(name: str) -> Any:
    return json.loads((ASSETS / "profiles" / f"{name}.json").read_text(encoding="utf-8"))


def read_aloud(html: str) -> str:
    """What a page shows of a piece of HTML, without its tags."""
    return unescape(re.sub(r"<[^>]*>", "", html))


# --- facts ---------------------------------------------------------------------------------------------------------


def test_a_recorded_machine_answers_between_its_widths_on_a_line() -> None:
    curve = profile("amd-epyc-2-cores")["curves"][0]
    for tokens in (1, 4, 8, 9, 50):
        seconds = np.interp(tokens, curve["widths"], curve["target_s"])
        assert machines.pass_ms("amd-epyc-2-cores", tokens) == pytest.approx(1e3 * seconds)
        assert machines.pass_ratio("amd-epyc-2-cores", tokens) == pytest.approx(
            seconds / curve["target_s"][0]
        )


def test_an_8b_model_on_a_card_moves_its_matrices_and_multiplies_twice_with_each() -> None:
    """From the published sizes: 32 layers of four attention matrices (8 of 32 heads for keys and values) and three
    of the MLP, and the output; two bytes a number. Catches: an input embedding that is read whole, one operation in
    place of a multiplication and an addition."""
    matrices = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336) + 4096 * 128256
    kv = 2 * 32 * 1024
    attention = 4 * 32 * 4096
    card = profile("h100-sxm")

    def moved(tokens: int) -> float:
        return 2 * (matrices + tokens * kv)

    def computed(tokens: int) -> float:
        return tokens * (2 * matrices + tokens * attention)

    assert machines.weights_gb("h100-sxm", "8B") == pytest.approx(moved(1) / 1e9)
    for tokens in (1, 8, 300):
        assert machines.moving_ms("h100-sxm", "8B", tokens) == pytest.approx(
            1e3 * moved(tokens) / card["bytes_per_s"]
        )
        assert machines.computing_ms("h100-sxm", "8B", tokens) == pytest.approx(
            1e3 * computed(tokens) / card["flops_per_s"]
        )
    turn = next(
        n for n in range(1, 9999) if computed(n) / card["flops_per_s"] >= moved(n) / card["bytes_per_s"]
    )
    assert machines.knee("h100-sxm", "8B") == turn


@pytest.mark.parametrize(("call", "words"), [
    (lambda: machines.pass_ms("toaster", 1), "Choose one of: amd-epyc"),
    (lambda: machines.moving_ms("amd-epyc-2-cores", "8B"), "was recorded"),
    (lambda: ease.ribbon("fork"), "greedy"),
    (lambda: ease.boxes("welcome", 500), "are to be boxed"),
    (lambda: ease.draft_millions("none"), "without a draft"),
])  # fmt: skip
def test_what_a_lesson_cannot_have_is_said_in_a_sentence(call: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("example", ["draft-model", "welcome", "slower"])
def test_the_first_token_waits_for_the_prompt_and_the_first_round(example: str) -> None:
    for plain in (True, False):
        found = raw(f"{example}-plain" if plain else example)
        rounds = [
            sum(row[f"{part}_s"] for part in ("draft", "verify", "judge", "commit"))
            for row in found["rounds"]
        ]
        assert first_word.first_ms(example, plain) == pytest.approx(
            1e3 * (found["stats"]["prefill_s"] + rounds[0])
        )
        assert first_word.rest_ms(example, plain) == pytest.approx(1e3 * sum(rounds[1:]))
    each = []
    for plain in (True, False):
        counts = [
            len(row["committed"]["token"]) for row in raw(f"{example}-plain" if plain else example)["rounds"]
        ]
        each.append(first_word.rest_ms(example, plain) / sum(counts[1:]))
    assert first_word.rest_gain(example) == pytest.approx(each[0] / each[1])
    assert first_word.first_gain(example) == pytest.approx(
        first_word.first_ms(example, True) / first_word.first_ms(example)
    )


def test_a_modelled_answer_is_the_prompt_and_as_many_rounds_as_its_tokens_take() -> None:
    """α = 1 commits γ + 1 tokens a round: ten rounds for the fifty tokens after the first, which the prompt's pass
    yields. Catches: the bonus token left out, a first token that waits for a round, a draft that reads no prompt."""
    costs, reading = machines.profile("rtx-4090").costs(1, 1000), machines.prompt_seconds("rtx-4090", 1000)
    assert costs.draft
    each = 4 * costs.draft(1) + costs.target(5)
    found = first_word.answer("rtx-4090", 1000, 51, 1.0, 4)
    assert found.seconds == pytest.approx(sum(reading) + 10 * each)
    plain = first_word.answer("rtx-4090", 1000, 51, 0.3, 0)
    assert plain.seconds == pytest.approx(reading[0] + 50 * costs.target(1))
    assert found.prompt_s == plain.prompt_s == reading[0]
    gain = first_word.answer_gain("rtx-4090", 1000, 51, 1.0, 4)
    assert gain == pytest.approx(plain.seconds / found.seconds)


def test_guessing_gains_less_the_longer_the_prompt_and_the_more_the_longer_the_answer() -> None:
    prompts = [first_word.answer_gain("apple-m1-max", prompt, 64, 0.8, 4) for prompt in (64, 1024, 4096)]
    answers = [first_word.answer_gain("apple-m1-max", 1024, tokens, 0.8, 4) for tokens in (64, 256, 1024)]
    assert prompts == sorted(prompts, reverse=True) and answers == sorted(answers)


def guesses(found: Any) -> list[tuple[float, bool | None]]:
    """For each token of a greedy record its −log₂ p, and whether it is the head of the draft's distribution."""
    found_bits = []
    for row in found["rounds"]:
        for token, at in zip(row["committed"]["token"], row["positions"], strict=True):
            chance = dict(zip(at["model_p"]["id"], at["model_p"]["prob"], strict=True))[token]
            found_bits.append(
                (-math.log2(chance), None if at["model_q"] is None else at["model_q"]["id"][0] == token)
            )
    return found_bits


@pytest.mark.parametrize("example", ["welcome", "draft-model", "slower", "long-draft"])
def test_the_ribbon_shows_what_was_recorded_of_each_token(example: str) -> None:
    found, tokens = raw(example), ease.ribbon(example)
    found_bits = guesses(found)
    assert "".join(token.text for token in tokens) == found["output"]["text"]
    assert [token.bits for token in tokens] == pytest.approx(
        [max(0.0, bits) for bits, _ in found_bits], abs=1e-6
    )
    assert [token.guessed for token in tokens] == [guessed for _, guessed in found_bits]
    asked = [guessed for _, guessed in found_bits if guessed is not None]
    assert ease.guessed_share(example) == pytest.approx(sum(asked) / len(asked))
    assert ease.below_a_bit(example) == pytest.approx(
        sum(bits < 1 for bits, _ in found_bits) / len(found_bits)
    )
    for kind in (True, False):
        bits = [max(0.0, bits) for bits, guessed in found_bits if guessed is kind]
        if bits:
            assert ease.mean_bits(example, kind) == pytest.approx(sum(bits) / len(bits), abs=1e-6)


def test_in_a_greedy_chain_the_draft_guessed_what_was_accepted() -> None:
    """The verdicts of the record say the same as its distributions. Catches: a guess read off the wrong position."""
    found = raw("welcome")
    sources = [source for row in found["rounds"] for source in row["committed"]["source"]]
    for token, source in zip(ease.ribbon("welcome"), sources, strict=True):
        if source in ("accepted", "corrected"):
            assert token.guessed is (source == "accepted"), token


@pytest.mark.parametrize("example", ["welcome", "long-draft"])
def test_the_boxes_hold_clear_cases_of_both_kinds_and_no_word_twice(example: str) -> None:
    tokens, found = ease.ribbon(example), ease.boxes(example, 8)
    words = [tokens[at].text.strip() for at in found]
    assert list(found) == sorted(found) and len({*words}) == 8 and all(word.isalpha() for word in words)
    assert words == [ease.box_text(example, 8, at) for at in range(8)]
    right = [ease.box_right(example, 8, at) for at in range(8)]
    assert right == [tokens[at].guessed is True for at in found]
    assert 0 < sum(right) < 8


# --- the lessons' answers ------------------------------------------------------------------------------------------


def test_each_lesson_can_be_given() -> None:
    for key in MINE:
        lesson = lesson_of(key)
        assert all(item.note for item in lesson.sections["check"].items.values())


def test_the_races_are_won_as_their_clocks_say() -> None:
    def seconds(name: str) -> float:
        row = raw(name)["rounds"][-1]
        total: float = sum(row[f"{part}_s"] for part in ("start", "draft", "verify", "judge", "commit"))
        return total / len(raw(name)["output"]["ids"])

    code = seconds("draft-model") < seconds("draft-model-plain")
    hard = seconds("slower") < seconds("slower-plain")
    names = {(True, True): "both", (True, False): "code", (False, True): "hard", (False, False): "neither"}
    lesson = lesson_of("race")
    assert lesson.right["predict"] == {names[code, hard]}
    assert lesson.right["check"] == {"always" if code and hard else "depends"}


def test_eight_positions_cost_what_the_recorded_curve_says() -> None:
    curve = profile("amd-epyc-2-cores")["curves"][0]
    ratio = np.interp(8, curve["widths"], curve["target_s"]) / curve["target_s"][0]
    bounds = {"same": (0.0, 1.02), "bit": (1.02, 2.0), "half": (2.0, 6.0), "all": (6.0, math.inf)}
    lesson = lesson_of("weights")
    assert lesson.right["predict"] == {key for key, (low, high) in bounds.items() if low <= ratio < high}
    assert lesson.right["check"] == {"curve"} and lesson.front.check.mistakes == {
        "free": "M1a",
        "many": "M1b",
    }
    assert lesson.front.watch.given["machines"].keys() == {"amd-epyc-2-cores"}, (
        "the machine that was asked about"
    )
    facts = lesson.facts
    assert facts["one_ms"] == pytest.approx(facts["moving"]), "the time that “explain” and its picture say"
    assert facts["several_ms"] == pytest.approx(facts["one_ms"], rel=0.01)
    assert 1.5 * facts["one_ms"] < facts["lots_ms"] < facts["times_lots"] / 100
    best = profile("h100-sxm")["bytes_per_s"] / (lesson.facts["weights"] * 1e9)
    assert lesson.facts["best"] == pytest.approx(best)


def test_the_first_word_does_not_come_sooner() -> None:
    """In the mean of three races, since a single prompt is read in a few milliseconds."""
    gains = []
    for example in ("draft-model", "welcome", "slower"):
        first = [
            one["stats"]["prefill_s"] + one["rounds"][1]["start_s"]
            for one in (raw(f"{example}-plain"), raw(example))
        ]
        gains.append(first[0] / first[1])
    lesson = lesson_of("first-word")
    assert lesson.facts["sooner"] == pytest.approx(sum(gains) / 3)
    assert sum(gains) / 3 <= 1.05, "the recording says otherwise: read the lesson again"
    assert lesson.right["check"] == {"later"} and lesson.front.check.mistakes["sooner"] == "M12"
    assert sum(gains) / 3 < 0.95 and lesson.right["predict"] == {"later"}


def test_the_boxes_to_pick_are_those_whose_words_were_accepted() -> None:
    lesson = lesson_of("tokens")
    found = ease.boxes("welcome", 8)
    found_bits = guesses(raw("welcome"))
    assert lesson.right["predict"] == {"abcdefgh"[at] for at in range(8) if found_bits[found[at]][1]}
    texts = [lesson.sections["predict"].items[key].text for key in "abcdefgh"]
    assert texts == [f"{'ABCDEFGH'[at]} · {ease.box_text('welcome', 8, at)}" for at in range(8)]
    assert lesson.right["check"] == {"root"}
    assert lesson.facts["blind"] == pytest.approx(math.log2(10))


# --- pictures ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("example", ["draft-model", "slower", "prompt-lookup", "welcome"])
def test_the_race_shows_each_round_at_its_time_and_a_flag_in_the_lane_that_is_behind(example: str) -> None:
    lanes = [recorded_facts.trace(example, plain) for plain in (True, False)]
    html = race.race(*lanes, WORDS, "turn")
    texts = re.findall(r"<pre[^>]*>(.*?)</pre>", html, re.DOTALL)
    ends = [lane.rounds[-1].end_s for lane in lanes]
    slow = race.SHOWN_S / max(ends)
    assert len(texts) == 2
    for lane, end, text in zip(lanes, ends, texts, strict=True):
        times = [float(at) for at in re.findall(r"<span class='\w+' style='--at:([\d.]+)s'", text)]
        assert times == pytest.approx([row.end_s * slow for row in lane.rounds], abs=0.006)
        flag = re.search(r"<b class='flag'.*?</b>", text)
        assert (flag is not None) == (end == max(ends))
        assert read_aloud(text.replace(flag[0], "") if flag else text) == re.sub(
            r"^ (?! )", "", lane.text.lstrip("\n")
        )
        if flag:
            before = text[: flag.start()].count("<span")
            assert before == sum(row.end_s <= min(ends) for row in lane.rounds)


def test_the_boxed_text_says_nothing_of_how_it_came_out() -> None:
    """Catches: an answer in a class, a title or the order of the boxes' tags."""
    tokens, found = ease.ribbon("welcome"), ease.boxes("welcome", 8)
    html = ribbon.boxed("", tokens, found)
    turned = tuple(
        ease.JudgedToken(token.text, 9.0 - token.bits, not token.guessed, "something") for token in tokens
    )
    assert html == ribbon.boxed("", turned, found)
    assert [html.count(f"<b>{letter}</b>") for letter in "ABCDEFGHI"] == [1] * 8 + [0]


def test_each_token_of_the_ribbon_has_its_mark_its_height_and_its_words() -> None:
    tokens = (
        ease.JudgedToken("<b>", 0.0, True),
        ease.JudgedToken(" and", ribbon.HIGHEST / 2, False, " or"),
        ease.JudgedToken("\n", 99.0, None),
        ease.JudgedToken("", 1.0, True),
    )
    items = re.findall(
        r"<li class='(\w+)(?: apart)?' title.*?--h:([\d.]+)'.*?class='word'[^>]*>(.*?)</span>",
        ribbon.with_outcomes("", tokens, (), WORDS),
    )
    assert items == [
        ("guessed", "0.000", "&lt;b&gt;"),
        ("missed", "0.500", "and"),
        ("unasked", "1.000", "↵"),
        ("guessed", "0.200", WORDS("ribbon.end")),
    ]
    assert "would have written “or”" in ribbon.with_outcomes("", tokens, (), WORDS)
    key = re.findall(r"<li class='(\w+)'>", ribbon.with_outcomes("", tokens[:1], (), WORDS))
    assert key == ["guessed", "height"]  # of marks that do not occur the key says nothing


def test_the_belts_bars_are_on_one_scale() -> None:
    given = conveyor.With(machine="h100-sxm", size="8B", positions=[1, 8])
    html = conveyor.belts(given, [1, 8], WORDS)
    widths = [
        float(width) for width in re.findall(r"class='(?:moving|computing)' style='width:([\d.]+)%'", html)
    ]
    costs = [
        call("h100-sxm", "8B", tokens)
        for tokens in (1, 8)
        for call in (machines.moving_ms, machines.computing_ms)
    ]
    assert widths == pytest.approx([100 * cost / max(costs) for cost in costs], abs=0.001)
    assert [html.count("<i></i>")] == [9]  # a dot for each token
    wide = conveyor.belts(given, [4096], WORDS)
    assert WORDS("conveyor.compute_bound") in wide and "+4,032" in wide


@pytest.mark.parametrize("language", ["en", "de"])
def test_what_is_moved_and_computed_can_be_worked_out_from_what_is_said(language: str) -> None:
    """Catches: 8B parameters that weigh 15 GB without a word on which are read; a time for one token that, times n, is
    not the pass's time, without a word on attention."""
    words = Words(language, reading.FOLDER)
    given = conveyor.With(machine="h100-sxm", size="8B", positions=[1])
    size, counted, read, each = (
        float(one.replace(",", "."))
        for one in re.findall(
            r"(\d+(?:[.,]\d+)?)(?=B| billion| Milliarden| bytes| Bytes)", conveyor.provenance(given, words)
        )
    )
    assert (size, counted, each) == (8, 8.03, 2) and "bfloat16" in conveyor.provenance(given, words)
    assert f"{read * each:.0f} GB" in read_aloud(conveyor.belts(given, [1], words)).replace("\xa0", " ")
    lesson, problems = reading.read(language, "weights")
    assert lesson is not None, problems
    assert isinstance(lesson.facts["lots_ms"], float)
    explained = lesson.sections["explain"].prose
    (one, many) = (float(ms.replace(",", ".")) for ms in re.findall(r"0[.,]\d{5}", explained))
    lots = lesson.facts["lots"]
    assert many > one and "ttention" in explained and str(lots) in explained
    assert many * lots == pytest.approx(lesson.facts["lots_ms"], abs=0.005)
    assert one * lots < 0.99 * lesson.facts["lots_ms"]


@pytest.mark.parametrize("language", ["en", "de"])
def test_a_recorded_curve_says_how_much_of_the_processor_was_used(language: str) -> None:
    """Catches: “one CPU core” over a caption that says two cores."""
    words = Words(language, reading.FOLDER)
    core = machines.profile("amd-epyc-2-cores")
    used = words("measured.recorded_threads", machine=core.machine, threads=1, date=core.date[:10])
    assert measured.origin(core, words) == used and used.count("1") > core.date[:10].count("1")
    card = machines.profile("h200-8b")
    assert measured.origin(card, words) == words(
        "measured.recorded", machine=card.machine, date=card.date[:10]
    )


def test_the_two_beliefs_are_named_as_they_are_drawn() -> None:
    given = width_curve.With(machines={"amd-epyc-2-cores": "Here"})
    drawn = width_curve.chart(width_curve.recorded(given, WORDS), 1, WORDS).figure
    assert [one.line.dash for one in drawn.data[:2]] == ["dot", "dash"]
    assert "the dotted and the dashed line" in lesson_of("weights").sections["watch"].prose


def test_the_curves_are_the_profiles_and_lie_between_the_two_beliefs() -> None:
    given = width_curve.With(machines={"amd-epyc-2-cores": "Here", "h100-sxm": "There"})
    lines = width_curve.recorded(given, WORDS)
    assert [line.ratios[8] for line in lines] == [machines.pass_ratio(name, 8) for name in given.machines]
    for line in lines:
        assert all(1.0 <= line.ratios[n] <= n for n in width_curve.WIDTHS)
    chart = width_curve.chart(lines, 8, WORDS)
    beliefs, curves = chart.figure.data[:2], chart.figure.data[2:]
    assert all(tuple(trace.x) == width_curve.WIDTHS for trace in beliefs) and len(curves) == 2
    # A mark is a measurement: there are none between them, nor beyond the last. A modelled line has them all over.
    marked = [[n for n, size in zip(line.x, line.marker.size, strict=True) if size] for line in curves]
    assert marked == [[1, 2, 3, 5, 9, 17, 33, 65], list(width_curve.WIDTHS)]
    assert list(curves[0].x) == sorted(curves[0].x)
    assert "recorded" in chart.provenance and "modelled" in chart.provenance
    # Where nothing was measured the line is not a measurement, and says so.
    assert "1, 2, 3, 5, 9, 17, 33, 65; straight" in chart.provenance and "n =" not in lines[1].provenance
    cells = re.findall(r"<td>([\d.]+)×</td>", width_curve.table(lines, 8, WORDS))
    assert cells[:2] == [f"{lines[0].ratios[8]:.2f}", f"{8 / lines[0].ratios[8]:.1f}"]


def test_the_wait_is_drawn_to_scale() -> None:
    lanes = [
        first_word_picture.WordLane("a", 1.0, (1.0, 2.0, 3.0)),
        first_word_picture.WordLane("b", 1.0, (0.5, 1.0)),
    ]
    html = first_word_picture.lanes(lanes, WORDS)
    assert re.findall(r"class='reading apart' style='left:0.000%;width:([\d.]+)%'", html) == [
        "25.000",
        "25.000",
    ]
    assert re.findall(r"class='rest apart' style='left:([\d.]+)%;width:([\d.]+)%'", html) == [
        ("50.000", "25.000"), ("75.000", "25.000"), ("37.500", "12.500"),
    ]  # fmt: skip
    assert "first word after 2 s" in html and "first word after 1.5 s" in html
    assert re.findall(r"<li class='(\w+)'>", html) == ["reading", "round", "rest"]


def test_a_modelled_wait_shows_its_passes_and_whose_reading_it_is() -> None:
    given = "apple-m1-max", 16384, 64
    lanes = [
        first_word_picture._modelled(*given, alpha, gamma, name)
        for name, alpha, gamma in (("a", 0.0, 0), ("b", 0.8, 4))
    ]
    found = first_word.answer(*given, 0.8, 4)
    html = first_word_picture.lanes(lanes, WORDS)
    pieces = re.findall(r"<i class='([\w ]+)' style='left:([\d.]+)%;width:([\d.]+)%'", html)
    # The draft's reading is not one of the rounds.
    draft = [(float(left), float(width)) for kind, left, width in pieces if kind == "draft apart"]
    assert draft == [
        pytest.approx([1e2 * found.prompt_s / found.seconds, 1e2 * found.draft_s / found.seconds], abs=1e-3)
    ]
    # 63 passes of less than a pixel each: no lines between them, which would hide all of them.
    assert [kind for kind, _, _ in pieces].count("rest") >= 63 and "rest apart" not in html
    # The pass over the prompt yields the first word, so there is no first round to explain.
    assert re.findall(r"<li class='(\w+)'>", html) == ["reading", "draft", "rest"]


# --- the page ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", MINE)
def test_a_lesson_can_be_gone_through_and_keeps_its_answer_until_the_prediction(key: str) -> None:
    lesson = lesson_of(key)
    at = page(lesson=key)
    shown = sent(at)
    notes = [item.note for item in lesson.sections["predict"].items.values() if item.note]
    assert not any(note[:40] in shown for note in notes)
    assert " bits; " not in shown  # as the ribbon says of each token
    predict(at, lesson)
    for _ in STEPS[2:]:
        press(at, "course-next")
    assert at.query_params["at"] == ["lab"] or at.query_params["at"] == "lab"


def changing(key: str) -> Any:
    """A lesson's page at its step “change”."""
    at = predict(page(lesson=key), lesson_of(key))
    return press(at, "course-next")


def test_another_race_can_be_chosen_and_run_again() -> None:
    at = changing("race")
    assert "data-turn='prompt-lookup-0'" in sent(at).replace("\\", "")
    press(at, "course-race-change-again")
    assert "data-turn='prompt-lookup-1'" in sent(at).replace("\\", "")
    at.button_group(key="course-race-change-example").set_value("welcome").run()
    assert not at.exception and "data-turn='welcome-1'" in sent(at).replace("\\", "")


def test_the_marked_number_of_tokens_moves_and_nothing_is_measured_by_itself(fresh: Runs) -> None:
    measuring.here.cache_clear()
    at = changing("weights")
    at.select_slider(key="course-weights-change-tokens").set_value(64).run()
    assert not at.exception
    assert "64 tokens in one pass cost" in sent(at)
    assert measuring.here().job is None and measuring.here().curve is None
    press(at, "course-weights-change-measure")
    wait(measuring.here())
    at.run()
    assert WORDS("width-curve.this") in sent(at)
    measuring.here.cache_clear()


def test_a_longer_prompt_is_waited_for_longer() -> None:
    def first(text: str) -> list[float]:
        found = re.findall(r"first word after ([\d.]+) (m?s)", text)
        return [float(number) / (1e3 if unit == "ms" else 1.0) for number, unit in found]

    modelled = picture("first-word", "change")
    short, long = (first(written(modelled.parts(values))) for values in ({}, {"prompt": 4096}))
    assert len(short) == len(long) == 2 and long[0] > 10 * short[0] and short[0] == short[1]


def test_a_sentence_of_ones_own_is_read_when_asked_for(fresh: Runs) -> None:
    at = changing("tokens")
    assert "Measured now" not in sent(at)
    at.text_area(key="course-tokens-change-own").set_value("bcdea").run()
    press(at, "course-tokens-change-ask")
    assert "Measured now · scripted target" in sent(at)
    at.text_area(key="course-tokens-change-own").set_value("b").run()
    press(at, "course-tokens-change-ask")
    assert "this one has 1" in at.warning[0].value and "Measured now" not in sent(at)


def test_this_machine_is_measured_once_for_all_who_ask(fresh: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "BUDGET_S", 0.05)
    found = measuring.Measuring()
    found.begin()
    wait(found)
    curve = found.curve
    assert (
        found.job is not None
        and found.job.state == "done"
        and curve is not None
        and curve.widths[0] == 1
        and curve.machine == "scripted"
    )
    found.begin()
    assert not found.active and found.curve is curve
    (line,) = width_curve.measured(found, WORDS)
    assert line.ratios[1] == 1.0 and "scripted" in line.provenance
    assert ", ".join(map(str, curve.widths)) in line.provenance


def wait(found: measuring.Measuring) -> None:
    """Until a measurement is over."""
    import time

    until = time.monotonic() + 30
    while found.active and time.monotonic() < until:
        time.sleep(0.02)


def test_a_measurement_that_fails_is_reported_and_can_be_tried_again(
    fresh: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app import services
    from specdec_core.foundations.errors import ModelError

    def broken(choice: Any) -> Any:
        raise ModelError("The weights are gone.")

    monkeypatch.setattr(services, "shelf", lambda: ModelCache(broken, lambda *asked: None))
    found = measuring.Measuring()
    found.begin()
    wait(found)
    assert found.job is not None
    assert (found.job.state, found.job.error, found.curve) == ("failed", "The weights are gone.", None)
    assert asking.ask("abc") == "loading"


def test_both_models_read_a_sentence_when_they_are_asked_to(fresh: Runs) -> None:
    """The scripted target gives the next letter .65 (others .05), and the draft errs after d."""
    found = asking.ask("bcdea")
    assert isinstance(found, asking.Read)
    assert [token.text for token in found.tokens] == ["c", "d", "e", "a"]
    assert [token.bits for token in found.tokens] == pytest.approx(
        [-math.log2(0.65)] * 3 + [-math.log2(0.05)], abs=1e-4
    )
    assert [token.guessed for token in found.tokens] == [True, True, False, False]
    assert "this one has 1" in str(asking.ask("b"))
    with fresh.line("cpu").turn(lambda: False, lambda ahead: None):
        assert asking.ask("bcd") == "busy"
