"""What trained drafts and heads have in common: how weights are updated, how fast, and what is kept of a target.

Muon for the matrices, AdamW for the rest, one WSD schedule; of the target's probabilities the greatest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from specdec_core.runtime.cache_keyword import cached

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # coefficients of the quintic iteration (Jordan et al. 2024)
TOP_PROBABILITIES = 32  # of the target's, for each token it writes
BATCH_ROWS = 8  # of a step of a draft that learns on a CPU
WARMUP_STEPS, DECAY_SHARE = 10, 0.5  # of such a training: the rate rises, and falls to 0


@dataclass(frozen=True)
class Rates:
    """Peak learning rates (per step, dimensionless)."""

    matrices: float = 0.02
    others: float = 0.003


def is_matrix(name: str, weight: Tensor) -> bool:
    """Whether a weight is a hidden layer's matrix, which Muon takes; embeddings and vectors go to AdamW."""
    return weight.ndim == 2 and "embed" not in name


def orthogonal(update: Tensor, iterations: int = 5) -> Tensor:
    """About the nearest matrix whose singular values are equal (they end between 0.5 and 1.5): float (m, n), by
    Newton–Schulz iterations."""
    a, b, c = NEWTON_SCHULZ
    wide = update.T if update.shape[0] > update.shape[1] else update
    wide = wide / wide.norm().clamp(min=1e-7)
    for _ in range(iterations):
        gram = wide @ wide.T
        wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a)
    return wide.T if update.shape[0] > update.shape[1] else wide


class Muon(torch.optim.Optimizer):
    """Muon (Jordan et al. 2024) as `torch.optim.Muon` does it, in the weights' own dtype.

    torch's iterates in bfloat16: on a CPU without such arithmetic 30 times as slow, and more than half of a step.
    """

    def __init__(
        self, weights: Iterable[Tensor], lr: float, weight_decay: float = 0.05, momentum: float = 0.95
    ) -> None:
        super().__init__(weights, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # none of the losses is computed anew
        """One update of every matrix (m, n), with Nesterov's momentum, √(m / n) times as large where m > n."""
        for group in self.param_groups:
            rate, momentum = group["lr"], group["momentum"]
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                kept = self.state[weight].setdefault("momentum_buffer", torch.zeros_like(weight))
                kept.lerp_(weight.grad, 1 - momentum)
                update = orthogonal(weight.grad.lerp(kept, momentum))
                weight.mul_(1 - rate * group["weight_decay"])
                weight.add_(update, alpha=-rate * max(1.0, weight.shape[0] / weight.shape[1]) ** 0.5)


class Optimisers:
    """The two optimisers of a model, driven by one relative learning rate."""

    def __init__(
        self,
        model: nn.Module,
        rates: Rates,
        matrix: Callable[[str, Tensor], bool] = is_matrix,
        weight_decay: float = 0.05,  # of the matrices
    ) -> None:
        named = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
        matrices = [weight for name, weight in named if matrix(name, weight)]
        others = [weight for name, weight in named if not matrix(name, weight)]
        self.rates = rates
        muon: torch.optim.Optimizer | None = None
        if matrices:
            muon = Muon(matrices, lr=rates.matrices, weight_decay=weight_decay)
        adamw = torch.optim.AdamW(others, lr=rates.others, betas=(0.9, 0.95), weight_decay=0.0)
        self.named = {"muon": (muon, rates.matrices), "adamw": (adamw, rates.others)}

    def step(self, relative: float) -> None:
        """One update at `relative` times the peak rates (0 to 1), then clear the gradients."""
        for optimiser, peak in self.named.values():
            if optimiser is None:
                continue
            for group in optimiser.param_groups:
                group["lr"] = peak * relative
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)

    def state_dict(self) -> dict[str, Any]:
        """State of both, for `torch.save`."""
        return {name: optimiser.state_dict() for name, (optimiser, _) in self.named.items() if optimiser}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        for name, stored in state.items():
            optimiser = self.named[name][0]
            assert optimiser is not None
            optimiser.load_state_dict(stored)


def relative_rate(
    step: int, progress: float, warmup_steps: int = WARMUP_STEPS, decay_share: float = DECAY_SHARE
) -> float:
    """Warmup–stable–decay: linear up over `warmup_steps`, flat, linear to 0 over the last `decay_share`.

    `progress` is the spent share of the budget (0 to 1). With `decay_share` 0 the rate stays flat.
    """
    warm = min(1.0, (step + 1) / max(1, warmup_steps))
    if decay_share <= 0:
        return warm
    return warm * min(1.0, max(0.0, (1.0 - progress) / decay_share))


def next_tokens(
    target: PreTrainedModel, read: Tensor, cache: object, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    """What the target says after int64 (rows, new), which `cache` then has read as well.

    Returns:
        On the CPU: float32 (rows, TOP_PROBABILITIES), its greatest probabilities (all of a smaller vocabulary); int64
        of the same shape, whose they are; int64 (rows, 1), a token drawn at temperature 1.
    """
    logits = target(read.to(target.device), use_cache=True, **cached(target, cache)).logits[:, -1]
    p = logits.float().softmax(-1).cpu()
    top = p.topk(min(TOP_PROBABILITIES, p.shape[-1]))
    return top.values, top.indices, torch.multinomial(p, 1, generator=generator)
