"""Multi-token-prediction modules, as DeepSeek-V3 (2024) trains them and the makers of several targets publish them.

Module k reads, for each place, the state of the module before it (the first one: the target's) and the embedding of
the token k places on, each through a norm of its own, joined by one matrix; a decoder layer follows. Its result,
through a last norm and the target's own output matrix, guesses the next token.

The names tell the maker (`NAMES`). DeepSeek and GLM number modules on from the target's layers,
`model.layers.61.enorm.weight`, and pass a module's result on before its last norm; Qwen's `mtp.…` and MiMo's
`model.mtp_layers.0.…` pass it on after that norm; MiMo joins the state before the embedding, reads the target's
before its final norm, and reads no embedding at position 0 (Xiaomi's code in vLLM). Files of speculators
name MiMo's parts without `model.` and join in the usual order. Modules may be in the target's own folder, in shards.
Copies of the target's embedding and output matrix are compared; others are used in their place. The layer is read if it
is Llama's, Qwen2's, Qwen3's, or the gated one of Qwen3-Next and Qwen3.5; latent attention (MLA) and experts, as in
DeepSeek's own models, are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm, LlamaRotaryEmbedding

from specdec_core.foundations.errors import ModelError
from specdec_core.models.tokens import draft_vocabulary

from .continuing import Continuing
from .layouts import files, kinds, measured, shapes
from .layouts.contents import NOT_GUESSED_WITH, Contents
from .mtp_joining import Joining
from .mtp_names import NAMES, PLACE, Names
from .target import Target, filled, own_copy

FILE = "model.safetensors"
COUNT = "num_nextn_predict_layers"
MAX_MTP_MODULES = 64  # modules that a configuration may ask for
COUNTS = (COUNT, "num_mtp_layers", "mtp_num_hidden_layers", "mtp_num_layers")
_FOREIGN = {"kv_a_proj_with_mqa": "latent attention (MLA)", "mlp.experts": "experts", "mlp.gate.": "experts"}
EMBEDDING, OUTPUT = "embed_tokens.weight", "shared_head.head.weight"  # of the target, or a module's own


class MtpModule(Joining, LlamaDecoderLayer):
    """A module with Llama's layer, perhaps with biases and norms of queries and keys."""

    def __init__(
        self,
        config: LlamaConfig,
        states_first: bool = False,
        tensors: Collection[str] = (),
        prefix: str = "",
    ) -> None:
        super().__init__(config, 0)
        made = shapes.decoder_layer(config, 0, tensors, prefix)
        self.self_attn, self.mlp = made.self_attn, made.mlp
        self.join(config, LlamaRMSNorm, states_first)


GATED = (
    "qwen3_5_text",
    "qwen3_next",
)  # types of targets whose modules have layers of their own kind, see `gated`


class MtpModules(Continuing):
    """All modules of a target.

    Args:
        config: sizes of their layers, as of a Llama model, or of one that `GATED` names.
        count: how many modules.
        vocabulary: the target's tokens they may guess, int64 (k,); None is all of them.
        accuracy: measured shares of right guesses by rank, for the first module.
        names: how their maker joins and passes on states.
        embedding: whether they have their own input embeddings, (V, d); else the target's are used.
        output: whether they have their own output matrix, (V, d); else the target's is used.
        tensors: names in their file, which say whether layers have biases and norms of queries and keys.
    """

    def __init__(
        self,
        config: Any,
        count: int,
        vocabulary: Tensor | None = None,
        accuracy: list[float] | None = None,
        names: Names = NAMES["DeepSeek"],
        embedding: bool = False,
        output: bool = False,
        tensors: Collection[str] = (),
    ) -> None:
        super().__init__()
        config._attn_implementation = "sdpa"
        self.config, self.accuracy, self.normed_on = config, accuracy, names.normed_on
        self.blind_start = names.blind_start
        width, size = int(config.hidden_size), int(config.vocab_size)
        if embedding:
            self.embed_tokens = nn.Embedding(size, width)
        if config.model_type in GATED:
            from .mtp_gated import KINDS

            kind, rotary = KINDS[config.model_type]
            modules = [kind(config, names.states_first) for _ in range(count)]
        else:
            rotary = LlamaRotaryEmbedding
            modules = [
                MtpModule(config, names.states_first, tensors, f"layers.{number}.") for number in range(count)
            ]
        self.layers = nn.ModuleList(modules)
        if output:
            self.lm_head = nn.Linear(width, size, bias=False)
        self.restrict(vocabulary)
        # in a tuple: its float32 angles must not be converted by `to(dtype)`
        self._rotary = (rotary(config),)

    def passes(self) -> list[list[Any]]:
        return [[module] for module in self.layers]

    def reads(self, embedded: Tensor, states: Tensor, step: int = 0) -> tuple[Tensor, Tensor]:
        module: Any = self.layers[step]
        rows: Tensor = module.reads(embedded, states)
        return rows, rows

    def leave(self, states: Tensor, step: int = 0) -> Tensor:
        return self._last_norm(states, step) if self.normed_on else states

    def guess(self, states: Tensor, output: nn.Module, step: int = 0) -> Tensor:
        logits: Tensor = output(states if self.normed_on else self._last_norm(states, step))
        return logits

    def _last_norm(self, states: Tensor, step: int) -> Tensor:
        module: Any = self.layers[step]
        normed: Tensor = module.shared_head["norm"](states)
        return normed


def read(source: str, target: Target) -> MtpModules:
    """Load the modules for a target, from a file of their own or from the target's.

    Raises:
        ModelError: with one sentence, if files are missing, pickled, damaged, of a layer that is not computed here, or
            made for another target.
    """
    contents = files.read(source, "mtp")
    name, config = contents.name, contents.config
    names, count = _numbered(contents)
    contents.skip(*NOT_GUESSED_WITH)
    if config.get("mtp_use_dedicated_embeddings") not in (None, False):
        raise shapes.unsupported(name, "mtp_use_dedicated_embeddings", config["mtp_use_dedicated_embeddings"])
    shape = _shape(contents, target)
    ids = draft_vocabulary.read(name, contents, target.vocabulary)
    own = _own(contents, EMBEDDING, count, target.embedding)
    output = _own(contents, OUTPUT, count, target.output)
    # the whole target's, beside the modules
    contents.rename(lambda key: EMBEDDING if key == f"model.{EMBEDDING}" and not own else key)
    own = own or own_copy(contents, EMBEDDING, target.embedding)
    output = output or own_copy(contents, "lm_head.weight", target.output)
    if own_copy(contents, "model.norm.weight", target.norm):  # the states have been through the target's
        raise ModelError(
            f"'{name}' does not fit this target: 'model.norm.weight' in its file is not the target's final norm. Load "
            "the modules that were trained for it."
        )
    if not own:
        target.check_embeds(name, target.width)

    def made() -> MtpModules:
        return MtpModules(shape, count, ids, measured.accuracy(config), names, own, output, contents)

    modules: MtpModules = filled(contents, "MTP modules", made)
    modules.tree_temperature = measured.tree_temperature(name, config)
    if names.before_norm:
        modules.layers_read = (target.layers,)
    contents.finish()
    return modules


def _shape(contents: Contents, target: Target) -> PreTrainedConfig:
    """The sizes of the modules' layers.

    Raises:
        ModelError: if they are of a kind that is not computed here.
    """
    entries = shapes.layer_entries(contents)
    if entries.get("model_type") not in GATED:
        shape = shapes.layer_config(contents, target.vocabulary)
        shape.hidden_size, shape.num_hidden_layers = target.width, 1
        return shape
    try:
        found: PreTrainedConfig = CONFIG_MAPPING[entries["model_type"]](**dict(entries))
        found.layer_types.index("full_attention")
        shapes.number(contents.name, entries, "hidden_size")
    except ModelError:
        raise
    except Exception as error:  # transformers raises many kinds of errors on a damaged configuration
        raise shapes.damaged(contents.name, error) from None
    found.vocab_size = target.vocabulary
    return found


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
        found = PLACE.fullmatch(key)
        tensors[f"model.layers.{target_layers + int(found[1])}.{found[2]}" if found else key] = tensor
    config = {
        **shapes.written(modules.config),
        "num_hidden_layers": target_layers,
        COUNT: modules.modules_chained,
        "base_model_name_or_path": target,
        **measured.written(modules.accuracy, modules.tree_temperature),
        **notes,
    }
    files.write(folder, config, tensors, FILE, dtype)


def _numbered(contents: Contents) -> tuple[Names, int]:
    """How the modules are named, and how many there are; from now on they have DeepSeek's names, numbered from 0.

    Raises:
        ModelError: if there are none, fewer than announced, or of a layer that is not computed here.
    """
    name, names = contents.name, _named(contents)
    places = {key: names.place.fullmatch(key) for key in contents}
    parts = {key: names.parts.get(found[2], found[2]) for key, found in places.items() if found}
    numbers = sorted({int(places[key][1] or 0) for key, part in parts.items() if part == "enorm.weight"})  # type: ignore[index]
    if not numbers:
        raise ModelError(
            f"'{name}' holds no complete MTP modules: the norm of their embeddings ('….enorm.weight', or as its maker "
            "calls it) is missing. Fetch or export them again."
        )
    stated = [key for key in COUNTS if contents.config.get(key) is not None]
    count = shapes.number(name, contents.config, stated[0], most=MAX_MTP_MODULES) if stated else len(numbers)
    if count > len(numbers):
        raise ModelError(
            f"'{name}' holds no complete MTP modules: its config.json announces {count} and there are {len(numbers)} "
            f"('{stated[0]}'). Fetch or export them again."
        )
    for key, part in parts.items():
        foreign = next((words for sign, words in _FOREIGN.items() if sign in part), None)
        if foreign:
            raise ModelError(
                f"'{name}' has MTP modules with {foreign} ('{key}'), and only modules with the attention and "
                "feed-forward layer of Llama, Qwen2 or Qwen3 are computed here. Choose another proposer."
            )

    def renamed(key: str) -> str | None:
        found = places[key]
        if found is None:
            return key
        number = int(found[1] or numbers[0])
        if number in numbers[count:]:  # announced are fewer
            return None
        return f"layers.{numbers.index(number)}.{parts[key]}" if number in numbers else key

    contents.rename(renamed)
    return names, count


def _named(contents: Contents) -> Names:
    """The maker's names.

    Raises:
        ModelError: if there are no modules, or their order of joining is not known.
    """
    for maker, names in NAMES.items():
        sign = kinds.MODULE if maker == "DeepSeek" else names.place
        found = next((key for key in contents if sign.fullmatch(key)), None)
        if found and maker == "speculators" and contents.maker != maker:
            raise ModelError(
                f"'{contents.name}' has MTP modules named like '{found}', which MiMo's and speculators' files use for "
                "two orders of joining, and its config.json has no 'speculators_model_type'. Export it with one, or as "
                "'model.mtp_layers.…'."
            )
        if found:
            return names
    raise ModelError(
        f"'{contents.name}' holds no MTP modules: it has no weight named 'model.layers.….enorm.weight', 'mtp.…' or "
        "'model.mtp_layers.…'. Choose another folder or hub id."
    )


def _own(contents: Contents, part: str, count: int, original: Tensor | None) -> bool:
    """Whether all modules share a matrix of their own, which then has the name of the whole's.

    Raises:
        ModelError: if some of them have different ones.
    """
    keys = [key for number in range(count) if (key := f"layers.{number}.{part}") in contents]
    own = [key for key in keys if own_copy(contents, key, original)]
    if not own:
        return False
    first = contents[own[0]]
    if len(own) < count or any(not torch.equal(first, contents[key]) for key in own[1:]):
        raise ModelError(
            f"'{contents.name}' has '{contents.stored(own[0])}', which is no copy of the target's and not all of its "
            "modules'; one matrix for all is computed with here. Choose another proposer."
        )
    whole = "lm_head.weight" if part == OUTPUT else EMBEDDING
    contents.rename(lambda key: whole if key == own[0] else None if key in own else key)
    return True
