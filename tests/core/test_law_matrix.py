"""Above temperature 0: every lossless rule × every proposer writes the target's law.

Texts of six tokens (several rounds with their rollbacks), compared with the product of the target's conditionals by
Pearson's chi-square. False alarms: 1e-5 per case over the choice of seeds, below 2e-3 for all cases together; the seeds
are fixed, so a case that passed keeps passing until the decoder draws differently.
"""

from __future__ import annotations

from typing import Any

import pytest

import specdec_core as sd
from specdec_core.models.bundle import HubModel
from specdec_core.sampling import Warp
from specdec_core.testing import scripted

from .laws import chance_of, exact_law, mixture, model_law, sample, wavering
from .matrix import lossless, policies, proposals, valid, whole

FALSE_ALARM = 1e-5
LENGTH = 6
PROMPT = [0, 1, 2, 0, 1, 0]  # repeats itself, so that prompt lookup finds something

target = wavering(3, seed=11)
SCRIPTED = scripted(target, mixture(target, wavering(3, seed=12), 0.6))
SCRIPTED.larger_draft = scripted(target, mixture(target, wavering(3, seed=12), 0.8)).draft
SCRIPTED_LAW = exact_law(target, PROMPT, LENGTH, Warp(1.0))
REAL = whole("llama", vocabulary=3)


def _cases(models: sd.Models, skipped: set[str]) -> list[Any]:
    cases = []
    for proposer, options in proposals(models):
        if proposer in skipped:
            continue
        for rule in lossless():
            for overlap in (False, True):
                settings = valid(
                    proposer=proposer, options=options, rule=rule, overlap=overlap, draft_length=3,
                    temperature=1.0, max_new_tokens=LENGTH, record="off",
                )  # fmt: skip
                if settings is not None:
                    name = "-".join([proposer, *map(str, options.values()), rule, *["overlap"] * overlap])
                    cases.append(pytest.param(settings, id=name))
    return cases


def _policies() -> list[Any]:
    """Policies decide between the tokens of a draft, so each is held to the law with each rule that judges chains."""
    cases = []
    for policy in policies():
        for rule in lossless():
            settings = valid(
                rule=rule, draft_length=4, temperature=1.0, max_new_tokens=LENGTH, record="off", **policy
            )
            if settings is not None and policy["length_policy"] != "fixed":
                cases.append(pytest.param(settings, id=f"draft-model-{policy['length_policy']}-{rule}"))
    return cases


_all = [*_cases(SCRIPTED, set()), *_policies()]
_done = {case.values[0].proposer for case in _all}
ON_SCRIPTED = [case for case in _all if not case.values[0].overlap]
ON_REAL = _cases(REAL, _done)
AHEAD = [case for case in _all if case.values[0].overlap]
assert not any(case.values[0].overlap for case in ON_REAL)


@pytest.mark.parametrize("settings", ON_SCRIPTED)
def test_scripted_models_write_the_targets_law(settings: sd.Settings) -> None:
    """Catches: a residual, coin, cache, bonus or draft that is off, a draft dropped because of what it is."""
    assert chance_of(sample(SCRIPTED, PROMPT, settings, 1_200), SCRIPTED_LAW) > FALSE_ALARM


@pytest.mark.parametrize("settings", AHEAD)
def test_drafting_ahead_writes_the_same_texts(settings: sd.Settings) -> None:
    """Whose law the tests above hold: text by text says more than their frequencies do, with fewer of them. Catches: a
    draft made ahead that is kept or dropped because of what it is."""
    alone = settings.but(overlap=False)
    for seed in range(200):
        texts = [sd.decode(SCRIPTED, PROMPT, each.but(seed=seed)).token_ids for each in (settings, alone)]
        assert texts[0] == texts[1], seed


@pytest.mark.parametrize("settings", ON_REAL)
def test_a_real_model_writes_its_own_law(settings: sd.Settings) -> None:
    """The same for proposers that need layers, states or heads. Catches also: states or rows of the wrong position."""
    assert isinstance(REAL.target, HubModel)
    law = exact_law(model_law(REAL.target), PROMPT, LENGTH, Warp(1.0))
    assert chance_of(sample(REAL, PROMPT, settings, 500), law) > FALSE_ALARM
