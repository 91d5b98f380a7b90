"""Settings resolved: the classes and validated options they name, once; refusals and remarks that hold for any models.

Needs no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specdec_core.foundations.errors import SettingsError
from specdec_core.lengths import FixedLength, LengthPolicy, policy_class
from specdec_core.models import catalogue
from specdec_core.proposers import PROPOSERS, Proposer, TreeShape, proposer_class
from specdec_core.rules import Rule, rule_class
from specdec_core.settings import Settings

if TYPE_CHECKING:
    from specdec_core.models.bundle import Models


LENGTH = {"draft_length", "length_policy"}  # whoever sets one of these means the other as it is


@dataclass(frozen=True, slots=True)
class ResolvedSettings:
    """What settings name: proposer, rule and length policy with their validated options, and what proposals can be."""

    proposer: type[Proposer]
    options: Any
    rule: type[Rule]
    rule_options: Any
    policy: type[LengthPolicy]
    policy_options: Any
    shape: TreeShape


def check(settings: Settings) -> ResolvedSettings:
    """Resolve settings, and refuse those that are wrong with any models.

    Raises:
        SettingsError: one sentence.
    """
    kind, rule, policy = proposer_class(settings.proposer), rule_class(settings.rule), policy_class(settings)
    policy_options, options = policy.read_options(settings), kind.read_options(settings)
    kind = kind.resolved(options)
    kind.check(settings, options)
    rule_options = rule.read_options(settings)
    rule.check(settings)
    shape = kind.shape(settings, options)
    why_not = rule.unsuited(shape.drafts)
    if why_not is not None:
        raise SettingsError(why_not)
    if settings.overlap and not kind.can_overlap:
        able = ", ".join(name for name, other in PROPOSERS.items() if other.can_overlap)
        raise SettingsError(
            f"The proposer '{kind.name}' cannot draft while the target verifies; overlap works with: {able or 'none'}."
        )
    return ResolvedSettings(kind, options, rule, rule_options, policy, policy_options, shape)


def unused_length(settings: Settings) -> str | None:
    """A remark about a γ that was set for a proposer without one, as a sentence; None if there is none."""
    kind = proposer_class(settings.proposer)
    if "length" in kind.uses or settings.draft_length == Settings().draft_length:
        return None
    names = ", ".join(kind.Options.model_fields)
    instead = f"; its options are: {names}" if names else ""
    return f"γ changes nothing here: the proposer '{kind.name}' does not use it{instead}."


def remark(settings: Settings) -> str | None:
    """A remark about allowed settings, as a sentence; None if there is none."""
    kind, policy = proposer_class(settings.proposer), policy_class(settings)
    if settings.proposer == "none" or policy is FixedLength or set(policy.sets) & set(kind.uses):
        return None
    return f"The length policy '{policy.name}' changes nothing here: the proposer '{kind.name}' does not consult it."


def usual(models: Models, settings: Settings) -> Settings:
    """With what pays for these models on a CPU, where the settings leave it out."""
    entry = catalogue.find(models.target.info.published) if models.device == "cpu" else None
    usual = entry.cpu_settings.get(settings.proposer) if entry else None
    if not usual:
        return settings
    chosen = settings.model_fields_set & LENGTH or settings.length_options
    length = {} if chosen else {name: usual[name] for name in LENGTH if name in usual}
    return settings.but(**length, options={**usual.get("options", {}), **settings.options})
