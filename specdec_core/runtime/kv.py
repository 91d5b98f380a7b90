"""KV cache: one preallocated block per layer, keeping the accepted path and dropping the rest without reallocating.

Rows [0, length) are the committed prefix. A pass writes its tokens after them; `keep` then gathers the rows of the
accepted path to the front and moves `length`. Everything after `length` is garbage to be overwritten, except the
first `waiting` rows while a partly read tree is continued.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import Cache
from transformers.cache_utils import CacheLayerMixin


@dataclass(slots=True)
class Block:
    """Rows of one attention layer, each (1, heads, capacity, head_dim) in the model's dtype; None until reserved."""

    keys: Tensor | None = None
    values: Tensor | None = None


class KVLayer(CacheLayerMixin):
    """One attention layer of a cache; two caches may share a block."""

    is_sliding = False

    def __init__(self, memory: KVMemory, block: Block | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # has no hints in transformers
        self.memory = memory
        self.block = block or Block()

    @property
    def block_keys(self) -> Tensor | None:
        """The reserved keys."""
        return self.block.keys

    @property
    def block_values(self) -> Tensor | None:
        """The reserved values."""
        return self.block.values

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Reserve the whole block once the model has shown its shapes."""
        batch, heads, _, width = key_states.shape
        capacity = self.memory.capacity
        # Zeros, because a pass over the whole block hides unwritten rows with a weight of 0, and 0 × NaN is NaN.
        self.block.keys = key_states.new_zeros(batch, heads, capacity, width)
        self.block.values = value_states.new_zeros(batch, heads, capacity, value_states.shape[-1])
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write the pass's rows after the prefix; views of both, (1, heads, length + n, head_dim)."""
        block = self.block
        if block.keys is None or block.values is None:
            self.lazy_initialization(key_states, value_states)
        assert block.keys is not None and block.values is not None
        start = self.memory.end
        end = start + key_states.shape[-2]
        keys, values = block.keys[:, :, :end], block.values[:, :, :end]
        keys[:, :, start:] = key_states
        values[:, :, start:] = value_states
        return keys, values

    def get_seq_length(self) -> int:
        """Rows before those of the pass."""
        return self.memory.end

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Length and offset of the keys that a mask must cover."""
        return self.memory.end + query_length, 0

    def get_max_length(self) -> int:
        """How many rows fit."""
        return self.memory.capacity


class KVMemory(Cache):
    """The cache of one sequence on one model, passed to the model's forward as `past_key_values`.

    Args:
        layers: number of attention layers.
        capacity: rows reserved per layer; writing beyond it raises (the decoder plans to avoid this).
    """

    def __init__(self, layers: int, capacity: int) -> None:
        self.capacity = capacity
        self.length = 0
        self.waiting = 0
        super().__init__(layers=[KVLayer(self) for _ in range(layers)])

    @property
    def end(self) -> int:
        """Where the next pass writes."""
        return self.length + self.waiting

    def first(self, layers: int) -> KVMemory:
        """A cache with a separate length over the same rows of the first `layers` layers.

        What it writes after this cache's length is garbage to this one.
        """
        shared = KVMemory(0, self.capacity)
        for layer in self.layers[:layers]:
            assert isinstance(layer, KVLayer)
            shared.layers.append(KVLayer(shared, layer.block))
        shared.length = self.length
        return shared

    def extend(self, rows: int) -> None:
        """Count the first `rows` rows of the last pass as committed; they are already in place."""
        self._check(self.length + rows)
        self.length += rows

    def rewind(self, length: int) -> None:
        """Drop everything after the first `length` rows."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot rewind a cache of {self.length} rows to {length}")
        self.length = length

    def keep(self, rows: Sequence[int]) -> None:
        """Keep these rows of the last pass (ascending, 0 = its first token), gathered after the prefix."""
        self._check(self.length + len(rows))
        if list(rows) != list(range(len(rows))):  # a chain's accepted rows are already in place
            for layer in self.layers:
                assert isinstance(layer, KVLayer) and layer.block_keys is not None
                index = torch.as_tensor(rows, device=layer.block_keys.device) + self.length
                for block in (layer.block_keys, layer.block_values):
                    assert block is not None
                    block[:, :, self.length : self.length + len(rows)] = block.index_select(2, index)
        self.length += len(rows)

    def _check(self, length: int) -> None:
        if length > self.capacity:
            raise ValueError(f"the cache holds {self.capacity} rows, {length} are needed")
