"""The models that ship: the product as a visitor meets it, against transformers' own `generate` on the same files."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

import specdec_core as sd
from specdec_core.models.sources import resolve

from .offers import offered
from .tiny import generate

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(resolve("specdec-target"))
PROMPTS = {path.stem: path for path in sorted((ROOT / "assets" / "prompts").glob("*.toml"))}
LENGTH = 24


@pytest.fixture(scope="module")
def models() -> sd.Models:
    """Loaded as the app loads them: packed, on the threads that fit."""
    return sd.load_models(device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def oracle() -> PreTrainedModel:
    """The same target, loaded by transformers alone."""
    return AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval()


@pytest.mark.parametrize("family", PROMPTS)
def test_the_bundled_pair_writes_what_generate_writes(
    family: str, models: sd.Models, oracle: PreTrainedModel
) -> None:
    """The first shipped prompt of each family, greedy, all proposers. Catches: packing, the end token or the
    tokenizer's special tokens treated differently."""
    text = tomllib.loads(PROMPTS[family].read_text(encoding="utf-8"))["prompt"][0]["text"]
    expected = generate(oracle, models.codec.encode(text), LENGTH)
    for proposer in offered(models):
        trace = sd.decode(models, text, sd.Settings(proposer=proposer, max_new_tokens=LENGTH))
        assert trace.token_ids == expected
        assert trace.audit() == []
        assert sd.Trace.from_json(trace.to_json()) == trace


def test_every_shipped_prompt_leaves_room_to_write(models: sd.Models) -> None:
    """Prompt and the default length fit the bundled models' window."""
    for path in PROMPTS.values():
        for item in tomllib.loads(path.read_text(encoding="utf-8"))["prompt"]:
            size = len(models.codec.encode(item["text"]))
            assert 0 < size <= models.window(True) - sd.Settings().max_new_tokens, item["name"]
