"""The glossary: `glossary.toml`, in reading order."""

from __future__ import annotations

import tomllib
from pathlib import Path

TERMS: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def define(*terms: str) -> str:
    """The definitions of `terms` as one help text."""
    return "\n\n".join(f"**{term}.** {TERMS[term]}" for term in terms)
