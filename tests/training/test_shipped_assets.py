"""Are the shipped models and prompts what the app relies on?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from transformers import AutoTokenizer

from training.data.mix import FAMILIES
from training.data.tokenizer import load_tokenizer
from training.results.card import render
from training.results.measure import bytes_of_tokens
from training.results.reading import load_family, load_prompts
from training.shapes import DRAFT, DRAFT_LARGE, EOS_ID, MAX_POSITIONS, SHAPES, TARGET

ASSETS = Path(__file__).resolve().parents[2] / "assets"
MODELS = ASSETS / "models"


def weights_of(name: str) -> int:
    total = 0
    with safe_open(MODELS / f"specdec-{name}" / "model.safetensors", framework="pt") as file:
        for key in file.keys():  # noqa: SIM118 (a safetensors handle is no dict)
            tensor = file.get_tensor(key)
            assert tensor.dtype == torch.float16
            total += tensor.numel()
    return total


def test_sizes_and_ratio() -> None:
    target, draft, larger = (weights_of(name) for name in SHAPES)
    assert target == TARGET.parameter_count()
    assert draft == DRAFT.parameter_count()
    assert larger == DRAFT_LARGE.parameter_count()
    assert larger * 4 <= target <= larger * 6
    assert 6_000_000 <= target <= 16_000_000
    assert draft * 8 <= target
    assert sum(path.stat().st_size for path in MODELS.rglob("*") if path.is_file()) <= 100_000_000


def test_only_data_files_are_shipped() -> None:
    suffixes = {path.suffix for path in MODELS.rglob("*") if path.is_file()}
    assert suffixes <= {".json", ".safetensors", ".md", ".svg", ".png"}


def test_all_models_share_one_tokenizer() -> None:
    for file in ("tokenizer.json", "tokenizer_config.json"):
        assert len({(MODELS / f"specdec-{name}" / file).read_bytes() for name in SHAPES}) == 1


def test_the_family_opens_and_computes() -> None:
    family, tokenizer = load_family(MODELS)
    ids = tokenizer("Once upon a time", return_tensors="pt")["input_ids"]
    for model in family.values():
        assert model.config.eos_token_id == model.generation_config.eos_token_id == EOS_ID
        assert model.config.max_position_embeddings == MAX_POSITIONS
        with torch.no_grad():
            logits = model(ids).logits
        assert logits.shape == (1, ids.shape[1], 4096)
        assert torch.isfinite(logits).all()


def test_prompts_are_complete_and_fit() -> None:
    prompts = load_prompts(ASSETS / "prompts")
    assert set(prompts) == set(FAMILIES)
    tokenizer = load_tokenizer(MODELS / "specdec-target")
    for content in prompts.values():
        assert len(content["prompt"]) >= 6
        assert len({prompt["name"] for prompt in content["prompt"]}) == len(content["prompt"])
        for prompt in content["prompt"]:
            # A trailing space or newline would split a token the model knows only whole.
            assert prompt["text"] == prompt["text"].rstrip()
            assert len(tokenizer.encode(prompt["text"]).ids) + 256 <= MAX_POSITIONS


def test_an_incomplete_prompt_file_is_one_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "story.toml").write_text(
        'title = "x"\ndescription = "y"\n[[prompt]]\nname = "a"\n', encoding="utf-8"
    )
    with pytest.raises(ValueError, match=r"story.toml lacks prompt 1: text, prompt 1: look_for"):
        load_prompts(tmp_path)


def test_the_card_is_what_the_measurements_say() -> None:
    """Catches: a number edited by hand, a card older than its measurements or its text."""
    measured = json.loads((MODELS / "measurements.json").read_text(encoding="utf-8"))
    assert (MODELS / "README.md").read_text(encoding="utf-8") == render(measured)


def test_bytes_of_tokens_add_up_to_the_text() -> None:
    """Against UTF-8. Catches: characters counted for bytes, marks counted as text."""
    tokenizer = AutoTokenizer.from_pretrained(MODELS / "specdec-target")
    lengths = bytes_of_tokens(tokenizer)
    for text in ("Once upon a time", "def f(x):\n    return x + 12345", "naïve café – “quoted” 🙂 中文\n\n"):
        assert int(lengths[tokenizer(text)["input_ids"]].sum()) == len(text.encode("utf-8"))
    assert lengths[EOS_ID] == 0
