"""The course in another language: nothing missing, nothing in English, and the same numbers, conditions and keys."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.course import progress
from app.course.common_claims import claims
from app.course.files import reading
from app.course.files.words import Words
from app.course.misconceptions import inventory

from . import english
from .course_page import page, press

LANGUAGES = [name for name in reading.languages() if name != "en"]
FACT = re.compile(r"\{([A-Za-z_]\w*)(?::[^{}]*)?\}")
# What a lesson says in its front matter; all else of it decides what is right, and is the same in every language.
SAYS = {"title", "about", "claim", "name", "says"}


def strings(language: str) -> dict[str, str]:
    return Words(language, reading.FOLDER).all()


@pytest.mark.parametrize("language", LANGUAGES)
def test_nothing_is_missing(language: str) -> None:
    """Catches: a new English string, lesson, claim or module of the player that nobody has translated yet."""
    missing = sorted(strings("en").keys() - strings(language).keys())
    folder, own = reading.FOLDER / "en", reading.FOLDER / language
    files = [path.relative_to(folder) for path in folder.rglob("*.md")]
    missing += sorted(str(path) for path in files if not (own / path).is_file())
    assert not missing, f"not in {language}: {', '.join(missing)}"
    beyond = sorted(strings(language).keys() - strings("en").keys())
    assert not beyond, f"in {language} alone: {', '.join(beyond)}"


@pytest.mark.parametrize("language", reading.languages())
def test_a_tooltip_s_template_reaches_plotly_as_it_is(language: str) -> None:
    """Catches: "%{{y:.2f}}× with %{{x}} requests" on the screen, from a text that Python does not fill in."""
    templates = {key: text for key, text in strings(language).items() if "%{" in text}
    assert templates
    assert {key: text for key, text in templates.items() if "{{" in text} == {}


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_file_is_valid(language: str) -> None:
    problems = [
        problem for _, key, _, _ in reading.titles(language) for problem in reading.read(language, key)[1]
    ]
    problems += claims.every(language)[1]
    problems += [problem for when in inventory.WHEN for problem in inventory.read(language, when)[1]]
    assert problems == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_english_word_is_left(language: str) -> None:
    """Catches: a sentence, a label, a word of the player that is still English."""
    found = [
        (place, word, text[:80])
        for place, text in english.said(language)
        for word in english.left(language, text)
    ]
    assert found == []


def test_german_is_written_with_its_own_marks() -> None:
    """Catches: a quotation in English marks, one that is not closed, a decimal point."""
    found = []
    for place, text in english.said("de"):
        bare = re.sub(r"`[^`]*`", "", text)
        marks = re.sub("[^„“”]", "", bare)
        wrong = (
            "”" in marks if place.startswith("messages.js") else marks.replace("„“", "")
        )  # scripts: pieces of sentences
        if wrong or re.search(r"(?<![\w.])\d+\.\d", bare):
            found.append((place, text))
    assert found == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_allowed_word_is_needed(language: str) -> None:
    """Catches: a list of allowed words that lets through more than the course uses."""
    used = {word for _, text in english.said(language) for word in english.words(text)}
    assert english.allowed(language) <= used & english.vocabulary()


@pytest.mark.parametrize("language", LANGUAGES)
def test_english_left_over_would_be_found(language: str) -> None:
    """The proof that the test above can fail: nearly every text of the English course, taken for a translation."""
    texts = [text for _, text in english.said("en") if len(english.words(text)) > 3]
    found = [bool(english.left(language, text)) for text in texts]
    assert sum(found) > 0.98 * len(found) > 900


@pytest.mark.parametrize("language", LANGUAGES)
def test_numbers_conditions_and_keys_are_the_same(language: str) -> None:
    """Catches: a condition or a fact changed in one language only; a number that a translation leaves out."""
    found = []
    folder = reading.FOLDER / "en"
    for path in sorted(folder.rglob("*.md")):
        name = path.relative_to(folder)
        front, body = apart(path)
        own_front, own_body = apart(reading.FOLDER / language / name)
        found += [f"{name}: {place}" for place in differences(front, own_front)]
        for heading in body.keys() | own_body.keys():
            one, other = body.get(heading, []), own_body.get(heading, [])
            if one != other:
                found.append(f"{name}, {heading}: {one} is {other}")
    for key, text in strings("en").items():
        own = strings(language).get(key, text)
        if values(text) != values(own):
            found.append(f"{key}: {own}")
    assert found == []


def apart(path: Path) -> tuple[dict[str, Any], dict[str, list[tuple[str, set[str]]]]]:
    """The front matter, and for each section the keys of its items with the facts of each text."""
    _, front, body = path.read_text(encoding="utf-8").split("---\n", 2)
    sections: dict[str, list[tuple[str, set[str]]]] = {}
    for part in re.split(r"^## ", body, flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        free = heading in ("explain", "code")  # their keys are shown, so they are translated
        pieces = re.split(r"^- ([^\s:]+): ", text, flags=re.MULTILINE)
        sections[heading] = [("", set(FACT.findall(pieces[0])))]
        for key, item in zip(pieces[1::2], pieces[2::2], strict=True):
            sections[heading].append(("" if free else key, set(FACT.findall(item))))
    return yaml.safe_load(front), sections


def differences(one: Any, other: Any, *at: Any) -> list[str]:
    """The places where two front matters differ in more than their words."""
    if type(one) is not type(other) or (isinstance(one, dict | list) and len(one) != len(other)):
        return [f"{at}: {one!r} is {other!r}"]
    if isinstance(one, dict):
        words = "lights" in at or "with" in at or "given" in at
        if not words and list(one) != list(other):
            return [f"{at}: {list(one)} is {list(other)}"]
        pairs = zip(one.items(), other.items(), strict=True)
        return [place for (key, left), (_, right) in pairs for place in differences(left, right, *at, key)]
    if isinstance(one, list):
        pairs = zip(one, other, strict=True)
        return [place for number, pair in enumerate(pairs) for place in differences(*pair, *at, number)]
    if isinstance(one, str):
        if at[-1] in SAYS or "with" in at or "given" in at:
            return []
        quoted = r"\\text\{[^}]*\}" if at[-1] == "formula" else "'[^']*'|\"[^\"]*\""
        one, other = re.sub(quoted, "", one).split(), re.sub(quoted, "", other).split()
        if at[-1] == "formula":  # a word may change places with a variable
            one, other = sorted(one), sorted(other)
    return [] if one == other else [f"{at}: {one!r} is {other!r}"]


def values(text: str) -> set[str]:
    """The values that a text of the catalogue names."""
    return set(re.findall(r"\{\{?(\w+)", text))


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_players_messages_have_the_same_keys(language: str) -> None:
    """Catches: a text that was added to the player, or got another value, in one language only."""
    own, others = (
        [key for key in english.messages(each) if not key.startswith("ordinal.")] for each in (language, "en")
    )
    assert own == others and len(own) > 400


@pytest.mark.parametrize("language", reading.languages())
def test_a_message_of_the_player_uses_the_values_that_it_is_given(language: str) -> None:
    """Catches: a value that the player does not give, and a choice that has no text for some value."""
    found = []
    for key, text in english.messages(language).items():
        if "(" not in key:
            continue
        _, names, choices = english.parts(text)
        if beyond := names - set(key.partition("(")[2].removesuffix(")").split(", ")):
            found.append(f"{key} is not given {sorted(beyond)}")
        found += [f"{key} has no text for some of {cases}" for cases in choices if not is_whole(cases)]
    assert found == []
    assert not is_whole({"one", "=0"}) and is_whole({"yes", "no"}) and is_whole({"one", "other"})


def is_whole(cases: set[str]) -> bool:
    """Whether a choice has a text for every value."""
    return cases == {"yes", "no"} if "yes" in cases else "other" in cases


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("pick", [max, min])
def test_no_option_is_right_by_its_length(language: str, pick: Any) -> None:
    """As in English: neither the longest nor the shortest is right more often than by chance."""
    questions = []
    for when in inventory.WHEN:
        found, _ = inventory.read(language, when)
        assert found is not None
        questions += [(question.text.items, question.right) for question in found.questions.values()]
    for _, key, _, _ in reading.titles(language):
        lesson, _ = reading.read(language, key)
        assert lesson is not None
        questions.append((lesson.sections["check"].items, *lesson.right["check"]))
    lengths = [({key: len(item.text) for key, item in items.items()}, right) for items, right in questions]
    hits = sum(each[right] == pick(each.values()) for each, right in lengths)
    assert hits <= 0.35 * len(lengths), f"{hits} of {len(lengths)}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_screen_is_much_longer_than_the_longest_in_english(language: str) -> None:
    """Words are counted where a lesson is read; a translation with fewer, longer words has to fit as well."""

    def longest(of: str) -> int:
        found = 0
        for _, key, _, _ in reading.titles(of):
            lesson, _ = reading.read(of, key)
            assert lesson is not None
            sizes = {
                name: len(section.prose) + sum(len(item.text) for item in section.items.values())
                for name, section in lesson.sections.items()
            }
            found = max(found, *sizes.values(), sizes["hook"] + sizes["predict"])
        return found

    assert longest(language) <= 1.25 * longest("en")


def test_one_key_changes_the_language_and_it_is_remembered() -> None:
    """Catches: a choice that is lost with the address, or that a teacher's link does not pass on."""
    at = page(lesson="race")
    assert at.button(key="course-language").proto.shortcut == "l"
    press(at, "course-language")
    assert at.query_params["lang"] == "de" and at.query_params["lesson"] == "race"
    assert " Das Rennen" in at.title[0].value
    kept = at.session_state[progress.STORE]
    assert progress.from_json(progress.as_json(kept)).language == "de"
    at = page(kept)
    assert at.title[0].value == Words("de", reading.FOLDER)("course.title")
    assert any("lang=de" in code.value for code in page(kept, teach="1").code)
    assert page(kept, lang="en").title[0].value == Words("en", reading.FOLDER)("course.title")
    press(at, "course-language")
    assert at.query_params["lang"] == "en"


def test_it_can_be_changed_in_a_presentation() -> None:
    at = page(lesson="race", present="1")
    assert " The race" in at.title[0].value
    press(at, "course-language")
    assert " Das Rennen" in at.title[0].value


def test_a_count_chooses_its_form_by_the_languages_own_rule(tmp_path: Path) -> None:
    """Catches: “1 words”; a language with more forms than two."""
    folder = reading.FOLDER
    assert [Words("en", folder)("window.settled", passes=n, positions=5)[33:41] for n in (1, 2)] == [
        "1 pass.*",
        "2 passes",
    ]
    german = [Words("de", folder)("teach-back.kept", count=n).split(".")[0] for n in (0, 1, 2)]
    assert german == ["Behalten: 0 Wörter", "Behalten: 1 Wort", "Behalten: 2 Wörter"]
    (tmp_path / "en").symlink_to(folder / "en")
    (tmp_path / "pl" / "strings").mkdir(parents=True)
    rule = "n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2"
    (tmp_path / "pl" / "strings" / "language.toml").write_text(f'plural = "{rule}"\nthousands = " "\n')
    (tmp_path / "pl" / "strings" / "a.toml").write_text('b = "{n} {n:słowo|słowa|słów}"\n', encoding="utf-8")
    polish = Words("pl", tmp_path)
    assert [polish("a.b", n=n) for n in (1, 3, 5, 22)] == ["1 słowo", "3 słowa", "5 słów", "22 słowa"]
    # a key that only English has is English, with its rule
    assert polish("teach-back.kept", count=5).startswith("Kept: 5 words.")
    assert polish.whole(10_000) == "10 000" and Words("en", folder).whole(10_000) == "10,000"
