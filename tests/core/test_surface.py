"""The public names, and what importing them costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import specdec_core as sd

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
    monkeypatch.delitem(sys.modules, "specdec_core.machines.profiles", raising=False)
    monkeypatch.delitem(vars(sd), "profiles", raising=False)
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(ModuleNotFoundError) as caught:
        _ = sd.profiles
    assert caught.value.name == "pydantic"


def test_importing_the_core_is_cheap() -> None:
    """No torch, no transformers, no screen: a page that only reads traces must not wait."""
    loaded = _loaded("import specdec_core")
    assert not loaded & {"torch", "transformers", "pandas", "streamlit", "plotly"}


def test_reading_settings_and_traces_needs_no_torch() -> None:
    """What the web app does before a model is warm."""
    loaded = _loaded(
        "import specdec_core as sd; sd.Settings(), sd.Trace, sd.TraceError, sd.Started, sd.catalogue, sd.theory"
    )
    assert not loaded & {"torch", "transformers", "streamlit", "plotly"}


def test_the_core_knows_no_screen() -> None:
    """All of its modules together import neither streamlit nor plotly nor the app."""
    names = [path.stem for path in (ROOT / "specdec_core").glob("*.py") if not path.stem.startswith("__")]
    imports = "\n".join(f"import specdec_core.{name}" for name in [*names, "proposers", "rules"])
    loaded = _loaded(imports)
    assert not loaded & {"streamlit", "plotly", "starlette", "app"}
    assert "torch" in loaded


@pytest.mark.parametrize("table", [sd.PROPOSERS, sd.RULES])
def test_every_proposer_and_rule_explains_itself(table: dict[str, type]) -> None:
    """A name, a title and two sentences for the page. Catches: a new file that is registered under another name."""
    for name, kind in table.items():
        assert kind.name == name
        assert kind.title and kind.summary.endswith(".")
        assert kind.summary.count(". ") >= 1
