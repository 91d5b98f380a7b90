"""What is measured: the bundled pair in our decoder, the same weights in transformers, the prompts, the machine."""

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
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, PreTrainedModel
from transformers.utils import logging

import specdec_core as sd
from specdec_core.models import catalogue
from specdec_core.models.bundle import HubModel
from specdec_core.models.sources import resolve
from specdec_core.runtime.machine import describe, fitting_threads, threads
from specdec_core.testing import Letters

PROMPTS = Path(__file__).resolve().parent.parent / "assets" / "prompts"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One shipped prompt as token ids."""

    family: str
    name: str
    ids: tuple[int, ...]


@dataclass
class Subjects:
    """Our decoder and transformers' on the same weights. `bundled` is false for random weights of the same shapes."""

    models: sd.Models
    target: PreTrainedModel
    draft: PreTrainedModel
    bundled: bool

    @cached_property
    def default_threads(self) -> int:
        """torch's default number of threads."""
        return torch.get_num_threads()

    def generate(self, ids: Sequence[int], length: int, count: int, gamma: int | None = None) -> list[int]:
        """transformers' greedy `generate` on `count` CPU threads; with `gamma`, assisted by the draft."""
        options: dict[str, Any] = {}
        if gamma is not None:
            # Assisted generation reads these from the assistant's configuration.
            config = self.draft.generation_config
            config.num_assistant_tokens = gamma
            config.num_assistant_tokens_schedule = "constant"
            config.assistant_confidence_threshold = 0
            options["assistant_model"] = self.draft
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


def load() -> Subjects:
    """The bundled pair; random weights of its shapes where it is not there yet.

    transformers gets a separately loaded model: ours holds packed copies of its weights, and transformers'
    `generate` must neither gain nor suffer from them.
    """
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    entry = catalogue.find(catalogue.BUNDLED)
    assert entry is not None and entry.draft is not None
    folder = Path(resolve(entry.target))
    if folder.is_dir():
        target, draft = (
            AutoModelForCausalLM.from_pretrained(resolve(name), dtype=torch.float32).eval()
            for name in (entry.target, entry.draft)
        )
        return Subjects(sd.load_models(device="cpu", dtype="float32"), target, draft, bundled=True)
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
    return Subjects(models, target, draft, bundled=False)


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
    """The first `per_family` prompts of each shipped family; random ids where there is no tokenizer for them."""
    found = []
    for path in sorted(PROMPTS.glob("*.toml")):
        for item in tomllib.loads(path.read_text(encoding="utf-8"))["prompt"][:per_family]:
            if subjects.bundled:
                ids = subjects.models.codec.encode(item["text"])
            else:
                rng = random.Random(item["name"])
                ids = [rng.randrange(1, 4096) for _ in range(len(item["text"]) // 4 + 1)]
            found.append(Prompt(path.stem, item["name"], tuple(ids)))
    return found


def surroundings(subjects: Subjects) -> dict[str, str]:
    """Machine, threads, versions and date, to accompany each figure."""
    assert subjects.models.draft is not None
    target, draft = subjects.models.target.info, subjects.models.draft.info
    return {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "machine": describe(torch.device("cpu")),
        "load": f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "0",  # before the measuring
        "threads": f"{subjects.models.threads} (torch's own choice: {subjects.default_threads})",
        "python": platform.python_version(),
        "torch": version("torch"),
        "transformers": version("transformers"),
        "specdec_core": sd.__version__,
        "models": f"{target.name} {target.parameters / 1e6:.1f} M, {draft.name} {draft.parameters / 1e6:.2f} M"
        + ("" if subjects.bundled else " (random weights: speed only, acceptance means nothing)"),
    }
