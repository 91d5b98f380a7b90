"""What is in a model's or a head's files: who wrote them, what each tensor is for, and what is done with them here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from specdec_core.foundations.errors import DownloadRefused, ModelError
from specdec_core.models.files import hub, sources
from specdec_core.models.files.load_errors import sentences
from specdec_core.models.gguf_files import convert as gguf
from specdec_core.models.gguf_files import header as gguf_header
from specdec_core.models.gguf_files.kinds import companion
from specdec_core.models.heads import READERS, Target
from specdec_core.models.heads.layouts import files, kinds, shapes
from specdec_core.models.heads.layouts.contents import Contents
from specdec_core.models.heads.layouts.layers_read import layers_read

PURPOSES: tuple[tuple[str, str], ...] = (
    (r"d2t|t2d", "which of the target's tokens it may guess"),
    (r"(.*\.)?(embed_tokens|wte|word_embeddings|token_embd)\.weight", "input embeddings"),
    (
        r"(.*\.)?shared_head\.head\.weight|(.*\.)?lm_head\.weight|output\.weight",
        "output matrix, from a state to logits",
    ),
    (r"lm_heads\.\d+\.weight|(medusa_heads?\.)?\d+\.\d+\.weight", "output matrix of a head"),
    (r"(medusa_heads?\.)?\d+\.\d+\.linear\..*|blocks\..*", "residual block of a head"),
    (r"(.*\.)?(fc|eh_proj|input_proj)\.(weight|bias)", "joins states, or a state and an embedding"),
    (r"(.*\.)?(fc_norm\.\d+|input_norm)\.weight", "norm of the target's states before they are joined"),
    (
        r"(.*\.)?(enorm|pre_fc_norm_embedding|token_layernorm)\.weight",
        "norm of the embedding before it is joined",
    ),
    (r"(.*\.)?(hnorm|pre_fc_norm_hidden|hidden_layernorm|hidden_norm)\.weight", "norm of the state"),
    (r"(.*\.)?markov_head\..*", "how a guess depends on the one before it (DSpark)"),
    (r"(.*\.)?confidence_head\..*", "how sure a guess is (DSpark)"),
    (r"(.*\.)?mask_hidden", "the state in place of those not known yet (P-EAGLE)"),
    (r"(.*\.)?verifier_(lm_head|norm)\.weight", "a copy of the target's, for training"),
    (r"(.*\.)?(experts|gate|router|shared_expert)\..*|.*_exps\..*", "experts of a feed-forward layer"),
    (r"(.*\.)?(self_attn|attn|attention)(\.|_).*|blk\.\d+\.attn.*", "attention"),
    (r"(.*\.)?(mlp|feed_forward|ffn)(\.|_).*|blk\.\d+\.ffn.*", "feed-forward layer"),
    (r"(.*\.)?.*norm(\.weight|\.bias)?", "norm"),
)
"""What a tensor of a name is for; the first one that fits."""
UNKNOWN = "not known here"
LARGEST_DOWNLOAD = 4_000_000_000  # bytes of weights that are fetched from the hub to look into them


@dataclass(frozen=True, slots=True)
class FilePart:
    """Tensors of one purpose.

    Attributes:
        purpose: in words.
        names: the first of them, with `{n}` for the layer's number, and how many others there are.
        tensors: how many.
        parameters: how many numbers they have together.
        dtype: of the first.
    """

    purpose: str
    names: str
    tensors: int
    parameters: int
    dtype: str


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in a folder, file or hub id.

    Attributes:
        name: without the folders above it.
        title: what it holds, such as 'an EAGLE-3 head'.
        facts: names and values, in the order in which they are to be read.
        parts: what its tensors are for.
        verdict: what is done with it here, in sentences.
        loads: whether it can be used here.
    """

    name: str
    title: str
    facts: tuple[tuple[str, str], ...]
    parts: tuple[FilePart, ...]
    verdict: str
    loads: bool

    def as_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


def inspect(name: str, target: str | None = None) -> Report:
    """Look into a folder, a GGUF file or a hub id; the weights of a head are read, those of a model are not.

    Args:
        name: as `load_models` takes it.
        target: of a head, the model that it is meant for: its sizes are compared.

    Raises:
        ModelError: if there is nothing that could be looked into.
    """
    hub.check_name(name)
    where = sources.resolve(name)
    path = Path(where)
    if where.lower().endswith(gguf_header.SUFFIX) or (
        sources.is_there(where, Path.is_dir) and not (path / "config.json").is_file()
    ):
        found = sources.gguf_file(where)
        if found is not None:
            return _gguf(found)
    hub.check_present(where)
    _check_download(where)
    config = files.read_config(where, "model or head")
    for kind in files.WEIGHTS:
        listed = files.weights(where, kind)
        if listed is None:
            continue
        held = kinds.recognise(config, listed[0])
        if held is not None and (kind == held.loads_as or held.name in kinds.NOT_RUN):
            return _head(where, config, listed[0], held, target)
    return _model(where, config)


def _check_download(source: str) -> None:
    """Refuse a hub id whose safetensors are larger than `LARGEST_DOWNLOAD` together and not all here.

    Raises:
        DownloadRefused: naming both sizes.
    """
    from huggingface_hub import HfApi, try_to_load_from_cache

    if Path(source).is_dir():
        return
    with sentences(source):
        siblings = HfApi().model_info(source, files_metadata=True, timeout=10).siblings or []
    total = sum(
        file.size or 0
        for file in siblings
        if file.rfilename.endswith(".safetensors")
        and not isinstance(try_to_load_from_cache(source, file.rfilename), str)
    )
    if total > LARGEST_DOWNLOAD:
        raise DownloadRefused(
            f"'{files.short(source)}' would be a download of {total / 1e9:,.1f} GB, and up to "
            f"{LARGEST_DOWNLOAD / 1e9:,.0f} GB are fetched to look into files. Fetch it first (models --fetch), or "
            "give a folder."
        )


def _head(
    where: str, config: Mapping[str, Any], places: dict[str, Path], held: kinds.HeadKind, target: str | None
) -> Report:
    contents = Contents(files.short(where), config, places, kinds.maker(config))
    entries = shapes.layer_entries(contents)
    facts = [
        ("Kind", f"{held.title.removeprefix('an ').removeprefix('a ')}, by '{held.sign}'"),
        ("Written by", contents.maker or "SafeAILab's code, SpecForge, or another program with this layout"),
    ]
    for title, key in (
        ("Made for", "base_model_name_or_path"), ("Hidden size", "hidden_size"), ("Layers", "num_hidden_layers"),
        ("Attention heads", "num_attention_heads"), ("Vocabulary", "vocab_size"),
    ):  # fmt: skip
        value = entries.get(key, config.get(key))
        if isinstance(value, int | str):
            facts.append((title, f"{value:,}" if isinstance(value, int) else value))
    if "d2t" in contents:
        facts.append(("Tokens it may guess", f"{contents.shape('d2t')[0]:,}"))
    fits = _target(contents, entries, target)
    if held.name == "eagle3":
        try:
            layers = (
                ", ".join(map(str, layers_read(contents, fits.layers)))
                if fits.layers
                else "2, n / 2 and n − 3 of n"
            )
            facts.append(("Reads the inputs of the target's layers", layers))
        except ModelError as error:
            facts.append(("Layers read", str(error)))
    verdict, loads = _tried(where, held, fits, target)
    sizes = ((key, contents.shape(key), contents.dtype(key)) for key in contents)
    return Report(contents.name, held.title, tuple(facts), _parts(sizes), verdict, loads)


def _target(contents: Contents, entries: Mapping[str, Any], target: str | None) -> Target:
    """The sizes that a head asks of its target, or those of the model that it is meant for."""
    if target is not None:
        config = hub.read_config(sources.resolve(target))
        width, vocabulary = int(config.hidden_size), int(config.vocab_size)
        return Target(width, vocabulary, width, int(config.num_hidden_layers))

    def size(*keys: str) -> int:
        values = (entries.get(key, contents.config.get(key)) for key in keys)
        return next((value for value in values if isinstance(value, int) and value > 0), 0)

    width = size("target_hidden_size", "hidden_size")
    if not width:  # Medusa's configuration has no sizes
        square = next((key for key in contents if key.endswith("linear.weight")), None)
        width = contents.shape(square)[0] if square else 0
    last = next(
        (key for key in contents if re.fullmatch(r"(medusa_heads?\.)?\d+\.\d+\.weight|lm_head\.weight", key)),
        None,
    )
    vocabulary = size("vocab_size") or (contents.shape(last)[0] if last else 0)
    listed = [
        value
        for found in (
            contents.config,
            contents.config.inner("eagle_config"),
            contents.config.inner("dflash_config"),
        )
        for key in ("eagle_aux_hidden_state_layer_ids", "aux_hidden_state_layer_ids", "target_layer_ids")
        if isinstance(value := found.get(key), list)
    ]
    numbers = [one for value in listed for one in value if isinstance(one, int)]
    return Target(width, vocabulary, width, max(numbers) + 1 if numbers else 0)


def _tried(where: str, held: kinds.HeadKind, fits: Target, target: str | None) -> tuple[str, bool]:
    """What reading a head comes to."""
    if held.name in kinds.NOT_RUN:
        return f"It is {held.title}, a kind that is known here and not run.", False
    assumed = Target(fits.width, fits.vocabulary, fits.embeds, fits.layers or 64)
    try:
        READERS[held.loads_as](where, assumed)
    except ModelError as error:
        return str(error), False
    fitted = f" and fits '{target}'" if target is not None else ""
    return (
        f"It loads as {held.loads_as}=…{fitted}: every tensor and every entry is used, or is a known copy.",
        True,
    )


def _model(where: str, config: Mapping[str, Any]) -> Report:
    """A whole model, by its configuration and the names of its weights."""
    listed = files.weights(where, "eagle")
    known = {
        "Architecture": ", ".join(map(str, config.get("architectures") or []))
        or str(config.get("model_type")),
        **{
            title: f"{config[key]:,}"
            for title, key in (
                ("Hidden size", "hidden_size"),
                ("Layers", "num_hidden_layers"),
                ("Vocabulary", "vocab_size"),
            )
            if isinstance(config.get(key), int)
        },
    }
    parts: tuple[FilePart, ...] = ()
    modules = False
    if listed is not None:
        contents = Contents(files.short(where), config, listed[0])
        parts = _parts((key, contents.shape(key), contents.dtype(key)) for key in contents)
        modules = len(kinds.of_modules(contents)) < len(contents)
    try:
        hub.check_config(hub.read_config(where), files.short(where))
        verdict, loads = "It loads as a target, or as a draft for a target with the same tokenizer.", True
    except ModelError as error:
        verdict, loads = str(error), False
    if modules:
        verdict += " Its MTP modules load as mtp=…, from the same folder."
    return Report(files.short(where), "a whole model", tuple(known.items()), parts, verdict, loads)


def _gguf(path: Path) -> Report:
    """A GGUF file, by its header."""
    from gguf import GGMLQuantizationType

    header = gguf_header.read(path)
    kind = companion(header)
    own = {"general.name", "general.type"}
    facts = [("Architecture", header.architecture or "not named")]
    for key, value in header.facts.items():
        if isinstance(value, int | float | str) and (key in own or key.startswith(f"{header.architecture}.")):
            facts.append((key, str(value)))
    parts = _parts((one.name, one.shape, GGMLQuantizationType(one.format).name) for one in header.tensors)
    try:
        gguf.check(path)
        verdict, loads = "It is converted to bfloat16 once, and loads as a target or a draft.", True
    except ModelError as error:
        verdict, loads = str(error), False
    return Report(path.name, kind or "a model in a GGUF file", tuple(facts), parts, verdict, loads)


def purpose(name: str) -> str:
    """What a tensor of this name is for."""
    return next((words for pattern, words in PURPOSES if re.fullmatch(pattern, name)), UNKNOWN)


def _parts(tensors: Iterable[tuple[str, tuple[int, ...], str]]) -> tuple[FilePart, ...]:
    """Tensors of one purpose and dtype together, in the order of `PURPOSES`."""
    found: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for name, shape, dtype in sorted(tensors):
        count = 1
        for size in shape:
            count *= size
        found.setdefault((purpose(name), dtype), []).append((name, count))
    order = {words: place for place, (_, words) in enumerate(PURPOSES)}
    parts = []
    for (words, dtype), rows in sorted(
        found.items(), key=lambda item: (order.get(item[0][0], 99), item[0][1])
    ):
        names = list(dict.fromkeys(re.sub(r"(?<=[._])\d+(?=\.)", "{n}", name) for name, _ in rows))
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        parts.append(FilePart(words, shown, len(rows), sum(count for _, count in rows), dtype))
    return tuple(parts)
