"""What a page's style sheet hides."""

from __future__ import annotations

import re


def hides(sheet: str) -> set[str]:
    """The selectors whose elements are not displayed."""
    # Not by one expression: it would look for a brace from each character of the page.
    *rules, _ = sheet.split("{ display: none !important; }")
    return {selector.strip() for rule in rules for selector in re.split("[{}]", rule)[-1].split(",")}
