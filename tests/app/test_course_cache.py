"""The lessons on the KV cache and on choosing a draft: what they say of a round and of a formula, by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.course.facts import kv_rows as facts
from app.course.facts.recorded import trace
from app.course.files import reading
from app.course.files.words import Words
from app.course.pictures.runs import kv_rows as picture

TRACES = Path(__file__).resolve().parents[2] / "assets" / "traces"
WORDS = Words("en", reading.FOLDER)


def raw(name: str) -> Any:
    return json.loads((TRACES / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("example", ["welcome", "medusa", "eagle", "draft-model"])
def test_the_rows_that_stay_are_the_roots_and_those_of_accepted_guesses(example: str) -> None:
    """Catches: the corrected token counted among the rows, or the root left out."""
    for row, found in zip(raw(example)["rounds"], trace(example).rounds, strict=True):
        stays = facts.kept(found)
        assert len(stays) == row["cache_after"] - row["cache_before"] == len(row["committed"]["token"])
        texts = [row["nodes"]["token"][at - 1] for at in stays[1:]]
        assert stays[0] == 0 and texts == row["committed"]["token"][:-1], "the last one has no row yet"


def test_the_lesson_s_round_is_the_recorded_one() -> None:
    lesson, problems = reading.read("en", "cache")
    assert lesson is not None, problems
    at = lesson.facts["round"]
    row = raw("welcome")["rounds"][at]
    assert row["nodes"]["verdict"].count("accepted") == 2 and row["nodes"]["verdict"].count("rejected") == 1
    assert (lesson.facts["read"], lesson.facts["kept"]) == (1 + len(row["nodes"]["token"]), 3)
    given = picture.With.model_validate(lesson.front.watch.given)
    assert given.still and given.round == at, "the picture shows another round"
    shown = picture.strips(trace("welcome"), trace("welcome").rounds[at], WORDS)
    assert shown.count("<li class='gone'>") == lesson.facts["gone"]
    assert f"{row['cache_before']} rows before" in shown
    assert lesson.right == {"predict": {"root"}, "check": {"state"}}


def test_a_smaller_draft_and_a_trained_one_by_the_formula() -> None:
    lesson, problems = reading.read("en", "choosing")
    assert lesson is not None, problems

    def best(alpha: float, cost: float) -> float:
        return max(sum(alpha**k for k in range(n + 1)) / (1 + n * cost) for n in range(30))

    assert lesson.facts["smaller"] == pytest.approx(best(0.75, 0.1))
    assert lesson.facts["better"] == pytest.approx(best(0.85, 0.2))
    assert lesson.right["predict"] == {"size"}
