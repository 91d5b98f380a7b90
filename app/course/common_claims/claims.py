"""Common claims: from a file of `claims/` to a claim with its verdict, or to its mistakes.

A claim is a file `NN-id.md`: front matter with its words, its sources, and a condition for each verdict, of
which exactly one is true; then the sections `answer` and `demonstration`. The demonstration is a picture of
`pictures/`, or a chart whose values are expressions and whose texts are the items of the section.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from app.course import pictures
from app.course.files import reading
from app.course.files.lesson import Expression, Name, Picture, Problem, Section, Strict
from app.course.files.source import Draft, Mistake, compute, known, made_or_problems, section
from app.records import examples as recorded
from specdec_core.foundations.errors import sentence
from specdec_measure.machines import profiles

SECTIONS = ("answer", "demonstration")
VERDICTS = ("true", "conditional", "false")
MOST_POINTS = 64  # of a chart's series

_FILE = re.compile(r"(\d\d)-([a-z0-9]+(?:-[a-z0-9]+)*)\.md")


class Source(Strict):
    """A source of something similar: link text, the quotation, and the address."""

    name: str = Field(min_length=1, max_length=80)
    says: str = Field(min_length=1, max_length=240)
    link: str = Field(pattern=r"^https://[\w./#?=&%~+-]+$", max_length=200)


class ClaimVerdict(Strict):
    """A condition for each verdict."""

    true: Expression
    conditional: Expression
    false: Expression


class Figure(Strict):
    """A chart: its x values, a list for each of its series, and a reference line.

    The section's items name it: `title`, `across`, `up`, each series, and `level`; for bars also the bars' names.
    """

    kind: Literal["bars", "lines"]
    across: Expression
    series: dict[Name, Expression] = Field(min_length=1, max_length=4)
    level: Expression | None = None
    share: bool = False
    """Whether values, those along `across` included, are written in per cent."""
    label: Literal["exact", "recorded", "modelled"]
    of: str | None = None
    """The recorded example whose machine and date are named, or the profile that was modelled."""


class ClaimsFront(Strict):
    """The front matter of a claim."""

    claim: str = Field(min_length=1, max_length=120)
    heard: list[Source] = Field(min_length=1, max_length=4)
    beside: list[Source] = Field([], max_length=4)
    """Where others looked closer; shown with the answer."""
    given: dict[str, Any] = Field({})
    facts: dict[str, Expression] = Field({})
    verdict: ClaimVerdict
    picture: Picture | None = None
    chart: Figure | None = None

    @model_validator(mode="before")
    @classmethod
    def _spelled(cls, given: Any) -> Any:
        """YAML reads an unquoted true as a boolean; here it is a word."""
        verdict = given.get("verdict")
        if isinstance(verdict, dict):
            spelled = {True: "true", False: "false"}
            verdict = {
                spelled.get(key, key) if isinstance(key, bool) else key: one for key, one in verdict.items()
            }
            given = {**given, "verdict": verdict}
        return given

    @model_validator(mode="after")
    def _one(self) -> ClaimsFront:
        if (self.picture is None) == (self.chart is None):
            raise ValueError("a claim is demonstrated by a `picture` or by a `chart`; give one of the two")
        return self


@dataclass(frozen=True, slots=True)
class Drawn:
    """A chart's computed values."""

    across: tuple[Any, ...]
    series: Mapping[str, tuple[float, ...]]
    level: float | None


@dataclass(frozen=True, slots=True)
class Claim:
    """A valid claim, ready to show."""

    id: str
    front: ClaimsFront
    sections: Mapping[str, Section]
    facts: Mapping[str, Any]
    verdict: str
    drawn: Drawn | None


def files(language: str) -> list[Path]:
    """The claims' files in order; a language without any uses the English ones."""
    for name in dict.fromkeys((language, "en")):
        found = sorted(
            path for path in (reading.FOLDER / name / "claims").glob("*.md") if _FILE.fullmatch(path.name)
        )
        if found:
            return found
    return []


def every(language: str) -> tuple[list[Claim], list[Problem]]:
    """All valid claims, and the mistakes in the others."""
    results = [_read(path, path.stat().st_mtime_ns) for path in files(language)]
    return (
        [claim for claim, _ in results if claim is not None],
        [problem for _, problems in results for problem in problems],
    )


@lru_cache(maxsize=64)
def _read(path: Path, _changed: int) -> tuple[Claim | None, list[Problem]]:
    return made_or_problems(
        f"{path.parent.parent.name}/claims/{path.name}", path, SECTIONS, lambda draft: _claim(path, draft)
    )


def _claim(path: Path, draft: Draft) -> Claim:
    """Check a file, compute its facts and its verdict.

    Raises:
        Mistake, pydantic.ValidationError: if it is invalid.
    """
    front = ClaimsFront.model_validate(draft.front)
    facts = known(front.given, front.facts, draft)
    sections = {key: section(key, draft, facts) for key in draft.sections}
    for key in SECTIONS:
        if not sections[key].prose:
            raise Mistake(draft.sections[key][0][0] if draft.sections[key] else 1, f"“{key}” says nothing.")
    verdict = _verdict(front.verdict, facts, draft)
    if front.picture is not None:
        _check_picture(front.picture, draft)
    drawn = None if front.chart is None else _drawn(front.chart, sections["demonstration"], facts, draft)
    found = _FILE.fullmatch(path.name)
    assert found is not None
    return Claim(found[2], front, sections, facts, verdict, drawn)


def profile(name: str) -> profiles.Profile:
    """A machine that a chart was modelled on."""
    return profiles.shipped()[0][name]


def _verdict(conditions: ClaimVerdict, facts: Mapping[str, Any], draft: Draft) -> str:
    holds = [key for key in VERDICTS if compute(getattr(conditions, key), facts, draft.line("verdict", key))]
    if len(holds) != 1:
        which = " and ".join(holds) or "none"
        raise Mistake(draft.line("verdict"), f"Exactly one verdict has to hold; now it is: {which}.")
    return holds[0]


def _check_picture(picture: Picture, draft: Draft) -> None:
    if picture.picture not in pictures.names():
        raise Mistake(
            draft.line("picture", "picture"),
            f"There is no picture “{picture.picture}”. Choose one of: {', '.join(pictures.names())}.",
        )
    try:
        pictures.check(picture)
    except ValidationError as error:
        raise Mistake(draft.line("picture", "with"), sentence(error)) from None
    except ValueError as error:
        raise Mistake(draft.line("picture", "with"), str(error)) from None


def _drawn(chart: Figure, texts: Section, facts: Mapping[str, Any], draft: Draft) -> Drawn:
    """A chart's values, and whether all of it is named."""
    needed = ["title", "across", "up", *chart.series, *(["level"] if chart.level else [])]
    if missing := [key for key in needed if key not in texts.items]:
        raise Mistake(
            draft.line("chart"), f"The section “demonstration” has no item `- {missing[0]}: …` for the chart."
        )
    _check_label(chart, draft)
    across = compute(chart.across, facts, draft.line("chart", "across"))
    if not isinstance(across, list) or not 1 <= len(across) <= MOST_POINTS:
        raise Mistake(
            draft.line("chart", "across"), f"`across` has to be a list of 1 to {MOST_POINTS} values or names."
        )
    series = {}
    for key, expression in chart.series.items():
        line = draft.line("chart", "series", key)
        values = compute(expression, facts, line)
        if not isinstance(values, list) or len(values) != len(across) or not all(map(_number, values)):
            raise Mistake(
                line, f"“{key}” has to be a list of {len(across)} numbers, one for each of `across`."
            )
        series[key] = tuple(map(float, values))
    level = None
    if chart.level is not None:
        level = compute(chart.level, facts, draft.line("chart", "level"))
        if not _number(level):
            raise Mistake(draft.line("chart", "level"), "`level` has to be a number.")
    return Drawn(tuple(across), series, level)


def _check_label(chart: Figure, draft: Draft) -> None:
    """Whether the recorded or modelled source exists."""
    there: Sequence[str] = ()
    if chart.label == "recorded":
        there = [example.id for example in recorded.examples()]
    elif chart.label == "modelled" and chart.of is not None:
        there = sorted(profiles.shipped()[0])
    if chart.of is not None and chart.of not in there:
        raise Mistake(
            draft.line("chart", "of"),
            f"There is no “{chart.of}” to take it from. Choose one of: {', '.join(there)}.",
        )
    if chart.label == "recorded" and chart.of is None:
        raise Mistake(draft.line("chart"), "What is recorded needs `of`, the example that it is taken from.")


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
