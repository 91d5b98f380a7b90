"""The public names, and what importing them costs."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import specdec_core as sd
from specdec_core.lengths import LENGTH_POLICIES
from specdec_core.moved import MOVED

ROOT = Path(__file__).resolve().parents[2]


def _loaded(code: str) -> set[str]:
    """The modules that are loaded after `code` ran in a fresh interpreter."""
    script = f"{code}\nimport sys; print(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_every_public_name_is_there_and_sorted() -> None:
    """Catches: a name in `__all__` that cannot be imported, and one that is forgotten in the list."""
    assert sd.__all__ == sorted(set(sd.__all__))
    for name in sd.__all__:
        assert getattr(sd, name) is not None
    assert {"decode", "stream", "race", "load_models", "Settings", "Trace"} <= set(sd.__all__)
    with pytest.raises(AttributeError, match="nothing_of_that_name"):
        _ = sd.nothing_of_that_name


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of ours whose import fails for want of another. Catches: `sd.profiles` said not to exist where pydantic
    is not installed."""
    monkeypatch.delitem(sys.modules, "specdec_measure.machines.profiles", raising=False)
    monkeypatch.delitem(vars(sd), "profiles", raising=False)
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(ModuleNotFoundError) as caught:
        _ = sd.profiles
    assert caught.value.name == "pydantic"


def test_importing_the_core_and_reading_settings_and_traces_needs_no_torch() -> None:
    """What the web app does before a model is warm, in an interpreter of its own; and for the names alone it does not
    load pandas either. Catches: a page that only reads traces and waits for torch."""
    loaded = _loaded(
        "import specdec_core as sd, sys; assert 'pandas' not in sys.modules;"
        "sd.Settings(), sd.Trace, sd.TraceError, sd.Started, sd.catalogue, sd.theory"
    )
    assert not loaded & {"torch", "transformers", "streamlit", "plotly"}


def test_the_core_knows_no_screen() -> None:
    """None of its modules, nor a wing's, imports streamlit, plotly or the app, at the top or inside a function.
    Catches: an import that only a page's visitors would meet."""
    imported = set()
    for path in ROOT.glob("specdec_*/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(str(node.module).partition(".")[0])
    assert not imported & {"streamlit", "plotly", "starlette", "app"}
    assert {"torch", "transformers", "specdec_core"} <= imported


def test_old_module_paths_are_the_modules_of_today() -> None:
    """Catches: a notebook that cannot import what has moved, and one that gets a second copy, whose errors nobody
    catches."""
    for old, now in MOVED.items():
        assert import_module(old) is import_module(now), old
    assert import_module("specdec_core.cli.records") is import_module("specdec_cli.records")
    with pytest.raises(ModuleNotFoundError):
        import_module("specdec_core.adapters.nothing")


def test_proposers_rules_and_policies_are_described_without_torch() -> None:
    """Catches: a new file for which every list and menu waits until torch is loaded."""
    for package in ("proposers", "rules", "lengths"):
        for path in sorted((ROOT / "specdec_core" / package).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
                assert not any(name.partition(".")[0] == "torch" for name in names), (
                    f"{package}/{path.name} imports torch for every list of names: take it from "
                    "specdec_core.foundations.lazy_torch, and types from torch under TYPE_CHECKING"
                )


@pytest.mark.parametrize("table", [sd.PROPOSERS, sd.RULES, LENGTH_POLICIES])
def test_every_proposer_rule_and_length_policy_explains_itself(table: dict[str, type]) -> None:
    """A title and two sentences for the page. Catches: a new file that does not say when it does not pay."""
    for name, kind in table.items():
        assert kind.title, f"give '{name}' a `title`"
        assert kind.summary.endswith(".") and kind.summary.count(". ") >= 1, (
            f"the `summary` of '{name}' has to be two sentences: what it does, and when it does not pay"
        )
