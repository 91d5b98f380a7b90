"""How does the corpus become arrays? Tokenises every source into uint16 files with document offsets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import numpy as np
from tokenizers import Tokenizer
from tqdm import tqdm

from training.data.documents import Document
from training.data.mix import SOURCES, Source
from training.data.tokenizer import save_tokenizer
from training.shapes import EOS_ID, EOS_TOKEN

HELDOUT_BYTES = 60_000  # per source: enough for a stable mean, small enough to measure often


def tokenizer_sample(corpus: Path, characters: int = 16_000_000, seed: int = 0) -> Iterator[str]:
    """Training documents in the proportion of the mix, about `characters` in all (train side only)."""
    total = sum(source.weight for source in SOURCES)
    for source in tqdm(SOURCES, desc="sample", unit="source"):
        documents = [document.text for document in source.load(corpus).train]
        Random(seed).shuffle(documents)
        left = int(characters * source.weight / total)
        for text in documents:
            if left <= 0:
                break
            yield text[:left]
            left -= len(text)


def encode(tokenizer: Tokenizer, documents: list[Document]) -> tuple[np.ndarray, np.ndarray]:
    """Token ids (uint16, each document closed by EOS) and document starts (int64, one more than documents)."""
    # A document that spells the end mark out must not end itself.
    texts = [document.text.replace(EOS_TOKEN, "") for document in documents]
    encodings = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    lengths = [len(encoding.ids) + 1 for encoding in encodings]
    ids = np.empty(sum(lengths), dtype=np.uint16)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    for encoding, start, end in zip(encodings, starts[:-1], starts[1:], strict=True):
        ids[start : end - 1] = encoding.ids
        ids[end - 1] = EOS_ID
    return ids, starts


def limit_bytes(documents: list[Document], limit: int, seed: int = 0) -> list[Document]:
    """A shuffled selection of at most about `limit` UTF-8 bytes."""
    chosen, left = [], limit
    for document in Random(seed).sample(documents, len(documents)):
        if left <= 0:
            break
        chosen.append(document)
        left -= len(document.text.encode("utf-8"))
    return chosen


def prepare_source(source: Source, corpus: Path, tokenizer: Tokenizer, out: Path) -> dict[str, object]:
    """Write `<name>.<side>.npy` and `<name>.<side>.starts.npy` of both sides; returns the manifest row."""
    split = source.load(corpus)
    overlap = {d.text for d in split.train} & {d.text for d in split.heldout}
    if overlap:
        raise ValueError(f"Source {source.name}: {len(overlap)} held-out documents also stand in training.")
    row: dict[str, object] = {"name": source.name, "family": source.family, "weight": source.weight}
    for side, documents in (("train", split.train), ("heldout", limit_bytes(split.heldout, HELDOUT_BYTES))):
        ids, starts = encode(tokenizer, documents)
        np.save(out / f"{source.name}.{side}.npy", ids)
        np.save(out / f"{source.name}.{side}.starts.npy", starts)
        row[f"{side}_documents"] = len(documents)
        row[f"{side}_tokens"] = len(ids)
        row[f"{side}_bytes"] = sum(len(document.text.encode("utf-8")) for document in documents)
    return row


def prepare(corpus: Path, tokenizer: Tokenizer, out: Path) -> list[dict[str, object]]:
    """Tokenise every source of the mix into `out`, with the tokenizer and `manifest.json`; returns its rows."""
    out.mkdir(parents=True, exist_ok=True)
    save_tokenizer(tokenizer, out)
    rows = [
        prepare_source(source, corpus, tokenizer, out)
        for source in tqdm(SOURCES, desc="prepare", unit="source")
    ]
    (out / "manifest.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return rows
