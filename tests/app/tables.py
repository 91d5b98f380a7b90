"""The tables of texts on a page under test, read back from their HTML."""

from __future__ import annotations

import re
from html import unescape

from streamlit.testing.v1 import AppTest


def tables(at: AppTest) -> list[list[dict[str, str]]]:
    """Each table's rows, by column."""
    found = []
    for element in at.get("html"):
        if 'class="sd-rows"' in element.proto.body:
            head, *rows = re.findall(r"<tr>(.*?)</tr>", element.proto.body, re.DOTALL)
            titles = _texts(head)
            found.append([dict(zip(titles, _texts(row), strict=True)) for row in rows])
    return found


def _texts(row: str) -> list[str]:
    return [unescape(text) for text in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)]
