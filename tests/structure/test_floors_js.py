"""The player's rooms: a module imports from its own room or from floors below, and never in a circle.

The floors are those of docs/architecture.md. Imports of types, in comments, do not count: they are not executed.
"""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from app.export import served
from app.export.linker import read

from .test_floors import drawn


def modules() -> dict[str, set[str]]:
    """Every module, and those that it imports."""
    found = sorted(served.PLAYER.rglob("*.js"))
    names = {path.relative_to(served.PLAYER).as_posix(): path for path in found}
    return {name: set(read(name, path.read_text(encoding="utf-8")).needs) for name, path in names.items()}


def room(name: str) -> str:
    return name.removesuffix(".js").split("/")[0]


def climbs(of: dict[str, set[str]]) -> Iterator[str]:
    """The imports from the same floor's other rooms, or from a floor above."""
    floor = drawn()["player"]
    for name, needs in of.items():
        for need in sorted(needs):
            if room(need) != room(name) and floor[room(need)] >= floor[room(name)]:
                yield f"{name} imports {need}"


def test_no_module_imports_from_a_floor_above() -> None:
    """Catches: a room that knows one above it, and a room that is on no floor."""
    known = modules()
    assert {room(name) for name in known} == set(drawn()["player"])
    assert list(climbs(known)) == []
    assert list(climbs({"text/text.js": {"screen/screen.js"}})) == ["text/text.js imports screen/screen.js"]


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Catches: two modules that can only be read together."""
    try:
        TopologicalSorter(modules()).prepare()
    except CycleError as circle:
        raise AssertionError(" → ".join(circle.args[1])) from None


def test_the_top_stays_small() -> None:
    """Catches: a new module dropped at the top, where nobody finds it by its place."""
    assert [name for name in modules() if "/" not in name] == ["export.js", "player.js"]
