"""A tiny corpus, tokenizer and prepared data for the tests of the training pipeline."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from training.data.documents import Document, Split
from training.data.mix import Source
from training.data.prepare import prepare_source
from training.data.tokenizer import load_tokenizer, save_tokenizer, train_tokenizer
from training.shapes import Shape

TINY = Shape(layers=2, hidden=32, heads=2, kv_heads=1, head_dim=16, ffn=48, vocab=300, max_positions=64)
WORDS = "the a cat dog ran sat saw red blue ball tree and then in on was happy".split()


def tiny_texts(count: int, seed: int = 0) -> list[str]:
    """Short nonsense sentences."""
    rng = Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(5, 40))) + f" {index}." for index in range(count)]


def tiny_folder(folder: Path) -> Path:
    """Prepare two small sources below `folder`; returns the data folder."""
    save_tokenizer(train_tokenizer(tiny_texts(200), vocab_size=TINY.vocab), folder / "tokenizer")
    tokenizer = load_tokenizer(folder / "tokenizer")
    data = folder / "data"
    data.mkdir(parents=True)
    rows = []
    for seed, (name, family) in enumerate([("one", "story"), ("two", "copy")]):
        texts = [Document(text, text) for text in tiny_texts(120, seed)]
        split = Split(texts[:100], texts[100:])
        rows.append(prepare_source(Source(name, family, 1.0, lambda _, s=split: s), folder, tokenizer, data))
    (data / "manifest.json").write_text(json.dumps(rows), encoding="utf-8")
    return data
