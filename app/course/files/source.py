"""Parses a file of the course: YAML front matter with the lines of its keys, then sections of Markdown.

Choices and explanations of terms or lines of code are a list: `- key: text`, with `> quoted` lines below for what is
shown afterwards. Braces hold facts: `{gain:.2f}`. A typed number is a mistake, since nothing would check it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from specdec_core.foundations.errors import sentences

from . import expressions
from .lesson import MOST_WORDS, Item, Problem, Section
from .words import Notation, Words

Made = TypeVar("Made")

MAX_FILE_LENGTH = 60_000  # characters of a file

_HEADING = re.compile(r"## +(\S.*?)\s*")
_ITEM = re.compile(r"- ([^\s:]+): +(\S.*)")
_FACT = re.compile(r"\{([A-Za-z_]\w*)(?::([^{}]*))?\}")
_TYPED = re.compile(r"(?<![\w{.-])\d[\d.,]*")
# libyaml's, ten times as fast: the list of lessons reads all their front matters.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_UNSPOKEN = re.compile(r"`[^`]*`|\$[^$]*\$|\{[^{}]*\}|\]\([^)]*\)")  # code, formulas, facts, addresses


class Mistake(ValueError):
    """An error in a file; `line` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Draft:
    """A parsed file: front matter with the lines of its keys, sections with the lines of their text."""

    front: dict[str, Any]
    lines: Mapping[tuple[str | int, ...], int]
    sections: Mapping[str, list[tuple[int, str]]]
    number: Notation
    """How the file's language writes numbers."""

    def line(self, *path: str | int) -> int:
        """The line of a key, or of the nearest key above it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def apart(path: Path, sections: Sequence[str]) -> Draft:
    """Parse a file; it must have exactly these sections.

    Raises:
        Mistake: if it is malformed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Mistake(1, "The file is not UTF-8 text; save it as UTF-8.") from None
    if len(text) > MAX_FILE_LENGTH:
        raise Mistake(1, f"The file is longer than {MAX_FILE_LENGTH:,} characters; split the lesson.")
    lines = text.splitlines()
    if not lines or lines[0].strip() != "---":
        raise Mistake(1, "The first line has to be `---`: the front matter begins there.")
    ends = [at for at, line in enumerate(lines[1:], 1) if line.strip() == "---"]
    if not ends:
        raise Mistake(1, "The front matter has no end: put a line `---` after it.")
    front, where = _yaml("\n".join(lines[1 : ends[0]]))
    home = next((up for up in path.parents if (up / "strings").is_dir()), path.parent)
    number = Words(home.name, home.parent).number
    return Draft(front, where, _sections(lines, ends[0] + 1, sections), number)


def made_or_problems(
    shown: str, path: Path, sections: Sequence[str], make: Callable[[Draft], Made]
) -> tuple[Made | None, list[Problem]]:
    """The result of `make` for a file, or a sentence for each of its mistakes; `shown` is the file's displayed name."""
    draft: Draft | None = None
    try:
        draft = apart(path, sections)
        return make(draft), []
    except OSError as error:
        return None, [Problem(shown, 1, f"The file cannot be read ({error.strerror}).")]
    except Mistake as mistake:
        return None, [Problem(shown, mistake.line, str(mistake))]
    except ValidationError as error:
        assert draft is not None
        return None, [Problem(shown, draft.line(*place), f"{said}.") for place, said in sentences(error)]


def _yaml(text: str) -> tuple[dict[str, Any], dict[tuple[str | int, ...], int]]:
    """YAML as plain values, and the line of each key in the file (the text starts on line 2)."""
    try:
        node = yaml.compose(text, Loader=_Loader)
        value = yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Mistake(
            mark.line + 2 if mark else 1,
            f"The front matter is not valid YAML here ({error.problem}); quote a text that holds `:`, `{{` or `#`.",
        ) from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise Mistake(1, "The front matter is not valid YAML; see the other lessons for its form.") from None
    if not isinstance(value, dict):
        raise Mistake(2, "The front matter has to be `key: value` lines.")
    found: dict[tuple[str | int, ...], int] = {}

    def visit(node: yaml.Node, path: tuple[str | int, ...]) -> None:
        if len(path) > 8:
            raise Mistake(node.start_mark.line + 2, "The front matter is nested too deeply here.")
        if isinstance(node, yaml.MappingNode):
            seen = set()
            for key, inner in node.value:
                if key.value in seen:
                    raise Mistake(key.start_mark.line + 2, f"`{key.value}` appears here twice; keep one.")
                seen.add(key.value)
                found[(*path, key.value)] = key.start_mark.line + 2
                visit(inner, (*path, key.value))
        elif isinstance(node, yaml.SequenceNode):
            for at, inner in enumerate(node.value):
                found[(*path, at)] = inner.start_mark.line + 2
                visit(inner, (*path, at))

    visit(node, ())
    return value, found


def _sections(lines: list[str], start: int, known: Sequence[str]) -> dict[str, list[tuple[int, str]]]:
    """The lines below each heading, with their numbers."""
    found: dict[str, list[tuple[int, str]]] = {}
    here: list[tuple[int, str]] | None = None
    for number, line in enumerate(lines[start:], start + 1):
        if heading := _HEADING.fullmatch(line):
            section = heading[1]
            if section not in known:
                raise Mistake(
                    number, f"There is no section “{section}”; the sections are {', '.join(known)}."
                )
            if section in found:
                raise Mistake(number, f"The section “{section}” appears a second time; merge the two.")
            here = found[section] = []
        elif here is not None:
            here.append((number, line))
        elif line.strip():
            raise Mistake(number, "Text before the first section: put a heading such as `## hook` above it.")
    missing = [section for section in known if section not in found]
    if missing:
        raise Mistake(
            len(lines), f"The section “{missing[0]}” is missing: add `## {missing[0]}` and its text."
        )
    return found


def compute(expression: str, facts: Mapping[str, Any], line: int) -> Any:
    """The value of an expression in a line of the file.

    Raises:
        Mistake: if it has none.
    """
    try:
        return expressions.value(expression, facts)
    except expressions.NoValue as error:
        raise Mistake(line, str(error)) from None


def known(given: Mapping[str, Any], facts: Mapping[str, str], draft: Draft) -> dict[str, Any]:
    """The given values and the computed facts, by name.

    Raises:
        Mistake: at an invalid name, and at a fact that cannot be computed.
    """
    found: dict[str, Any] = {}
    for key, value in given.items():
        if not key.isidentifier():
            raise Mistake(draft.line("given", key), f"“{key}” is not a name; use letters, digits and _.")
        found[key] = value
    for key, expression in facts.items():
        if not key.isidentifier() or key in found:
            raise Mistake(draft.line("facts", key), f"“{key}” is not a name, or it is taken; choose another.")
        found[key] = compute(expression, found, draft.line("facts", key))
    return found


def section(key: str, draft: Draft, facts: Mapping[str, Any]) -> Section:
    """A section with its numbers filled in.

    Raises:
        Mistake: at a typed number, an unknown fact, a malformed list, or if it is too long for a screen.
    """
    lines = draft.sections[key]
    prose: list[str] = []
    items: dict[str, Item] = {}
    last: str | None = None
    for number, line in lines:
        spoken = _UNSPOKEN.sub("", line)
        if key != "code" and (typed := _TYPED.search(spoken)):
            raise Mistake(
                number,
                f"“{typed[0]}” is typed: name it below `facts` or `given` and write it in braces, "
                "so that the core computes it.",
            )
        filled = _filled(line, facts, number, draft.number)
        if entry := _ITEM.fullmatch(line):
            last = entry[1]
            if last in items:
                raise Mistake(number, f"There are two items “{last}”; rename one.")
            items[last] = Item(_filled(entry[2], facts, number, draft.number))
        elif last is not None and line.strip():
            said = filled.strip()
            text, note = items[last].text, items[last].note
            if said.startswith(">"):
                items[last] = Item(text, f"{note} {said[1:].strip()}".strip())
            elif line.startswith(" "):
                items[last] = Item(f"{text} {said}", note)
            else:
                raise Mistake(number, "Text after a list: put it before the list, or indent it.")
        elif last is None:
            prose.append(filled)
    found = Section("\n".join(prose).strip(), items)
    if found.words() > MOST_WORDS:
        raise Mistake(
            lines[0][0] if lines else 1,
            f"The section “{key}” has {found.words()} words for one screen; {MOST_WORDS} are allowed, so shorten it.",
        )
    return found


def _filled(text: str, facts: Mapping[str, Any], line: int, number: Notation) -> str:
    """A text with its facts; formulas and code keep their braces."""

    def fill(found: re.Match[str]) -> str:
        if found[1] not in facts:
            known = ", ".join(facts) or "none yet"
            raise Mistake(line, f"There is no fact “{found[1]}”. Choose one of: {known}.")
        try:
            return number(facts[found[1]], found[2] or "")
        except (ValueError, TypeError):
            raise Mistake(
                line, f"“{found[1]}” cannot be written as “{found[2]}”; see Python's formats."
            ) from None

    parts = re.split(r"(`[^`]*`|\$[^$]*\$)", text)
    return "".join(part if at % 2 else _FACT.sub(fill, part) for at, part in enumerate(parts))
