"""What does each source look like as training text? One function per source, record in, document out."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

from training.data.documents import Document, Split, opening, read_records, read_texts, require, split_by_hash
from training.data.tasks import evidence


def plain(corpus: Path, name: str) -> Split:
    """A text source as it is; near duplicates (same opening) stay on one side of the split."""
    texts = read_texts(require(corpus, name))
    return split_by_hash([Document(text, opening(text)) for text in texts if len(text) > 40])


def long_prose(corpus: Path, name: str) -> Split:
    """Prose with hard line breaks inside paragraphs joined, so that lines do not end at random."""
    texts = read_texts(require(corpus, name))
    joined = [re.sub(r"(?<!\n)\n(?!\n)", " ", text) for text in texts]
    return split_by_hash([Document(text, opening(text)) for text in joined if len(text) > 200])


def poems(corpus: Path, name: str) -> Split:
    """Poems; a long file (the plays) is cut into pieces of about 1,500 characters at blank lines."""
    documents = []
    for text in read_texts(require(corpus, name)):
        pieces = [text] if len(text) < 20_000 else cut(text, 1500)
        documents += [Document(piece, opening(piece)) for piece in pieces if len(piece) > 40]
    return split_by_hash(documents)


def cut(text: str, size: int) -> list[str]:
    """Pieces of about `size` characters, cut at blank lines."""
    pieces, current = [], ""
    for part in text.split("\n\n"):
        current = f"{current}\n\n{part}" if current else part
        if len(current) >= size:
            pieces.append(current.strip("\n"))
            current = ""
    return [*pieces, current.strip("\n")] if current.strip() else pieces


def fables(corpus: Path, name: str) -> Split:
    """Elements (character, setting, …) as a short list, then the fable that uses them."""
    documents = []
    for record in read_records(require(corpus, name)):
        elements = re.findall(
            r"- (Main Character|Setting|Challenge|Outcome|Teaching): ([^\n]+)", record["prompt"]
        )
        listed = "\n".join(
            f"{label}: {text.replace(' where our story unfolds', '')}" for label, text in elements
        )
        documents.append(
            Document(f"{listed}\nFable: {record['response'].strip()}", opening(record["response"]))
        )
    return split_by_hash(documents)


def fable_texts(corpus: Path, name: str) -> Split:
    """The fables alone, as stories."""
    records = read_records(require(corpus, name))
    return split_by_hash([Document(r["response"].strip(), opening(r["response"])) for r in records])


def fairytale_questions(corpus: Path, name: str) -> Split:
    """A section, then its questions with answers; the source's own `test` rows are the held-out side."""
    sections: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for record in read_records(require(corpus, name)):
        sections[(record["context"], record["split"])].append(record)
    sides: dict[bool, list[Document]] = {True: [], False: []}
    tested = {context for context, split in sections if split == "test"}
    for (context, split), records in sections.items():
        if split != "test" and context in tested:
            continue
        passage = " ".join(context.split())
        if len(passage) > 2600:
            continue
        lines = []
        for record in records:
            answer = record["answer"].strip()
            lines.append(f"Question: {record['question'].strip()}\nAnswer: {answer}")
            if record["explicit"] == "explicit" and answer.lower() in passage.lower():
                lines[-1] += f'\nEvidence: "{evidence(passage, record["question"], answer)}"'
        sides[split == "test"].append(Document(f"Passage: {passage}\n" + "\n".join(lines), record["story"]))
    return Split(sides[False], sides[True])


def conversions(corpus: Path, name: str) -> Split:
    """A conversion request (CSV, JSON, YAML, Markdown), a newline, the result."""
    records = read_records(require(corpus, name))
    return split_by_hash([Document(f"{r['prompt']}\n{r['response']}", r["prompt"][:300]) for r in records])


def functions(corpus: Path, name: str) -> Split:
    """One documented function per document (grouped by name, so that variants stay on one side)."""
    records = read_records(require(corpus, name))
    return split_by_hash([Document(r["code"].strip("\n"), r["name"]) for r in records])


def mbpp(corpus: Path, name: str) -> Split:
    """A task as a comment, its function, its tests; the source's `test` rows are held out."""
    sides: dict[bool, list[Document]] = {True: [], False: []}
    for r in read_records(require(corpus, name)):
        code = re.sub(r"\n{2,}", "\n", r["code"].replace("\r", "").strip("\n"))
        text = f"# {r['prompt'].strip()}\n{code}\n\n" + "\n".join(r["tests"])
        sides[r["split"] == "test"].append(Document(text, str(r["task_id"])))
    return Split(sides[False], sides[True])


def word_problems(corpus: Path, name: str) -> Split:
    """`Question`, `Solution`, `Answer`."""
    documents = []
    for r in read_records(require(corpus, name)):
        solution = r.get("solution") or f"{r['equation']} = {r['answer']}"
        text = f"Question: {r['question'].strip()}\nSolution: {solution}\nAnswer: {r['answer']}"
        documents.append(Document(text, r["question"]))
    return split_by_hash(documents)


def steps(corpus: Path, name: str) -> Split:
    """Expressions worked out step by step; the repeated fence and final line are dropped."""
    documents = []
    for r in read_records(require(corpus, name)):
        solution = r["response"].split("```")[1].strip() if "```" in r["response"] else r["response"].strip()
        documents.append(Document(f"Question: {r['prompt'].strip()}\nSolution: {solution}", r["prompt"]))
    return split_by_hash(documents)


def written(tasks: list[Any], count: int, seed: int, stories: Split | None = None) -> Split:
    """Program-written documents: `count` for training, an eighth of it held out.

    Each task takes (rng) or, where `stories` is given, (rng, story text); training exercises use training
    stories only, held-out exercises held-out stories only.
    """
    sides: list[list[Document]] = []
    excluded: set[str] = set()
    for side, (amount, texts) in enumerate(
        [(max(8, count // 8), stories.heldout if stories else []), (count, stories.train if stories else [])]
    ):
        rng = Random(f"{seed}-{side}")
        documents: list[Document] = []
        for index in range(amount):
            task = tasks[index % len(tasks)]
            text = task(rng, rng.choice(texts).text) if texts else task(rng)
            if text is not None and text not in excluded:
                documents.append(Document(text, "written"))
        if side == 0:
            documents = documents[:150]
            excluded = {document.text for document in documents}
        sides.append(documents)
    return Split(sides[1], sides[0])
