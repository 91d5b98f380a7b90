"""Messages of a run as they lie in one row of the database."""

from __future__ import annotations

import zlib


def pack(messages: list[str]) -> bytes:
    """Messages without line breaks, as one value."""
    return zlib.compress("\n".join(messages).encode(errors="surrogatepass"), level=1)


def unpack(packed: bytes) -> list[str]:
    """The messages again."""
    return zlib.decompress(packed).decode(errors="surrogatepass").split("\n")
