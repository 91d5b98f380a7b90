"""A person's own prompts for a fit: read from a file or a folder, without doubles, and split into halves."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path

from specdec_core.foundations.errors import PromptError
from specdec_measure.analysis.advice import MIN_CASES
from specdec_measure.sweep import cases as sources
from specdec_measure.sweep.cases import MAX_BYTES, MAX_CASES, MAX_PROMPT, Case

MIN_PROMPTS = 4  # prompts: two to search on and two to test on
ENOUGH = 2 * MIN_CASES - 1  # of an odd number the larger half tests the choice
FORMATS = (
    "a text file with one prompt a line (.txt), JSON lines (.jsonl), a table with a column 'prompt' (.csv), or a "
    "folder of .txt and .md files, one prompt each"
)


@dataclass(frozen=True, slots=True)
class Split:
    """The prompts, by their use. None is in two of them.

    Attributes:
        training: what a draft is trained on; empty where none is.
        tuning: what the search compares candidates on.
        held_back: what the choice is tested on.
    """

    training: tuple[Case, ...] = ()
    tuning: tuple[Case, ...] = ()
    held_back: tuple[Case, ...] = ()


def read(source: str | Path | Sequence[str]) -> list[Case]:
    """The prompts of a file, a folder or a list, each text once.

    Raises:
        PromptError: one sentence.
    """
    if not isinstance(source, str | Path):
        lines = [json.dumps({"prompt": text}) for text in source]
        return _distinct(sources.from_jsonl("\n".join(lines)), "the list")
    path = Path(source)
    try:
        if path.is_dir():
            return _distinct(_folder(path), str(source))
        readers = {".txt": _lines, ".jsonl": sources.from_jsonl, ".csv": _table}
        reader = readers.get(path.suffix.lower())
        if reader is None:
            raise PromptError(f"'{source}' is not a file of prompts. Give {FORMATS}.")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise PromptError(
            f"The prompts could not be read from '{source}': {error.strerror or 'unknown error'}."
        ) from None
    return _distinct(reader(content), str(source))


def split(cases: Iterable[Case], seed: int, training: bool) -> Split:
    """Halves in a seeded order; of the first half, half again is for `training` where something is trained.

    A draft guesses best on what it was trained on, so the search never compares candidates there.
    """
    order = list(cases)
    random.Random(seed).shuffle(order)
    half = len(order) // 2
    first, second = order[:half], order[half:]
    learnt = half // 2 if training else 0
    return Split(tuple(first[:learnt]), tuple(first[learnt:]), tuple(second))


def few(count: int) -> str:
    """A sentence where so many prompts are too few for a fit to call anything faster; empty where they are enough."""
    if count >= ENOUGH:
        return ""
    return (
        f"With {count} prompts the choice is tested on {count - count // 2}, and that is too few to call anything "
        f"faster, however large the difference: give at least {ENOUGH} prompts for that."
    )


def _lines(content: bytes) -> list[Case]:
    lines = [line.strip() for line in _text(content).splitlines()]
    return _numbered([(f"line {number}", line) for number, line in enumerate(lines, 1) if line])


def _table(content: bytes) -> list[Case]:
    try:
        rows = list(csv.DictReader(StringIO(_text(content), newline="")))
    except csv.Error as error:
        raise PromptError(f"The table of prompts is not CSV: {error}.") from None
    if rows and "prompt" not in rows[0]:
        raise PromptError(
            "The table of prompts has no column 'prompt'. Rename the column that holds the prompts."
        )
    return _numbered(
        [(f"row {number}", row["prompt"].strip()) for number, row in enumerate(rows, 1) if row["prompt"]]
    )


def _folder(folder: Path) -> list[Case]:
    files = sorted(file for file in folder.iterdir() if file.suffix.lower() in (".txt", ".md"))
    if len(files) > MAX_CASES:
        raise PromptError(f"'{folder}' has {len(files):,} files; at most {MAX_CASES} are read.")
    size = sum(file.stat().st_size for file in files)
    if size > MAX_BYTES:
        raise PromptError(f"The prompts in '{folder}' have {size:,} bytes; at most {MAX_BYTES:,} are read.")
    return _numbered([(file.name[: sources.MAX_NAME], _text(file.read_bytes()).strip()) for file in files])


def _text(content: bytes) -> str:
    if len(content) > MAX_BYTES:
        raise PromptError(
            f"The file of prompts has more than {MAX_BYTES:,} bytes, which is the most that is read. "
            "Leave some prompts out."
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise PromptError("The prompts are not UTF-8 text. Save them as UTF-8.") from None


def _numbered(named: Sequence[tuple[str, str]]) -> list[Case]:
    named = [(name, text) for name, text in named if text]
    if len(named) > MAX_CASES:
        raise PromptError(f"There are {len(named):,} prompts; at most {MAX_CASES} are taken.")
    for name, text in named:
        if len(text) > MAX_PROMPT:
            raise PromptError(
                f"The prompt '{name}' has {len(text):,} characters; at most {MAX_PROMPT:,} are taken. Shorten it."
            )
    return [Case(sources.OWN, name, text) for name, text in named]


def _distinct(cases: Iterable[Case], where: str) -> list[Case]:
    """Each text once: the same prompt in both halves would be tested on what it was chosen by."""
    found = list({case.prompt: case for case in cases}.values())
    if len(found) < MIN_PROMPTS:
        raise PromptError(
            f"A fit needs at least {MIN_PROMPTS} different prompts, half of them to test the choice on, and {where} "
            f"has {len(found)}. Twenty are a good number."
        )
    named: dict[tuple[str, str], int] = {}
    for at, case in enumerate(found):  # two files' names may be alike once they are cut
        count = named[case.family, case.name] = named.get((case.family, case.name), 0) + 1
        if count > 1:
            found[at] = replace(case, name=f"{case.name[: sources.MAX_NAME - 6]} ({count})")
    return found
