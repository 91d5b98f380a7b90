"""An EAGLE-3 head (Li et al. 2025): one or more decoder layers that read states of several of the target's layers.

`fc` joins these states at place t. The first layer reads, side by side, the norm of the
token at t + 1 and the norm of that joined state, and adds what it finds to the state. It is trained to guess tokens,
not states, on its own outputs over several steps, so its output may be fed back in place of a joined state.

Published files name the weights `fc.weight`, `midlayer.…` (or `layers.0.…`), `norm.weight`, `lm_head.weight` over a
draft vocabulary (`d2t`, see `draft_vocabulary`; `t2d` says the same from the target's side), and perhaps
`embed_tokens.weight`; without it the target's input embedding is shared. EAGLE-3.1 norms what `fc` reads, each state
(`fc_norm.0.weight` …) or all joined (`input_norm.weight`), and may feed the normed state back. Which layers are read is
said in two ways, see `layers_read`. Read are the layouts of SafeAILab's code, SpecForge 0.2, speculators 0.9, DeepSpec.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm, LlamaRotaryEmbedding

from specdec_core.foundations.errors import ModelError
from specdec_core.models.tokens import draft_vocabulary

from .continuing import Continuing
from .layouts import files, measured, shapes
from .layouts.contents import NOT_GUESSED_WITH, Contents
from .layouts.layers_read import LAYERS, MAX_LAYERS_READ, layers_read
from .target import Target, filled, own_copy

FILE = "model.safetensors"
EMBEDDING, OUTPUT = "embed_tokens.weight", "lm_head.weight"

# what is normed before `fc`
Entering = Literal["", "each", "joined"]
# where the last norm is: before the output matrix, before the state is fed back too, or nowhere
Leaving = Literal["guess", "state", ""]


class MidLayer(LlamaDecoderLayer):
    """A Llama layer whose attention reads the token's embedding beside the state, both normed."""

    def __init__(self, config: LlamaConfig, norm_first: bool, tensors: Collection[str] = ()) -> None:
        super().__init__(config, 0)
        width = int(config.hidden_size)
        made = shapes.decoder_layer(config, 0, tensors, "midlayer.")
        self.self_attn, self.mlp = made.self_attn, made.mlp
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


class Eagle3Head(Continuing):
    """The head; its state dict is the published one, without `t2d`.

    Args:
        config: sizes of its layers, as of a Llama model.
        joined: width of the joined states, of one target usually three times its width.
        layers: the target's layers whose inputs are joined; as many as it has: what the last returns.
        embedding: whether it has its own input embeddings, (V, d); else the target's are used.
        vocabulary: the target's tokens it may guess, int64 (k,); None is all of them.
        norm_first: whether the first layer's result is added to the normed state.
        accuracy: measured shares of right guesses by rank, for the next token after true states.
        entering: which norms are before `fc`.
        leaving: what the last norm is for.
        output: whether it has its own output matrix, (k, d); else the target's is used.
        tensors: names in its file, which say whether layers and `fc` have biases and norms of queries and keys.
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
        entering: Entering = "",
        leaving: Leaving = "guess",
        output: bool = True,
        tensors: Collection[str] = (),
    ) -> None:
        super().__init__()
        width, eps = int(config.hidden_size), config.rms_norm_eps
        config._attn_implementation = "sdpa"
        self.config, self.layers_read, self.accuracy = config, layers, accuracy
        self.entering, self.leaving = entering, leaving
        if embedding:
            self.embed_tokens = nn.Embedding(int(config.vocab_size), width)
        if entering == "each":
            self.fc_norm = nn.ModuleList(LlamaRMSNorm(joined // len(layers), eps=eps) for _ in layers)
        elif entering == "joined":
            self.input_norm = LlamaRMSNorm(joined, eps=eps)
        self.fc = nn.Linear(joined, width, bias="fc.bias" in tensors)
        self.midlayer = MidLayer(config, norm_first, tensors)
        count = int(config.num_hidden_layers)
        self.layers = nn.ModuleDict(
            {str(at): shapes.decoder_layer(config, at, tensors, f"layers.{at}.") for at in range(1, count)}
        )
        if leaving:
            self.norm = LlamaRMSNorm(width, eps=eps)
        if output:
            guesses = int(config.vocab_size) if vocabulary is None else len(vocabulary)
            self.lm_head = nn.Linear(width, guesses, bias=False)
        self.restrict(vocabulary)
        # in a tuple: its float32 angles must not be converted by `to(dtype)`
        self._rotary = (LlamaRotaryEmbedding(config),)
        self.normed = False  # `reads` norms both halves

    def enter(self, states: Tensor) -> Tensor:
        if self.entering == "joined":
            states = self.input_norm(states)
        elif self.entering == "each":
            parts = states.chunk(len(self.fc_norm), -1)
            states = torch.cat([norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)], -1)
        joined: Tensor = self.fc(states)
        return joined

    def leave(self, states: Tensor, step: int = 0) -> Tensor:
        return self.norm(states) if self.leaving == "state" else states

    def guess(self, states: Tensor, output: nn.Module, step: int = 0) -> Tensor:
        logits: Tensor = output(self.norm(states) if self.leaving == "guess" else states)
        return logits

    def passes(self) -> list[list[Any]]:
        return [[self.midlayer, *self.layers.values()]]

    def reads(self, embedded: Tensor, states: Tensor, step: int = 0) -> tuple[Tensor, Tensor]:
        return self.midlayer.reads(embedded, states)

    def first(self, layer: Any, rows: Tensor, onto: Tensor, **attention: Any) -> Tensor:
        found: Tensor = layer.finish(onto, layer.self_attn(hidden_states=rows, **attention)[0])
        return found

    def angles(self, rows: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """cos and sin of these positions int64 (b, m)."""
        found: tuple[Tensor, Tensor] = self._rotary[0](rows, positions)
        return found


def read(source: str, target: Target) -> Eagle3Head:
    """Load a head for a target.

    Raises:
        ModelError: with one sentence, if files are missing, pickled, damaged, or made for another target, or hold
            something that is not computed here.
    """
    contents = files.read(source, "eagle3")
    name, config = contents.name, contents.config
    if "model.fc.weight" in contents:
        contents.rename(lambda key: key.removeprefix("model."))
    if "midlayer.self_attn.q_proj.weight" not in contents and "layers.0.hidden_norm.weight" not in contents:
        raise ModelError(
            f"'{name}' holds no whole EAGLE-3 head: it has neither 'midlayer.…' weights nor "
            "'layers.0.hidden_norm.weight'. Choose another folder or hub id."
        )
    contents.rename(
        lambda key: key.replace("layers.0.", "midlayer.", 1) if key.startswith("layers.0.") else key
    )
    contents.skip(*NOT_GUESSED_WITH)
    shape = shapes.layer_config(contents, target.vocabulary)
    _check_count(contents, shape)
    width, layers = int(shape.hidden_size), layers_read(contents, target.layers)
    for key, size in (("target_hidden_size", target.width), ("num_target_layers", target.layers)):
        if (stated := config.get(key)) not in (None, size):
            raise ModelError(
                f"'{name}' does not fit this target: '{key}' in its config.json is {stated!r}, and the target's is "
                f"{size:,}. Load the head that was trained for it."
            )
    own = own_copy(contents, EMBEDDING, target.embedding)
    if not own:
        target.check_embeds(name, width)
    ids = draft_vocabulary.read(name, contents, target.vocabulary)
    output = _has_output(contents, ids, target)
    entering, leaving = _entering(contents), _leaving(contents)
    # vLLM reads a missing entry so in the first layout, and as false in the others
    first = config.get("norm_before_residual", contents.maker == "speculators") is True

    def made() -> Eagle3Head:
        return Eagle3Head(
            shape, len(layers) * target.width, layers, own, ids, first, measured.accuracy(config), entering, leaving,
            output, contents,
        )  # fmt: skip

    head: Eagle3Head = filled(contents, "EAGLE-3 head", made)
    head.tree_temperature = measured.tree_temperature(name, config)
    contents.finish()
    return head


def write(
    folder: Path, head: Eagle3Head, target: str, notes: Mapping[str, Any], dtype: torch.dtype = torch.float16
) -> None:
    """Write a head in the published layout; `notes` are further entries of config.json, `target` the model's name.

    The layers are named as vLLM and speculators count them and as SGLang and SpecForge do, each under the key that it
    looks for first.
    """
    ids, size = head.vocabulary, int(head.config.vocab_size)
    tensors = dict(head.state_dict())
    if ids is not None:
        tensors["t2d"] = torch.zeros(size, dtype=torch.bool).index_fill_(0, ids.cpu(), True)
    read_layers = list(head.layers_read)
    returned = {LAYERS: [layer - 1 for layer in read_layers]} if min(read_layers) > 0 else {}
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        **shapes.written(head.config),
        "draft_vocab_size": size if ids is None else len(ids),
        "tie_word_embeddings": False,
        "norm_before_residual": head.midlayer.norm_first,
        LAYERS: read_layers,
        "num_aux_hidden_states": len(read_layers),
        "eagle_config": returned | {"use_aux_hidden_state": True},
        "base_model_name_or_path": target,
        **measured.written(head.accuracy, head.tree_temperature),
        **notes,
    }
    files.write(folder, config, tensors, FILE, dtype)


def _check_count(contents: Contents, shape: LlamaConfig) -> None:
    """Set the number of layers to that in the file, and refuse a configuration that says another.

    Raises:
        ModelError: naming both.
    """
    entries = shapes.layer_entries(contents)
    numbers = {
        int(key.split(".")[1])
        for key in contents
        if key.startswith("layers.") and key.split(".")[1].isdigit()
    }
    count = 1 + len(numbers)
    stated = {entries.get("num_hidden_layers", count), contents.config.get("draft_num_hidden_layers", count)}
    if numbers != set(range(1, count)) or count > MAX_LAYERS_READ or stated != {count}:
        raise ModelError(
            f"'{contents.name}' holds no complete EAGLE-3 head: 'num_hidden_layers' is "
            f"{repr(entries.get('num_hidden_layers'))[:60]} in its config.json, and its file has {count}. Export it "
            "again."
        )
    shape.num_hidden_layers = count


def _has_output(contents: Contents, ids: Tensor | None, target: Target) -> bool:
    """Whether there is an output matrix in the file; without one, as vLLM reads it, the target's is used."""
    name, config = contents.name, contents.config
    stated, guesses = config.get("draft_vocab_size"), target.vocabulary if ids is None else len(ids)
    rows = contents.shape(OUTPUT)[0] if OUTPUT in contents else guesses
    if rows != guesses and ids is None:
        raise ModelError(
            f"'{name}' guesses {rows:,} tokens by '{OUTPUT}', and neither 'd2t' nor 't2d' says which of the target's "
            f"{guesses:,} they are. Export it with its draft vocabulary."
        )
    if isinstance(stated, int) and stated != rows and ids is not None:
        raise shapes.unsupported(name, "draft_vocab_size", stated)
    if OUTPUT not in contents and config.get("tie_word_embeddings") is True and EMBEDDING in contents:
        raise shapes.unsupported(name, "tie_word_embeddings", True)
    return OUTPUT in contents


def _entering(contents: Contents) -> Entering:
    """The norms before `fc`, by the file; a configuration that announces other ones is refused.

    Raises:
        ModelError: naming the entry.
    """
    config, inner = contents.config, contents.config.inner("eagle_config")
    each, joined = "fc_norm.0.weight" in contents, "input_norm.weight" in contents
    before = [inner.get("norm_before_fc"), config.get("norm_before_fc")]
    announced = (("fc_norm", [config.get("fc_norm")], each), ("norm_before_fc", before, joined))
    for key, values, found in announced:
        if True in values and not found:
            weight = "fc_norm.0.weight" if key == "fc_norm" else "input_norm.weight"
            raise ModelError(
                f"'{contents.name}' holds no complete EAGLE-3 head: '{weight}' is missing, which '{key}' in its "
                "config.json announces. Fetch or export it again."
            )
    return "each" if each else "joined" if joined else ""


def _leaving(contents: Contents) -> Leaving:
    """What the last norm is for.

    `norm_output` means two things. For speculators, vLLM and SGLang, true feeds the normed state back, and false is
    usual; for SpecForge's own class, false leaves the norm before the output matrix out, and true is usual. Outside
    speculators' layout each value is read as the maker means it for whom it is not the usual one.
    """
    value = contents.config.get("norm_output")
    if value is True:
        return "state"
    if value is False and contents.maker == "":
        contents.skip("norm.weight")
        return ""
    return "guess"
