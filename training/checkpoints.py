"""How is a run stored and continued? Atomic checkpoint folders with weights, optimiser state and counters."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from training.shapes import Shape


def save_checkpoint(
    run: Path, model: nn.Module, optimiser_state: dict[str, Any], state: dict[str, Any]
) -> Path:
    """Write `run/checkpoint-<step>` whole or not at all, then drop older ones; returns its path."""
    final = run / f"checkpoint-{state['step']:07d}"
    partial = run / f".{final.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    weights = {name: weight.detach().contiguous() for name, weight in model.state_dict().items()}
    save_file(weights, partial / "model.safetensors")
    torch.save(optimiser_state, partial / "optimisers.pt")
    (partial / "state.json").write_text(json.dumps(state) + "\n", encoding="utf-8")
    shutil.rmtree(final, ignore_errors=True)
    os.replace(partial, final)
    for old in sorted(run.glob("checkpoint-*"))[:-1]:
        shutil.rmtree(old)
    return final


def latest_checkpoint(run: Path) -> Path | None:
    """The newest checkpoint folder of a run, or None."""
    found = sorted(run.glob("checkpoint-*"))
    return found[-1] if found else None


def require_checkpoint(run: Path) -> Path:
    """The newest checkpoint folder; a clear error where there is none."""
    found = latest_checkpoint(run)
    if found is None:
        raise ValueError(f"No checkpoint in {run}: train this model first.")
    return found


def load_weights(checkpoint: Path) -> dict[str, Tensor]:
    """Float32 weights of a checkpoint by their transformers names (without the tied lm_head)."""
    return load_file(checkpoint / "model.safetensors")


def load_state(checkpoint: Path) -> dict[str, Any]:
    """Counters of a checkpoint: step, tokens, active seconds, data position, shape."""
    state: dict[str, Any] = json.loads((checkpoint / "state.json").read_text(encoding="utf-8"))
    return state


def counters(folder: Path) -> dict[str, Any]:
    """What heads in this folder say of their training; with the run before it, if there was one."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    found: dict[str, Any] = config.get("specdec_training", {})
    before = found.pop("earlier", {})
    return {key: found.get(key, 0) + before.get(key, 0) for key in ("step", "tokens", "seconds")}


def load_optimisers(checkpoint: Path) -> dict[str, Any]:
    """Optimiser state of a checkpoint, read as tensors and plain values only."""
    state: dict[str, Any] = torch.load(checkpoint / "optimisers.pt", weights_only=True)
    return state


def load_shape(checkpoint: Path) -> Shape:
    """Sizes of the stored model."""
    return Shape(**load_state(checkpoint)["shape"])
