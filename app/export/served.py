"""The player as the app serves it: all modules as one file for each language, named after what is in it.

Read once in a process: after a change of the player's files the app is to be started anew.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path

from specdec_core.foundations.paths import assets

from .linker import bundle

PLAYER = Path(__file__).resolve().parent.parent / "player" / "static"
FOLDER = (
    "player"  # in a language's folder: its texts of the player; and the first part of the player's addresses
)
ENTRY, MOUNT = "player.js", "mount"


def catalogues(lessons: Path | None = None) -> dict[str, Path]:
    """The languages besides English that have the player's texts, and where; `lessons`: the folder of the languages."""
    found = sorted((lessons or assets() / "lessons").glob(f"*/{FOLDER}"))
    return {path.parent.name: path for path in found if path.is_dir()}


@cache
def code(language: str) -> bytes:
    """An ES module that exports the player's `mount`, with the texts of a language.

    Raises:
        LinkError: the player's modules cannot be linked.
    """
    return bundle(PLAYER, ENTRY, MOUNT, texts(language)).encode()


def texts(language: str) -> dict[str, Path]:
    """The files of a language, by the paths of the modules that they replace."""
    own = catalogues().get(language)
    found = sorted(own.glob("*.js")) if own else []
    return {f"{next(PLAYER.glob(f'*/{path.name}')).parent.name}/{path.name}": path for path in found}


@cache
def name(language: str) -> str:
    """The file name of `code`; another one as soon as the code is another."""
    return f"{language}-{sha256(code(language)).hexdigest()[:16]}.js"


def address(language: str | None = None) -> str:
    """Where the app serves the player, from the app's root; English without a language."""
    return f"{FOLDER}/{name(language or 'en')}"
