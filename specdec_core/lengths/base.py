"""What a length policy is: it says how far to draft this round, and hears how the round went."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from specdec_core.options import OptionSet, read
from specdec_core.settings import Settings

if TYPE_CHECKING:
    from specdec_core.proposers.contract import Context, Outcome, Resources


class LengthPolicy(ABC):
    """Decides how many levels to draft. A policy may change with every round; it never changes what is written.

    A decision to stop must be made before the next token is drawn: dropping a token that was already drawn, because
    of what it is, would change its law. That is why `more` is asked between tokens and there is no way to take back.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]  # two sentences: what it does, and when it loses
    # whether `more` can say no; asking costs a wait for the device per drafted token
    asks: ClassVar[bool] = False

    class Options(OptionSet):
        """Has none."""

    def __init__(self, options: Any = None, resources: Resources | None = None) -> None:
        self.options = options
        self.resources = resources

    @classmethod
    def read_options(cls, settings: Settings) -> Any:
        """The validated options (an instance of `cls.Options`).

        Raises:
            SettingsError: with one sentence.
        """
        return read(f"the length policy '{cls.name}'", cls.Options, settings.length_options)

    @classmethod
    def most(cls, settings: Settings) -> int:
        """The most levels this policy can ask for with these settings; reserves KV memory."""
        return settings.draft_length

    sets: ClassVar[tuple[str, ...]] = ("length",)  # what of it is more than γ: "length", "more", "nodes"

    @abstractmethod
    def length(self, context: Context) -> int:
        """How many levels to draft this round, before the limit is applied."""

    def more(self, context: Context, drafted: int, confidence: float) -> bool:
        """Whether to go on behind a chain of `drafted` tokens, the last of which the draft gave `confidence`.

        `confidence` is the draft's own probability (temperature 1) of the token it just drafted.
        """
        return True

    def nodes(self, context: Context, values: Sequence[float]) -> int:
        """How many nodes of a deterministic tree to send, given their chances to be reached and accepted, falling."""
        return len(values)

    def observe(self, context: Context, outcome: Outcome) -> None:  # noqa: B027
        """Hear how the round went."""
