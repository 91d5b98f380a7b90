"""Above temperature 0: every lossless rule × every proposer writes the target's distribution.

Texts of six tokens (several rounds with their rollbacks), compared with the product of the target's conditionals by
Pearson's chi-square: each case by itself, and the texts of all cases of a rule and of a proposer together, which all
follow one distribution. A fault of a rule or of a proposer shows in all its cases, so it meets thousands of texts; a
fault of one pair alone meets COUNT. False alarms: 1e-5 per test over the choice of seeds, below 5e-3 for all tests
together; the seeds are fixed, so a case that passed keeps passing until the decoder draws differently.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

import specdec_core as sd
from specdec_core.models.bundle import HubModel
from specdec_core.models.translation import ForeignDraft
from specdec_core.sampling import Warp
from specdec_core.testing import ScriptedModel, Syllables, scripted

from .distributions import (
    BROKEN,
    Text,
    chance_of,
    exact_distribution,
    mixture,
    model_next_probs,
    sample,
    shortened,
    wavering,
)
from .matrix import lossless, policies, proposals, valid, whole

FALSE_ALARM = 1e-5
LENGTH = 6
COUNT = 250  # texts of one case on scripted models
REAL_COUNT = 120  # and on a real one, whose passes cost more
PROMPT = [0, 1, 2, 0, 1, 0]  # repeats itself, so that prompt lookup finds something

target = wavering(3, seed=11)
SCRIPTED = scripted(target, mixture(target, wavering(3, seed=12), 0.6))
SCRIPTED.larger_draft = scripted(target, mixture(target, wavering(3, seed=12), 0.8)).draft
SCRIPTED.draft.mask = SCRIPTED.larger_draft.mask = 1
# Of its four tokens two are the target's, under other numbers: 'a' is 2, 'c' is 0; 'b' is read as nothing it has.
OTHER = ScriptedModel(wavering(4, seed=13), 4, "scripted foreign draft")
SCRIPTED.foreign_draft = ForeignDraft(
    OTHER, Syllables("c", "ab", "a", "bc"), 1, None, (SCRIPTED.codec, 3, None)
)
SCRIPTED_DISTRIBUTION = exact_distribution(target, PROMPT, LENGTH, Warp(1.0))
REAL = whole("llama", vocabulary=3)
assert isinstance(REAL.target, HubModel)
REAL_DISTRIBUTION = exact_distribution(model_next_probs(REAL.target), PROMPT, LENGTH, Warp(1.0))


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
    """Policies decide between the tokens of a draft, so each is held to the distribution with each rule that judges
    chains."""
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


@cache
def _written(scripted_models: bool, settings: str) -> Counter[Text]:
    """The texts of one case. Each has seeds of its own, so that the cases together are one sample."""
    asked = sd.Settings.model_validate_json(settings)
    cases = [case.values[0].model_dump_json() for case in (ON_SCRIPTED if scripted_models else ON_REAL)]
    count = COUNT if scripted_models else REAL_COUNT
    first = cases.index(settings) * count
    return sample(SCRIPTED if scripted_models else REAL, PROMPT, asked, count, seed=first)


def _check(texts: Counter[Text], expected: dict[Text, float]) -> None:
    """Whole texts, and the first three tokens alone: fewer kinds of text, so more of each."""
    assert chance_of(texts, expected) > FALSE_ALARM
    assert chance_of(shortened(texts, 3), shortened(expected, 3)) > FALSE_ALARM


def _groups(cases: list[Any]) -> list[tuple[str, str]]:
    """The rules and proposers of these cases: what their texts are counted together by."""
    return [
        (field, name)
        for field in ("rule", "proposer")
        for name in dict.fromkeys(getattr(case.values[0], field) for case in cases)
    ]


def _together(scripted_models: bool, field: str, name: str) -> Counter[Text]:
    texts: Counter[Text] = Counter()
    for case in ON_SCRIPTED if scripted_models else ON_REAL:
        if getattr(case.values[0], field) == name:
            texts += _written(scripted_models, case.values[0].model_dump_json())
    return texts


@pytest.mark.parametrize("settings", ON_SCRIPTED)
def test_scripted_models_write_the_targets_distribution(settings: sd.Settings) -> None:
    """Catches: a residual, coin, cache, bonus or draft that is off, a draft dropped because of what it is."""
    _check(_written(True, settings.model_dump_json()), SCRIPTED_DISTRIBUTION)


@pytest.mark.parametrize(("field", "name"), _groups(ON_SCRIPTED))
def test_the_cases_of_a_rule_or_proposer_together(field: str, name: str) -> None:
    """Catches: a deviation too small for the texts of one case."""
    _check(_together(True, field, name), SCRIPTED_DISTRIBUTION)


@pytest.mark.parametrize("settings", ON_REAL)
def test_a_real_model_writes_its_own_distribution(settings: sd.Settings) -> None:
    """The same for proposers that need layers, states or heads. Catches also: states or rows of the wrong position."""
    _check(_written(False, settings.model_dump_json()), REAL_DISTRIBUTION)


@pytest.mark.parametrize(("field", "name"), _groups(ON_REAL))
def test_a_real_models_cases_together(field: str, name: str) -> None:
    """Catches: a deviation too small for the texts of one case."""
    _check(_together(False, field, name), REAL_DISTRIBUTION)


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.name)
def test_a_wrong_rule_is_found(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """The power of the tests above: found with no more texts than each group has, of a rule known to be broken."""
    monkeypatch.setitem(sd.RULES, kind.name, kind)
    cases = Counter(case.values[0].rule for case in ON_SCRIPTED)
    settings = sd.Settings(
        rule=kind.name, draft_length=3, temperature=1.0, max_new_tokens=LENGTH, record="off"
    )
    texts: Counter[Text] = Counter()
    for start in range(0, min(cases.values()) * COUNT, COUNT):
        texts += sample(SCRIPTED, PROMPT, settings, COUNT, seed=start)
        if chance_of(texts, SCRIPTED_DISTRIBUTION) < FALSE_ALARM:
            return
    raise AssertionError(f"not found in {texts.total()} texts")


@pytest.mark.parametrize("settings", AHEAD)
def test_drafting_ahead_writes_the_same_texts(settings: sd.Settings) -> None:
    """What the tests above compare with: text by text says more than their frequencies do, with fewer of them. Catches:
    a draft made ahead that is kept or dropped because of what it is."""
    alone = settings.but(overlap=False)
    for seed in range(100):
        texts = [sd.decode(SCRIPTED, PROMPT, each.but(seed=seed)).token_ids for each in (settings, alone)]
        assert texts[0] == texts[1], seed
