"""The lines of code that lessons 3, 4 and 9 show, against the engine on random texts and distributions."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
import torch

from app.course.facts import greedy_round
from app.course.files import reading
from specdec_core.rules import RULES
from specdec_core.tree import TokenTree
from specdec_lessons.judging import chance_to_keep, keep_or_replace, verify

SHOWN = {"draft-verify": verify, "coin": keep_or_replace, "rules": chance_to_keep}


def pairs(count: int, size: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    """`count` random pairs of distributions."""
    made = torch.distributions.Dirichlet(torch.full((size,), 0.7)).sample
    torch.manual_seed(7)
    return made((count,)), made((count,))


@pytest.mark.parametrize("key", SHOWN)
def test_what_a_lesson_shows_is_what_is_checked_here_and_short(key: str) -> None:
    """Catches: a code step that goes back to the engine's walk through trees, or grows past a slide."""
    found, problems = reading.read("en", key)
    assert found is not None, problems
    assert found.front.code.of == f"{SHOWN[key].__module__}:{SHOWN[key].__name__}"
    assert len(reading.source_of(found.front.code.of).splitlines()) <= 14


def test_a_round_is_what_the_engine_plays() -> None:
    """Catches: a bonus without cause, a correction forgotten, a guess that stays after a wrong one."""
    choose = random.Random(3)
    lasts = set()
    for _ in range(30):
        target = [choose.choice("ab") for _ in range(5)]
        draft = [choose.choice("ab") for _ in range(5)]
        played = greedy_round.play([*target], [*draft])
        assert verify(played.guesses, played.answers) == list(played.written)
        lasts.add(played.last)
    assert lasts == {"corrected", "bonus"}


def test_a_guess_is_kept_and_replaced_as_by_the_rule() -> None:
    """The same coin, then the same weights. Catches: a threshold or a residual that only looks like the rule's."""
    rule = RULES["speculative-sampling"]()
    choose, kept = random.Random(4), 0
    for p, q in zip(*pairs(200), strict=True):
        guess, coin = choose.randrange(len(p)), choose.random()
        judged = rule.judge(TokenTree.chain([guess]), torch.stack([p, p]), q.unsqueeze(0), [coin])
        weights: list[float] = []

        def draw(given: list[float], weights: list[float] = weights) -> int:
            weights.extend(given)
            return -1

        written = keep_or_replace(guess, p.tolist(), q.tolist(), coin, draw)
        assert (written == guess) == bool(judged.path)
        if not judged.path:
            assert [each / sum(weights) for each in weights] == pytest.approx(judged.final.tolist(), abs=1e-5)
        kept += written == guess
    assert 50 < kept < 150


@pytest.mark.parametrize("weight", [1.0, 0.7, 0.2])
def test_a_mixture_keeps_as_often_as_the_ensemble_rule(weight: float) -> None:
    """At weight one it is speculative sampling. Catches: a mixture the wrong way round."""
    kind = RULES["ensemble"]
    rule = kind(kind.Options.model_validate({"weight": weight}))
    for p, q in zip(*pairs(50), strict=True):
        judged = rule.judge(TokenTree.chain([0]), torch.stack([p, p]), q.unsqueeze(0), [0.5])
        assert chance_to_keep(float(p[0]), float(q[0]), weight) == pytest.approx(
            judged.thresholds[0], abs=1e-5
        )
    chances = [chance_to_keep(0.2, 0.5, each) for each in (1.0, 0.7, 0.2)]
    assert chances[0] == 0.4 and all(one < other for one, other in pairwise(chances))
