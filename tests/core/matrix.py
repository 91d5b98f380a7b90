"""Every way to run, derived from the core's own tables: additions to a table are tested automatically.

Option sets come from the options' declarations: the defaults, and every choice and switch turned once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any, Literal, get_args, get_origin

import torch

import specdec_core as sd
from specdec_core.engine.choice import check
from specdec_core.foundations.options import OptionSet
from specdec_core.lengths import LENGTH_POLICIES
from specdec_core.models.bundle import HubModel
from specdec_measure.testing import Letters

from .tiny import build, foreign, like, renumbered
from .tiny_heads import all_heads

# Reproducible stand-ins for what a policy would measure on this machine.
POLICY_OPTIONS: dict[str, dict[str, Any]] = {
    "cost-aware": {"curve": [1.0, 1.05, 1.1, 1.15, 1.2], "cost_ratio": 0.1},
}

MASK = 1  # read after the text by drafts that guess several tokens in one pass; any token will do


@cache
def whole(architecture: str, device: str = "cpu", vocabulary: int = 97) -> sd.Models:
    """A tiny target with everything a proposer may need: drafts, of which one partly agrees and one numbers the tokens
    otherwise, and random heads."""
    target = build(architecture, vocab_size=vocabulary)
    draft = like(target, architecture, vocab_size=vocabulary)
    heads = all_heads(vocabulary)
    models = sd.Models(
        Letters(vocabulary),
        HubModel("tiny target", target.to(device)),
        HubModel("tiny draft", draft.to(device)),
        larger_draft=HubModel("tiny larger draft", target.to(device)),
    )
    for one in (models.draft, models.larger_draft):
        one.mask = MASK
    models.foreign_draft = foreign(models, HubModel("tiny foreign draft", renumbered(draft).to(device)))
    moved = {name: head.to(device) for name, head in heads.items()}
    return replace(models, heads=moved, device=str(torch.device(device).type))


def option_sets(kind: type[OptionSet]) -> list[dict[str, Any]]:
    """The defaults, then each Literal's other choices and each switch's other value, one at a time."""
    found: list[dict[str, Any]] = [{}]
    for name, field in kind.model_fields.items():
        if get_origin(field.annotation) is Literal:
            found += [{name: value} for value in get_args(field.annotation) if value != field.default]
        elif field.annotation is bool:
            found.append({name: not field.default})
    return found


def valid(**values: Any) -> sd.Settings | None:
    """Valid settings, or None."""
    settings = sd.Settings(**values)
    try:
        check(settings)
    except sd.SettingsError:
        return None
    return settings


def proposals(models: sd.Models, person: bool = False) -> list[tuple[str, dict[str, Any]]]:
    """Each proposer that these models can serve, with each of its option sets."""
    return [
        (name, options)
        for name, kind in sd.PROPOSERS.items()
        for options in option_sets(kind.Options)
        if kind.resolved(kind.Options(**options)).why_not(models, person) is None
    ]


def policies() -> list[dict[str, Any]]:
    """Each length policy."""
    return [
        {"length_policy": name, "length_options": POLICY_OPTIONS.get(name, {})} for name in LENGTH_POLICIES
    ]


def lossless() -> list[str]:
    """The rules that claim to be lossless."""
    return [name for name, rule in sd.RULES.items() if rule.lossless]


def runs(models: sd.Models, **common: Any) -> Iterator[sd.Settings]:
    """Every valid combination of proposal × lossless rule × policy × overlap."""
    for proposer, options in proposals(models):
        for rule in lossless():
            for policy in policies():
                for overlap in (False, True):
                    settings = valid(
                        proposer=proposer, options=options, rule=rule, overlap=overlap, **policy, **common
                    )
                    if settings is not None:
                        yield settings
