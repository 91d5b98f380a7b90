"""A head that guesses a whole block in one pass (DFlash, 2602.06036): the last token and mask tokens behind it read
several of the target's states at every place of the text.

`fc` joins these states, a norm follows, and in every layer the result goes through the layer's own K and V: these rows
are all that the KV cache holds. The block's rows are the queries; among themselves they see each other both ways
(causally in JetSpec, 2606.18394). Each slot's state goes through the target's output matrix. Slots do not know which
token was drafted before them, unless an inner head says so (`inner`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRMSNorm, LlamaRotaryEmbedding, apply_rotary_pos_emb

from specdec_core.models.heads.layouts import shapes
from specdec_core.models.tokens.draft_vocabulary import Guessing
from specdec_core.runtime.architectures.llama import LlamaLayers, Rows, norm_of
from specdec_core.runtime.joined import Joined

from .inner import ConfidenceHead, Inner, MarkovHead

if TYPE_CHECKING:
    from specdec_core.runtime.kv import KVMemory


@dataclass(frozen=True, slots=True)
class BlockShape:
    """What a block head is, beside the sizes of its layers.

    Attributes:
        layers: the target's layers whose inputs it reads, joined.
        size: rows of a block: the last token and size − 1 mask tokens.
        mask: the mask token.
        from_anchor: whether the last token's own row guesses, too; else only the mask tokens' rows do.
        causal: whether a block's row sees only those before it.
        inner: the kind of Markov head; "" is none.
        rank: of the Markov head.
        confidence: whether there is a confidence head.
        confidence_alone: whether it reads the slot's state alone, without the token before.
    """

    layers: tuple[int, ...]
    size: int
    mask: int
    from_anchor: bool = True
    causal: bool = False
    inner: Inner | str = ""
    rank: int = 0
    confidence: bool = False
    confidence_alone: bool = False

    @property
    def guesses(self) -> int:
        """How many tokens one pass guesses."""
        return self.size if self.from_anchor else self.size - 1


class BlockHead(Guessing):
    """The head; its state dict is the published one.

    Args:
        config: sizes of its layers, as of a Llama model.
        block: what else it is.
        joined: width of the joined states.
        vocabulary: the target's tokens it may guess, int64 (k,); None is all of them.
        embedding, output: whether it has its own input embeddings and output matrix; else the target's are used.
        tensors: names in its file, which say whether layers have biases and norms of queries and keys.
        slots: measured shares of places at which the first 1, 2, … guesses are all right; None if unknown.
    """

    def __init__(
        self,
        config: LlamaConfig,
        block: BlockShape,
        joined: int,
        vocabulary: Tensor | None = None,
        embedding: bool = False,
        output: bool = False,
        tensors: Collection[str] = (),
        slots: list[float] | None = None,
    ) -> None:
        super().__init__()
        width, eps, size = int(config.hidden_size), config.rms_norm_eps, int(config.vocab_size)
        config._attn_implementation = "sdpa"
        self.config, self.block, self.slots = config, block, slots
        if embedding:
            self.embed_tokens = nn.Embedding(size, width)
        self.fc = nn.Linear(joined, width, bias=False)
        self.hidden_norm = LlamaRMSNorm(width, eps=eps)
        self.layers = nn.ModuleList(
            shapes.decoder_layer(config, at, tensors, f"layers.{at}.")
            for at in range(int(config.num_hidden_layers))
        )
        self.norm = LlamaRMSNorm(width, eps=eps)
        guesses = size if vocabulary is None else len(vocabulary)
        if output:
            self.lm_head = nn.Linear(width, guesses, bias=False)
        self.markov_head = (
            MarkovHead(block.inner, size, guesses, block.rank, width) if block.inner else None  # type: ignore[arg-type]
        )
        read = width if block.confidence_alone else width + block.rank
        self.confidence_head = ConfidenceHead(read) if block.confidence else None
        self.restrict(vocabulary)
        # in a tuple: its float32 angles must not be converted by `to(dtype)`
        self._rotary = (LlamaRotaryEmbedding(config),)
        self._lean: tuple[LlamaLayers, list[Any], Any, Any] | None = None

    @property
    def layers_read(self) -> tuple[int, ...]:
        """The target's layers whose inputs it reads."""
        return self.block.layers

    def embedded(self, tokens: Tensor, embedding: nn.Module) -> Tensor:
        """Embeddings of tokens, (…) → (…, d): its own, or the target's `embedding`."""
        own: Any = getattr(self, "embed_tokens", embedding)
        found: Tensor = own(tokens)
        return found

    def output(self, target: nn.Module, bits: int = 16) -> nn.Module:
        """From states (…, d) to logits (…, k): its own output matrix, or that of the target."""
        own: Any = getattr(self, "lm_head", None)
        return super().output(target) if own is None else own

    def context(self, states: Tensor) -> Tensor:
        """The target's joined states (…, T · d) as each layer's K and V read them, (…, d)."""
        found: Tensor = self.hidden_norm(self.fc(states))
        return found

    def rows(self, last: Tensor) -> Tensor:
        """The tokens of blocks that begin with these ones: int64 (…) → (…, size)."""
        masks = last.new_full((*last.shape, self.block.size - 1), self.block.mask)
        return torch.cat((last[..., None], masks), -1)

    def forward(
        self, context: Tensor, rows: Tensor, places: tuple[Tensor, Tensor], visible: Tensor
    ) -> Tensor:
        """States (b, m, d) of the rows of blocks, before the output matrix.

        Args:
            context: (b, c, d), of `context`.
            rows: (b, m, d), embedded.
            places: int64 (b, c) and (b, m), positions of both in the text.
            visible: bool (b, m, c + m), what each row sees.
        """
        cos, sin = self._rotary[0](rows, torch.cat(places, 1))
        count = rows.shape[1]
        for layer in self.layers:
            attention: Any = layer.self_attn
            own = layer.input_layernorm(rows)  # type: ignore[operator]
            read = torch.cat((context, own), 1)
            q = attention.q_proj(own).unflatten(-1, (-1, attention.head_dim))
            k = attention.k_proj(read).unflatten(-1, (-1, attention.head_dim))
            v = attention.v_proj(read).unflatten(-1, (-1, attention.head_dim)).transpose(1, 2)
            if hasattr(attention, "q_norm"):
                q, k = attention.q_norm(q), attention.k_norm(k)
            q, k = q.transpose(1, 2), k.transpose(1, 2)
            q = apply_rotary_pos_emb(q, q, cos[:, -count:], sin[:, -count:])[0]
            k = apply_rotary_pos_emb(k, k, cos, sin)[0]
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=visible[:, None], enable_gqa=True)
            rows = rows + attention.o_proj(mixed.transpose(1, 2).flatten(2))
            rows = rows + layer.mlp(layer.post_attention_layernorm(rows))  # type: ignore[operator]
        found: Tensor = self.norm(rows)
        return found

    def guessing(self, states: Tensor) -> Tensor:
        """Of the states (…, size, d) of a block's rows those that guess, (…, guesses, d)."""
        return states[..., self.block.size - self.block.guesses :, :]

    def confidence(self, states: Tensor, before: Tensor) -> Tensor | None:
        """Log-odds (…) that slots' guesses are accepted, from their states (…, d) and the tokens before them int64 (…);
        None without a confidence head."""
        if self.confidence_head is None:
            return None
        read = states
        if not self.block.confidence_alone and self.markov_head is not None:
            read = torch.cat((states, self.markov_head.markov_w1(before)), -1)
        found: Tensor = self.confidence_head(read)
        return found

    def lean(self) -> list[Joined]:
        """Let `read` run; its joined products, for packing. The layers' parameters become views of these."""
        weight = self.fc.weight
        layers = LlamaLayers(self.layers, self.config, self._rotary[0], weight, [False] * len(self.layers))
        norms = [norm_of(layer.input_layernorm) for layer in self.layers]
        self._lean = layers, norms, norm_of(self.hidden_norm), norm_of(self.norm)
        return layers.joined()

    def read(
        self, states: Tensor, tokens: Tensor | None, memory: KVMemory, embedding: nn.Module
    ) -> Tensor | None:
        """One pass while a text is decoded: its new joined states and a block behind them, whose rows leave no trace.

        Args:
            states: (n, T · d), of the places that `memory` does not have yet; they are added to it.
            tokens: int64 (size,), the block; None only adds the states.
            memory: of as many layers as the head has.
            embedding: the target's input embedding.

        Returns:
            The states (guesses, d) of the slots that guess; None without a block.
        """
        if self._lean is None:
            self.lean()
        assert self._lean is not None
        layers, norms, entering, leaving = self._lean
        context, begin, count = entering(self.fc(states)), memory.length, len(states)
        rows = None if tokens is None else self.embedded(tokens, embedding).to(context.dtype)
        total = count + (0 if rows is None else len(rows))
        layers.prepare(memory.capacity)
        angles = layers.angles(torch.arange(begin, begin + total, device=context.device))
        blocks, written = _places(layers, context, memory, total)
        if rows is None:
            for layer, block in zip(layers.layers, blocks, strict=True):
                written(layers.turned(layer, context, *angles), block)
        else:
            attend = layers.attending(len(rows), self._hidden(len(rows), begin + total, context))

            def attention(found: Tensor, block: Rows) -> Tensor:
                written(found, block)
                return attend(found[count:, : layers.heads], block[1], block[2])

            for layer, norm, block in zip(layers.layers, norms, blocks, strict=True):
                read = torch.cat((context, norm(rows)))
                rows = layers.through(layer, read, rows, angles, attention, block)
        memory.extend(count)
        return None if rows is None else self.guessing(leaving(rows))

    def _hidden(self, count: int, total: int, like: Tensor) -> Tensor | None:
        """The additive mask (count, total) of a block at the end of the rows; None where every row sees all."""
        if not self.block.causal:
            return None
        later = torch.full(
            (count, count), torch.finfo(like.dtype).min, dtype=like.dtype, device=like.device
        ).triu(1)
        return F.pad(later, (total - count, 0))


def _places(layers: LlamaLayers, like: Tensor, memory: KVMemory, total: int) -> tuple[list[Rows], Any]:
    """Each layer's rows for a pass of `total`, and what writes keys and values there."""
    end = memory.length
    whole = memory.reserved(like, layers.shared_heads, layers.width)
    written = whole[:, :, :, end : end + total].unbind()
    seen = whole[:, :, :, : end + total].flatten(0, 1).unbind()

    def write(found: Tensor, block: Rows) -> None:
        pairs = found[:, layers.heads :].view(total, 2, layers.shared_heads, layers.width)
        block[0].copy_(pairs.permute(1, 2, 0, 3))

    return list(zip(written, seen[::2], seen[1::2], strict=True)), write
