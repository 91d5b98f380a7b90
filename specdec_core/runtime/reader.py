"""One model with its KV cache: reads a prompt, and a whole token tree in one pass."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from specdec_core.tree import TokenTree

from . import PREFILL_CHUNK
from .architectures.llama import LlamaForward, suits
from .cache_keyword import cached
from .kv import KVMemory
from .layers import decoder_layers, first_layers, hear
from .windows import Windows

if TYPE_CHECKING:
    from transformers import PreTrainedModel


# states (m, d) in the model's dtype: what the output matrix turns into logits; or what layers read, joined
Listener = Callable[[Tensor], None]

LONG = 33  # tokens of a chain, up to which its mask is kept

_log = logging.getLogger(__name__)


class Reader(Protocol):
    """The decoder's interface to a model; `CausalReader` is the real one, `testing.ScriptedReader` the scripted one."""

    vocabulary: int
    device: torch.device

    @property
    def length(self) -> int:
        """Rows in the KV cache: tokens read and kept."""
        ...

    def prefill(self, tokens: Sequence[int]) -> None:
        """Read `tokens` and keep them."""
        ...

    def read(self, root: int, tree: TokenTree, known: int = 0) -> Tensor:
        """Read the root and a tree after the kept tokens in one pass; float32 logits (n + 1, V) by position.

        The first `known` positions were read by the passes just before, with nothing kept since; they are not read
        again, and the logits are those of the other positions, (n + 1 − known, V). So a tree can grow level by level.
        """
        ...

    def step(self, tokens: Tensor) -> Tensor:
        """Read and keep a short chain of tokens int64 (n,) on the device; float32 logits (V,) after the last."""
        ...

    def keep(self, positions: Sequence[int]) -> None:
        """Keep these positions of the last `read` (0 = its root) and drop the others."""
        ...

    def rewind(self, length: int) -> None:
        """Drop all but the first `length` kept tokens."""
        ...

    def synchronise(self) -> None:
        """Wait until the device has finished."""
        ...

    def watch(self, listener: Listener, layers: Sequence[int] = ()) -> None:
        """From now on pass `listener` the states of each prefilled chunk and each `read`, in the pass's order: those
        that the output matrix reads, or, where `layers` are named, those that these layers read, joined."""
        ...


class CausalReader:
    """A Hugging Face causal LM behind the `Reader` protocol, batch size 1.

    Args:
        model: loaded in eval mode; its attention must accept an additive float mask (1, 1, n, length + n).
        capacity: the most tokens ever in the cache at once, trees included.
        memory: the KV cache, if it is not a new one.
        lean: our own forward of this model, from `lean_forward`; without one, transformers' is used.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        capacity: int,
        memory: KVMemory | None = None,
        lean: LlamaForward | None = None,
    ) -> None:
        self.model, self.lean = model, lean
        if lean is not None:
            lean.prepare(capacity)
        self.device = model.device
        self.vocabulary = int(model.get_output_embeddings().weight.shape[0])
        self.windows = Windows.of(model.config)
        self.memory = KVMemory(int(model.config.num_hidden_layers), capacity) if memory is None else memory
        self._listeners: list[tuple[Listener, tuple[int, ...]]] = []
        self._inner: set[int] = set()  # layers whose inputs are listened to
        self._blocked = torch.finfo(model.dtype).min
        # A growing slice of zeros is the mask's prefix part, so a plain step allocates nothing.
        self._open = torch.zeros(1, 1, 1, capacity, dtype=model.dtype, device=self.device)
        self._stairs: dict[int, Tensor] = {}  # by a chain's tokens, its mask after a full cache
        self._steps = torch.arange(capacity, device=self.device).unsqueeze(0)

    @property
    def length(self) -> int:
        return self.memory.length

    def first_layers(self, layers: int) -> CausalReader:
        """A reader of the first `layers` layers, with the final norm and output matrix, in the same KV cache."""
        memory = self.memory.first(layers)
        return CausalReader(first_layers(self.model, layers), memory.capacity, memory, self.lean)

    def begin(self, prompt: int) -> None:
        """A text begins with a prompt of that many tokens, the last of which is read with the first round; see
        `angles`."""

    @torch.inference_mode()
    def prefill(self, tokens: Sequence[int]) -> None:
        for start in range(0, len(tokens), PREFILL_CHUNK):
            chunk = tokens[start : start + PREFILL_CHUNK]
            self._forward(chunk, TokenTree.chain(chunk[1:]), logits_to_keep=1)
            self.memory.extend(len(chunk))

    @torch.inference_mode()
    def read(self, root: int, tree: TokenTree, known: int = 0) -> Tensor:
        return self._forward([root, *tree.tokens], tree, logits_to_keep=0, known=known)[0].float()

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        """Read and keep a short chain of device tokens int64 (n,); float32 logits (V,) after the last. No sync."""
        count = tokens.shape[0]
        length = self.memory.length
        positions = self._steps[:, length : length + count]
        logits = self._call(tokens.unsqueeze(0), self._mask(_unnamed(count - 1), count), positions, 1)
        self.memory.extend(count)
        return logits[0, -1].float()

    @torch.inference_mode()
    def keep(self, positions: Sequence[int]) -> None:
        self.memory.keep(positions)

    def rewind(self, length: int) -> None:
        self.memory.rewind(length)

    def synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()  # not the stream that drafts ahead
        elif self.device.type == "mps":
            torch.mps.synchronize()

    def watch(self, listener: Listener, layers: Sequence[int] = ()) -> None:
        self._listeners.append((listener, tuple(layers)))
        self._inner |= set(layers)

    def _tell(self, states: Tensor, inner: dict[int, Tensor]) -> None:
        """Pass the listeners the states (m, d) of a pass, and what watched layers read."""
        for listener, layers in self._listeners:
            listener(torch.cat([inner[layer] for layer in layers], -1) if layers else states)

    def _forward(self, tokens: Sequence[int], tree: TokenTree, logits_to_keep: int, known: int = 0) -> Tensor:
        count, length, mask = len(tokens), self.memory.length, self._mask(tree, len(tokens))
        if tree.is_chain:
            positions = self._steps[:, length : length + count]
        else:
            positions = torch.tensor(
                [[length, *(length + depth for depth in tree.depths)]], device=self.device
            )
        if known:
            tokens, mask, positions = tokens[known:], mask[:, :, known:], positions[:, known:]
        self.memory.waiting = known
        try:
            return self._call(torch.tensor([tokens], device=self.device), mask, positions, logits_to_keep)
        finally:
            self.memory.waiting = 0

    def _mask(self, tree: TokenTree, count: int) -> Tensor:
        """Additive mask (1, 1, count, length + count): 0 where a position may look, the dtype's minimum elsewhere; of a
        model with windows one for each kind of layer."""
        length = self.memory.length
        total = length + count
        mask = self._open[..., :total]
        if count > 1 and tree.is_chain and count <= LONG:
            mask = self._chain_mask(count)[..., -total:].contiguous()
        elif count > 1:
            mask = self._open.new_zeros(1, 1, count, total)
            mask[0, 0, :, length:].masked_fill_(~tree.visible().to(self.device), self._blocked)
        return mask if self.windows is None else self.windows.narrowed(mask, [0, *tree.depths], self._blocked)

    def _chain_mask(self, count: int) -> Tensor:
        """The mask (1, 1, count, capacity + count) of a chain after a full cache; its last columns are that after a
        shorter text."""
        if count not in self._stairs:
            mask = self._open.new_zeros(1, 1, count, self._open.shape[-1] + count)
            mask[..., -count:].masked_fill_(~_unnamed(count - 1).visible().to(self.device), self._blocked)
            self._stairs[count] = mask
        return self._stairs[count]

    def _call(self, ids: Tensor, mask: Tensor, positions: Tensor, logits_to_keep: int) -> Tensor:
        """Logits (1, m, V) of the last `logits_to_keep` tokens, of all where it is 0; the listeners get all states."""
        if self.lean is not None:
            # a single token sees all rows, unless it continues a tree
            shown = None if ids.shape[1] == 1 and not self.memory.waiting else mask[0, 0]
            inner = dict.fromkeys(self._inner, ids)
            logits, states = self.lean(ids[0], shown, positions[0], self.memory, logits_to_keep, inner)
            self._tell(states, inner)
            return logits
        return self._watched_run(ids, mask, positions, logits_to_keep)

    def _watched_run(self, ids: Tensor, mask: Tensor, positions: Tensor, logits_to_keep: int) -> Tensor:
        seen: list[Tensor] = []
        inner: dict[int, Tensor] = {}
        hooks = []
        if self._listeners:  # only during this pass: the weights are shared with other lanes
            own, keep, logits_to_keep = threading.get_ident(), logits_to_keep, 0

            def catch(module: torch.nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
                """Listeners get the states of all rows; the output matrix gets the requested ones (0: all)."""
                if threading.get_ident() != own:  # another thread's pass calls the hook too
                    return None
                seen.append(inputs[0])
                return (inputs[0][:, -keep:],)

            def catch_inner(number: int, states: Tensor) -> None:
                if threading.get_ident() == own:
                    inner[number] = states[0]

            hooks.append(self.model.get_output_embeddings().register_forward_pre_hook(catch))
            found = decoder_layers(self.model) if self._inner else []
            for number in self._inner:
                hooks.append(hear(found, number, partial(catch_inner, number)))
        try:
            logits = self._run(ids, mask, positions, logits_to_keep)
        finally:
            for hook in hooks:
                hook.remove()
        if self._listeners:
            self._tell(seen[0][0], inner)
        return logits

    def _run(self, ids: Tensor, mask: Tensor, positions: Tensor, logits_to_keep: int) -> Tensor:
        """The model's own forward; logits (1, m, V) of the last `logits_to_keep` tokens, of all where it is 0."""
        output = self.model(
            input_ids=ids,
            attention_mask=mask if self.windows is None else self.windows.by_kind(mask),
            position_ids=positions,
            use_cache=True,
            logits_to_keep=logits_to_keep,
            **cached(self.model, self.memory),
        )
        logits: Tensor = output.logits
        return logits


@lru_cache(maxsize=PREFILL_CHUNK)
def _unnamed(count: int) -> TokenTree:
    """A chain of `count` tokens, whichever they are."""
    return TokenTree.chain([0] * count)


def lean_forward(model: PreTrainedModel, name: str) -> LlamaForward | None:
    """Our own forward of a Llama-shaped model, if it computes what transformers' does; None for other models."""
    if not suits(model):
        return None
    lean = LlamaForward(model)
    return lean if _agrees(model, lean, f"{name} runs on transformers' forward") else None


def compile_checked(lean: LlamaForward, model: PreTrainedModel, name: str) -> None:
    """Let `lean` run in the compiled kernels, where its products do and it computes what transformers' forward does
    with the same products."""
    lean.compile()
    if lean.compiled is not None and not _agrees(model, lean, f"{name} runs without compiled passes"):
        lean.compiled = None


def _agrees(model: PreTrainedModel, lean: LlamaForward, otherwise: str) -> bool:
    """Whether `lean` computes what transformers' forward does on the loaded weights: logits and states of a prompt, a
    tree and a part of a tree. If not, `otherwise` is logged."""
    try:
        (expected, states), (logits, own_states) = _tried(model, None), _tried(model, lean)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # a configuration that this forward does not know
        _log.warning("%s: ours fails on it (%s).", otherwise, type(error).__name__)
        return False
    tolerance = 1e-4 if model.dtype == torch.float32 else 0.1
    if lean.compiled is not None and lean.compiled.rounds:
        tolerance = 0.02  # a level of 8 bits more or less where values differ by rounding
    for one, other in ((expected, logits), (states, own_states)):
        if not float((one - other).abs().max()) <= tolerance * max(1.0, float(one.abs().max())):
            _log.warning("%s: ours differs from it.", otherwise)
            return False
    return True


@torch.inference_mode()
def _tried(model: PreTrainedModel, lean: LlamaForward | None) -> tuple[Tensor, Tensor]:
    """Logits and states of a few passes, all rows of a kind together."""
    reader = CausalReader(model, 24, lean=lean)
    seen: list[Tensor] = []
    reader.watch(lambda states: seen.append(states.float().clone()))
    tokens = [token % reader.vocabulary for token in range(1, 9)]
    reader.prefill(tokens[:3])
    tree = TokenTree(tokens[4:], [-1, -1, 0, 1])
    logits = [reader.read(tokens[3], tree, known) for known in (0, 3, 4)]
    reader.keep([0, 2, 4])
    logits.append(reader.step(torch.tensor(tokens[:1], device=reader.device)).unsqueeze(0))
    return torch.cat(logits), torch.cat(seen)
