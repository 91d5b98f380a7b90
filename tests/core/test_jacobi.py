"""Jacobi decoding against greedy decoding, which it may never fall behind."""

from __future__ import annotations

import itertools
import random

import pytest

import specdec_core as sd
from specdec_lessons.jacobi import jacobi
from specdec_measure import testing

SIZE = 7


def one_hot(token: int) -> list[float]:
    return [1.0 if each == token else 0.0 for each in range(SIZE)]


def random_target(seed: int):
    """A target whose every next token hangs on the last two, drawn anew for each seed."""
    table = {}

    def next_probs(tokens: tuple[int, ...]) -> list[float]:
        key = (seed, tokens[-2:])
        if key not in table:
            table[key] = random.Random(repr(key)).randrange(SIZE)
        return one_hot(table[key])

    return next_probs


@pytest.mark.parametrize("seed", range(25))
def test_it_ends_in_the_greedy_text_and_gains_at_least_one_certain_token_a_pass(seed: int) -> None:
    models = testing.scripted(random_target(seed))
    draw = random.Random(seed)
    prompt = [draw.randrange(SIZE) for _ in range(3)]
    count = draw.randrange(1, 9)
    greedy = sd.decode(models, prompt, sd.Settings(proposer="none", max_new_tokens=count)).token_ids
    reader = models.target.reader(64)
    reader.prefill(prompt[:-1])
    rows = jacobi(reader, prompt[-1], [draw.randrange(SIZE) for _ in range(count)])
    assert rows[-1].tokens == greedy
    assert len(rows) - 1 <= count
    for before, after in itertools.pairwise(rows):
        assert after.certain > before.certain
        assert after.tokens[: after.certain] == greedy[: after.certain]
    assert reader.length == len(prompt) - 1


def test_the_right_guess_takes_one_pass_and_a_chain_of_wrong_ones_as_many_as_tokens() -> None:
    models = testing.scripted(lambda tokens: one_hot((tokens[-1] + 1) % SIZE if tokens else 0))
    reader = models.target.reader(64)
    assert len(jacobi(reader, 0, [1, 2, 3, 4, 5])) - 1 == 1
    assert len(jacobi(reader, 0, [0, 0, 0, 0, 0])) - 1 == 5
