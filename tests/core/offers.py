"""The registered proposers that the tests can run."""

from __future__ import annotations

import specdec_core as sd


def offered(models: sd.Models) -> list[str]:
    """The proposers that need neither trained heads nor a person."""
    return [name for name, kind in sd.PROPOSERS.items() if kind.why_not(models, person=False) is None]


def fitting_rule(proposer: str) -> str:
    """A lossless rule that can judge this proposer's default proposals."""
    for name, rule in sd.RULES.items():
        drafts = sd.PROPOSERS[proposer].drafts(sd.Settings(proposer=proposer))
        if rule.lossless and rule.unsuited(drafts) is None:
            return name
    raise AssertionError(f"no lossless rule judges '{proposer}'")
