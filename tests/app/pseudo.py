"""A pseudo-language: every text of the course in brackets, so that texts outside the catalogue stand out.

Front matter is kept except for its title and its line for the list: its other texts (a label, a chip's word) are
part of the file anyway.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

OPEN, CLOSE = "⟦", "⟧"
_ITEM = re.compile(r"(- [^\s:]+: +)(.+)")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"(:?)')  # with a colon it is a key
_WORDS = re.compile("[A-Za-z]{2,} | [A-Za-z]{2,}")
_TITLE = re.compile(r"(title|about|claim): +(.+)")


def translate(english: Path, folder: Path) -> None:
    """Write the pseudo-language of `english` into `folder`."""
    shutil.copytree(english, folder)
    for path in folder.rglob("*.md"):
        path.write_text(lesson(path.read_text(encoding="utf-8")), encoding="utf-8")
    for path in folder.rglob("*.toml"):
        if path.stem == "language":  # its rules, and its name as others write it
            path.write_text(_signs(path.read_text(encoding="utf-8")), encoding="utf-8")
            continue
        texts = tomllib.loads(path.read_text(encoding="utf-8"))
        rows = [f"{key!r} = {toml(bracketed(text))}" for key, text in texts.items()]
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def _signs(text: str) -> str:
    """The language's file with signs in numbers that no other language has."""
    return re.sub(r'(?m)^(decimal|thousands) = ".*"$', r'\1 = "·"', text)


def script(text: str) -> str:
    """The player's messages with every text in brackets; a string of one word may be a key and stays."""
    return _STRING.sub(
        lambda found: f'"{OPEN}{found[1]}{CLOSE}"' if not found[2] and _WORDS.search(found[1]) else found[0],
        text,
    )


def toml(text: str) -> str:
    """A text as a TOML string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def bracketed(text: str) -> str:
    """A text in brackets; each of its lines in its own."""
    return "\n".join(f"{OPEN}{line}{CLOSE}" if line.strip() else line for line in text.split("\n"))


def lesson(text: str) -> str:
    """A lesson's file with every text in brackets: keys, conditions and headings stay as they are."""
    lines = text.split("\n")
    end = lines.index("---", 1)
    front = [_quoted(found) if (found := _TITLE.fullmatch(line)) else line for line in lines[: end + 1]]
    return "\n".join([*front, *(_body(line) for line in lines[end + 1 :])])


def _quoted(found: re.Match[str]) -> str:
    value = found[2].split("  #")[0].strip()
    bare = value[1:-1] if value[:1] in "'\"" and value[-1:] == value[:1] else value
    return f"{found[1]}: {toml(bracketed(bare))}"


def _body(line: str) -> str:
    if not line.strip() or line.startswith("## "):
        return line
    if found := _ITEM.fullmatch(line):
        return f"{found[1]}{bracketed(found[2])}"
    indent = line[: len(line) - len(line.lstrip())]
    said = line.strip()
    if said.startswith(">"):
        return f"{indent}> {bracketed(said[1:].strip())}"
    return f"{indent}{bracketed(said)}"
