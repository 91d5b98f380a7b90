"""How is a model trained on text? Next-token cross-entropy, bfloat16 where the device is quick at it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from training.loop import Plan, train
from training.model import SmallLlama
from training.shapes import Shape


def pick_device(wanted: str = "auto") -> str:
    """`cpu` or `cuda`; `auto` takes the GPU where torch sees one."""
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if wanted not in ("cpu", "cuda"):
        raise ValueError(f"Unknown device {wanted!r}: expected auto, cpu or cuda.")
    return wanted


def next_token_loss(model: SmallLlama, device: str, bfloat16: bool = True) -> Callable[[Tensor], Tensor]:
    """Loss function: int64 ids [batch, time + 1] to the mean cross-entropy in nats per token."""

    def loss(ids: Tensor) -> Tensor:
        with torch.autocast(device, torch.bfloat16, enabled=bfloat16):
            logits = model(ids[:, :-1])
        return F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten())

    return loss


def pretrain(
    run: Path,
    shape: Shape,
    data: Path,
    plan: Plan,
    device: str = "cpu",
    compiled: bool = False,
    bfloat16: bool = True,
) -> dict[str, Any]:
    """Train a fresh model of `shape` (or continue the run); returns the final counters."""
    model = SmallLlama(shape, seed=plan.seed).to(device)
    objective = next_token_loss(model, device, bfloat16)
    return train(run, model, torch.compile(objective) if compiled else objective, data, plan, device=device)
