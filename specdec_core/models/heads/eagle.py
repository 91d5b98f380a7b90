"""An EAGLE head (Li et al. 2024): one decoder layer that guesses the target's next hidden state instead of its token.

A row pairs token t + 1 with the target's hidden state ("feature") at t: both are joined by one matrix and go through
a Llama layer without the norm before its attention. The output approximates the feature at t + 1, which the target's
own output matrix turns into logits for token t + 2. A guessed feature can be fed back to go one token further.

Published files name the weights `fc.weight` (perhaps `fc.bias`), `layers.0.…` and `embed_tokens.weight`, beside the
config.json of a Llama model; all may be below `model.`, and files converted for vLLM keep the configuration below
`model` and may bring an output matrix `lm_head.weight`. A file without `embed_tokens` shares the target's input
embedding. Heads trained here may have three more parts: a draft vocabulary (`d2t`, see `draft_vocabulary`), the norm
before the attention (`layers.0.input_layernorm.weight`) and one after the layer (`norm.weight`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRMSNorm, LlamaRotaryEmbedding

from specdec_core.foundations.errors import ModelError
from specdec_core.models.tokens import draft_vocabulary

from .continuing import Continuing
from .layouts import files, measured, shapes
from .target import Target, filled, own_copy

FILE = "model.safetensors"
EMBEDDING, OUTPUT, LAYER = "embed_tokens.weight", "lm_head.weight", "layers.0."
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
        output: whether it has its own output matrix, (V, d); else the target's is used.
        tensors: names in its file, which say whether the layer has biases and norms of queries and keys.
    """

    def __init__(
        self,
        config: LlamaConfig,
        bias: bool,
        embedding: bool = False,
        accuracy: list[float] | None = None,
        vocabulary: Tensor | None = None,
        norms: bool = False,
        output: bool = False,
        tensors: Collection[str] = (),
    ) -> None:
        super().__init__()
        width = int(config.hidden_size)
        config._attn_implementation = "sdpa"
        self.config = config
        if embedding:
            self.embed_tokens = nn.Embedding(int(config.vocab_size), width)
        self.fc = nn.Linear(2 * width, width, bias=bias)
        layer = shapes.decoder_layer(config, 0, tensors, LAYER)
        if norms:
            self.norm = LlamaRMSNorm(width, eps=config.rms_norm_eps)
        else:
            layer.input_layernorm = nn.Identity()  # type: ignore[assignment]
        self.norms = self.normed = norms
        self.layers = nn.ModuleList([layer])
        if output:
            self.lm_head = nn.Linear(width, int(config.vocab_size), bias=False)
        self.accuracy = accuracy
        self.restrict(vocabulary)
        # in a tuple: its float32 angles must not be converted by `to(dtype)`
        self._rotary = (LlamaRotaryEmbedding(config),)

    def passes(self) -> list[list[Any]]:
        return [list(self.layers)]

    def reads(self, embedded: Tensor, states: Tensor, step: int = 0) -> tuple[Tensor, Tensor]:
        rows: Tensor = self.fc(torch.cat((embedded, states), -1))
        return rows, rows

    def leave(self, states: Tensor, step: int = 0) -> Tensor:
        return self.norm(states) if self.norms else states


def read(source: str, target: Target) -> EagleHead:
    """Load a head for a target.

    Raises:
        ModelError: with one sentence, if files are missing, pickled, damaged, of another kind of head, or made for
            another target, or hold something that is not computed here.
    """
    contents = files.read(source, "eagle")
    name, config = contents.name, contents.config
    if "model.fc.weight" in contents:
        contents.rename(lambda key: key.removeprefix("model."))
    if "fusion_fc.weight" in contents:
        raise ModelError(
            f"'{name}' holds an EAGLE head with 'fusion_fc.weight' where 'fc.weight' is read here, in a layout that is "
            "not known. Export it in that of SafeAILab's code."
        )
    if "fc.weight" not in contents:
        raise ModelError(
            f"'{name}' holds no EAGLE head: it has no weight 'fc.weight'. Choose another folder or hub id."
        )
    shape = shapes.layer_config(contents, target.vocabulary)
    if shape.num_hidden_layers != 1:
        raise ModelError(f"'{name}' has {shape.num_hidden_layers} layers; an EAGLE head has one.")
    shape.hidden_size = target.width
    if config.get("truncated_vocab_size") not in (None, target.vocabulary):
        raise shapes.unsupported(name, "truncated_vocab_size", config["truncated_vocab_size"])
    own = own_copy(contents, EMBEDDING, target.embedding)
    if not own:
        target.check_embeds(name, target.width)
    ids = draft_vocabulary.read(name, contents, target.vocabulary)
    if (INPUT_NORM in contents) != (NORM in contents):
        raise ModelError(
            f"'{name}' holds no complete EAGLE head: of '{INPUT_NORM}' and '{NORM}' one is missing. Export it again."
        )
    bias, norms = "fc.bias" in contents, NORM in contents
    _check_bias(
        name,
        bias,
        [config.get("bias"), config.get("eagle_fc_bias"), shapes.layer_entries(contents).get("bias")],
    )
    output = own_copy(contents, OUTPUT, target.output)

    def made() -> EagleHead:
        return EagleHead(shape, bias, own, measured.accuracy(config), ids, norms, output, contents)

    head: EagleHead = filled(contents, "EAGLE head", made)
    head.tree_temperature = measured.tree_temperature(name, config)
    contents.finish()
    return head


def _check_bias(name: str, has: bool, announced: list[Any]) -> None:
    """Refuse a file that lacks the joining matrix's bias though its configuration announces one."""
    if True in announced and not has:
        raise ModelError(
            f"'{name}' holds no complete EAGLE head: its config.json announces a bias and 'fc.bias' is missing. Fetch "
            "or export it again."
        )


def write(
    folder: Path, head: EagleHead, target: str, notes: Mapping[str, Any], dtype: torch.dtype = torch.float16
) -> None:
    """Write a head in the published layout; `notes` are further entries of config.json, `target` the model's name."""
    config = {
        **shapes.written(head.config),
        "bias": head.fc.bias is not None,
        "base_model_name_or_path": target,
        **measured.written(head.accuracy, head.tree_temperature),
        **notes,
    }
    files.write(folder, config, head.state_dict(), FILE, dtype)
