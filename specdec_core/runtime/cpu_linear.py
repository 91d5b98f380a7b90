"""Linear layers on a CPU: weights stored so that the passes of speculative decoding are cheap.

By columns: the plain product over one row is a quarter faster. That is best for whatever reads one token at a time, and
for small models, which stay in the processor's cache, at every width.

Packed: a product with 2 to 64 rows of weights from memory spends most of its time rearranging them for the processor,
in each call. oneDNN can keep the rearranged copy, so that a pass over a few tokens costs little more than over one.

Which is used follows from sizes alone and not from a measurement at each start: the products differ by rounding, and
the same seed is to write the same text after every start.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .llama import Joined
from .machine import available_bytes

LARGEST_SHARE = 0.25  # of the free memory the copies may take
TYPICAL_ROWS = 8  # the number of tokens the packing is chosen for
SMALL_BYTES = 64_000_000  # of a model whose weights largely stay in the cache from pass to pass


def arrange(model: nn.Module, joined: Sequence[Joined] = ()) -> None:
    """Store the weights of a model that reads several tokens in a pass: a small one's by columns, others packed.

    This and the following concern float32 layers on a CPU; the others stay as they are. Of a `joined` product the whole
    is arranged, and its parts compute as before.
    """
    if sum(module.weight.nbytes for module in _linears(model, joined)) <= SMALL_BYTES:
        by_columns(model, joined)
    else:
        pack(model, joined)


def by_columns(model: nn.Module, joined: Sequence[Joined] = ()) -> None:
    """Store the weights by columns. Of a matrix that another module reads too there is a copy, if it is small."""
    shared = _shared(model)
    for module in _linears(model, joined):
        if module.weight not in shared or module.weight.nbytes <= SMALL_BYTES:
            module.forward = _Columns(module, shared)  # type: ignore[method-assign, assignment]
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
        module.forward = _Packed(module)  # type: ignore[method-assign, assignment]
        if module.weight not in shared:
            _drop(module)
    for whole in joined:
        start = 0
        for part in whole.parts:
            part.forward = _Part(whole, start, part.out_features)  # type: ignore[method-assign, assignment]
            start += part.out_features
            _drop(part)
    _give_back()
    return len(linears)


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
    shared, total = _shared(model), 0
    for module in model.modules():
        if type(module) is not nn.Linear:
            continue
        product = vars(module).get("forward")
        if isinstance(product, _Packed | _Part) or (
            isinstance(product, _Columns) and module.weight in shared
        ):
            total += module.weight.nbytes
    return total


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


class _Columns:
    """The forward of one linear layer: (…, in) → (…, out), float32.

    The module's weight is stored by columns from now on, unless another module (`shared`) reads it too.
    """

    def __init__(self, module: nn.Linear, shared: set[nn.Parameter]) -> None:
        self.bias, self.transposed = module.bias, module.weight.detach().t().contiguous()
        if module.weight not in shared:
            module.weight.data = self.transposed.t()

    def __call__(self, rows: Tensor) -> Tensor:
        if rows.dim() == 2 and self.bias is None:  # without the detour of `F.linear` over two transpositions
            return torch.mm(rows, self.transposed)
        return F.linear(rows, self.transposed.t(), self.bias)


class _Packed:
    """The forward of one linear layer: (…, in) → (…, out), float32."""

    def __init__(self, module: nn.Linear) -> None:
        self.bias = module.bias
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
