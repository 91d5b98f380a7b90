"""Token recycling against a matrix kept by the test, from the scripted target's exact probabilities."""

from __future__ import annotations

import pytest

import specdec_core as sd
from specdec_core.proposers import Resources
from specdec_core.proposers.heads.medusa_tree import arranged
from specdec_core.proposers.lookup.recycling import Recycling
from specdec_measure.testing import scripted

from .distributions import wavering

WIDTH = 3


def _matrix_after(trace: sd.Trace, text: list[int], matrix: dict[int, list[int]], index: int) -> None:
    """What a round's pass says of every token it read; on the accepted path last."""
    nodes, target = trace.rounds[index].nodes, wavering(5, 3, 3.0)
    paths: list[list[int]] = [[]]
    for token, parent in zip(nodes.token, nodes.parent, strict=True):
        paths.append([*paths[parent + 1], token])
    taken = trace.rounds[index].committed.token[:-1]
    for path in sorted(paths, key=lambda path: path == taken[: len(path)]):
        probs = target((*text, *path))
        matrix[[*text, *path][-1]] = sorted(range(5), key=lambda token: -probs[token])[:WIDTH]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("from_prompt", [False, True])
def test_the_tree_is_filled_from_what_earlier_passes_found(temperature: float, from_prompt: bool) -> None:
    """Every round of two runs. Catches: rows of another position, rejected tokens that are forgotten or win over
    accepted ones, a tree filled from the round's own pass."""
    options = {"nodes": 9, "successors": WIDTH, "depth": 3, "from_prompt": from_prompt}
    settings = sd.Settings(
        proposer="recycling", options=options, temperature=temperature, max_new_tokens=40, seed=5
    )
    prompt, models = [0, 1, 2, 0, 3, 1], scripted(wavering(5, 3, 3.0))
    trace = sd.decode(models, prompt, settings)
    assert trace.audit() == []
    pairs = {1: [2], 2: [0], 0: [3, 1], 3: [1]}  # the newest first
    matrix, text, nodes = (pairs if from_prompt else {}), list(prompt), 0
    choices = Recycling(
        Resources(models.target.reader(9), models, 9), Recycling.read_options(settings)
    ).choices
    for index, row in enumerate(trace.rounds):
        limit = 40 - (len(text) - len(prompt)) - 1
        grown: dict[tuple[int, ...], list[int]] = {(): []}
        for choice in arranged(choices):
            above = grown.get(choice[:-1])
            known = [] if above is None else matrix.get([*text, *above][-1], [])
            if above is not None and choice[-1] < len(known) and len(choice) <= limit:
                grown[choice] = [*above, known[choice[-1]]]
        found: list[list[int]] = [[]]
        for token, parent in zip(row.nodes.token, row.nodes.parent, strict=True):
            found.append([*found[parent + 1], token])
        assert sorted(found) == sorted(grown.values()), index
        assert row.note["known"] == len(matrix)
        nodes += len(found) - 1
        _matrix_after(trace, text, matrix, index)
        text += row.committed.token
    assert nodes > 100 and len(choices) == 9
