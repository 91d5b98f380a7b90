"""What is measured: a family in our decoder, the same weights in transformers, the prompts, the machine."""

from __future__ import annotations

import os
import platform
import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel
from transformers.utils import logging

import specdec_core as sd
from specdec_core.models import catalogue
from specdec_core.models.bundle import HubModel
from specdec_core.models.files.hub import load_model
from specdec_core.models.files.sources import locate, resolve
from specdec_core.models.tokens import draft_vocabulary
from specdec_core.runtime.machine import describe, fitting_threads, threads
from specdec_core.sampling import widen
from specdec_measure.testing import Letters

PROMPTS = Path(__file__).resolve().parent.parent / "assets" / "prompts"
CPU = torch.device("cpu")
Mode = Literal["plain", "static cache", "assisted", "prompt lookup"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One shipped prompt as token ids."""

    family: str
    name: str
    ids: tuple[int, ...]


class Widened(LlamaForCausalLM):
    """A draft over part of its target's vocabulary, as assisted generation wants it: logits over all of it, −∞ for the
    tokens that it cannot guess."""

    ids: Tensor  # int64 (k,): the target's tokens it can guess
    own: Tensor  # int64 (vocabulary,): what it calls the target's tokens

    @classmethod
    def over(cls, folder: str, target: PreTrainedModel) -> Widened:
        """The draft in a folder, for a target."""
        made: Widened = cls.from_pretrained(
            folder, dtype=torch.float32
        )  # which evaluates, and does not train
        vocabulary = int(target.config.vocab_size)
        ids = draft_vocabulary.read(folder, load_file(Path(folder) / draft_vocabulary.FILE), vocabulary)
        assert ids is not None
        made.ids = ids
        made.own = torch.full((vocabulary,), len(ids), dtype=torch.int64)
        made.own[ids] = torch.arange(len(ids))
        made.config.vocab_size = vocabulary  # of its logits: assisted generation compares the sizes
        return made

    def forward(self, input_ids: Tensor, **options: Any) -> Any:
        output = super().forward(self.own[input_ids], **options)
        output.logits = widen(output.logits[..., : len(self.ids)], self.ids, len(self.own))
        return output


@dataclass
class Subjects:
    """Our decoder and transformers' on the same weights.

    Attributes:
        draft: as published, over the target's vocabulary; None where it has only part of it.
        assistant: the same draft for transformers' assisted generation, over the target's vocabulary.
        real: false for random weights of the bundled shapes.
        chat: whether prompts are messages.
    """

    models: sd.Models
    target: PreTrainedModel
    draft: PreTrainedModel | None
    assistant: PreTrainedModel
    real: bool = True
    chat: bool = False

    @cached_property
    def default_threads(self) -> int:
        """torch's default number of threads."""
        return torch.get_num_threads()

    def generate(
        self, ids: Sequence[int], length: int, count: int, mode: Mode = "plain", gamma: int = 4
    ) -> list[int]:
        """transformers' greedy `generate` on `count` CPU threads; `gamma` tokens are guessed at a time."""
        options: dict[str, Any] = {}
        if mode == "static cache":
            options["cache_implementation"] = "static"
        elif mode == "prompt lookup":
            options["prompt_lookup_num_tokens"] = gamma
        elif mode == "assisted":
            # Assisted generation reads these from the assistant's configuration.
            config = self.assistant.generation_config
            config.num_assistant_tokens = gamma
            config.num_assistant_tokens_schedule = "constant"
            config.assistant_confidence_threshold = 0
            options["assistant_model"] = self.assistant
        prompt = torch.tensor([list(ids)])
        with threads(count):
            # transformers types a causal model without its GenerationMixin
            output: Tensor = self.target.generate(  # type: ignore[operator]
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=length,
                do_sample=False,
                **options,
            )
        new: list[int] = output[0, len(ids) :].tolist()
        return new


def load(family: str = catalogue.BUNDLED) -> Subjects:
    """A family of the catalogue; random weights of the bundled family's shapes where it is not there yet.

    transformers gets a separately loaded model: ours stores its weights in another way, and transformers' `generate`
    must neither gain nor suffer from that.
    """
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    entry = catalogue.find(family)
    if entry is None or entry.draft is None:
        raise sd.ModelError(f"There is no family '{family}' with a draft in the catalogue.")
    if not entry.bundled:
        target = load_model(locate(entry.name), CPU, torch.float32)
        assistant = Widened.over(resolve(entry.draft), target)
        models = sd.load_models(family, device="cpu", dtype="float32")
        return Subjects(models, target, None, assistant, chat=True)
    if Path(resolve(entry.target)).is_dir():
        target, draft = (
            load_model(resolve(name), CPU, torch.float32) for name in (entry.target, entry.draft)
        )
        return Subjects(sd.load_models(device="cpu", dtype="float32"), target, draft, draft)
    target, draft = _random(224, 12, 608), _random(128, 2, 352)
    packed = _random(224, 12, 608)
    packed.load_state_dict(target.state_dict())
    random_target = HubModel("random target", packed)
    random_target.arrange()
    models = sd.Models(
        Letters(4096),
        random_target,
        HubModel("random draft", draft),
        machine=describe(torch.device("cpu")),
        threads=fitting_threads(torch.device("cpu"), packed.num_parameters()),
    )
    return Subjects(models, target, draft, draft, real=False)


def _random(width: int, layers: int, inner: int) -> PreTrainedModel:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=4096,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=None,
        pad_token_id=0,
    )
    model: PreTrainedModel = LlamaForCausalLM(config).eval()
    return model


def prompts(subjects: Subjects, per_family: int) -> list[Prompt]:
    """The first `per_family` prompts of each shipped family; random ids where there is no tokenizer for them.

    A chat family gets the messages alone, in its template.
    """
    found = []
    for path in sorted(PROMPTS.glob("chat-*.toml" if subjects.chat else "*.toml")):
        for item in tomllib.loads(path.read_text(encoding="utf-8"))["prompt"][:per_family]:
            if subjects.chat:
                ids = subjects.models.chat(item["text"])
            elif subjects.real:
                ids = subjects.models.codec.encode(item["text"])
            else:
                rng = random.Random(item["name"])
                ids = [rng.randrange(1, 4096) for _ in range(len(item["text"]) // 4 + 1)]
            found.append(Prompt(path.stem, item["name"], tuple(ids)))
    return found


def surroundings(subjects: Subjects) -> dict[str, str]:
    """Machine, threads, versions and date, to accompany each figure."""
    loaded = [model.info for model in (subjects.models.target, subjects.models.draft) if model is not None]
    return {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "machine": describe(torch.device("cpu")),
        "load": f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "0",  # before the measuring
        "threads": f"{subjects.models.threads} (torch's own choice: {subjects.default_threads})",
        "python": platform.python_version(),
        "torch": version("torch"),
        "transformers": version("transformers"),
        "specdec_core": sd.__version__,
        "models": ", ".join(f"{info.name} {info.parameters / 1e6:.2f} M" for info in loaded)
        + ("" if subjects.real else " (random weights: speed only, acceptance means nothing)"),
    }
