"""The documents say what the code is."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import FrameType
from unittest.mock import patch

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_api_page_is_what_the_docstrings_say() -> None:
    """Catches: a changed signature or docstring without `python scripts/api_docs.py`."""
    spec = importlib.util.spec_from_file_location("api_docs", ROOT / "scripts" / "api_docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert written == module.text(), "docs/api.md is out of date: write it with `python -m scripts.api_docs`"


def test_every_variable_is_in_the_operator_s_table() -> None:
    """Catches: a setting that is read and written down nowhere, and one in the table that nothing reads."""
    from app import config

    text = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[A-Z_`, ]+`) \| ", text, re.MULTILINE)
    named = {name.removeprefix("SPECDEC_") for row in rows for name in re.findall(r"[A-Z_]+", row)}
    assert named == {*config.SETTINGS, "HOST", "PORT"} - {"BUNDLED"}  # for tests


def test_links_between_documents_lead_somewhere() -> None:
    """Catches: a page or a section's file that was moved, and the README's length."""
    pages = [ROOT / "README.md", ROOT / "training" / "README.md", *(ROOT / "docs").glob("*.md")]
    links = [
        (page, link)
        for page in pages
        for link in re.findall(r"(?:\]\(|src=\"|srcset=\")([^)#\s\"]+)", page.read_text(encoding="utf-8"))
        if "://" not in link
    ]
    assert len(links) > 40
    assert [(page.name, link) for page, link in links if not (page.parent / link).exists()] == []
    assert len(pages[0].read_text(encoding="utf-8").splitlines()) <= 150


def test_the_commands_that_documents_name_exist() -> None:
    """Catches: a program that was moved and a page that still starts it under its old name."""
    pages = [ROOT / "README.md", ROOT / "training" / "README.md", *(ROOT / "docs").glob("*.md")]
    named = {
        name
        for page in pages
        for name in re.findall(r"python -m ([a-z_.]+)", page.read_text(encoding="utf-8"))
    }
    places = {name: ROOT / name.replace(".", "/") for name in named}
    assert len(named) > 15
    assert [
        name
        for name, place in sorted(places.items())
        if not place.with_suffix(".py").is_file() and not (place / "__main__.py").is_file()
    ] == []


def test_the_files_that_the_architecture_names_exist() -> None:
    """Catches: a file that was moved or renamed and a document that still sends people there."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[a-z_0-9]+/)+[a-z_0-9]+\.(?:py|js|md))`", text))
    assert len(named) > 15
    houses = ("", "specdec_core", "app", "app/player/static")
    assert [
        name for name in sorted(named) if not any((ROOT / house / name).is_file() for house in houses)
    ] == []


def test_what_the_architecture_says_is_in_a_file_is_defined_there() -> None:
    """The table "Where is it?". Catches: a function that was moved or renamed since."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| `([\w/]+\.(?:py|js))` \| `(\w+)` \|$", text, re.MULTILINE)
    assert len(rows) > 20
    assert [
        f"{file} defines no {name}"
        for file, name in rows
        if not re.search(
            rf"\b(def|class|function|const) {name}\b|^{name}\b.* = ",
            (ROOT / file).read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    ] == []


def test_the_examples_of_the_python_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block as a reader runs it, one after the other. Catches: an example with a name that was changed."""
    import specdec_core as sd

    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 7
    monkeypatch.chdir(tmp_path)
    models, settings = sd.load_models(), sd.Settings(max_new_tokens=64)
    space = {"sd": sd, "models": models, "settings": settings}
    space["trace"] = sd.decode(models, "Once upon a time", settings)
    with patch.dict(sd.PROPOSERS):  # the page adds one, which no later test should find
        for block in blocks:
            exec(compile(block, "docs/python.md", "exec"), space)
    assert (tmp_path / "run.html").is_file()


def test_a_token_crosses_the_files_that_the_architecture_lists() -> None:
    """Catches: a round that runs through a file that "One token's way" does not name, or a named one left out."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.split("### One token's way")[1].split("\n###")[0]
    way, beside = section.split("These call on")
    on_the_way, besides = (set(re.findall(r"`([a-z_0-9/]+\.py)`", part)) for part in (way, beside))
    assert len(on_the_way) <= 12
    crossed = _crossed()
    assert on_the_way <= crossed
    lengths = {file for file in crossed if file.startswith("lengths/")}
    products = {"runtime/compiled/layers.py", "runtime/cpu_linear.py"}  # the processor's kernels, or torch's
    assert crossed & products
    assert crossed - lengths - products == (on_the_way | besides) - products


def _crossed() -> set[str]:
    """The files of the decoder in which anything runs during the rounds of a sampled decode and its recording."""
    import specdec_core as sd

    house, crossed = str(ROOT / "specdec_core") + "/", set()

    def trace(frame: FrameType, event: str, arg: object) -> None:
        if frame.f_code.co_filename.startswith(house):
            crossed.add(frame.f_code.co_filename.removeprefix(house))

    models, settings = sd.load_models(), sd.Settings(max_new_tokens=8, temperature=0.8)
    sd.decode(models, "The cat sat on the", settings)  # what is computed once is
    events = sd.stream(models, "The cat sat on the", settings)
    next(events)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        list(events)
    finally:
        sys.settrace(before)
    return crossed
