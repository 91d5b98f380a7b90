"""Numbers and their signs are written alike everywhere."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


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
