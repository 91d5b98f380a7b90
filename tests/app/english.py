"""Finds English words in the course in another language: a word of the English course that its `terms.toml` does not
allow. Code, formulas, values, addresses, and what a source of a claim is quoted with are left out."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml

from app.course.files import reading
from app.export import served

WORD = re.compile(r"[^\W\d_]{2,}")
UNSAID = re.compile(
    r"`[^`]*`|\$[^$]*\$|“[^“”]*”|\]\([^)]*\)|https?://\S+|:material/\w+:|<[^>]*>|%?\{+[^{}]*\}+|\\n"
)
FORMS = re.compile(r"\{\w+:([^{}|]*(?:\|[^{}|]*)+)\}")  # {count:Wort|Wörter}
QUOTATION = re.compile(r"[“„][^“”„]*[“”]")  # of a claim's source, in the language that it was said in
IN_FORMULA = re.compile(r"\\text\{([^}]*)\}")
NAMES = {
    "drafters",
    "groups",
    "lane",
    "own",
}  # of a picture: what was measured, and a prompt for English models
AREA = re.compile(r"\[\w+\]")  # of the odds, drawn in the sentence
SIGN = re.compile(r"text\.signs\.\d+\.0")
LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"|(\w+)(?=:)|,(?=\s*[}\]]|\s*$)')
QUOTED = {"language.plural", "language.thousands", "lookup.read-code", "lookup.write-code"}


def said(language: str) -> Iterator[tuple[str, str]]:
    """Every text of a language's folder, each with its place."""
    folder = reading.FOLDER / language
    for path in sorted(folder.rglob("*.md")):
        for text in lesson(path.read_text(encoding="utf-8")):
            yield path.name, text
    for path in sorted(folder.glob("strings/*.toml")):
        for key, text in tomllib.loads(path.read_text(encoding="utf-8")).items():
            if f"{path.stem}.{key}" not in QUOTED:
                yield f"{path.name}, {key}", text
    for key, message in messages(language).items():
        if not SIGN.match(key):
            for text in parts(message)[0]:
                yield f"messages.js, {key}", AREA.sub("…", text)


def parts(message: str) -> tuple[list[str], set[str], list[set[str]]]:
    """Of a message of the player: its texts, the values that it names, and the cases of each choice."""
    texts: list[str] = []
    names: set[str] = set()
    choices: list[set[str]] = []

    def read(at: int) -> int:
        """A text and its choices, up to the bracket that closes it."""
        own = ""
        while at < len(message) and message[at] != "}":
            if plain := re.compile(r"[^{}]+").match(message, at):
                own, at = own + plain[0], plain.end()
            elif value := re.compile(r"\{(\w+)(?::\w+)?\}").match(message, at):
                names.add(value[1])
                own, at = own + "…", value.end()
            else:
                chosen = re.compile(r"\{(\w+),").match(message, at)
                assert chosen, message[at:]
                names.add(chosen[1])
                cases: set[str] = set()
                choices.append(cases)
                own, at = own + "…", chosen.end()
                while case := re.compile(r" ([\w=-]+) \{").match(message, at):
                    cases.add(case[1])
                    at = read(case.end()) + 1
                assert message[at : at + 1] == "}", message[at:]
                at += 1
        texts.append(own)
        return at

    assert read(0) == len(message), message
    return texts, names, choices


def messages(language: str) -> dict[str, str]:
    """The player's messages by their keys, such as `odds.unreached.rival(other, stem)`."""
    own = reading.FOLDER / language / served.FOLDER / "messages.js"
    path = served.PLAYER / "text" / "messages.js" if language == "en" else own
    code = path.read_text(encoding="utf-8").split("({", 1)[1].removesuffix("});\n")
    as_json = LITERAL.sub(
        lambda found: found[0] if found[0][0] == '"' else f'"{found[1]}"' if found[1] else "", code
    )
    return dict(_flat("", json.loads(f"{{{as_json}}}")))


def _flat(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path.removeprefix("."), value
        return
    for key, one in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _flat(f"{path}.{key}", one)


def lesson(text: str) -> Iterator[str]:
    """The texts of a lesson, a claim or an inventory: what its front matter says, then its lines."""
    _, front, body = text.split("---\n", 2)
    yield from labels(yaml.safe_load(front))
    kept = False  # keys of options are not shown; those of terms and lines of code are
    for line in body.splitlines():
        if line.startswith("## "):
            kept = line[3:] in ("explain", "code")
        elif line.strip():
            item = re.fullmatch(r"- ([^\s:]+): (.*)", line)
            yield (f"{item[1]} {item[2]}" if kept else item[2]) if item else line


def labels(front: dict[str, Any]) -> Iterator[str]:
    """The texts of a front matter."""
    yield from (front[key] for key in ("title", "about", "claim") if key in front)
    for source in [*front.get("heard", []), *front.get("beside", [])]:
        yield from (source["name"], QUOTATION.sub(" ", source["says"]))
    if "explain" in front:
        yield " ".join(IN_FORMULA.findall(front["explain"]["formula"]))
    for step in ("predict", "watch", "change", "explain"):
        yield from leaves(front.get(step, {}), "")


def leaves(value: Any, under: str) -> Iterator[str]:
    """The words below a picture's `with`: labels, and the words of small examples; names in code are left out."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key not in NAMES:
                yield from leaves(inner, "with" if "with" in (under, key) else key)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, under)
    elif isinstance(value, str) and under == "with" and (" " in value or value[:1].isupper()):
        yield value


def words(text: str) -> list[str]:
    """The words that a person reads, in small letters; all forms of a count are among them."""
    bare = UNSAID.sub(" ", FORMS.sub(lambda found: " " + found[1].replace("|", " ") + " ", text))
    return [found.lower() for found in WORD.findall(bare)]


@cache
def vocabulary() -> frozenset[str]:
    """The words of the English course."""
    return frozenset(word for _, text in said("en") for word in words(text))


@cache
def allowed(language: str) -> frozenset[str]:
    """What a language may share with English: terms that are kept, and words that happen to be spelled alike."""
    terms = tomllib.loads((reading.FOLDER / language / "terms.toml").read_text(encoding="utf-8"))
    return frozenset(word for key in ("kept", "alike") for entry in terms[key] for word in words(entry))


def left(language: str, text: str) -> list[str]:
    """The English words in a text of that language."""
    return [word for word in words(text) if word in vocabulary() and word not in allowed(language)]
