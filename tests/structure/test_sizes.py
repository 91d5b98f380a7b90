"""No function is long; long files have a reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINES = 60
FILE_LINES = 350

FILES = {
    "app/player/static/text/messages.js": "the sentences of the player, one after the other: data",
}


def test_no_function_is_long() -> None:
    """Long functions of the player are found by Biome (`make lint`). Catches: one that grew until nobody reads it."""
    assert [
        f"{path.relative_to(ROOT)}:{node.name}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > LINES
    ] == []


def test_long_files_are_those_with_a_reason() -> None:
    """Catches: a file that nobody reads to its end."""
    player = sorted(
        [*(ROOT / "app" / "player" / "static").rglob("*.js"), *(ROOT / "app" / "live").rglob("*.js")]
    )
    long = {
        str(path.relative_to(ROOT))
        for path in [*sources(), *player]
        if len(path.read_text(encoding="utf-8").splitlines()) > FILE_LINES
    }
    assert long == set(FILES)


def sources() -> Iterator[Path]:
    """The Python files of every package, training and benchmarks included."""
    for house in (
        "specdec_core",
        "specdec_measure",
        "specdec_lessons",
        "specdec_cli",
        "app",
        "training",
        "benchmarks",
    ):
        yield from sorted((ROOT / house).rglob("*.py"))
