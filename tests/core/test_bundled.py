"""The models that ship: the product as a visitor meets it, against transformers' own `generate` on the same files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

import specdec_core as sd
from specdec_core.models.files.sources import resolve

from .offers import offered
from .tiny import generate

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(resolve("specdec-target"))
PROMPTS = {path.stem: path for path in sorted((ROOT / "assets" / "prompts").glob("*.toml"))}
LENGTH = 16
EACH = 4  # proposers that continue one prompt


@pytest.fixture(scope="module")
def models() -> sd.Models:
    """Loaded as the app loads them: packed, on the threads that fit."""
    return sd.load_models(device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def oracle() -> PreTrainedModel:
    """The same target, loaded by transformers alone."""
    return AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval()


def _turn(family: str, names: list[str]) -> list[str]:
    start = EACH * list(PROMPTS).index(family)
    return [names[place % len(names)] for place in range(start, start + EACH)]


@pytest.mark.parametrize("family", PROMPTS)
def test_the_bundled_pair_writes_what_generate_writes(
    family: str, models: sd.Models, oracle: PreTrainedModel
) -> None:
    """The first shipped prompt of each family, greedy, the proposers in turn, so that each continues three prompts or
    more: what a family can change is the prompt's tokens, which all proposers get from the same place. Catches:
    packing, the end token or the tokenizer's special tokens treated differently."""
    text = tomllib.loads(PROMPTS[family].read_text(encoding="utf-8"))["prompt"][0]["text"]
    expected = generate(oracle, models.codec.encode(text), LENGTH)
    for proposer in _turn(family, offered(models)):
        trace = sd.decode(models, text, sd.Settings(proposer=proposer, max_new_tokens=LENGTH))
        assert trace.token_ids == expected, proposer
        assert trace.audit() == []
        assert sd.Trace.from_json(trace.to_json()) == trace


def test_each_proposer_has_its_turn_three_times(models: sd.Models) -> None:
    """Catches: a table of proposers that has grown beyond what the prompts can serve."""
    names = offered(models)
    turns = [name for family in PROMPTS for name in _turn(family, names)]
    assert all(turns.count(name) >= 3 for name in names)


def test_every_shipped_prompt_leaves_room_to_write(models: sd.Models) -> None:
    """Prompt and the default length fit the bundled models' window."""
    for path in PROMPTS.values():
        for item in tomllib.loads(path.read_text(encoding="utf-8"))["prompt"]:
            size = len(models.codec.encode(item["text"]))
            assert 0 < size <= models.window(True) - sd.Settings().max_new_tokens, item["name"]


def test_what_a_prompt_s_note_quotes_is_in_its_text(models: sd.Models) -> None:
    """With the models that continue it, greedily. Catches: “look at 'But'” beside a text that has none."""
    families = sd.cases.families(audience="text")
    titles = {prompt.name for family in families for prompt in family.presets}
    settings, seen = sd.Settings(proposer="prompt-lookup", max_new_tokens=160, record="tokens"), 0
    for prompt in (prompt for family in families for prompt in family.presets):
        quoted = set(re.findall(r"'([^']{3,}?)'(?!\w)", prompt.look_for)) - titles
        parts = [part for quote in quoted for part in quote.split(" ... ")]
        if parts:
            text = prompt.text
            if not all(part in text for part in parts):
                text += sd.decode(models, prompt.text, settings).text
            assert [part for part in parts if part not in text] == [], prompt.name
            seen += 1
    assert seen > 4
