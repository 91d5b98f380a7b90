"""The inventory: what is right by other means, its file, the way through it, and that nothing is given away too
soon."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.course import pictures, progress, shuffle
from app.course.files import reading
from app.course.files.lesson import MOST_WORDS
from app.course.misconceptions import inventory
from app.course.misconceptions.inventory import QUESTIONS, Inventory
from specdec_measure.machines import profiles

from .course_page import misconception, page, press
from .course_page import sent as proto

TRACES = Path(__file__).resolve().parents[2] / "assets" / "traces"

FRONT = """---
given: {one: 1}
facts: {two: one + one}
right:
""" + "".join(f"  {key}: {{aye: two == 2, nay: two == 3}}\n" for key in QUESTIONS)
GOOD = FRONT + "mistakes: {M4: [nay]}\n---\n" + "".join(
    f"## {key}\nQuestion {key}?\n- aye: Yes, {key}\n  > Because it is {{two}}.\n"
    f"- nay: No, {key}\n  > No, since it is {{two}}.\n\n"
    for key in QUESTIONS
)  # fmt: skip


def sent(at: AppTest) -> str:
    """All that is sent to the browser, its quotes as they are read."""
    return proto(at).replace("\\'", "'").replace('\\"', '"').replace("\\\\", "\\")


def shipped(when: inventory.When = "before") -> Inventory:
    found, problems = inventory.read("en", when)
    assert found is not None, "\n".join(map(str, problems))
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An inventory of this test alone, used by the page too."""
    (tmp_path / "en").mkdir()
    (tmp_path / "en" / "strings").symlink_to(reading.FOLDER / "en" / "strings")
    for name in inventory.FILES.values():
        (tmp_path / "en" / name).write_text(GOOD, encoding="utf-8")
    monkeypatch.setattr(reading, "FOLDER", tmp_path)
    return tmp_path / "en"


# --- what is right, by other means ---------------------------------------------------------------------------------


def recorded(name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((TRACES / f"{name}.json").read_text(encoding="utf-8"))
    return found


def ids(name: str) -> list[int]:
    return [token for row in recorded(name)["rounds"] for token in row["committed"]["token"]]


def gain(alpha: float, gamma: int, cost: float) -> float:
    """Speedup, summed over how many guesses are accepted."""
    expected = sum((n + 1) * alpha**n * ((1 - alpha) if n < gamma else 1) for n in range(gamma + 1))
    return expected / (1 + gamma * cost)


def test_m1_eight_tokens_take_longer_than_one_and_less_than_eight_times() -> None:
    found = shipped()
    machine = profiles.shipped()[0][found.facts["machine"]]
    assert isinstance(machine, profiles.RecordedProfile)
    curve = machine.curves[0]
    seconds = dict(zip(curve.widths, curve.target_s, strict=True))
    five, nine = seconds[5], seconds[9]
    eight = five + (nine - five) * 3 / 4
    assert found.facts["ratio"] == pytest.approx(eight / seconds[1])
    assert 1.02 <= eight / seconds[1] < 7.2
    assert found.questions["M1"].right == "between"


def test_m2_m4_the_formula_played_out() -> None:
    found = shipped()
    assert gain(0.7, 4, 0.05) > gain(0.95, 1, 0.05)
    assert found.questions["M2"].right == "long"
    assert gain(0.8, 8, 0.2) < gain(0.8, 4, 0.2)
    assert found.questions["M4"].right == "slower"
    assert [
        found.facts[key] for key in ("one_fast", "four_fast", "short_fast", "long_fast")
    ] == pytest.approx([gain(0.95, 1, 0.05), gain(0.7, 4, 0.05), gain(0.8, 4, 0.2), gain(0.8, 8, 0.2)])


def test_m3_what_is_after_a_rejection_is_lost() -> None:
    """Σ αⁱ / γ: guess number i is in the text if all up to it passed."""
    found = shipped()
    assert found.facts["used"] == pytest.approx(sum(0.8**guess for guess in range(1, 6)) / 5)
    assert found.questions["M3"].right == "fewer"


def test_m5_m11_m6_the_first_token_of_a_round_has_the_targets_distribution() -> None:
    """By hand: what is kept, and what the residual adds, is p; drawing again from p would not be."""
    found = shipped()
    p = found.facts["p"]
    for q in (found.facts["q"], found.facts["bad"]):
        kept = [min(one, other) for one, other in zip(p, q, strict=True)]
        left = [one - other for one, other in zip(p, kept, strict=True)]
        lost = 1 - sum(kept)
        assert [a + lost * b / sum(left) for a, b in zip(kept, left, strict=True)] == pytest.approx(p)
        assert [a + lost * b for a, b in zip(kept, p, strict=True)] != pytest.approx(p)
    assert found.questions["M5"].right == "kept" and found.questions["M11"].right == "left"
    assert found.facts["keep"] == pytest.approx(0.2 / 0.5)
    alpha = sum(map(min, p, found.facts["bad"]))
    assert found.facts["written"] == pytest.approx(gain(alpha, 3, 0))
    assert (ids("fork") == ids("fork-plain")) == (found.questions["M6"].right == "same")
    assert found.questions["M6"].right in ("same", "other")


def test_m7_medusas_branches_go_on_alike_and_eagles_do_not() -> None:
    """From the records: the first guess below each node, for every two nodes of one round and depth."""

    def alike(name: str) -> float:
        same = []
        for row in recorded(name)["rounds"]:
            nodes = row["nodes"]
            below: dict[int, int] = {}
            for at, parent in enumerate(nodes["parent"]):
                if parent >= 0 and nodes["verdict"][at] not in ("pruned", "discarded"):
                    below.setdefault(parent, nodes["token"][at])
            for one, other in itertools.combinations(below, 2):
                if (
                    nodes["depth"][one] == nodes["depth"][other]
                    and nodes["token"][one] != nodes["token"][other]
                ):
                    same.append(below[one] == below[other])
        return sum(same) / len(same)

    assert alike("medusa") == 1.0
    assert alike("eagle") < 0.6
    assert shipped().questions["M7"].right == "blind"


def test_m8_a_tree_holds_each_guess_once() -> None:
    """Root, two children, four grandchildren: six nodes, four paths of two, and a leaf's way up is three long."""
    found = shipped()
    tree = [tuple(path) for path in found.facts["tree"]]
    leaves = [path for path in tree if not any(other[:-1] == path for other in tree)]
    assert found.facts["shared"] == len(set(tree)) == 6
    assert found.facts["apart"] == sum(map(len, leaves)) == 8
    leaf = tuple(found.facts["leaf"])
    assert found.facts["seen"] == len({leaf[:depth] for depth in range(len(leaf) + 1)}) == 3
    assert found.questions["M8"].right == "shared"


def test_m9_the_window_is_seen_in_part_and_nothing_of_it_enters_unchecked() -> None:
    """The published mask: level 0 up to one's column, then one's own column up to one's level."""
    found = shipped()
    widest = max(column + 1 + level for level in range(2) for column in range(5))
    assert found.facts["widest"] == widest == 6
    assert (ids("lookahead") == ids("lookahead-plain")) == (found.questions["M9"].right != "text")


def test_m10_two_stay_and_the_third_is_corrected() -> None:
    target, drafted = "abcdef", "abxde"
    right = sum(
        1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(target, drafted, strict=False))
    )
    assert shipped().facts["out"] == right + 1 == 3
    assert shipped().questions["M10"].right == "fixed"


def test_m12_the_first_token_waits_for_prompt_and_draft() -> None:
    found = shipped()

    def waited(name: str) -> float:
        trace = recorded(name)
        first = trace["rounds"][0]
        spent = sum(first[f"{phase}_s"] for phase in ("draft", "verify", "judge", "commit"))
        return float(trace["stats"]["prefill_s"] + spent)

    ratios = [waited(name) / waited(f"{name}-plain") for name in found.facts["timed"]]
    assert found.facts["ratios"] == pytest.approx(ratios, rel=0.03)
    by_hand = "later" if min(ratios) >= 0.95 else "sooner" if max(ratios) < 0.95 else "some"
    assert found.questions["M12"].right == by_hand


def test_the_questions_after_the_course_by_other_means() -> None:
    """M1 from the curve, M2 and M4 from the formula played out, M3 summed, M8 counted, M11 and M12 by hand."""
    found = shipped("after")
    machine = profiles.shipped()[0][found.facts["machine"]]
    assert isinstance(machine, profiles.RecordedProfile)
    seconds = dict(zip(machine.curves[0].widths, machine.curves[0].target_s, strict=True))
    assert found.facts["share"] == pytest.approx(seconds[5] / seconds[1] / 5)
    assert 0.21 < found.facts["share"] < 0.9 and found.questions["M1"].right == "between"
    assert gain(0.8, 5, 0.04) > gain(0.9, 2, 0.04) and found.questions["M2"].right == "long"
    assert found.facts["left"] == pytest.approx(1000 * sum(0.7**guess for guess in range(1, 5)) / 4)
    assert found.questions["M3"].right == "fewer"
    assert gain(0.7, 6, 0.2) < gain(0.7, 3, 0.2) and found.questions["M4"].right == "slower"
    assert (found.facts["read"], found.facts["apart"], found.facts["seen"]) == (4, 6, 3)
    assert (
        found.facts["sees"] == 5 and found.facts["out"] == 1 and found.facts["refuse"] == pytest.approx(0.5)
    )
    rights = {key: question.right for key, question in found.questions.items()}
    assert (
        rights.items() >= {"M5": "kept", "M6": "nothing", "M7": "alike", "M8": "shared", "M9": "part"}.items()
    )
    assert rights.items() >= {"M10": "one", "M11": "left", "M12": "later"}.items()


def test_the_two_questions_on_a_misconception_are_a_pair_and_not_the_same() -> None:
    """Catches: an inventory that measures what is remembered of its first time, or two different beliefs."""
    before, after = shipped(), shipped("after")
    for key in QUESTIONS:
        one, other = before.questions[key], after.questions[key]
        assert one.text.prose != other.text.prose
        texts = [{item.text for item in each.text.items.values()} for each in (one, other)]
        assert not texts[0] & texts[1], key
        assert len(one.text.items) == len(other.text.items)


def test_a_question_and_its_pair_are_about_equally_hard() -> None:
    """What a calculation decides is as clear before as after, and there is as much to read. Catches: an
    inventory after the course that is easier than the one before it, and so shows a gain that nobody made."""
    before, after = shipped().facts, shipped("after").facts
    clear = [
        (before["four_fast"] / before["one_fast"], after["other_fast"] / after["one_fast"]),
        (before["long_fast"] / before["short_fast"], after["long_fast"] / after["short_fast"]),
        (before["used"] / before["alpha"], after["used"] / after["alpha"]),
    ]
    for one, other in clear:
        assert one == pytest.approx(other, rel=0.1)
    for language in reading.languages():
        for key in QUESTIONS:
            lengths = []
            for when in inventory.WHEN:
                found, problems = inventory.read(language, when)
                assert found is not None, problems
                text = found.questions[key].text
                lengths.append(sum(map(len, [text.prose, *(item.text for item in text.items.values())])))
            assert max(lengths) <= 1.7 * min(lengths), (language, key, lengths)


def asked() -> list[tuple[str, dict[str, int], str]]:
    """Every question that is marked: where, the length of each option, and the right one."""
    found = []
    for when in inventory.WHEN:
        for question in shipped(when).questions.values():
            lengths = {name: len(item.text) for name, item in question.text.items.items()}
            found.append((f"inventory-{when}-{question.id}", lengths, question.right))
    for _, key, _, _ in reading.titles("en"):
        lesson, problems = reading.read("en", key)
        assert lesson is not None, problems
        (right,) = lesson.right["check"]
        lengths = {name: len(item.text) for name, item in lesson.sections["check"].items.items()}
        found.append((f"{key}-check", lengths, right))
    return found


@pytest.mark.parametrize("pick", [max, min])
def test_the_longest_and_the_shortest_option_are_right_no_more_often_than_by_chance(pick: Any) -> None:
    """Catches: right options given away by their length; a tie counts for who guesses."""
    questions = asked()
    hits = sum(lengths[right] == pick(lengths.values()) for _, lengths, right in questions)
    assert hits <= 0.35 * len(questions), f"{hits} of {len(questions)}"


@pytest.mark.parametrize("language", reading.languages())
def test_a_prediction_is_not_given_away_by_its_own_screen(language: str) -> None:
    """Catches: a prediction whose right option is the longest or the shortest by habit; a number that is only to be
    read out of the question."""
    lengths, numbers = [], 0
    for _, key, _, _ in reading.titles(language):
        lesson, problems = reading.read(language, key)
        assert lesson is not None, problems
        if lesson.front.predict.kind == "choice":
            (right,) = lesson.right["predict"]
            items = lesson.sections["predict"].items.items()
            lengths.append(({name: len(item.text) for name, item in items}, right))
        elif lesson.answer is not None:
            asked = lesson.sections["hook"].prose + lesson.sections["predict"].prose
            assert f"{lesson.answer:g}" not in re.findall(r"\d+(?:[.,]\d+)?", asked), key
            numbers += 1
    assert numbers >= 3
    for pick in (max, min):
        hits = sum(each[right] == pick(each.values()) for each, right in lengths)
        assert hits <= 0.35 * len(lengths), f"{pick.__name__}: {hits} of {len(lengths)}"


def test_no_position_is_right_more_often_than_by_chance() -> None:
    """Over a hundred visitors. Catches: an order that is fixed, or that the right option has a part in."""
    questions, visitors = asked(), [f"visitor {number}" for number in range(100)]
    for position in range(3):
        hits = sum(
            shuffle.order(lengths, where, who)[position] == right
            for where, lengths, right in questions
            for who in visitors
        )
        assert hits <= 0.35 * len(questions) * len(visitors), position
    orders = {tuple(shuffle.order(questions[0][1], questions[0][0], who)) for who in visitors}
    assert len(orders) > 3
    assert shuffle.order(questions[0][1], "here", "me") == shuffle.order(
        reversed([*questions[0][1]]), "here", "me"
    )


def test_every_wrong_answer_is_told_what_it_takes_for_granted() -> None:
    """Catches: a wrong option that is marked and not explained; a diagnosis that all wrong options share."""
    for when in inventory.WHEN:
        for question in shipped(when).questions.values():
            notes = [item.note for name, item in question.text.items.items() if name != question.right]
            assert len(set(notes)) == len(notes) and all(len(note.split()) >= 6 for note in notes), (
                question.id
            )


# --- the file ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", inventory.WHEN)
def test_all_twelve_are_asked_each_option_explained_and_each_misconception_found(
    when: inventory.When,
) -> None:
    found = shipped(when)
    assert tuple(found.questions) == tuple(f"M{number}" for number in range(1, 13))
    for question in found.questions.values():
        assert question.text.words() <= MOST_WORDS
        assert len(question.text.items) == 3 and all(item.note for item in question.text.items.values())
        assert question.mistakes and question.right not in question.mistakes


def test_every_question_is_treated_by_a_lesson_with_a_picture() -> None:
    """As far as the lessons are there: each misconception's lesson can be given, and its picture drawn."""
    treating = inventory.treating("en")
    lessons = {key for _, key, _, _ in reading.titles("en")}
    assert set(treating) == set(QUESTIONS)
    assert all(key in lessons for keys in treating.values() for key in keys)
    for question in [*shipped().questions.values(), *shipped("after").questions.values()]:
        assert question.picture is None or question.picture in treating[question.id]
        if treating[question.id]:
            lesson = inventory.lesson_on("en", question)
            assert lesson is not None and question.id in lesson.front.misconceptions
            assert question.picture in (None, lesson.id)
            pictures.check(lesson.front.watch)


THIRD = "  M3: {aye: two == 2, nay: two == 3}\n"


def at_line(piece: str) -> int:
    return next(at for at, line in enumerate(GOOD.splitlines(), 1) if piece in line)


@pytest.mark.parametrize(
    ("piece", "instead", "where", "words"),
    [
        ("two: one + one", "two: one + won", "facts", "won"),
        (THIRD, "  M3: {aye: two == 2, nay: two == 2}\n", "  M3:", "now it is: aye, nay"),
        (THIRD, "  M3: {aye: two == 1, nay: two == 3}\n", "  M3:", "now it is: none"),
        (THIRD, "  M3: {aye: two == 2}\n", "  M3:", "“nay” is in only one"),
        (THIRD, "  M33: {aye: two == 2, nay: two == 3}\n", "  M3:", "M33"),
        ("M4: [nay]", "M4: [aye]", "mistakes:", "“aye” is not a wrong option of M4"),
        ("M4: [nay]", "M4: nay", "mistakes:", "list"),
        ("Question M5?\n", "", "## M5", "asks nothing"),
        ("Question M5?", "Question M5, 5 times?", "Question M5?", "“5” is typed"),
        ("- nay: No, M6\n  > No, since it is {two}.\n", "- nay: No, M6\n", "## M6", "“nay” of “M6” has no explanation"),
        ("- nay: No, M6\n", "", "## M6", "Text after"),
        ("## M7", "## M13", "## M7", "no section “M13”"),
        ("mistakes:", "mistook:", "mistakes:", "mistook"),
    ],
)  # fmt: skip
def test_a_mistake_names_file_line_and_remedy(
    folder: Path, piece: str, instead: str, where: str, words: str
) -> None:
    """Catches: a mistake that is not seen, is reported of another line, or ends in a traceback."""
    assert GOOD.count(piece) == 1
    if words == "Text after":  # an option without its line: its explanation joins the one before
        words, where = "“nay” is in only one", "  M6:"
    (folder / "inventory.md").write_text(GOOD.replace(piece, instead), encoding="utf-8")
    found, problems = inventory.read("en", "before")
    assert found is None and len(problems) == 1
    said = re.fullmatch(r"en/inventory\.md, line (\d+): (.+)", str(problems[0]), re.DOTALL)
    assert said and words in said[2], problems
    assert int(said[1]) == at_line(where), problems


def test_a_broken_or_missing_file_is_named_on_the_page(folder: Path) -> None:
    (folder / "inventory.md").write_text(GOOD.replace("M4: [nay]", "M4: [aye]"), encoding="utf-8")
    at = page(inventory="before")
    assert "not a wrong option of M4" in sent(at).replace("\\", "") and not at.radio
    (folder / "inventory-after.md").unlink()
    at = page(inventory="after")
    assert "This file is missing" in sent(at).replace("\\", "")
    assert page(inventory="tomorrow").warning


# --- the way through -----------------------------------------------------------------------------------------------


def give(at: AppTest, when: str, option: str) -> str:
    """Answer the question that stands there; its name."""
    (radio,) = at.radio
    question = str(radio.key).removeprefix(f"inventory-{when}-")
    assert at.button(key="inventory-answer").disabled, "an answer nobody gave could be locked in"
    radio.set_value(option).run()
    press(at, "inventory-answer")
    return question


def kept(at: AppTest) -> progress.CourseProgress:
    found: progress.CourseProgress = at.session_state[progress.STORE]
    return found


def test_before_the_course_nothing_says_what_is_right() -> None:
    """Catches: a note, a mark, a right option or a score among all that is sent, before or after the last answer."""
    found = shipped()
    at = page(inventory="before")
    for number, question in enumerate(found.questions.values(), 1):
        text = sent(at)
        assert f"Question {number} of 12" in text
        assert question.text.prose[:40] in text
        others = [other for other in found.questions.values() if other is not question]
        assert not [other.id for other in others if other.text.prose[:40] in text], "one question at a time"
        notes = [item.note for each in found.questions.values() for item in each.text.items.values()]
        assert not [note for note in notes if note[:40] in text]
        given = list(question.text.items)[number % 3]
        assert not any(answer.right is not None for answer in kept(at).inventories.get("before", {}).values())
        assert give(at, "before", given) == question.id
        assert kept(at).inventories["before"][question.id].given == given
    text = sent(at)
    assert not at.radio and len(at.success) == 1
    assert not [note for note in notes if note[:40] in text]
    answers = kept(at).inventories["before"]
    assert {key: answer.right for key, answer in answers.items()} == {
        key: answers[key].given == question.right for key, question in found.questions.items()
    }
    assert "claim a learning gain" in text


def test_after_the_course_each_answer_is_explained_and_both_stand_side_by_side() -> None:
    """Right before, the misconception after: so that no cell of the table can be right by accident."""
    found = shipped()
    at = page(inventory="before")
    for question in found.questions.values():
        give(at, "before", question.right)
    at.query_params["inventory"] = "after"
    at.run()
    later = shipped("after")
    for question in later.questions.values():
        best, wrong = question.text.items[question.right], sorted(question.mistakes)[0]
        assert best.note[:40] not in sent(at)
        assert give(at, "after", wrong) == question.id
        text = sent(at)
        assert question.text.items[wrong].note[:40] in text and best.note[:40] in text
        assert misconception(question.id) in text
        assert len(at.error) == 1 and not at.success
        lesson = inventory.lesson_on("en", question)
        if lesson is None:
            assert "No lesson on this" in text
        else:
            assert at.button(key=f"inventory-lesson-{lesson.id}")
            assert f"The picture of lesson {lesson.number}" in text
        press(at, "inventory-next")
    text = sent(at)
    assert text.count("class='right'") == 12
    assert text.count("class='wrong'") == 12
    assert "claim a learning gain" in text
    rows = list(csv.DictReader(io.StringIO(inventory.as_csv(kept(at)))))
    assert [row["question"] for row in rows] == list(QUESTIONS)
    for row in rows:
        first, second = (each.questions[row["question"]] for each in (found, later))
        assert (row["before"], row["before_right"]) == (first.right, "True")
        assert (row["after"], row["after_right"]) == (sorted(second.mistakes)[0], "False")
    assert set(rows[0]) == {"question", "before", "before_right", "after", "after_right"}, (
        "who it was stays out"
    )
    press(at, "inventory-review")
    assert "Question 1 of 12" in sent(at) and not at.radio
    press(at, f"inventory-lesson-{inventory.treating('en')['M1'][0]}")
    assert "inventory" not in at.query_params and at.query_params["lesson"]


def test_an_answer_is_locked_and_a_link_cannot_open_what_is_not_answered(folder: Path) -> None:
    found = shipped()
    at = page(inventory="after", question="M7")
    assert "Question M1?" in sent(at) and "Question M7?" not in sent(at)
    give(at, "after", "nay")
    assert "No, since it is 2." in sent(at) and not at.radio
    inventory_answer = kept(at).inventories["after"]["M1"]
    assert (inventory_answer.given, inventory_answer.right) == ("nay", False)
    at.query_params["question"] = "result"
    at.run()
    assert "Question M2?" in sent(at), "the result opened early"
    assert "There is no lesson" not in sent(at)
    assert found.questions["M1"].right == "aye"


def test_an_open_inventory_has_no_marks_in_what_is_taken_home(folder: Path) -> None:
    """Catches: a download that reveals before the twelfth answer what the page does not."""
    at = page(inventory="before")
    give(at, "before", "aye")
    give(at, "before", "nay")
    assert not re.search("true|false", progress.as_json(kept(at)).lower())
    assert [row[:2] for row in csv.reader(io.StringIO(inventory.as_csv(kept(at))))][1:4] == [
        ["M1", "aye"],
        ["M2", "nay"],
        ["M3", ""],
    ]
    assert "True" not in inventory.as_csv(kept(at)) and "False" not in progress.as_csv(kept(at), {})
