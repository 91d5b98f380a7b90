"""What a learner did: kept with the library, taken home as a file and taken up again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.course import progress
from app.records.store import Library


def some() -> progress.CourseProgress:
    kept = progress.CourseProgress(notes={"sandbox": "It guesses “so”."})
    kept.of("coin").predict = progress.answer(["A", "B"], False)
    kept.of("length").predict = progress.answer(3.7, True)
    kept.of("race").check = progress.answer("depends", True)
    kept.of("race").farthest = 5
    kept.inventories["before"] = {"M1": progress.answer("once", None)}
    kept.claims["coding"] = progress.answer("true", False)
    return kept


def test_what_is_downloaded_can_be_taken_up_again() -> None:
    """Catches: a list, a number or an unmarked answer that comes back as something else."""
    assert progress.from_json(progress.as_json(some())) == some()


def test_an_answer_given_while_the_progress_is_written_breaks_nothing() -> None:
    """Catches: a page that ends in an error because a run of it that was being stopped opened one more lesson."""
    kept = some()

    class Late(str):
        __slots__ = ()

        def __deepcopy__(self, memo: object) -> str:
            kept.of(f"lesson {len(kept.lessons)}")
            kept.inventories["before"][f"M{len(kept.lessons)}"] = progress.answer("twice", None)
            return str(self)

    kept.of("race").predict = progress.answer(Late("A"), True)
    kept.inventories["before"]["M1"] = progress.answer(Late("once"), None)
    before = set(kept.lessons)
    assert set(progress.from_json(progress.as_json(kept)).lessons) == before < set(kept.lessons)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "null", '{"format": "specdec-trace", "version": 1}', '{"format": "specdec-course", "version": 2}',
     json.dumps({"format": "specdec-course", "version": 1, "lessons": {"race": {"predict": 3}}}), "[" * 100_000],
)  # fmt: skip
def test_a_file_that_is_none_gets_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"^This is not a file of answers; take the JSON"):
        progress.from_json(text)


def test_the_library_keeps_one_progress_for_each_owner(place: Path | str) -> None:
    """Catches: an answer that another visitor sees, or that a restart of the server loses."""
    library = Library(place)
    assert library.progress("me") is None
    for text in ("one", "two"):
        library.keep_progress("me", text)
    library.keep_progress("you", "three")
    library.close()
    again = Library(place)
    assert (again.progress("me"), again.progress("you"), again.progress("they")) == ("two", "three", None)
    assert again.runs_of("me") == []
    again.close()
