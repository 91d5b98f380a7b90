"""The interface of a proposer: `propose` returns a token tree, `observe` receives the verdict on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from specdec_core.foundations.options import OptionSet, read
from specdec_core.foundations.randomness import Stream, uniforms
from specdec_core.lengths import FixedLength, LengthPolicy, longest
from specdec_core.record.schema import Verdict
from specdec_core.sampling import Warp
from specdec_core.sampling.penalties import Past
from specdec_core.settings import Settings
from specdec_core.tree import TokenTree

from .refusals import lacking

if TYPE_CHECKING:
    from torch import Tensor

    from specdec_core.models.bundle import Models
    from specdec_core.runtime.reader import Reader

Note = dict[str, int | float | str | bool | list[int] | list[list[int]] | None]
"""Small facts about a round, for the record; lists of lists hold token ids, whose texts the trace then includes."""

Drafts = Literal["none", "chain", "fixed tree", "independent tree", "distinct tree"]
"""How siblings are chosen: not at all; deterministically; drawn with replacement; drawn without replacement."""


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
        scores: float32 (m, k), the same after the penalties it drafted with, if any; for the record.
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
    scores: Tensor | None = None
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
class Resources:
    """What the loaded models offer a proposer for one lane.

    Attributes:
        target: the lane's own reader of the target; proposers may listen to its states but must not read with it.
        models: all loaded models, for proposers that need another reader.
        capacity: rows another reader needs to hold this lane's text and tree.
        draft: a reader of the draft model, where `needs` names it.
        ask: asks a person for the next words, given the text so far; None where there is nobody to ask.
    """

    target: Reader
    models: Models
    capacity: int
    draft: Reader | None = None
    ask: Callable[[str], str] | None = None


class Proposer(ABC):
    """A way of guessing the next tokens. One file per family; `PROPOSERS` in this package lists them.

    `needs` names what is required besides the target: "draft", "foreign draft" (one with another tokenizer), "layers"
    (a target whose layers can be run in part), "states" (a target whose hidden states are accessible), "person", or
    the name of trained heads.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]  # two sentences: what it does, and when it does not pay
    needs: ClassVar[tuple[str, ...]] = ()
    can_overlap: ClassVar[bool] = False  # whether `draft_ahead` does anything
    # whether its drafting is off the clock, which makes its speed a bound and not a speedup
    off_the_clock: ClassVar[bool] = False
    # which methods of a length policy it uses: "length", "more", "deeper", "nodes"
    uses: ClassVar[tuple[str, ...]] = ("length",)
    # whether γ counts the draft's own tokens, which may be more or fewer of the target's
    own_tokens: ClassVar[bool] = False

    class Options(OptionSet):
        """Has none."""

    def __init__(self, resources: Resources, options: Any) -> None:
        self.resources = resources
        self.options = options

    @classmethod
    def read_options(cls, settings: Settings) -> Any:
        """The validated options (an instance of `cls.Options`).

        Raises:
            SettingsError: with one sentence.
        """
        return read(f"the proposer '{cls.name}'", cls.Options, settings.options)

    @classmethod
    def why_not(cls, models: Models, person: bool = True) -> str | None:
        """Why these models cannot serve this proposer, as a sentence; None if they can. `person`: if one can be
        asked."""
        missing = (lacking(cls.name, need, models, person) for need in cls.needs)
        return next(filter(None, missing), None)

    @classmethod
    def uses_draft(cls) -> bool:
        """Whether a draft model drafts."""
        return "draft" in cls.needs or "foreign draft" in cls.needs

    @classmethod
    def which_draft(cls, settings: Settings) -> str:
        """Which of the loaded drafts; see `Models.drafting`."""
        foreign = "foreign draft" in cls.needs
        return "foreign" if foreign else getattr(cls.read_options(settings), "draft", "usual")

    @classmethod
    def draft_capacity(cls, capacity: int) -> int:
        """Rows of KV cache reserved for the draft, given those of the target."""
        return 3 * capacity if "foreign draft" in cls.needs else capacity  # its tokens may be shorter

    @classmethod
    def check(cls, settings: Settings) -> None:
        """Refuse settings that this proposer cannot serve.

        Raises:
            SettingsError: with one sentence.
        """
        cls.read_options(settings)

    @classmethod
    def drafts(cls, settings: Settings) -> Drafts:
        """The kind of proposals, to be overridden where they branch; rules refuse by it what they cannot judge."""
        return "chain"

    @classmethod
    def max_nodes(cls, settings: Settings) -> int:
        """The most nodes and extra tokens a proposal with these settings can have; used to reserve KV cache."""
        return longest(settings)

    @classmethod
    def capacity(cls, settings: Settings, tokens: int) -> int:
        """Rows of KV cache reserved by a lane that starts from this many tokens: text, root and largest proposal."""
        return tokens + settings.max_new_tokens + cls.max_nodes(settings) + 1

    def start(self, context: Context) -> None:  # noqa: B027 (most proposers have nothing to prepare)
        """Prepare for a prompt, e.g. read it; timed as part of prefill."""

    @abstractmethod
    def propose(self, context: Context) -> Proposal:
        """Guess what follows `context.tokens`: at most `context.room` nodes on `context.length` levels, or on
        `context.limit` ones where the proposer's own options say how deep it grows."""

    def draft_ahead(self, context: Context, proposal: Proposal) -> None:  # noqa: B027
        """Start drafting the next round during the target's pass, if `settings.overlap` is set; returns at once.

        Called just before the target reads `proposal`. `observe` must end or join what was started here and report it.
        """

    def observe(self, context: Context, outcome: Outcome) -> DraftedAhead | None:
        """Receive the verdict; `context.tokens` already holds the committed tokens. Returns what was drafted ahead."""
        return None

    def close(self) -> None:  # noqa: B027
        """The lane has ended or was closed; called once. Stops what still runs."""
