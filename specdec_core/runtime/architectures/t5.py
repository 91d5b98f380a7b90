"""Encoder–decoder models of the T5 family: the encoder reads the prompt once, the decoder writes below a start token.

T5 (Raffel et al. 2020, sec. 2.1) has no position ids. Its decoder adds a learned bias for the distance between two
tokens to every attention score, and counts that distance along the rows of the pass, which is right for a chain and
wrong for a tree. But the mask is added to the same scores, so a tree's mask carries the correction:
the bias of the distance by depth minus that of the distance by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from specdec_core.record.schema import ModelInfo
from specdec_core.runtime.cache_keyword import cached
from specdec_core.runtime.kv import KVMemory
from specdec_core.runtime.reader import CausalReader, Reader
from specdec_core.tree import TokenTree

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# model types whose decoder shares one distance bias among all layers; FLAN-T5 is a "t5"
FAMILY = ("t5", "mt5")
DEFAULT_POSITIONS = 1_024  # tokens on either side if the configuration does not say: what mT5 was trained on


class EncoderDecoder:
    """A Hugging Face model of the T5 family as a `Model`; `on` gives the encoder its text.

    Attributes:
        positions: the longest text, in tokens, that the encoder reads or the decoder writes.
        start: the token the decoder starts from.
    """

    def __init__(self, name: str, model: PreTrainedModel, source: Sequence[int] = ()) -> None:
        config: Any = model.config
        self.model, self.source = model, list(source)
        self.info = ModelInfo(name, int(model.num_parameters()), str(config.model_type))
        self.vocabulary = int(model.get_output_embeddings().weight.shape[0])
        self.positions = int(getattr(config, "n_positions", None) or DEFAULT_POSITIONS)
        self.kv_bytes = 2 * config.num_decoder_layers * config.num_heads * config.d_kv * model.dtype.itemsize
        self.mask: int | None = None
        configured = getattr(model.generation_config, "decoder_start_token_id", None)
        self.start = int(configured if configured is not None else config.decoder_start_token_id or 0)

    def on(self, source: Sequence[int]) -> EncoderDecoder:
        """The same weights with `source` for the encoder to read, as token ids with the end token it expects."""
        return EncoderDecoder(self.info.name, self.model, source)

    def reader(self, capacity: int, widest: int = 0) -> Reader:
        """A fresh KV cache of `capacity` rows for the decoder, which reads the source before its first pass."""
        if not self.source:
            raise ValueError(f"'{self.info.name}' has nothing to encode yet; take a reader from `on(source)`")
        return EncoderDecoderReader(self.model, capacity, self.source, self.start)


class EncoderDecoderReader(CausalReader):
    """The decoder as a reader; its tokens begin with the model's start token.

    Args:
        model: a T5-like model in eval mode.
        capacity: the most decoder tokens ever in the cache at once, trees included.
        source: read by the encoder before the first pass or in the first `prefill`, even an empty one.
        start: the token the decoder starts from.
    """

    def __init__(self, model: PreTrainedModel, capacity: int, source: Sequence[int], start: int) -> None:
        config: Any = model.config
        super().__init__(model, capacity, KVMemory(int(config.num_decoder_layers), capacity))
        self.source, self.start = list(source), start
        self._cache = EncoderDecoderCache(self.memory, DynamicCache())
        self._encoded: BaseModelOutput | None = None
        self._attention: Any = model.get_decoder().block[0].layer[0].SelfAttention

    @torch.inference_mode()
    def prefill(self, tokens: Sequence[int]) -> None:
        self._encode()
        super().prefill(tokens)

    def _encode(self) -> None:
        """Run the encoder, and one discarded decoder pass, which fills the cross-attention's keys and values."""
        if self._encoded is None:
            encoder: Any = self.model.get_encoder()
            self._encoded = encoder(input_ids=torch.tensor([self.source], device=self.device))
            start = torch.tensor([[self.start]], device=self.device)
            self._run(start, self._open[..., :1], self._steps[:, :1], 1)

    def _call(self, ids: Tensor, mask: Tensor, positions: Tensor, logits_to_keep: int) -> Tensor:
        self._encode()
        return super()._call(ids, mask, positions, logits_to_keep)

    def _run(self, ids: Tensor, mask: Tensor, positions: Tensor, logits_to_keep: int) -> Tensor:
        output = self.model(
            decoder_input_ids=ids,
            decoder_attention_mask=mask,
            encoder_outputs=self._encoded,
            use_cache=True,
            **cached(self.model, self._cache),
        )
        logits: Tensor = output.logits
        return logits

    def _mask(self, tree: TokenTree, count: int) -> Tensor:
        """As for a causal model, and on trees corrected head by head: (1, heads, count, length + count)."""
        mask = super()._mask(tree, count)
        if tree.is_chain:
            return mask
        rows = torch.arange(self.length + count, device=self.device)
        depths = torch.tensor([0, *tree.depths], device=self.device) + self.length
        seen = torch.cat((rows[: self.length], depths))
        return mask + (self._bias(depths, seen) - self._bias(rows[self.length :], rows)).to(mask.dtype)

    def _bias(self, own: Tensor, seen: Tensor) -> Tensor:
        """What attention adds for the distance from positions `own` (q,) to `seen` (k,): float32 (1, heads, q, k)."""
        config: Any = self.model.config
        bucket = self._attention._relative_position_bucket(
            seen[None, :] - own[:, None],
            bidirectional=False,
            num_buckets=config.relative_attention_num_buckets,
            max_distance=config.relative_attention_max_distance,
        )
        bias: Tensor = self._attention.relative_attention_bias(bucket).permute(2, 0, 1)
        return bias[None].float()
