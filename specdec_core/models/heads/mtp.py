"""Multi-token-prediction modules, as DeepSeek-V3 (2024) trains and publishes them.

Module k reads, for each place, the state of the module before it (the first one: the target's) and the embedding of
the token k places on, each through a norm of its own, joined by one matrix; a decoder layer follows. Its result,
through a last norm and the target's own output matrix, guesses the next token. Embedding and output matrix are the
target's, so copies of them in a file are not read.

Published files number the modules on from the target's layers: `model.layers.61.enorm.weight`, `….hnorm.weight`,
`….eh_proj.weight`, `….shared_head.norm.weight`, and the layer's own weights beside them. The layer is read if it is
Llama's; latent attention (MLA) and experts, as in DeepSeek's own models, are refused.
"""

from __future__ import annotations

import re
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
COUNT = "num_nextn_predict_layers"
_PLACE = re.compile(r"(?:model\.)?layers\.(\d+)\.(.+)")
_SHARED = ("embed_tokens.weight", "shared_head.head.weight")  # copies of the target's
_FOREIGN = {"kv_a_proj_with_mqa": "latent attention (MLA)", "mlp.experts": "experts", "mlp.gate.": "experts"}


class Module(LlamaDecoderLayer):
    """One module; the keys of its state dict are the published ones after `model.layers.61.`."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config, 0)
        width, eps = int(config.hidden_size), config.rms_norm_eps
        self.enorm, self.hnorm = LlamaRMSNorm(width, eps=eps), LlamaRMSNorm(width, eps=eps)
        self.eh_proj = nn.Linear(2 * width, width, bias=False)
        self.shared_head = nn.ModuleDict({"norm": LlamaRMSNorm(width, eps=eps)})

    def reads(self, embedded: Tensor, states: Tensor) -> Tensor:
        """The layer's input: embeddings and states (…, d) → (…, d)."""
        joined: Tensor = self.eh_proj(torch.cat((self.enorm(embedded), self.hnorm(states)), -1))
        return joined


class MtpModules(Continuing):
    """All modules of a target.

    Args:
        config: sizes of their layers, as of a Llama model.
        count: how many modules.
        vocabulary: the target's tokens they may guess, int64 (k,); None is all of them.
        accuracy: measured shares of right guesses by rank, for the first module.
    """

    def __init__(
        self,
        config: LlamaConfig,
        count: int,
        vocabulary: Tensor | None = None,
        accuracy: list[float] | None = None,
    ) -> None:
        super().__init__()
        config._attn_implementation = "sdpa"
        self.config, self.modules_chained, self.accuracy = config, count, accuracy
        self.layers = nn.ModuleList(Module(config) for _ in range(count))
        self.restrict(vocabulary)
        # in a tuple: its float32 angles must not be converted by `to(dtype)`
        self._rotary = (LlamaRotaryEmbedding(config),)

    def decoder_layers(self) -> list[Any]:
        return list(self.layers)

    def reads(self, embedded: Tensor, states: Tensor, step: int = 0) -> tuple[Tensor, Tensor]:
        module: Any = self.layers[step]
        rows: Tensor = module.reads(embedded, states)
        return rows, rows

    def guess(self, states: Tensor, output: nn.Module, step: int = 0) -> Tensor:
        module: Any = self.layers[step]
        logits: Tensor = output(module.shared_head["norm"](states))
        return logits

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
        module: Any = self.layers[step]
        rows, _ = self.reads(self.embedded(tokens, embedding).to(states.dtype), states, step)
        guessed: Tensor = module(
            rows,
            attention_mask=mask,
            position_ids=positions,
            use_cache=memory is not None,
            position_embeddings=self._rotary[0](rows, positions),
            **cached(module, memory),
        )
        return guessed


def read(source: str, width: int, vocabulary: int, embedding_width: int) -> MtpModules:
    """Load the modules for a target with hidden size `width`, `vocabulary` logits and input embeddings of that width.

    Raises:
        ModelError: with one sentence, if files are missing, pickled, damaged, of a layer that is not Llama's, or made
            for another target.
    """
    config, stored = layout.read(source, "mtp")
    name = layout.short(source)
    tensors, count = _numbered(name, config, stored)
    if embedding_width != width:
        raise ModelError(
            f"'{name}' shares the target's input embedding, which is {embedding_width:,} wide where its hidden states "
            f"are {width:,}: its modules were made for another target."
        )
    taken = layout.llama_entries(name, config, vocabulary) | {"hidden_size": width}
    ids = draft_vocabulary.read(name, tensors, vocabulary)

    def made() -> MtpModules:
        return MtpModules(LlamaConfig(**taken), count, ids, layout.accuracy(config))

    modules = layout.filled(name, "MTP modules", tensors, made)
    modules.tree_temperature = layout.tree_temperature(name, config)
    return modules.requires_grad_(False).eval()


def write(
    folder: Path,
    modules: MtpModules,
    target: str,
    target_layers: int,
    notes: Mapping[str, Any],
    dtype: torch.dtype = torch.float16,
) -> None:
    """Write modules in the published layout, numbered on from the target's layers; `notes` are further entries of
    config.json, `target` the model's name."""
    tensors = {}
    for key, tensor in modules.state_dict().items():
        found = _PLACE.fullmatch(key)
        tensors[f"model.layers.{target_layers + int(found[1])}.{found[2]}" if found else key] = tensor
    config = {
        **layout.llama_written(modules.config),
        "num_hidden_layers": target_layers,
        COUNT: modules.modules_chained,
        "base_model_name_or_path": target,
        **layout.measured(modules.accuracy, modules.tree_temperature),
        **notes,
    }
    layout.write(folder, config, tensors, FILE, dtype)


def _numbered(
    name: str, config: Mapping[str, Any], stored: Mapping[str, Tensor]
) -> tuple[dict[str, Tensor], int]:
    """The modules' tensors, numbered from 0, and how many modules there are; a whole model may be in the file."""
    placed = {key: _PLACE.fullmatch(key) for key in stored}
    numbers = sorted({int(at[1]) for at in placed.values() if at and at[2] == "enorm.weight"})
    if not numbers:
        raise ModelError(
            f"'{name}' holds no MTP modules: it has no weight named 'model.layers.….enorm.weight'. Choose another "
            "folder or hub id."
        )
    count = layout.number(name, config, COUNT, len(numbers), most=layout.MOST)
    if count > len(numbers):
        raise ModelError(
            f"'{name}' holds no complete MTP modules: its config.json announces {count} and there are "
            f"{len(numbers)}. Fetch or export them again."
        )
    tensors = {key: stored[key] for key in (draft_vocabulary.KEY,) if key in stored}
    for key, at in placed.items():
        if at is None or int(at[1]) not in numbers[:count] or at[2] in _SHARED:
            continue
        foreign = next((words for part, words in _FOREIGN.items() if part in at[2]), None)
        if foreign:
            raise ModelError(
                f"'{name}' has MTP modules with {foreign}, and only modules with Llama's attention and feed-forward "
                "layer are computed here. Choose another proposer."
            )
        tensors[f"layers.{numbers.index(int(at[1]))}.{at[2]}"] = stored[key]
    return tensors, count
