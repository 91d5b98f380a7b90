"""Shared by the app's tests: scripted models instead of real ones, and fresh services for every test."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

from app import config as policy
from app import services
from app.choosing import model_picker, presets
from app.decoding import core
from app.decoding.loaded import Loaded
from app.decoding.models import ModelCache, ModelChoice
from app.decoding.needs import Needs
from app.decoding.runs import Runs
from app.records import keeping, visitor
from app.records.database import Database
from app.records.store import Library
from app.records.summary import Summary, summarize
from app.running import flow
from specdec_core.engine.events import Finished
from specdec_core.record.trace import Trace
from specdec_core.settings import Settings

from . import postgres
from .kept import ANNA

OPERATOR = {"SPECDEC_LIBRARY": "", "SPECDEC_DEFAULT_MODELS": "tiny"}
PROMPTS = {
    "story": """title = "Stories"
description = "Small tales."
[[prompt]]
name = "The fox"
text = "a fox"
look_for = "Names come back: the second time they are guessed."
[[prompt]]
name = "The hen"
text = "a hen"
look_for = "Look at the bonus tokens."
""",
    "code": """title = "Code"
description = "Short functions."
[[prompt]]
name = "Add"
text = "def add(a, b):"
look_for = "Brackets are easy."
""",
}


def next_probs(tokens: tuple[int, ...]) -> list[float]:
    """A target over eight letters that prefers the next letter of the alphabet."""
    last = tokens[-1] if tokens else 0
    return [0.65 if token == (last + 1) % 8 else 0.05 for token in range(8)]


def guess(tokens: tuple[int, ...]) -> list[float]:
    """A draft that is right except after the fourth letter."""
    last = tokens[-1] if tokens else 0
    right = (last + (2 if last % 8 == 3 else 1)) % 8
    return [0.65 if token == right else 0.05 for token in range(8)]


def scripted_models() -> object:
    """A target and a draft that need no weights."""
    from specdec_measure import testing

    return testing.scripted(next_probs, guess)


def scripted_family() -> Loaded:
    """The same as pages and runs see them."""
    return Loaded(cast(Any, scripted_models()))


@pytest.fixture(scope="session", autouse=True)
def as_served() -> Iterator[None]:
    """What a page under test does and a page of our server does not: AppTest searches all installed packages for
    components, for every page anew, which takes four times as long as the page itself; it compiles the scripts again
    for every run; and a full garbage collection follows each."""
    from streamlit import config
    from streamlit.components.v2 import manifest_scanner
    from streamlit.testing.v1 import app_test

    config.set_option("runner.postScriptGC", False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            manifest_scanner, "scan_component_manifests", cache(manifest_scanner.scan_component_manifests)
        )
        patch.setattr(app_test, "ScriptCache", cache(app_test.ScriptCache))
        yield


@pytest.fixture
def prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two families of prompts in a folder of their own."""
    folder = tmp_path / "prompts"
    folder.mkdir()
    for name, text in PROMPTS.items():
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    families = presets.families
    monkeypatch.setattr(presets, "families", lambda: families(folder))
    yield folder
    families.cache_clear()


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    """Services of this test alone, with the scripted models loaded."""
    import streamlit as st

    core.bring()
    shelf = ModelCache(lambda choice: scripted_family(), lambda *asked: None)
    shelf.get(ModelChoice())
    runs = Runs(lambda choice, gone: shelf.get(choice, gone), owner=lambda: visitor.of_session())
    needs = Needs(lambda choice: (f"{choice.target} needs about 1.0 GB.", True))
    monkeypatch.setattr(services, "needs", lambda: needs)
    monkeypatch.setattr(services, "shelf", lambda: shelf)
    monkeypatch.setattr(services, "runs", lambda: runs)
    operator = policy.read(OPERATOR)
    monkeypatch.setattr(services, "operator", lambda: operator)
    database = Database()
    library = Library(database)
    monkeypatch.setattr(services, "database", lambda: database)
    monkeypatch.setattr(services, "library", lambda: library)
    monkeypatch.setattr(services, "journal", lambda: None)
    st.cache_resource.clear()
    model_picker.catalogue.cache_clear()
    yield runs
    runs.close()
    library.close()
    st.cache_resource.clear()


@pytest.fixture
def saving(fresh: Runs, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    """Runs as the app has them: saved for whoever is at the page."""
    library = services.library()
    shelf = ModelCache(lambda choice: scripted_family(), lambda *asked: None)
    runs = Runs(
        lambda choice, gone: shelf.get(choice, gone),
        owner=lambda: ANNA,
        save=lambda run: keeping.keep(run, library),
    )
    monkeypatch.setattr(services, "runs", lambda: runs)
    monkeypatch.setattr(visitor, "of_session", lambda: ANNA)
    monkeypatch.setattr(visitor, "is_remembered", lambda: True)
    yield runs
    runs.close()


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the player is given."""
    given: list[dict[str, Any]] = []
    draw = flow.player
    monkeypatch.setattr(flow, "player", lambda **shown: given.append(shown) or draw(**shown))
    return given


@pytest.fixture(scope="session")
def race_traces() -> list[Trace]:
    """A finished race of the scripted models: plain decoding and a draft model."""
    from specdec_core import race

    lanes = [Settings(proposer="none", max_new_tokens=24), Settings(max_new_tokens=24)]
    found = {
        event.lane: event.trace
        for event in race(scripted_models(), "abc", lanes)
        if isinstance(event, Finished)
    }
    return [found[0], found[1]]


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """A PostgreSQL server, as the URL of its databases with {} for the name; one of them, `empty`, has our tables.

    Where it is not installed, tests are skipped, and fail in CI.
    """
    if postgres.programs() is None and not os.environ.get("CI"):
        pytest.skip("No PostgreSQL was found (Debian: apt-get install postgresql).")
    with postgres.server() as url, postgres.database(url, "empty") as empty:
        Database(empty).close()
        yield url


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path | str | None]:
    """Where a database is: a file, or the URL of an empty database (or None: in memory)."""
    if request.param != "PostgreSQL":
        yield tmp_path / "new folder" / "library.sqlite3" if request.param else None
    else:
        url = request.getfixturevalue("postgresql")
        with postgres.database(url, secrets.token_hex(8), template="empty") as made:
            yield made


@pytest.fixture
def library(place: Path | str) -> Iterator[Library]:
    library = Library(place)
    yield library
    library.close()


@pytest.fixture
def kept(race_traces: list[Trace]) -> list[tuple[Summary, bytes]]:
    summaries = summarize(race_traces, ["Plain decoding", "Draft model, γ = 4"])
    return [
        (summary, trace.to_json().encode()) for summary, trace in zip(summaries, race_traces, strict=True)
    ]
