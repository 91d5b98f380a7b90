"""What all heads that continue the target's states have in common, so that one walk drafts with each of them.

A row pairs a token with the state before it. A head turns rows into the states that follow, and a state into logits of
the token after it. Its own states stand in for the target's while it drafts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from specdec_core.models.tokens.draft_vocabulary import Guessing
from specdec_core.runtime.cache_keyword import cached

if TYPE_CHECKING:
    from transformers import LlamaConfig

    from specdec_core.runtime.kv import KVMemory

    from .lean import Lean


class Continuing(Guessing):
    """Base of EAGLE heads and of multi-token-prediction modules.

    Attributes:
        config: sizes of its layers, as of a Llama model.
        accuracy: measured shares of right guesses by rank, for the next token after true states; None if unknown.
        tree_temperature: of its probabilities where they choose the tree for greedy text, as measured; 1 if not.
        layers_read: the target's layers whose inputs it reads, joined; empty for the state the output matrix reads.
        normed: whether the first layer norms what its attention reads, so that `reads` does not.
        blind_start: whether the row at position 0 reads zeros in place of its token's embedding.
        lean: runs the layers in fewer operations; None where transformers' own are used.
    """

    config: LlamaConfig
    accuracy: list[float] | None = None
    tree_temperature: float = 1.0
    layers_read: tuple[int, ...] = ()
    normed: bool = True
    blind_start: bool = False
    lean: Lean | None = None
    _rotary: tuple[nn.Module]

    @property
    def rotary(self) -> nn.Module:
        """Computes the layers' angles."""
        return self._rotary[0]

    def passes(self) -> list[list[Any]]:
        """The layers that each module's pass goes through; one module, unless they form a chain in which each reads the
        states of the one before it."""
        raise NotImplementedError

    @property
    def modules_chained(self) -> int:
        """How many modules there are."""
        return len(self.passes())

    @property
    def layers_per_pass(self) -> int:
        """How many layers a pass goes through, each with keys and values of its own."""
        return len(self.passes()[0])

    def embedded(self, tokens: Tensor, embedding: nn.Module) -> Tensor:
        """Embeddings of tokens, (…) → (…, d): its own, or the target's `embedding`."""
        own: Any = self.embed_tokens if hasattr(self, "embed_tokens") else embedding
        found: Tensor = own(tokens)
        return found

    def output(self, target: nn.Module, bits: int = 16) -> nn.Module:
        """From states (…, d) to logits (…, k): its own output matrix, or that of the target."""
        own: Any = getattr(self, "lm_head", None)
        return super().output(target, bits) if own is None else own

    def reads(self, embedded: Tensor, states: Tensor, step: int = 0) -> tuple[Tensor, Tensor]:
        """What a module's attention reads, and what its result is added to, from embeddings and states (…, d)."""
        raise NotImplementedError

    def _rows(
        self, tokens: Tensor, states: Tensor, positions: Tensor, embedding: nn.Module, step: int
    ) -> tuple[Tensor, Tensor]:
        """As `reads`, of tokens and positions (…)."""
        embedded = self.embedded(tokens, embedding).to(states.dtype)
        if self.blind_start:
            embedded = embedded.masked_fill((positions == 0)[..., None], 0)
        return self.reads(embedded, states, step)

    def leave(self, states: Tensor, step: int = 0) -> Tensor:
        """A pass's result as the states that follow."""
        return states

    def enter(self, states: Tensor) -> Tensor:
        """The target's states as the first module reads them."""
        return states

    def guess(self, states: Tensor, output: nn.Module, step: int = 0) -> Tensor:
        """Logits (…, k) of the tokens it may guess, from states (…, d) of module `step`; `output`: from `output`."""
        logits: Tensor = output(states)
        return logits

    def first(self, layer: Any, rows: Tensor, onto: Tensor, **attention: Any) -> Tensor:
        """What the first layer of a pass makes of `rows`, added to `onto`."""
        found: Tensor = layer(rows, **attention)
        return found

    def forward(
        self,
        tokens: Tensor,
        states: Tensor,
        positions: Tensor,
        mask: Tensor | None,
        embedding: nn.Module,
        memory: KVMemory | None = None,
        step: int = 0,
    ) -> Tensor:
        """The states that follow: rows (b, m) → (b, m, d).

        Args:
            tokens: int64 (b, m), each the token after its state.
            states: (b, m, d), of `enter`, of the module before, or guessed.
            positions: int64 (b, m), positions of the rows in the text.
            mask: additive (b, 1, m, rows in memory + m); None means causal, without a memory.
            embedding: the target's input embedding, used where the head has none.
            memory: keys and values of earlier rows of this module; the new rows are written after them.
            step: which module.
        """
        rows, onto = self._rows(tokens, states, positions, embedding, step)
        attention = {
            "attention_mask": mask,
            "position_ids": positions,
            "use_cache": memory is not None,
            "position_embeddings": self.rotary(onto, positions),
        }
        layer, *further = self.passes()[step]
        attention |= cached(layer.self_attn, memory)
        found = self.first(layer, rows, onto, **attention)
        for layer in further:
            found = layer(found, **attention)
        return self.leave(found, step)

    def follow(
        self,
        tokens: Tensor,
        states: Tensor,
        positions: Tensor,
        mask: Tensor,
        embedding: nn.Module,
        memory: KVMemory,
        step: int = 0,
    ) -> Tensor:
        """`forward` for one text while it is decoded: (n,), (n, d), (n,), (n, rows in memory + n) → (n, d)."""
        if self.lean is None:
            found: Tensor = self(
                tokens[None], states[None], positions[None], mask[None, None], embedding, memory, step
            )[0]
            return found
        rows, onto = self._rows(tokens, states, positions, embedding, step)
        return self.leave(self.lean(rows, onto, positions, mask, memory, step), step)
