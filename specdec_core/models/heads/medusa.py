"""Medusa heads (Cai et al. 2024): from one hidden state, head i guesses the token i + 1 places after the next one.

A head is one or more residual blocks, x + SiLU(Wx + b), and a matrix into the vocabulary. Published files name the
weights `{head}.{block}.linear.weight`, `{head}.{block}.linear.bias` and, after the last block,
`{head}.{blocks}.weight`. Heads trained here may share the target's own output matrix instead
(`specdec_shared_output` in config.json); their file then ends with the blocks, and may bring a draft vocabulary
(`d2t`, see `draft_vocabulary`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from specdec_core.errors import ModelError
from specdec_core.models import draft_vocabulary
from specdec_core.models.draft_vocabulary import Guessing

from . import layout

FILE = "medusa_lm_head.safetensors"
MOST = 64  # heads, and residual blocks of each
SHARED, ACCURACY = "specdec_shared_output", "specdec_accuracy"


class ResBlock(nn.Module):
    """x + SiLU(Wx + b), (…, d) → (…, d); zero weights make it the identity, which is where training starts."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, states: Tensor) -> Tensor:
        return states + nn.functional.silu(self.linear(states))


class MedusaHeads(nn.ModuleList, Guessing):
    """All heads of a target; its state dict is the published one.

    Args:
        heads: how many.
        blocks: residual blocks per head.
        width: d, the target's hidden size.
        vocabulary: number of the target's logits; None shares the target's output matrix.
        accuracy: for each head the measured share of right guesses by rank, if known.
        guesses: the target's tokens they may guess, int64 (k,), where they share its matrix; None is all of them.
    """

    def __init__(
        self,
        heads: int,
        blocks: int,
        width: int,
        vocabulary: int | None = None,
        accuracy: list[list[float]] | None = None,
        guesses: Tensor | None = None,
    ) -> None:
        last = [] if vocabulary is None else [vocabulary]
        super().__init__(
            nn.Sequential(
                *(ResBlock(width) for _ in range(blocks)),
                *(nn.Linear(width, size, bias=False) for size in last),
            )
            for _ in range(heads)
        )
        self.blocks = blocks
        self.shared = vocabulary is None
        self.accuracy = accuracy
        self.restrict(guesses)

    def forward(self, states: Tensor, output: nn.Module, heads: int | None = None) -> Tensor:
        """Logits of the first `heads` heads (all by default): states (…, d) → (heads, …, k) in the states' dtype.

        `output` is the result of `self.output`; heads with their own matrices ignore it.
        """
        guesses = torch.stack([head(states) for head in list(self)[:heads]])
        if not self.shared:
            return guesses
        logits: Tensor = output(guesses)
        return logits

    def output_rows(self, target: nn.Module) -> int:
        return super().output_rows(target) if self.shared else 0


def read(source: str, width: int, vocabulary: int) -> MedusaHeads:
    """Load the heads of a folder or hub id for a target of hidden size `width` and `vocabulary` logits.

    Raises:
        ModelError: with one sentence, if files are missing, pickled, damaged, or made for another target.
    """
    config, tensors = layout.read(source, "medusa")
    name = layout.short(source)
    tensors = {key.removeprefix("medusa_head."): tensor for key, tensor in tensors.items()}
    if "medusa_num_heads" not in config:
        raise ModelError(
            f"'{name}' holds no Medusa heads: its config.json has no 'medusa_num_heads'. Choose another folder or hub "
            "id."
        )
    count = layout.number(name, config, "medusa_num_heads", most=MOST)
    blocks = layout.number(name, config, "medusa_num_layers", 1, most=MOST)
    shared = config.get(SHARED) is True
    wanted = expected(count, blocks, width, None if shared else vocabulary)
    missing = next((key for key in wanted if key not in tensors), None)
    if missing is not None:
        raise ModelError(
            f"'{name}' holds no complete Medusa heads: its config.json announces {count} with {blocks} residual "
            f"block{'s' if blocks > 1 else ''} each, but the weight '{missing}' is missing. Fetch or export them again."
        )
    for key, shape in wanted.items():
        layout.fitting(name, key, tensors[key], shape)
    ids = draft_vocabulary.read(name, tensors, vocabulary) if shared else None
    heads = MedusaHeads(count, blocks, width, None if shared else vocabulary, _accuracy(config, count), ids)
    heads.load_state_dict({key: tensors[key] for key in heads.state_dict()})
    return heads.requires_grad_(False).eval()


def read_accuracy(folder: Path) -> list[list[float]] | None:
    """The measured accuracies of a folder's heads, by head and rank, without loading them; None if there are none."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    heads = config.get("medusa_num_heads") if isinstance(config, dict) else None
    return _accuracy(config, heads) if isinstance(heads, int) else None


def write(
    folder: Path,
    heads: MedusaHeads,
    target: str,
    notes: Mapping[str, Any],
    dtype: torch.dtype = torch.float16,
) -> None:
    """Write heads in the published layout; `notes` are further entries of config.json, `target` the model's name."""
    config = {
        "medusa_num_heads": len(heads),
        "medusa_num_layers": heads.blocks,
        "base_model_name_or_path": target,
        SHARED: heads.shared,
        ACCURACY: heads.accuracy,
        **notes,
    }
    layout.write(folder, config, heads.state_dict(), FILE, dtype)


def expected(heads: int, blocks: int, width: int, vocabulary: int | None) -> dict[str, tuple[int, ...]]:
    """The published names and shapes of all weights."""
    names: dict[str, tuple[int, ...]] = {}
    for head in range(heads):
        for block in range(blocks):
            names[f"{head}.{block}.linear.weight"] = (width, width)
            names[f"{head}.{block}.linear.bias"] = (width,)
        if vocabulary is not None:
            names[f"{head}.{blocks}.weight"] = (vocabulary, width)
    return names


def _accuracy(config: Mapping[str, Any], heads: int) -> list[list[float]] | None:
    """The measured accuracies, if the configuration has valid ones."""
    table = config.get(ACCURACY)
    if not isinstance(table, list) or len(table) != heads:
        return None
    usable = all(
        isinstance(row, list)
        and row
        and all(isinstance(share, int | float) and math.isfinite(share) and 0 <= share <= 1 for share in row)
        for row in table
    )
    return [[float(share) for share in row] for row in table] if usable else None
