"""The server's default family beside the bundled one: loaded second, usable when it is there, missed without harm."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app import config as policy
from app import services
from app.choosing import model_picker
from app.decoding import preparing
from app.decoding.models import ModelCache, ModelChoice, family, permitted
from app.decoding.runs import Runs
from specdec_core.foundations.errors import ModelError
from specdec_core.models import catalogue
from specdec_core.models.files import sources

from .conftest import scripted_family
from .test_page import page, words

CHAT = ModelChoice(catalogue.CHAT)


def until(fact: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("said", "family"),
    [("", catalogue.CHAT), ("tiny", "bundled"), ("bundled", "bundled"), (" gpt2 ", "gpt2")],
)
def test_the_operator_names_the_default_family(said: str, family: str) -> None:
    assert policy.read({"SPECDEC_DEFAULT_MODELS": said, "SPECDEC_LIBRARY": ""}).family == family


@pytest.mark.parametrize("said", ["smollm", "openai-community/gpt2", "/etc"])
def test_a_default_family_that_is_not_in_the_catalogue_is_named(said: str) -> None:
    """Catches: a typing error that leaves the server without models, a path that is read from the disk."""
    with pytest.raises(
        ValueError, match="SPECDEC_DEFAULT_MODELS has to be one of tiny, smollm2-135m-instruct"
    ):
        policy.read({"SPECDEC_DEFAULT_MODELS": said, "SPECDEC_LIBRARY": ""})


def test_the_default_family_is_allowed_where_only_bundled_models_are() -> None:
    """And no other. Catches: a public server whose own default is refused, or one that then takes any draft."""
    strict = policy.Policy(models="bundled", family=catalogue.CHAT)
    assert permitted(CHAT, strict, ()) == CHAT
    for refused in (
        ModelChoice("gpt2"),
        ModelChoice(catalogue.CHAT, "someone/else"),
        ModelChoice("smollm2-360m"),
    ):
        with pytest.raises(ModelError, match="only its bundled models"):
            permitted(refused, strict, ())


def test_a_name_of_the_catalogue_is_never_a_folder(tmp_path: Path) -> None:
    """Catches: a folder below the models' root that takes an entry's place."""
    (tmp_path / "gpt2").mkdir()
    listed = policy.Policy(models="any", models_root=tmp_path.resolve())
    assert permitted(ModelChoice("gpt2"), listed, ()) == ModelChoice("gpt2")
    assert family("bundled") == ModelChoice() and family("gpt2") == ModelChoice("gpt2")


def test_the_bundled_family_is_loaded_first_and_both_stay() -> None:
    """Catches: a visitor who waits for the larger family, and one who loads it anew after others were chosen."""
    order: list[ModelChoice] = []
    shelf = ModelCache(
        lambda choice: order.append(choice) or object(), lambda *asked: None, stay=(ModelChoice(), CHAT)
    )
    shelf.warm()
    until(lambda: shelf.status(CHAT).state == "ready")
    assert order == [ModelChoice(), CHAT]
    for other in ("a/b", "c/d", "e/f"):
        shelf.get(ModelChoice(other))
    assert shelf.ready(ModelChoice()) is not None and shelf.ready(CHAT) is not None
    assert shelf.ready(ModelChoice("c/d")) is None and shelf.ready(ModelChoice("e/f")) is not None


def test_a_conversion_s_progress_is_shown_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Catches: half a minute without a word, and a hundred lines of log."""
    seen = []

    def prepare(choice: ModelChoice, report: Callable[[float | None, str], None]) -> None:
        for step in range(101):
            report(step / 100, "Converting weights")
            seen.append(shelf.status(choice))

    shelf = ModelCache(lambda choice: object(), lambda *asked: None, prepare=prepare)
    with caplog.at_level("INFO", logger="app.decoding.models"):
        shelf.get(CHAT)
    assert (seen[42].state, seen[42].text, seen[42].fraction) == ("loading", "Converting weights", 0.42)
    assert sum("preparing" in record.message for record in caplog.records) == 11


@pytest.fixture
def two(fresh: Runs, monkeypatch: pytest.MonkeyPatch) -> tuple[ModelCache, threading.Event]:
    """A server whose default family waits for the event, and then loads; a `refuse` attribute makes it fail."""
    gate = threading.Event()

    def load(choice: ModelChoice) -> object:
        if choice == CHAT:
            assert gate.wait(30)
            if getattr(gate, "refuse", False):
                raise ModelError("'smollm2-135m-instruct' is not on this machine.")
        return scripted_family()

    shelf = ModelCache(load, lambda *asked: None, stay=(ModelChoice(), CHAT))
    monkeypatch.setattr(services, "shelf", lambda: shelf)
    monkeypatch.setattr(services, "operator", lambda: policy.Policy(models="bundled", family=catalogue.CHAT))
    shelf.warm()
    until(lambda: shelf.ready(ModelChoice()) is not None)
    return shelf, gate


def test_until_the_default_is_there_the_page_says_that_run_waits(
    two: tuple[ModelCache, threading.Event],
) -> None:
    """Catches: a page that says nothing while it loads, or still says it afterwards."""
    shelf, gate = two
    at = page()
    chat = "SmolLM2 135M Instruct"
    assert at.selectbox(key="model").options == [f"Default: {chat}", "Bundled pair: two tiny models", chat]
    assert at.selectbox(key="model").value == model_picker.AUTO
    assert "it begins as soon as they are there" in words(at)
    assert "it begins as soon" not in words(page(model="bundled"))
    gate.set()
    until(lambda: shelf.ready(CHAT) is not None)
    assert "it begins as soon" not in words(page(prompt="Who wrote Faust?"))


def test_a_default_that_cannot_be_had_is_one_sentence_and_the_bundled_family_runs(
    two: tuple[ModelCache, threading.Event],
) -> None:
    """Catches: an error in place of the page, a visitor who is not told why the models are tiny."""
    shelf, gate = two
    gate.refuse = True  # type: ignore[attr-defined]
    gate.set()
    until(lambda: shelf.status(CHAT).state == "failed")
    at = page(prompt="Who wrote Faust?")
    said = words(at).replace("\\", "")
    assert "SmolLM2 135M Instruct is not available, so the bundled models run" in said
    assert "is not on this machine" in said and "The bundled models are tiny" in said
    assert not at.exception


def test_a_link_chooses_either_family(two: tuple[ModelCache, threading.Event]) -> None:
    """Catches: a teacher's link that brings another model than the one it was made with."""
    shelf, gate = two
    gate.set()
    until(lambda: shelf.ready(CHAT) is not None)
    assert "The bundled models are tiny" in words(page(prompt="Who wrote Faust?", model="bundled"))
    at = page(prompt="Who wrote Faust?", model=catalogue.CHAT)
    assert at.selectbox(key="model").value == catalogue.CHAT and "are tiny" not in words(at)
    assert "which does not exist here" in words(page(model="gpt2"))


def _child(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Let the conversion's process run this code in place of the command line."""
    start = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda command, **options: start([sys.executable, "-c", code], **options)
    )
    monkeypatch.setattr(sources, "unconverted", lambda name: True)


def test_a_conversion_s_process_reports_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: progress that arrives at the end, a library's own words taken for progress."""
    line = json.dumps({"fraction": 0.5, "words": "Converting weights"})
    _child(monkeypatch, f"print({line!r}); print('[a library] hello'); print('3'); print('null')")
    reports: list[tuple[float | None, str]] = []
    preparing.prepare(CHAT, lambda fraction, words: reports.append((fraction, words)))
    assert reports[1:] == [(0.5, "Converting weights")]
    preparing.prepare(ModelChoice(), lambda fraction, words: pytest.fail("the bundled family needs none"))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ('print(\'{"error": "The disk is full."}\'); raise SystemExit(1)', "The disk is full."),
        ("import os; os._exit(9)", "ended too early"),
    ],
)
def test_a_conversion_s_process_that_fails_is_a_sentence(
    code: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: a killed process that leaves the page waiting, a refusal that is lost on the way."""
    _child(monkeypatch, code)
    with pytest.raises(ModelError, match=words):
        preparing.prepare(CHAT, lambda fraction, words: None)
    assert not preparing._running
