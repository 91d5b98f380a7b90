"""What the passes of a machine cost: all that a clock needs from a profile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

MAX_BATCH, MAX_CONTEXT = 4_096, 1_000_000

Short = Annotated[str, Field(min_length=1, max_length=200)]
Text = Annotated[str, Field(max_length=1_000)]
PassTime = Callable[[int], float]


class NamedClock(Protocol):
    """What `whatif.on_clock` says of where the times come from."""

    @property
    def label(self) -> str: ...
    @property
    def kind(self) -> Literal["recorded", "modelled"]: ...
    @property
    def origin(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Costs:
    """Pass times for one pair of models at one batch and context.

    Attributes:
        target, draft: seconds of a pass over n tokens of each text of the batch; `draft` is None without a draft.
        layers: of the target.
        output_share: the output matrix's share of the parameters that a pass of the target reads.
        batch, context: texts in a pass, and tokens of each in the KV cache.
        pair: a description of both models.
        counted: how many parameters a modelled pass reads, in words; empty where passes were timed.
        widest: the tokens of the widest pass that is known; None where there is no end.
        drafting_within: whether a pass's time has its round's drafting in it.
    """

    target: PassTime
    draft: PassTime | None
    layers: int
    output_share: float
    batch: int
    context: int
    pair: str
    counted: str = ""
    widest: int | None = None
    drafting_within: bool = False

    def ratio(self, tokens: int) -> float:
        """T(n)/T(1): how many plain passes a pass over n tokens costs."""
        return self.target(tokens) / self.target(1)

    @property
    def cost_ratio(self) -> float | None:
        """c = T_draft(1)/T_target(1); None without a draft."""
        return None if self.draft is None else self.draft(1) / self.target(1)


class StrictModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Named(StrictModel):
    format: Literal["specdec-profile"]
    version: Literal[1]
    label: Short
    dtype: Literal["float32", "bfloat16", "float16"]
    note: Text = ""
