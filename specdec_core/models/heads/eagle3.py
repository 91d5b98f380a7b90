"""An EAGLE-3 head (Li et al. 2025): one decoder layer that reads states of several of the target's layers.

`fc` joins these states at place t. The layer reads, side by side, the norm of the
token at t + 1 and the norm of that joined state, and adds what it finds to the state. It is trained to guess tokens,
not states, on its own outputs over several steps, so its output may be fed back in place of a joined state.

Published files name the weights `fc.weight`, `midlayer.…` (or `layers.0.…`), `norm.weight`, `lm_head.weight` over a
draft vocabulary (`d2t`, see `draft_vocabulary`; `t2d` says the same from the target's side), and perhaps
`embed_tokens.weight`; without it the target's input embedding is shared. Which layers are read:
`eagle_config.eagle_aux_hidden_state_layer_ids` in config.json, else the published choice 2, n / 2 and n − 3 of n;
state i is what layer i reads, state n what the last one returns, before the final norm.
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
LAYERS = "eagle_aux_hidden_state_layer_ids"
_UNREAD = ("t2d", "verifier_lm_head.weight", "verifier_norm.weight")  # copies of what is known


class MidLayer(LlamaDecoderLayer):
    """A Llama layer whose attention reads the token's embedding beside the state, both normed."""

    def __init__(self, config: LlamaConfig, norm_first: bool) -> None:
        super().__init__(config, 0)
        width = int(config.hidden_size)
        for name in ("q_proj", "k_proj", "v_proj"):
            old = getattr(self.self_attn, name)
            wide = nn.Linear(2 * width, old.out_features, bias=old.bias is not None)
            setattr(self.self_attn, name, wide)
        self.hidden_norm = LlamaRMSNorm(width, eps=config.rms_norm_eps)
        self.norm_first = norm_first

    def reads(self, embedded: Tensor, states: Tensor) -> tuple[Tensor, Tensor]:
        """What the attention reads, (…, 2 d), and what its result is added to, (…, d)."""
        normed = self.hidden_norm(states)
        return torch.cat((self.input_layernorm(embedded), normed), -1), normed if self.norm_first else states

    def finish(self, states: Tensor, mixed: Tensor) -> Tensor:
        """The rest of the layer, after the attention's result `mixed`."""
        states = states + mixed
        found: Tensor = states + self.mlp(self.post_attention_layernorm(states))
        return found

    def forward(self, embedded: Tensor, states: Tensor, **attention: Any) -> Tensor:  # type: ignore[override]
        """The states that follow: two of (b, m, d) → (b, m, d)."""
        rows, onto = self.reads(embedded, states)
        return self.finish(onto, self.self_attn(hidden_states=rows, **attention)[0])


class Eagle3Head(Continuing):
    """The head; its state dict is the published one, without `t2d`.

    Args:
        config: sizes of the layer, as of a Llama model.
        joined: width of the joined states, three times the target's.
        layers: the target's layers whose inputs are joined; as many as it has: what the last returns.
        embedding: whether it has its own input embeddings, (V, d); else the target's are used.
        vocabulary: the target's tokens it may guess, int64 (k,); None is all of them.
        norm_first: whether the layer's result is added to the normed state.
        accuracy: measured shares of right guesses by rank, for the next token after true states.
    """

    def __init__(
        self,
        config: LlamaConfig,
        joined: int,
        layers: tuple[int, ...],
        embedding: bool = False,
        vocabulary: Tensor | None = None,
        norm_first: bool = False,
        accuracy: list[float] | None = None,
    ) -> None:
        super().__init__()
        width = int(config.hidden_size)
        config._attn_implementation = "sdpa"
        self.config, self.layers_read, self.accuracy = config, layers, accuracy
        if embedding:
            self.embed_tokens = nn.Embedding(int(config.vocab_size), width)
        self.fc = nn.Linear(joined, width, bias=False)
        self.midlayer = MidLayer(config, norm_first)
        self.norm = LlamaRMSNorm(width, eps=config.rms_norm_eps)
        guesses = int(config.vocab_size) if vocabulary is None else len(vocabulary)
        self.lm_head = nn.Linear(width, guesses, bias=False)
        self.restrict(vocabulary)
        # in a tuple: its float32 angles must not be converted by `to(dtype)`
        self._rotary = (LlamaRotaryEmbedding(config),)
        self.normed = False  # `reads` norms both halves

    def output(self, target: nn.Module) -> nn.Module:
        """Its own output matrix."""
        return self.lm_head

    def enter(self, states: Tensor) -> Tensor:
        joined: Tensor = self.fc(states)
        return joined

    def guess(self, states: Tensor, output: nn.Module, step: int = 0) -> Tensor:
        logits: Tensor = output(self.norm(states))
        return logits

    def decoder_layers(self) -> list[Any]:
        return [self.midlayer]

    def reads(self, embedded: Tensor, states: Tensor, step: int = 0) -> tuple[Tensor, Tensor]:
        return self.midlayer.reads(embedded, states)

    def angles(self, rows: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin of these positions int64 (b, m)."""
        found: tuple[Tensor, Tensor] = self._rotary[0](rows, positions)
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
        embedded = self.embedded(tokens, embedding).to(states.dtype)
        guessed: Tensor = self.midlayer(
            embedded,
            states,
            attention_mask=mask,
            position_embeddings=self.angles(states, positions),
            **cached(self.midlayer.self_attn, memory),
        )
        return guessed


def read(source: str, width: int, vocabulary: int, embedding_width: int, target_layers: int) -> Eagle3Head:
    """Load a head for a target with hidden size `width`, `vocabulary` logits and so many layers.

    Raises:
        ModelError: with one sentence, if files are missing, pickled, damaged, or made for another target.
    """
    config, tensors = layout.read(source, "eagle3")
    name = layout.short(source)
    if "midlayer.self_attn.q_proj.weight" not in tensors and "layers.0.hidden_norm.weight" not in tensors:
        raise ModelError(
            f"'{name}' holds no whole EAGLE-3 head: it has no 'midlayer.…' weights. Choose another folder or hub id."
        )
    tensors = {
        key.removeprefix("model.").replace("layers.0.", "midlayer.", 1): tensor
        for key, tensor in tensors.items()
        if key not in _UNREAD
    }
    taken = layout.llama_entries(name, config, vocabulary)
    own = "embed_tokens.weight" in tensors
    if not own and embedding_width != taken["hidden_size"]:
        raise ModelError(
            f"'{name}' shares the target's input embedding, which is {embedding_width:,} wide, and the head is "
            f"{taken['hidden_size']:,} wide. Load a head with embeddings of its own."
        )
    layers = _layers(name, config, target_layers)
    ids = draft_vocabulary.read(name, tensors, vocabulary)

    def made() -> Eagle3Head:
        first = config.get("norm_before_residual") is True
        return Eagle3Head(
            LlamaConfig(**taken), len(layers) * width, layers, own, ids, first, layout.accuracy(config)
        )

    head = layout.filled(name, "EAGLE-3 head", tensors, made)
    head.tree_temperature = layout.tree_temperature(name, config)
    return head.requires_grad_(False).eval()


def usual_layers(count: int) -> tuple[int, ...]:
    """The published choice of a low, a middle and a high one of so many layers."""
    return 2, count // 2, count - 3


def write(
    folder: Path, head: Eagle3Head, target: str, notes: Mapping[str, Any], dtype: torch.dtype = torch.float16
) -> None:
    """Write a head in the published layout; `notes` are further entries of config.json, `target` the model's name."""
    ids, size = head.vocabulary, int(head.config.vocab_size)
    tensors = dict(head.state_dict())
    if ids is not None:
        tensors["t2d"] = torch.zeros(size, dtype=torch.bool).index_fill_(0, ids.cpu(), True)
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        **layout.llama_written(head.config),
        "draft_vocab_size": size if ids is None else len(ids),
        "tie_word_embeddings": False,
        "norm_before_residual": head.midlayer.norm_first,
        "eagle_config": {LAYERS: list(head.layers_read), "use_aux_hidden_state": True},
        "base_model_name_or_path": target,
        **layout.measured(head.accuracy, head.tree_temperature),
        **notes,
    }
    layout.write(folder, config, tensors, FILE, dtype)


def _layers(name: str, config: Mapping[str, Any], count: int) -> tuple[int, ...]:
    """The layers whose inputs are read, of a target with `count`."""
    inner = config.get("eagle_config")
    found = inner.get(LAYERS) if isinstance(inner, dict) else None
    found = found if found is not None else config.get(LAYERS)
    layers = usual_layers(count) if found is None else found
    usable = isinstance(layers, list | tuple) and all(
        isinstance(one, int) and not isinstance(one, bool) and 0 <= one <= count for one in layers
    )
    if not usable or not 1 <= len(layers) <= layout.MOST:
        raise ModelError(
            f"'{name}' does not fit this target: it reads the inputs of the layers {repr(layers)[:60]} and the target "
            f"has {count}. Load the head that was trained for it."
        )
    return tuple(layers)
