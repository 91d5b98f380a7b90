"""What the site says besides lessons, claims and recorded races, in the language whose pages are being written."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

LANGUAGES = ("en", "de")


class SiteTexts:
    """Sentences by name. `language` is set by whoever writes pages; what it lacks is in English, as the pages are."""

    language = LANGUAGES[0]

    def __getitem__(self, name: str) -> str:
        found: str = (_read(LANGUAGES[0]) | _read(self.language))[name]
        return found

    @property
    def script(self) -> dict[str, str]:
        """What the course's script says."""
        found: dict[str, str] = _read(self.language)["script"]
        return found

    @property
    def folder(self) -> str:
        """Where the language's own pages are; the first language's are at the site's root."""
        return "" if self.language == LANGUAGES[0] else f"{self.language}/"


TEXTS = SiteTexts()


@cache
def _read(language: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(f"texts.{language}.toml").read_text(encoding="utf-8"))
