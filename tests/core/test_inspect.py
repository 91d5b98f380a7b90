"""`inspect`: what is in a head's or a model's files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import specdec_core as sd
from specdec_measure.inspect import UNKNOWN, inspect, purpose

from . import gguf_writing
from .tiny import build

PUBLISHED = Path(__file__).with_name("published")


@pytest.mark.parametrize(
    ("name", "title", "facts"),
    [
        ("speculators-five-states", "an EAGLE-3 head", {"Written by": "speculators", "Tokens it may guess": "100"}),
        ("specforge-layers", "an EAGLE-3 head", {"Hidden size": "32"}),
        ("deepspec", "an EAGLE-3 head", {"Written by": "DeepSpec"}),
        ("qwen-mtp-qwen3.5", "MTP modules", {"Vocabulary": "300"}),
        ("safeailab-eagle", "an EAGLE head", {}),
    ],
)  # fmt: skip
def test_published_heads_are_described(name: str, title: str, facts: dict[str, str]) -> None:
    """Catches: another kind or maker, layers that are not those that loading takes, a tensor without a purpose."""
    report = inspect(str(PUBLISHED / name), str(PUBLISHED / "target"))
    found = dict(report.facts)
    assert (report.title, report.loads) == (title, True), report.verdict
    assert facts.items() <= found.items()
    made = json.loads((PUBLISHED / name / "guesses.json").read_text())
    if made["layers_read"]:
        assert found["Reads the inputs of the target's layers"] == ", ".join(map(str, made["layers_read"]))
    assert all(part.purpose != UNKNOWN for part in report.parts)
    json.dumps(report.as_json())


def test_a_head_that_is_not_run_is_named_with_what_it_has(tmp_path: Path) -> None:
    """Catches: a P-EAGLE head called something else, or a traceback."""
    tensors = {"fc.weight": torch.ones(32, 96), "hidden_norm.weight": torch.ones(32)}
    save_file(tensors | {"mask_hidden": torch.ones(1, 1, 96)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 32, "block_size": 7}))
    report = inspect(str(tmp_path))
    assert report.title == "a P-EAGLE head" and not report.loads and "not run" in report.verdict
    assert "the state in place of those not known yet (P-EAGLE)" in [part.purpose for part in report.parts]


def test_what_does_not_fit_says_so_in_the_verdict() -> None:
    report = inspect(str(PUBLISHED / "speculators-plain"), "specdec-target")
    assert not report.loads and "does not fit this target" in report.verdict


def test_models_and_gguf_files_are_described(tmp_path: Path) -> None:
    """Catches: a whole model taken for a head, a companion file taken for a model."""
    build("llama", vocab_size=300).save_pretrained(tmp_path / "model")
    model = inspect(str(tmp_path / "model"))
    assert model.title == "a whole model" and model.loads and ("Vocabulary", "300") in model.facts
    file = gguf_writing.write(tmp_path / "pine.gguf")
    assert inspect(str(file)).title == "a model in a GGUF file"
    beside = gguf_writing.write(tmp_path / "mmproj.gguf", architecture="clip", tokenizer=False)
    found = inspect(str(beside))
    assert "projector" in found.title and not found.loads


def test_nothing_to_look_into_is_one_sentence(tmp_path: Path) -> None:
    for name in (str(tmp_path), str(tmp_path / "missing"), "", "x" * 2_000):
        with pytest.raises(sd.ModelError) as refused:
            inspect(name)
        assert "\n" not in str(refused.value)


def test_every_tensor_that_is_drafted_with_has_a_purpose() -> None:
    """Catches: a pattern that an earlier one hides."""
    assert purpose("lm_head.weight").startswith("output matrix")
    assert purpose("midlayer.self_attn.q_norm.weight") == "attention"
    assert purpose("layers.0.hidden_norm.weight") == "norm of the state"
    assert purpose("model.layers.3.post_attention_layernorm.weight") == "norm"
    assert purpose("0.1.weight") == "output matrix of a head"
    assert purpose("zebra") == UNKNOWN
