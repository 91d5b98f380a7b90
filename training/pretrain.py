"""How is a model trained on text? Next-token cross-entropy, bfloat16 where the device is fast at it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from training.checkpoints import load_weights
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


UNREPEAT = 3.0  # divides the odds of a repeat by four
EXIT_WEIGHT = 0.3  # of the early exits' mean loss beside the last layer's


def repeats(ids: Tensor) -> Tensor:
    """Tokens that would repeat the text: for each place the token after the latest earlier pair of the same two tokens.

    ids: int64 [batch, time]; returns int64 [batch, time], −1 where the pair at t − 1, t is new.
    """
    pairs = ids[:, :-1] * (1 << 20) + ids[:, 1:]  # pair t is at t, t + 1
    places = torch.arange(pairs.shape[1], device=ids.device)
    same = (pairs[:, :, None] == pairs[:, None, :]) & (places[None, :] < places[:, None])
    latest = torch.where(same, places, -1).amax(-1)
    after = ids.gather(1, (latest + 2).clamp(max=ids.shape[1] - 1))
    return F.pad(torch.where(latest >= 0, after, -1), (1, 0), value=-1)


def repeat_penalty(logits: Tensor, ids: Tensor, rows: Tensor) -> Tensor:
    """Unlikelihood (Welleck et al. 2020) of repeating a pair's continuation where the text continues differently.

    Small models fall into loops at temperature 0 wherever a repeat is the most likely token without being likely.
    logits: float32 [batch, time, vocab]; ids: int64 [batch, time + 1]; rows: 1.0 for the rows that count, [batch].
    Returns the mean over those rows' tokens of −log(1 − p(repeat)).
    """
    again = repeats(ids[:, :-1])
    wrong = (again >= 0) & (again != ids[:, 1:])
    likely = torch.softmax(logits, -1).gather(2, again.clamp(min=0)[:, :, None])[:, :, 0]
    costs = -torch.log1p(-likely.clamp(max=0.999)) * wrong * rows[:, None]
    return costs.sum() / ids[:, 1:].numel()


def next_token_loss(
    model: SmallLlama, device: str, bfloat16: bool = True, exits: tuple[int, ...] = ()
) -> Callable[..., Tensor]:
    """Loss function: int64 ids [batch, time + 1] to the mean cross-entropy in nats per token.

    With a second argument, 1.0 for some rows [batch], those are trained against repeating themselves as well.

    With `exits` the same loss after those layers is added with a small weight (LayerSkip, Elhoushi et al. 2024), so
    that the first layers alone can draft. The exits split the positions among them (`SmallLlama.features`).
    """

    def loss(ids: Tensor, rows: Tensor | None = None) -> Tensor:
        with torch.autocast(device, torch.bfloat16, enabled=bfloat16):
            heads = model.exits(ids[:, :-1], exits)
        wanted = ids[:, 1:]
        whole = F.cross_entropy(heads[0].float().flatten(0, 1), wanted.flatten())
        for place, logits in enumerate(heads[1:]):
            part = wanted[:, place :: len(exits)].flatten()
            whole = whole + EXIT_WEIGHT / len(exits) * F.cross_entropy(logits.float().flatten(0, 1), part)
        if rows is not None:
            whole = whole + UNREPEAT * repeat_penalty(heads[0].float(), ids, rows)
        return whole

    return loss


def pretrain(
    run: Path,
    shape: Shape,
    data: Path,
    plan: Plan,
    device: str = "cpu",
    compiled: bool = False,
    bfloat16: bool = True,
    exits: tuple[int, ...] = (),
    start: Path | None = None,
    dropout: float = 0.0,
) -> dict[str, Any]:
    """Train a model of `shape`, fresh or from the weights of the checkpoint `start`, or continue the run.

    Returns the final counters.
    """
    model = SmallLlama(shape, seed=plan.seed, dropout=dropout).to(device)
    objective = next_token_loss(model, device, bfloat16, exits)
    return train(
        run,
        model,
        torch.compile(objective) if compiled else objective,
        data,
        plan,
        start_weights=load_weights(start) if start is not None else None,
        device=device,
    )
