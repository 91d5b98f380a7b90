"""Heads as their makers publish them draft what their makers' own code drafts (`benchmarks/published` made them)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import specdec_core as sd

from .tiny import tokenizer

FOLDER = Path(__file__).with_name("published")
HEADS = sorted(path.parent.name for path in FOLDER.glob("*/guesses.json"))
NEAR = 2e-3  # between the two largest logits: rounding errors may choose the other
CHAIN = sd.Settings(max_new_tokens=8, options={"depth": 3, "top_k": 1, "nodes": 3})


def kind(name: str) -> str:
    """What a folder's heads are loaded as."""
    return next(known for known in ("mtp", "medusa", "eagle") if known in name) + "3" * (
        "eagle" in name and name not in FIRST
    )


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shared target with a tokenizer, which takes no part."""
    folder: Path = tmp_path_factory.mktemp("target")
    for file in (FOLDER / "target").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    tokenizer().save_pretrained(folder)
    return folder
