"""What the record of a decode holds, column by column (version 1). `trace` writes, reads and checks it.

A trace can be replayed, judged again and exported without any model. Columns of equal length stand for the nodes of
a round's proposal tree; `Position` describes the distributions at one committed token. All probabilities are float32
values, all entropies are in nats, all times in seconds on the lane's own clock (prefill excluded, recording excluded).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

FORMAT: Literal["specdec-trace"] = "specdec-trace"
VERSION: Literal[1] = 1
MAX_JSON_BYTES = 128_000_000  # twice what the largest trees over the bundled models' whole window take
MAX_NODES = 4_096
TOP = 10  # how many candidates of a distribution are kept by name; the rest is the tail's mass

Verdict = Literal["accepted", "rejected", "unreached", "pruned", "cut", "discarded"]
UNSEEN: tuple[Verdict, ...] = ("pruned", "discarded")  # the target never read these, so no rule judges them
Source = Literal["accepted", "corrected", "bonus", "plain", "unknown"]
"""Where a committed token comes from; "unknown" where another engine does not tell which guesses it rejected there."""
EndReason = Literal["length", "eos", "stop", "cancelled"]
Judging = Literal["each", "longest"]
"""How coins decide: each node is decided by its own coin, walking down from the root; or the deepest node whose coin
passes is accepted with all its ancestors, as in block verification."""

Probability = Annotated[float, Field(ge=0.0, le=1.0 + 1e-5)]
Seconds = Annotated[float, Field(ge=0.0, le=1e7)]
Count = Annotated[int, Field(ge=0, le=10**9)]
Token = Annotated[int, Field(ge=0, le=10**7)]
UNTOLD: Literal[-1] = -1  # a guess whose token the engine did not tell; never an accepted one
Guess = Annotated[int, Field(ge=UNTOLD, le=10**7)]
Short = Annotated[str, Field(max_length=500)]
Column = Field(max_length=MAX_NODES, fail_fast=True)
Numbers = Annotated[list[Annotated[int, Field(ge=-1, le=10**9)]], Field(max_length=1_000)]
Fact = int | float | str | bool | Numbers | Annotated[list[Numbers], Field(max_length=100)] | None


EIGHT_BITS = ", 8-bit"
"""What ends the name of a model whose weights were rounded to 8 bits."""


@dataclass(slots=True)
class ModelInfo:
    """Which model took part: its name as given (never a path), and its number of parameters."""

    name: Short
    parameters: Annotated[int, Field(ge=0, le=10**14)]
    architecture: Short = ""
    read: Annotated[int | None, Field(ge=0, le=10**14)] = None
    """Those that a pass over one token reads: all but an input embedding that is not the output matrix as well."""
    output_rows: Annotated[int | None, Field(ge=0, le=10**9)] = None
    """Of heads: the rows of the target's output matrix that a pass reads besides; 0 with a matrix of their own."""

    @property
    def published(self) -> str:
        """Its name without what was done to its weights here."""
        return self.name.removesuffix(EIGHT_BITS)


@dataclass(slots=True)
class Race:
    """Of which race a record is a lane; lanes of one race had the same machine to themselves in turn."""

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
    lane: Annotated[int, Field(ge=0, le=1_000)]
    lanes: Annotated[int, Field(ge=1, le=1_000)]


@dataclass(slots=True)
class Branch:
    """Where a record goes on from another one: after so many of its tokens, with this one in place of its own. They and
    the other's prompt are this record's prompt."""

    trace: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]  # the other's id
    at: Count
    token: Token


@dataclass(slots=True)
class Header:
    """Everything known before the first round."""

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
    """Whether `prompt` is a user's message, of which `prompt_ids` are the templated form."""
    system: Annotated[str, Field(max_length=10_000)] = ""
    """The system line that replaces the chat template's; empty for the template's."""
    race: Race | None = None
    """The race it is a lane of; None for a decode of its own, and in files that are older than this field."""
    branch: Branch | None = None
    """The record that it goes on from with a token that somebody chose; None for one that begins with its prompt."""


@dataclass(slots=True)
class Nodes:
    """The proposal tree of a round as columns, in topological order; parent −1 is the root (the last committed token).
    A token of −1 is one that another engine guessed and did not name.

    `p` and `q` are after penalties, temperature and cuts (one-hot at temperature 0): p is what the judge saw, q the
    distribution the token was drawn from (1 where the proposal was deterministic), which a rule such as token
    matching may ignore. `model_p` and `model_q` are the models' own probabilities at temperature 1, before
    penalties, and `entropy` is that of the target's own distribution at the node's parent. `rank` (1 = the argmax,
    which is one token even in a tie) is the token's there after penalties, which is what greedy decoding uses.
    `threshold` is the probability with which the coin let this node pass, given that it was judged. Columns are None
    at nodes the target never saw (pruned, discarded). Where the header says `own_probabilities` (temperature 0 and a
    rule with its own threshold), p and q are the models' own after penalties, and q is the draft's even where the
    proposal was deterministic.

    Three columns are for judging by other rules (see `counterfactual`): `p_max` is the largest probability at the
    node's parent, of the distribution that a rule with its own threshold looks at: p, or the target's own where p is
    one-hot. `p_entropy` is that distribution's entropy, kept only where it differs from `entropy`. `recursive` is
    the threshold of recursive rejection, given that all earlier siblings failed; kept only for drawn trees.

    `penalised_p` and `penalised_q` are `model_p` and `model_q` after penalties, from which the most likely tokens are
    taken. They are kept where a penalty was set, except under `own_probabilities`, where they are p and q. There is
    no `penalised_q` where the draft does not apply penalties. `tree_q` is the probability of a node by whose product
    along a path the tree was chosen, after penalties; kept where it is at another temperature than 1, which the
    round's note has as `tree_temperature`.
    """

    parent: Annotated[list[Annotated[int, Field(ge=-1)]], Column]
    depth: Annotated[list[Count], Column]
    token: Annotated[list[Guess], Column]
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
    penalised_p: Annotated[list[Probability | None] | None, Column] = None
    penalised_q: Annotated[list[Probability | None] | None, Column] = None
    tree_q: Annotated[list[Probability | None] | None, Column] = None


@dataclass(slots=True)
class Candidates:
    """The head of a distribution: token ids and probabilities in descending order, and the mass of the rest."""

    id: Annotated[list[Token], Field(max_length=64, fail_fast=True)]
    prob: Annotated[list[Probability], Field(max_length=64)]
    tail: Probability


@dataclass(slots=True)
class Position:
    """The distributions at one judged position, i.e. where exactly one token was committed.

    `at` is the node the token follows (−1: the root). `q` is what the first child was drawn from; None where
    nothing was drafted there, or several fixed children. `residual` is what a corrected token was taken from (p itself,
    for rules that subtract nothing); None where nothing was rejected. `draw` is the number that drew a corrected or
    bonus token; None at temperature 0, where the most likely one is taken. `overlap` is Σ min(p, q), the probability
    that a token drafted from q passes speculative sampling, and Σ p over the children where they are fixed. The
    entropies are of the models' own distributions at temperature 1. `penalised_p` and `penalised_q` are `model_p` and
    `model_q` after penalties; kept as in `Nodes`.
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
    penalised_p: Candidates | None = None
    penalised_q: Candidates | None = None

    @property
    def heads(self) -> dict[str, Candidates]:
        """The distributions that are kept, by name."""
        names = ("p", "model_p", "penalised_p", "q", "model_q", "penalised_q", "residual")
        return {name: head for name in names if (head := getattr(self, name)) is not None}


@dataclass(slots=True)
class Committed:
    """The tokens a round added to the text, and the source of each."""

    token: Annotated[list[Token], Column]
    source: Annotated[list[Source], Column]


@dataclass(slots=True)
class Round:
    """One round: propose → verify → judge → commit. `start_s` is the lane's clock when it began.

    `draft_passes` are those of the draft phase. `ahead_s` and `ahead_passes` are drafting for the next round that ran
    during the verify phase and belong to no other phase, whether their tokens were used or not; `riders`
    counts extra tokens in the target's pass.
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
    def width(self) -> int:
        """Tokens in the target's pass: the root, the nodes it read, and extra tokens."""
        return 1 + self.nodes_read + self.riders

    @property
    def end_s(self) -> float:
        """The lane's clock when the round was committed."""
        return self.start_s + self.draft_s + self.verify_s + self.judge_s + self.commit_s

    @property
    def nodes_read(self) -> int:
        """How many nodes the target read; the others (pruned, discarded) come after these and are not judged."""
        return sum(verdict not in UNSEEN for verdict in self.nodes.verdict)


@dataclass(slots=True)
class Stats:
    """The numbers of a run.

    - acceptance rate α = accepted / (accepted + rejected). Unreached nodes were not judged, and cut nodes lie beyond
      the end of the text; neither counts. On a tree, failed siblings would make a single rate meaningless, so where
      any proposal branched there is only the rate by depth: of the places at that depth where something was judged,
      the share where something was accepted. On chains it is the conditional acceptance rate of each position.
    - tokens per target pass τ = committed tokens / target passes after prefill; bonus and corrected tokens count, so
      plain decoding has τ = 1 exactly.
    - tokens per second = committed tokens / (draft + verify + judge + commit time); prefill and recording are excluded.
    - `other_s` is judge and commit time.
    - `draft_passes` include those that ran ahead, beside a target pass; their time is not in `draft_s`.
    """

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
    def judged(self) -> int:
        """How many guesses a rule decided on: of these, `accepted` are a share; the others say nothing about it."""
        return self.accepted + self.rejected

    @property
    def decode_s(self) -> float:
        """Seconds from the end of prefill to the last committed token; without recording."""
        return self.draft_s + self.verify_s + self.other_s


@dataclass(slots=True)
class Output:
    """The committed tokens; `texts` are their pieces, which join to `text`; `offsets` are the starts of the pieces."""

    ids: Annotated[list[Token], Field(max_length=100_000, fail_fast=True)]
    texts: Annotated[list[str], Field(max_length=100_000, fail_fast=True)]
    offsets: Annotated[list[Count], Field(max_length=100_000, fail_fast=True)]
    text: Annotated[str, Field(max_length=4_000_000)]
