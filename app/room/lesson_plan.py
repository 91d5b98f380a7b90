"""Which lessons a room goes through: those of the course's presets, or a choice of one's own."""

from __future__ import annotations

from collections.abc import Sequence

from app.course import teaching
from app.course.files import reading
from app.course.files.words import Words

LESSONS_AT_MOST = 40


def titles(language: str) -> dict[str, str]:
    """Every lesson's number and title, by its id, in the course's order."""
    return {key: f"{number} · {title}" for number, key, title, _ in reading.titles(spoken(language))}


def spoken(language: str) -> str:
    """The language that the course has: this one, or English."""
    return language if language in reading.languages() else "en"


def read(accepted: str) -> str:
    """The first language of a browser's list that the course has; English if it has none."""
    wanted = (each.partition(";")[0].partition("-")[0].strip().lower() for each in accepted.split(","))
    return next((each for each in wanted if each in reading.languages()), "en")


def presets(language: str) -> dict[str, list[str]]:
    """The lessons of 20, 45 and 90 minutes, and all of them."""
    there = titles(language)
    return {
        **{name: [key for key in lessons if key in there] for name, lessons in teaching.PRESETS.items()},
        "all": list(there),
    }


def chosen(language: str, wanted: Sequence[object]) -> list[str]:
    """The lessons of a request that the course has, each once."""
    there = titles(language)
    return list(dict.fromkeys(key for key in wanted if isinstance(key, str) and key in there))[
        :LESSONS_AT_MOST
    ]


def refusals(language: str) -> dict[str, str]:
    """The server's sentences in this language, by the English ones, in which it says them."""
    own = words(language)
    return {text: own[key] for key, text in words("en").items() if key.startswith("refused_")}


def words(language: str) -> dict[str, str]:
    """The strings of the room's pages, missing ones in English."""
    english = Words("en", reading.FOLDER)
    own = Words(spoken(language), reading.FOLDER).all()
    return {
        key.removeprefix("room."): own.get(key, text)
        for key, text in english.all().items()
        if key.startswith("room.")
    }
