"""Narrow passes as CUDA graphs: starting the thousand kernels of a pass one by one takes longer than running them on a
few tokens, and a graph starts them all at once.

A graph repeats the same kernels on the same addresses with the same shapes. So a pass has one of a few widths, its
last rows padded; its inputs are in fixed buffers; the KV blocks have all their rows from the
start; and where a pass writes is itself a tensor, so that no position is baked in. Attention then always covers the
whole block, behind a mask that hides what does not count. The cost grows with the rows reserved instead of the
tokens written, and is small as long as the reserved keys and values are small compared to the weights. A short text
in a block of many thousand rows is faster without (`graphs=False`).

Prompts, and trees wider than the widest graph, are read as in `CausalReader`, in the same blocks.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from specdec_core.tree import TokenTree

from .cache_keyword import cached
from .kv import KVLayer, KVMemory
from .reader import CausalReader

if TYPE_CHECKING:
    from transformers import PreTrainedModel

WIDTHS = (1, 2, 4, 8, 16, 32, 65)  # tokens per pass; the last a tree of 64 nodes with its root
ROWS = 512  # KV rows are reserved in multiples of this, so the next lane can often reuse captured graphs
COLUMNS = 128  # positions of a tree, those read before included, that a graph can show
IDLE = 3  # how many unused sets of blocks and graphs are kept per model

_capturing = threading.Lock()


class StaticLayer(KVLayer):
    """A layer that, in a pass of fixed shape, writes at rows given by a tensor and returns its whole block."""

    memory: StaticMemory

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """As `KVLayer.update`, or all rows, (1, heads, capacity, head_dim), while `memory.rows` says where to write."""
        rows = self.memory.rows
        if rows is None:
            return super().update(key_states, value_states, *args, **kwargs)
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.block_keys is not None and self.block_values is not None
        self.block_keys.index_copy_(2, rows, key_states)
        self.block_values.index_copy_(2, rows, value_states)
        return self.block_keys, self.block_values


class StaticMemory(KVMemory):
    """KV cache whose last row receives the padding's writes.

    Attributes:
        rows: int64 (n,), where the pass in progress writes; None for passes of any shape, after the prefix.
    """

    layer_kind = StaticLayer

    def __init__(self, layers: int, capacity: int) -> None:
        super().__init__(layers, capacity)
        self.rows: Tensor | None = None


class FixedPass:
    """The static inputs and outputs of a pass over `width` tokens: logits, states and perhaps its graph.

    The inputs are views of one buffer, so that they reach the device in one copy; the attention mask, which is as wide
    as the block, is made from them there (`unpack`), as part of the graph.

    Attributes:
        ids, positions: int64 (1, width).
        rows: int64 (width,), where keys and values are written.
        mask: additive (1, 1, width, rows of the block).
    """

    def __init__(self, model: PreTrainedModel, width: int, rows: int) -> None:
        device, dtype = model.device, model.dtype
        self.width, self.waste = width, rows - 1
        self.blocked = torch.finfo(dtype).min
        self.inputs = torch.zeros(8 * (1 + 3 * width) + width * COLUMNS, dtype=torch.uint8, device=device)
        self.length, ids, positions, self.rows, self.visible = self._views(self.inputs)
        self.ids, self.positions = ids.unsqueeze(0), positions.unsqueeze(0)
        self.mask = torch.empty((1, 1, width, rows), dtype=dtype, device=device)
        self.places, self.columns = (torch.arange(size, device=device) for size in (rows, COLUMNS))
        self.graph: torch.cuda.CUDAGraph | None = None
        self.logits, self.states = Tensor(), Tensor()
        self.fill([], [], torch.empty(0, 0), 0, 0)

    def _views(self, buffer: Tensor) -> tuple[Tensor, ...]:
        """Parts of a buffer: rows kept before the pass (1,), ids, positions and rows (width,), int64; and the tree's
        visibility, bool (width, COLUMNS)."""
        at = 8 * (1 + 3 * self.width)
        numbers = buffer[:at].view(torch.int64).split((1, self.width, self.width, self.width))
        return (*numbers, buffer[at:].view(torch.bool).view(self.width, COLUMNS))

    def fill(
        self, ids: Sequence[int] | Tensor, depths: Sequence[int], visible: Tensor, length: int, known: int
    ) -> None:
        """Take the inputs of a pass over n ≤ width tokens of a tree after `length` rows; no device sync.

        Padding is token 0 at position 0, sees nothing beyond the rows kept and the tree's root, and writes to the last
        row.

        Args:
            ids: n of them; a tensor on the device is copied there.
            depths: of these tokens below the root.
            visible: bool (n, m), which of the tree's first m positions each may attend to.
            known: positions of the tree before these, read by the passes just before.
        """
        count = len(depths)
        host = torch.zeros(len(self.inputs), dtype=torch.uint8, pin_memory=self.inputs.is_cuda)
        kept, own, positions, rows, seen = self._views(host)
        kept[0] = length
        rows[:count] = torch.arange(length + known, length + known + count)
        rows[count:] = self.waste
        positions[:count] = torch.tensor(depths, dtype=torch.int64) + length
        seen[:count, : visible.shape[1]] = visible
        seen[count:, 0] = True
        if not isinstance(ids, Tensor):
            own[:count] = torch.tensor(ids, dtype=torch.int64)
        self.inputs.copy_(host, non_blocking=True)  # PyTorch keeps pinned memory until it has been read
        if isinstance(ids, Tensor):
            self.ids[0, :count] = ids

    def unpack(self) -> None:
        """Make the mask: the rows kept, and of the tree what is visible."""
        mask = self.mask[0, 0]
        mask.copy_(self.places >= self.length).mul_(self.blocked)
        hidden = self.visible.logical_not().to(mask.dtype).mul_(self.blocked)
        # columns beyond the tree are hidden, so that it does not matter that some fall on the same row
        mask.index_copy_(1, (self.length + self.columns).clamp(max=self.waste), hidden)


class StaticSet:
    """KV blocks with the passes captured over them; serves one lane at a time.

    Args:
        model: a causal LM in eval mode.
        rows: KV rows to reserve; the last one is for padding.
        capture: whether passes become CUDA graphs; if not, the same passes run kernel by kernel, on any device.
    """

    def __init__(self, model: PreTrainedModel, rows: int, capture: bool) -> None:
        self.model, self.rows, self.capture = model, rows, capture
        self.memory = StaticMemory(int(model.config.num_hidden_layers), rows)
        self.passes: dict[int, FixedPass] = {}
        self._pool: Any = None  # intermediate memory is shared by the graphs of a set: no two run at once

    @torch.inference_mode()
    def prepare(self, widest: int) -> None:
        """Capture all passes needed for up to `widest` tokens."""
        for width in WIDTHS:
            if widest > 0:
                self.fixed(width)
            if width >= widest:
                break

    def fixed(self, width: int) -> FixedPass:
        """The pass of that width, captured now if it has not been."""
        if width not in self.passes:
            self.passes[width] = FixedPass(self.model, width, self.rows)
            if self.capture:
                self._capture(self.passes[width])
        return self.passes[width]

    def run(self, fixed: FixedPass) -> None:
        """Compute logits and states of the inputs in `fixed`."""
        if fixed.graph is not None:
            fixed.graph.replay()
        else:
            self._forward(fixed)

    def _capture(self, fixed: FixedPass) -> None:
        """Capture the pass; if that fails it runs kernel by kernel, which is slower but correct."""
        device = self.model.device
        with _capturing, torch.cuda.device(device):
            current = torch.cuda.current_stream()
            stream = torch.cuda.Stream()
            stream.wait_stream(current)
            # reserves blocks and selects kernels, neither of which can be captured
            with torch.cuda.stream(stream):
                self._forward(fixed)
            current.wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.stream(stream):
                    # Calls of other threads, such as another lane's allocations, do not break the capture.
                    graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                    try:
                        self._forward(fixed)
                    finally:
                        graph.capture_end()
            except RuntimeError:
                self.capture = False
                return
            fixed.graph, self._pool = graph, graph.pool()

    def _forward(self, fixed: FixedPass) -> None:
        seen: list[Tensor] = []
        # The weights are shared: another lane's pass in another thread calls the hook too.
        own = threading.get_ident()
        hook = self.model.get_output_embeddings().register_forward_pre_hook(
            lambda module, inputs: seen.append(inputs[0]) if threading.get_ident() == own else None
        )
        self.memory.rows = fixed.rows
        try:
            fixed.unpack()
            output: Any = self.model(
                input_ids=fixed.ids,
                attention_mask=fixed.mask,
                position_ids=fixed.positions,
                use_cache=True,
                logits_to_keep=0,
                **cached(self.model, self.memory),
            )
        finally:
            self.memory.rows = None
            hook.remove()
        fixed.logits, fixed.states = output.logits, seen[0]


class GraphedReader(CausalReader):
    """A `CausalReader` whose narrow passes have fixed shapes and run from `static`."""

    def __init__(self, model: PreTrainedModel, static: StaticSet) -> None:
        super().__init__(model, static.rows, static.memory)
        self.static = static
        self._prefilling = False

    def prefill(self, tokens: Sequence[int]) -> None:
        self._prefilling = True
        try:
            super().prefill(tokens)
        finally:
            self._prefilling = False

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        count = tokens.shape[0]
        if count > WIDTHS[-1]:
            return super().step(tokens)
        logits = self._fixed_pass(tokens, TokenTree.chain([0] * (count - 1)), 0)
        self.memory.extend(count)
        return logits[0, -1]

    def _forward(self, tokens: Sequence[int], tree: TokenTree, logits_to_keep: int, known: int = 0) -> Tensor:
        wide = len(tokens) - known > WIDTHS[-1] or len(tokens) > COLUMNS
        if wide or self._prefilling or self._inner:  # a graph keeps the last states only
            return super()._forward(tokens, tree, logits_to_keep, known)
        return self._fixed_pass(tokens[known:], tree, known)

    def _fixed_pass(self, ids: Sequence[int] | Tensor, tree: TokenTree, known: int) -> Tensor:
        """Float32 logits (1, n, V) of n tokens of a root with its tree, those after the first `known`."""
        count, length = len(ids), self.length
        if length + known + count >= self.static.rows:
            raise ValueError(
                f"the cache holds {self.static.rows - 1} rows, {length + known + count} are needed"
            )
        fixed = self.static.fixed(next(width for width in WIDTHS if width >= count))
        fixed.fill(ids, [0, *tree.depths][known:], tree.visible()[known:], length, known)
        self.static.run(fixed)
        self._tell(fixed.states[0, :count].clone(), {})
        return fixed.logits[:, :count].to(torch.float32, copy=True)  # the next pass overwrites it


class Graphs:
    """Readers of one model, reusing the blocks and graphs of ended lanes."""

    def __init__(self, model: PreTrainedModel, capture: bool = True) -> None:
        self.model, self.capture = model, capture
        self._idle: defaultdict[int, list[StaticSet]] = defaultdict(list)  # by rows

    def reader(self, capacity: int, widest: int = 0) -> GraphedReader:
        """A reader with room for `capacity` tokens, ready for passes of up to `widest`; others on first use."""
        rows = -(-(capacity + 1) // ROWS) * ROWS
        static = self._take(rows) or StaticSet(self.model, rows, self.capture)
        static.memory.rewind(0)
        static.prepare(widest)
        reader = GraphedReader(self.model, static)
        weakref.finalize(reader, self._give_back, static).atexit = False
        return reader

    def _take(self, rows: int) -> StaticSet | None:
        """An idle set of that size; readers of ended lanes may need garbage collection to release theirs."""
        if not self._idle[rows]:
            gc.collect()
        try:
            return self._idle[rows].pop()
        except IndexError:
            return None

    def _give_back(self, static: StaticSet) -> None:
        if sum(len(sets) for sets in list(self._idle.values())) >= IDLE:
            self._idle.clear()
        self._idle[static.rows].append(static)


def works(model: PreTrainedModel, capture: bool = True) -> bool:
    """Whether fixed passes of this model can be captured and equal ordinary ones, checked on a few small trees."""
    # transformers' flag for passes without device syncs
    if not getattr(model, "_can_compile_fullgraph", True):
        return False
    plain, fixed = CausalReader(model, 32), Graphs(model, capture).reader(32)
    tolerance = 1e-3 if model.dtype == torch.float32 else 0.1
    trees = TokenTree([5, 6, 7, 8], [-1, -1, 0, 1]), TokenTree.chain([8]), TokenTree([7, 5, 6], [-1, -1, 1])
    try:
        for reader in (plain, fixed):
            reader.prefill([1, 2, 3])
        for root, tree in enumerate(trees):
            expected = plain.read(root, tree)
            size = max(1.0, float(expected.abs().max()))
            if not float((expected - fixed.read(root, tree)).abs().max()) <= tolerance * size:
                return False
            for reader in (plain, fixed):
                reader.keep([0, len(tree)])
    except RuntimeError:
        return False
    return not capture or all(one.graph is not None for one in fixed.static.passes.values())
