"""One name, one thing: public classes, and constants that say what they bound."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOUSES = ("app", "specdec_core", "specdec_measure", "specdec_lessons", "specdec_cli")

VAGUE = {"MOST", "KEPT", "NEAR", "LONGEST", "LARGEST", "LEAST", "WIDEST"}  # names that do not say of what


def test_no_two_public_classes_have_one_name() -> None:
    """Catches: a reader who has to look up which of four Lines a file means. A picture's settings may be `With`."""
    found: dict[str, set[str]] = defaultdict(set)
    for house in HOUSES:
        for path in (ROOT / house).rglob("*.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].add(str(path.relative_to(ROOT)))
    twice = {name: sorted(paths) for name, paths in found.items() if len(paths) > 1 and name != "With"}
    assert twice == {}


def test_a_constant_says_what_it_bounds() -> None:
    """Catches: a number called MOST, whose meaning only its comment says."""
    found = set()
    for path in (path for house in HOUSES for path in (ROOT / house).rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names = {
                each.id
                for target in targets
                if target
                for each in ast.walk(target)
                if isinstance(each, ast.Name)
            }
            found |= {f"{path.relative_to(ROOT)}:{name}" for name in names & VAGUE}
    assert found == set()
