"""What one decode needs, loaded together: target, drafts, trained heads and tokenizer. `loading` makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from specdec_core.foundations.errors import ModelError, SettingsError
from specdec_core.record.schema import ModelInfo
from specdec_core.runtime.angles import LengthReader, rotary
from specdec_core.runtime.architectures.recurrent import RecurrentReader, attention_layers, recurrent
from specdec_core.runtime.architectures.t5 import EncoderDecoder
from specdec_core.runtime.cpu_linear import arrange
from specdec_core.runtime.cuda_graphs import Graphs
from specdec_core.runtime.reader import CausalReader, Reader, compile_checked, lean_forward
from specdec_core.runtime.thread_tuner import ThreadTuner, thread_tuner
from specdec_core.runtime.windows import Windows

from .files.unread_tensors import unknown_entries
from .generation import Generation
from .sizes import model_info
from .tokens.draft_vocabulary import NarrowReader
from .tokens.tokenizer import Codec, HubCodec
from .tokens.translation import ForeignDraft

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


class Model(Protocol):
    """A loaded model: the weights are shared by all lanes; each lane has a separate reader."""

    info: ModelInfo
    vocabulary: int
    positions: int  # the longest text it can read, in tokens
    kv_bytes: int  # per token in the KV cache, over all layers
    mask: int | None  # a draft's mask token, if it was trained to guess several tokens at once

    def reader(self, capacity: int, widest: int = 0) -> Reader:
        """A reader with a fresh KV cache of `capacity` rows, ready for passes of up to `widest` tokens."""
        ...


class NarrowModel:
    """A draft over a part of the target's vocabulary, as a `Model` over all of it; see `draft_vocabulary`.

    Args:
        model: the draft over its own tokens.
        ids: int64 (k,), its tokens in the target's vocabulary.
        vocabulary: number of the target's logits.

    Raises:
        ModelError: if the draft's width is not k + 1.
    """

    def __init__(self, model: Model, ids: Tensor, vocabulary: int) -> None:
        if model.vocabulary != len(ids) + 1:
            raise ModelError(
                f"'{model.info.name}' has {model.vocabulary:,} tokens, and its draft vocabulary names {len(ids):,}; "
                "one more than named is expected. Export the draft again."
            )
        self.model, self.ids, self.vocabulary = model, ids, vocabulary
        self.mask: int | None = None
        self.info, self.positions, self.kv_bytes = model.info, model.positions, model.kv_bytes

    def reader(self, capacity: int, widest: int = 0) -> Reader:
        return NarrowReader(self.model.reader(capacity, widest), self.ids, self.vocabulary)


class HubModel:
    """A Hugging Face causal LM as a `Model`. On CUDA its passes are captured as graphs, unless `graphs` is false; on a
    CPU, Llama-shaped models run on our own forward, unless `lean` is false. One with recurrent layers reads chains
    only."""

    def __init__(self, name: str, model: PreTrainedModel, graphs: bool = True, lean: bool = True) -> None:
        self.model = model
        self.by_length = bool(rotary(model))  # whether its angles depend on the length of the text
        fixed = Windows.of(model.config) is None and not self.by_length
        graphs = graphs and model.device.type == "cuda" and fixed
        self.graphs = Graphs(model) if graphs else None
        self.recurrent = recurrent(model.config)
        self.lean = lean_forward(model, name) if lean and not self.recurrent else None
        self.info = model_info(name, model)
        self.vocabulary = int(model.get_output_embeddings().weight.shape[0])
        self.positions = longest_text(model.config)
        self.kv_bytes = kv_bytes(model)
        mask = getattr(model.config, "pard_token", None)
        self.mask = mask if isinstance(mask, int) and 0 <= mask < self.vocabulary else None

    def arrange(self, steps: bool = False, bits: int = 16) -> None:
        """Store its weights for a CPU, where they are on one; `steps`: for passes over one token. See `cpu_linear`."""
        arrange(self.model, self.lean.joined() if self.lean else (), steps, bits=bits)
        if self.lean is not None:
            compile_checked(self.lean, self.model, self.info.name)

    def reader(self, capacity: int, widest: int = 0) -> Reader:
        if self.graphs:
            return self.graphs.reader(capacity, widest)
        if self.recurrent:
            return RecurrentReader(self.model)
        if self.by_length:
            return LengthReader(self.model, capacity)
        return CausalReader(self.model, capacity, lean=self.lean)


@dataclass(slots=True)
class Models:
    """What one decode needs: target, perhaps a draft, and their common tokenizer.

    Attributes:
        larger_draft: another draft that proposers can be set to use, to compare sizes.
        parallel_draft: a draft that was trained to guess several tokens in one pass, with mask tokens.
        foreign_draft: a draft with another tokenizer; see `translation`.
        heads: trained heads by name: "medusa", "eagle", "eagle3", "mtp", "block".
        eos: token ids that end the text.
        turn_end: the token that ends an answer in the chat template, another end for prompts in that template.
        bos: the token an empty prompt starts from, if there is one.
        machine: a description of the device, for the record.
        threads: the most CPU threads; see `thread_tuner`.
        generation: what the target's generation config requests.
    """

    codec: Codec
    target: Model
    draft: Model | None = None
    heads: Mapping[str, Any] = field(default_factory=dict)
    eos: frozenset[int] = frozenset()
    bos: int | None = None
    device: str = "cpu"
    dtype: str = "float32"
    machine: str = "unknown"
    threads: int = 1
    larger_draft: Model | None = None
    parallel_draft: Model | None = None
    foreign_draft: ForeignDraft | None = None
    generation: Generation = field(default_factory=Generation)
    turn_end: int | None = None

    @property
    def thread_tuner(self) -> ThreadTuner:
        """Chooses how many of the CPU threads compute."""
        return thread_tuner(self.target.info.name, self.dtype, self.threads, self.device == "cpu")

    def drafting(self, which: str) -> Models:
        """These models with the chosen draft: "usual", "larger", "foreign", or "parallel", which is the usual one
        where no other was loaded.

        Raises:
            SettingsError: if there is no larger one.
        """
        if which == "usual" or (which == "parallel" and self.parallel_draft is None):
            return self
        if which == "parallel":
            return replace(self, draft=self.parallel_draft)
        if which == "foreign":
            return replace(self, draft=self.foreign_draft.model if self.foreign_draft else None)
        if self.larger_draft is None:
            raise SettingsError(
                f"A larger draft is requested and none is loaded with '{self.target.info.name}'. Load one "
                "(larger_draft=… or --larger-draft), or take the usual draft."
            )
        return replace(self, draft=self.larger_draft)

    @property
    def causal(self) -> bool:
        """Whether the target is a causal language model of transformers: layers and hidden states accessible."""
        return isinstance(self.target, HubModel)

    @property
    def causal_target(self) -> PreTrainedModel:
        """The target as transformers loaded it, for proposers that share its layers or its output matrix.

        Raises:
            ModelError: if the target is not a causal language model of transformers; see `Proposer.why_not`.
        """
        if not isinstance(self.target, HubModel):
            raise ModelError(f"'{self.target.info.name}' is not a causal language model.")
        return self.target.model

    @property
    def decoder_start(self) -> int | None:
        """The token an encoder–decoder's decoder starts from; None for causal models."""
        return self.target.start if isinstance(self.target, EncoderDecoder) else None

    def reading(self, source: Sequence[int]) -> Models:
        """These models with `source` for their encoders to read; causal models are returned unchanged."""
        target, draft, larger = (
            model.on(source) if isinstance(model, EncoderDecoder) else model
            for model in (self.target, self.draft, self.larger_draft)
        )
        assert target is not None
        return replace(self, target=target, draft=draft, larger_draft=larger)

    @property
    def chat_template(self) -> bool:
        """Whether prompts can be wrapped in a chat template."""
        return isinstance(self.codec, HubCodec) and bool(self.codec.tokenizer.chat_template)

    def chat(self, message: str, system: str = "") -> list[int]:
        """`message` as a user's turn in the model's chat template, as token ids; see `chat_text`."""
        text = self.chat_text(message, system)
        assert isinstance(self.codec, HubCodec)  # chat_text refuses others
        ids: list[int] = self.codec.tokenizer.encode(text, add_special_tokens=False)
        return ids

    def chat_text(self, message: str, system: str = "") -> str:
        """What the model reads: `message` in its chat template, special tokens written out.

        `system` replaces the template's system line; empty keeps the template's.

        Raises:
            ModelError: if there is no template, or it does not support these turns.
        """
        if not self.chat_template or not isinstance(self.codec, HubCodec):
            raise ModelError("This model has no chat template; send the prompt as plain text.")
        turns = [{"role": "system", "content": system}] if system.strip() else []
        turns.append({"role": "user", "content": message})
        try:
            text = self.codec.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        except Exception as error:  # the template is code from the model's authors: it may raise anything
            raise ModelError(
                f"The chat template of '{self.target.info.name}' refuses this conversation "
                f"({type(error).__name__}). Leave the system line empty, or switch the template off."
            ) from None
        return str(text)

    def window(self, with_draft: bool) -> int:
        """The longest text, in tokens, that all models taking part can read."""
        return (
            min(self.target.positions, self.draft.positions)
            if with_draft and self.draft
            else self.target.positions
        )

    def notes(self) -> list[str]:
        """Sentences on where a text begins and ends otherwise than in `generate`, on entries of the target's
        configuration that nothing declares, and on drafts that read less than the target."""
        found, name = [], self.target.info.name
        if appended := self.codec.appended if isinstance(self.codec, HubCodec) else []:
            found.append(
                f"The tokenizer writes {''.join(self.codec.names(appended))} behind a text. It is left out of a prompt "
                "here, for the model to go on with the text; given as token ids, a prompt is read as it is."
            )
        if self.turn_end is not None:
            found.append(
                f"The chat template ends an answer with {self.codec.names([self.turn_end])[0]}, which the model's "
                "generation config does not name as an end. An answer to a prompt in that template ends there too, "
                "unlike in transformers' generate; to a prompt given as text or token ids it does not."
            )
        if isinstance(self.target, HubModel) and (unknown := unknown_entries(self.target.model.config)):
            kind = type(self.target.model.config).__name__
            found.append(
                f"The config.json of '{name}' also has {', '.join(unknown[:5])}"
                + (f" and {len(unknown) - 5} more" if len(unknown) > 5 else "")
                + f", which transformers' {kind} does not declare."
            )
        for draft in (self.draft, self.larger_draft, self.parallel_draft):
            if draft is not None and draft.positions < self.target.positions:
                found.append(
                    f"The draft '{draft.info.name}' reads at most {draft.positions:,} tokens, and '{name}' "
                    f"{self.target.positions:,}: in a longer text it guesses nothing, and the target goes on alone."
                )
        return found


def longest_text(config: Any) -> int:
    """How many tokens a causal model of this configuration reads; angles of the kind "dynamic" are stretched beyond its
    `max_position_embeddings`, by their factor."""
    named = int(getattr(config, "max_position_embeddings", None) or 1_000_000)
    rope = getattr(config, "rope_parameters", None) or {}
    each = [part for part in rope.values() if isinstance(part, dict)] or [rope]  # one for each kind of layers
    factors = [part.get("factor") for part in each if part.get("rope_type") == "dynamic"]
    return int(named * max([1.0, *(float(factor) for factor in factors if isinstance(factor, int | float))]))


def kv_bytes(model: PreTrainedModel) -> int:
    """Bytes that one token's keys and values take, over all layers; recurrent ones keep none."""
    config = model.config
    layers = attention_layers(config)
    if not layers:
        return 0
    heads = int(config.num_attention_heads)
    width = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
    shared = int(getattr(config, "num_key_value_heads", None) or heads)
    return 2 * layers * shared * width * model.dtype.itemsize
