"""Linear layers on a CPU: the product that is fastest for the number of tokens in a pass.

Many rows: a matrix product with 2 to 64 rows spends most of its time rearranging the weights for the processor, in
each call. oneDNN can keep the rearranged copy, so that a pass over a few tokens costs little more than over one, which
is what speculative decoding depends on. One or two rows: the plain product is fastest on weights stored by columns.

Which is used follows from sizes alone and not from a measurement at each start: the products differ by rounding, and
the same seed is to write the same text after every start. `python -m benchmarks` measures them side by side.
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
FEW_ROWS = 2  # up to which the plain product on columns is faster than the packed one
BOTH_BYTES = 64_000_000  # weights up to this size are kept beside their packed copies


def pack(model: nn.Module, joined: Sequence[Joined] = ()) -> int:
    """Pack the weight of every float32 `nn.Linear` of `model`; returns how many were packed.

    Of a `joined` product the whole is packed, and its parts compute as slices of it. The weights of a small model stay,
    stored by columns, for passes over one or two tokens. Those of a larger one are replaced by the copies, unless
    another module also reads them, as embeddings do a tied output matrix: their shape and dtype stay (a tensor on the
    device "meta", which nothing can compute with by mistake), and the model can no longer be saved or moved.
    Leaves the model as it is, and returns 0, where torch has no oneDNN or memory is short.
    """
    linears = _linears(model, joined)
    size = sum(module.weight.nbytes for module in linears)
    both, shared = size <= BOTH_BYTES, _shared(model)
    kept = sum(module.weight.nbytes for module in linears if both or module.weight in shared)
    largest = max((module.weight.nbytes for module in linears), default=0)
    if not linears or not _works() or kept + largest > LARGEST_SHARE * available_bytes(torch.device("cpu")):
        return 0
    for module in linears:
        few = _by_columns(module, shared) if both else None
        module.forward = _Packed(module, few)  # type: ignore[method-assign, assignment]
        if not both and module.weight not in shared:
            _drop(module)
    for whole in joined:
        start = 0
        for part in whole.parts:
            if both:
                part.weight.data = whole.weight.detach()[start : start + part.out_features]
            else:
                _drop(part)
            part.forward = _Part(whole, start, part.out_features)  # type: ignore[method-assign, assignment]
            start += part.out_features
    _give_back()
    return len(linears)


def by_columns(model: nn.Module, joined: Sequence[Joined] = ()) -> None:
    """Store the weights of a model that reads one token at a time by columns: a quarter faster, and the same size.

    As for `pack`, of float32 layers on a CPU. A small matrix that another module reads too is copied.
    """
    shared = _shared(model)
    for module in _linears(model, joined):
        if module.weight not in shared or module.weight.nbytes <= BOTH_BYTES:
            module.forward = _by_columns(module, shared)  # type: ignore[method-assign, assignment]
    for whole in joined:
        rows = whole.weight.detach().split([part.out_features for part in whole.parts])
        for part, own in zip(whole.parts, rows, strict=True):
            part.weight.data = own


def _linears(model: nn.Module, joined: Sequence[Joined]) -> list[nn.Linear]:
    """The float32 linear layers on a CPU, joined ones instead of their parts."""
    parts = {part for whole in joined for part in whole.parts}
    found = [module for module in model.modules() if type(module) is nn.Linear and module not in parts]
    return [
        module
        for module in (*found, *joined)
        if module.weight.dtype == torch.float32 and module.weight.device.type == "cpu"
    ]


def _by_columns(module: nn.Linear, shared: set[nn.Parameter]) -> _Columns:
    """Its product by columns; the module's weight is stored so from now on, unless another module reads it too."""
    columns = module.weight.detach().t().contiguous().t()
    if module.weight not in shared:
        module.weight.data = columns
    return _Columns(module, columns)


def copied_bytes(model: nn.Module | None) -> int:
    """Bytes of what products hold besides the parameters, packed copies assumed to be as large as the originals."""
    if model is None:
        return 0
    shared, total = _shared(model), 0
    for module in model.modules():
        if type(module) is not nn.Linear:
            continue
        product = vars(module).get("forward")
        if isinstance(product, _Packed | _Part):
            total += module.weight.nbytes
        if isinstance(product, _Packed | _Columns) and product.columns is not None:
            total += product.columns.nbytes if module.weight in shared else 0
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
    """The forward of one linear layer for few rows: (…, in) → (…, out), float32; `columns` is its weight (out, in)
    stored by columns."""

    def __init__(self, module: nn.Linear, columns: Tensor) -> None:
        self.bias, self.columns = module.bias, columns
        self.transposed = columns.t()

    def __call__(self, rows: Tensor) -> Tensor:
        if rows.dim() == 2 and self.bias is None:  # without the detour of `F.linear` over two transpositions
            return torch.mm(rows, self.transposed)
        return F.linear(rows, self.columns, self.bias)


class _Packed:
    """The forward of one linear layer: (…, in) → (…, out), float32; `few` computes up to `FEW_ROWS` rows."""

    def __init__(self, module: nn.Linear, few: _Columns | None) -> None:
        self.bias, self.few = module.bias, few
        self.few_numbers = FEW_ROWS * module.in_features if few is not None else 0
        self.product = _ops()._linear_pointwise.default  # looked up once: a pass makes eighty of these calls
        with torch.no_grad():
            self.weight = _ops()._reorder_linear_weight(module.weight.detach(), TYPICAL_ROWS)

    @property
    def columns(self) -> Tensor | None:
        return self.few.columns if self.few is not None else None

    def __call__(self, rows: Tensor) -> Tensor:
        if self.few is not None and rows.numel() <= self.few_numbers:
            return self.few(rows)
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
        return bool(torch.allclose(_Packed(layer, None)(rows), layer(rows), atol=1e-5))
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
