"""Which rows does step N train on? Packs documents into rows and draws batches in the proportions of the mix.

Everything follows from (seed, counters): a resumed run draws exactly the rows an uninterrupted run would have.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor


def pack(ids: np.ndarray, starts: np.ndarray, order: np.ndarray, length: int) -> np.ndarray:
    """Pack documents into rows of `length` tokens: uint16 [rows, length].

    A document that no longer fits fills the rest of its row and then starts again in the next row, so that
    every document of at most `length` tokens is seen whole once; longer ones span several rows.
    """
    rows: list[np.ndarray] = []
    parts: list[np.ndarray] = []
    free = length
    for index in order:
        document = ids[starts[index] : starts[index + 1]]
        while len(document):
            piece = document[:free]
            parts.append(piece)
            free -= len(piece)
            whole = len(piece) == len(document)
            if free == 0:
                rows.append(np.concatenate(parts))
                parts, free = [], length
                if not whole and len(document) <= length:
                    continue  # start this document again, from its beginning
            document = document[len(piece) :]
    if not rows and parts:  # a source smaller than one row: repeat it
        joined = np.concatenate(parts)
        rows.append(np.resize(joined, length))
    return np.stack(rows).astype(np.uint16)


class SourceRows:
    """Rows of one source, repacked in another order each epoch."""

    def __init__(self, folder: Path, name: str, index: int, length: int, seed: int) -> None:
        self.ids = np.load(folder / f"{name}.train.npy", mmap_mode="r")
        self.starts = np.load(folder / f"{name}.train.starts.npy")
        self.index, self.length, self.seed = index, length, seed
        self.epoch, self.row = -1, 0
        self.rows = np.empty((0, length), dtype=np.uint16)
        self.seek(0, 0)

    def seek(self, epoch: int, row: int) -> None:
        """Continue from `row` of `epoch`."""
        if epoch != self.epoch:
            rng = np.random.default_rng([self.seed, self.index, epoch])
            packed = pack(
                np.asarray(self.ids), self.starts, rng.permutation(len(self.starts) - 1), self.length
            )
            self.rows = packed[rng.permutation(len(packed))]
        self.epoch, self.row = epoch, row

    def next(self) -> np.ndarray:
        """The next row, uint16 [length]."""
        if self.row >= len(self.rows):
            self.seek(self.epoch + 1, 0)
        self.row += 1
        out: np.ndarray = self.rows[self.row - 1]
        return out


class Batches:
    """Endless training batches from the folder written by `prepare`."""

    def __init__(
        self,
        folder: Path,
        context: int,
        batch: int,
        seed: int,
        weights_by_name: dict[str, float] | None = None,
    ) -> None:
        """Weights come from the manifest; `weights_by_name` replaces those of the sources it names."""
        manifest = folder / "manifest.json"
        if not manifest.is_file():
            raise ValueError(f"No prepared data in {folder}: run the `prepare` stage first.")
        listed = json.loads(manifest.read_text(encoding="utf-8"))
        used = [row for row in listed if row["weight"] > 0 and row["train_tokens"] > 0]
        replaced = weights_by_name or {}
        weights = np.array([replaced.get(row["name"], row["weight"]) for row in used], dtype=np.float64)
        self.weights = weights / weights.sum()
        self.sources = [
            SourceRows(folder, row["name"], index, context + 1, seed) for index, row in enumerate(used)
        ]
        self.families = [row["family"] for row in used]
        self.batch, self.seed, self.step = batch, seed, 0
        self.drawn: list[str] = []  # the families of the rows of the last batch

    def next(self) -> Tensor:
        """The next batch: int64 [batch, context + 1]."""
        rng = np.random.default_rng([self.seed, 7919, self.step])
        # One draw per row at evenly spaced quantiles: each batch holds the mix as closely as it can.
        quantiles = (np.arange(self.batch) + rng.random()) / self.batch
        picks = np.searchsorted(np.cumsum(self.weights), quantiles).clip(0, len(self.sources) - 1)
        rows = np.stack([self.sources[pick].next() for pick in picks])
        self.drawn = [self.families[pick] for pick in picks]
        self.step += 1
        return torch.from_numpy(rows.astype(np.int64))

    def state(self) -> dict[str, Any]:
        """Counters to store in a checkpoint."""
        return {"step": self.step, "sources": [[source.epoch, source.row] for source in self.sources]}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from stored counters; a clear error where they belong to other data."""
        if len(state["sources"]) != len(self.sources):
            raise ValueError(
                "The checkpoint was made with other sources than the prepared data: start a new run."
            )
        self.step = int(state["step"])
        for source, (epoch, row) in zip(self.sources, state["sources"], strict=True):
            source.seek(int(epoch), int(row))
