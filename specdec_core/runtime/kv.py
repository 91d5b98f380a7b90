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
class KVBlock:
    """Rows of one attention layer, each (1, heads, capacity, head_dim) in the model's dtype; None until reserved."""

    keys: Tensor | None = None
    values: Tensor | None = None


class KVStore:
    """The blocks of all layers, one tensor where all have one shape, so that one operation moves rows of all.

    Attributes:
        whole: (layers, 2, heads, capacity, head_dim), keys and values; None until a layer has shown its shapes, or
            where keys and values have different ones.
        blocks: each layer's, views of `whole` except in layers of another shape.
        odd: numbers of the layers that have a block of their own.
    """

    def __init__(self, layers: int, capacity: int) -> None:
        self.capacity = capacity
        self.blocks = [KVBlock() for _ in range(layers)]
        self.whole: Tensor | None = None
        self.odd: set[int] = set()

    def reserve(self, like: Tensor, heads: int, width: int) -> Tensor:
        """Reserve all layers for keys and values of `heads` heads of `width`, in the dtype and on the device of
        `like`."""
        # Zeros, because a pass over the whole block hides unwritten rows with a weight of 0, and 0 × NaN is NaN.
        self.whole = like.new_zeros(len(self.blocks), 2, heads, self.capacity, width)
        for block, pair in zip(self.blocks, self.whole, strict=True):
            if block.keys is None:
                block.keys, block.values = pair[:1], pair[1:]
        return self.whole

    def reserve_layer(self, layer: int, keys: Tensor, values: Tensor) -> None:
        """Make room for rows of these shapes, (1, heads, n, head_dim), in one layer, and the first time in all."""
        (_, heads, _, width), block = keys.shape, self.blocks[layer]
        if block.keys is None and keys.shape == values.shape:
            self.reserve(keys, heads, width)
        if block.keys is None or block.keys.shape[1::2] != keys.shape[1::2]:
            block.keys = keys.new_zeros(1, heads, self.capacity, width)
            block.values = values.new_zeros(1, values.shape[1], self.capacity, values.shape[-1])
            self.odd.add(layer)


class KVLayer(CacheLayerMixin):
    """One attention layer of a cache; two caches may share a block."""

    is_sliding = False

    def __init__(self, memory: KVMemory, number: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # has no hints in transformers
        self.memory, self.number = memory, number
        self.block = memory.store.blocks[number]

    @property
    def block_keys(self) -> Tensor | None:
        """The reserved keys."""
        return self.block.keys

    @property
    def block_values(self) -> Tensor | None:
        """The reserved values."""
        return self.block.values

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Reserve the block once the model has shown its shapes."""
        self.memory.store.reserve_layer(self.number, key_states, value_states)
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write the pass's rows after the prefix; views of both, (1, heads, length + n, head_dim)."""
        block = self.block
        if not self.is_initialized:
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
    """The cache of one sequence on one model, passed to the model's forward; see `passing`.

    Args:
        layers: number of attention layers.
        capacity: rows reserved per layer; writing beyond it raises (the decoder plans to avoid this).
    """

    layer_kind = KVLayer

    def __init__(self, layers: int, capacity: int, store: KVStore | None = None) -> None:
        self.capacity = capacity
        self.length = 0
        self.waiting = 0
        self.store = KVStore(layers, capacity) if store is None else store
        super().__init__(layers=[self.layer_kind(self, number) for number in range(layers)])

    @property
    def end(self) -> int:
        """Where the next pass writes."""
        return self.length + self.waiting

    def first(self, layers: int) -> KVMemory:
        """A cache with a separate length over the same rows of the first `layers` layers.

        What it writes after this cache's length is garbage to this one.
        """
        shared = KVMemory(layers, self.capacity, self.store)
        shared.length = self.length
        return shared

    def reserved(self, like: Tensor, heads: int, width: int) -> Tensor:
        """The rows of all layers, (layers, 2, heads, capacity, head_dim), for a model whose shapes are known."""
        whole = self.store.whole
        return (self.store.reserve(like, heads, width) if whole is None else whole)[: len(self.layers)]

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
            for block in self._moved():
                index = torch.as_tensor(rows, device=block.device) + self.length
                block[..., self.length : self.length + len(rows), :] = block.index_select(-2, index)
        self.length += len(rows)

    def _moved(self) -> list[Tensor]:
        """Tensors (…, capacity, head_dim) that together hold the rows of all layers."""
        store, count = self.store, len(self.layers)
        moved = [] if store.whole is None else [store.whole[:count]]
        for number in store.odd:
            block = store.blocks[number]
            assert block.keys is not None and block.values is not None
            moved += [block.keys, block.values] if number < count else []
        return moved

    def _check(self, length: int) -> None:
        if length > self.capacity:
            raise ValueError(f"the cache holds {self.capacity} rows, {length} are needed")
