"""Record this machine's width curves as a profile.

Each measurement is a whole curve of medians, target and draft in turn at each context. The profile keeps, for each
width, the fastest of them, which is the machine's own, and the median over all, which shows what other work on the
machine added; a busy machine needs more measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import median
from typing import Literal

from specdec_core.foundations.errors import SettingsError
from specdec_core.models.bundle import HubModel, Models, NarrowModel
from specdec_core.runtime.machine import packages
from specdec_core.runtime.timing.width_curve import WIDTHS, width_curve

from .profiles import Curves, ProfilePart, RecordedProfile

DRAFT_WIDTHS = (1, 2, 4, 8, 16, 32)  # a level of a draft tree rarely expands more
Weights = Literal["trained", "random"]

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class PassPlan:
    """What to measure: contexts and widths in tokens, how many whole curves, and seconds for each."""

    contexts: tuple[int, ...] = (128, 512)
    widths: tuple[int, ...] = WIDTHS
    measurements: int = 9
    seconds: float = 0.5

    def check(self, models: Models) -> None:
        """
        Raises:
            SettingsError: if a number is out of range, or beyond what the models can read.
        """
        if not self.contexts or not self.widths or min(self.widths) < 1 or min(self.contexts) < 0:
            raise SettingsError(
                "Contexts are whole numbers from 0 up, widths from 1 up; give at least one of each."
            )
        if not 1 <= self.measurements <= 1_000 or not 0.0 <= self.seconds <= 600.0:
            raise SettingsError("Measurements go from 1 to 1,000, with 0 to 600 seconds for each.")
        window = models.window(with_draft=True)
        if max(self.contexts) > window // 2:
            raise SettingsError(
                f"These models read {window:,} tokens, so a context has at most {window // 2:,}; got "
                f"{max(self.contexts):,}. Leave it out."
            )


def record(
    models: Models, plan: PassPlan, *, label: str, note: str, weights: Weights, on_progress: OnProgress
) -> RecordedProfile:
    """Measure; `on_progress` receives the number of curves done and their total.

    Raises:
        SettingsError: if the plan does not fit the models.
    """
    plan.check(models)
    target, draft = _part(models.target), _part(models.draft) if models.draft else None
    alone = replace(models, target=models.draft, draft=None) if models.draft else None
    times: dict[tuple[int, bool], list[dict[int, float]]] = {}
    for turn in range(plan.measurements):
        for place, context in enumerate(sorted({*plan.contexts})):
            on_progress(turn * len(plan.contexts) + place, plan.measurements * len(plan.contexts))
            for small, subject in ((False, replace(models, draft=None)), (True, alone)):
                if subject is not None:
                    widths = DRAFT_WIDTHS if small else plan.widths
                    curve = width_curve(subject, widths, prefix=context, repeats=1_000, budget_s=plan.seconds)
                    times.setdefault((context, small), []).append(curve.table)
    return RecordedProfile(
        format="specdec-profile",
        version=1,
        label=label or f"{models.machine} · {target.name}",
        dtype=models.dtype,  # type: ignore[arg-type]  # checked by the class
        note=note,
        kind="recorded",
        machine=models.machine,
        device=models.device,
        threads=models.threads,
        passes="graphs" if getattr(models.target, "graphs", None) else "eager",
        weights=weights,
        measurements=plan.measurements,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        packages=packages(),
        target=target,
        draft=draft,
        curves=tuple(
            _curves(context, times[context, False], times.get((context, True), []))
            for context in sorted({*plan.contexts})
        ),
    )


def _curves(context: int, target: Sequence[dict[int, float]], draft: Sequence[dict[int, float]]) -> Curves:
    widths, drafted = tuple(target[0]), tuple(draft[0]) if draft else ()
    return Curves(
        batch=1,
        context=context,
        widths=widths,
        target_s=tuple(_rounded(min(one[width] for one in target)) for width in widths),
        target_median_s=tuple(_rounded(median(one[width] for one in target)) for width in widths),
        draft_widths=drafted,
        draft_s=tuple(_rounded(min(one[width] for one in draft)) for width in drafted),
        draft_median_s=tuple(_rounded(median(one[width] for one in draft)) for width in drafted),
    )


def _rounded(seconds: float) -> float:
    """Five digits, more than a clock resolves."""
    return float(f"{seconds:.5g}")


def _part(model: object) -> ProfilePart:
    model = model.model if isinstance(model, NarrowModel) else model
    if not isinstance(model, HubModel):
        raise SettingsError("A profile times causal language models, and this is not one.")
    config = model.model.config
    rows, width = model.model.get_output_embeddings().weight.shape
    return ProfilePart(
        name=model.info.name,
        parameters=model.info.parameters,
        layers=int(config.num_hidden_layers),
        width=int(width),
        vocabulary=int(rows),
        tied=bool(config.tie_word_embeddings),
    )
