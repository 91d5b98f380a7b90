"""How well does each model predict held-out text, what does it write, and how often does a draft agree?"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from training.batches import pack
from training.data.mix import FAMILIES
from training.results.reading import agreement, continuation, load_prompts

CONTEXT = 1024
OPENING, QUOTED = 48, 64  # tokens of a held-out text given as prompt, and continued


def source_rows(data: Path, per_source: int = 8) -> dict[str, tuple[str, Tensor]]:
    """Held-out rows of each source with its family: int64 [rows, 1025], at most `per_source` rows."""
    rows = {}
    for source in json.loads((data / "manifest.json").read_text(encoding="utf-8")):
        ids = np.load(data / f"{source['name']}.heldout.npy")
        starts = np.load(data / f"{source['name']}.heldout.starts.npy")
        if len(ids):
            packed = pack(ids, starts, np.arange(len(starts) - 1), CONTEXT + 1)[:per_source]
            rows[source["name"]] = (source["family"], torch.from_numpy(packed.astype(np.int64)))
    return rows


def bytes_of_tokens(tokenizer: Any) -> Tensor:
    """Bytes of text per token id: int64 [vocab]; 0 for special tokens.

    In byte-level BPE every character of a token's name is one byte.
    """
    special = set(tokenizer.all_special_ids)
    names = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    return torch.tensor([0 if at in special else len(name) for at, name in enumerate(names)])


@torch.no_grad()
def source_losses(
    logits_of: Callable[[Tensor], Tensor],
    rows: dict[str, tuple[str, Tensor]],
    lengths: Tensor,
    batch: int = 4,
) -> dict[str, tuple[float, int, int]]:
    """For each source (nats, tokens, bytes) over its rows; `logits_of` maps ids [b, t] to logits [b, t, vocab]."""
    found = {}
    for name, (_, ids) in rows.items():
        total = 0.0
        for part in torch.split(ids, batch):
            logits = logits_of(part[:, :-1]).float()
            total += F.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), reduction="sum").item()
        found[name] = (total, ids[:, 1:].numel(), int(lengths[ids[:, 1:]].sum()))
    return found


def grouped(
    losses: dict[str, tuple[float, int, int]], families: dict[str, str]
) -> dict[str, dict[str, float]]:
    """Nats per token and bits per byte by source and, under its own name, by family."""
    sums: dict[str, list[float]] = {}
    for name, counted in losses.items():
        for key in (f"{families[name]}/{name}", families[name]):
            sums[key] = [a + b for a, b in zip(sums.get(key, [0.0, 0.0, 0.0]), counted, strict=True)]
    return {
        key: {"loss": nats / tokens, "bits_per_byte": nats / math.log(2) / size, "tokens": tokens}
        for key, (nats, tokens, size) in sums.items()
    }


def heldout(models: dict[str, Any], tokenizer: Any, data: Path, per_source: int = 8) -> dict[str, Any]:
    """Losses of every model on held-out text, by family and by source."""
    rows, lengths = source_rows(data, per_source), bytes_of_tokens(tokenizer)
    families = {name: family for name, (family, _) in rows.items()}
    found = {}
    for name, model in models.items():

        def logits_of(ids: Tensor, model: Any = model) -> Tensor:
            logits: Tensor = model(ids).logits
            return logits

        found[name] = grouped(source_losses(logits_of, rows, lengths), families)
    return found


def agreements(
    models: dict[str, Any], tokenizer: Any, prompts: Path
) -> dict[str, dict[str, tuple[float, float]]]:
    """For each family and draft (share of equal first choices, overlap at temperature 1) on the target's own text."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    drafts = {name: model for name, model in models.items() if name != "target"}
    for family, content in load_prompts(prompts).items():
        pairs: dict[str, list[tuple[float, float, int]]] = {name: [] for name in drafts}
        for prompt in content["prompt"]:
            ids = tokenizer(prompt["text"], return_tensors="pt")["input_ids"][0]
            written = continuation(models["target"], tokenizer, prompt["text"])
            for name, draft in drafts.items():
                pairs[name].append((*agreement(models["target"], draft, ids, written), len(written)))
        found[family] = {}
        for name, rows in pairs.items():
            counted = sum(row[2] for row in rows)
            same, overlap = (sum(row[place] * row[2] for row in rows) / counted for place in (0, 1))
            found[family][name] = (same, overlap)
    return found


def continuations(
    target: Any, tokenizer: Any, data: Path, count: int, seed: int = 0
) -> dict[str, list[tuple[str, str]]]:
    """(opening, the target's continuation at temperature 0) of `count` held-out texts per family, drawn by the seed."""
    manifest = json.loads((data / "manifest.json").read_text(encoding="utf-8"))
    found = {}
    for family in FAMILIES:
        openings = []
        for source in manifest:
            if source["family"] == family:
                ids = np.load(data / f"{source['name']}.heldout.npy")
                starts = np.load(data / f"{source['name']}.heldout.starts.npy")
                openings += [ids[a : a + OPENING] for a, b in pairwise(starts) if b - a > 2 * OPENING]
        texts = [
            tokenizer.decode(part.tolist())
            for part in Random(seed).sample(openings, min(count, len(openings)))
        ]
        found[family] = [
            (text, tokenizer.decode(continuation(target, tokenizer, text, QUOTED), skip_special_tokens=True))
            for text in texts
        ]
    return found
