"""Writes docs/api.md from the docstrings of the core's public names: `python -m scripts.api_docs`."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from importlib import import_module
from pathlib import Path
from textwrap import indent
from typing import Any, get_type_hints

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docs" / "api.md"
ORDER = """
    load_models assemble Models
    Settings Chat
    decode decode_batch stream race assets Started Step Ended Finished
    fit Fit
    Trace read_traces TokenTree
    PROPOSERS RULES
    SpecdecError ModelError PromptError SettingsError TraceError
""".split()
PARTS = "Header ModelInfo Race Round Nodes Committed Position Candidates Output Stats".split()
MODULES = {name: f"specdec_core.{name}" for name in ("lengths", "proposers", "rules", "tree")}
RANGES = {
    "minimum": "at least {:,}",
    "exclusiveMinimum": "above {:,}",
    "maximum": "at most {:,}",
    "exclusiveMaximum": "below {:,}",
    "maxItems": "up to {} items",
    "enum": "one of {}",
}
HEAD = """# API

What `import specdec_core as sd` offers. Written by `scripts/api_docs.py` from the docstrings; change those, not this.
"""


def main() -> None:
    """Write the file."""
    FILE.write_text(text(), encoding="utf-8")


def text() -> str:
    """The whole page."""
    import specdec_core as sd

    missing = set(sd.__all__) - set(ORDER)
    assert not missing, f"say where in docs/api.md these stand: {missing}"
    from specdec_core.lengths import LENGTH_POLICIES

    parts = [HEAD]
    for name in ORDER:
        value = getattr(sd, name)
        parts.append(_table(f"sd.{name}", value) if isinstance(value, dict) else _entry(name, value))
        if name == "read_traces":
            parts += _parts_of_a_trace()
        if name == "RULES":
            parts.append(_table("specdec_core.lengths.LENGTH_POLICIES", LENGTH_POLICIES))
    return "\n".join([*parts, _modules(sd._MODULES)])


def _parts_of_a_trace() -> list[str]:
    """The columns and fields of the record, by the class that has them."""
    from specdec_core.record import schema

    head = "## The parts of a trace\n\nWhat `trace.header`, `trace.rounds` and `trace.stats` hold.\n"
    return [head, *(_entry(name, getattr(schema, name), f"### `{name}`") for name in PARTS)]


def _entry(name: str, value: Any, heading: str = "") -> str:
    """A stub of a function or class, docstrings included."""
    heading = heading or f"## `sd.{name}`"
    if not inspect.isclass(value):
        return f"{heading}\n\n```python\n{_stub(name, value)}\n```\n"
    lines = [f"class {name}:", _quoted(value)]
    lines += _fields(value)
    for key, member in vars(value).items():
        found = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if key.startswith(("_", "model_")) or not inspect.isfunction(found) or not found.__doc__:
            continue
        mark = (
            "@property\n" if isinstance(member, property) else "@classmethod\n" if found is not member else ""
        )
        lines += ["", indent(mark + _stub(key, found), "    ")]
    return f"{heading}\n\n```python\n" + "\n".join(lines) + "\n```\n"


def _fields(kind: Any) -> list[str]:
    """The fields of a dataclass with their types; those of `Settings` with their defaults and ranges."""
    if dataclasses.is_dataclass(kind):
        types = _types(kind) if kind.__module__.startswith("specdec_core.record") else {}
        return [
            f"    {one.name}: {types.get(one.name, one.type)}"
            for one in dataclasses.fields(kind)
            if not one.name.startswith("_")
        ]
    lines = []
    for key, field in getattr(kind, "model_fields", {}).items():
        limits = kind.model_json_schema()["properties"][key]
        limits = {name: value for part in (limits, *limits.get("anyOf", ())) for name, value in part.items()}
        words = [phrase.format(limits[name]) for name, phrase in RANGES.items() if name in limits]
        said = f"  # {', '.join(words)}" if words else ""
        lines.append(f"    {key} = {field.get_default(call_default_factory=True)!r}{said}")
    return lines


def _types(kind: Any) -> dict[str, str]:
    """The types of a part of the record, without the limits that the schema gives."""
    found = {}
    for name, hint in get_type_hints(kind).items():
        text = re.sub(r"\b(?:specdec_\w+|typing)(?:\.\w+)*\.", "", inspect.formatannotation(hint))
        text = re.sub(r"Optional\[(\w+)\]", r"\1 | None", text)
        found[name] = re.sub(
            r"Union\[(.*), NoneType\]", lambda of: f"{of[1]}, None".replace(", ", " | "), text
        )
    return found


def _modules(homes: dict[str, str]) -> str:
    """The modules that are part of the public face, with what each says of itself."""
    lines = ["## Modules", "", "By these short names; docs/python.md shows most of them at work.", ""]
    for name, home in sorted({**homes, **MODULES}.items()):
        first = (import_module(home).__doc__ or "").strip().split("\n\n")[0]
        lines.append(f"- **`sd.{name}`** (`{home}`): {' '.join(first.split())}")
    return "\n".join([*lines, ""])


def _stub(name: str, value: Any) -> str:
    return f"def {name}{_signature(value)}:\n{_quoted(value)}"


def _quoted(value: Any) -> str:
    return indent('"""' + inspect.cleandoc(value.__doc__ or "") + '"""', "    ")


def _table(name: str, kinds: dict[str, Any]) -> str:
    """Proposers or rules by name, with their descriptions and options."""
    from specdec_core.foundations.options import fields

    lines = [f"## `{name}`", ""]
    for key, kind in kinds.items():
        lines.append(f"- **`{key}`** ({kind.title}): {kind.summary}")
        for option in fields(kind.Options).values():
            lines.append(f"  - `{option.name}` = `{option.default!r}` ({option.wanted}): {option.help}")
    return "\n".join([*lines, ""])


def _signature(value: Any) -> str:
    """The signature, one parameter per line where it is long."""
    parts, star = [], False
    found = inspect.signature(value)
    for parameter in found.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        kind = "" if parameter.annotation is parameter.empty else f": {parameter.annotation}"
        usual = ""
        if parameter.default is not parameter.empty:
            usual = getattr(parameter.default, "__name__", None) or repr(parameter.default)
            usual = f" = {usual}" if kind else f"={usual}"
        parts.append(
            ("*" if parameter.kind is parameter.VAR_POSITIONAL else "") + parameter.name + kind + usual
        )
    returns = "" if found.return_annotation is found.empty else f" -> {found.return_annotation}"
    line = f"({', '.join(parts)}){returns}"
    return line if len(line) < 90 else "(\n    " + ",\n    ".join(parts) + f",\n){returns}"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
