"""What a pair of proposers adds, from the records alone."""

from __future__ import annotations

from functools import cache

import pytest

import specdec_core as sd
from specdec_measure.analysis.combined import added, by_whom, sentences

from .matrix import whole

PROMPT = [5, 6, 7, 8, 9, 5, 6, 7, 8, 9, 5, 6]


@cache
def _trace(proposer: str) -> sd.Trace:
    return sd.decode(whole("llama"), PROMPT, sd.Settings(proposer=proposer, max_new_tokens=30))


def test_rounds_and_tokens_are_all_counted() -> None:
    """Catches: a round counted twice, tokens of a round without a guess lost, another lane taken for a pair."""
    trace = _trace("combined")
    rows = by_whom(trace)
    assert sum(row.rounds for row in rows) == len(trace.rounds)
    assert sum(row.tokens for row in rows) == len(trace.token_ids)
    assert {row.by for row in rows} >= {"prompt-lookup", "draft-model"}
    assert by_whom(_trace("draft-model")) == []


def test_the_pair_is_compared_with_the_better_one_alone() -> None:
    """By hand. Catches: the worse one, or plain decoding, taken for the better one; another text compared."""
    pair, draft, lookup = (_trace(name) for name in ("combined", "draft-model", "prompt-lookup"))
    rates = {one: one_trace.stats.tokens_per_pass for one, one_trace in (("d", draft), ("l", lookup))}
    found = added(pair, [draft, lookup, _trace("none")])
    assert found is not None and found[0] == pytest.approx(pair.stats.tokens_per_pass / max(rates.values()))
    assert added(pair, [_trace("none")]) is None
    other = sd.decode(whole("llama"), PROMPT, sd.Settings(max_new_tokens=29))
    assert added(pair, [other]) is None
    (said,) = sentences([draft, pair], ["A", "B"])
    assert said.startswith("B: of ") and "draft-model alone" in said
