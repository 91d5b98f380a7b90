"""One linear layer in the compiled kernels: its weights, packed in 8 or 16 bits, and its forward."""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor, nn

from . import library
from .library import Linear, Product

LANES = 16  # the kernels compute as many outputs at once
LEVELS = 127  # of a weight in 8 bits on each side of 0
# Inputs whose weights have a common size of a level: the first that fits.
GROUPS = (64, 48, 80, 96, 32, 112, 128)


class CompiledProduct:
    """The forward of a linear layer: float32 (…, in) → (…, out).

    16 bits: weights that float16 holds exactly, sums in float32. 8 bits: every weight is rounded to one of 255 levels
    of the largest in its group, 64 inputs of an output, and a row of the input to two terms of 8 bits, coarse and rest;
    a group's sums are of integers. In both, a row's result does not depend on the other rows, the threads, or the
    processor.

    Args:
        module: with float32 weights for which `suits` holds.
        bits: 8 or 16.
    """

    def __init__(self, module: nn.Linear, bits: int) -> None:
        code = library.library()
        assert code is not None
        weight = module.weight.detach()
        self.bits, self.out, self.inputs = bits, *weight.shape
        self.bias = None if module.bias is None else module.bias.detach().float().contiguous()
        self.weights: Tensor
        self.scales: Tensor | None
        self.weights, self.scales = packed8(weight) if bits == 8 else (packed16(weight), None)
        self.copied = self.weights.nbytes + (0 if self.scales is None else self.scales.nbytes)
        self.layer = Linear(
            bits, self.out, self.inputs,
            *(None if one is None else one.data_ptr() for one in (self.weights, self.scales, self.bias)),
            group_of(self.inputs),
        )  # fmt: skip
        self._run, self._at = code.specdec_product, ctypes.pointer(self.layer)

    def __deepcopy__(self, memo: dict[int, object]) -> CompiledProduct:
        return self  # nothing in it changes, and what it points to is its own

    def __call__(self, rows: Tensor) -> Tensor:
        flat = rows.reshape(-1, self.inputs)
        if not flat.is_contiguous():
            flat = flat.contiguous()
        count = flat.shape[0]
        out = torch.empty(count, self.out)
        if count:
            work = torch.empty(count * (9 * self.inputs // 4 + 12), dtype=torch.int8)
            self._run(
                ctypes.byref(
                    Product(
                        self._at,
                        flat.data_ptr(),
                        out.data_ptr(),
                        work.data_ptr(),
                        count,
                        torch.get_num_threads(),
                    )
                )
            )
        return out if rows.dim() == 2 else out.view(*rows.shape[:-1], self.out)


def suits(weight: Tensor) -> bool:
    """Whether the kernels compute a product with weights of this shape (out, in), on this machine."""
    return (
        library.library() is not None
        and weight.dtype == torch.float32
        and weight.device.type == "cpu"
        and all(size % LANES == 0 for size in weight.shape)
    )


def group_of(inputs: int) -> int:
    """How many inputs have a common size of a level."""
    return next((size for size in GROUPS if inputs % size == 0), inputs)


def rounded8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Weights float32 (out, in) as levels float32 (out, in), whole numbers from −127 to 127, and the sizes of a level
    (out, in / group)."""
    groups = weight.unflatten(1, (-1, group_of(weight.shape[1])))
    sizes = groups.abs().amax(2).clamp_min(torch.finfo(torch.float32).tiny) / LEVELS
    return (groups / sizes.unsqueeze(2)).round().flatten(1), sizes


def packed8(weight: Tensor) -> tuple[Tensor, Tensor]:
    """The levels plus 128, uint8 (out / 16, in / 4, 16, 4), and their sizes (out / 16, in / group, 16)."""
    levels, sizes = rounded8(weight)
    out, inputs = weight.shape
    packed = (levels + 128).to(torch.uint8).view(out // LANES, LANES, inputs // 4, 4).permute(0, 2, 1, 3)
    return packed.contiguous(), sizes.view(out // LANES, LANES, -1).transpose(1, 2).contiguous()


def packed16(weight: Tensor) -> Tensor:
    """The weights in float16, (out / 16, in, 16)."""
    out, inputs = weight.shape
    return weight.half().view(out // LANES, LANES, inputs).permute(0, 2, 1).contiguous()
