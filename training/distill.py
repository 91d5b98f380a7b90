"""How does the draft learn to guess like the target? Full-distribution distillation at temperature 1.

The draft minimises KL(target || draft) at every position of the training mix: what speculative sampling
accepts is exactly the overlap of the two distributions, so their distance is the right thing to minimise.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from training.checkpoints import load_shape, load_weights
from training.loop import Plan, train
from training.model import SmallLlama


def load_model(checkpoint: Path, device: str = "cpu") -> SmallLlama:
    """The float32 model of a checkpoint."""
    model = SmallLlama(load_shape(checkpoint))
    model.load_state_dict(load_weights(checkpoint))
    return model.to(device)


def distillation_loss(
    draft: SmallLlama, target: SmallLlama, device: str, bfloat16: bool = True
) -> Callable[[Tensor], Tensor]:
    """Loss function: int64 ids [batch, time + 1] to the mean KL(target || draft) in nats per token."""

    def loss(ids: Tensor) -> Tensor:
        with torch.autocast(device, torch.bfloat16, enabled=bfloat16):
            with torch.no_grad():
                wanted = target(ids[:, :-1])
            guessed = draft(ids[:, :-1])
        wanted_log = F.log_softmax(wanted.float(), dim=-1)
        guessed_log = F.log_softmax(guessed.float(), dim=-1)
        return (wanted_log.exp() * (wanted_log - guessed_log)).sum(-1).mean()

    return loss


def distill(
    run: Path, draft: Path, target: Path, data: Path, plan: Plan, device: str = "cpu", compiled: bool = False
) -> dict[str, Any]:
    """Distil from checkpoint `target` into a run that starts at checkpoint `draft`; returns the counters."""
    student, teacher = load_model(draft, device), load_model(target, device)
    teacher.requires_grad_(False)
    objective = distillation_loss(student, teacher, device)
    if compiled:
        objective = torch.compile(objective)
    return train(run, student, objective, data, plan, start_weights=load_weights(draft), device=device)
