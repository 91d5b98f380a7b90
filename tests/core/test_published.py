"""Heads as their makers publish them draft what their makers' own code drafts (`benchmarks/published` made them)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import specdec_core as sd

from .tiny import tokenizer

FOLDER = Path(__file__).with_name("published")
HEADS = sorted(path.parent.name for path in FOLDER.glob("*/guesses.json"))
# Later guesses read a state that engines pass on otherwise than the maker's class: vLLM and SGLang after the last norm,
# SpecForge's before it; the paper and vLLM's modules before it, transformers' after it.
FIRST_GUESSES = {"specforge-last-norm": 1, "deepseek-mtp-two": 1}
IN_THEIR_TARGET = ("mimo", "qwen3-next")
NEAR = 2e-3  # between the two largest logits of the maker's: rounding may choose the other


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shared target with a tokenizer."""
    return _with_tokenizer(FOLDER / "target", tmp_path_factory.mktemp("target"))


def _with_tokenizer(source: Path, folder: Path) -> Path:
    """A copy of a folder with a tokenizer, which takes no part."""
    for file in source.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    tokenizer().save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", HEADS)
def test_first_chain_is_the_makers(name: str, target: Path, tmp_path: Path) -> None:
    """Catches: a layout read as another one, a norm or an entry left out, a state taken one layer off, a state fed
    back with a norm that its maker does not apply, or without one that it does, an embedding at position 0 that its
    maker leaves out."""
    facts = json.loads((FOLDER / name / "guesses.json").read_text(encoding="utf-8"))
    kind = facts["kind"]
    if name in IN_THEIR_TARGET:
        target = _with_tokenizer(FOLDER / name, tmp_path)
    models = sd.load_models(
        target, device="cpu", **{kind: target if name in IN_THEIR_TARGET else FOLDER / name}
    )
    if facts["layers_read"]:
        assert list(getattr(models.heads[kind], "layers_read", ())) == facts["layers_read"]
    depth = FIRST_GUESSES.get(name, len(facts["chains"][-1]))
    chain: dict[str, object] = {"depth": depth, "top_k": 1, "nodes": depth}
    options = {"choices": [[0] * (level + 1) for level in range(depth)]} if kind == "medusa" else chain
    if kind == "block":
        options = {}
    settings = sd.Settings(proposer=kind, max_new_tokens=8, draft_length=depth, options=options)
    compared = 0
    for row, chain_there in enumerate(facts["chains"]):
        if not chain_there:
            continue
        drafted = sd.decode(models, facts["text"][: row + 2], settings).rounds[0].nodes.token
        sure = _sure(facts, row, depth)
        assert drafted[:sure] == chain_there[:sure], f"behind {row + 2} tokens"
        compared += sure
    assert compared > 0.9 * depth * sum(map(bool, facts["chains"]))


@pytest.mark.parametrize("name", ["vllm-eagle", "vllm-eagle3-norm-before-fc", "deepseek-mtp"])
def test_a_head_drafts_beyond_its_own_window(name: str, target: Path, tmp_path: Path) -> None:
    """Catches: guesses that end, or become others, behind the positions of the head's own configuration, which engines
    raise to the target's."""
    kind = json.loads((FOLDER / name / "guesses.json").read_text(encoding="utf-8"))["kind"]
    short = tmp_path / "short"
    short.mkdir()
    (short / "model.safetensors").write_bytes((FOLDER / name / "model.safetensors").read_bytes())
    config = json.loads((FOLDER / name / "config.json").read_text(encoding="utf-8"))
    (short / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 8}), encoding="utf-8")
    settings = sd.Settings(proposer=kind, max_new_tokens=24)
    drafted = [
        [
            row.nodes.token
            for row in sd.decode(
                sd.load_models(target, device="cpu", **{kind: head}), [5, 55], settings
            ).rounds
        ]
        for head in (FOLDER / name, short)
    ]
    assert drafted[0] == drafted[1] and all(drafted[1][:-1])  # the last round may have no room


def _sure(facts: dict[str, Any], row: int, depth: int) -> int:
    """How many guesses of a chain come before one that was nearly another."""
    if "top" not in facts:
        return depth
    gaps = [best[0] - best[1] for best in facts["top"][row]]
    return next((level for level, gap in enumerate(gaps) if gap < NEAR), depth)
