"""What a proposer is: it answers `propose` with a token tree and hears from `observe` what became of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from ..errors import SettingsError
from ..randomness import Stream, uniforms
from ..sampling import Warp
from ..settings import Options, Settings
from ..target import Reader
from ..tree import TokenTree

Note = dict[str, int | float | str | bool | None]


@dataclass(slots=True)
class Context:
    """What a proposer may look at in one round.

    Attributes:
        tokens: prompt and committed tokens; the last one is the root of this round's tree.
        prompt_length: how many of them are the prompt.
        limit: the deepest node that can still be of use before the length limit.
        round: index of the round, part of the key of every random number.
        vocabulary: number of the target's logits; every proposed id is below it.
    """

    settings: Settings
    warp: Warp
    vocabulary: int
    prompt_length: int
    tokens: list[int]
    limit: int = 0
    round: int = 0

    def uniforms(self, count: int) -> list[float]:
        """The round's drafting numbers for nodes 0 … count − 1."""
        numbers: list[float] = uniforms(self.settings.seed, Stream.DRAFTING, self.round, count).tolist()
        return numbers


@dataclass(slots=True)
class Proposal:
    """A proposal tree and where it came from.

    Attributes:
        tree: the proposed nodes.
        q: float32 (n + 1, V), row 0 at the root, row i + 1 at node i: the warped distribution from which that
            position's children were drawn; None where the children are deterministic (point masses).
        logits: float32 (n + 1, V) or fewer rows, the draft's own logits at those positions, for the record only.
        passes: how many passes of a draft model this took.
        note: small facts for the record, such as where a match was found.
    """

    tree: TokenTree
    q: Tensor | None = None
    logits: Tensor | None = None
    passes: int = 0
    note: Note = field(default_factory=dict)


@dataclass(slots=True)
class Outcome:
    """What became of a proposal: the accepted nodes that were committed, and all tokens the round committed."""

    path: list[int]
    tokens: list[int]


@dataclass(slots=True)
class Resources:
    """What the loaded models offer a proposer for one lane."""

    draft: Reader | None = None


class Proposer(ABC):
    """A way of guessing the next tokens. One file per family; `PROPOSERS` in this package lists them."""

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]  # two sentences: what it does, and when it loses
    needs: ClassVar[tuple[str, ...]] = ()  # parts of the loaded models: "draft"
    options: ClassVar[dict[str, type]] = {}

    def __init__(self, resources: Resources, options: Options) -> None:
        self.resources = resources

    @classmethod
    def check(cls, settings: Settings) -> None:
        """Refuse options that this proposer does not have.

        Raises:
            SettingsError: with one sentence.
        """
        for name, value in settings.options.items():
            if name not in cls.options:
                known = ", ".join(sorted(cls.options)) or "none"
                raise SettingsError(f"The proposer '{cls.name}' has no option '{name}'; it knows: {known}.")
            if not isinstance(value, cls.options[name]) or isinstance(value, bool):
                expected = cls.options[name].__name__
                raise SettingsError(
                    f"Option '{name}' of '{cls.name}' must be of type {expected}, got {value!r}."
                )

    @classmethod
    def max_nodes(cls, settings: Settings) -> int:
        """The most nodes a proposal with these settings can have; reserves KV memory."""
        return settings.draft_length

    def start(self, context: Context) -> None:  # noqa: B027 (most proposers have nothing to prepare)
        """Prepare for a prompt, e.g. read it; timed as part of prefill."""

    @abstractmethod
    def propose(self, context: Context) -> Proposal:
        """Guess what follows `context.tokens`; at most `context.limit` levels deep."""

    def observe(self, context: Context, outcome: Outcome) -> None:  # noqa: B027
        """Hear the verdict; `context.tokens` already holds the committed tokens."""
