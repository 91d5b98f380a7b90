"""The times of a watched server as a clock for recorded rounds: a pass with k guesses takes its a + b·k."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Literal

from specdec_core.foundations.errors import SettingsError
from specdec_measure.machines.costs import Costs

from .numbers import Watched


@dataclass(frozen=True, slots=True)
class ServedClock:
    """A server whose `found.line` is known."""

    found: Watched
    kind: Literal["recorded"] = "recorded"

    @property
    def label(self) -> str:
        """The engine and its address."""
        return f"{self.found.engine} at {self.found.url.partition('//')[2] or self.found.url}"[:200]

    @property
    def origin(self) -> str:
        """Where the times come from."""
        return f"{self.label}, watched"

    @property
    def provenance(self) -> str:
        """The same, and that they were recorded."""
        return f"recorded · {self.origin}"

    @property
    def widest(self) -> int:
        """The tokens of the widest pass whose time is known."""
        return 1 + ceil(self.found.line.lengths[1] - 1e-9) if self.found.line else 1

    def costs(self) -> Costs:
        """The times of its passes; of wider ones than it had they raise SettingsError, as those are unknown."""

        def target(tokens: int) -> float:
            if tokens > self.widest or (seconds := self.found.pass_s(tokens - 1)) is None:
                raise SettingsError(
                    f"What a pass of {tokens} tokens takes at {self.found.url} is unknown: it was watched with up to "
                    f"{self.widest - 1} guesses a pass."
                )
            return seconds

        return Costs(
            target, lambda tokens: 0.0, layers=1, output_share=0.0, batch=1, context=0, pair="its own models",
            widest=self.widest, drafting_within=True,
        )  # fmt: skip

    @property
    def assumptions(self) -> list[str]:
        """What was measured, and what was not."""
        line = self.found.line
        if line is None:
            return []
        where = f"{line.lengths[0]:.1f} to {line.lengths[1]:.1f} guesses a pass"
        plain = (
            "was measured"
            if self.found.plain_step_s
            else f"is that line at k = 0, {1e3 * line.a:.2f} ms, and was not measured"
        )
        return [
            f"A pass with k guesses takes {1e3 * line.a:.2f} + {1e3 * line.b:.2f}·k ms, fitted over {where}; one "
            f"without {plain}. What came back over the network is in it.",
            "Its requests came one after the other: in a fuller batch a pass takes longer, by how much is unknown.",
        ]
