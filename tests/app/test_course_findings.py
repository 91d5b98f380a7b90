"""Openings, options and screens of the course do not give their answers away: where a word decides and no number."""

from __future__ import annotations

import re

import pytest

from app.course.facts.recorded import trace
from app.course.files import reading
from app.course.files.lesson import Lesson
from app.course.files.words import Words
from app.course.misconceptions import inventory
from app.ui.glossary import TERMS

LANGUAGES = reading.languages()


def lesson(key: str, language: str = "en") -> Lesson:
    found, problems = reading.read(language, key)
    assert found is not None, problems
    return found


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("weights", "moves weights|all of its weights"),  # that they are read once
        ("first-word", "first word|which of the two|moment|of this"),  # that it is the words after it
        ("lossless", "same seed"),  # what two sampled runs may differ in
        ("blind", "cost nothing|checked"),  # that the check is what costs
        ("lookahead", "one after another|each pass|when are"),  # that one position per pass is certain
        ("medusa", "at once|never sees"),  # that no head knows the one before
        ("eagle", "continues|what does that change|reads|medusa"),  # that its lists differ
        ("rules", "how many|models and machine|nothing else|should"),  # that less is drafted
        ("cache", "new rows"),  # that what was not read has none
        ("sandbox", "as possible|wast"),  # that it is neither plain decoding nor a tree
    ],
)
def test_no_opening_names_what_is_asked(key: str, words: str) -> None:
    """Catches: a title, an opening or a question that answers itself."""
    found = lesson(key)
    opening = " ".join([found.front.title, *(found.sections[each].prose for each in ("hook", "predict"))])
    assert not re.search(words, opening.lower())


def test_no_number_on_the_screen_is_the_answer() -> None:
    """Catches: an answer that can be read off its own screen, as a probability or as the number of the positions."""
    shared = lesson("shared")
    assert shared.answer is not None
    shown = [100 * share for name in ("p", "q") for share in shared.front.given[name]]
    assert min(abs(each - shared.answer) for each in shown) > shared.front.predict.tolerance * shared.answer
    asked = lesson("lookahead").sections["predict"]
    assert not [item.text for item in asked.items.values() if re.search(r"\d", item.text)]
    sizes = {key: len(item.text.split()) for key, item in lesson("lookup").sections["predict"].items.items()}
    assert max(sizes.values()) <= 3, sizes  # none is named more closely than the others


REASON = re.compile(r"[:;]|, (as|since|because|denn|da|weil) ")


@pytest.mark.parametrize("language", LANGUAGES)
def test_options_of_a_prediction_give_no_reasons(language: str) -> None:
    """Catches: a right option that is told by the reason it gives, or by being the only one without."""
    for _, key, _, _ in reading.titles(language):
        found = lesson(key, language)
        texts = [item.text for item in found.sections["predict"].items.values()]
        assert not [text for text in texts if REASON.search(text)], key
        if found.front.predict.kind == "several":  # one may be right
            label = Words(language, reading.FOLDER)("steps.your_choices")
            assert "one or more" in label or "eine oder mehrere" in label


@pytest.mark.parametrize(
    ("key", "given", "belief"),
    [
        ("race", "always", "M10b"),
        ("race", "different", "M5"),
        ("lookahead", "all", "M9"),
        ("lookahead", "alone", None),  # the opposite of M9
        ("medusa", "waits", "M7"),
        ("medusa", "mask", None),
        ("eagle", "none", "M7"),
    ],
)
def test_a_wrong_answer_is_named_by_the_belief_behind_it(key: str, given: str, belief: str | None) -> None:
    found = lesson(key)
    assert given in found.sections["check"].items and given not in found.right["check"]
    assert found.front.check.mistakes.get(given) == belief


def test_each_wrong_text_of_one_seed_is_the_belief_in_one_text() -> None:
    """M6 by its own name: the same text, or a fault where it is another. Catches: only half of it being found."""
    found, problems = inventory.read("en", "before")
    assert found is not None, problems
    asked = found.questions["M6"]
    assert asked.right == "other" and set(asked.mistakes) == {"same", "broken"}


def test_the_tree_says_what_a_sibling_catches() -> None:
    """Catches: “60% for every guess”, which a bush of eight does not reach."""
    assert "earlier siblings missed" in Words("en", reading.FOLDER)("tree_builder.guesser_help")
    for section in ("change", "explain"):
        assert "earlier siblings missed" in lesson("trees").sections[section].prose


def test_the_glossary_agrees_with_the_lessons() -> None:
    """Lesson 5: rounding may change a greedy text. Lesson 9: a lossy rule may be slower."""
    assert (
        "rounds differently" in TERMS["Greedy"]
        and "round differently" in lesson("lossless").sections["explain"].prose
    )
    assert (
        "slower" in TERMS["Lossy"]
        and lesson("rules").facts["strict_tokens"] < lesson("rules").facts["tokens_before"]
    )


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("key", "step"), [("blind", "watch"), ("choosing", "change")])
def test_what_another_step_showed_is_named_by_that_step(language: str, key: str, step: str) -> None:
    """Catches: “the recording above” where it is two steps back."""
    words = Words(language, reading.FOLDER)
    explained = lesson(key, language).sections["explain"].prose
    assert words(f"steps.{step}") in explained and not re.search(r"\b(above|oben)\b", explained)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_chart_that_may_stand_below_another_is_not_called_the_right_one(language: str) -> None:
    """Catches: “the cut on the right” on a phone and in a room, where two charts stand one below another."""
    beside = []
    for _, key, _, _ in reading.titles(language):
        found = lesson(key, language)
        for step in ("watch", "change", "explain"):
            picture = getattr(found.front, step).picture
            name = getattr(picture, "picture", picture)
            beside += [found.sections[step].prose] if name == "length-surface" else []
    assert len(beside) > 2
    assert [said for said in beside if re.search(r"\b(on the (right|left)|rechts|links)\b", said)] == []


def test_what_the_lessons_say_of_their_papers_methods() -> None:
    """Catches: Medusa's state that knows the round's first token, LayerSkip that checks with all layers, a play that is
    called hard to guess although it repeats itself."""
    assert "two ahead" in lesson("medusa").sections["explain"].items["h"].text
    note = lesson("early-exit").sections["check"].items["less"].note
    assert (
        note is not None and "LayerSkip keeps what the first ones computed and checks with the rest" in note
    )
    play = lesson("race").sections["predict"].items["code"].note
    assert play is not None and "repeats itself" in play and lesson("race").facts["hard"] < 1
    written = trace("slower").token_ids
    windows = [tuple(written[at : at + 8]) for at in range(len(written) - 7)]
    assert len(set(windows)) < len(windows)
