"""A card as a roofline: a pass takes as long as the slower of moving its bytes and computing its products.

At batch 1 nearly all of a pass is moving the weights, which costs the same for one token as for many: that is what
speculation lives on. The more texts share a pass, the sooner compute becomes the bottleneck.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from specdec_core.foundations.errors import SettingsError

from .costs import MAX_BATCH, MAX_CONTEXT, Costs, Named, Text
from .model_sizes import Shape, in_words, shape_of

# kernels per transformer layer, in round numbers: norms, projections, rotation, attention, MLP
KERNELS = 10
PAIR = "8B", "1B"  # target and draft, if no others are named
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


class Modelled(Named):
    """A card, or a computer, as a roofline.

    Attributes:
        bytes_per_s, flops_per_s, memory_bytes: bandwidth of its memory, dense throughput in `dtype`, memory size.
        kernel_s: minimum time from one kernel's start to the next; a layer has `KERNELS` of them.
        sources: the source of each of these figures.
    """

    kind: Literal["modelled"]
    bytes_per_s: Annotated[float, Field(gt=0.0, le=1e18)]
    flops_per_s: Annotated[float, Field(gt=0.0, le=1e24)]
    memory_bytes: Annotated[float, Field(gt=0.0, le=1e18)]
    kernel_s: Annotated[float, Field(ge=0.0, le=1.0)]
    sources: Annotated[dict[str, Text], Field(max_length=4)]

    FIGURES: ClassVar[tuple[str, ...]] = ("bytes_per_s", "flops_per_s", "memory_bytes", "kernel_s")

    @model_validator(mode="after")
    def _sourced(self) -> Modelled:
        missing = [name for name in self.FIGURES if not self.sources.get(name)]
        if missing or len(self.sources) != len(self.FIGURES):
            raise ValueError(f"sources must name where each of these comes from: {', '.join(self.FIGURES)}")
        return self

    @property
    def provenance(self) -> str:
        """Where the times come from, in a few words, and that they are modelled."""
        return f"modelled · {self.origin}"

    @property
    def origin(self) -> str:
        """Where the times come from."""
        return f"roofline of {self.label}"

    def costs(
        self, batch: int = 1, context: int | None = None, target: str = PAIR[0], draft: str | None = PAIR[1]
    ) -> Costs:
        """Modelled pass times at that batch and context (512 unless given), for models of these sizes.

        Raises:
            SettingsError: if a size is unknown, a number out of range, or the models do not fit in the memory.
        """
        context = 512 if context is None else context
        large = shape_of(target)
        small = None if draft is None else shape_of(draft)
        if small is not None and small.parameters >= large.parameters:
            raise SettingsError(f"A draft is smaller than its target; {draft} is not smaller than {target}.")
        _in_range("batch", batch, 1, MAX_BATCH)
        _in_range("context", context, 0, MAX_CONTEXT)
        needed = self.bytes_needed(large, batch, context)
        needed += self.bytes_needed(small, batch, context) if small else 0.0
        if needed > self.memory_bytes:
            raise SettingsError(
                f"{target}{f' with a draft of {draft}' if draft else ''} at batch {batch} and context {context:,} "
                f"needs {needed / 1e9:,.0f} GB in {self.dtype}, and {self.label} has {self.memory_bytes / 1e9:,.0f} "
                "GB. Choose smaller models, a smaller batch or a shorter context."
            )
        return Costs(
            target=lambda tokens: self.seconds(large, tokens, batch, context),
            draft=None if small is None else (lambda tokens: self.seconds(small, tokens, batch, context)),
            layers=large.layers,
            output_share=large.output / large.read,
            batch=batch,
            context=context,
            pair=target + (f" with {draft}" if draft else ""),
            counted=" ".join(_counted(model) for model in (large, small) if model),
        )

    def seconds(self, model: Shape, tokens: int, batch: int, context: int) -> float:
        """T(n) = max(bytes / bandwidth, operations / throughput) + the time to start the kernels."""
        _in_range("number of tokens in a pass", tokens, 1, MAX_CONTEXT)
        return max(self.limits(model, tokens, batch, context)) + model.layers * KERNELS * self.kernel_s

    def prompt_seconds(self, model: Shape, tokens: int) -> float:
        """A pass that reads a prompt: each token attends to those before it, and only the last one gets logits."""
        _in_range("number of tokens in a prompt", tokens, 1, MAX_CONTEXT)
        moved = BYTES[self.dtype] * (model.read + tokens * model.kv_numbers)
        pairs = tokens * (tokens + 1) // 2
        operations = 2 * (tokens * (model.read - model.output) + model.output)
        operations += 4 * model.layers * model.heads * model.head_dim * pairs
        slower = max(moved / self.bytes_per_s, operations / self.flops_per_s)
        return slower + model.layers * KERNELS * self.kernel_s

    def knee(self, model: Shape, batch: int, context: int, most: int = 4_096) -> int | None:
        """The smallest n at which computing takes longer than moving; None if that is beyond `most`."""

        def computes(tokens: int) -> bool:
            moving, computing = self.limits(model, tokens, batch, context)
            return computing >= moving

        if not computes(most):
            return None
        low, high = 1, most  # computing grows by more with n than moving does, so there is one crossing
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if computes(middle) else (middle + 1, high)
        return low

    def bytes_needed(self, model: Shape, batch: int, context: int) -> float:
        """Bytes of the weights and the KV cache."""
        return float(BYTES[self.dtype] * (model.parameters + batch * context * model.kv_numbers))

    def limits(self, model: Shape, tokens: int, batch: int = 1, context: int = 0) -> tuple[float, float]:
        """Seconds to move the weights and the KV cache, and to multiply with them; a pass takes the longer."""
        seen = context + tokens
        moved = BYTES[self.dtype] * (model.read + batch * seen * model.kv_numbers)
        attention = 4 * model.layers * model.heads * model.head_dim * seen
        operations = batch * tokens * (2 * model.read + attention)
        return moved / self.bytes_per_s, operations / self.flops_per_s

    @cached_property
    def assumptions(self) -> list[str]:
        """The formula, its figures with their sources, and what it leaves out."""
        figures = (
            f"{_figure(self.bytes_per_s / 1e9)} GB/s",
            f"{_figure(self.flops_per_s / 1e12)} TFLOP/s",
            f"{_figure(self.memory_bytes / 1e9)} GB",
            f"{self.kernel_s * 1e6:g} µs a kernel, {KERNELS} kernels a layer",
        )
        return [
            "T(n) = max(bytes moved / bandwidth, operations / throughput) + layers × kernels × time per kernel.",
            "Bytes: the weights read, once, and keys and values of context + n tokens for every text of the batch, "
            f"{BYTES[self.dtype]} bytes a number ({self.dtype}). Operations: 2 × parameters read × batch × n, "
            "and attention. Read are all matrices but an input embedding that is not also the output matrix: of that a "
            "pass looks up a row per token.",
            *(f"{figure}: {self.sources[name]}" for name, figure in zip(self.FIGURES, figures, strict=True)),
            "Peak figures: real kernels reach perhaps 60 to 90% of either, so seconds are lower bounds. Ratios "
            "depend less on that. Sampling, tokenising and Python cost nothing here. Nothing is quantised.",
        ] + ([self.note] if self.note else [])


def _counted(model: Shape) -> str:
    """How many of a model's parameters a pass reads, as a sentence."""
    read = in_words(model.read)
    if model.tied:
        return f"A pass of {model.name} reads {read} parameters; its input embedding is the output matrix."
    return f"A pass of {model.name} reads {read} of its {in_words(model.parameters)} parameters."


def _figure(value: float) -> str:
    """A number of four significant digits, in full."""
    return f"{float(f'{value:.4g}'):,.10g}"


def _in_range(name: str, value: Any, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise SettingsError(f"The {name} must be a whole number from {least:,} to {most:,}, got {value!r}.")
