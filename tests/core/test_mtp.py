"""Multi-token-prediction modules: every drafted tree against an unoptimised computation, the published layout."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import specdec_core as sd
from specdec_core.models.heads import MtpModules, Target, mtp

from .test_eagle import PROMPTS, SETTINGS, Slow, _norm, compared, layer
from .test_eagle3 import with_head
from .tiny import build, generate, module, tokenizer
from .tiny_heads import WIDTH, mtp_modules, true_states

MTP = SETTINGS.but(proposer="mtp")


class SlowChain(Slow):
    """What the modules say after `text`: each module over all places whose state before it is known, as published.

    Beyond the last module its own states are read again, one place further each time.
    """

    @staticmethod
    def deepest(models: sd.Models, text: list[int], depth: int) -> int:
        count = models.heads["mtp"].modules_chained
        known = min(count, len(text) - 1)  # modules that have read a row
        return depth if known == count else min(depth, known)

    def __init__(self, models: sd.Models, text: list[int]) -> None:
        model = module(models)
        self.head: MtpModules = models.heads["mtp"]
        self.w, self.count = self.head.state_dict(), self.head.modules_chained
        self.embedding = model.get_input_embeddings().weight
        self.output = model.get_output_embeddings().weight
        self.text, self.states = text, true_states(models, text)[:-1]

    def module(self, number: int, tokens: list[int], states: Tensor) -> Tensor:
        """All rows of module `number`, from 0, alone."""
        at = f"layers.{number}."
        parts = (
            _norm(self.embedding[tokens], self.w[f"{at}enorm.weight"]),
            _norm(states, self.w[f"{at}hnorm.weight"]),
        )
        rows = torch.cat(parts, -1) @ self.w[f"{at}eh_proj.weight"].T
        return layer(self.w, at, _norm(rows, self.w[f"{at}input_layernorm.weight"]), rows)

    @cache  # noqa: B019
    def guessed(self, path: tuple[int, ...]) -> Tensor:
        text, states, places = [*self.text, *path], self.states, len(self.states)
        last = min(len(path), self.count - 1)
        for number in range(last):
            states = self.module(number, text[number + 1 : number + 1 + places], states)
        further = [self.guessed(path[:end]) for end in range(self.count - 1, len(path))]
        states = torch.stack([*states, *further])
        return self.module(last, text[last + 1 : last + 1 + len(states)], states)[-1]

    def logits(self, path: tuple[int, ...]) -> Tensor:
        last = min(len(path), self.count - 1)
        return self.output @ _norm(self.guessed(path), self.w[f"layers.{last}.shared_head.norm.weight"])


@pytest.mark.parametrize(
    ("architecture", "temperature", "shape", "count"),
    [
        ("llama", 0.0, (4, 3, 20), 1),
        ("llama", 1.0, (4, 3, 20), 2),
        ("gpt2", 0.0, (3, 4, 16), 3),
    ],
)
def test_every_tree_equals_the_slow_computation(
    architecture: str, temperature: float, shape: tuple[int, int, int], count: int
) -> None:
    """Chains of one to three modules, with and without levels beyond the last. Catches: a module that reads a token or
    a state one place off, rows of a rejected branch left in a module's memory, a later module that misses the rows
    whose tokens were only guessed, another module's norm before the output matrix."""
    models = with_head(mtp_modules(12, count), architecture)
    drafted, accepted = compared(models, MTP.but(temperature=temperature), shape, SlowChain)
    assert drafted > 20 and accepted >= 4


def _published(folder: Path, count: int = 2, **config: Any) -> Path:
    """Modules as DeepSeek-V3's files hold them, among the layers of a model, with their copies of shared matrices."""
    folder.mkdir()
    mtp.write(folder, mtp_modules(300, count), "target", 61, {}, torch.float32)
    tensors = load_file(folder / "model.safetensors")
    for number in range(61, 61 + count):
        tensors[f"model.layers.{number}.embed_tokens.weight"] = torch.zeros(300, WIDTH)
        tensors[f"model.layers.{number}.shared_head.head.weight"] = torch.zeros(300, WIDTH)
    tensors |= {
        "model.norm.weight": torch.ones(WIDTH),
        "model.layers.3.mlp.up_proj.weight": torch.ones(48, WIDTH),
    }
    save_file(tensors, folder / "model.safetensors")
    stored = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(stored | config))
    return folder


def test_the_published_layout_loads_and_drafts(tmp_path: Path) -> None:
    """Catches: the modules' numbers taken for the target's layers, copies of the embedding read in its place, a decode
    that differs from `generate`."""
    folder = _published(tmp_path / "modules")
    assert "model.layers.62.eh_proj.weight" in load_file(folder / "model.safetensors")
    build("llama", vocab_size=300).save_pretrained(tmp_path / "target")
    tokenizer().save_pretrained(tmp_path / "target")
    models = sd.load_models(tmp_path / "target", mtp=folder, device="cpu")
    assert models.heads["mtp"].modules_chained == 2
    found, wanted = mtp.read(str(folder), Target(WIDTH, 300, WIDTH)), mtp_modules(300, 2).state_dict()
    assert all(torch.equal(weight, found.state_dict()[key]) for key, weight in wanted.items())
    trace = sd.decode(models, PROMPTS[0], MTP)
    assert trace.token_ids == generate(module(models), PROMPTS[0], 25) and trace.audit() == []


def test_modules_of_another_layer_or_target_are_one_sentence(tmp_path: Path) -> None:
    """Catches: DeepSeek's own layer half read, fewer modules than announced, modules of another target."""

    def refusal(folder: Path, width: int = WIDTH) -> str:
        with pytest.raises(sd.ModelError) as refused:
            mtp.read(str(folder), Target(width, 300, width))
        return str(refused.value)

    folder = _published(tmp_path / "modules", num_nextn_predict_layers=3)
    assert "announces 3 and there are 2" in refusal(folder)
    assert "does not fit this target: model.layers.61." in refusal(_published(tmp_path / "wide"), width=16)
    file = folder / "model.safetensors"
    whole = load_file(file)
    for part, words in (
        ("self_attn.kv_a_proj_with_mqa.weight", "latent attention (MLA)"),
        ("mlp.experts.0.up_proj.weight", "experts"),
    ):
        save_file(whole | {f"model.layers.61.{part}": torch.zeros(2)}, file)
        (folder / "config.json").write_text(json.dumps({"num_nextn_predict_layers": 2}))
        assert words in refusal(folder)
    save_file({key: tensor for key, tensor in whole.items() if "enorm" not in key}, file)
    assert "the norm of their embeddings" in refusal(folder)
