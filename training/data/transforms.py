"""How do a repository's files become documents or records? One pure function per kind of source.

Each takes (path, content) pairs and yields either str documents or dict records. Nothing fetched is run:
Python files are read as text, and only `ast.parse` looks inside them.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any

Files = Iterable[tuple[str, bytes]]
MAX_DOCUMENT = 200_000  # characters


def decoded(files: Files) -> Iterator[tuple[str, str]]:
    """(path, text) of the files that are UTF-8, in the order of their paths."""
    for path, content in sorted(files):
        try:
            yield path, content.decode("utf-8").replace("\r\n", "\n")
        except UnicodeDecodeError:
            continue


def text_files(files: Files) -> Iterator[str]:
    """One document per file, cut at blank lines where it is over the limit."""
    for _, text in decoded(files):
        while len(text) > MAX_DOCUMENT:
            place = text.rfind("\n\n", 0, MAX_DOCUMENT)
            place = place if place > 0 else MAX_DOCUMENT
            yield text[:place].strip("\n")
            text = text[place:]
        if text.strip():
            yield text.strip("\n")


def python_files(files: Files) -> Iterator[str]:
    """Python files that parse, without exact duplicates."""
    seen: set[str] = set()
    for _, text in decoded(files):
        try:
            ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            continue
        stripped = text.strip("\n").rstrip()
        if len(stripped) > 60 and stripped not in seen:
            seen.add(stripped)
            yield stripped


def picture_books(files: Files) -> Iterator[str]:
    """Markdown stories: licence and credit lines dropped, non-commercial ones left out."""
    for _, text in decoded(files):
        if re.search(r"\bNC\b|NonCommercial|\bby-nc", text, re.IGNORECASE):
            continue
        body = text.split("\n* License:")[0]
        lines = [
            re.sub(r"^#+\s*", "", line)
            for line in body.splitlines()
            if not line.startswith(("##", "![", "* "))
        ]
        story = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
        if len(story) > 100:
            yield story


def jsonl_records(files: Files) -> Iterator[dict[str, Any]]:
    """The records of JSON Lines files, as they are."""
    for _, text in decoded(files):
        for line in text.splitlines():
            if line.strip():
                yield json.loads(line)


def fables_without_llama(files: Files) -> Iterator[dict[str, Any]]:
    """Prompt and fable, without those written by Llama or Aya models."""
    for record in jsonl_records(files):
        writer = str(record.get("llm_name", record.get("model", ""))).lower()
        if "llama" in writer or "aya" in writer:
            continue
        yield {"prompt": record["prompt"], "response": record.get("fable", record.get("response", ""))}


def fairytale_questions(files: Files) -> Iterator[dict[str, Any]]:
    """Section, question and answer from the question and section tables; the folder names the split."""
    tables = {path: list(csv.DictReader(io.StringIO(text))) for path, text in decoded(files)}
    for path, rows in tables.items():
        if not path.endswith("-questions.csv"):
            continue
        story = PurePosixPath(path).name.removesuffix("-questions.csv")
        split = next((s for s in ("train", "val", "test") if f"/{s}/" in path), None)
        names = (f"/{story}-story.csv", f"/{story}-section.csv")
        sections = {
            r["section"]: r["text"]
            for p, rs in tables.items()
            if p.endswith(names)
            for r in rs
            if "text" in r
        }
        if split is None or not sections:
            continue  # without a known split a row might be a test row
        for row in rows:
            places = [place.strip() for place in row["cor_section"].split(",")]
            yield {
                "context": " ".join(sections.get(place, "") for place in places).strip(),
                "question": row["question"],
                "answer": row["answer1"],
                "explicit": row["ex-or-im1"],
                "split": split,
                "story": story,
            }


def _program_written(files: Files, kind: str) -> Iterator[dict[str, Any]]:
    for record in jsonl_records(files):
        if not record.get("llm") and kind in str(record.get("kind", "")):
            yield {key: record.get(key) for key in ("prompt", "response", "kind", "llm")}


def program_written_conversions(files: Files) -> Iterator[dict[str, Any]]:
    """Format conversions written by program (no language model named)."""
    return _program_written(files, "format")


def program_written_steps(files: Files) -> Iterator[dict[str, Any]]:
    """Step-by-step calculations written by program (no language model named)."""
    return _program_written(files, "math")


def school_problems(files: Files) -> Iterator[dict[str, Any]]:
    """Question, solution without the calculator marks, answer."""
    for record in jsonl_records(files):
        solution, _, answer = record["answer"].partition("\n####")
        solution = re.sub(r"<<[^>]*>>", "", solution)
        yield {"question": record["question"], "solution": solution.strip(), "answer": answer.strip()}


def svamp_problems(files: Files) -> Iterator[dict[str, Any]]:
    """Body and question joined, equation, whole-number answer."""
    for _, text in decoded(files):
        for record in json.loads(text):
            equation = str(record["Equation"]).strip().removeprefix("(").removesuffix(")").strip()
            equation = re.sub(r"(\d+)\.0\b", r"\1", equation)
            question = f"{record['Body'].strip()} {record['Question'].strip()}"
            answer = f"{float(record['Answer']):g}"
            yield {"question": question, "equation": equation, "answer": answer, "source": "SVAMP"}


def documented_functions(files: Files) -> Iterator[dict[str, Any]]:
    """Top-level functions with a docstring, of at most 2,000 characters, from Python files."""
    for path, text in decoded(files):
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            continue
        for node in tree.body:
            if not isinstance(node, ast.FunctionDef) or not (docstring := ast.get_docstring(node)):
                continue
            code = ast.get_source_segment(text, node)
            if code and len(code) <= 2000:
                first = docstring.strip().splitlines()[0]
                yield {"instruction": first, "code": code + "\n", "name": node.name, "repo": path}


TRANSFORMS: dict[str, Callable[[Files], Iterator[str] | Iterator[dict[str, Any]]]] = {
    function.__name__: function
    for function in (
        text_files,
        python_files,
        picture_books,
        jsonl_records,
        fables_without_llama,
        fairytale_questions,
        program_written_conversions,
        program_written_steps,
        school_problems,
        svamp_problems,
        documented_functions,
    )
}
