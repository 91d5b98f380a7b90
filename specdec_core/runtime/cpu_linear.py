"""Linear layers on a CPU: weights packed once, so that a pass over a few tokens costs little more than over one.

A matrix product with 2 to 64 rows spends most of its time rearranging the weights for the processor, in each
call. oneDNN can keep the rearranged copy. Speculative decoding depends on cheap passes over several tokens, so targets
on a CPU are loaded with such copies where memory allows. Results differ from the plain product by rounding only.

The copy replaces the weight: only its shape and dtype stay (a tensor on the device
"meta", which nothing can compute with by mistake), unless another module also reads it, as embeddings do a tied
output matrix. So a packed model takes hardly more memory than an unpacked one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from .llama import Joined
from .machine import available_bytes

LARGEST_SHARE = 0.25  # of the free memory the copies may take
TYPICAL_ROWS = 8  # the number of tokens the packing is chosen for


def pack(model: nn.Module, joined: Sequence[Joined] = ()) -> int:
    """Pack the weight of every float32 `nn.Linear` of `model`; returns how many were packed.

    Of a `joined` product the whole is packed, and its parts compute as slices of it.
    Leaves the model as it is, and returns 0, where torch has no oneDNN or memory is short. A packed model computes as
    before; it can no longer be saved or moved to another device.
    """
    parts = {part for whole in joined for part in whole.parts}
    linears = [module for module in model.modules() if type(module) is nn.Linear and module not in parts]
    linears += joined
    fit = [
        module
        for module in linears
        if module.weight.dtype == torch.float32 and module.weight.device.type == "cpu"
    ]
    shared = _shared(model)
    kept = sum(module.weight.nbytes for module in fit if module.weight in shared)
    largest = max((module.weight.nbytes for module in fit), default=0)
    if not fit or not _works() or kept + largest > LARGEST_SHARE * available_bytes(torch.device("cpu")):
        return 0
    for module in fit:
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
    return len(fit)


def packed_bytes(model: nn.Module | None) -> int:
    """Bytes of the packed weights, assumed to be as large as the originals; 0 without a model."""
    if model is None:
        return 0
    return sum(
        int(module.weight.nbytes)
        for module in model.modules()
        if type(module) is nn.Linear and isinstance(vars(module).get("forward"), _Packed | _Part)
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
