"""What a page's style sheet hides."""

from __future__ import annotations

import re


def hides(sheet: str) -> set[str]:
    """The selectors whose elements are not displayed."""
    rules = re.findall(r"([^{}]*)\{ display: none !important; \}", sheet)
    return {selector.strip() for rule in rules for selector in rule.split(",")}
