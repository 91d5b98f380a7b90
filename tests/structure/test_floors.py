"""The floors of every house: a module imports from its own package or from floors below, and never in a circle.

Top-level and lazy imports count alike; imports for types only (under TYPE_CHECKING) do not, they are not executed.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

MODULES_IN_A_FOLDER = 16
HOUSES = ("specdec_core", "specdec_measure", "specdec_lessons", "specdec_cli", "app")


def drawn() -> dict[str, dict[str, int]]:
    """The floor of each room of each house, from the ground up, as docs/architecture.md draws them."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    floors: dict[str, dict[str, int]] = {}
    for house, picture in re.findall(r"^```text floors of (\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        rows = [row.split("│")[-1].split() for row in picture.splitlines()]
        floors[house] = {name: floor for floor, row in enumerate(reversed(rows)) for name in row}
    return floors


def modules(house: str) -> dict[str, Path]:
    """All modules of a house by their dotted name."""
    found = {}
    for path in sorted((ROOT / house).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found[name] = path
    return found


def imports(name: str, path: Path, known: dict[str, Path]) -> Iterator[tuple[int, str]]:
    """Line and target of every import that is executed, of modules that are `known`."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in executed(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name in known:
                    yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                package = name if path.name == "__init__.py" else name.rpartition(".")[0]
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                module = ".".join([*above, *([module] if module else [])])
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                target = inner if inner in known else module
                if target in known:
                    yield node.lineno, target


def executed(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for other in node.orelse:
                yield other
                yield from executed(other)
            continue
        yield node
        yield from executed(node)


def room(name: str) -> str:
    """The package or module right below the house: `specdec_core.record.trace` is in `record`."""
    return name.split(".")[1] if "." in name else ""


def test_the_picture_has_every_house_with_few_rooms_and_floors() -> None:
    """Catches: a decoder that grows rooms until nobody holds it in the head."""
    floors = drawn()
    assert tuple(floors) == (*HOUSES, "player")  # whose modules are JavaScript: test_floors_js.py
    assert len(floors["specdec_core"]) <= 16 and max(floors["specdec_core"].values()) < 9


@pytest.mark.parametrize("house", HOUSES)
def test_nothing_is_imported_from_a_floor_above(house: str) -> None:
    """Catches: a lower part that knows a higher one, also where the import hides in a function."""
    floors = drawn()[house]
    known = {name: path for each in HOUSES for name, path in modules(each).items()}
    wrong, rooms = [], set()
    for name, path in modules(house).items():
        if not room(name) or name in ("specdec_core.__main__", "specdec_core.moved"):
            continue  # a house's own face names what is public, and where it was
        rooms.add(room(name))
        assert room(name) in floors, f"{name} is on no floor: draw it in docs/architecture.md"
        for line, target in imports(name, path, known):
            other = target.split(".")[0]
            if other != house and HOUSES.index(other) > HOUSES.index(house):
                wrong.append(f"{name}:{line} imports {target}: {house} lies below {other}")
            elif (
                other == house
                and room(target) not in ("", room(name))
                and floors[room(target)] >= floors[room(name)]
            ):
                wrong.append(f"{name}:{line} imports {target}")
    assert not wrong, "\n".join(wrong)
    assert rooms == set(floors), "docs/architecture.md draws a room that there is not"


@pytest.mark.parametrize("house", HOUSES)
def test_no_modules_import_each_other_in_a_circle(house: str) -> None:
    """Catches: two files that can only be read together."""
    known = modules(house)
    below = {
        name: {target for _, target in imports(name, path, known)} - {name} for name, path in known.items()
    }
    below = {
        name: {target for target in targets if room(target)} for name, targets in below.items() if room(name)
    }
    circles: list[list[str]] = []
    done: set[str] = set()

    def follow(name: str, way: list[str]) -> None:
        if name in way:
            circles.append([*way[way.index(name) :], name])
            return
        if name in done:
            return
        for target in sorted(below.get(name, ())):
            follow(target, [*way, name])
        done.add(name)

    for name in below:
        follow(name, [])
    assert not circles, "\n".join(" → ".join(circle) for circle in circles)


def test_what_says_that_it_imports_no_streamlit_imports_none() -> None:
    """Catches: an assurance in a docstring that somebody relies on and that an import far away made false."""
    said = [
        name
        for name, path in modules("app").items()
        if "imports streamlit" in (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")
    ]
    assert said
    code = f"import sys; [__import__(name) for name in {said!r}]; print('streamlit' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "False"


def test_a_folder_has_few_modules() -> None:
    """Catches: one module more in a folder in which nobody finds it by its name."""
    folders = Counter(
        str(path.parent.relative_to(ROOT))
        for top in (*HOUSES, "training", "benchmarks", "scripts")
        for path in (ROOT / top).rglob("*.[pj][ys]")
    )
    assert folders["specdec_core/models/heads"] > 1 and folders["app/player/static/tree"] > 1
    assert {folder: count for folder, count in folders.items() if count > MODULES_IN_A_FOLDER} == {}


@pytest.mark.parametrize(("house", "most"), [("specdec_core", 5), ("app", 5)])
def test_the_top_of_a_house_stays_small(house: str, most: int) -> None:
    """Catches: a new file dropped at the top, where nobody finds it by its place."""
    top = [path.name for path in (ROOT / house).glob("*.py") if path.name != "__init__.py"]
    assert len(top) <= most, sorted(top)
