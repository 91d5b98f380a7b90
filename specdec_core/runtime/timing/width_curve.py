"""The width curve of this machine: T(n), what a target pass over n tokens takes, and what a draft pass takes.

Speculation pays because T(n) rises slowly. How slowly depends on machine, model and dtype, so it is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Self
from weakref import WeakKeyDictionary

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import from_json

from specdec_core.foundations.errors import SettingsError, sentence
from specdec_core.foundations.lazy_torch import torch
from specdec_core.runtime.machine import threads
from specdec_core.runtime.timing.pass_times import pass_time
from specdec_core.tree import TokenTree

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models
    from specdec_core.runtime.reader import Reader

WIDTHS = (1, 2, 3, 5, 9, 17, 33, 65)
PREFIX = 128

Seconds = Annotated[float, Field(gt=0.0, le=1e5)]
Short = Annotated[str, Field(max_length=500)]


@dataclass(frozen=True)
class WidthCurve:
    """A measured curve and how it was measured.

    Attributes:
        widths: numbers of tokens in a pass, rising, the first of them 1.
        seconds: T(n) for each.
        draft_s: seconds of a draft pass over one token; None without a draft.
        prefix: tokens in the KV cache while the passes were timed.
        device, dtype, machine: where, as in a trace.
        model, draft: names of the two models; the draft's is empty without one.
        date: when, ISO 8601, UTC.
    """

    widths: Annotated[
        tuple[Annotated[int, Field(ge=1, le=100_000)], ...], Field(min_length=1, max_length=1_000)
    ]
    seconds: Annotated[tuple[Seconds, ...], Field(max_length=1_000)]
    draft_s: Seconds | None
    prefix: Annotated[int, Field(ge=0)]
    device: Short
    dtype: Short
    machine: Short
    model: Short
    draft: Short
    date: Short

    def __post_init__(self) -> None:
        rising = all(one < other for one, other in zip(self.widths, self.widths[1:], strict=False))
        if len(self.widths) != len(self.seconds) or not rising or self.widths[:1] != (1,):
            raise ValueError("widths must rise from 1, with one time for each")

    @property
    def table(self) -> dict[int, float]:
        """{n: T(n)} in seconds, as the formulas of `theory` take it."""
        return dict(zip(self.widths, self.seconds, strict=True))

    @property
    def ratios(self) -> dict[int, float]:
        """{n: T(n)/T(1)}."""
        return {width: seconds / self.seconds[0] for width, seconds in self.table.items()}

    @property
    def cost_ratio(self) -> float | None:
        """c = T_draft(1)/T_target(1); None without a draft."""
        return None if self.draft_s is None else self.draft_s / self.seconds[0]

    def at(self, tokens: int) -> float:
        """T(n) in seconds, linear between the measured widths, extrapolated beyond them.

        Raises:
            SettingsError: if `tokens` is not a whole number of at least 1.
        """
        return pass_time(self.table, tokens)

    def to_json(self) -> str:
        """JSON that `from_json` reads back as an equal curve."""
        return _format().dump_json(self, indent=1).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """A curve that was recorded, here or elsewhere.

        Raises:
            SettingsError: naming the first thing that is wrong with it.
        """
        try:
            curve: Self = _format().validate_python(from_json(text))
        except ValidationError as error:
            raise SettingsError(f"This is not a recorded width curve: {sentence(error)}") from None
        except ValueError as error:
            raise SettingsError(f"This is not a recorded width curve: {error}.") from None
        return curve


@cache
def _format() -> TypeAdapter[Any]:
    setattr(WidthCurve, "__pydantic_config__", ConfigDict(extra="forbid", allow_inf_nan=False))  # noqa: B010
    return TypeAdapter(WidthCurve)


_measured: WeakKeyDictionary[object, WeakKeyDictionary[object, WidthCurve]] = WeakKeyDictionary()


def known_curve(models: Models) -> WidthCurve:
    """The width curve of these models on this machine; measured at the first call, then cached."""
    target, draft = _weights(models.target), _weights(models.draft or models.target)
    of_target = _measured.setdefault(target, WeakKeyDictionary())
    if draft not in of_target:
        of_target[draft] = width_curve(models)
    return of_target[draft]


def width_curve(
    models: Models,
    widths: Sequence[int] = WIDTHS,
    *,
    prefix: int = PREFIX,
    repeats: int = 30,
    budget_s: float = 0.35,
) -> WidthCurve:
    """Measure T(n): medians, the widths interleaved, so that a slow moment affects all alike.

    Args:
        widths: numbers of tokens in a pass; 1 is always among them, those the models cannot read are left out.
        prefix: tokens in the KV cache before the pass; fewer where the models cannot read that many.
        repeats: the most turns over all widths.
        budget_s: seconds after which no further turn begins; a warm-up and one turn are always completed.
            `math.inf` for no limit.

    Raises:
        SettingsError: if a number is out of range.
    """
    if min(widths, default=1) < 1 or prefix < 0 or repeats < 1 or not budget_s >= 0.0:
        raise SettingsError(
            "A width curve needs widths and repeats of at least 1, and a prefix and a time of at least 0."
        )
    window = models.window(with_draft=True)
    prefix = min(prefix, window // 2)
    widths = sorted({1, *(width for width in widths if width <= window - prefix)})
    text = [place % models.target.vocabulary for place in range(prefix)]
    if models.decoder_start is not None:  # the decoder's prefix is as long as the encoded text
        models = models.reading(text or [0])
    times: list[list[float]] = [[] for _ in widths]
    steps: list[float] = []
    with threads(models.threads), torch.inference_mode():
        passes, draft_pass = _passes(models, text, widths)
        began = time.perf_counter()
        for turn in range(repeats + 1):
            if turn > 1 and time.perf_counter() - began >= budget_s:
                break
            if turn == 1:  # the first turn was the warm-up
                for seconds in (*times, steps):
                    seconds.clear()
            for target_pass, seconds in zip(passes, times, strict=True):
                seconds.append(target_pass())
            if draft_pass is not None:
                steps.append(draft_pass())
    return WidthCurve(
        widths=tuple(widths),
        seconds=tuple(max(median(seconds), 1e-9) for seconds in times),
        draft_s=max(median(steps), 1e-9) if steps else None,
        prefix=prefix,
        device=models.device,
        dtype=models.dtype,
        machine=models.machine,
        model=models.target.info.name,
        draft=models.draft.info.name if models.draft else "",
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _passes(
    models: Models, text: list[int], widths: list[int]
) -> tuple[list[Callable[[], float]], Callable[[], float] | None]:
    """For each width a function that times one target pass after `text`; and one that times a draft pass."""
    capacity = len(text) + widths[-1] + 1
    target = models.target.reader(capacity, widths[-1])
    target.prefill(text)
    passes = [_timed(target, TokenTree.chain([0] * (width - 1))) for width in widths]
    if models.draft is None:
        return passes, None
    draft = models.draft.reader(capacity)
    draft.prefill([min(token, draft.vocabulary - 1) for token in text])
    return passes, _timed(draft, None)


def _timed(reader: Reader, tree: TokenTree | None) -> Callable[[], float]:
    """Seconds to read a root and `tree`; without a tree, for one drafting step, which is then undone."""
    length = reader.length
    token = torch.zeros(1, dtype=torch.int64, device=reader.device)

    def seconds() -> float:
        reader.synchronise()
        began = time.perf_counter()
        if tree is None:
            reader.step(token)
        else:
            reader.read(0, tree)
        reader.synchronise()
        taken = time.perf_counter() - began
        reader.rewind(length)
        return taken

    return seconds


def _weights(model: object) -> object:
    """The identity of a model: lanes hold different wrappers of the same weights."""
    return getattr(model, "model", model)
