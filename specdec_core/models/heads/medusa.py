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
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from specdec_core.foundations.errors import ModelError
from specdec_core.models.tokens import draft_vocabulary
from specdec_core.models.tokens.draft_vocabulary import Guessing

from .layouts import files, shapes
from .layouts.contents import Contents
from .target import Target, fitting, own_copy

FILE = "medusa_lm_head.safetensors"
MAX_MEDUSA_HEADS = 64  # heads, and residual blocks of each
_PREFIX = re.compile(r"^medusa_heads?\.")
SHARED, ACCURACY = "specdec_shared_output", "specdec_accuracy"


class ResBlock(nn.Module):
    """x + SiLU(Wx + b), (…, d) → (…, d); zero weights make it the identity, which is where training starts."""

    def __init__(self, width: int, bias: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width, bias=bias)
        for parameter in self.linear.parameters():
            nn.init.zeros_(parameter)

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
        bias: whether the residual blocks have one.
    """

    def __init__(
        self,
        heads: int,
        blocks: int,
        width: int,
        vocabulary: int | None = None,
        accuracy: list[list[float]] | None = None,
        guesses: Tensor | None = None,
        bias: bool = True,
    ) -> None:
        last = [] if vocabulary is None else [vocabulary]
        super().__init__(
            nn.Sequential(
                *(ResBlock(width, bias) for _ in range(blocks)),
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


def read(source: str, target: Target) -> MedusaHeads:
    """Load the heads of a folder or hub id for a target.

    Raises:
        ModelError: with one sentence, if files are missing, pickled, damaged, or made for another target, or hold
            something that is not computed here.
    """
    contents = files.read(source, "medusa")
    name, config = contents.name, contents.config
    contents.rename(lambda key: _PREFIX.sub("", key))
    if any(key.startswith("blocks.") for key in contents):
        _rename_vllm(contents)
        counted, deep = "num_heads", "num_hidden_layers"
    else:
        counted, deep = "medusa_num_heads", "medusa_num_layers"
    if counted not in config:
        raise ModelError(
            f"'{name}' holds no Medusa heads: its config.json has no '{counted}'. Choose another folder or hub id."
        )
    count = shapes.number(name, config, counted, most=MAX_MEDUSA_HEADS)
    if counted == "medusa_num_heads":
        # published files announce two and have five, all of which their code loads
        while count < MAX_MEDUSA_HEADS and f"{count}.0.linear.weight" in contents:
            count += 1
    blocks = shapes.number(name, config, deep, 1, most=MAX_MEDUSA_HEADS)
    shared = config.get(SHARED) is True or _shares_output(contents, target)
    bias = not _without_bias(contents)
    _check_width(name, config, target)
    for key in (*shapes.SIZES, *shapes.ROPE, *shapes.NO_EFFECT, "sliding_window", "layer_types"):
        config.get(key)  # the target's, in files saved beside it: these heads have no such layers
    wanted = expected(count, blocks, target.width, None if shared else target.vocabulary, bias)
    missing = next((key for key in wanted if key not in contents), None)
    if missing is not None:
        raise ModelError(
            f"'{name}' holds no complete Medusa heads: its config.json announces {count} with {blocks} residual "
            f"block{'s' if blocks > 1 else ''} each, but the weight '{contents.stored(missing)}' is missing. Fetch or "
            "export them again."
        )
    for key, wanted_shape in wanted.items():
        fitting(name, contents.stored(key), contents.shape(key), wanted_shape)
    ids = draft_vocabulary.read(name, contents, target.vocabulary) if shared else None
    size = None if shared else target.vocabulary
    heads = MedusaHeads(count, blocks, target.width, size, _accuracy(config, count), ids, bias)
    heads.load_state_dict({key: contents[key] for key in heads.state_dict()})
    contents.finish()
    return heads.requires_grad_(False).eval()


def _rename_vllm(contents: Contents) -> None:
    """Use the original names for vLLM's `blocks.{head}.layers.{block}` and `lm_heads.{head}`."""
    blocks = contents.config.get("num_hidden_layers", 1)

    def renamed(key: str) -> str:
        if block := re.fullmatch(r"blocks\.(\d+)\.layers\.(\d+)\.(weight|bias)", key):
            return f"{block[1]}.{block[2]}.linear.{block[3]}"
        last = re.fullmatch(r"lm_heads\.(\d+)\.weight", key)
        return f"{last[1]}.{blocks}.weight" if last else key

    contents.rename(renamed)


def _shares_output(contents: Contents, target: Target) -> bool:
    """Whether one output matrix serves all heads (vLLM's `original_lm_head`): it has to be a copy of the target's.

    Raises:
        ModelError: if it is another one.
    """
    if contents.config.get("original_lm_head") is not True:
        return False
    key = f"0.{contents.config.get('num_hidden_layers', 1)}.weight"
    key = "lm_head.weight" if "lm_head.weight" in contents else key
    if key not in contents or own_copy(contents, key, target.output):
        raise ModelError(
            f"'{contents.name}' has one output matrix for all its heads, '{contents.stored(key)}' ('original_lm_head' "
            "in its config.json), which is not the target's. Load the heads that were trained for this target."
        )
    return True


def _without_bias(contents: Contents) -> bool:
    """Whether the residual blocks have no bias, as vLLM's have unless 'medusa_fc_bias' says so."""
    stated = contents.config.get("medusa_fc_bias")
    return stated is False or (
        stated is None and "num_heads" in contents.config and "0.0.linear.bias" not in contents
    )


def _check_width(name: str, config: Mapping[str, Any], target: Target) -> None:
    """Refuse heads whose configuration names another target's sizes."""
    for key, size in (("hidden_size", target.width), ("truncated_vocab_size", target.vocabulary)):
        if config.get(key) not in (None, size):
            raise shapes.unsupported(name, key, config[key])


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
    files.write(folder, config, heads.state_dict(), FILE, dtype)


def expected(
    heads: int, blocks: int, width: int, vocabulary: int | None, bias: bool = True
) -> dict[str, tuple[int, ...]]:
    """The published names and shapes of all weights."""
    names: dict[str, tuple[int, ...]] = {}
    for head in range(heads):
        for block in range(blocks):
            names[f"{head}.{block}.linear.weight"] = (width, width)
            if bias:
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
