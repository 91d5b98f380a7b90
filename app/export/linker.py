"""Links ES modules into one script: a page opened from disk cannot import, so imports become plain values.

Each module turns into a function that runs once and returns its exports, after the modules it depends on. This is not
a bundler or a parser: the player's modules keep to a few forms, and any other is rejected.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_NAME = r"[A-Za-z_$][\w$]*"
_FROM = r'"(?P<source>\.{1,2}/[\w./-]+\.js)"'
_IMPORT = re.compile(
    rf"^import\s+(?:(?:\{{(?P<names>[^}}]*)\}}|\*\s+as\s+(?P<all>{_NAME}))\s+from\s+)?{_FROM};?[ \t]*(?://.*)?$",
    re.MULTILINE,
)
_EXPORT_LIST = re.compile(
    rf"^export\s*\{{(?P<names>[^}}]*)\}}(?:\s*from\s+{_FROM})?;?[ \t]*(?://.*)?$", re.MULTILINE
)
_EXPORT = re.compile(
    rf"^export\s+(?=(?:async\s+function|function|class|const)\b[\s*]*(?P<name>{_NAME}))", re.MULTILINE
)
_LEFT_OVER = re.compile(r"^(?:import|export)\b(?!\s*[.(:]).*", re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/|(?<![:\"'`\\])//[^\n]*", re.DOTALL)
_DYNAMIC = re.compile(r"\bimport\s*\(")
_META = re.compile(r"\bimport\.meta\b(?!\.url\b)")
NOWHERE = '"file:///player/module.js"'  # the value of `import.meta.url`; nothing is loaded from it
FORMS = (
    'Modules may use: import { a, b as c } from "./x.js"; import * as x from "../y/x.js"; import "./x.js"; '
    'export function, class or const; export { a, b as c }, with or without from "./x.js". Each begins its line.'
)


class LinkError(ValueError):
    """A module cannot be linked; the sentence says which, where and why."""


@dataclass(slots=True)
class LinkedModule:
    """One rewritten module: its `body`, the modules it `needs` in order, and its exports (outer name → inner)."""

    name: str
    body: str
    needs: dict[str, set[str]] = field(default_factory=dict)  # module → the names imported from it
    exports: dict[str, str] = field(default_factory=dict)


def link(folder: Path, entry: str, call: str, instead: Mapping[str, Path] | None = None) -> str:
    """`entry` and everything it needs as one classic script that calls `entry`'s export `call` at its end.

    Args:
        folder: holds all modules.
        entry: a module's path in it.
        call: a function that `entry` exports; it is called without arguments.
        instead: files that replace modules of the folder, by the modules' paths.

    Raises:
        LinkError: a module is missing, imports are circular, a name is not exported, or another form is used.
    """
    script = f"{_joined(folder, entry, call, instead or {})}.{call}();\n".replace("import.meta.url", NOWHERE)
    # Inside an inline script these would end it or hide its end; a backslash before / or ! does not change a string.
    return re.sub(r"<(?=/script|!--)", r"<\\", script, flags=re.IGNORECASE)


def bundle(folder: Path, entry: str, name: str, instead: Mapping[str, Path]) -> str:
    """`entry` and everything it needs as one ES module that exports `entry`'s export `name`.

    Args:
        folder: holds all modules.
        entry: a module's path in it.
        name: what `entry` exports.
        instead: files that replace modules of the folder, by the modules' paths.

    Raises:
        LinkError: see `link`.
    """
    return f"export const {name} = {_joined(folder, entry, name, instead)}.{name};\n"


def _joined(folder: Path, entry: str, name: str, instead: Mapping[str, Path]) -> str:
    """An expression that runs all modules and gives the exports of `entry`, of which `name` has to be one."""
    modules = {module.name: module for module in ordered(folder, entry, instead)}
    for module in modules.values():
        for source, names in module.needs.items():
            if missing := sorted(names - modules[source].exports.keys()):
                raise LinkError(f"{module.name} imports {missing[0]}, which {source} does not export.")
    if name not in modules[entry].exports:
        raise LinkError(f"{entry} does not export {name}.")
    parts = "\n".join(map(_wrapped, modules.values()))
    return f'(() => {{\n"use strict";\nconst $modules = {{}};\n{parts}\nreturn $modules["{entry}"];\n}})()'


def ordered(folder: Path, entry: str, instead: Mapping[str, Path] = {}) -> Iterator[LinkedModule]:
    """The modules that `entry` needs, in dependency order, `entry` last; `instead`: see `bundle`.

    Raises:
        LinkError: see `link`.
    """
    done: set[str] = set()
    path: list[str] = []

    def visit(name: str, asker: str) -> Iterator[LinkedModule]:
        if name in done:
            return
        if name in path:
            circle = " → ".join([*path[path.index(name) :], name])
            raise LinkError(f"These modules import each other in a circle, which has no order: {circle}.")
        file = instead.get(name, folder / name)
        if name.startswith("../") or not file.is_file():
            raise LinkError(f"{asker} imports {name}, which is not in {folder.name}/.")
        module = read(name, file.read_text(encoding="utf-8"))
        path.append(name)
        for need in module.needs:
            yield from visit(need, name)
        path.pop()
        done.add(name)
        yield module

    yield from visit(entry, "The page")


def read(name: str, text: str) -> LinkedModule:
    """One module's text without its imports and exports.

    Raises:
        LinkError: it uses an unknown form.
    """
    module = LinkedModule(name, "")

    def imported(found: re.Match[str]) -> str:
        source = _resolved(name, found["source"])
        asked = module.needs.setdefault(source, set())
        if found["all"]:
            return f'const {found["all"]} = $modules["{source}"];'
        if found["names"] is None:
            return ""
        pairs = _pairs(name, found["names"])
        asked.update(outer for outer, _ in pairs)
        named = ", ".join(outer if outer == inner else f"{outer}: {inner}" for outer, inner in pairs)
        return f'const {{ {named} }} = $modules["{source}"];'

    def listed(found: re.Match[str]) -> str:
        pairs = _pairs(name, found["names"])
        if found["source"] is None:
            module.exports.update({outer: inner for inner, outer in pairs})
            return ""
        source = _resolved(name, found["source"])
        module.needs.setdefault(source, set()).update(inner for inner, _ in pairs)
        module.exports.update({outer: f'$modules["{source}"].{inner}' for inner, outer in pairs})
        return ""

    def declared(found: re.Match[str]) -> str:
        module.exports[found["name"]] = found["name"]
        return ""

    body = _IMPORT.sub(imported, text)
    body = _EXPORT_LIST.sub(listed, body)
    body = _EXPORT.sub(declared, body)
    code = _COMMENT.sub("", body)
    for pattern in (_LEFT_OVER, _DYNAMIC, _META):
        if odd := pattern.search(code):
            line = odd[0].strip()
            raise LinkError(f"{name} says “{line[:80]}”, a form that is not linked here. {FORMS}")
    module.body = body
    return module


def _resolved(module: str, source: str) -> str:
    """The path, below the folder of all modules, of what a module imports as `source`."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(module), source))


def _pairs(module: str, names: str) -> list[tuple[str, str]]:
    """`a, b as c` as pairs of the names before and after `as`."""
    pairs = []
    for part in filter(None, (part.strip() for part in _COMMENT.sub("", names).split(","))):
        found = re.fullmatch(rf"({_NAME})(?:\s+as\s+({_NAME}))?", part)
        if found is None or "default" in found.groups():
            raise LinkError(f"{module} lists “{part[:80]}”, which is not linked here. {FORMS}")
        pairs.append((found[1], found[2] or found[1]))
    return pairs


def _wrapped(module: LinkedModule) -> str:
    exports = ", ".join(
        outer if outer == inner else f"{outer}: {inner}" for outer, inner in module.exports.items()
    )
    return f'$modules["{module.name}"] = (() => {{\n{module.body.strip()}\nreturn {{ {exports} }};\n}})();'
