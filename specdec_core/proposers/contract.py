"""The interface of a proposer: `propose` returns a token tree, `observe` receives the verdict on it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from specdec_core.foundations.options import OptionSet, read
from specdec_core.lengths import longest
from specdec_core.round import Context, DraftedAhead, Outcome, Proposal
from specdec_core.settings import Settings
from specdec_core.tree import Drafts

from .refusals import lacking

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models
    from specdec_core.runtime.reader import Reader


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


@dataclass(frozen=True, slots=True)
class TreeShape:
    """What proposals can be.

    Attributes:
        drafts: how siblings are chosen; rules refuse by it what they cannot judge.
        max_nodes: the most nodes and extra tokens of one; KV cache is reserved for as many.
    """

    drafts: Drafts
    max_nodes: int

    def rows(self, settings: Settings, tokens: int) -> int:
        """Rows of KV cache for a lane that starts from this many tokens: text, root and the largest proposal."""
        return tokens + settings.max_new_tokens + self.max_nodes + 1


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
    def resolved(cls, options: Any) -> type[Proposer]:
        """The class that these options make of it, where they decide what it needs."""
        return cls

    @classmethod
    def uses_draft(cls) -> bool:
        """Whether a draft model drafts."""
        return "draft" in cls.needs or "foreign draft" in cls.needs

    @classmethod
    def which_draft(cls, options: Any) -> str:
        """Which of the loaded drafts; see `Models.drafting`."""
        return "foreign" if "foreign draft" in cls.needs else getattr(options, "draft", "usual")

    @classmethod
    def draft_capacity(cls, capacity: int) -> int:
        """Rows of KV cache reserved for the draft, given those of the target."""
        return 3 * capacity if "foreign draft" in cls.needs else capacity  # its tokens may be shorter

    @classmethod  # noqa: B027
    def check(cls, settings: Settings, options: Any) -> None:
        """Refuse settings that this proposer cannot serve, given its validated options.

        Raises:
            SettingsError: with one sentence.
        """

    @classmethod
    def shape(cls, settings: Settings, options: Any) -> TreeShape:
        """What its proposals can be; to be overridden where they branch, or their size is not the length policy's."""
        return TreeShape("chain", longest(settings))

    @classmethod
    def drafts(cls, settings: Settings) -> Drafts:
        """The kind of its proposals with these settings."""
        return cls.shape(settings, cls.read_options(settings)).drafts

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
