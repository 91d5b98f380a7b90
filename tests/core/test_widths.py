"""Vocabularies padded to different widths: a draft that is wider or narrower than the target still serves it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

import specdec_core as sd
from specdec_core.models.bundle import HubModel
from specdec_core.sampling import Warp
from specdec_measure.testing import Letters, NextProbs, ScriptedModel

from .distributions import chances, exact_distribution, sample, wavering
from .tiny import PROMPTS, build, generate

TARGET = 5


def _padded(next_probs: NextProbs, width: int) -> NextProbs:
    """The distribution's first `width` entries, normalised; entries that it lacks get a probability of their own."""

    def wider(text: tuple[int, ...]) -> Sequence[float]:
        known = [*next_probs(text), *([0.15] * max(width - TARGET, 0))][:width]
        return [chance / sum(known) for chance in known]

    return wider


def test_a_draft_of_another_width_changes_nothing_about_the_distribution() -> None:
    """Narrower: the missing columns have q = 0. Wider: ids the target lacks are never proposed. 200 texts
    of four tokens of either width with either rule, one by one and together, false alarm 1e-4."""
    next_probs, written = wavering(TARGET, seed=1), {}
    for width in (3, 9):
        models = sd.Models(
            Letters(TARGET),
            ScriptedModel(next_probs, TARGET),
            ScriptedModel(_padded(wavering(TARGET, seed=2), width), width),
        )
        for rule in ("speculative-sampling", "token-matching"):
            settings = sd.Settings(rule=rule, draft_length=3, temperature=1.0, max_new_tokens=4, record="off")
            case = (f"width {width}", rule)
            written[case] = sample(models, [0, 1], settings, 200, seed=200 * len(written))
    found = chances(written, exact_distribution(next_probs, [0, 1], 4, Warp(1.0)))
    assert min(found.values()) > 1e-4, found


WIDTHS = [60, 96, 98, 128]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_a_real_draft_of_another_width_works(width: int, temperature: float) -> None:
    """The target may write, and a prompt may hold, ids the draft has no embedding for. Catches: an index error in the
    draft. Greedy text equals `generate`."""
    target = build("llama")
    models = sd.Models(
        Letters(97), HubModel("target", target), HubModel("draft", build("llama", 1, vocab_size=width))
    )
    settings = sd.Settings(max_new_tokens=40, temperature=temperature)
    for prompt in PROMPTS if temperature else PROMPTS[WIDTHS.index(width) % 2 :: 2]:
        trace = sd.decode(models, prompt, settings)
        assert trace.audit() == []
        assert sd.Trace.from_json(trace.to_json()) == trace
        if not temperature:
            assert trace.token_ids == generate(target, prompt, 40)


def test_a_draft_that_prefers_ids_the_target_lacks_proposes_others() -> None:
    """Catches: an id outside the target's vocabulary in the tree."""
    sure: Callable[[tuple[int, ...]], Sequence[float]] = lambda text: [0.01, 0.01, 0.01, 0.97]  # noqa: E731
    models = sd.Models(Letters(3), ScriptedModel(wavering(3, 1), 3), ScriptedModel(sure, 4))
    for temperature in (0.0, 1.0):
        trace = sd.decode(models, [0], sd.Settings(temperature=temperature, max_new_tokens=20))
        assert all(token < 3 for row in trace.rounds for token in row.nodes.token)
        assert trace.audit() == []
