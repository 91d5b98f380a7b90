"""Rotary positions whose angles depend on the length of the text: "longrope" (Phi-3.5, Phi-4-mini) and "dynamic".

transformers computes the angles of a whole pass from its last position, so that a token's depend on what is read
together with it. Token by token, as `generate` reads, a row's angles are those of the text that ends with it, and those
of the prompt's rows are those of the whole prompt. Here each row gets just these, however many are read in a pass.

With the first token beyond the first window of a Phi model, `generate` forgets the cache and reads the text anew
(`Phi3ForCausalLM.prepare_inputs_for_generation`). So do the readers here; and no round's committed tokens lie on both
sides.
"""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from specdec_core.tree import TokenTree

from .cache_keyword import cached
from .kv import KVMemory
from .layers import first_layers
from .reader import CausalReader

if TYPE_CHECKING:
    from transformers import PreTrainedModel

KINDS = ("longrope", "dynamic")  # transformers looks for the second within the name


class Angles:
    """The angles of one reader's passes.

    Args:
        model: whose rotary modules are to be followed.

    Attributes:
        least: how long the text is at least, in tokens, for the angles of its rows: the prompt's length, or more where
            the text was read anew.
        anew: the length in tokens beyond which the text is read anew; None for most models.
    """

    def __init__(self, model: PreTrainedModel, modules: list[nn.Module]) -> None:
        self.anew = read_anew(model)
        self.prompt = self.least = 0
        self._own = [(module, _fresh(module)) for module in modules]

    @classmethod
    def of(cls, model: PreTrainedModel) -> Angles | None:
        """Those of a model; None where angles depend on nothing but the position."""
        modules = rotary(model)
        return cls(model, modules) if modules else None

    def begin(self, prompt: int) -> None:
        """A text begins with a prompt of that many tokens, the last one included, which the first round reads."""
        self.prompt = self.least = prompt

    def turn(self, length: int) -> bool:
        """Before reading the last of `length` tokens: whether all those before have to be read anew."""
        if self.anew is None:
            return False
        least = max(self.prompt, self.anew + 1) if length > self.anew else self.prompt
        changed, self.least = least != self.least, least
        return changed

    def levels(self, length: int) -> int:
        """How deep a proposal after `length` rows may be, for all that it commits to be read with the same angles."""
        return sys.maxsize if self.anew is None or length >= self.anew else self.anew - length - 1

    @contextmanager
    def applied(self) -> Iterator[None]:
        """While a pass runs in this thread, its rotary modules give each row the angles of its own length."""
        own = threading.get_ident()
        hooks = [
            module.register_forward_hook(
                lambda _, args, named, output, fresh=fresh: (
                    self._turned(fresh, args, named, output) if threading.get_ident() == own else None
                ),
                with_kwargs=True,
            )
            for module, fresh in self._own
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _turned(self, module: nn.Module, args: tuple[Any, ...], named: dict[str, Any], output: Any) -> Any:
        """What the module returns, row by row as in a text of that row's length.

        Args:
            module: a copy that no other pass uses.
            args, named: the states (1, n, d), and the positions int64 (1, n).
            output: what it returned for the whole pass: tensors with n rows, last but one of their dimensions.
        """
        positions = named["position_ids"] if "position_ids" in named else args[1]
        lengths = (positions + 1).clamp(min=self.least)
        single = isinstance(output, Tensor)
        found = [part.clone() for part in ([output] if single else output)]
        for length in lengths.unique().tolist():
            rows = (lengths[0] == length).nonzero()[:, 0]
            # the last position makes the text as long as it has to be
            own = torch.cat((positions[:, rows], positions.new_tensor([[length - 1]])), 1)
            given = {**named, "position_ids": own} if "position_ids" in named else named
            there = args if "position_ids" in named else (args[0], own, *args[2:])
            _reset(module)
            parts = module(*there, **given)
            for part, whole in zip([parts] if single else parts, found, strict=True):
                whole[..., rows, :] = part[..., :-1, :]
        return found[0] if single else tuple(found)


class LengthReader(CausalReader):
    """A `CausalReader` of a model with such angles.

    Args:
        memory, angles: of the reader whose first layers this one reads; it reads nothing anew by itself.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        capacity: int,
        memory: KVMemory | None = None,
        angles: Angles | None = None,
    ) -> None:
        super().__init__(model, capacity, memory)
        found = Angles.of(model) if angles is None else angles
        assert found is not None, "the model's angles depend on nothing but the position"
        self.angles, self._leads, self._begun = found, angles is None, False
        self._tokens = torch.zeros(capacity, dtype=torch.long, device=self.device)  # those in the cache
        self._passed: Sequence[int] = ()  # those of the last `read`

    @property
    def levels(self) -> int:
        """How deep the next proposal may be; see `Angles.levels`."""
        return self.angles.levels(self.length)

    def first_layers(self, layers: int) -> LengthReader:
        memory = self.memory.first(layers)
        return LengthReader(first_layers(self.model, layers), memory.capacity, memory, self.angles)

    def begin(self, prompt: int) -> None:
        self.angles.begin(prompt)
        self._begun = True

    def prefill(self, tokens: Sequence[int]) -> None:
        if self._leads and not self.length and not self._begun:
            self.begin(len(tokens) + 1)
        self._write(tokens)
        super().prefill(tokens)

    def read(self, root: int, tree: TokenTree, known: int = 0) -> Tensor:
        if not known:
            self._turn(self.length + 1)
        self._passed = [root, *tree.tokens]
        return super().read(root, tree, known)

    def step(self, tokens: Tensor) -> Tensor:
        self._turn(self.length + len(tokens))
        self._write(tokens)
        return super().step(tokens)

    def keep(self, positions: Sequence[int]) -> None:
        self._write([self._passed[at] for at in positions])
        super().keep(positions)
        self._turn(self.length + 1)  # now, as a proposer may run the first layers before the next `read`

    def rewind(self, length: int) -> None:
        self._begun = self._begun and length > 0
        super().rewind(length)

    def _write(self, tokens: Sequence[int] | Tensor) -> None:
        start = self.length
        self._tokens[start : start + len(tokens)] = torch.as_tensor(tokens, device=self.device)

    def _turn(self, length: int) -> None:
        """Read the text anew, if the last of `length` tokens is to be read and it is the first beyond the border."""
        if self._leads and self.angles.turn(length):
            tokens = self._tokens[: self.length].tolist()
            self.memory.rewind(0)
            listeners, self._listeners = self._listeners, []  # have heard these tokens
            try:
                super().prefill(tokens)
            finally:
                self._listeners = listeners

    def _run(self, ids: Tensor, mask: Tensor, positions: Tensor, logits_to_keep: int) -> Tensor:
        with self.angles.applied():
            return super()._run(ids, mask, positions, logits_to_keep)


def rotary(model: nn.Module) -> list[nn.Module]:
    """The modules whose angles depend on the text's length."""
    return [module for module in model.modules() if any(map(_changing, _types(module)))]


def kinds(model: nn.Module) -> list[str]:
    """The names of the kinds of its angles that depend on the text's length."""
    return sorted({kind for module in rotary(model) for kind in _types(module) if _changing(kind)})


def _types(module: nn.Module) -> list[str]:
    named = getattr(module, "rope_type", "")
    return [
        kind for kind in (named.values() if isinstance(named, dict) else [named]) if isinstance(kind, str)
    ]


def _changing(kind: str) -> bool:
    return any(name in kind for name in KINDS)


def read_anew(model: PreTrainedModel) -> int | None:
    """The length in tokens beyond which the model's `generate` forgets the cache; None if it does not.

    Asked of the model's own method with a cache of that length.
    """
    border = getattr(model.config, "original_max_position_embeddings", None)
    if not isinstance(border, int) or isinstance(border, bool) or border < 1:
        return None
    full = KVMemory(1, border)
    full.length = border
    ids = torch.zeros(1, border + 1, dtype=torch.long)
    run: Any = model  # whose methods torch types as tensors
    taken = run.prepare_inputs_for_generation(ids, next_sequence_length=1, **cached(model, full))
    return border if taken["input_ids"].shape[1] > 1 else None


def _fresh(module: nn.Module) -> nn.Module:
    """A copy with buffers of its own."""
    own = copy.copy(module)
    own._buffers = {name: None if one is None else one.clone() for name, one in module._buffers.items()}
    own._forward_hooks = type(module._forward_hooks)()
    own._forward_hooks_with_kwargs = type(module._forward_hooks_with_kwargs)()
    return own


def _reset(module: Any) -> None:
    """As if it had read no text yet: transformers keeps the angles of the longest one so far."""
    for name in [name for name in (*module._buffers, *vars(module)) if name.endswith("original_inv_freq")]:
        kind = name.removesuffix("original_inv_freq")
        module._buffers[f"{kind}inv_freq"] = getattr(module, name).clone()
        if hasattr(module, f"{kind}max_seq_len_cached"):
            setattr(module, f"{kind}max_seq_len_cached", module.original_max_seq_len)
