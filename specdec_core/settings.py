"""The settings of a decode: one immutable, validated object."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from specdec_core.foundations.errors import SettingsError, kind_of, sentence
from specdec_core.foundations.options import fields

MAX_NEW_TOKENS = 4096
MAX_DRAFT_LENGTH = 64
MAX_STOP_STRINGS = 8
MAX_LANES = 8  # of a race, and of a page that shows one
MAX_OPTION_ITEMS = 10_000
MIN_PENALTY, MAX_PENALTY = 0.1, 10.0
MAX_NGRAM = 100

SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "no_repeat_ngram_size")
"""The settings that turn a model's logits into the sampled distribution."""

Record = Literal["full", "tokens", "off"]


def _number(value: object) -> object:
    """Refuse booleans and texts where a number is expected; pydantic would read True as 1, and "4" as 4."""
    if isinstance(value, bool | str | bytes):
        raise ValueError("a number is expected")
    return value


def _switch(value: object) -> object:
    """Refuse all but booleans; pydantic would read 1 and "yes" as True."""
    if not isinstance(value, bool):
        raise ValueError("true or false is expected")
    return value


def _stops(value: object) -> object:
    """Refuse what is no list, in words for users; pydantic speaks of tuples."""
    if not isinstance(value, list | tuple) or len(value) > MAX_STOP_STRINGS:
        raise ValueError(f"a list of at most {MAX_STOP_STRINGS} texts is expected")
    return tuple(value)  # a strict reader of JSON takes nothing else


def _temperature(value: float) -> float:
    """Refuse temperatures that overflow the logits; 0 is not a small temperature but a separate case."""
    if 0.0 < value < 0.01:
        raise ValueError("a temperature is 0 (greedy) or at least 0.01")
    return value


def _option(value: object) -> object:
    """Allow any option type; each option's model checks its values."""
    items = value if isinstance(value, list) else [value]
    inner = [part for item in items for part in (item if isinstance(item, list) else [item])]
    if len(inner) > MAX_OPTION_ITEMS or len(items) > MAX_OPTION_ITEMS:
        raise ValueError(f"a list of at most {MAX_OPTION_ITEMS:,} numbers is expected")
    if not all(isinstance(part, str | int | float) and (part == part) for part in inner):
        raise ValueError(
            "a text, a number, true or false, or a list of numbers or of lists of them is expected"
        )
    if any(isinstance(part, float) and part in (float("inf"), float("-inf")) for part in inner):
        raise ValueError("a finite number is expected")
    return value


Number = BeforeValidator(_number)
Options = dict[Annotated[str, Field(max_length=64)], Annotated[Any, BeforeValidator(_option)]]


class Settings(BaseModel):
    """All settings of one decode. The defaults are greedy decoding with a draft model of γ = 4.

    `min_p`, `repetition_penalty` and `no_repeat_ngram_size` mean the same as in transformers' `generate`. None takes
    the value from the target's `generation_config.json`, and is off if there is none; 0, 1 and 0 switch them
    off regardless. A trace's header has the applied values.

    Raises:
        SettingsError: (a ValueError) with one sentence, if any value is unknown or out of range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    proposer: str = Field("draft-model", max_length=64)
    rule: str = Field("speculative-sampling", max_length=64)
    draft_length: Annotated[int, Number] = Field(4, ge=1, le=MAX_DRAFT_LENGTH)
    max_new_tokens: Annotated[int, Number] = Field(128, ge=1, le=MAX_NEW_TOKENS)
    temperature: Annotated[float, Number, AfterValidator(_temperature)] = Field(0.0, ge=0.0, le=10.0)
    top_k: Annotated[int, Number] = Field(0, ge=0, le=1_000_000)
    top_p: Annotated[float, Number] = Field(1.0, gt=0.0, le=1.0)
    min_p: Annotated[float | None, Number] = Field(None, ge=0.0, le=1.0)
    repetition_penalty: Annotated[float | None, Number] = Field(None, ge=MIN_PENALTY, le=MAX_PENALTY)
    no_repeat_ngram_size: Annotated[int | None, Number] = Field(None, ge=0, le=MAX_NGRAM)
    seed: Annotated[int, Number] = Field(0, ge=0, lt=2**63)
    stop: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=64)], ...], BeforeValidator(_stops)
    ] = Field((), max_length=MAX_STOP_STRINGS)
    options: Options = Field(default_factory=dict)
    rule_options: Options = Field(default_factory=dict)
    length_policy: str = Field("fixed", max_length=64)
    length_options: Options = Field(default_factory=dict)
    memory_budget_mb: Annotated[float, Number] = Field(0.0, ge=0.0, le=1e6)  # 0: none; see draft_length.room
    overlap: Annotated[bool, BeforeValidator(_switch)] = False
    record: Record = "full"

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise SettingsError(sentence(error, fields(Settings))) from None

    def but(self, **changes: Any) -> Self:
        """A validated copy with `changes` applied; what was left out stays so."""
        return type(self)(**{**self.model_dump(exclude_unset=True), **changes})


def as_settings(given: object) -> Settings:
    """`given`, which has to be settings; whoever calls from Python may have mistaken what goes where.

    Raises:
        SettingsError: one sentence.
    """
    if not isinstance(given, Settings):
        raise SettingsError(
            f"Settings are a Settings object, such as Settings(draft_length=4), got {kind_of(given)}."
        )
    return given
