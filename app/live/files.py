"""What the page takes along of the models: weights, configurations, the tokenizer's tables."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from specdec_core.foundations.paths import assets

ENGINE = Path(__file__).with_name("engine")
TARGET, DRAFT = "specdec-target", "specdec-draft"


def weights(name: str) -> bytes:
    """The safetensors of a bundled model."""
    return (assets() / "models" / name / "model.safetensors").read_bytes()


def config(name: str) -> dict[str, Any]:
    """A bundled model's configuration."""
    made: dict[str, Any] = json.loads((assets() / "models" / name / "config.json").read_bytes())
    return made


@cache
def vocabulary() -> dict[str, Any]:
    """The tokenizer as `Tokenizer` of engine/tokenizer.js takes it.

    Raises:
        ValueError: one sentence, if the tokenizer is of another kind than that module reads.
    """
    content = json.loads((assets() / "models" / TARGET / "tokenizer.json").read_bytes())
    steps = [step["type"] for step in content["pre_tokenizer"]["pretokenizers"]]
    added, model = content["added_tokens"], content["model"]
    if steps != ["Digits", "ByteLevel"] or model["type"] != "BPE" or content["normalizer"] or len(added) != 1:
        raise ValueError("The live page reads byte-level BPE with single digits and one added token.")
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    return {"tokens": tokens, "merges": model["merges"], "special": added[0]["content"]}
