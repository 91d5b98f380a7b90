"""The acceptance rules, by name. A new rule is one file here and one line below."""

from __future__ import annotations

from ..errors import SettingsError
from .base import Judgement, Rule
from .exact_match import ExactMatch
from .speculative_sampling import SpeculativeSampling
from .token_matching import TokenMatching

RULES: dict[str, type[Rule]] = {rule.name: rule for rule in (SpeculativeSampling, TokenMatching, ExactMatch)}


def rule_class(name: str) -> type[Rule]:
    """The rule of that name.

    Raises:
        SettingsError: naming the known rules.
    """
    if name not in RULES:
        raise SettingsError(f"There is no rule '{name}'; known are: {', '.join(RULES)}.")
    return RULES[name]


__all__ = ["RULES", "Judgement", "Rule", "rule_class"]
