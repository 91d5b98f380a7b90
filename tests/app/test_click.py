"""The files that a press of Run crosses in the web process are those that docs/architecture.md lists."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.choosing import controls
from app.decoding.run import Run
from app.decoding.runs import Runs

from .test_page import finish, page, press

ROOT = Path(__file__).resolve().parents[2]
APP = str(ROOT / "app") + "/"


def listed() -> tuple[set[str], set[str]]:
    """The files on the way, and those that it only passes through."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.split("### One click's way")[1].split("\n###")[0]
    way, through = section.split("It only passes through")
    first, second = (set(re.findall(r"`([a-z_0-9/]+\.(?:py|js))`", part)) for part in (way, through))
    return first, second


def test_a_click_crosses_the_files_that_the_architecture_lists(
    fresh: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the calls in progress when the request is made, when the run starts, and when it says something.

    Catches: one more file between the button and the messages, or one that is listed and no longer crossed.
    """
    crossed: set[str] = set()

    def noted(called: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*given: Any, **named: Any) -> Any:
            files = {frame.f_code.co_filename for frame, _ in traceback.walk_stack(None)}
            crossed.update(file.removeprefix(APP) for file in files if file.startswith(APP))
            return called(*given, **named)

        return noting

    monkeypatch.setattr(controls, "Request", noted(controls.Request))
    for owner, name in ((Runs, "start"), (Run, "publish")):
        monkeypatch.setattr(owner, name, noted(getattr(owner, name)))
    at = page(tokens="4")
    crossed.clear()
    finish(press(at, "go"), fresh)
    way, through = listed()
    assert len(way) <= 9
    browser = {file for file in way | through if file.endswith(".js")}
    # The stream, the mounted player and the decoder's process are not in this one's calls.
    decoder = {
        f"decoding/{name}.py" for name in ("remote", "in_child/local", "in_child/child", "calls", "loaded")
    }
    elsewhere = {"web/routes.py", "player/__init__.py", *decoder}
    assert crossed - {"main.py"} == (way | through) - browser - elsewhere
