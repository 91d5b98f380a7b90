"""The glossary: `glossary.toml`, in reading order, then other proposers, each by its own first sentence."""

from __future__ import annotations

import tomllib
from pathlib import Path

from specdec_core.proposers import PROPOSERS

TERMS: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
for _kind in PROPOSERS.values():
    TERMS.setdefault(_kind.title, _kind.summary.partition(". ")[0] + ".")


def search(words: str) -> dict[str, str]:
    """The entries that have every one of these words in their term or meaning; all of them without any.

    Entries with a match in the term come first.
    """
    wanted = words.casefold().split()
    texts = {term: (term.casefold(), f"{term} {meaning}".casefold()) for term, meaning in TERMS.items()}
    found = [term for term in TERMS if all(word in texts[term][1] for word in wanted)]
    found.sort(key=lambda term: not all(word in texts[term][0] for word in wanted))  # stable
    return {term: TERMS[term] for term in found}


def define(*terms: str) -> str:
    """The definitions of `terms` as one help text."""
    return "\n\n".join(f"**{term}.** {TERMS[term]}" for term in terms)
