"""The acceptance rules, by name, described without torch. A new rule is one file here and one line in `_TABLE`."""

from __future__ import annotations

from specdec_core.foundations.registry import chosen, table
from specdec_core.record.trace import Trace

from .base import Decision, Judgement, Rule

_TABLE = (  # file.class, in the order in which they are offered: lossless ones first
    "speculative_sampling.SpeculativeSampling",
    "token_matching.TokenMatching",
    "exact_match.ExactMatch",
    "block.Block",
    "kseq.KSeq",
    "typical.Typical",
    "confidence.Confidence",
    "ensemble.Ensemble",
    "fly.Fly",
)

RULES: dict[str, type[Rule]] = table(__name__, _TABLE)


def rule_class(name: str) -> type[Rule]:
    """The rule of that name.

    Raises:
        SettingsError: naming the known rules.
    """
    return chosen(name, "rule", RULES)


def lossy(trace: Trace) -> bool:
    """Whether the trace's rule can change the target's distribution; plain decoding uses no rule."""
    settings = trace.header.settings
    rule = RULES.get(str(settings.get("rule")))
    return settings.get("proposer") != "none" and rule is not None and not rule.lossless


__all__ = ["RULES", "Decision", "Judgement", "Rule", "lossy", "rule_class"]
