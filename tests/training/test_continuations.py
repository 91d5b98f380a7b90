"""The target's own text: begun by documents, continued as a plain pass would, stored as prepared data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count, islice, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.core.tiny import build
from training.batches import Batches
from training.data.instructions import Instruction
from training.heads import continuations
from training.heads.continuations import LONGEST, SHORTEST, WRITTEN, beginnings, join, write
from training.results.evaluate import heldout_rows

VOCABULARY = 64
TYPED = [25, 26, 27, 25]  # what a person typed, in tokens of `Words`


class Words:
    """A tokenizer of which only `encode` is used."""

    def encode(self, text: str) -> list[int]:
        return [1 + len(word) for word in text.split()]


def asked(corpus: Path, seed: int) -> Iterator[Instruction]:
    return (Instruction("chat", f"what is a number {number}") for number in count())


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two prepared sources; every document starts with its own number."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setattr(continuations, "FOCUS", {"short": 3.0, "long": 1.0})
    monkeypatch.setattr(continuations, "instructions", asked)
    for name, first, length in (("short", 1, 12), ("long", 40, 700)):
        texts = [[number, *[7, 8, 9] * (length // 3), 0] for number in range(first, first + 20)]
        np.save(folder / f"{name}.train.npy", np.concatenate(texts).astype(np.uint16))
        np.save(folder / f"{name}.train.starts.npy", np.cumsum([0, *map(len, texts)]))
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")
    people = tmp_path / "people.jsonl"
    people.write_text(
        json.dumps({"prompt": " ".join("a" * (token - 1) for token in TYPED), "family": "free"}) + "\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(continuations, "PEOPLE", people)
    return folder


def texts_in(folder: Path, name: str) -> list[list[int]]:
    found = []
    for side in ("heldout", "train"):
        ids = np.load(folder / f"{name}.{side}.npy").tolist()
        found += [ids[a:b] for a, b in pairwise(np.load(folder / f"{name}.{side}.starts.npy").tolist())]
    return found


def test_beginnings_are_of_people_documents_instructions_and_nothing(data: Path, tmp_path: Path) -> None:
    """Catches: a beginning from the middle of a document, one that holds more than half of it, a kind left out, prompts
    of people that are always whole or never."""
    found = list(islice(beginnings(data, tmp_path, Words(), 0), 800))
    of_documents = [one for one in found if one[1:2] == [7]]
    typed = [one for one in found if one[0] == TYPED[0]]
    assert 10 < sum(one == [0] for one in found) < 60
    assert 30 < sum(one[:4] == Words().encode("what is a number") for one in found) < 90
    assert 410 < len(typed) < 550 and all(one == TYPED[: len(one)] for one in typed)
    assert {len(one) for one in typed} == {1, 2, 3, 4}
    assert 0.45 < np.mean([len(one) == 4 for one in typed]) < 0.65  # 0.4 whole, and a quarter of the others
    for one in of_documents:
        most = 14 // 2 if one[0] < 40 else LONGEST
        assert SHORTEST <= len(one) <= most and one[1:] == ([7, 8, 9] * LONGEST)[: len(one) - 1]
    assert 0.65 < np.mean([one[0] < 40 for one in of_documents]) < 0.85


def test_what_is_written_is_what_the_target_would_write(data: Path, tmp_path: Path) -> None:
    """Greedy texts against a plain pass of transformers over the whole text. Catches: a text cut from another row, the
    end mark kept twice, sampled text in the greedy source, a seed's texts lost when several are joined."""
    model = build("llama", vocab_size=VOCABULARY, max_position_embeddings=512).requires_grad_(False)
    model.lm_head.weight.mul_(8.0)
    for seed in (1, 2):
        total = write(tmp_path / f"part-{seed}", data, tmp_path, model, Words(), 800, seed, rows=8)
        assert total >= 800
    parts = [tmp_path / "part-1", tmp_path / "part-2"]
    joined = join(parts, tmp_path / "own")
    checked, kinds = 0, []
    for name in ("greedy", "sampled"):
        texts = texts_in(tmp_path / "own", name)
        assert sorted(texts) == sorted(text for part in parts for text in texts_in(part, name))
        right = []
        for text in texts:
            assert text[-1] == 0 and 0 not in text[:-1] and len(text) <= LONGEST + WRITTEN + 1
            if len(text) == 1:
                continue  # from nothing, and nothing came
            given = next((at for at in range(1, len(text)) if text[at] not in (7, 8, 9)), len(text))
            with torch.inference_mode():
                best = model(torch.tensor([text[:-1]])).logits[0].topk(2)
            clear = (best.values[:, 0] - best.values[:, 1] > 1e-3).tolist()
            for at in range(max(given, 5), len(text) - 1):
                if clear[at - 1]:
                    right.append(int(best.indices[at - 1, 0]) == text[at])
        kinds.append(np.mean(right))
        checked += len(right)
    assert checked > 200 and kinds[0] == 1.0 and kinds[1] < 0.9, kinds
    listed = json.loads((tmp_path / "own" / "manifest.json").read_text(encoding="utf-8"))
    assert joined == sum(one["train_tokens"] + one["heldout_tokens"] for one in listed)
    assert Batches(tmp_path / "own", 32, 4, 0).next().shape == (4, 33)
    assert heldout_rows(tmp_path / "own", 33, 2)["own"].shape[1] == 33
