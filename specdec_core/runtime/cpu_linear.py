"""Linear layers on a CPU: by which product each is computed, so that the passes of speculative decoding are cheap.

A pass over a few tokens takes the time in which the weights come from memory, and published weights are of 16 bits
although a CPU computes best in float32. So there are four products:

- Compiled: our own kernels (`compiled`), for weights that float16 holds exactly, and for weights rounded to 8 bits.
  Where these run, a whole pass of a Llama-shaped model does (`compiled.layers`).
- Of halves: where they do not, such weights are kept in 16 bits and widened in the processor's registers (FBGEMM). All
  arithmetic is float32, from half of the memory; a row's result does not depend on how many rows a pass has. Without
  AVX-512, FBGEMM adds up blocks of one and two rows in another order; such passes get rows of zeros (`_steady`).
- Packed: other float32 weights, rearranged for the processor by oneDNN, which otherwise happens in each call.
- By columns: one row times the transposed weights, for other float32 weights of what reads one token at a time.

Which is used follows from the weights, and not from a measurement at each start: the products differ by rounding, and
the same seed is to write the same text after every start.
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

from specdec_core.runtime.joined import Joined

from .compiled.products import CompiledProduct, suits
from .machine import available_bytes

LARGEST_SHARE = 0.25  # of the free memory the copies may take
TYPICAL_ROWS = 16  # the number of tokens the packing is chosen for
SMALL_BYTES = 64_000_000  # of a model that may have its weights beside the copies
CHUNK = 1 << 18  # weights compared at a time, so that they stay in the processor's cache
BLOCK = 12  # rows: a multiple of what FBGEMM's blocks hold
FURTHER = 4  # rows of zeros at most, and one more
LOST = 2.0**-24  # share of the weights' size that 16 bits may lose: what a float32 rounds

Product = Callable[[Tensor], Tensor]


def arrange(
    model: nn.Module,
    joined: Sequence[Joined] = (),
    steps: bool = False,
    replace: bool = False,
    bits: int = 16,
) -> int:
    """Choose the products of a model; returns of how many layers.

    Concerns float32 layers on a CPU; the others stay as they are. Of a `joined` product the whole is arranged, and its
    parts compute as before. The copies replace the weights of a large model, except those that another module also
    reads, as embeddings do a tied output matrix: their shape and dtype stay (a tensor on the device "meta", which
    nothing can compute with by mistake). It then takes hardly more memory than before, or less; it can no longer be
    saved or moved to another device.

    Args:
        steps: it mostly reads one token in a pass.
        replace: replace the weights of a small model too.
        bits: 8 rounds the weights (see `compiled.products`); 16 changes none.
    """
    linears, shared = _linears(model, joined), _shared(model)
    size = sum(module.weight.nbytes for module in linears)
    replace = replace or size > SMALL_BYTES
    kept = sum(module.weight.nbytes for module in linears if not replace or module.weight in shared)
    largest = max((module.weight.nbytes for module in linears), default=0)
    if kept + largest > LARGEST_SHARE * available_bytes(torch.device("cpu")):
        return 0
    done = 0
    for module in linears:
        product = _product(module, shared, steps, bits)
        if product is None:
            continue
        done += 1
        _use(module, product)
        parts = module.parts if isinstance(module, Joined) else []
        if isinstance(product, _Columns):
            _rejoin(module, parts)
            continue
        _slice(module, parts)
        if replace and module.weight not in shared:
            for one in (module, *parts):
                _drop(one)
    _give_back()
    return done


def _product(
    module: nn.Linear, shared: set[nn.Parameter], steps: bool, bits: int
) -> CompiledProduct | _Halves | _Packed | _Columns | None:
    """The best product of these weights that this build of torch has; None for the one it came with."""
    if suits(module.weight) and (bits == 8 or _are_halves(module.weight)):
        return CompiledProduct(module, bits)
    if _works(_Halves) and _are_halves(module.weight):
        return _Halves(module)
    if steps:
        if module.weight in shared and module.weight.nbytes > SMALL_BYTES:
            return None
        return _Columns(module, shared)
    return _Packed(module) if _works(_Packed) else None


def _are_halves(weight: Tensor) -> bool:
    """Whether float16 holds these values, but for some so small that they are lost in the rounding of float32."""
    for part in weight.detach().reshape(-1).split(CHUNK):
        back = part.half().float()
        if not (torch.equal(back, part) or back.sub_(part).norm() <= LOST * part.norm()):
            return False
    return True


def _slice(whole: nn.Linear, parts: Sequence[nn.Linear]) -> None:
    """Let the parts of a joined product compute as slices of the whole."""
    start = 0
    for part in parts:
        _use(part, _Part(whole, start, part.out_features))
        start += part.out_features


def _rejoin(whole: nn.Linear, parts: Sequence[nn.Linear]) -> None:
    """Let the parts of a joined product view its weights, after these have moved."""
    if parts:
        rows = whole.weight.detach().split([part.out_features for part in parts])
        for part, own in zip(parts, rows, strict=True):
            part.weight.data = own


def _use(module: nn.Linear, product: Product) -> None:
    module.forward = product  # type: ignore[method-assign, assignment]


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
    """Bytes of what products hold besides the parameters, packed float32 copies assumed to be as large as the
    originals."""
    if model is None:
        return 0
    products = (vars(module).get("forward") for module in model.modules() if type(module) is nn.Linear)
    return sum(
        one.copied
        for one in products
        if isinstance(one, CompiledProduct | _Columns | _Halves | _Packed | _Part)
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


class _Halves:
    """The forward of one linear layer: (…, in) → (…, out), float32, from weights of 16 bits."""

    def __init__(self, module: nn.Linear) -> None:
        self.copied = module.weight.nbytes // 2
        # without the Python in between, which takes a tenth of the time of a small product
        self.product = torch.ops.quantized.linear_dynamic_fp16.default._op
        bias = None if module.bias is None else module.bias.detach()
        self.weights = torch.ops.quantized.linear_prepack_fp16(module.weight.detach(), bias)

    def __call__(self, rows: Tensor) -> Tensor:
        if rows.dim() == 1:
            return self(rows.unsqueeze(0))[0]
        count = rows.numel() // rows.shape[-1]
        more = _steady(count) - count
        if not more:
            result: Tensor = self.product(rows, self.weights)
            return result
        flat = rows if rows.dim() == 2 else rows.reshape(count, -1)
        padded: Tensor = self.product(torch.cat((flat, _zeros(more, flat.shape[1]))), self.weights)[:count]
        return padded if rows.dim() == 2 else padded.view(*rows.shape[:-1], -1)


@cache
def _zeros(count: int, width: int) -> Tensor:
    return torch.zeros(count, width)


@cache
def _steady(count: int) -> int:
    """The least number of rows, from `count` on, of which the product of halves computes each as it does in any other
    such number; found by trying, as it follows from how FBGEMM divides rows into blocks on this processor."""
    rows, weight = _trial(count + FURTHER)
    whole = torch.ops.quantized.linear_dynamic_fp16(rows, weight)
    for size in range(count, count + FURTHER):
        if torch.equal(torch.ops.quantized.linear_dynamic_fp16(rows[:size], weight), whole[:size]):
            return size
    return count


def _trial(count: int) -> tuple[Tensor, Any]:
    """Rows and packed weights whose sums show in which order they were added up. The rows are a multiple of `BLOCK`."""
    chance = torch.Generator().manual_seed(0)
    rows = torch.randn(-(-count // BLOCK) * BLOCK, 256, generator=chance)
    weight = torch.randn(16, 256, generator=chance).half().float()
    return rows, torch.ops.quantized.linear_prepack_fp16(weight, None)


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


class _Packed:
    """The forward of one linear layer: (…, in) → (…, out), float32."""

    def __init__(self, module: nn.Linear) -> None:
        self.bias, self.copied = module.bias, module.weight.nbytes
        self.product = _ops()._linear_pointwise.default
        with torch.no_grad():
            self.weight = _ops()._reorder_linear_weight(module.weight.detach(), TYPICAL_ROWS)

    def __call__(self, rows: Tensor) -> Tensor:
        result: Tensor = self.product(rows, self.weight, self.bias, "none", [], "")
        return result


class _Part:
    """The forward of a linear layer whose weights are rows of a joined product."""

    def __init__(self, whole: nn.Linear, start: int, count: int) -> None:
        self.whole, self.start, self.count = whole, start, count
        product: Any = whole.forward
        self.copied = product.copied * count // whole.out_features

    def __call__(self, rows: Tensor) -> Tensor:
        return self.whole.forward(rows)[..., self.start : self.start + self.count]


def _ops() -> Any:
    return torch.ops.mkldnn


@cache
def _works(kind: type[_Halves] | type[_Packed]) -> bool:
    """Whether this build of torch has this product, and computes correctly by it."""
    layer = nn.Linear(16, 8).requires_grad_(False)
    layer.weight.copy_(layer.weight.half())
    rows = torch.linspace(-1, 1, 32).reshape(1, 2, 16)
    try:
        return bool(torch.allclose(kind(layer)(rows), layer(rows), atol=1e-5))
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
