"""Proposer × option × rule × length policy × overlap: greedy text equals `generate`, on ten architectures.

Of all combinations, some in which every two values meet, architecture and prompt among them. A fault comes from one
part or from two that meet (a proposer's tree and a rule, a policy and drafting ahead, a proposer and a cache); with a
third factor varied, the same code runs again.
"""

from __future__ import annotations

from functools import cache

import pytest

import specdec_core as sd

from .matrix import lossless, policies, proposals, runs, whole
from .pairwise import Values, dealt, pairs
from .tiny import ARCHITECTURES, PROMPTS, generate, module

LENGTH = 16


@cache
def _all() -> dict[tuple[str, str], list[tuple[Values, sd.Settings]]]:
    """For each architecture and proposal, every valid combination of the rest, with every prompt."""
    groups: dict[tuple[str, str], list[tuple[Values, sd.Settings]]] = {}
    for architecture in ARCHITECTURES:
        for settings in runs(whole(architecture), max_new_tokens=LENGTH, draft_length=3):
            proposal = f"{settings.proposer} {settings.options}"
            for prompt in range(len(PROMPTS)):
                values = {
                    "architecture": architecture,
                    "proposal": proposal,
                    "rule": settings.rule,
                    "policy": settings.length_policy,
                    "overlap": settings.overlap,
                    "prompt": prompt,
                }
                groups.setdefault((architecture, proposal), []).append((values, settings))
    return groups


@cache
def _chosen() -> list[tuple[Values, sd.Settings]]:
    return dealt(list(_all().values()))


def test_every_two_values_meet() -> None:
    """Catches: a pair that is never run, a value of a table that takes no part."""
    run = set().union(*(pairs(values) for values, _ in _chosen()))
    for cases in _all().values():
        for values, _ in cases:
            assert pairs(values) <= run, values
    met = {one for pair in run for one in pair}
    assert {("rule", name) for name in lossless()} <= met
    assert {("policy", policy["length_policy"]) for policy in policies()} <= met
    for architecture in ARCHITECTURES:
        for proposer, options in proposals(whole(architecture)):
            assert (("architecture", architecture), ("proposal", f"{proposer} {options}")) in run


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_greedy_text_is_that_of_generate_whatever_is_chosen(architecture: str, device: str) -> None:
    """Token for token, float32; and every trace is clean.

    Catches: any proposer, rule, policy or overlap that leaves a cache, a mask or a position behind, alone or together
    with another.
    """
    models = whole(architecture, device)
    expected = [generate(module(models), prompt, LENGTH) for prompt in PROMPTS]
    accepted: dict[str, int] = {}
    for values, settings in _chosen():
        if values["architecture"] != architecture:
            continue
        which = int(str(values["prompt"]))
        trace = sd.decode(models, PROMPTS[which], settings)
        changed = settings.model_dump(exclude_defaults=True)
        assert trace.token_ids == expected[which], f"{architecture}, prompt {PROMPTS[which]}: {changed}"
        assert trace.audit() == [], changed
        accepted[settings.proposer] = accepted.get(settings.proposer, 0) + trace.stats.accepted
    assert accepted["draft-model"] > 0, "nothing was ever accepted: this proves nothing"
