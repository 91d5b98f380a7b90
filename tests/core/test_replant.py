"""Another tree on recorded rounds: against decodes that really used it, and against a record typed out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

import specdec_core as sd
from specdec_core.foundations.errors import SettingsError, TraceError
from specdec_core.proposers.heads import medusa_tree
from specdec_measure.analysis.other_tree import replant

from .tiny_heads import headed

SETTINGS = sd.Settings(proposer="medusa", max_new_tokens=40, options={"tree": "mc_sim_7b_63", "nodes": 63})
OTHERS = [
    [(0,)],
    [(0,), (0, 0), (0, 0, 0)],
    [(0,), (1,), (2,), (3,)],
    [(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)],
    [(1,), (1, 0)],
]


@pytest.fixture(scope="module")
def record() -> tuple[sd.Models, sd.Trace]:
    models = headed("llama")
    return models, sd.decode(models, [5, 9, 3, 2, 7], SETTINGS)


@pytest.mark.parametrize("choices", OTHERS, ids=str)
def test_it_is_what_a_decode_with_that_tree_does(
    record: tuple[sd.Models, sd.Trace], choices: list[medusa_tree.Choice]
) -> None:
    """Where a decode with the other tree comes by the same place of the text, its round begins from the same state: it
    commits as many tokens. Catches: ranks off by one, a path that goes on beside the text."""
    models, wide = record
    replanted = {row.index: row for row in replant(wide, choices)}
    narrow = sd.decode(
        models, [5, 9, 3, 2, 7], SETTINGS.but(options={"choices": [list(one) for one in choices]})
    )
    assert narrow.output.ids == wide.output.ids
    starts = {row.cache_before: row for row in wide.rounds}
    met = 0
    for row in narrow.rounds:
        same = starts.get(row.cache_before)
        if same is not None and row.nodes.token and same.index in replanted and replanted[same.index].decided:
            assert replanted[same.index].tokens == len(row.committed.token)
            met += 1
    assert met >= 3


def test_the_recorded_tree_fares_as_recorded(record: tuple[sd.Models, sd.Trace]) -> None:
    _, wide = record
    found = replant(wide, medusa_tree.PUBLISHED["mc_sim_7b_63"])
    assert found and all(row.decided and row.tokens == row.recorded for row in found)


def test_what_the_record_does_not_hold_is_left_open(record: tuple[sd.Models, sd.Trace]) -> None:
    """A round in which the first head was wrong in all its recorded ranks says nothing of a rank beyond them."""
    models, _ = record
    narrow = sd.decode(models, [5, 9, 3, 2, 7], SETTINGS.but(options={"choices": [[0]]}))
    found = replant(narrow, [(0,), (1,)])
    for row, kept in zip(found, (one for one in narrow.rounds if one.nodes.token), strict=True):
        right = kept.nodes.verdict[0] == "accepted"
        assert row.decided == right and row.tokens == (2 if right else 1)


def test_what_it_refuses(record: tuple[sd.Models, sd.Trace]) -> None:
    _, wide = record
    header = replace(wide.header, settings={**wide.header.settings, "temperature": 0.7})
    with pytest.raises(TraceError, match="temperature 0"):
        replant(replace(wide, header=header), [(0,)])
    with pytest.raises(SettingsError, match="without"):
        replant(wide, [(0, 0)])
