"""Random numbers are looked up by their key, so two rules judge the same drafts with the same coins."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.stats import kstest

import specdec_core as sd
from specdec_core.foundations.randomness import Stream, uniforms
from specdec_core.record.schema import Round
from specdec_measure.testing import scripted

from .distributions import mixture, wavering


def test_a_number_depends_on_its_key_alone() -> None:
    """Number i is the same however many are asked for. Catches: a generator with a state."""
    whole = uniforms(5, Stream.COINS, 3, 100)
    assert uniforms(5, Stream.COINS, 3, 7).tolist() == whole[:7].tolist()
    assert uniforms(5, Stream.COINS, 3, 0).tolist() == []


@pytest.mark.parametrize("seed", [0, 7, 2**63 - 1, 2**64 + 5])
def test_the_numbers_are_those_of_philox_at_their_key(seed: int) -> None:
    """Two threads at once, each against a generator made anew. Catches: a generator that threads share, a buffer that
    is left over, a counter one place off (stored runs would be judged with other coins)."""

    def check(start: int) -> bool:
        return all(
            np.array_equal(
                uniforms(seed, stream, index, count),
                np.random.Generator(
                    np.random.Philox(key=seed, counter=((stream << 64) | index) << 64)
                ).random(count),
            )
            for index in range(start, 400, 2)
            for stream in Stream
            for count in (1, 3, 8)
        )

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(check, (0, 1)))


def test_different_keys_give_different_numbers() -> None:
    """Seeds, streams and rounds, also the largest ones. Catches: keys that overlap, so that a coin repeats a draft's
    number."""
    keys = [
        (seed, stream, index)
        for seed in (0, 1, 2**32, 2**63 - 1)
        for stream in Stream
        for index in (0, 1, 2, 255, 4095)
    ]
    numbers = [number for key in keys for number in uniforms(*key, 64).tolist()]
    assert len(set(numbers)) == len(numbers)
    assert all(0.0 <= number < 1.0 for number in numbers)


def test_the_numbers_of_neighbouring_keys_are_uniform_and_uncorrelated() -> None:
    """The first number of 5,000 seeds, rounds and streams: Kolmogorov–Smirnov and correlation, false alarm about 1e-4
    each (a correlation of 4/√5000)."""
    by_seed = np.array([uniforms(seed, Stream.COINS, 0, 1)[0] for seed in range(5_000)])
    by_round = np.array([uniforms(0, Stream.COINS, index, 1)[0] for index in range(5_000)])
    drafting = np.array([uniforms(seed, Stream.DRAFTING, 0, 1)[0] for seed in range(5_000)])
    for column in (by_seed, by_round, drafting):
        assert kstest(column, "uniform").pvalue > 1e-4
        assert abs(np.corrcoef(column[1:], column[:-1])[0, 1]) < 4 / np.sqrt(5_000)
    assert abs(np.corrcoef(by_seed, drafting)[0, 1]) < 4 / np.sqrt(5_000)


@pytest.mark.parametrize("seed", range(20))
def test_two_rules_share_drafts_and_coins_until_their_texts_part(seed: int) -> None:
    """Catches: a rule that uses up coins and so shifts those of the next round."""
    target = wavering(6, seed=8)
    models = scripted(target, mixture(target, wavering(6, seed=9), 0.4))
    settings = sd.Settings(temperature=1.0, max_new_tokens=20, seed=seed)
    one, other = (
        sd.decode(models, [1, 2], settings.but(rule=rule)).rounds
        for rule in ("speculative-sampling", "token-matching")
    )
    compared = 0
    for first, second in zip(one, other, strict=False):
        assert _dealt(first) == _dealt(second)
        compared += 1
        if first.committed.token != second.committed.token:
            break
    assert compared


def _dealt(row: Round) -> tuple[list[int], list[float] | None]:
    return row.nodes.token, row.nodes.coin
