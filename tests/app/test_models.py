"""The shelf of models: who may load what, one load at a time, a bounded number kept, failures as sentences."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from app.config import Policy, read
from app.decoding.models import ModelCache, ModelChoice, permitted
from specdec_core.foundations.errors import ModelError

CATALOGUE = {"openai-community/gpt2", "distilbert/distilgpt2"}


def no_fetch(
    name: str, most: int, on_progress: Callable[[int, int], None], cancelled: Callable[[], bool]
) -> None:
    return None


def test_the_bundled_models_are_always_allowed() -> None:
    assert permitted(ModelChoice(), Policy(models="bundled"), CATALOGUE) == ModelChoice()


@pytest.mark.parametrize(
    ("allowed", "target", "draft", "fits"),
    [
        ("bundled", "openai-community/gpt2", None, False),
        ("catalogue", "openai-community/gpt2", "distilbert/distilgpt2", True),
        ("catalogue", "openai-community/gpt2", "someone/else", False),
        ("catalogue", "someone/else", None, False),
        ("any", "someone/else", "another/one", True),
    ],
)
def test_the_operator_decides_which_models_may_be_loaded(
    allowed: str, target: str, draft: str | None, fits: bool
) -> None:
    choice, policy = ModelChoice(target, draft), Policy(models=allowed)  # type: ignore[arg-type]
    if fits:
        assert permitted(choice, policy, CATALOGUE) == choice
    else:
        with pytest.raises(ModelError, match="start your own copy"):
            permitted(choice, policy, CATALOGUE)


@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "/etc",
        "..",
        ".",
        "a/../../b",
        "a\\b",
        "a b",
        "http://x/y",
        "a/b/c",
        "\0",
        "x" * 300,
        "<script>",
        "assets/models",
    ],
)
def test_names_that_are_no_models_are_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(ModelError, match="is not a model's name"):
        permitted(ModelChoice(name), Policy(models="any"), CATALOGUE)


def test_a_folder_is_taken_below_the_root_only(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "mine").mkdir(parents=True)
    outside.mkdir()
    (root / "link").symlink_to(outside)
    policy = Policy(models="any", models_root=root.resolve())
    assert permitted(ModelChoice("mine"), policy, ()).target == str((root / "mine").resolve())
    for name in ("../outside", str(outside), ".", ""):
        with pytest.raises(ModelError):
            permitted(ModelChoice(name), policy, ())
    # The link's name is also a valid hub id: it is looked up there, never followed out of the root.
    assert permitted(ModelChoice("link"), policy, ()).target == "link"


def test_strangers_may_load_nothing_but_the_bundled_models_unless_told_otherwise() -> None:
    assert read({}).models == "any"
    assert read({"HOST": "0.0.0.0"}).models == "bundled"
    assert read({"HOST": "0.0.0.0", "SPECDEC_ALLOW_MODELS": "catalogue"}).models == "catalogue"
    assert read({"HOST": "::1"}).models == "any"
    assert "127.0.0.1" in read({}).hosts
    assert read({"HOST": "0.0.0.0", "SPECDEC_ALLOWED_HOSTS": "a.example, b.example"}).hosts == (
        "a.example",
        "b.example",
    )


@pytest.mark.parametrize(
    "variables",
    [
        {"PORT": "x"},
        {"PORT": "70000"},
        {"SPECDEC_ALLOW_MODELS": "all"},
        {"SPECDEC_MODELS_ROOT": "/nowhere"},
        {"SPECDEC_MODELS_ROOT": "x" * 300},
        {"SPECDEC_IGNORE_MEMORY": "maybe"},
    ],
)
def test_an_environment_that_makes_no_sense_is_named(variables: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(variables))):
        read(variables)


def test_models_are_loaded_once_and_one_at_a_time() -> None:
    loading, most, loads = 0, 0, []

    def load(choice: ModelChoice) -> object:
        nonlocal loading, most
        loading += 1
        most = max(most, loading)
        loads.append(choice)
        threading.Event().wait(0.02)
        loading -= 1
        return object()

    shelf = ModelCache(load, no_fetch, keep=9)
    choices = [ModelChoice(), ModelChoice("a/b"), ModelChoice(), ModelChoice("a/b"), ModelChoice("c/d")]
    threads = [threading.Thread(target=shelf.get, args=(choice,)) for choice in choices]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert most == 1
    assert sorted(map(str, loads)) == sorted(map(str, set(choices)))


def test_two_families_are_kept_and_the_bundled_one_always() -> None:
    shelf = ModelCache(lambda choice: object(), no_fetch)
    for choice in (ModelChoice(), ModelChoice("a/b"), ModelChoice("c/d")):
        shelf.get(choice)
    assert shelf.ready(ModelChoice()) is not None
    assert shelf.ready(ModelChoice("a/b")) is None
    assert shelf.ready(ModelChoice("c/d")) is not None


def test_download_progress_is_reported_in_megabytes() -> None:
    seen = []

    def fetch(
        name: str, most: int, on_progress: Callable[[int, int], None], cancelled: Callable[[], bool]
    ) -> None:
        on_progress(3_000_000, 12_000_000)
        seen.append(shelf.status(ModelChoice("a/b")))

    shelf = ModelCache(lambda choice: object(), fetch)
    shelf.get(ModelChoice("a/b"))
    assert seen[0].text == "Downloading a/b: 3 of 12 MB"
    assert seen[0].fraction == 0.25
    assert shelf.status(ModelChoice("a/b")).state == "ready"


def test_a_failed_load_is_a_sentence_and_may_be_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    tries = []

    def load(choice: ModelChoice) -> object:
        tries.append(choice)
        if len(tries) == 1:
            raise ModelError("There is no model 'a/b'.")
        if len(tries) == 2:
            raise KeyError("lm_head")
        return object()

    shelf = ModelCache(load, no_fetch)
    with pytest.raises(ModelError, match="There is no model"):
        shelf.get(ModelChoice("a/b"))
    assert shelf.status(ModelChoice("a/b")).text == "There is no model 'a/b'."
    with pytest.raises(ModelError, match="the log has the details"):
        shelf.get(ModelChoice("a/b"))
    assert "lm_head" in caplog.text
    assert shelf.get(ModelChoice("a/b")) is not None


def test_without_network_a_copy_on_this_machine_is_still_loaded() -> None:
    def fetch(
        name: str, most: int, on_progress: Callable[[int, int], None], cancelled: Callable[[], bool]
    ) -> None:
        raise ModelError("The hub cannot be reached.")

    assert ModelCache(lambda choice: "models", fetch).get(ModelChoice("a/b")) == "models"
