"""What the page offers to choose from, known before the core's heavy parts are imported.

The names and titles are the core's own; a test holds the two lists equal.
"""

from __future__ import annotations

import sys

PROPOSERS = {
    "draft-model": "Draft model",
    "prompt-lookup": "Prompt lookup",
    "none": "Plain decoding",
}
RULES = {
    "speculative-sampling": "Speculative sampling",
    "token-matching": "Token matching",
    "exact-match": "Exact match",
}


def summary(kind: str, name: str) -> str | None:
    """The core's two sentences about a proposer or a rule, once it is imported; this never imports it."""
    module = sys.modules.get(f"specdec_core.{kind}")
    table = getattr(module, kind.upper(), None)
    return str(table[name].summary) if table and name in table else None
