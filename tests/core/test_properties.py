"""Every proposer, option, rule, policy and overlap with any length, temperature, seed and prompt: the trace passes its
audit.

Every valid combination once on scripted models, the rest of the settings drawn anew for each; and a part of them on
small real ones. The numbers are those of a fixed seed, so that a failure repeats.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

import specdec_core as sd
from specdec_core.lengths import LENGTH_POLICIES
from specdec_measure.testing import scripted

from .distributions import mixture, wavering
from .matrix import POLICY_OPTIONS, option_sets, proposals, valid, whole

END = 3
_target = wavering(7, seed=5)
SCRIPTED = scripted(_target, mixture(_target, wavering(7, seed=6), 0.5), eos=[END])
SCRIPTED.larger_draft = scripted(_target, mixture(_target, wavering(7, seed=6), 0.7)).draft
RULES = [(name, options) for name, rule in sd.RULES.items() for options in option_sets(rule.Options)]


def _combinations(models: sd.Models) -> list[sd.Settings]:
    """Every valid combination of proposal, rule, policy and overlap; only one policy where a proposer heeds none."""
    found = []
    for proposer, options in proposals(models):
        for rule, rule_options in RULES:
            for policy, kind in LENGTH_POLICIES.items():
                if policy != "fixed" and not {*kind.sets} & {*sd.PROPOSERS[proposer].uses}:
                    continue
                for overlap in (False, True):
                    settings = valid(
                        proposer=proposer, options=options, rule=rule, rule_options=rule_options, overlap=overlap,
                        length_policy=policy, length_options=POLICY_OPTIONS.get(policy, {}),
                    )  # fmt: skip
                    if settings is not None:
                        found.append(settings)
    return found


def _filled(settings: sd.Settings, rng: random.Random, most: int) -> sd.Settings:
    """The settings with a length of up to `most`, a temperature and all else that any combination allows; what lies at
    the end of a range more often than by chance."""
    filled = settings.but(
        draft_length=rng.randint(1, 9),
        max_new_tokens=rng.choice([1, 2, most, *[rng.randint(1, most)] * 5]),
        temperature=rng.choice([0.0, 0.0, 0.01, 1.0, rng.uniform(0.01, 1.0), rng.uniform(1.0, 5.0)]),
        top_k=rng.choice([0, 1, rng.randint(2, 9)]),
        top_p=rng.choice([1.0, 1e-6, 1.0 - rng.random()]),
        seed=rng.choice([0, 2**63 - 1, rng.randrange(2**63)]),
        record=rng.choice(["full", "full", "tokens", "off"]),
    )
    return (
        filled if valid(**filled.model_dump()) else filled.but(temperature=0.0)
    )  # what some rules insist on


def _hold(models: sd.Models, prompt: list[int], chosen: sd.Settings) -> sd.Trace:
    trace = sd.decode(models, prompt, chosen)
    asked = f"{prompt}: {chosen.model_dump(exclude_defaults=True)}"
    assert trace.audit() == [], asked
    assert 1 <= len(trace.token_ids) <= chosen.max_new_tokens, asked
    assert sd.Trace.from_json(trace.to_json()) == trace, asked
    if trace.end == "eos":
        assert trace.token_ids[-1] in models.eos, asked
    return trace


def _is_the_targets(chosen: sd.Settings) -> bool:
    """Whether there is one text that may be written."""
    return sd.RULES[chosen.rule].lossless and chosen.temperature == 0.0


def _likeliest(prompt: Sequence[int], length: int) -> list[int]:
    """The scripted target's greedy text, by its definition."""
    text = list(prompt)
    while len(text) < len(prompt) + length and (len(text) == len(prompt) or text[-1] != END):
        probs = _target(tuple(text))
        text.append(max(range(len(probs)), key=probs.__getitem__))
    return text[len(prompt) :]


@pytest.mark.parametrize("proposer", dict.fromkeys(name for name, _ in proposals(SCRIPTED)))
def test_any_decode_of_scripted_models_is_clean(proposer: str) -> None:
    """Catches: counts that do not add up, cache rows lost or kept, a verdict its coin does not explain, a column of the
    wrong length, a number JSON changes, and at temperature 0 any text but the target's."""
    rng = random.Random(proposer)
    for settings in _combinations(SCRIPTED):
        if settings.proposer == proposer:
            prompt = [rng.randrange(7) for _ in range(rng.randint(1, 12))]
            chosen = _filled(settings, rng, 24)
            trace = _hold(SCRIPTED, prompt, chosen)
            if _is_the_targets(chosen):
                assert trace.token_ids == _likeliest(prompt, chosen.max_new_tokens), (prompt, chosen)


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_any_decode_of_real_models_is_clean(architecture: str) -> None:
    """The same for proposers that need layers, states or heads, which scripted models lack, 100 combinations; and once
    for each of the others."""
    models, rng = whole(architecture), random.Random(architecture)
    others = {name for name, _ in proposals(SCRIPTED)}
    every = _combinations(models)
    rng.shuffle(every)
    chosen = [settings for settings in every if settings.proposer not in others][:100]
    chosen += {(one.proposer, str(one.options)): one for one in every if one.proposer in others}.values()
    for settings in chosen:
        prompt = [rng.randrange(97) for _ in range(rng.randint(1, 12))]
        filled = _filled(settings, rng, 16)
        trace = _hold(models, prompt, filled)
        if _is_the_targets(filled):
            plain = sd.Settings(proposer="none", max_new_tokens=filled.max_new_tokens, record="off")
            assert trace.token_ids == sd.decode(models, prompt, plain).token_ids, (prompt, filled)
