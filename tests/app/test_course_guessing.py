"""What a learner could score without understanding anything: by the length of the options, by their place on a scale,
by their wording, or by the numbers on the screen. In both languages, over the lessons' predictions, their checks, and
the twelve questions before and after."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pytest

from app.course.files import reading
from app.course.files.lesson import Lesson, Section
from app.course.misconceptions import inventory

ROOM = 0.15  # above chance
KINDS = ("predict", "check", "before", "after")
LANGUAGES = ("en", "de")


class Asked(NamedTuple):
    """A question: what its screen says besides the options, the options in the file's order, the right one's place."""

    key: str
    texts: tuple[str, ...]
    right: int
    scale: bool = False
    screen: str = ""

    @property
    def long(self) -> tuple[int, ...]:
        return tuple(map(len, self.texts))


def lessons(language: str) -> Iterator[Lesson]:
    for _, key, _, _ in reading.titles(language):
        lesson, problems = reading.read(language, key)
        assert lesson is not None, problems
        yield lesson


def opening(lesson: Lesson) -> str:
    """What is read on a prediction's screen before its options."""
    return " ".join([lesson.front.title, *(lesson.sections[each].prose for each in ("hook", "predict"))])


def asked(language: str, kind: str) -> list[Asked]:
    """The questions with one right option."""
    if kind in ("before", "after"):
        found, problems = inventory.read(language, "before" if kind == "before" else "after")
        assert found is not None, problems
        return [_one(each.id, each.text, each.right) for each in found.questions.values()]
    questions = []
    for lesson in lessons(language):
        front = lesson.front.predict
        if kind == "check" or front.kind == "choice":
            (right,) = lesson.right[kind]
            section = lesson.sections[kind]
            screen = section.prose if kind == "check" else opening(lesson)
            scale = kind == "predict" and front.ordered
            questions.append(_one(lesson.id, section, right, scale, screen))
    return questions


def _one(key: str, section: Section, right: str, scale: bool = False, screen: str = "") -> Asked:
    texts = tuple(item.text for item in section.items.values())
    return Asked(key, texts, list(section.items).index(right), scale, screen or section.prose)


def score(questions: Sequence[Asked], rank: int) -> float:
    """Of those who always take the option of this rank by length: 0 is the longest, -1 the shortest. Ties are drawn."""
    total = 0.0
    for each in questions:
        wanted = sorted(each.long, reverse=True)[min(rank, len(each.long) - 1)]
        if each.long[each.right] == wanted:
            total += 1 / each.long.count(wanted)
    return total / len(questions)


def chance(questions: Sequence[Asked]) -> float:
    return sum(1 / len(each.texts) for each in questions) / len(questions)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_rank_by_length_is_a_key(language: str, kind: str) -> None:
    """Catches: right options that are always the longest, and those that are never the longest nor the shortest, so
    that the one between is right."""
    questions = asked(language, kind)
    assert len(questions) >= 12
    most = chance(questions) + ROOM
    found = {rank: round(score(questions, rank), 2) for rank in (0, 1, -2, -1)}
    assert max(found.values()) <= most, (found, round(most, 2), [each.key for each in questions])


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_extremes_of_a_scale_are_not_for_show(language: str) -> None:
    """Catches: scales on which an option at an end is never right."""
    scales = [each for each in asked(language, "predict") if each.scale]
    inside = [each for each in scales if 0 < each.right < len(each.long) - 1]
    assert scales and len(inside) < len(scales)
    # Who leaves the ends out and draws among the others:
    lucky = sum(1 / (len(each.long) - 2) for each in inside) / len(scales)
    assert lucky <= chance(scales) + ROOM, [each.key for each in inside]


def test_the_scores_are_those_of_a_guesser() -> None:
    """By hand: three questions, right once the longest, once the second of three, once tied for the shortest."""
    lengths = [("a", (9, 5, 7), 0), ("b", (4, 8, 6), 2), ("c", (3, 3, 9), 1)]
    made = [Asked(key, tuple("x" * size for size in sizes), right) for key, sizes, right in lengths]
    assert score(made, 0) == pytest.approx(1 / 3)
    assert score(made, 1) == pytest.approx((1 + 1 / 2) / 3)
    assert score(made, -1) == pytest.approx((1 / 2) / 3)
    assert chance(made) == pytest.approx(1 / 3)


# --- wording -------------------------------------------------------------------------------------------------------

HEDGE = {
    "en": r"may|can|could|might|most|about|far from|hardly|depends?|clearly|perhaps|if|where|part|some|than|but|other",
    "de": r"kann|können|könnte|meisten|etwa|bei weitem|fast|kaum|hängt|deutlich|vielleicht|wenn|wo|Teil|einige|als|"
    r"aber|noch",
}
ABSOLUTE = {
    "en": r"all|always|never|every|exactly|only|nothing|none|no|any|whatever|neither|both",
    "de": r"alle[nrs]?|immer|nie|niemals|jede[mnrs]?|genau|nur|nichts|kein\w*|gar|beide\w*",
}
REASON = r", (?:as|since|because|denn|da|weil) |: "
FILLERS = set(
    "the that this with from than when what which their they them each more most have been into will then does would "
    "could every about after before where between there those these other only both eine einer einem einen eines dass "
    "wird werden nicht auch sich oder aber noch wenn dann nach jede jedes jeder jeden mehr viele ohne über sind wurde "
    "haben".split()
)
NUMBER = r"\d[\d.,]*"


def words(text: str) -> set[str]:
    """Its words that carry meaning, cut to five letters, so that “guess” and “guesses” are one."""
    found = (word for word in re.findall(r"\w+", text.lower()) if len(word) > 3 and word not in FILLERS)
    return {word[:5] for word in found}


def number_of(pattern: str, text: str) -> int:
    return len(re.findall(rf"\b(?:{pattern})\b", text, re.IGNORECASE))


# By what a reader who knows nothing might sort options: the text, the other options, the screen, the language.
CUES: dict[str, Callable[[str, list[str], str, str], int]] = {
    "repeats the screen": lambda text, others, screen, language: len(words(text) & words(screen)),
    "is like the others": lambda text, others, screen, language: sum(
        len(words(text) & words(other)) for other in others
    ),
    "is hedged": lambda text, others, screen, language: number_of(HEDGE[language], text),
    "is absolute": lambda text, others, screen, language: number_of(ABSOLUTE[language], text),
    "gives a reason": lambda text, others, screen, language: len(re.findall(REASON, text)),
    "repeats a number": lambda text, others, screen, language: len(
        set(re.findall(NUMBER, text)) & set(re.findall(NUMBER, screen))
    ),
}


def by_wording(
    questions: Sequence[Asked], cue: str, pick: Callable[[list[int]], int], language: str
) -> float:
    """Of those who always take the option in which the cue is strongest, or weakest. Ties are drawn."""
    total = 0.0
    for each in questions:
        found = [
            CUES[cue](text, [*each.texts[:at], *each.texts[at + 1 :]], each.screen, language)
            for at, text in enumerate(each.texts)
        ]
        if found[each.right] == pick(found):
            total += 1 / found.count(pick(found))
    return total / len(questions)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_way_of_wording_is_a_key(language: str, kind: str) -> None:
    """Catches: right options that are the cautious ones, that alone give no reason, that are told by a word of the
    question, or by what they share with the wrong ones."""
    questions = asked(language, kind)
    most = chance(questions) + ROOM
    found = {
        (cue, pick.__name__): round(by_wording(questions, cue, pick, language), 2)
        for cue in CUES
        for pick in (max, min)
    }
    assert max(found.values()) <= most, {name: share for name, share in found.items() if share > most}


def test_the_cues_are_those_of_a_reader() -> None:
    """By hand: the cautious option, then one of the two that give a reason."""
    made = [
        Asked("a", ("It may grow", "It never grows", "It grows, as all do"), 0, screen="What does it do?"),
        Asked(
            "b",
            ("No, as it rains", "Yes, since it snows", "Perhaps"),
            1,
            screen="Who knows whether it snows?",
        ),
    ]
    assert by_wording(made, "is hedged", max, "en") == pytest.approx((1 + 0) / 2)
    assert by_wording(made, "gives a reason", max, "en") == pytest.approx((0 + 1 / 2) / 2)
    assert by_wording(made, "repeats the screen", max, "en") == pytest.approx((1 / 3 + 1) / 2)
    assert by_wording(made, "repeats a number", max, "en") == pytest.approx((1 / 3 + 1 / 3) / 2)


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_option_of_a_prediction_is_left_out_by_its_beginning(language: str) -> None:
    """Catches: three times Yes against one No; one option of another form than all others."""
    for each in asked(language, "predict"):
        first = [text.split()[0] for text in each.texts]
        assert max(map(first.count, first)) != len(first) - 1 or len(first) == 3, (each.key, first)


# --- numbers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_number_at_hand_is_the_answer(language: str) -> None:
    """Catches: an answer in the middle of its range, at its end, or printed on its screen."""
    asks = [lesson for lesson in lessons(language) if lesson.answer is not None]
    assert len(asks) >= 3
    for lesson in asks:
        front, answer = lesson.front.predict, lesson.answer
        assert answer is not None
        printed = [
            float(found.rstrip(".,").replace(",", ".")) for found in re.findall(NUMBER, opening(lesson))
        ]
        at_hand = [front.low, front.high, (front.low + front.high) / 2, *printed]
        off = min(abs(each - answer) for each in at_hand)
        assert off > front.tolerance * answer, (lesson.id, at_hand)


def test_the_target_s_favourite_is_not_by_itself_what_replaces_a_guess() -> None:
    """Catches: bars of which the tallest frame is the answer, for whatever reason it is taken."""
    (lesson,) = (each for each in lessons("en") if each.id == "coin")
    p = lesson.front.given["p"]
    tallest = list(lesson.sections["predict"].items)[p.index(max(p))]
    assert lesson.right["predict"] != {tallest}


def test_two_drafts_are_not_told_apart_by_their_numbers_alone() -> None:
    """The larger draft's guesses are rejected less often by more than they cost more, and accepted more often by less.
    Catches: two points more accepted for half again the price."""
    (lesson,) = (each for each in lessons("en") if each.id == "draft-model")
    facts = lesson.facts
    dearer = facts["large_cost"] / facts["small_cost"]
    assert facts["large_rate"] / facts["small_rate"] < dearer
    assert (1 - facts["small_rate"]) / (1 - facts["large_rate"]) > dearer
