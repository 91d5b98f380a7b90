"""Models with recurrent layers (Mamba, Qwen3-Next and hybrids), whose states cannot forget a token.

What such a layer has read is folded into a state of constant size, so a rejected token cannot be cut off. The states
are copied before each pass; after a rejection the copy is put back and the kept tokens are read again. That is exact,
and costs a second pass. A tree cannot be read at all: its branches would have to share one state.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import DynamicCache, cache_utils
from transformers.cache_utils import (
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionAndSlidingWindowAttentionLayer,
    LinearAttentionLayer,
)

from specdec_core.foundations.errors import ModelError
from specdec_core.runtime import PREFILL_CHUNK
from specdec_core.runtime.angles import Angles
from specdec_core.runtime.cache_keyword import cached
from specdec_core.runtime.reader import Listener
from specdec_core.tree import TokenTree

if TYPE_CHECKING:
    from transformers import PreTrainedModel

RECURRENT = (
    LinearAttentionLayer,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionAndSlidingWindowAttentionLayer,
)
KNOWN: set[type] = {DynamicLayer, DynamicSlidingWindowLayer, *RECURRENT}
if hasattr(cache_utils, "DummyLayer"):  # not before transformers 5.18
    KNOWN.add(cache_utils.DummyLayer)
MAX_COPIES = (
    80  # of the states: more than the longest chain, each token of which a draft may have to take back
)


def recurrent(config: Any) -> bool:
    """Whether a model of this configuration has recurrent layers, all of kinds whose states can be copied."""
    kinds = {type(layer) for layer in DynamicCache(config=config).layers}
    return bool(kinds & {*RECURRENT}) and kinds <= KNOWN


def attention_layers(config: Any) -> int:
    """How many layers of a model of this configuration keep keys and values."""
    return sum(isinstance(layer, DynamicLayer) for layer in DynamicCache(config=config).layers)


@dataclass(slots=True)
class StateCopy:
    """The states after `length` tokens, layer by layer."""

    length: int
    layers: list[dict[str, Any]]


class RecurrentReader:
    """A causal LM with recurrent layers behind the `Reader` protocol, for chains; on transformers' own cache.

    Args:
        model: loaded in eval mode.
        capacity: not needed, the cache grows; as for `CausalReader`.
    """

    def __init__(self, model: PreTrainedModel, capacity: int = 0) -> None:
        self.model, self.device = model, model.device
        self.vocabulary = int(model.get_output_embeddings().weight.shape[0])
        self.cache = DynamicCache(config=model.config)
        self.angles = Angles.of(model)
        self._read: list[int] = []  # the tokens in the states, those of the last pass included
        self._kept = 0
        self._copies: list[StateCopy] = []
        self._listeners: list[Listener] = []

    @property
    def length(self) -> int:
        return self._kept

    def begin(self, prompt: int) -> None:
        """As `CausalReader.begin`."""
        if self.angles is not None:
            self.angles.begin(prompt)

    @torch.inference_mode()
    def prefill(self, tokens: Sequence[int]) -> None:
        for start in range(0, len(tokens), PREFILL_CHUNK):
            self._pass(tokens[start : start + PREFILL_CHUNK], last=True)
            self._kept = len(self._read)

    @torch.inference_mode()
    def read(self, root: int, tree: TokenTree, known: int = 0) -> Tensor:
        if not tree.is_chain or known:
            raise ValueError(
                "recurrent layers read chains only; `Plan.make` refuses proposals of other shapes"
            )
        self._copy()
        return self._pass([root, *tree.tokens])

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> Tensor:
        self._copy()
        logits = self._pass(tokens.tolist(), last=True)[-1]
        self._kept = len(self._read)
        return logits

    @torch.inference_mode()
    def keep(self, positions: Sequence[int]) -> None:
        self._go_to(self._kept + len(positions))

    @torch.inference_mode()
    def rewind(self, length: int) -> None:
        self._go_to(length)

    def synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()
        elif self.device.type == "mps":
            torch.mps.synchronize()

    def watch(self, listener: Listener, layers: Sequence[int] = ()) -> None:
        if layers:
            raise ValueError("the layers inside are not listened to; `Plan.make` refuses what would")
        self._listeners.append(listener)

    def _go_to(self, length: int) -> None:
        """The states after the first `length` of the tokens read: as they are, or from the last copy before, with what
        followed it read again."""
        if length < len(self._read):
            tokens = self._read[:length]
            while self._copies and self._copies[-1].length > length:
                self._copies.pop()
            if self._copies:
                copy = self._copies.pop()
                for layer, state in zip(self.cache.layers, copy.layers, strict=True):
                    vars(layer).update(state)
            else:  # further back than a round goes
                copy, self.cache = StateCopy(0, []), DynamicCache(config=self.model.config)
            self._read = tokens[: copy.length]
            if tokens[copy.length :]:
                self._copy()
                self._pass(tokens[copy.length :], last=True, heard=False)
        self._kept = length

    def _copy(self) -> None:
        layers = [_state(layer) for layer in self.cache.layers]
        self._copies = [*self._copies[-MAX_COPIES:], StateCopy(len(self._read), layers)]

    def _pass(self, tokens: Sequence[int], last: bool = False, heard: bool = True) -> Tensor:
        """Read tokens after those in the states; float32 logits (n, V), or of the last one alone."""
        seen: list[Tensor] = []
        hook = None
        if self._listeners and heard:
            own = threading.get_ident()

            def catch(module: torch.nn.Module, inputs: tuple[Tensor, ...]) -> None:
                if threading.get_ident() == own:  # another thread's pass calls the hook too
                    seen.append(inputs[0])

            hook, last = self.model.get_output_embeddings().register_forward_pre_hook(catch), False
        try:
            with nullcontext() if self.angles is None else self.angles.applied():
                output = self.model(
                    input_ids=torch.tensor([list(tokens)], device=self.device),
                    use_cache=True,
                    logits_to_keep=1 if last else 0,
                    **cached(self.model, self.cache),
                )
        finally:
            if hook is not None:
                hook.remove()
        for listener in self._listeners if heard else []:
            listener(seen[0][0])
        self._read += tokens
        logits: Tensor = output.logits[0].float()
        return logits


def _state(layer: Any) -> dict[str, Any]:
    """A layer's attributes. States are written in place and copied; keys and values are replaced as they grow."""
    return {
        name: {at: one.clone() if isinstance(one, Tensor) else one for at, one in value.items()}
        if isinstance(value, dict)
        else value
        for name, value in vars(layer).items()
    }


def state_check(model: PreTrainedModel, name: str, small: bool = False) -> None:
    """Check that tokens read together, taken back and read again leave the states that they leave one by one.

    Args:
        small: whether it is a cut-down one with random weights, in which a lost state shows little; one that does not
            run is left to the check of the whole.

    Raises:
        ModelError: if the logits differ by more than rounding, as where a state is kept outside of the cache.
    """
    try:
        found = _difference(model)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # architecture-specific code
        if small:
            return
        raise ModelError(
            f"'{name}' has recurrent layers whose states cannot be copied here ({type(error).__name__}), so a rejected "
            "draft could not be forgotten exactly. Choose another architecture."
        ) from error
    if not found <= (1e-5 if small else 1e-3 if model.dtype == torch.float32 else 0.1):
        raise ModelError(
            f"'{name}' has recurrent layers that read several tokens at once differently than one by one (logits "
            f"differ by {found:.1%}), so a rejected draft could not be forgotten exactly. Choose another architecture."
        )


def _difference(model: PreTrainedModel) -> float:
    """By how much the two differ, relative to the largest logit."""
    alone, together, other = (RecurrentReader(model) for _ in range(3))
    tokens = [token % alone.vocabulary for token in range(1, 13)]
    alone.prefill(tokens[:5])
    expected = []
    for token in tokens[5:10]:
        expected.append(alone.read(token, TokenTree())[0])
        alone.keep([0])
    together.prefill(tokens[:5])
    other.prefill(tokens[6:])  # another text on the same weights
    first = together.read(tokens[5], TokenTree.chain([tokens[6], tokens[11], tokens[3]]))
    together.keep([0, 1])  # the last two are taken back
    rest = together.read(tokens[7], TokenTree.chain(tokens[8:10]))
    one_by_one = torch.stack(expected)
    return float((torch.cat((first[:2], rest)) - one_by_one).abs().max() / one_by_one.abs().max())
