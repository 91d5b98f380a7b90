"""The versioned record of one decode: what it holds, how it is written, read and checked.

A trace can be replayed, judged again and exported without any model. Columns of equal length stand for the nodes of
a round's proposal tree; `Position` describes the distributions at one committed token. All probabilities are float32
values, all entropies are in nats, all times in seconds on the lane's own clock (prefill excluded, recording excluded).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from specdec_core.errors import TraceError, sentence

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from .repeats import Loops
    from .show import Page

FORMAT: Literal["specdec-trace"] = "specdec-trace"
VERSION: Literal[1] = 1
MAX_JSON_BYTES = 128_000_000  # the largest trees over the bundled models' whole window take half of it
MAX_NODES = 4_096
TOP = 10  # how many candidates of a distribution are kept by name; the rest is the tail's mass

Verdict = Literal["accepted", "rejected", "unreached", "pruned", "cut", "discarded"]
Source = Literal["accepted", "corrected", "bonus", "plain"]
EndReason = Literal["length", "eos", "stop", "cancelled"]
Judging = Literal["each", "longest"]
"""How coins decide: each node passes by its own coin, walking down from the root; or the deepest node whose coin passes
takes all above it along, as in block verification."""

Probability = Annotated[float, Field(ge=0.0, le=1.0 + 1e-5)]
Seconds = Annotated[float, Field(ge=0.0, le=1e7)]
Count = Annotated[int, Field(ge=0, le=10**9)]
Token = Annotated[int, Field(ge=0, le=10**7)]
Short = Annotated[str, Field(max_length=500)]
Column = Field(max_length=MAX_NODES, fail_fast=True)
Numbers = Annotated[list[Annotated[int, Field(ge=-1, le=10**9)]], Field(max_length=1_000)]
Fact = int | float | str | bool | Numbers | Annotated[list[Numbers], Field(max_length=100)] | None


@dataclass(slots=True)
class ModelInfo:
    """Which model took part: its name as given (never a path), and its number of parameters."""

    name: Short
    parameters: Annotated[int, Field(ge=0, le=10**14)]
    architecture: Short = ""


@dataclass(slots=True)
class Header:
    """Everything that was known before the first round."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    created: Short  # ISO 8601, UTC
    packages: Annotated[dict[Short, Short], Field(max_length=32)]
    device: Short
    dtype: Short
    machine: Short
    target: ModelInfo
    draft: ModelInfo | None
    settings: Annotated[dict[str, Any], Field(max_length=64)]
    prompt: Annotated[str, Field(max_length=1_000_000)]
    prompt_ids: Annotated[list[Token], Field(max_length=1_000_000, fail_fast=True)]
    prompt_texts: Annotated[list[str], Field(max_length=1_000_000, fail_fast=True)]
    vocabulary: Count  # the target's number of logits
    judging: Judging = "each"
    own_probabilities: bool = False  # whether the rule saw the models' own p and q in place of one-hot ones
    heads: Annotated[list[ModelInfo], Field(max_length=8)] = field(default_factory=list)
    """Trained heads that took part, such as Medusa's."""
    decoder_start: Annotated[list[Token], Field(max_length=64)] = field(default_factory=list)
    """What an encoder–decoder's decoder starts from; its `prompt_ids` are what the encoder read. Else empty."""
    chat: bool = False
    """Whether `prompt` is a user's message and `prompt_ids` are what the model's chat template made of it."""
    system: Annotated[str, Field(max_length=10_000)] = ""
    """The system line that was given in place of the chat template's own; empty for the template's own."""


@dataclass(slots=True)
class Nodes:
    """The proposal tree of a round as columns, in topological order; parent −1 is the root (the last committed token).

    `p` and `q` are after penalties, temperature and cuts (one-hot at temperature 0): p is what the judge saw, q the law
    the token was drawn from (1 where the proposal was deterministic), which a rule such as token matching may ignore.
    `model_p` and `model_q` are the models' own probabilities at temperature 1, before penalties, and `entropy` is that
    of the target's own distribution at the node's parent. `rank` (1 = the argmax, which is one token even in a tie) is
    the token's there after penalties, which is what greedy decoding goes by. `threshold` is the probability with which
    the coin let this node pass, given that it was judged. Columns are None at nodes that the target never saw (pruned,
    discarded). Where the header says `own_probabilities` (temperature 0 and a rule with a bar of its own), p and q are
    the models' own after penalties, and q is the draft's even where the proposal was deterministic.

    Three columns serve other rules (see `counterfactual`): `p_max` is the largest probability at the node's parent, of
    the distribution that a rule with a bar of its own looks at: p, or the target's own where p is one-hot.
    `p_entropy` is that distribution's entropy, kept only where it differs from `entropy`. `recursive` is the threshold
    of recursive rejection, given that all earlier siblings failed; kept only for trees whose siblings were drawn.
    """

    parent: Annotated[list[Annotated[int, Field(ge=-1)]], Column]
    depth: Annotated[list[Count], Column]
    token: Annotated[list[Token], Column]
    verdict: Annotated[list[Verdict], Column]
    coin: Annotated[list[Annotated[float, Field(ge=0.0, lt=1.0)] | None] | None, Column] = None
    threshold: Annotated[list[Probability | None] | None, Column] = None
    p: Annotated[list[Probability | None] | None, Column] = None
    q: Annotated[list[Probability | None] | None, Column] = None
    model_p: Annotated[list[Probability | None] | None, Column] = None
    model_q: Annotated[list[Probability | None] | None, Column] = None
    rank: Annotated[list[Count | None] | None, Column] = None
    entropy: Annotated[list[Annotated[float, Field(ge=-1e-4, le=30)] | None] | None, Column] = None
    p_max: Annotated[list[Probability | None] | None, Column] = None
    p_entropy: Annotated[list[Annotated[float, Field(ge=-1e-4, le=30)] | None] | None, Column] = None
    recursive: Annotated[list[Probability | None] | None, Column] = None


@dataclass(slots=True)
class Candidates:
    """The head of a distribution: token ids and probabilities in falling order, and the mass of everything else."""

    id: Annotated[list[Token], Field(max_length=64, fail_fast=True)]
    prob: Annotated[list[Probability], Field(max_length=64)]
    tail: Probability


@dataclass(slots=True)
class Position:
    """The distributions at one judged position, i.e. where exactly one token was committed.

    `at` is the node after which the token stands (−1: the root). `q` is what the first child was drawn from; None where
    nothing was drafted there, or several fixed children. `residual` is what a corrected token was taken from (p itself,
    for rules that subtract nothing); None where nothing was rejected. `draw` is the number that drew a corrected or
    bonus token; None at temperature 0, where the most likely one is taken. `overlap` is Σ min(p, q), the probability
    that a token drafted from q passes speculative sampling, and Σ p over the children where they are fixed. The
    entropies are of the models' own distributions at temperature 1.
    """

    at: Annotated[int, Field(ge=-1)]
    token: Token
    source: Source
    p: Candidates
    model_p: Candidates
    q: Candidates | None
    model_q: Candidates | None
    residual: Candidates | None
    entropy_p: Annotated[float, Field(ge=-1e-4, le=30)]
    entropy_q: Annotated[float, Field(ge=-1e-4, le=30)] | None
    overlap: Probability | None
    draw: Annotated[float, Field(ge=0.0, lt=1.0)] | None


@dataclass(slots=True)
class Committed:
    """The tokens a round added to the text, and how each came to be."""

    token: Annotated[list[Token], Column]
    source: Annotated[list[Source], Column]


@dataclass(slots=True)
class Round:
    """One round: propose → verify → judge → commit. `start_s` is the lane's clock when it began.

    `draft_passes` are those of the draft phase. `ahead_s` and `ahead_passes` are drafting for the next round that ran
    beside the verify phase, so they are part of no other phase, whether their tokens were of use or not; `riders`
    counts tokens in the target's pass that were no proposals.
    """

    index: Count
    start_s: Seconds
    draft_s: Seconds
    verify_s: Seconds
    judge_s: Seconds
    commit_s: Seconds
    cache_before: Count
    cache_after: Count
    draft_passes: Count
    nodes: Nodes
    committed: Committed
    positions: Annotated[list[Position], Column] = field(default_factory=list)
    block_mass: Annotated[list[Annotated[float, Field(ge=0)]] | None, Column] = None
    note: Annotated[dict[Short, Fact], Field(max_length=24)] = field(default_factory=dict)
    ahead_s: Seconds = 0.0
    ahead_passes: Count = 0
    riders: Count = 0

    @property
    def end_s(self) -> float:
        """The lane's clock when the round was committed."""
        return self.start_s + self.draft_s + self.verify_s + self.judge_s + self.commit_s


@dataclass(slots=True)
class Stats:
    """The numbers of a run, with the definitions of the field (see `specdec_core.record.stats`)."""

    tokens: Count
    target_passes: Count
    proposed: Count
    accepted: Count
    rejected: Count
    unreached: Count
    cut: Count
    pruned: Count
    discarded: Count
    acceptance_rate: Annotated[float, Field(ge=0, le=1)] | None
    tokens_per_pass: Annotated[float, Field(ge=0)] | None
    tokens_per_second: Annotated[float, Field(ge=0)] | None
    prefill_s: Seconds
    draft_s: Seconds
    verify_s: Seconds
    other_s: Seconds
    record_s: Seconds
    draft_passes: Count
    acceptance_by_depth: Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(max_length=MAX_NODES)] = (
        field(default_factory=list)
    )

    @property
    def decode_s(self) -> float:
        """Seconds from the end of prefill to the last committed token; recording is not part of it."""
        return self.draft_s + self.verify_s + self.other_s


@dataclass(slots=True)
class Output:
    """The committed tokens; `texts` are their pieces, which join to `text`; `offsets` are where each piece begins."""

    ids: Annotated[list[Token], Field(max_length=100_000, fail_fast=True)]
    texts: Annotated[list[str], Field(max_length=100_000, fail_fast=True)]
    offsets: Annotated[list[Count], Field(max_length=100_000, fail_fast=True)]
    text: Annotated[str, Field(max_length=4_000_000)]


@dataclass(slots=True)
class Trace:
    """One finished (or cancelled) decode. See design: the record is the product."""

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
        """Check the conservation laws; one sentence for each that is broken, so an empty list is a clean trace."""
        from .audit import audit

        return audit(self)

    def loops(self) -> Loops:
        """Which of the text repeats what it has said before, and so flatters the run's figures; see `loops`."""
        from .repeats import of

        return of(self)

    def frames(self) -> dict[str, pd.DataFrame]:
        """The record as data frames: `rounds`, `nodes`, `positions`, `tokens`."""
        from .frames import frames

        return frames(self)

    def show(self, *above: Trace, path: str | Path | None = None, height: int | None = None) -> Page:
        """The player with this trace, for a notebook; `above` are lanes over it, plain decoding first.

        With `path` the same page is written to a file that plays in any browser. See `specdec_core.record.show`.
        """
        from .show import HEIGHT, show

        return show([*above, self], path=path, height=height or HEIGHT)

    def to_json(self) -> str:
        """The trace as compact JSON; `Trace.from_json` gives back an equal trace."""
        return _adapter().dump_json(self).decode()

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
                "This is not a trace: its text holds half of a character (a lone surrogate)."
            ) from None
        if len(data) > MAX_JSON_BYTES:
            raise TraceError(
                f"The trace has {len(data):,} bytes; at most {MAX_JSON_BYTES:,} are read. "
                "Record it with record='tokens' or with fewer tokens."
            )
        _check_kind(data)
        try:
            trace = _adapter().validate_json(data, strict=True)
        except ValidationError as error:
            raise TraceError(f"This is not a valid trace: {sentence(error)}") from None
        _check_shape(trace)
        return trace


@cache
def _adapter() -> TypeAdapter[Trace]:
    for kind in (ModelInfo, Header, Nodes, Candidates, Position, Committed, Round, Stats, Output, Trace):
        setattr(kind, "__pydantic_config__", ConfigDict(extra="forbid"))  # noqa: B010 (mypy knows no such field)
    return TypeAdapter(Trace)


def _check_kind(data: bytes) -> None:
    """Name the common mistakes (not JSON, another version) before the schema's many messages."""
    try:
        content = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise TraceError(f"This is not a trace: the file is not complete JSON ({error}).") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise TraceError(f"This is not a trace: its 'format' is not '{FORMAT}'.")
    if content.get("version") != VERSION or isinstance(content["version"], bool):
        given = str(content.get("version"))[:20]
        raise TraceError(f"This trace has version {given}; this program reads version {VERSION}.")
    texts = content.get("texts")
    if not isinstance(texts, dict) or not all(
        key.isascii() and key.isdecimal() and len(key) <= 8 for key in texts
    ):
        raise TraceError("This is not a valid trace: 'texts' must map token ids to their texts.")
    if not all(isinstance(value, str) for value in texts.values()):
        raise TraceError("This is not a valid trace: 'texts' must map token ids to their texts.")


def _check_shape(trace: Trace) -> None:
    """What a schema cannot say: columns of one round have one length, parents stand before their children."""
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
                f"This is not a valid trace: in round {row.index}, a node stands before its parent."
            )
        if any(not -1 <= position.at < size for position in row.positions):
            raise TraceError(
                f"This is not a valid trace: round {row.index} has a position at a node that is not there."
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
            for head in (position.p, position.model_p, position.q, position.model_q, position.residual):
                if head is not None and not 0 < len(head.id) == len(head.prob):
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
