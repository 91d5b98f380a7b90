"""A round's data: what a proposer knows and returns, what the rule decided, what became text, and all of it together.

In a round's order: a `Context`, the `Proposal` made in it, `Judged` after the target's pass, the `Outcome` that the
proposer observes, and what it `DraftedAhead`. `RoundResult` has them all; the record is written from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from specdec_core.foundations.randomness import Stream, uniforms
from specdec_core.lengths import FixedLength, LengthPolicy
from specdec_core.record.schema import Source, Verdict
from specdec_core.rules import Decision
from specdec_core.sampling import Warp
from specdec_core.sampling.penalties import Past
from specdec_core.settings import Settings
from specdec_core.tree import TokenTree

if TYPE_CHECKING:
    from torch import Tensor

Note = dict[str, int | float | str | bool | list[int] | list[list[int]] | None]
"""Small facts about a round, for the record; lists of lists hold token ids, whose texts the trace then includes."""


@dataclass(slots=True)
class Dropped:
    """A token that was drafted but never shown to the target; for the record only.

    Attributes:
        token: its id.
        parent: a node of the proposal tree, or n + i for the i-th dropped token of the round; −1 is the root.
        verdict: `pruned` (left out of the tree by a budget) or `discarded` (drafted ahead on a guess that failed).
        model_q, penalised_q: the draft's own probability of it, before and after penalties; None where unknown.
    """

    token: int
    parent: int
    verdict: Verdict
    model_q: float | None = None
    penalised_q: float | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """What a proposer knows when a round begins. Each round has a new one; only `tokens` and `past` grow as tokens are
    committed.

    Attributes:
        warp: turns logits into the distribution that is sampled, after the penalties of `past`.
        tokens: prompt and committed tokens; the last one is the root of this round's tree.
        prompt_length: how many of them are the prompt.
        source: what an encoder has read; empty for causal models, whose prompt is in `tokens`.
        past: `tokens` up to the root as penalties see them, which proposers apply to their logits; None without any.
        policy: the length policy.
        limit: the deepest useful level before the length limit.
        length: how many levels to draft this round: as the length policy decides, at most `limit`.
        room: how many nodes the memory budget allows this round.
        round: index of the round, part of the key of every random number.
        vocabulary: number of the target's logits; every proposed id is below it.
    """

    settings: Settings
    warp: Warp
    vocabulary: int
    prompt_length: int
    tokens: list[int]
    source: list[int] = field(default_factory=list)
    past: Past | None = None
    policy: LengthPolicy = field(default_factory=FixedLength)
    limit: int = 0
    length: int = 0
    room: int = 0
    round: int = 0

    def uniforms(self, count: int) -> list[float]:
        """The round's random numbers for drafting nodes 0 … count − 1."""
        numbers: list[float] = uniforms(self.settings.seed, Stream.DRAFTING, self.round, count).tolist()
        return numbers


@dataclass(slots=True)
class Proposal:
    """A proposal tree and where it came from.

    Attributes:
        tree: the n proposed nodes.
        q: float32 (n, V): row i is the distribution, penalised and warped, from which node i was drawn, given its
            earlier siblings (the same for all siblings if drawn with replacement, with those removed if drawn without);
            None where the proposal is deterministic, which is a point mass at each node's token.
        logits: float32 (m, k), the draft's own without penalties, for the record and rules that judge by confidence.
        penalised: float32 (m, k), the same after the penalties it drafted with, if any; for the record.
        ids: int64 (k,) ascending, the tokens of its columns where the draft can guess only some; None: all V.
        logit_rows: for each position (0 the root, i + 1 node i) the row of `logits` that guessed its children, −1
            where there is none; None means that row i belongs to position i.
        extra: further tokens that the target reads in the same pass and that are never committed; they hang below the
            root like the tree. Their logits come back in `Outcome.extra`.
        passes: how many passes of a draft model the draft phase took; not those made ahead in the round before.
        waited: seconds of the draft phase to leave off the lane's clock (a person typing, an oracle's passes).
        dropped: drafted tokens left out of the tree, for the record.
        tree_q: by what each node, then each dropped token, was chosen, if not at temperature 1; for the record.
        note: small facts for the record, such as where a match was found.
    """

    tree: TokenTree
    q: Tensor | None = None
    logits: Tensor | None = None
    penalised: Tensor | None = None
    logit_rows: list[int] | None = None
    ids: Tensor | None = None
    extra: TokenTree = field(default_factory=TokenTree)
    passes: int = 0
    waited: float = 0.0
    dropped: list[Dropped] = field(default_factory=list)
    tree_q: list[float | None] | None = None
    note: Note = field(default_factory=dict)

    @property
    def read(self) -> TokenTree:
        """What the target reads after the root: the tree and the extra tokens."""
        return self.tree.joined(self.extra)


@dataclass(slots=True)
class Outcome:
    """What became of a proposal.

    Attributes:
        path: the accepted nodes that were committed.
        tokens: all tokens the round committed.
        extra: float32 (m, V), the target's logits after each extra token.
        seconds: duration of the draft and verify phases.
        logits: float32 (n + 1, V), the target's logits after the root and each node, penalised.
    """

    path: list[int]
    tokens: list[int]
    extra: Tensor | None = None
    seconds: tuple[float, float] = (0.0, 0.0)
    logits: Tensor | None = None


@dataclass(slots=True)
class DraftedAhead:
    """What was drafted for the next round during the target's pass; see `Proposer.draft_ahead`.

    Attributes:
        seconds: overlap with the target's pass.
        passes: how many passes of the draft it took.
        dropped: tokens of it invalidated by the verdict, numbered after the proposal's dropped tokens.
    """

    seconds: float = 0.0
    passes: int = 0
    dropped: list[Dropped] = field(default_factory=list)


@dataclass(slots=True)
class Judged:
    """The rule's decision, and the token drawn where it stops.

    Attributes:
        source: what the last token is.
        coins: the random number of each node.
        tokens: the accepted tokens and the last one, corrected or bonus.
        penalised: float32 (n + 1, V), the target's logits after penalties; None where there are none.
        p, q: the distributions the rule saw (see `Rule.judge`); no p where it is one-hot at the argmax.
        final: (V,), what the last token was drawn from, likewise.
        draw: the random number that drew the last one; None where the distribution is one-hot.
    """

    decision: Decision
    source: Source
    coins: list[float]
    tokens: list[int]
    penalised: Tensor | None = None
    p: Tensor | None = None
    q: Tensor | None = None
    final: Tensor | None = None
    draw: float | None = None


@dataclass(slots=True)
class RoundResult:
    """One round as the loop saw it.

    Attributes:
        index: its number, from 0.
        start_s: the lane's clock as it began.
        seconds: its draft, verify, judge and commit times.
        cache: rows of the target's KV cache before and after.
        logits: float32 (n + 1, V), the target's own after the root and each node.
        verdicts: of the tree's nodes, with `cut` for what was judged beyond the last committed token.
        tokens, sources: what was committed.
    """

    index: int
    start_s: float
    seconds: list[float]
    cache: tuple[int, int]
    proposal: Proposal
    logits: Tensor
    judged: Judged
    verdicts: list[Verdict]
    tokens: list[int]
    sources: list[Source]
    ahead: DraftedAhead = field(default_factory=DraftedAhead)
