"""What is trained on, in what proportion? The sources of the mix, their families and their weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from training.data import formats, tables, tasks
from training.data.documents import Document, Split, split_by_hash

FAMILIES = ("code", "story", "copy", "summary", "question", "arithmetic", "poem")


@dataclass(frozen=True)
class Source:
    """One ingredient: `weight` is its share of the training tokens, relative to the other sources."""

    name: str
    family: str
    weight: float
    load: Callable[[Path], Split]


def _simple_stories(corpus: Path) -> Split:
    """TinyStories and picture books together: the passages that exercises are built on."""
    tiny = formats.plain(corpus, "stories_tinystories.txt.xz")
    books = formats.plain(corpus, "stories_asp_prathambooks.txt.xz")
    return Split(tiny.train + books.train, tiny.heldout + books.heldout)


def _passages(corpus: Path) -> Split:
    """Simple stories and fables, for copying."""
    stories, fables = _simple_stories(corpus), formats.fable_texts(corpus, "stories_tinyfabulist.jsonl.xz")
    return Split(stories.train + fables.train, stories.heldout + fables.heldout)


def _functions(corpus: Path) -> Split:
    """Single functions, minus those in a held-out code file."""
    names = ("thealgorithms", "keon_algorithms", "small_libs")
    heldout = "\n".join(d.text for n in names for d in formats.plain(corpus, f"code_{n}.txt.xz").heldout)
    split = formats.functions(corpus, "code_functions.jsonl.xz")
    return Split([d for d in split.train if d.text not in heldout], split.heldout)


def _code(name: str) -> Callable[[Path], Split]:
    return lambda corpus: formats.plain(corpus, f"code_{name}.txt.xz")


def _code_without_functions(name: str) -> Callable[[Path], Split]:
    """Code files, minus those that contain a held-out function."""

    def load(corpus: Path) -> Split:
        split = formats.plain(corpus, f"code_{name}.txt.xz")
        held = [d.text for d in formats.functions(corpus, "code_functions.jsonl.xz").heldout]
        return Split([d for d in split.train if not any(code in d.text for code in held)], split.heldout)

    return load


def _copying(corpus: Path) -> Split:
    return formats.written([tasks.copy_task, tasks.copy_task, tasks.rename_task], 9000, 1, _passages(corpus))


def _edits(corpus: Path) -> Split:
    return formats.written([tasks.reword_task], 6000, 10, _passages(corpus))


def _code_edits(corpus: Path) -> Split:
    """Python with one name changed: short functions by people, classes and loops by program."""
    people = _functions(corpus)
    written = formats.written([tables.class_task, tables.loop_function_task], 2500, 11)
    return formats.written(
        [tasks.rename_code_task],
        6000,
        12,
        Split(people.train + written.train, people.heldout + written.heldout),
    )


def _summaries(corpus: Path) -> Split:
    return formats.written([tasks.summary_task, tasks.outline_task], 5000, 2, _simple_stories(corpus))


def _name_questions(corpus: Path) -> Split:
    return formats.written([tasks.name_question_task], 3000, 3, _simple_stories(corpus))


def _jsonl(load: Callable[[Path, str], Split], name: str) -> Callable[[Path], Split]:
    return lambda corpus: load(corpus, f"{name}.jsonl.xz")


def _synthetic_problems(corpus: Path) -> Split:
    split = formats.word_problems(corpus, "math_synthetic.jsonl.xz")
    return Split(split.train, split.heldout[:150])


SOURCES: tuple[Source, ...] = (
    Source("tinystories", "story", 15, lambda c: formats.plain(c, "stories_tinystories.txt.xz")),
    Source("picture_books", "story", 4, lambda c: formats.plain(c, "stories_asp_prathambooks.txt.xz")),
    Source("fables", "story", 4, _jsonl(formats.fables, "stories_tinyfabulist")),
    Source("fairy_tales", "story", 10, lambda c: formats.long_prose(c, "stories_gutenberg_children.txt.xz")),
    Source("copying", "copy", 8, _copying),
    Source("conversions", "copy", 4, _jsonl(formats.conversions, "copy_format")),
    Source("tables", "copy", 3, lambda c: formats.written([tables.table_task], 4000, 4)),
    Source("forms", "copy", 2, lambda c: formats.written([tasks.form_task, tables.letter_task], 4000, 5)),
    Source("summaries", "summary", 7, _summaries),
    Source("fairytale_questions", "question", 4, _jsonl(formats.fairytale_questions, "qa_fairytaleqa")),
    Source("fact_questions", "question", 3, lambda c: formats.written([tasks.fact_question_task], 4000, 6)),
    Source("name_questions", "question", 1.5, _name_questions),
    Source("functions", "code", 4, _functions),
    Source("leetcode", "code", 3.5, _code("kamyu104_leetcode")),
    Source("algorithms", "code", 3, _code_without_functions("thealgorithms")),
    Source("algorithms_2", "code", 1.5, _code_without_functions("keon_algorithms")),
    Source("exercises", "code", 1.5, _code("exercism")),
    Source("mbpp", "code", 1.5, _jsonl(formats.mbpp, "code_mbpp")),
    Source("puzzles", "code", 0.5, _code("p3_puzzles")),
    Source("small_libraries", "code", 0.75, _code_without_functions("small_libs")),
    Source("standard_library", "code", 0.75, _code("cpython_lib")),
    Source("class_templates", "code", 1.5, lambda c: formats.written([tables.class_task], 3000, 7)),
    Source(
        "function_templates",
        "code",
        1.5,
        lambda c: formats.written([tables.operations_task, tables.loop_function_task], 3000, 8),
    ),
    Source("synthetic_problems", "arithmetic", 2, _synthetic_problems),
    Source("school_problems", "arithmetic", 1.5, _jsonl(formats.word_problems, "math_gsm8k_train")),
    Source("short_problems", "arithmetic", 0.5, _jsonl(formats.word_problems, "math_svamp_mawps")),
    Source("step_by_step", "arithmetic", 1.5, _jsonl(formats.steps, "math_stepbystep")),
    Source("number_rows", "arithmetic", 1.5, lambda c: formats.written([tables.number_rows_task], 6000, 9)),
    Source("poems", "poem", 6, lambda c: formats.poems(c, "poetry_gutenberg.txt.xz")),
    Source("plays", "poem", 1, lambda c: formats.poems(c, "poetry_tinyshakespeare.txt.xz")),
    Source("edits", "copy", 3, _edits),
    Source("code_edits", "copy", 3, _code_edits),
)

# Weights of the closing phase (`--focus`): what the shipped prompts ask for, in plain modern English. The
# wider mix comes first; a model this small, trained on so few tokens, writes better if the mix narrows at the end.
FOCUS: dict[str, float] = {
    "tinystories": 26,
    "picture_books": 4,
    "fables": 5,
    "fairy_tales": 6,
    "copying": 9,
    "conversions": 1,
    "tables": 4,
    "forms": 3,
    "summaries": 8,
    "fairytale_questions": 1,
    "fact_questions": 5,
    "name_questions": 1,
    "functions": 3,
    "leetcode": 3,
    "algorithms": 3,
    "algorithms_2": 1,
    "exercises": 1,
    "mbpp": 1.5,
    "puzzles": 0.2,
    "small_libraries": 0.2,
    "standard_library": 0.1,
    "class_templates": 2,
    "function_templates": 2,
    "synthetic_problems": 1,
    "school_problems": 0.2,
    "short_problems": 0.2,
    "step_by_step": 0.6,
    "number_rows": 2,
    "poems": 5,
    "plays": 0.5,
    "edits": 4,
    "code_edits": 4,
}

__all__ = ["FAMILIES", "FOCUS", "SOURCES", "Document", "Source", "Split", "split_by_hash"]
