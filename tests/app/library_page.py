"""The library's page in process, and what can be read on it."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app import services
from app.decoding.runs import Runs

from .conftest import scripted_family

MAIN = Path(__file__).resolve().parents[2] / "app" / "main.py"


def page(**params: str) -> AppTest:
    at = AppTest.from_file(MAIN, default_timeout=30)
    at.run()
    for key, value in params.items():
        at.query_params[key] = value
    at.switch_page("app_pages/library.py").run()
    assert not at.exception
    return at


def words(at: AppTest) -> str:
    kinds = (
        at.subheader,
        at.error,
        at.warning,
        at.caption,
        at.markdown,
        at.info,
        at.success,
        at.code,
        at.button,
    )
    return "\n".join(str(getattr(part, "label", None) or part.value) for kind in kinds for part in kind)


def shown(at: AppTest) -> list[str]:
    """The titles of the cards on the page."""
    return [button.label for button in at.button if button.key.startswith("open-")]


def param(at: AppTest, key: str) -> str | None:
    value = at.query_params.get(key)
    return value[-1] if isinstance(value, list) else value


def restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a restart of the server: no run is in memory, the library is as it was."""
    runs = Runs(lambda choice, gone: scripted_family())
    monkeypatch.setattr(services, "runs", lambda: runs)
