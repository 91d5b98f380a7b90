"""Which documents are there, from which file, and which of them are held out?

Reads the local corpus folder (`.txt.xz`: documents between `<|endoftext|>` lines; `.jsonl.xz`: one record
a line) and splits each source into train and held-out documents.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.shapes import EOS_TOKEN

HELDOUT_PERMILLE = 15  # share of documents held out in sources without a split


@dataclass(frozen=True)
class Document:
    """One text; `group` names what must stay on one side of the split (a story, a file)."""

    text: str
    group: str


@dataclass(frozen=True)
class Split:
    """Documents of one source, train and held out."""

    train: list[Document]
    heldout: list[Document]


def read_texts(path: Path) -> list[str]:
    """Documents of a `.txt.xz` file, stripped of outer blank lines, empty ones dropped."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        parts = file.read().split(EOS_TOKEN)
    return [text for part in parts if (text := part.strip("\n").rstrip())]


def read_records(path: Path) -> list[dict[str, Any]]:
    """Records of a `.jsonl.xz` file."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def require(corpus: Path, name: str) -> Path:
    """Path of corpus file `name`; a clear error where it is missing or is evaluation-only."""
    if name.startswith("eval_"):
        raise ValueError(f"{name} is for evaluation only: it must never be read for training.")
    path = corpus / name
    if not path.is_file():
        raise ValueError(f"No corpus file {path}: pass the folder with --corpus, or run the `fetch` stage.")
    return path


def is_heldout(group: str, permille: int = HELDOUT_PERMILLE) -> bool:
    """Whether a group belongs to the held-out side: a hash decides, so it never depends on order."""
    digest = hashlib.sha256(group.encode("utf-8")).digest()
    return int.from_bytes(digest[:4], "big") % 1000 < permille


def split_by_hash(documents: list[Document], permille: int = HELDOUT_PERMILLE) -> Split:
    """Split documents by the hash of their group; exact duplicates are dropped."""
    seen: set[str] = set()
    train: list[Document] = []
    heldout: list[Document] = []
    for document in documents:
        if document.text in seen:
            continue
        seen.add(document.text)
        (heldout if is_heldout(document.group, permille) else train).append(document)
    return Split(train, heldout)


def opening(text: str) -> str:
    """Group key of a plain text: its first 60 letters, so that near duplicates stay on one side."""
    return "".join(character for character in text.lower() if character.isalnum())[:60]
