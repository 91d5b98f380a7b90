"""How are multi-token-prediction modules trained? Each on the states of the one before it (DeepSeek-V3, 2024).

Module k at place t has read the tokens up to t + k and guesses token t + k + 1. Its loss is the cross-entropy between
its distribution and the target's there. The target is frozen: DeepSeek trains the modules together with it, on much
more text than here, where the target's states guide at first (`started.guided`).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from specdec_core.models.heads import MtpModules, mtp
from specdec_measure.optimisation import is_matrix
from training.heads.frozen import Frozen
from training.heads.medusa_eagle import RANKS, Objective, Pair, layer_shape, made_by, same_run
from training.heads.started import fitted, guided, last_input, last_layer, same_weights
from training.loop import Plan, Source, steps
from training.results.card import table

DECAY = 0.8  # a later module counts less: its guess is used only where the earlier ones were right


def new_modules(target: Frozen, count: int, rows: Tensor, seed: int) -> MtpModules:
    """Fresh modules: the target's last layer and norm, on an estimate of that layer's input fitted on `rows`."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = MtpModules(layer_shape(target), count).to(target.model.device)
    last = last_layer(target)
    if last is None:
        return made

    first = modules_of(made)[0]

    def pairs(ids: Tensor) -> tuple[Tensor, Tensor]:
        wanted, states = last_input(target, ids)
        parts = (first.enorm(target.embedding(ids[:, 1:])), first.hnorm(states[:, :-1]))
        return torch.cat(parts, -1), wanted[:, 1:]

    matrix = fitted(rows, pairs)  # the same for all: each starts where the one before it leaves off
    norm = target.model.model.norm
    for number, module in enumerate(modules_of(made)):
        same_weights(module, last)
        same_weights(module.shared_head["norm"], norm)
        with torch.no_grad():
            module.eh_proj.weight.copy_(matrix)
            if number:  # reads states before the target's last norm, which the first one reads after it
                module.hnorm.weight.copy_(norm.weight / norm.weight.square().mean().sqrt())
    return made


def modules_of(made: MtpModules) -> list[mtp.MtpModule]:
    """The modules, in order."""
    return cast("list[mtp.MtpModule]", list(made.layers))


def pairs(modules: MtpModules, target: Frozen, ids: Tensor) -> list[tuple[Pair, Pair]]:
    """For each module its and the target's states (b, n, d) before the output matrix, and the logits (b, n, V) of both
    for the same token: ids int64 (b, t)."""
    true, logits = target.read(ids)
    states = true
    output, found = modules.output(target.output), []
    for step in range(modules.modules_chained):
        tokens = ids[:, 1 + step :]
        places = torch.arange(tokens.shape[1], device=ids.device).expand(len(ids), -1)
        states = modules(tokens, states[:, : tokens.shape[1]], places, None, target.embedding, None, step)
        normed = modules_of(modules)[step].shared_head["norm"](states)
        found.append(((normed, true[:, 1 + step :]), (output(normed), logits[:, 1 + step :])))
    return found


def loss(modules: MtpModules, target: Frozen) -> Objective:
    """Maps ids int64 (b, t + 1) to the modules' cross-entropies in nats per token and their states' distances from the
    target's (smooth L1), float32 (2 · modules,)."""

    def losses(ids: Tensor) -> Tensor:
        with target.autocast():
            found = pairs(modules, target, ids[:, :-1])
        tokens = [
            F.cross_entropy(guess.float().flatten(0, 1), said.float().softmax(-1).flatten(0, 1))
            for _, (guess, said) in found
        ]
        return torch.stack(tokens + [F.smooth_l1_loss(state.float(), at.float()) for (state, at), _ in found])

    return losses


@torch.no_grad()
def accuracy(modules: MtpModules, target: Frozen, rows: Tensor, batch: int = 4) -> list[list[float]]:
    """For each module the share of places where its guess of each rank is the target's most likely token."""
    hits: dict[int, Tensor] = {}
    places: Counter[int] = Counter()
    for ids in torch.split(rows.to(target.device), batch):
        with target.autocast():
            found = pairs(modules, target, ids)
        for step, (_, (guess, said)) in enumerate(found):
            right = guess.topk(min(RANKS, guess.shape[-1]), -1).indices == said.argmax(-1, keepdim=True)
            hits[step] = hits.get(step, torch.zeros(())) + right.flatten(0, 1).sum(0).cpu()
            places[step] += right[..., 0].numel()
    return [[round(share, 4) for share in (hits[step] / places[step]).tolist()] for step in hits]


def train(
    run: Path, modules: MtpModules, target: Frozen, batches: Source, heldout: Tensor, plan: Plan
) -> dict[str, Any]:
    """Train modules, or resume the run; they then hold their measured accuracy. Returns the counters."""
    count = modules.modules_chained
    facts: dict[str, Any] = {"kind": "mtp", "target": target.name, "modules": count}
    same_run(run, facts)
    state = steps(
        run, modules, loss(modules, target), batches,
        lambda: {"accuracy": accuracy(modules, target, heldout)},
        plan, facts, None, guided(DECAY ** torch.arange(count, device=target.device)), is_matrix, target.device,
    )  # fmt: skip
    state["shares"] = accuracy(modules, target, heldout)
    modules.accuracy = state["shares"][0]
    return state


def export(folder: Path, modules: MtpModules, target: Frozen, state: dict[str, Any]) -> None:
    """Write trained modules in their published layout, with what they were trained on."""
    kept = {key: state[key] for key in ("step", "tokens", "seconds", "modules")}
    layers = int(target.model.config.num_hidden_layers)
    mtp.write(folder, modules, target.name, layers, {"specdec_training": kept})
    rows = [[f"module {number}", *_shares(found)] for number, found in enumerate(state["shares"], start=1)]
    size = sum(weight.numel() for weight in modules.parameters())
    made = made_by("mtp", state)
    text = f"""# Multi-token-prediction modules for {target.name}

{modules.modules_chained} modules in a chain, {size:,} parameters, stored in 16 bits; embedding and output matrix
are the target's. They guess for `{target.name}` and are of no use to another model, or to the same one after further
training. {made}

How often the target itself would write the guessed token, on held-out text, each module after the true tokens:

{table(["", "first guess", "first five", f"first {RANKS}"], rows)}
"""
    (folder / "README.md").write_text(text, encoding="utf-8")


def _shares(found: list[float]) -> list[str]:
    return [f"{found[0]:.3f}", f"{sum(found[:5]):.3f}", f"{sum(found):.3f}"]
