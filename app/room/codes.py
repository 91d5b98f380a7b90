"""What opens a room: a short code to type, the seats' tokens and the host's secret."""

from __future__ import annotations

import re
import secrets

# Without 0 O, 1 I L, 2 Z, 5 S, 8 B, U V and without the other vowels, so that no code is a word.
LETTERS = "CDFGHJKMNPQRTWXY34679"
LENGTH = 6
CODE = re.compile(rf"[{LETTERS}]{{{LENGTH}}}")
TOKEN = re.compile(r"[A-Za-z0-9_-]{32,64}")
MOST_NAME = 24


def code() -> str:
    """A new code: one of 86 million."""
    return "".join(secrets.choice(LETTERS) for _ in range(LENGTH))


def typed(text: str) -> str:
    """A code as somebody typed it: capitals, without spaces and dashes."""
    return re.sub(r"[\s-]", "", text).upper()


def is_code(text: str) -> bool:
    """Whether this can be a room's code."""
    return CODE.fullmatch(text) is not None


def token() -> str:
    """A secret: a seat's, or the host's."""
    return secrets.token_urlsafe(24)


def name(text: str) -> str:
    """A nickname as it is kept: one line, printable, not long."""
    return " ".join("".join(sign for sign in text if sign.isprintable()).split())[:MOST_NAME]
