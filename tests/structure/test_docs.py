"""The documents say what the code is."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_api_page_is_what_the_docstrings_say() -> None:
    """Catches: a changed signature or docstring without `python scripts/api_docs.py`."""
    spec = importlib.util.spec_from_file_location("api_docs", ROOT / "scripts" / "api_docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / "api.md").read_text(encoding="utf-8") == module.text()


def test_the_files_that_the_architecture_names_exist() -> None:
    """Catches: a file that was moved or renamed and a document that still sends people there."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.(?:py|js|md))`", text))
    assert len(named) > 15
    houses = ("", "specdec_core", "app", "app/player/static")
    assert [
        name for name in sorted(named) if not any((ROOT / house / name).is_file() for house in houses)
    ] == []
