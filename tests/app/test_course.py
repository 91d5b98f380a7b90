"""The course: what a lesson's file may say, and what the page sends before and after a prediction."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.course import overview, progress, teaching
from app.course.files import expressions, reading
from app.course.files.lesson import SECTIONS, STEPS, Lesson
from app.course.files.words import Words
from app.course.misconceptions import inventory

from . import english
from .course_page import PAGE, misconception, page, predict, press, sent

GOOD = """---
title: A race
gallery: false
misconceptions: [M4]
given: {alpha: 0.5}
facts:
  gain: speedup(alpha, 1, 0.5)
predict:
  right: {more: gain > 1, less: gain < 1, same: gain == 1}
watch: {picture: player, with: {examples: [draft-model]}}
change: {picture: player, with: {examples: [draft-model, slower]}}
explain: {formula: 'x'}
code:
  of: specdec_measure.theory:speedup
  lights: {whole: return tokens_per_pass}
check:
  right: {up: gain > 2, even: gain == 1}
  mistakes: {up: M3}
lab: {settings: {proposer: eagle}}
---
## hook
Who wins?

## predict
Which?
- more: The first
- less: The second
- same: Neither
  > They come out even, at {gain:.1f}.

## watch
Look.

## change
Try.

## explain
Because.
- x: What is asked for.

## code
Here.
- whole: All of it.

## check
And now?
- up: Up
  > No.
- even: Even
  > Yes.

## lab
Go.
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of lessons with one that is in order, used by the page too."""
    (tmp_path / "en").mkdir()
    (tmp_path / "en" / "strings").symlink_to(reading.FOLDER / "en" / "strings")
    (tmp_path / "en" / "00-good.md").write_text(GOOD, encoding="utf-8")
    monkeypatch.setattr(reading, "FOLDER", tmp_path)
    return tmp_path


def problems_of(folder: Path, text: str) -> list[str]:
    """What is said about a lesson with this text."""
    (folder / "en" / "01-bad.md").write_text(text, encoding="utf-8")
    lesson, problems = reading.read("en", "bad", folder)
    assert (lesson is None) == bool(problems)
    return [str(problem) for problem in problems]


def at_line(piece: str) -> int:
    """The line of the good lesson in which `piece` stands."""
    return next(at for at, line in enumerate(GOOD.splitlines(), 1) if piece in line)


def test_a_lesson_in_order_has_its_numbers_filled_in_and_its_answers_worked_out(folder: Path) -> None:
    """(1 − .5²)/(1 − .5) = 1.5 tokens in 1 + .5 passes: even."""
    lesson, problems = reading.read("en", "good", folder)
    assert problems == [] and lesson is not None
    assert lesson.facts == {"alpha": 0.5, "gain": 1.0}
    assert lesson.right == {"predict": {"same"}, "check": {"even"}}
    assert lesson.sections["predict"].items["same"].note == "They come out even, at 1.0."
    assert lesson.number == "0" and lesson.sections["hook"].prose == "Who wins?"


def at_line_after(piece: str) -> int:
    return at_line(piece) + 1


MISTAKES = (
    ("title: A race\n", "", 1, "is missing"),
    ("gallery: false", "gallery: 20", "gallery", "true or false"),
    ("misconceptions: [M4]", "misconceptions: [M13]", "misconceptions", "M13"),
    ("gallery: false", "gallery: false\ngalery: 3", 4, "galery"),
    ("gallery: false", "gallery: : 2", "gallery", "quote a text"),
    ("gallery: false", "gallery: false\ngallery: 3", 4, "twice"),
    ("gain: speedup", "gain: spedup", "gain: speedup", "spedup"),
    ("speedup(alpha, 1, 0.5)", "speedup(beta, 1, 0.5)", "gain: speedup", "beta"),
    ("speedup(alpha, 1, 0.5)", "speedup(2, 1, 0.5)", "gain: speedup", "cannot be computed"),
    ("speedup(alpha, 1, 0.5)", "().__class__", "gain: speedup", "cannot be computed"),
    ("speedup(alpha, 1, 0.5)", "9**9**9", "gain: speedup", "cannot be computed"),
    ("speedup(alpha, 1, 0.5)", "open('/etc/passwd')", "gain: speedup", "cannot be computed"),
    ("watch: {picture: player", "watch: {picture: plaxer", "watch:", "There is no picture “plaxer”"),
    ("with: {examples: [draft-model]}", "with: {examples: [dodo]}", "watch:", "dodo"),
    ("with: {examples: [draft-model]}", "with: {exampels: [draft-model]}", "watch:", "exampels"),
    (
        "specdec_measure.theory:speedup\n",
        "specdec_measure.theory:spedup\n",
        "of: specdec_measure",
        "specdec_measure.theory:spedup",
    ),
    ("specdec_measure.theory:speedup\n", "os:system\n", "of: specdec_measure", "os:system"),
    ("return tokens_per_pass", "return nothing", "lights:", "occurs in 0 lines"),
    ("lights: {whole:", "lights: {hole:", "lights:", "no item `- hole"),
    (
        "same: gain == 1}",
        "same: gain != 1}",
        "right: {more",
        "Exactly one option has to be right; now it is: none",
    ),
    ("less: gain < 1", "less: gain <= 1", "right: {more", "now it is: less, same"),
    (", same: gain == 1}", "}", "right: {more", "“same” is in only one of the two"),
    ("mistakes: {up: M3}", "mistakes: {even: M3}", "mistakes:", "“even” is not a wrong option"),
    ("at {gain:.1f}", "at {again:.1f}", "at {gain:.1f}", "There is no fact “again”"),
    ("at {gain:.1f}", "at {gain:.1q}", "at {gain:.1f}", "cannot be written as “.1q”"),
    ("at {gain:.1f}", "at 1.0", "at {gain:.1f}", "“1.0.” is typed"),
    ("## watch", "## wotch", "## watch", "There is no section “wotch”"),
    ("## watch\nLook.\n", "", None, "The section “watch” is missing"),
    ("## watch", "## hook", "## watch", "a second time"),
    ("Look.", "word " * 91, "Look.", "91 words for one screen; 90 are allowed"),
    ("Who wins?", "word " * 88, "Which?", "Hook and prediction share one screen and have 9"),
    ("- up: Up", "- up: Up\n- up: Down", at_line_after("- up: Up"), "two items “up”"),
    ("  > Yes.", "Yes.", "  > Yes.", "Text after a list"),
    ("---\ntitle", "title", 1, "The first line has to be `---`"),
    ("---\n## hook", "## hook", 1, "has no end"),
)


@pytest.mark.parametrize(("piece", "instead", "where", "words"), MISTAKES)
def test_a_mistake_names_file_line_and_remedy(
    folder: Path, piece: str, instead: str, where: str | int | None, words: str
) -> None:
    """Catches: a mistake that is not seen, is reported of another line, or ends in a traceback."""
    assert GOOD.count(piece) == 1
    found = problems_of(folder, GOOD.replace(piece, instead))
    assert len(found) == 1
    line = re.fullmatch(r"en/01-bad\.md, line (\d+): (.+)", found[0], re.DOTALL)
    assert line and words in line[2], found
    if where is not None:
        assert int(line[1]) == (where if isinstance(where, int) else at_line(where)), found


def test_all_that_is_wrong_with_the_form_is_reported_at_once(folder: Path) -> None:
    """Catches: a teacher who has to come back for every single mistake."""
    found = problems_of(folder, GOOD.replace("gallery: false", "gallery: 20").replace("[M4]", "[M13]"))
    assert len(found) == 2


def test_a_file_that_is_no_text_or_too_long_is_refused(folder: Path) -> None:
    (folder / "en" / "02-raw.md").write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8" in str(reading.read("en", "raw", folder)[1][0])
    assert "longer than" in problems_of(folder, GOOD + "x" * 70_000)[0]


def test_the_page_names_a_broken_lesson_and_the_rest_works(folder: Path) -> None:
    problems_of(folder, GOOD.replace("picture: player, with: {examples: [draft-model]}", "picture: plaxer"))
    at = page(lesson="bad")
    assert "en/01-bad.md, line 10" in sent(at).replace("\\", "") and "plaxer" in sent(at)
    assert [each.key for each in at.button if (each.key or "").startswith("open-")] == [
        "open-good",
        "open-bad",
    ]
    press(at, "open-good")
    assert "Which?" in sent(at)


def test_an_unknown_lesson_is_reported_and_the_list_stays(folder: Path) -> None:
    at = page(lesson="<img src=x onerror=alert(1)>")
    assert "There is no lesson" in at.warning[0].value
    assert at.button(key="open-good")


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"hide": "rail,moon"}, "The link hides “moon”"),
        ({"order": "good,zebra"}, "The link names the lesson “zebra”"),
        ({"lang": "tlh"}, "The link requests the language “tlh”"),
    ],
)
def test_what_a_link_names_wrongly_is_reported_and_the_rest_of_it_works(
    folder: Path, params: dict[str, str], words: str
) -> None:
    at = page(**params)
    assert [element.value for element in at.warning if words in element.value]
    assert at.button(key="open-good")


@pytest.mark.parametrize(
    "expression",
    ["1/0", "[1][5]", "'a' + 1", "", "x = 1", "lambda: 1", "(1).real", "'x' * 10**9"],
)
def test_an_expression_that_cannot_be_worked_out_says_so(expression: str) -> None:
    with pytest.raises(expressions.NoValue):
        expressions.value(expression, {})


# --- what ships ----------------------------------------------------------------------------------------------------


def shipped() -> list[str]:
    return [key for _, key, _, _ in reading.titles("en")]


def lesson_of(key: str) -> Lesson:
    lesson, problems = reading.read("en", key)
    assert lesson is not None, "\n".join(map(str, problems))
    return lesson


@pytest.fixture(params=shipped())
def lesson(request: pytest.FixtureRequest) -> Lesson:
    """Every lesson that ships."""
    return lesson_of(request.param)


def test_every_lesson_is_in_order(lesson: Lesson) -> None:
    """Catches: a lesson whose file has a mistake, a section that says nothing, a wrong option without a word."""
    assert all(lesson.sections[key].prose for key in SECTIONS)
    for at in ("predict", "check"):
        items = lesson.sections[at].items
        assert len(items) >= 2 or lesson.front.predict.kind == "number"
    assert all(item.note for item in lesson.sections["check"].items.values())
    assert lesson.sections["explain"].items, "a formula whose terms nobody explains"
    terms = [item.text for item in lesson.sections["explain"].items.values()]
    assert not [text for text in terms if "$" in text], (
        "a tip is plain text and would show the formula's source"
    )


def test_nothing_of_what_comes_is_in_the_page_before_the_prediction(lesson: Lesson) -> None:
    """Catches: an outcome, an answer or a picture that is sent before the prediction is locked in."""
    for step in (STEPS[0], "watch", "check"):
        at = page(lesson=lesson.id, at=step)
        text = sent(at)
        assert lesson.sections["hook"].prose[:20] in text
        later = [lesson.sections[key].prose for key in SECTIONS[2:]]
        later += [item.note for key in ("predict", "check") for item in lesson.sections[key].items.values()]
        asked = {item.text for item in lesson.sections["predict"].items.values()}
        later += [item.text for item in lesson.sections["check"].items.values() if item.text not in asked]
        assert [piece for piece in filter(None, later) if piece[:60] in text] == []


def test_a_prediction_is_kept_and_cannot_be_changed(lesson: Lesson) -> None:
    """Catches: a lock that does not hold, a prediction that is not on every later screen, a step that breaks, a
    choice between pictures that leaves none."""
    at = predict(page(lesson=lesson.id), lesson)
    for step in STEPS[1:]:
        at.query_params["at"] = step
        at.run()
        assert not at.exception, at.exception
        assert "You predicted:" in sent(at)
        prose = lesson.sections[step].prose
        assert prose.split("\n")[0][:30] in sent(at)
        # What is in use cannot be pressed away: no option would look chosen.
        assert [choice.key for choice in at.button_group if not choice.proto.required] == []
    at.query_params["at"] = STEPS[0]
    at.run()
    assert "course-lock" not in [button.key for button in at.button]


def test_a_number_is_named_on_the_button_that_locks_it() -> None:
    """What is typed out of range is not taken: the button says what is."""
    lesson = next(each for key in shipped() if (each := lesson_of(key)).front.predict.kind == "number")
    at = page(lesson=lesson.id)
    assert at.button(key="course-lock").disabled
    at.number_input(key=f"course-{lesson.id}-prediction").set_value(lesson.front.predict.low).run()
    assert at.button(key="course-lock").label == f"Lock in {lesson.front.predict.low:g}"


def test_every_answer_is_judged_and_explained(lesson: Lesson) -> None:
    """Catches: a right answer called wrong, a wrong one without its misconception."""
    predicted = predict(page(lesson=lesson.id), lesson).session_state[progress.STORE]
    for option in lesson.sections["check"].items:
        at = page(predicted, lesson=lesson.id, at="check")
        at.radio(key=f"course-{lesson.id}-check").set_value(option).run()
        press(at, "course-answer")
        text = sent(at)
        right = option in lesson.right["check"]
        assert (len(at.success), len(at.error)) == ((1, 0) if right else (0, 1))
        if missed := lesson.front.check.mistakes.get(option):
            assert misconception(missed) in text
        assert len([button for button in at.button if button.key == "course-answer"]) == 0


@pytest.mark.parametrize("language", ["en", "de"])
def test_wrong_answers_name_beliefs_of_their_own_and_one_each(language: str) -> None:
    """Catches: one sentence of two mistakes below two answers, of which each shows one; a half without a text."""
    for key in shipped():
        found, problems = reading.read(language, key)
        assert found is not None, problems
        beliefs = list(found.front.check.mistakes.values())
        said = [Words(language, reading.FOLDER)(f"misconceptions.{belief}") for belief in beliefs]
        assert len(set(beliefs)) == len(beliefs), key
        assert not [text for text in said if re.search(r"\b(or|oder)\b", text)], key


def test_every_misconception_is_taught() -> None:
    """The twelve of the field: each belongs to a lesson, and a wrong answer somewhere names it."""
    lessons = [lesson_of(key) for key in shipped()]
    taught = {name for each in lessons for name in each.front.misconceptions}
    checks = [each.front.check for each in lessons]
    named = {check.misconception(option) for check in checks for option in check.mistakes}
    everything = {f"M{at}" for at in range(1, 13)}
    assert taught == everything
    assert named == everything


# --- what gives an answer away, what helps to choose, where a page begins -------------------------------------------


def test_no_option_of_a_choice_stands_out_by_its_length(lesson: Lesson) -> None:
    """Catches: a right option that is given away by being the only careful one, or the only short one."""
    if lesson.front.predict.kind != "choice":
        return
    items = lesson.sections["predict"].items
    long = {key: len(item.text.split()) for key, item in items.items()}
    (right,) = lesson.right["predict"]
    others = [words for key, words in long.items() if key != right]
    assert min(others) / 2 <= long[right] <= 1.5 * max(others), long


def test_no_text_is_named_by_how_hard_it_is() -> None:
    """A label on the screen of the prediction is a plain name."""
    for key in shipped():
        picture = lesson_of(key).front.predict.picture
        if picture is not None and isinstance(names := picture.given.get("examples"), dict):
            giveaway = re.compile(r"hard|easy|slow|fast|guess|repeat", re.IGNORECASE)
            assert not [name for name in names.values() if giveaway.search(name)], key


def test_options_of_the_lookup_are_not_in_the_order_of_the_answer() -> None:
    """Catches: the ones that are right in a row, before those that are not."""
    found = lesson_of("lookup")
    right = [key in found.right["predict"] for key in found.sections["predict"].items]
    assert right not in (sorted(right), sorted(right, reverse=True))


def test_the_course_speaks_the_fields_english() -> None:
    """Catches: words of the first draft that no engineer uses, and terms that only the code knows."""
    strange = re.compile(r"\b(laws?|readers|dear(er)?|dice|memory of the text|T_d)\b")
    assert [text for _, text in english.said("en") if strange.search(text)] == []


def test_a_card_says_what_its_lesson_shows_and_not_how_it_comes_out() -> None:
    text = sent(page()).replace("\\", "")
    for key in shipped():
        lesson = lesson_of(key)
        about = lesson.front.about
        assert about and about[-1] in ".?" and about in text, key
        if lesson.front.predict.kind == "choice":
            (right,) = lesson.right["predict"]
            assert lesson.sections["predict"].items[right].text.lower() not in about.lower()


def test_minutes_are_those_of_reading_and_of_seven_steps(folder: Path) -> None:
    """Catches: a time that is typed. Twice two hundred words take two minutes more."""
    alone = page()
    (minutes,) = {minutes for _, _, _, minutes in reading.titles("en", folder)}
    assert minutes == round(len(re.findall(r"\S+", GOOD.split("## hook\n")[1])) / 200 + 7 * 0.8)
    assert f"in about {minutes} min" in sent(alone)
    longer = GOOD.replace("Look.", "word " * 400).replace("A race", "Another")
    (folder / "en" / "01-other.md").write_text(longer, encoding="utf-8")
    assert f"in about {2 * minutes + 2} min" in sent(page())


def test_of_the_gallery_two_count_and_the_way_on_leads_past_the_others() -> None:
    lessons = overview.listed("en", "")
    gallery = [each for each in lessons if each.gallery]
    ids = [each.id for each in lessons]
    assert [each.id for each in gallery] == ids[ids.index(gallery[0].id) :][: len(gallery)], (
        "they follow each other"
    )
    assert len(gallery) == 8
    others = sum(each.minutes for each in lessons if not each.gallery)
    assert overview.minutes(lessons) == others + round(2 * sum(each.minutes for each in gallery) / 8)
    kept = progress.CourseProgress()
    for each in gallery[:2]:
        kept.of(each.id).predict = kept.of(each.id).check = progress.answer("x", False)
    at = page(kept, lesson=gallery[1].id, at="lab")
    press(at, "course-past")
    assert at.query_params["lesson"] in ("choosing", ["choosing"])


def test_the_order_is_one_in_which_nothing_is_used_before_it_is_explained() -> None:
    """Catches: the speedup formula in a lesson on proposers before the lesson that derives it."""
    order = [key for _, key, _, _ in reading.titles("en")]
    first = ["race", "weights", "tokens", "draft-verify", "first-word", "coin", "lossless", "length"]
    assert [key for key in order if key in first] == first
    assert order.index("length") < order.index("blind") < order.index("eagle") < order.index("trees")
    last = ["rules", "budget", "overlap", "fails", "sandbox"]
    assert [key for key in order if key in last] == order[-5:] == last


def test_a_teacher_chooses_a_lecture_of_three_quarters_of_an_hour_or_twice_that() -> None:
    """Catches: a preset that names a lesson which does not exist, or takes far longer than a lecture."""
    lessons = overview.listed("en", "")
    for name, low, high in (("brief", 12, 22), ("short", 40, 50), ("double", 75, 100)):
        chosen = [each for each in lessons if each.id in teaching.PRESETS[name]]
        assert [each.id for each in chosen] == list(teaching.PRESETS[name])
        assert low <= overview.minutes(chosen) <= high, (name, overview.minutes(chosen))
    at = page()
    press(at, "teach")
    links = [each.proto.url for each in at.get("link_button")]
    for ids in teaching.PRESETS.values():
        wanted = f"order={','.join(ids)}&lesson={ids[0]}"
        assert sum(wanted in link for link in links) == 2
        assert sum(f"{wanted}&present=1" in link for link in links) == 1
    press(at, "teach-short")
    assert at.session_state["teach-order"] == list(teaching.SHORT)


def test_a_line_about_a_lesson_holds_no_typed_number(folder: Path) -> None:
    assert problems_of(folder, GOOD.replace("gallery: false", "about: Three of 4 win."))
    assert not problems_of(folder, GOOD.replace("gallery: false", "about: Three win."))


FRAMED = """
import runpy
from app.course import top
from app.ui import frame
frame.draw("course", *top.shown())
runpy.run_path({page!r}, run_name="__main__")
"""


def framed(**params: str) -> AppTest:
    """The page with the script that every page has, as `main.py` draws them."""
    at = AppTest.from_string(FRAMED.format(page=str(PAGE)), default_timeout=60)
    for key, value in params.items():
        at.query_params[key] = value
    at.run()
    assert not at.exception, at.exception
    return at


def place_of(at: Any) -> str:
    """What the page says is on show; the browser goes to the top where it changes."""
    found = re.search(r'"top": ?"([^"]*)"', sent(at))
    assert found
    return found[1]


def param(at: Any, key: str) -> str | None:
    """What the address says of a key."""
    value = at.query_params.get(key)
    return value[-1] if isinstance(value, list) else value


def test_n_and_b_lead_through_the_lessons_of_a_lecture() -> None:
    """Catches: N that ends at a lesson's last step, as long as its question is not answered or for good."""

    def keys(at: Any) -> dict[str, str]:
        return {button.proto.shortcut: button.key for button in at.button if button.proto.shortcut}

    at = page(order="race,coin", lesson="race", hide="code", present="1")
    assert "b" not in keys(at)  # nothing comes before it
    press(at, keys(at)["p"])
    for step in ("change", "explain", "check", "lab"):
        press(at, keys(at)["n"])
        assert param(at, "at") == step
    press(at, keys(at)["n"])
    assert (param(at, "lesson"), param(at, "at"), param(at, "order")) == ("coin", None, "race,coin")
    press(at, keys(at)["b"])
    assert (param(at, "lesson"), param(at, "at")) == ("race", "lab")
    press(at, keys(at)["n"])
    press(at, keys(at)["p"])
    while param(at, "at") != "lab":
        press(at, keys(at)["n"])
    press(at, keys(at)["n"])
    assert param(at, "inventory") == "after"


def test_a_class_sees_nothing_of_what_its_teacher_answered_before() -> None:
    """Catches: a lesson that was prepared, and opens before the class with the right answer; a teacher's own answers
    lost, or replaced by the class's; a presentation that a reload or leaving it takes back to the prediction."""
    mine = progress.CourseProgress()
    mine.of("draft-verify").predict = progress.answer(3.0, True)
    mine.of("draft-verify").check = progress.answer("x", True)
    mine.of("draft-verify").farthest = 6
    place = {"lesson": "draft-verify", "order": "race,draft-verify", "present": "1"}
    at = page(mine, **place)
    assert "You predicted" not in sent(at)
    assert at.button(key="course-to-watch").disabled
    press(at, "course-reveal")
    assert at.session_state[progress.STORE] == mine
    press(at, "leave")
    assert "You predicted" in sent(at)
    reloaded = page(mine, **place, at="check")
    assert not reloaded.radio(key="course-draft-verify-check").disabled
    assert "You predicted" not in sent(reloaded)
    unprepared = page(progress.CourseProgress(), **place)
    press(unprepared, "course-reveal")
    press(unprepared, "leave")
    assert param(unprepared, "at") == "watch" and not unprepared.button(key="course-to-change").disabled


def test_a_new_step_or_list_is_a_new_place_and_a_choice_is_none() -> None:
    at, lesson = framed(lesson="race"), lesson_of("race")
    places = [place_of(at)]
    at.radio(key="course-race-prediction").set_value("both").run()
    assert place_of(at) == places[0]
    press(at, "course-lock")
    places.append(place_of(at))
    press(at, "course-next")
    places.append(place_of(at))
    press(at, "course-all")
    places.append(place_of(at))
    press(at, "open-coin")
    places.append(place_of(at))
    press(at, "course-all")
    assert place_of(at) == places[3]
    press(at, "beside-claims-1")
    places.append(place_of(at))
    press(at, "claim-less-computation-false")
    assert place_of(at) == places[-1]
    assert len(set(places)) == len(places), lesson.id


def test_the_next_question_is_a_new_place_and_its_explanation_is_none() -> None:
    for when in ("before", "after"):
        at = framed(inventory=when)
        first = place_of(at)
        found, _ = inventory.read("en", when)  # type: ignore[arg-type]
        assert found is not None
        (field,) = at.radio
        question = str(field.key).removeprefix(f"inventory-{when}-")
        field.set_value(next(iter(found.questions[question].text.items))).run()
        press(at, "inventory-answer")
        if when == "after":
            assert place_of(at) == first
            press(at, "inventory-next")
        assert place_of(at) != first


def test_a_sheet_asks_and_does_not_answer(lesson: Lesson) -> None:
    """Catches: a sheet whose picture is that of the next step, or that prints a note or the key unasked."""
    text = sent(page(sheet="1", order=lesson.id))
    assert lesson.sections["predict"].prose[:40] in text and lesson.sections["check"].prose[:40] in text
    notes = [item.note for at in ("predict", "check") for item in lesson.sections[at].items.values()]
    assert not [note for note in notes if note and note[:40] in text]
