"""Words that newcomers stumbled on stay away."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STUMBLED = re.compile(
    r"number \d+ to be judged|the draft drafted|loses where|the target's law|what q left|what it loses most|"
    r"tokens/s of a text|let that lane lead|behind the #|cannot be opened here, or no more|too little to tell|"
    r"stands nowhere|which there is not|the rest holds|what was written stays|lanes that are a choice|"
    r"the weights' way|nothing at all lets|likely by luck|is longer by it",
    re.IGNORECASE,
)


def english() -> dict[str, str]:
    """The files with English texts that readers see, by name."""
    files = [
        ROOT / "README.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "assets" / "lessons" / "en").rglob("*.*"),
    ]
    files += [
        file
        for house in ("app", "specdec_core", "specdec_measure", "specdec_lessons", "specdec_cli")
        for file in (ROOT / house).rglob("*.*")
    ]
    texts = [file for file in files if file.suffix in {".py", ".js", ".md", ".toml"}]
    assert len(texts) > 300
    return {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in texts}


def test_no_text_uses_words_that_readers_stumbled_on() -> None:
    """Catches: a sentence that comes back with a merge."""
    found = {file: STUMBLED.findall(text) for file, text in english().items()}
    assert {file: words for file, words in found.items() if words} == {}


APART = re.compile(r"[0-9}] %(?:[^a-z0-9(_]|$)", re.MULTILINE)


def test_a_number_and_its_per_cent_sign_are_together() -> None:
    """Catches: 50 % beside 50%. In German they are apart; the language's own sign says so."""
    found = {file: APART.findall(text) for file, text in english().items()}
    assert {file: signs for file, signs in found.items() if signs} == {}


ALPHA = re.compile(r"α (?:=|ist|is) \{([^{}]*)\}")


def test_the_acceptance_rate_is_written_in_per_cent() -> None:
    """Catches: α = 0.63 on one page and 63% on another."""
    files = [
        *(ROOT / "app").rglob("*.py"),
        *ROOT.glob("specdec_*/**/*.py"),
        *(ROOT / "assets" / "lessons").rglob("*.md"),
    ]
    written = [(file, value) for file in files for value in ALPHA.findall(file.read_text(encoding="utf-8"))]
    assert len(written) > 10
    assert [(str(file), value) for file, value in written if "%" not in value] == []
