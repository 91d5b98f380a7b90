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
from specdec_core.models.draft_vocabulary import Guessing
from specdec_core.runtime.kv import KVMemory

from . import layout

FILE = "model.safetensors"
EMBEDDING = "embed_tokens.weight"
ACCURACY = "specdec_accuracy"
_THIRD_GENERATION = ("t2d", "midlayer.", "lm_head.")
INPUT_NORM, NORM = "layers.0.input_layernorm.weight", "norm.weight"


SIZES = (  # the entries of a Llama configuration that define the layer
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim", "rms_norm_eps", "hidden_act", "attention_bias", "mlp_bias",
    "max_position_embeddings",
)  # fmt: skip


class EagleHead(Guessing):
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
        self.norms = norms
        self.layers = nn.ModuleList([layer])
        self.accuracy = accuracy
        self.restrict(vocabulary)
        # in a tuple: its float32 angles must not be converted by `to(dtype)`
        self._rotary = (LlamaRotaryEmbedding(config),)

    @property
    def own_embedding(self) -> bool:
        """Whether the head has input embeddings."""
        return hasattr(self, "embed_tokens")

    def forward(
        self,
        tokens: Tensor,
        features: Tensor,
        positions: Tensor,
        mask: Tensor | None,
        embedding: nn.Module,
        memory: KVMemory | None = None,
    ) -> Tensor:
        """The features that follow: rows (b, m) → (b, m, d).

        Args:
            tokens: int64 (b, m), each the token one place after its feature.
            features: (b, m, d), the target's hidden states or this head's guesses of them.
            positions: int64 (b, m), positions of the features in the text.
            mask: additive (b, 1, m, rows in memory + m); None means causal, without a memory.
            embedding: the target's input embedding, used where the head has none.
            memory: keys and values of earlier rows; the new rows are written after them.
        """
        own: nn.Module = self.embed_tokens if self.own_embedding else embedding
        rows = self.fc(torch.cat((own(tokens).to(features.dtype), features), -1))
        guessed: Tensor = self.layers[0](
            rows,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=memory,
            use_cache=memory is not None,
            position_embeddings=self._rotary[0](rows, positions),
        )
        return self.norm(guessed) if self.norms else guessed


def read(source: str, width: int, vocabulary: int, embedding_width: int) -> EagleHead:
    """Load a head for a target with hidden size `width`, `vocabulary` logits and input embeddings of that width.

    Raises:
        ModelError: with one sentence, if files are missing, pickled, damaged, of another generation, or made for
            another target.
    """
    config, tensors = layout.read(source, "EAGLE head", (FILE,))
    name = layout.short(source)
    newer = next((key for key in tensors if key.startswith(_THIRD_GENERATION)), None)
    if newer is not None:
        raise ModelError(
            f"'{name}' is an EAGLE-3 head (it holds '{newer}'): it reads states of three layers, and only the last "
            "layer's states are offered here. Choose an EAGLE-1 or -2 head."
        )
    layout.number(name, config, "hidden_size")
    layout.number(name, config, "num_attention_heads")
    layout.number(name, config, "intermediate_size")
    if layout.number(name, config, "num_hidden_layers", 1) != 1:
        raise ModelError(f"'{name}' has {config['num_hidden_layers']} layers; an EAGLE head has one.")
    own = EMBEDDING in tensors
    if not own and embedding_width != width:
        raise ModelError(
            f"'{name}' shares the target's input embedding, which is {embedding_width:,} wide where its hidden states "
            f"are {width:,}. Load a head with embeddings of its own."
        )
    taken = {
        key: config[key] for key in (*SIZES, "rope_theta", "rope_parameters", "rope_scaling") if key in config
    }
    taken |= {"vocab_size": vocabulary, "num_hidden_layers": 1, "hidden_size": width}
    ids = draft_vocabulary.read(name, tensors, vocabulary)
    if (INPUT_NORM in tensors) != (NORM in tensors):
        raise ModelError(
            f"'{name}' holds no complete EAGLE head: of '{INPUT_NORM}' and '{NORM}' one is missing. Export it again."
        )
    made: dict[str, Any] = {"bias": "fc.bias" in tensors, "embedding": own, "norms": NORM in tensors}
    try:
        with torch.device("meta"):  # shapes only, so that a hostile size allocates nothing
            wanted = EagleHead(LlamaConfig(**taken), **made).state_dict()
    except Exception as error:  # transformers raises many kinds of errors on a damaged configuration
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise ModelError(f"'{name}' has a damaged configuration: {reason}.") from None
    for key, tensor in wanted.items():
        if key not in tensors:
            raise ModelError(
                f"'{name}' holds no complete EAGLE head: '{key}' is missing. Fetch or export it again."
            )
        layout.fitting(name, key, tensors[key], tuple(tensor.shape))
    head = EagleHead(LlamaConfig(**taken), **made, accuracy=_accuracy(config), vocabulary=ids)
    head.load_state_dict({key: tensors[key] for key in head.state_dict()})
    return head.requires_grad_(False).eval()


def write(
    folder: Path, head: EagleHead, target: str, notes: Mapping[str, Any], dtype: torch.dtype = torch.float16
) -> None:
    """Write a head in the published layout; `notes` are further entries of config.json, `target` the model's name."""
    theta = rope_theta(head.config)
    config = {
        "model_type": "llama",
        **{key: getattr(head.config, key) for key in SIZES},
        "rope_theta": theta,  # both spellings: transformers 5 reads the second
        "rope_parameters": {"rope_type": "default", "rope_theta": theta},
        "bias": head.fc.bias is not None,
        "base_model_name_or_path": target,
        ACCURACY: head.accuracy,
        **notes,
    }
    layout.write(folder, config, head.state_dict(), FILE, dtype)


def rope_theta(config: Any) -> float:
    """The rotary base of a Llama-like configuration, 10,000 where it has none."""
    known = getattr(config, "rope_parameters", None) or {}
    return float(known.get("rope_theta") or getattr(config, "rope_theta", None) or 10_000.0)


def _accuracy(config: Mapping[str, Any]) -> list[float] | None:
    shares = config.get(ACCURACY)
    usable = isinstance(shares, list) and all(isinstance(share, int | float) for share in shares)
    return [float(share) for share in shares] if usable and isinstance(shares, list) else None
