"""The core's refusals, one sentence each: what was given, what was expected, what to do."""

from __future__ import annotations

from pydantic import ValidationError


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


def kind_of(given: object) -> str:
    """What a value is, for a sentence: "None", or "a value of type int"."""
    return "None" if given is None else f"a value of type {type(given).__name__}"


def not_json(error: ValueError) -> str:
    """What the parser's `error` says of a text, without subject and full stop: that it ends early, or is wrong."""
    early = str(error).startswith("EOF")
    return f"is not {'complete' if early else 'valid'} JSON: {error}"


MISSING = ": field required"


def sentence(error: ValidationError) -> str:
    """The first problem of a pydantic `error` as one sentence, ending with the number of further ones."""
    said = [words for _, words in sentences(error)]
    # a misspelt name is told by what is too much, rather than by what is missing
    first, *others = sorted(said, key=lambda words: words.endswith(MISSING))
    return f"{first} ({len(others)} more of this kind)." if others else f"{first}."


def sentences(error: ValidationError) -> list[tuple[tuple[str | int, ...], str]]:
    """Where each problem of a pydantic `error` is, and a sentence about it, without its full stop."""
    found = []
    for problem in error.errors(include_url=False, include_context=False):
        where = ".".join(str(part) for part in problem["loc"]) or "the input"
        if problem["type"] == "missing":  # what was given is all that stands around it
            found.append((problem["loc"], f"{where}{MISSING}"))
            continue
        try:
            given = repr(problem.get("input"))
        except RecursionError:
            given = "something nested too deeply"
        if len(given) > 60:
            given = given[:57] + "…"
        message = problem["msg"].removeprefix("Value error, ")
        found.append((problem["loc"], f"{where}: {message[:1].lower()}{message[1:]}, got {given}"))
    return found
