"""Do test rows and held-out documents stay out of training?"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from random import Random
from typing import Any

import pytest

from training.data import formats, tasks
from training.data.documents import Document, Split, require, split_by_hash


def write_records(folder: Path, name: str, records: list[dict[str, Any]]) -> None:
    body = "".join(json.dumps(record) + "\n" for record in records)
    (folder / name).write_bytes(lzma.compress(body.encode("utf-8")))


def test_evaluation_files_are_never_opened(tmp_path: Path) -> None:
    (tmp_path / "eval_x.jsonl.xz").write_bytes(b"")
    with pytest.raises(ValueError, match="for evaluation only"):
        require(tmp_path, "eval_x.jsonl.xz")


def test_a_missing_file_is_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"No corpus file .*--corpus"):
        require(tmp_path, "stories.txt.xz")


def test_mbpp_test_rows_are_held_out(tmp_path: Path) -> None:
    rows = [
        {
            "prompt": f"Task {i}.",
            "code": f"def f{i}(): pass",
            "tests": ["assert True"],
            "task_id": i,
            "split": split,
        }
        for i, split in enumerate(["train", "test", "validation", "prompt", "test"])
    ]
    write_records(tmp_path, "m.jsonl.xz", rows)
    split = formats.mbpp(tmp_path, "m.jsonl.xz")
    assert {d.group for d in split.heldout} == {"1", "4"}
    assert {d.group for d in split.train} == {"0", "2", "3"}


def test_fairytale_sections_of_test_rows_never_train(tmp_path: Path) -> None:
    base = {"question": "Who sat?", "answer": "the cat", "explicit": "explicit", "story": "s"}
    rows = [
        base | {"context": "The cat sat here. It was old.", "split": "test"},
        base | {"context": "The cat sat here. It was old.", "split": "train"},
        base | {"context": "The cat sat there. It was new.", "split": "train"},
    ]
    write_records(tmp_path, "q.jsonl.xz", rows)
    split = formats.fairytale_questions(tmp_path, "q.jsonl.xz")
    assert len(split.train) == len(split.heldout) == 1
    assert "sat here" in split.heldout[0].text
    assert "sat here" not in split.train[0].text
    assert 'Evidence: "The cat sat there."' in split.train[0].text


def test_hash_split_is_disjoint_stable_and_drops_repeats() -> None:
    documents = [Document(f"text {i}", f"group {i // 3}") for i in range(3000)] * 2
    first, again = split_by_hash(documents), split_by_hash(documents)
    assert first == again
    assert len(first.train) + len(first.heldout) == 3000
    assert not {d.group for d in first.train} & {d.group for d in first.heldout}
    assert 10 < len(first.heldout) < 120


def test_exercises_use_their_own_side_of_the_stories() -> None:
    train = [
        Document(f"One day there was a boy named Tom{i}. He ran. He sat. He ate. He slept.", "a")
        for i in range(9)
    ]
    held = [
        Document(f"One day there was a girl named Zed{i}. She ran. She sat. She ate. She slept.", "b")
        for i in range(9)
    ]
    split = formats.written([tasks.copy_task, tasks.name_question_task], 60, 1, Split(train, held))
    assert split.train
    assert split.heldout
    assert not any("Zed" in document.text for document in split.train)
    assert not any(" Tom" in document.text for document in split.heldout)


def test_rename_changes_only_the_name() -> None:
    story = "Once there was a girl named Lily. Lily ran. The dog saw Lily. Lily was happy. " * 3
    text = tasks.rename_task(Random(3), story)
    assert text is not None
    passage, _, changed = text.removeprefix("Passage: ").partition("\nRepeat with ")
    new = changed.split(" instead")[0]
    assert changed.partition(": ")[2].replace(new, "Lily") == passage
