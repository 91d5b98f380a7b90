"""How well is held-out text predicted while a model learns? Loss per token, for each family."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from training.batches import pack


def heldout_rows(data: Path, length: int, per_source: int) -> dict[str, Tensor]:
    """Held-out rows by family: int64 [rows, length], at most `per_source` rows of each source."""
    manifest = json.loads((data / "manifest.json").read_text(encoding="utf-8"))
    rows: dict[str, list[np.ndarray]] = defaultdict(list)
    for source in manifest:
        ids = np.load(data / f"{source['name']}.heldout.npy")
        starts = np.load(data / f"{source['name']}.heldout.starts.npy")
        if len(ids):
            rows[source["family"]].append(pack(ids, starts, np.arange(len(starts) - 1), length)[:per_source])
    return {
        family: torch.from_numpy(np.concatenate(parts).astype(np.int64)) for family, parts in rows.items()
    }


@torch.no_grad()
def family_losses(
    logits_of: Callable[[Tensor], Tensor], rows: dict[str, Tensor], batch: int = 8
) -> dict[str, float]:
    """Mean loss per token (nats) by family; `logits_of` maps int64 [b, t] to logits [b, t, vocab]."""
    losses = {}
    for family, ids in rows.items():
        total = 0.0
        for part in torch.split(ids, batch):
            logits = logits_of(part[:, :-1]).float()
            total += F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), reduction="sum").item()
        losses[family] = total / ids[:, 1:].numel()
    return losses
