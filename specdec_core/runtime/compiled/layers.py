"""A Llama-shaped model's whole pass over a few rows in one call of the compiled kernels."""

from __future__ import annotations

import ctypes
import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from specdec_core.runtime.kv import KVMemory

from . import library
from .library import Layer, Linear, Pass, PassModel
from .products import LANES, CompiledProduct

if TYPE_CHECKING:
    from specdec_core.runtime.architectures.llama import LlamaLayers

AT_ONCE = 64  # rows of a call; more are read in several
WIDEST_HEAD = 256


class CompiledLayers:
    """Passes of layers whose products are all `CompiledProduct`s, batch size 1.

    Args:
        layers: of Llama's layout, for which `suits` holds.
        norm: the weight of the norm after them, if the pass goes on to an output matrix.
        output: that matrix.
    """

    def __init__(
        self, layers: LlamaLayers, norm: Tensor | None = None, output: nn.Linear | None = None
    ) -> None:
        code = library.library()
        assert code is not None
        self._run, self._room = code.specdec_pass, code.specdec_work_floats
        self._layers = layers
        self._kept: list[Tensor] = []
        first: Any = layers.layers[0]
        self._d, self._hidden = first.attention_output.out_features, first.down.in_features
        self._vocabulary = 0 if output is None else output.out_features
        made = (Layer * len(layers.layers))(
            *(
                Layer(
                    *(self._vector(one) for one in (layer.norms)),
                    *(
                        _packed(one)
                        for one in (
                            layer.attention_input,
                            layer.attention_output,
                            layer.gate_and_up,
                            layer.down,
                        )
                    ),
                )
                for layer in layers.layers
            )
        )
        self._model = PassModel(
            len(made), self._d, layers.heads, layers.shared_heads, layers.width, self._hidden, *layers.eps,
            layers.scaling, made, self._vector(norm), None, None, Linear() if output is None else _packed(output),
        )  # fmt: skip
        self.rounds = layers.layers[0].down.forward.bits == 8  # type: ignore[attr-defined]
        self._own = threading.local()  # lanes in several threads read with one model

    def __deepcopy__(self, memo: dict[int, object]) -> CompiledLayers:
        return self  # as a product's: see `CompiledProduct`

    def __call__(
        self,
        states: Tensor,
        positions: Tensor,
        mask: Tensor | None,
        memory: KVMemory,
        logits_to_keep: int | None = None,
        inner: dict[int, Tensor] | None = None,
        first: int = 0,
        last: int | None = None,
        read: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """A pass over rows whose keys and values are written to rows `memory.end` and after.

        Args:
            states: float32 (n, d), of the rows; not changed.
            positions: int64 (n,), below the number given to `prepare`.
            mask: additive float32 (n, memory.end + n); None shows everything to every row.
            memory: the KV cache, of as many layers as are to be run.
            logits_to_keep: for how many rows, from the last, logits are computed; 0 means all, None for none.
            inner: as in `LlamaForward.__call__`.
            first, last: the layers to run.
            read: float32 (n, in), what the attention of the first layer reads, if not the states.

        Returns:
            The states after the layers, normed where there is a norm, (n, d); and the logits (m, V), if any.
        """
        n, end = states.shape[0], memory.end
        last = len(memory.layers) + first if last is None else last
        whole = memory.reserved(states, self._layers.shared_heads, self._layers.width)
        address = whole.data_ptr() - first * whole.stride(0) * whole.element_size()
        states, positions = states.contiguous().clone(), positions.contiguous()
        mask = None if mask is None else mask.contiguous()
        keep = 0 if logits_to_keep is None else logits_to_keep or n
        normed = torch.empty_like(states) if self._model.norm else None
        logits = torch.empty(keep, self._vocabulary) if keep else None
        marks = sorted(number for number in inner or () if first <= number < last)
        stops = [first, *(number for number in marks if number > first), last]
        for start in range(0, n, AT_ONCE):
            rows = slice(start, min(n, start + AT_ONCE))
            part = None if mask is None else mask[rows, : end + rows.stop]
            wanted = max(0, rows.stop - max(rows.start, n - keep))
            for begin, stop in pairwise(stops):
                if inner is not None and begin in inner:
                    _put(inner, begin, states, rows)
                final = stop == last
                self._pass(
                    begin, stop, states[rows], positions[rows], part, address, end + start, memory.capacity,
                    normed[rows] if final and normed is not None else None,
                    logits[rows.stop - wanted - n + keep :] if final and wanted and logits is not None else None,
                    wanted if final else 0,
                    read[rows] if read is not None and begin == first else None,
                )  # fmt: skip
            if inner is not None and last in inner and last == len(self._layers.layers):
                _put(inner, last, states, rows)
        return (states if normed is None else normed), logits

    def _pass(
        self, first: int, last: int, states: Tensor, positions: Tensor, mask: Tensor | None, address: int,
        end: int, capacity: int, normed: Tensor | None, logits: Tensor | None, keep: int, read: Tensor | None,
    ) -> None:  # fmt: skip
        """One call: of layers, for at most `AT_ONCE` rows."""
        n, threads, own, model = states.shape[0], torch.get_num_threads(), self._own, self._model
        cos, sin = self._layers._angles
        if (
            getattr(own, "angles", None) is not cos
        ):  # each thread has its own copy of the structure that names them
            own.angles, own.model = cos, PassModel.from_buffer_copy(model)
            own.tables = (cos.contiguous(), sin.contiguous())
            own.model.cos, own.model.sin = (table.data_ptr() for table in own.tables)
            own.work = torch.empty(0)
        needed = self._room(own.model, n, end + n, threads) + LANES
        if own.work.shape[0] < needed:
            own.work = torch.empty(needed * 5 // 4)
        self._run(
            ctypes.byref(
                Pass(
                    ctypes.pointer(own.model), first, last, n, end, capacity, keep, _at(read), states.data_ptr(),
                    _at(normed), _at(logits), positions.data_ptr(), _at(mask), 0 if mask is None else mask.stride(0),
                    address, own.work.data_ptr(), threads,
                )
            )
        )  # fmt: skip

    def _vector(self, values: Tensor | None) -> int | None:
        """The address of a norm's weights, which this object keeps."""
        if values is None:
            return None
        self._kept.append(values.detach().float().contiguous())
        return self._kept[-1].data_ptr()


def suits(layers: LlamaLayers, *linears: nn.Linear) -> bool:
    """Whether all products of these layers are compiled, and the kernels know the rest."""
    products = [
        one
        for layer in layers.layers
        for one in (layer.attention_input, layer.attention_output, layer.gate_and_up, layer.down)
    ]
    return (
        len(layers.eps) == 1
        and all(isinstance(vars(one).get("forward"), CompiledProduct) for one in (*products, *linears))
        and all(layer.silu for layer in layers.layers)
        and all(
            layer.norms[0] is None or layer.attention_input.in_features == layer.down.out_features
            for layer in layers.layers
        )
        and layers.width % (2 * LANES) == 0
        and layers.width <= WIDEST_HEAD
        and layers.heads % layers.shared_heads == 0
    )


def _packed(module: nn.Linear) -> Linear:
    product: Any = vars(module)["forward"]
    layer: Linear = product.layer
    return layer


def _put(inner: dict[int, Tensor], number: int, states: Tensor, rows: slice) -> None:
    """Copy the rows of `states` (n, d) to what a layer reads."""
    if rows.start == 0:
        inner[number] = torch.empty_like(states)
    inner[number][rows] = states[rows]


def _at(values: Tensor | None) -> int | None:
    return None if values is None else values.data_ptr()
