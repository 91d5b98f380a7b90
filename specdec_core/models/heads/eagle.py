"""An EAGLE head (Li et al. 2024): one decoder layer that guesses the target's next hidden state instead of its token.

A row pairs token t + 1 with the target's hidden state ("feature") at t: both are joined by one matrix and go through
a Llama layer without the norm before its attention. The output approximates the feature at t + 1, which the target's
own output matrix turns into logits for token t + 2. A guessed feature can be fed back to go one token further.

Published files name the weights `fc.weight` (perhaps `fc.bias`), `layers.0.…` and `embed_tokens.weight`, beside the
config.json of a Llama model. A file without `embed_tokens` shares the target's input embedding. Heads trained here may
have three more parts: a draft vocabulary (`d2t`, see `draft_vocabulary`), the norm before the attention
(`layers.0.input_layernorm.weight`) and one after the layer (`norm.weight`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm, LlamaRotaryEmbedding

from specdec_core.errors import ModelError
from specdec_core.models import draft_vocabulary
from specdec_core.runtime.kv import KVMemory
from specdec_core.runtime.passing import cached

from . import layout
from .continuing import Continuing

FILE = "model.safetensors"
EMBEDDING = "embed_tokens.weight"
INPUT_NORM, NORM = "layers.0.input_layernorm.weight", "norm.weight"


class EagleHead(Continuing):
    """The head; its state dict is the published one.

    Args:
        config: sizes of the layer, as of a Llama model.
        bias: whether the joining matrix has one.
        embedding: whether it has its own input embeddings, (V, d); else the target's are used.
        accuracy: measured shares of right guesses by rank, for the next token after true features.
        vocabulary: the target's tokens it may guess, int64 (k,); None is all of them.
        norms: whether there are norms before the attention and after the layer, as in the target's own last layer.
    """

    def __init__(
        self,
        config: LlamaConfig,
        bias: bool,
        embedding: bool = False,
        accuracy: list[float] | None = None,
        vocabulary: Tensor | None = None,
        norms: bool = False,
    ) -> None:
        super().__init__()
        width = int(config.hidden_size)
        config._attn_implementation = "sdpa"
        self.config = config
        if embedding:
            self.embed_tokens = nn.Embedding(int(config.vocab_size), width)
        self.fc = nn.Linear(2 * width, width, bias=bias)
        layer = LlamaDecoderLayer(config, 0)
        if norms:
            self.norm = LlamaRMSNorm(width, eps=config.rms_norm_eps)
        else:
            layer.input_layernorm = nn.Identity()  # type: ignore[assignment]
        self.norms = self.normed = norms
        self.layers = nn.ModuleList([layer])
        self.accuracy = accuracy
        self.restrict(vocabulary)
        # in a tuple: its float32 angles must not be converted by `to(dtype)`
        self._rotary = (LlamaRotaryEmbedding(config),)

    def decoder_layers(self) -> list[Any]:
        return list(self.layers)

    def reads(self, embedded: Tensor, states: Tensor, step: int = 0) -> tuple[Tensor, Tensor]:
        rows: Tensor = self.fc(torch.cat((embedded, states), -1))
        return rows, rows

    def leave(self, states: Tensor) -> Tensor:
        return self.norm(states) if self.norms else states

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
        rows, _ = self.reads(self.embedded(tokens, embedding).to(states.dtype), states)
        guessed: Tensor = self.layers[0](
            rows,
            attention_mask=mask,
            position_ids=positions,
            use_cache=memory is not None,
            position_embeddings=self._rotary[0](rows, positions),
            **cached(self.layers[0], memory),
        )
        return self.leave(guessed)


def read(source: str, width: int, vocabulary: int, embedding_width: int) -> EagleHead:
    """Load a head for a target with hidden size `width`, `vocabulary` logits and input embeddings of that width.

    Raises:
        ModelError: with one sentence, if files are missing, pickled, damaged, of another kind of head, or made for
            another target.
    """
    config, tensors = layout.read(source, "eagle")
    name = layout.short(source)
    taken = layout.llama_entries(name, config, vocabulary) | {"hidden_size": width}
    if layout.number(name, config, "num_hidden_layers", 1) != 1:
        raise ModelError(f"'{name}' has {config['num_hidden_layers']} layers; an EAGLE head has one.")
    own = EMBEDDING in tensors
    if not own and embedding_width != width:
        raise ModelError(
            f"'{name}' shares the target's input embedding, which is {embedding_width:,} wide where its hidden states "
            f"are {width:,}. Load a head with embeddings of its own."
        )
    ids = draft_vocabulary.read(name, tensors, vocabulary)
    if (INPUT_NORM in tensors) != (NORM in tensors):
        raise ModelError(
            f"'{name}' holds no complete EAGLE head: of '{INPUT_NORM}' and '{NORM}' one is missing. Export it again."
        )
    bias, norms = "fc.bias" in tensors, NORM in tensors

    def made() -> EagleHead:
        return EagleHead(LlamaConfig(**taken), bias, own, layout.accuracy(config), ids, norms)

    head = layout.filled(name, "EAGLE head", tensors, made)
    head.tree_temperature = layout.tree_temperature(name, config)
    return head.requires_grad_(False).eval()


def write(
    folder: Path, head: EagleHead, target: str, notes: Mapping[str, Any], dtype: torch.dtype = torch.float16
) -> None:
    """Write a head in the published layout; `notes` are further entries of config.json, `target` the model's name."""
    config = {
        **layout.llama_written(head.config),
        "bias": head.fc.bias is not None,
        "base_model_name_or_path": target,
        **layout.measured(head.accuracy, head.tree_temperature),
        **notes,
    }
    layout.write(folder, config, head.state_dict(), FILE, dtype)
