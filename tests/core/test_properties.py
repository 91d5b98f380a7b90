"""Any proposer, option, rule, policy, length, temperature, seed and prompt: the trace passes its audit.

2,000 random decodes per run on scripted models and 300 on small real ones; derandomised, so that a failure repeats.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

import specdec_core as sd
from specdec_core.engine.check import check
from specdec_core.lengths import LENGTH_POLICIES
from specdec_core.testing import scripted

from .distributions import mixture, wavering
from .matrix import POLICY_OPTIONS, option_sets, proposals, whole

_target = wavering(7, seed=5)
SCRIPTED = scripted(_target, mixture(_target, wavering(7, seed=6), 0.5), eos=[3])
SCRIPTED.larger_draft = scripted(_target, mixture(_target, wavering(7, seed=6), 0.7)).draft


def examples(count: int) -> Any:
    """That many examples, the same in every run."""
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


RULES = [(name, options) for name, rule in sd.RULES.items() for options in option_sets(rule.Options)]
POLICIES = [(name, POLICY_OPTIONS.get(name, {})) for name in LENGTH_POLICIES]
COMMON: dict[str, Any] = {
    "draft_length": st.integers(1, 9),
    "max_new_tokens": st.integers(1, 24),
    "temperature": st.one_of(st.just(0.0), st.floats(0.01, 5.0)),
    "top_k": st.integers(0, 9),
    "top_p": st.floats(1e-6, 1.0),
    "seed": st.integers(0, 2**63 - 1),
    "overlap": st.booleans(),
    "record": st.sampled_from(["full", "full", "tokens", "off"]),
}


def _settings(
    proposal: tuple[str, dict[str, Any]],
    rule: tuple[str, dict[str, Any]],
    policy: tuple[str, dict[str, Any]],
    common: dict[str, Any],
) -> sd.Settings:
    """The settings, or no example where the combination is refused."""
    chosen = sd.Settings(
        proposer=proposal[0], options=proposal[1], rule=rule[0], rule_options=rule[1],
        length_policy=policy[0], length_options=policy[1], **common,
    )  # fmt: skip
    try:
        check(chosen)
    except sd.SettingsError:
        assume(False)
    return chosen


def _hold(models: sd.Models, prompt: list[int], chosen: sd.Settings) -> None:
    trace = sd.decode(models, prompt, chosen)
    assert trace.audit() == []
    assert 1 <= len(trace.token_ids) <= chosen.max_new_tokens
    assert sd.Trace.from_json(trace.to_json()) == trace
    if trace.end == "eos":
        assert trace.token_ids[-1] in models.eos
    if sd.RULES[chosen.rule].lossless and chosen.temperature == 0.0:
        plain = chosen.but(
            proposer="none", options={}, overlap=False, length_policy="fixed", length_options={}
        )
        assert trace.token_ids == sd.decode(models, prompt, plain.but(rule="speculative-sampling")).token_ids


@examples(2_000)
@given(
    proposal=st.sampled_from(proposals(SCRIPTED)),
    rule=st.sampled_from(RULES),
    policy=st.sampled_from(POLICIES),
    common=st.fixed_dictionaries(COMMON),
    prompt=st.lists(st.integers(0, 6), min_size=1, max_size=12),
)
def test_any_decode_of_scripted_models_is_clean(
    proposal: Any, rule: Any, policy: Any, common: dict[str, Any], prompt: list[int]
) -> None:
    """Catches: counts that do not add up, cache rows lost or kept, a verdict its coin does not explain, a column of the
    wrong length, a number JSON changes, and at temperature 0 any text but the target's."""
    _hold(SCRIPTED, prompt, _settings(proposal, rule, policy, common))


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_any_decode_of_real_models_is_clean(architecture: str) -> None:
    """The same for proposers that need layers, states or heads, which scripted models lack."""
    models = whole(architecture)

    @examples(150)
    @given(
        proposal=st.sampled_from(proposals(models)),
        rule=st.sampled_from(RULES),
        policy=st.sampled_from(POLICIES),
        common=st.fixed_dictionaries(COMMON | {"max_new_tokens": st.integers(1, 16)}),
        prompt=st.lists(st.integers(0, 96), min_size=1, max_size=12),
    )
    def any_decode(proposal: Any, rule: Any, policy: Any, common: dict[str, Any], prompt: list[int]) -> None:
        _hold(models, prompt, _settings(proposal, rule, policy, common))

    any_decode()
