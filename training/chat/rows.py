"""How do a target's own answers become training rows? Conversations with the target's states, batched by length.

Reads what `waves.py` wrote. A row is a conversation with the common prefix of the chat template before it; rows of a
batch are of similar length and padded at the end, where a causal mask hides the padding anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

HELD_OUT_EVERY = 40  # one in this many conversations is held out
BUCKET = 16  # batches that are sorted by length together
END_WEIGHT = 10_000  # an end-of-turn token is in the vocabulary whatever the counts say


@dataclass(frozen=True)
class Rows:
    """Some conversations, padded to the longest.

    Attributes:
        tokens: int64 (b, t); padding is 0.
        states: float32 (b, t, d): what the target's output matrix read at each token.
        judged: bool (b, t): where the state decides a token of the answer.
    """

    tokens: Tensor
    states: Tensor
    judged: Tensor


class Answers:
    """The conversations of a folder, in a seeded order, reshuffled each epoch; they stay in the CPU's memory.

    Attributes:
        device: where batches go.

    Args:
        folder: what `waves.write` filled.
        prefix: tokens before each conversation, and their states (n, d).
        batch: conversations per step.
        seed: of the order.
        parts: read only this many parts; a resumed run uses those it began with.

    Raises:
        ValueError: if the folder holds no complete part.
    """

    def __init__(
        self,
        folder: Path,
        prefix: tuple[Sequence[int], Tensor],
        batch: int,
        seed: int,
        parts: int | None = None,
    ) -> None:
        files = [
            path for path in sorted(folder.glob("part-*.safetensors")) if path.with_suffix(".json").is_file()
        ]
        files = files[:parts]
        if not files:
            raise ValueError(f"No answers in {folder}: run `python -m training chat waves` first.")
        self.parts, self.batch, self.seed, self.step = len(files), batch, seed, 0
        loaded = [load_file(path) for path in files]
        self.tokens = torch.cat([part["tokens"] for part in loaded]).long()
        self.states = torch.cat([part["states"] for part in loaded])
        self.lengths = torch.cat([part["lengths"] for part in loaded]).long()
        self.prompts = torch.cat([part["prompts"] for part in loaded]).long()
        self.kinds = torch.cat([part["kinds"] for part in loaded]).long()
        self.ways = torch.cat([part["ways"] for part in loaded]).long()
        self.starts = self.lengths.cumsum(0) - self.lengths
        self.prefix = torch.tensor(list(prefix[0])), prefix[1].half()
        self.device = "cpu"
        every = torch.arange(len(self.lengths))
        self.heldout = every[every % HELD_OUT_EVERY == HELD_OUT_EVERY - 1]
        self.training = every[every % HELD_OUT_EVERY != HELD_OUT_EVERY - 1].numpy()

    def next(self) -> Tensor:
        """The numbers of the next batch's conversations, int64 (b,)."""
        self.step += 1
        return self.training_batch(self.step - 1)

    def training_batch(self, step: int) -> Tensor:
        """The numbers of that step's conversations, int64 (b,)."""
        each = len(self.training) // self.batch
        epoch, place = divmod(step, each)
        chance = np.random.default_rng([self.seed, epoch])
        order = chance.permutation(self.training)[: each * self.batch]
        lengths = self.lengths.numpy()
        for start in range(0, len(order), self.batch * BUCKET):
            bucket = order[start : start + self.batch * BUCKET]
            order[start : start + len(bucket)] = bucket[np.argsort(lengths[bucket], kind="stable")]
        batches = order.reshape(each, self.batch)
        return torch.from_numpy(batches[chance.permutation(each)[place]].copy())

    def state(self) -> dict[str, Any]:
        """Counters to store in a checkpoint."""
        return {"step": self.step, "parts": self.parts}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from stored counters, with as many parts or more; a clear error where some are missing."""
        if int(state.get("parts", 0)) > self.parts:
            raise ValueError(
                f"The run was begun on {state.get('parts')} parts of answers and only {self.parts} are there: "
                "choose another --name."
            )
        self.step = int(state["step"])

    def size(self, numbers: Tensor) -> int:
        """Tokens of these conversations."""
        return int(self.lengths[numbers].sum())

    def fetch(self, numbers: Tensor) -> Rows:
        """The conversations of these numbers, int64 (b,), on `device`."""
        before, known = self.prefix
        head, lengths = len(before), self.lengths[numbers]
        inside = torch.arange(int(lengths.max()))
        there = inside < lengths[:, None]
        taken = (self.starts[numbers, None] + inside)[there]
        shape = (len(numbers), head + len(inside))
        tokens, states = (
            torch.zeros(shape, dtype=torch.int64),
            self.states.new_zeros((*shape, self.states.shape[1])),
        )
        judged = torch.zeros(shape, dtype=torch.bool)
        tokens[:, :head], states[:, :head] = before, known
        tokens[:, head:][there] = self.tokens[taken]
        states[:, head:][there] = self.states[taken]
        judged[:, head:] = there & (inside >= self.prompts[numbers, None] - 1)
        return Rows(tokens.to(self.device), states.to(self.device).float(), judged.to(self.device))

    def vocabulary(self, size: int, ends: Sequence[int]) -> Tensor:
        """The `size` tokens that the answers use most, int64 ascending; padded with the lowest ids."""
        chosen = torch.zeros(len(self.lengths), dtype=torch.bool)
        chosen[torch.from_numpy(self.training)] = True
        places = torch.arange(len(self.tokens)) - self.starts.repeat_interleave(self.lengths)
        answered = places >= self.prompts.repeat_interleave(self.lengths)
        counts = torch.bincount(
            self.tokens[answered & chosen.repeat_interleave(self.lengths)], minlength=2 * size
        )
        counts[list(ends)] += END_WEIGHT
        ranked = counts.argsort(descending=True, stable=True).tolist()
        return torch.tensor(sorted(ranked[:size]))
