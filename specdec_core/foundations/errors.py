"""The core's refusals, one sentence each: what was given, what was expected, what to do."""

from __future__ import annotations

import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import from_json

if TYPE_CHECKING:
    from .options import OptionField


class SpecdecError(ValueError):
    """Base of all errors a user can cause; its text can be shown as it is."""


class SettingsError(SpecdecError):
    """A setting is out of range, unknown, or does not fit the other settings."""


class PromptError(SpecdecError):
    """The prompt cannot be decoded from: empty without a BOS token, too long, or not text."""


class ModelError(SpecdecError):
    """A model cannot be loaded, or cannot be used for speculative decoding."""


class OtherTokenizer(ModelError):
    """A draft and its target have different tokenizers."""


class DownloadRefused(ModelError):
    """A download was stopped, or is larger than allowed."""


class TraceError(SpecdecError):
    """A trace file is damaged, of another version, or larger than allowed."""


MAX_LETTERS = 100  # of a name that is compared: the comparison takes their square


def many(number: int, noun: str, nouns: str = "") -> str:
    """A number of things, for a sentence: "1 round", "2,000 rounds"; `nouns` where the plural is not with an s."""
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"


def meant(name: str, known: Iterable[str]) -> str:
    """A question to follow a sentence, with the known name that `name` is nearest to; empty where none is near."""
    near = nearest(name, known)
    return f" Did you mean '{near}'?" if near else ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was probably meant to be: large letters and hyphens make no difference."""
    plain = {one.lower().replace("-", "_"): one for one in known}
    near = get_close_matches(name[:MAX_LETTERS].lower().replace("-", "_"), plain, 1)
    return plain[near[0]] if near else None


def kind_of(given: object) -> str:
    """What a value is, for a sentence: "None", or "a value of type int"."""
    return "None" if given is None else f"a value of type {type(given).__name__}"


def not_json(error: ValueError, data: bytes) -> str:
    """Why `data` is no JSON, without subject and full stop: the parser's `error`, or a cause that it does not name."""
    if not data.strip():
        return "is empty"
    if data.startswith((BOM_UTF8, BOM_UTF16_LE, BOM_UTF16_BE)):
        return "is not valid JSON: it begins with a byte-order mark; save it as UTF-8 without one"
    try:
        from_json(data)
    except ValueError:
        pass
    else:
        return "is not valid JSON: it has NaN or Infinity; write null for what is unknown"
    early = str(error).startswith("EOF")
    return f"is not {'complete' if early else 'valid'} JSON: {error}"


MISSING = " is missing"
TOO_MUCH = ("extra_forbidden", "unexpected_keyword_argument")
WORDS = {  # pydantic's, as patterns, and ours
    r"^\w+ should have at most ": "may have at most ",
    r"^\w+ should have at least ": "needs at least ",
    r"^\w+ should ": "has to ",
    r", (got|unable to) .*|,? after validation": "",
    r"\ba valid integer": "a whole number",
    r"\ba valid (number|list)": r"a \1",
    r"\ba valid string": "a text",
    r"\ba valid boolean": "true or false",
    r"\b(an object|a (valid )?dictionary).*": "an object",
    r"\bgreater than or equal to": "at least",
    r"\bless than or equal to": "at most",
    r"\bgreater than": "above",
    r"\bless than": "below",
}

Place = tuple[str | int, ...]
Known = Mapping[str, "OptionField | None"]


def dotted(place: Place) -> str:
    """A place in what was given, for a sentence: 'heads.0.name'."""
    return f"'{'.'.join(map(str, place))}'" if place else "the input"


def sentence(error: ValidationError, known: Known | None = None) -> str:
    """The first problem of a pydantic `error` as one sentence, ending with the number of further ones.

    Args:
        known: the fields that there are, to state their bounds and to suggest a name; as `options.fields` lists them.
    """
    said = [words for _, words in sentences(error, known)]
    # a misspelt name is told by what is too much, rather than by what is missing
    first, *others = sorted(said, key=lambda words: words.endswith(MISSING))
    return f"{first} ({len(others)} more of this kind)." if others else f"{first}."


def sentences(
    error: ValidationError, known: Known | None = None, named: Callable[[Place], str] = dotted
) -> list[tuple[Place, str]]:
    """Where each problem of a pydantic `error` is, and a sentence about it, without its full stop.

    Args:
        known: as for `sentence`.
        named: how a place is written at the beginning of the sentence.
    """
    found = error.errors(include_url=False, include_context=False)
    return [
        (problem["loc"], f"{named(problem['loc'])}{_wrong(dict(problem), known or {})}") for problem in found
    ]


def _wrong(problem: dict[str, Any], known: Known) -> str:
    """What is wrong, to follow the name of the place."""
    name = str(problem["loc"][-1]) if problem["loc"] else ""
    if problem["type"] == "missing":
        return MISSING
    if problem["type"] in TOO_MUCH:
        near = None if name in known else nearest(name, known)
        return " is not a known field" + (f" (did you mean '{near}'?)" if near else "")
    try:
        given = repr(problem.get("input"))
    except RecursionError:
        given = "something nested too deeply"
    if len(given) > 60:
        given = given[:57] + "…"
    if problem["type"] == "value_error":  # a validator's own words
        words = problem["msg"].removeprefix("Value error, ")
        return f": {words[:1].lower()}{words[1:]}, got {given}"
    field = known.get(name) if len(problem["loc"]) == 1 else None
    if field is not None and field.kind not in ("text", "list"):
        return f" has to be {field.wanted}, got {given}"
    words = problem["msg"]
    for theirs, ours in WORDS.items():
        words = re.sub(theirs, ours, words)
    if words == problem["msg"]:
        return f": {words[:1].lower()}{words[1:]}, got {given}"
    return f" {words}, got {given}"
