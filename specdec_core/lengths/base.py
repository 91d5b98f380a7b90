"""The interface of a length policy: it decides how far to draft each round and receives the outcome."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Any, ClassVar

from specdec_core.foundations.options import OptionSet, read
from specdec_core.settings import Settings

if TYPE_CHECKING:
    from specdec_core.proposers.contract import Resources
    from specdec_core.round import Context, Outcome


class LengthPolicy(ABC):
    """Decides how many levels to draft. It may change each round; it never changes the output.

    A decision to stop must be made before the next token is drawn: dropping a token that was already drawn, because
    of its value, would change its distribution. That is why `more` is called between tokens and nothing is taken back.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]  # two sentences: what it does, and when it does not pay
    # whether `more` or `deeper` can return False; calling one costs a device sync per drafted token or level
    can_stop: ClassVar[bool] = False

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
        """The most levels this policy can request with these settings; used to reserve KV cache."""
        return settings.draft_length

    # methods doing more than γ: "length", "more", "slots", "deeper", "nodes"
    sets: ClassVar[tuple[str, ...]] = ("length",)

    @abstractmethod
    def length(self, context: Context) -> int:
        """How many levels to draft this round, before the limit is applied."""

    def more(self, context: Context, drafted: int, confidence: float) -> bool:
        """Whether to go on after a chain of `drafted` tokens, the last of which the draft gave `confidence`.

        `confidence` is the draft's own probability (temperature 1) of the token it just drafted.
        """
        return True

    def slots(self, context: Context, confidences: Sequence[float], passes: int = 1) -> int:
        """How many slots of a block to send, whose guesses took so many passes of the draft together.

        Args:
            confidences: per slot an estimate of the probability that its guess is accepted if those before it are:
                the draft's own probability of its most likely token, or what a head trained for this says. Where
                guesses are drawn, they are those known before the first one was: a slot whose probabilities depend on
                a drawn guess is passed to `more` instead, one by one.
        """
        return self.nodes(context, list(accumulate(confidences, mul)), passes)

    def deeper(
        self, context: Context, levels: int, values: Sequence[float], front: Sequence[float], room: int
    ) -> bool:
        """Whether to grow another level of a tree of so many `levels`.

        Args:
            values: acceptance probabilities of its nodes so far, as the draft estimates them, in any order.
            front: those of the nodes that would get children.
            room: how many nodes can be sent.
        """
        return True

    def nodes(self, context: Context, values: Sequence[float], levels: int | None = None) -> int:
        """How many nodes of a deterministic tree to send, given their acceptance probabilities in falling order, and
        how many levels were grown, if one by one."""
        return len(values)

    def observe(self, context: Context, outcome: Outcome) -> None:  # noqa: B027
        """Receive the outcome of the round."""
