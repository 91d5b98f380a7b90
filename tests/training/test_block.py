"""Block heads: do they learn, and is what is trained what they do when they draft?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from specdec_core.models.heads import Target
from specdec_core.models.heads.block import checkpoint
from specdec_core.runtime.kv import KVMemory
from training.checkpoints import load_weights, require_checkpoint
from training.heads import block
from training.heads.frozen import Frozen

from .test_continuing import PLAN, VOCABULARY, _one_thread, _rows, target  # noqa: F401 (fixtures)

MASK = 3


@pytest.mark.parametrize("causal", [False, True])
@torch.no_grad()
def test_blocks_of_many_places_are_those_of_drafting(target: Frozen, causal: bool) -> None:  # noqa: F811
    """Against the pass of a decoded text, with its memory. Catches: a block that sees states of its own place or
    later, rows of another block, other positions, a first row alone that is not the whole block's."""
    ids = torch.randint(0, VOCABULARY, (2, 24), generator=torch.Generator().manual_seed(3))
    head = block.new_head(target, 4, 2, MASK, _rows().next(), causal=causal, inner="rnn", rank=4)
    for weight in head.parameters():
        weight += 0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(weight.numel()))
    joined, _, _ = target.read_layers(ids, head.layers_read)
    anchors = torch.tensor([[9, 2, 14], [0, 11, 5]])
    found, alone = block.states_at(head, target.embedding, ids, joined, anchors, single=1 if causal else 0)
    for text in (0, 1):
        for place, states in zip(anchors[text].tolist(), [*found[text], *alone[text]], strict=True):
            memory = KVMemory(2, 40)
            if place > 3:
                head.read(joined[text, :3], None, memory, target.embedding)
            rest = joined[text, memory.length : place]
            drafted = head.read(rest, head.rows(ids[text, place]), memory, target.embedding)
            assert drafted is not None and memory.length == place
            near = {"atol": 1e-4, "rtol": 1e-4}
            torch.testing.assert_close(states, drafted if states.ndim == 2 else drafted[0], **near)


@torch.no_grad()
def test_a_fresh_head_guesses_as_its_fit_does(target: Frozen) -> None:  # noqa: F811
    """Its first guess is nearer to the target's than the uniform one. Catches: a first layer that looks elsewhere than
    one place back, a fit of another place, keys and values of the text that are not the target's."""
    rows = _rows().next()
    head = block.new_head(target, 3, 2, MASK, rows)
    read = target.read_layers(rows, head.layers_read)
    anchors = torch.arange(1, rows.shape[1] - 3).expand(len(rows), -1)
    states, _ = block.states_at(head, target.embedding, rows, read[0], anchors)
    p = block.at_slots(read[2], anchors, 3)[:, :, 0].softmax(-1)
    guessed = target.output(states[:, :, 0]).log_softmax(-1)
    assert float(-(p * guessed).sum(-1).mean()) < 0.9 * float(torch.tensor(VOCABULARY).log())


@pytest.mark.parametrize(
    ("inner", "causal"), [("", False), ("vanilla", True), ("gated", False), ("rnn", True)]
)
def test_a_block_head_learns_and_loads(target: Frozen, tmp_path: Path, inner: str, causal: bool) -> None:  # noqa: F811
    """Cross-entropy and distance fall, four steps in two parts are four in one, and what is written loads. Catches: an
    inner head that is not trained, places drawn anew after a pause, a layout that is not read back."""
    rows = _rows()

    def fresh() -> block.BlockHead:
        return block.new_head(target, 3, 2, MASK, _rows().next(), inner=inner, rank=4, causal=causal)

    head, text = fresh(), rows.heldout
    loss = block.loss(head, target)
    before = loss(text).detach()
    state = block.train(tmp_path / "run", head, target, rows, text, PLAN)
    after = loss(text).detach()
    assert after[0] < 0.8 * before[0] and after[1] < before[1]
    assert len(state["slots"]) == len(state["chain"]) == 3 and head.slots == state["chain"]
    block.export(tmp_path / "out", head, target, state, torch.float32)
    again = checkpoint.read(str(tmp_path / "out"), Target(32, VOCABULARY, 32, 6))
    assert again.block == head.block and again.slots == head.slots

    def run(name: str, plan: object) -> dict[str, Tensor]:
        own = _rows()
        block.train(tmp_path / name, fresh(), target, own, own.heldout, plan)  # type: ignore[arg-type]
        return load_weights(require_checkpoint(tmp_path / name))

    plan = replace(PLAN, tokens=4 * 4 * 16)
    whole = run("whole", plan)
    run("parts", replace(plan, stop_after_steps=2))
    parts = run("parts", plan)
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
