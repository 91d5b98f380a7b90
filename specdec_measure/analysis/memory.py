"""What a lane holds in memory, line by line, in bytes: weights, keys and values (and the unused part of them), logits.

The sizes come from the loaded models, the numbers of rows from the record. Not included: activations inside a
pass, the probabilities a rule computes from the logits, and the record itself. Where the models are no longer loaded
nothing is estimated. An encoder–decoder keeps the encoded prompt and, for the cross-attention of each
decoder layer, its keys and values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from specdec_core.foundations.errors import SettingsError
from specdec_core.proposers import Proposer, proposer_class
from specdec_core.proposers.heads.state_tree import StateTree
from specdec_core.record.trace import Trace, as_trace
from specdec_core.settings import Settings

if TYPE_CHECKING:
    from specdec_core.models.bundle import Model, Models

FLOAT32 = 4  # bytes; logits are judged in this precision whatever the model's dtype


@dataclass(frozen=True, slots=True)
class MemoryLine:
    """One entry.

    Attributes:
        name: what is held.
        size: bytes.
        source: "exact" where the number of bytes follows from shapes and dtypes, "modelled" where it is assumed.
        explanation: a sentence on how it is counted.
        part: whether it is part of the nearest line above that is not one itself, so that it is not added to the total.
    """

    name: str
    size: int
    source: Literal["exact", "modelled"]
    explanation: str
    part: bool = False


def ledger(trace: Trace, models: Models) -> list[MemoryLine]:
    """The entries of the lane that wrote `trace` with `models`, empty ones left out.

    Raises:
        SettingsError: if these are not the models of the record.
        TraceError: if it is no trace.
    """
    header = as_trace(trace).header
    if header.target != models.target.info:
        raise SettingsError(
            f"The record was made with the target '{header.target.name}', but '{models.target.info.name}' is loaded. "
            "Load the models of the record to measure their memory."
        )
    settings = Settings(**header.settings)
    kind = proposer_class(settings.proposer)
    kind = kind.resolved(options := kind.read_options(settings))
    models = models.drafting(kind.which_draft(options))
    draft = models.draft if header.draft is not None else None
    capacity = kind.shape(settings, options).rows(settings, len(header.decoder_start or header.prompt_ids))
    draft_rows = kind.draft_capacity(capacity)
    widest = max((row.width for row in trace.rounds), default=0)
    captured = header.device == "cuda"  # graphs round the rows up
    reserved: Literal["exact", "modelled"] = "modelled" if captured else "exact"
    lines = [
        *_weights("Target's", models.target, "All lanes share them."),
        *_weights("Draft's", draft, "Of the draft model."),
        *(_head(kind.title, head) for need, head in models.heads.items() if need in kind.needs),
        MemoryLine(
            "Target's keys and values",
            capacity * models.target.kv_bytes,
            reserved,
            f"Reserved for {capacity:,} tokens: prompt, output and the largest proposal, and one to spare.",
        ),
        *_not_kept(trace, models.target.kv_bytes),
        MemoryLine(
            "Draft's keys and values",
            draft_rows * draft.kv_bytes if draft else 0,
            reserved,
            f"Reserved for {draft_rows:,} tokens{' as well' if draft_rows == capacity else ' of its own'}.",
        ),
        _encoded_prompt("Target's", models.target, len(header.prompt_ids)),
        _encoded_prompt("Draft's", draft, len(header.prompt_ids)),
        *(
            MemoryLine(name, size, reserved if kind.name == "oracle" else "exact", words)
            for name, size, words in _own_caches(kind, models, settings, capacity)
        ),
        MemoryLine(
            "Logits of the widest pass",
            widest * header.vocabulary * FLOAT32,
            "exact",
            f"{widest:,} {'token' if widest == 1 else 'tokens'} in the pass × {header.vocabulary:,} entries of the "
            "vocabulary, in float32.",
        ),
    ]
    return [line for line in lines if line.size]


def _not_kept(trace: Trace, kv_bytes: int) -> list[MemoryLine]:
    """Rows of the cache, of `kv_bytes` each, for tokens of a pass that are not kept."""
    extra = [row.riders for row in trace.rounds]
    fallen = [row.width - row.riders - (row.cache_after - row.cache_before) for row in trace.rounds]
    stats = trace.stats
    refused = stats.proposed - stats.pruned - stats.discarded - stats.accepted
    ended = ", an accepted end token's among them" if sum(fallen) > refused else ""
    return [
        MemoryLine(
            "Wasted on rejected guesses",
            max(fallen, default=0) * kv_bytes,
            "exact",
            f"In the worst round; in all rounds together, {_rows(sum(fallen))} of guesses{ended}.",
            part=True,
        ),
        MemoryLine(
            "Used by the window",
            max(extra, default=0) * kv_bytes,
            "exact",
            "In the round with most: extra tokens in the pass that find later guesses and are never kept; "
            f"{_rows(sum(extra))} in all.",
            part=True,
        ),
    ]


def _encoded_prompt(whose: str, model: Model | None, tokens: int) -> MemoryLine:
    """What a decoder keeps of a prompt that an encoder has read."""
    return MemoryLine(
        f"{whose} encoded prompt",
        _encoded_bytes(model, tokens),
        "exact",
        f"Of the prompt's {tokens:,} tokens: the encoder's output, and keys and values of it in every decoder layer.",
    )


def _own_caches(
    kind: type[Proposer], models: Models, settings: Settings, capacity: int
) -> Iterator[tuple[str, int, str]]:
    """A proposer's own KV caches, for `capacity` tokens: what each is, bytes, how they are counted."""
    if kind.name == "oracle":
        words = "The oracle runs the target with its own KV cache."
        yield "Oracle's keys and values", capacity * models.target.kv_bytes, words
    if issubclass(kind, StateTree):
        options, head = kind.read_options(settings), models.heads[kind.head_name()]
        rows, config = capacity + options.depth * options.top_k, head.config
        heads = int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)
        width = int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
        count = head.modules_chained * head.layers_per_pass
        size = int(2 * rows * heads * width * next(head.parameters()).element_size()) * count
        layers = "One layer" if count == 1 else f"{count} layers"
        whose = f"{kind.title}'" if kind.title.endswith("s") else f"{kind.title}'s"
        yield f"{whose} keys and values", size, f"{layers}, over the text and the tree it grows."


def total(lines: Iterable[MemoryLine]) -> int:
    """Bytes of all lines, without parts of other lines."""
    return sum(line.size for line in lines if not line.part)


def weight_bytes(model: Model | None) -> int:
    """Bytes of a model's weights and buffers, shared ones counted once, without those replaced by packed copies; 0
    for none and for a scripted one."""
    return _module_bytes(_module(model))


def _weights(whose: str, model: Model | None, words: str) -> list[MemoryLine]:
    """A model's weights: those held as they were loaded, those packed in place of them, and packed copies of some."""
    from specdec_core.runtime.cpu_linear import copied_bytes

    module = _module(model)
    packed = _packed_bytes(module)
    bits = "in 16 bits where these hold the values exactly, else assumed as large as in float32."
    held = f"{whose} weights"
    if packed:
        held = f"{whose} weights that are not packed"
        words = f"Embeddings, norms and the like; those of the packed matrices were freed. {words}"
    what = (
        "weights that are read elsewhere too, such as embeddings that are also the output matrix"
        if packed
        else "the weights above"
    )
    return [
        MemoryLine(held, weight_bytes(model), "exact", words),
        MemoryLine(
            f"{whose} packed matrices",
            packed,
            "modelled",
            f"In place of their float32 weights, which were freed; arranged for the processor, {bits}",
        ),
        MemoryLine(
            f"{whose} packed copies",
            copied_bytes(module) - packed,
            "modelled",
            f"In addition to {what}; arranged for the processor, {bits}",
        ),
    ]


def _head(title: str, head: Any) -> MemoryLine:
    """The weights of trained heads, in whatever form."""
    from specdec_core.runtime.cpu_linear import copied_bytes

    whose = f"{title}'" if title.endswith("s") else f"{title}'s"
    packed, copied = _packed_bytes(head), copied_bytes(head)
    words = "Trained for this target."
    if packed:
        words += " The matrices are packed for the processor, in place of their float32 weights."
    elif copied:
        words += " The matrices are held a second time, packed for the processor."
    return MemoryLine(f"{whose} weights", _module_bytes(head) + copied, "exact", words)


def _packed_bytes(module: Any) -> int:
    """Bytes of the packed matrices whose weights were freed, so that only their shape is left."""
    from torch import nn

    from specdec_core.runtime.cpu_linear import copied_bytes

    linears = (part for part in module.modules() if isinstance(part, nn.Linear)) if module is not None else ()
    return sum(copied_bytes(part) for part in linears if part.weight.is_meta)


def _rows(number: int) -> str:
    return f"{number:,} {'row' if number == 1 else 'rows'}"


def _module(model: Model | None) -> Any:
    """The transformers model behind a `Model`; None for a scripted one. A draft over fewer tokens wraps another."""
    inner = getattr(model, "model", None)
    return getattr(inner, "model", None) if hasattr(inner, "kv_bytes") else inner


def _module_bytes(module: Any) -> int:
    if module is None:
        return 0
    held = (tensor for tensor in (*module.parameters(), *module.buffers()) if tensor.device.type != "meta")
    return sum({id(tensor): int(tensor.nbytes) for tensor in held}.values())


def _encoded_bytes(model: Model | None, source: int) -> int:
    """Bytes that an encoder–decoder keeps of a prompt of `source` tokens; 0 for models without an encoder."""
    from specdec_core.runtime.architectures.t5 import EncoderDecoder

    if not isinstance(model, EncoderDecoder):
        return 0
    hidden = int(model.model.config.d_model) * model.model.dtype.itemsize
    return source * (int(model.kv_bytes) + hidden)
