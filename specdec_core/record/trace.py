"""One finished decode: the numbers and columns of `schema`, written as JSON, read back and checked."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from specdec_core.foundations.errors import TraceError, kind_of, not_json, sentence

from .schema import (
    FORMAT,
    MAX_JSON_BYTES,
    UNTOLD,
    VERSION,
    Branch,
    Candidates,
    Committed,
    EndReason,
    Header,
    ModelInfo,
    Nodes,
    Output,
    Position,
    Race,
    Round,
    Stats,
)

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd


FIGURES = {"specdec-comparison": "a comparison's figures", "specdec-sweep": "a sweep's figures"}
"""Other files that the same pages write, by their format."""


@dataclass(slots=True)
class Trace:
    """One finished or cancelled decode, with everything that was recorded of it."""

    header: Header
    rounds: Annotated[list[Round], Field(max_length=100_000, fail_fast=True)]
    output: Output
    end: EndReason
    stats: Stats
    texts: Annotated[dict[str, str], Field(max_length=1_000_000)]  # token id → its own text
    format: Literal["specdec-trace"] = FORMAT
    version: Literal[1] = VERSION

    @property
    def token_ids(self) -> list[int]:
        """The committed token ids, prompt excluded."""
        return self.output.ids

    @property
    def text(self) -> str:
        """The committed text, prompt excluded."""
        return self.output.text

    def audit(self) -> list[str]:
        """Check that the record agrees with itself; one sentence for each contradiction.

        An empty list says that, as far as they are recorded, verdicts fit coins and thresholds; the committed tokens
        begin with the accepted nodes, which are one path, and the last one has the source that the verdicts give it;
        text, cache, clock and statistics are what the rounds add up to; nodes have the probabilities and ranks of the
        candidates recorded at their position; thresholds follow from p and q (not for the rules 'typical' and
        'confidence', for an 'ensemble' that leaves out its weight, for drawn siblings after the first, with 'kseq'
        for any); and `end` fits the number of tokens and the stop strings.

        It does not say that the probabilities are the models', that coins and tokens were drawn as the seed says,
        or that the last token is an end-of-sequence token: none of that is in a record. Nor is what was left out
        checked, such as the statistics' sums in a record without rounds.
        """
        found: list[str] = _beside("audit").audit(self)
        return found

    def loops(self) -> Any:
        """Which parts of the text repeat earlier output and so flatter the run's figures; see `loops`."""
        return _beside("loops").of(self)

    def frames(self) -> dict[str, pd.DataFrame]:
        """The record as data frames: `rounds`, `nodes`, `positions`, `tokens`."""
        found: dict[str, pd.DataFrame] = _beside("frames").frames(self)
        return found

    def show(self, *above: Trace, path: str | Path | None = None, height: int | None = None) -> Any:
        """The player with this trace, for a notebook; `above` are lanes shown above it, plain decoding first.

        With `path` the same page is written to a file that plays in any browser. Returns a `Page`, see `sd.show`.
        """
        page = _beside("show")
        return page.show([*above, self], path=path, height=height or page.HEIGHT)

    def to_json(self) -> str:
        """The trace as compact JSON; `Trace.from_json` returns an equal trace."""
        return adapter().dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Trace:
        """Read and validate a trace.

        Raises:
            TraceError: one sentence, if the text is too large, is not a trace of this version, or breaks its schema.
        """
        if not isinstance(text, str | bytes):
            raise TraceError(f"A trace is read from JSON text, got {type(text).__name__}.")
        try:
            data = text.encode() if isinstance(text, str) else text
        except UnicodeEncodeError:
            raise TraceError(
                "This is not a trace: its text contains half of a character (a lone surrogate)."
            ) from None
        if isinstance(text, str) and _names_a_file(text):
            raise TraceError(
                f"This is not a trace: from_json takes the text of a record, not a path; read the file first, as with "
                f"Path(…).read_bytes(), got '{text if len(text) <= 60 else text[:57] + '…'}'."
            )
        if len(data) > MAX_JSON_BYTES:
            raise TraceError(
                f"The trace has {len(data):,} bytes; at most {MAX_JSON_BYTES:,} are read. "
                "Record it with record='tokens' or with fewer tokens."
            )
        _check_kind(data)
        try:
            trace = adapter().validate_json(data, strict=True)
        except ValidationError as error:
            said = f"This is not a valid trace: {sentence(error, field_names())}"
            if any(problem["type"] == "missing" for problem in error.errors(include_url=False)):
                said += " If another program wrote it, 'specdec_core import FILE --output WHOLE' completes it first."
            raise TraceError(said) from None
        check_shape(trace)
        return trace


def as_trace(given: object) -> Trace:
    """`given`, which has to be a trace; whoever calls from Python may have mistaken what goes where.

    Raises:
        TraceError: one sentence.
    """
    if not isinstance(given, Trace):
        raise TraceError(f"A trace is what decode() or Trace.from_json() returns, got {kind_of(given)}.")
    return given


@cache
def adapter() -> TypeAdapter[Trace]:
    """Reads and writes traces; unknown fields are mistakes."""
    for kind in _parts():
        setattr(kind, "__pydantic_config__", ConfigDict(extra="forbid"))  # noqa: B010 (mypy knows no such field)
    return TypeAdapter(Trace)


def _parts() -> tuple[type, ...]:
    return (
        ModelInfo,
        Race,
        Branch,
        Header,
        Nodes,
        Candidates,
        Position,
        Committed,
        Round,
        Stats,
        Output,
        Trace,
    )


def field_names() -> dict[str, None]:
    """The fields of all parts of a trace, to suggest for a misspelt one."""
    return dict.fromkeys(field.name for kind in _parts() for field in fields(kind))


def other_version(content: dict[str, Any]) -> str | None:
    """Why a trace cannot be read for its version, as a sentence; None if it can."""
    given, expected = content.get("version"), f"The trace's 'version' has to be the number {VERSION}"
    if given is None:
        return "The trace's 'version' is missing."
    if isinstance(given, str):
        return f"{expected}, got the text '{given[:20]}'."
    if type(given) is int and given > VERSION:
        return f"This trace has version {given}; this program reads version {VERSION}. Update the program."
    right = given == VERSION and not isinstance(given, bool)
    return None if right else f"{expected}, got {str(given)[:20]}."


def _names_a_file(text: str) -> bool:
    """Whether a text looks like a path where JSON was expected."""
    one_line = len(text) < 1_000 and text.isprintable() and not text.lstrip().startswith(("{", "[", '"'))
    return one_line and (text.endswith(".json") or "/" in text or "\\" in text)


def _check_kind(data: bytes) -> None:
    """Name the common mistakes (not JSON, another version) before the schema's detailed messages."""
    try:
        content = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise TraceError(f"This is not a trace: its text {not_json(error, data)}.") from None
    if isinstance(content, list):
        raise TraceError(
            "This is a list, such as the lanes of a race, and not one trace; read_traces() reads its file."
        )
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        given = content.get("format") if isinstance(content, dict) else None
        what = FIGURES.get(given) if isinstance(given, str) else None
        raise TraceError(
            f"This is not a trace: its 'format' is not '{FORMAT}'"
            + (f" but '{given}', {what} without any rounds" if what else "")
            + "; take the file of Race (JSON), from an open run's Download in the Library, or that of race --json."
        )
    if (said := other_version(content)) is not None:
        raise TraceError(said)
    texts = content.get("texts")
    if not isinstance(texts, dict) or not all(
        key == str(UNTOLD) or (key.isascii() and key.isdecimal() and len(key) <= 8) for key in texts
    ):
        raise TraceError("This is not a valid trace: 'texts' must map token ids to their texts.")
    if not all(isinstance(value, str) for value in texts.values()):
        raise TraceError("This is not a valid trace: 'texts' must map token ids to their texts.")


def check_shape(trace: Trace) -> None:
    """What the schema cannot express: columns of a round have equal lengths, parents come before their children."""
    for row in trace.rounds:
        nodes, size = row.nodes, len(row.nodes.token)
        for name in nodes.__slots__:
            column = getattr(nodes, name)
            if column is not None and len(column) != size:
                raise TraceError(
                    f"This is not a valid trace: in round {row.index}, '{name}' has {len(column)} entries "
                    f"for {size} nodes."
                )
        if any(parent >= child for child, parent in enumerate(nodes.parent)):
            raise TraceError(
                f"This is not a valid trace: in round {row.index}, a node comes before its parent."
            )
        if any(not -1 <= position.at < size for position in row.positions):
            raise TraceError(
                f"This is not a valid trace: round {row.index} has a position at a node that does not exist."
            )
        if not row.committed.token:
            raise TraceError(f"This is not a valid trace: round {row.index} committed no token.")
        if len(row.committed.token) != len(row.committed.source):
            raise TraceError(f"This is not a valid trace: round {row.index} has tokens without a source.")
        if row.block_mass is not None and len(row.block_mass) != size:
            raise TraceError(
                f"This is not a valid trace: round {row.index} has a 'block_mass' of another length."
            )
        for position in row.positions:
            for head in position.heads.values():
                if not 0 < len(head.id) == len(head.prob):
                    raise TraceError(
                        f"This is not a valid trace: round {row.index} has ids without probabilities."
                    )
    if len(trace.header.prompt_ids) != len(trace.header.prompt_texts):
        raise TraceError("This is not a valid trace: the prompt's ids and texts differ in length.")
    committed = sum(len(row.committed.token) for row in trace.rounds)
    if trace.rounds and committed != len(trace.output.ids):
        raise TraceError(
            "This is not a valid trace: the rounds and the output differ in their number of tokens."
        )
    if not len(trace.output.ids) == len(trace.output.texts) == len(trace.output.offsets):
        raise TraceError("This is not a valid trace: the output's ids, texts and offsets differ in length.")


def _beside(name: str) -> Any:
    """A module that stands beside the decoder, by its public name."""
    return getattr(import_module("specdec_core"), name)
