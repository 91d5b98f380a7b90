"""Linear layers on a CPU: by which product each is computed, so that the passes of speculative decoding are cheap.

Three products of the same weights are fastest at different widths, the number of tokens in a pass:

- By columns: one row times the transposed weights. Best for what reads one token at a time and stays in the
  processor's cache, such as a draft.
- From the left: the weights, as they are, times the rows as columns. Best for a few tokens.
- Packed: with more rows, a product of weights from memory spends much of its time rearranging them for the processor,
  in each call. oneDNN can keep the rearranged copy, so that a pass over a few tokens costs little more than over one.

A small target keeps its weights for few tokens and a packed copy for more; a large one has only the packed copy, since
twice its weights would be too much memory.

Which is used follows from sizes and the processor's kind, and not from a measurement at each start: the products differ
by rounding, and the same seed is to write the same text after every start.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .llama import Joined
from .machine import available_bytes

LARGEST_SHARE = 0.25  # of the free memory the copies may take
TYPICAL_ROWS = 16  # the number of tokens the packing is chosen for
SMALL_BYTES = 64_000_000  # of a model that may have a packed copy besides its weights
FEW = 2  # tokens for which weights from memory are multiplied from the left

Product = Callable[[Tensor], Tensor]


def arrange(model: nn.Module, joined: Sequence[Joined] = ()) -> None:
    """Choose the products of a model that reads several tokens in a pass.

    This and the following concern float32 layers on a CPU; the others stay as they are. Of a `joined` product the whole
    is arranged, and its parts compute as before.
    """
    linears = _linears(model, joined)
    if not linears:
        return
    if _bytes(linears) > SMALL_BYTES:
        pack(model, joined)
    elif not _works():
        by_columns(model, joined)
    else:
        few = _few()
        for module in linears:
            _use(module, _ByWidth(few, _FromTheLeft(module), _Packed(module)))
        _slice(joined)


def by_columns(model: nn.Module, joined: Sequence[Joined] = ()) -> None:
    """Store the weights by columns, for a model that mostly reads one token in a pass. Of a matrix that another module
    reads too there is a copy, if it is small."""
    shared = _shared(model)
    for module in _linears(model, joined):
        if module.weight not in shared or module.weight.nbytes <= SMALL_BYTES:
            _use(module, _Columns(module, shared))
    for whole in joined:
        rows = whole.weight.detach().split([part.out_features for part in whole.parts])
        for part, own in zip(whole.parts, rows, strict=True):
            part.weight.data = own


def pack(model: nn.Module, joined: Sequence[Joined] = ()) -> int:
    """Pack the weights; returns of how many layers.

    Leaves the model as it is, and returns 0, where torch has no oneDNN or memory is short. The copies replace the
    weights, unless another module also reads them, as embeddings do a tied output matrix: their shape and dtype stay (a
    tensor on the device "meta", which nothing can compute with by mistake). So a packed model takes hardly more memory;
    it can no longer be saved or moved to another device.
    """
    linears = _linears(model, joined)
    shared = _shared(model)
    kept = sum(module.weight.nbytes for module in linears if module.weight in shared)
    largest = max((module.weight.nbytes for module in linears), default=0)
    if not linears or not _works() or kept + largest > LARGEST_SHARE * available_bytes(torch.device("cpu")):
        return 0
    for module in linears:
        packed = _Packed(module)
        if module.weight in shared:
            _use(module, _ByWidth(FEW, _FromTheLeft(module), packed))
        else:
            _use(module, packed)
            _drop(module)
    _slice(joined)
    for whole in joined:
        for part in whole.parts:
            _drop(part)
    _give_back()
    return len(linears)


def least_rows(whole: Joined) -> int:
    """The number of tokens to which a narrower pass is filled up, as it takes less time with them."""
    return 2 if isinstance(whole.forward, _ByWidth) else 1


def _few() -> int:
    """The same as `FEW` for a small model: without AVX-512 the packed product is slower."""
    return FEW if torch.backends.cpu.get_cpu_capability() == "AVX512" else 6


def _slice(joined: Sequence[Joined]) -> None:
    """Let the parts of joined products compute as slices of the whole."""
    for whole in joined:
        start = 0
        for part in whole.parts:
            _use(part, _Part(whole, start, part.out_features))
            start += part.out_features


def _use(module: nn.Linear, product: Product) -> None:
    module.forward = product  # type: ignore[method-assign, assignment]


def _bytes(linears: Sequence[nn.Linear]) -> int:
    return sum(module.weight.nbytes for module in linears)


def _linears(model: nn.Module, joined: Sequence[Joined]) -> list[nn.Linear]:
    """The float32 linear layers on a CPU, joined ones instead of their parts."""
    parts = {part for whole in joined for part in whole.parts}
    found = [module for module in model.modules() if type(module) is nn.Linear and module not in parts]
    return [
        module
        for module in (*found, *joined)
        if module.weight.dtype == torch.float32 and module.weight.device.type == "cpu"
    ]


def copied_bytes(model: nn.Module | None) -> int:
    """Bytes of what products hold besides the parameters, packed copies assumed to be as large as the originals."""
    if model is None:
        return 0
    products = (vars(module).get("forward") for module in model.modules() if type(module) is nn.Linear)
    return sum(
        one.copied
        for one in products
        if isinstance(one, _ByWidth | _Columns | _FromTheLeft | _Packed | _Part)
    )


def _shared(model: nn.Module) -> set[nn.Parameter]:
    """The parameters that more than one module of the model holds."""
    seen: set[nn.Parameter] = set()
    shared: set[nn.Parameter] = set()
    for module in model.modules():
        own = {weight for weight in module._parameters.values() if weight is not None}
        shared |= own & seen
        seen |= own
    return shared


def _drop(module: nn.Linear) -> None:
    """Free the weight; its shape and dtype stay."""
    empty = torch.empty_like(module.weight, device="meta")
    module.weight = nn.Parameter(empty, requires_grad=False)


def _give_back() -> None:
    """Return freed memory to the system: otherwise the C library keeps what lies between blocks still in use."""
    with suppress(OSError, AttributeError):  # glibc only
        ctypes.CDLL(None).malloc_trim(0)


class _ByWidth:
    """The forward of one linear layer: up to `few` rows by one product, more by another."""

    def __init__(self, few: int, narrow: _FromTheLeft, wide: _Packed) -> None:
        self.few, self.narrow, self.wide = few, narrow, wide
        self.copied = narrow.copied + wide.copied

    def __call__(self, rows: Tensor) -> Tensor:
        # not `len(rows)`, which takes as long as a small product
        count = rows.shape[0] if rows.dim() == 2 else rows.shape[:-1].numel()
        return self.narrow(rows) if count <= self.few else self.wide(rows)


class _Columns:
    """The forward of one linear layer: (…, in) → (…, out), float32.

    The module's weight is stored by columns from now on, unless another module (`shared`) reads it too.
    """

    def __init__(self, module: nn.Linear, shared: set[nn.Parameter]) -> None:
        self.bias, self.transposed = module.bias, module.weight.detach().t().contiguous()
        self.copied = module.weight.nbytes if module.weight in shared else 0
        if module.weight not in shared:
            module.weight.data = self.transposed.t()

    def __call__(self, rows: Tensor) -> Tensor:
        if rows.dim() == 2 and self.bias is None:  # without the detour of `F.linear` over two transpositions
            return torch.mm(rows, self.transposed)
        return F.linear(rows, self.transposed.t(), self.bias)


class _FromTheLeft:
    """The forward of one linear layer: (…, in) → (…, out), float32, for a few rows.

    A single row is multiplied twice over: two columns take less time than one, for which the library would use another,
    slower product. The result is a transposed view.
    """

    copied = 0

    def __init__(self, module: nn.Linear) -> None:
        self.weight = module.weight.detach()
        self.bias = None if module.bias is None else module.bias.detach().unsqueeze(1)

    def __call__(self, rows: Tensor) -> Tensor:
        if rows.dim() != 2:
            return self(rows.reshape(-1, rows.shape[-1])).reshape(*rows.shape[:-1], -1)
        if rows.shape[0] == 1:
            return self(torch.cat((rows, rows)))[:1]
        columns = rows.contiguous().t()
        if self.bias is None:
            return torch.mm(self.weight, columns).t()
        return torch.addmm(self.bias, self.weight, columns).t()


class _Packed:
    """The forward of one linear layer: (…, in) → (…, out), float32."""

    def __init__(self, module: nn.Linear) -> None:
        self.bias, self.copied = module.bias, module.weight.nbytes
        self.product = _ops()._linear_pointwise.default  # looked up once: a pass makes eighty of these calls
        with torch.no_grad():
            self.weight = _ops()._reorder_linear_weight(module.weight.detach(), TYPICAL_ROWS)

    def __call__(self, rows: Tensor) -> Tensor:
        result: Tensor = self.product(rows, self.weight, self.bias, "none", [], "")
        return result


class _Part:
    """The forward of a linear layer whose weights are rows of a joined product."""

    def __init__(self, whole: Joined, start: int, count: int) -> None:
        self.whole, self.start, self.count = whole, start, count
        self.copied = whole.parts[0].weight[:1].nbytes * count

    def __call__(self, rows: Tensor) -> Tensor:
        return self.whole.forward(rows)[..., self.start : self.start + self.count]


def _ops() -> Any:
    return torch.ops.mkldnn


@cache
def _works() -> bool:
    """Whether this build of torch has a packed product that computes correctly."""
    if not torch.backends.mkldnn.is_available():
        return False
    layer = nn.Linear(16, 8)
    rows = torch.linspace(-1, 1, 32).reshape(1, 2, 16)
    try:
        return bool(torch.allclose(_Packed(layer)(rows), layer(rows), atol=1e-5))
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
