"""Long functions and files, each with the reason why it is long."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINES = 60
FILE_LINES = 350

FIGURE = "one figure: its traces, then its layout, read from top to bottom"
FUNCTIONS = {
    "app/charts/budget.py:time_budget": FIGURE,
    "app/charts/matrix.py:comparison_matrix": FIGURE,
    "app/charts/timeline.py:round_timeline": FIGURE,
    "app/charts/whatif.py:clocks": FIGURE,
    "app/charts/whatif.py:widths": FIGURE,
    "app/course/pictures/costs/crowd.py:lines": FIGURE,
    "app/course/pictures/costs/length_surface.py:surface": FIGURE,
    "app/course/pictures/costs/overlap_gantt.py:gantt": FIGURE,
    "app/course/pictures/costs/plane.py:chart": FIGURE,
    "app/course/pictures/costs/workshop.py:plane": FIGURE,
    "app/compare/sweep_view.py:_form": "a form: one widget after the other, in the order in which they are drawn",
    "app/player/__init__.py:data": "mostly its parameters and what each of them means",
    "app/running/headline.py:show": "one tile per figure: label, value, help, source",
    "specdec_measure/analysis/memory.py:ledger": "one line per thing that takes memory",
    "specdec_core/models/loading.py:load_models": "a third of it says what its parameters mean",
}
FILES = {
    "app/compare/sweep_view.py": "the sweep's panel; its parts draw nothing without each other",
    "app/player/static/text/messages.js": "the sentences of the player, one after the other: data",
}


def test_long_functions_are_those_with_a_reason() -> None:
    """Catches: a function that grew until nobody reads it, and a reason that outlived its function."""
    long = {
        f"{path.relative_to(ROOT)}:{node.name}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > LINES
    }
    assert long == set(FUNCTIONS)


def test_long_files_are_those_with_a_reason() -> None:
    """Long functions of the player are found by Biome (`make lint`). Catches: a file that nobody reads to its end."""
    player = sorted((ROOT / "app" / "player" / "static").rglob("*.js"))
    long = {
        str(path.relative_to(ROOT))
        for path in [*sources(), *player]
        if len(path.read_text(encoding="utf-8").splitlines()) > FILE_LINES
    }
    assert long == set(FILES)


def sources() -> Iterator[Path]:
    """The Python files of every house."""
    for house in ("specdec_core", "specdec_measure", "specdec_lessons", "specdec_cli", "app"):
        yield from sorted((ROOT / house).rglob("*.py"))
