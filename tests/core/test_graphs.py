"""Passes of fixed shape, as CUDA graphs need them, equal ordinary ones. Here they run kernel by kernel, so that the
static buffers, masks and write positions are tested on any machine; test_gpu.py has the graphs themselves."""

from __future__ import annotations

import gc
import random
from dataclasses import replace

import pytest
import torch

import specdec_core as sd
from specdec_core.models.bundle import HubModel
from specdec_core.runtime.cuda_graphs import ROWS, WIDTHS, Graphs, works
from specdec_core.runtime.reader import CausalReader
from specdec_core.tree import TokenTree

from .offers import fitting_rule, offered
from .tiny import ARCHITECTURES, PROMPTS, VOCABULARY, build, generate, module, pair
from .trees import Oracle, largest_difference
from .walks import walk

TOLERANCE = 1e-5  # float32 logits; their own spread is 1 to 10
CAPACITY = 200
SOME = ["none", "draft-model", "test-oracle", "test-ranked"]
WHOLE = ["gpt2", "opt", "qwen3", "gpt-neox", "llama"]  # run through the whole loop


def fixed_pair(architecture: str) -> sd.Models:
    """The tiny pair with readers of fixed shape for target and draft, which on CUDA it would have by itself."""
    models = pair(architecture)
    parts = []
    for part in (models.target, models.draft):
        assert isinstance(part, HubModel)
        copy = HubModel(part.info.name, part.model)
        copy.graphs = Graphs(part.model, capture=False)
        parts.append(copy)
    return replace(models, target=parts[0], draft=parts[1])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_fixed_passes_equal_ordinary_ones_through_any_sequence_of_them(architecture: str) -> None:
    """Trees and chains of all widths, beyond the widest as well, kept, stepped and rewound beside an ordinary reader.
    Catches: padding that is seen or overwrites a row, a stale mask, a row written where the pass before wrote, states
    of padded rows reported to a listener. Tolerance 1e-5."""
    model = module(pair(architecture))
    fixed = Graphs(model, capture=False).reader(CAPACITY, 9)
    walk(CausalReader(model, CAPACITY), fixed, TOLERANCE)
    layers = fixed.memory.layers
    assert {layer.block_keys.shape[2] for layer in layers} == {ROWS}  # type: ignore[attr-defined, union-attr]


@pytest.mark.parametrize("architecture", ["gpt2", "qwen3", "opt", "gpt-neox"])
def test_a_tree_grown_level_by_level_equals_one_pass(architecture: str) -> None:
    """`known` positions are not read again. Catches: a fixed pass that writes over the rows of the levels above."""
    rng = random.Random(4)
    reader = Graphs(module(pair(architecture)), capture=False).reader(64)
    reader.prefill([1, 2, 3])
    tree = TokenTree([9, 8, 7, 6, 5, 4], [-1, -1, 0, 0, 1, 3])
    expected = reader.read(11, tree)
    for size in (3, 5):
        rows = [*reader.read(11, TokenTree(tree.tokens[:2], tree.parents[:2]))]
        rows += [*reader.read(11, TokenTree(tree.tokens[:size], tree.parents[:size]), known=3)]
        rows += [*reader.read(11, tree, known=size + 1)]
        assert largest_difference(torch.stack(rows), expected) <= TOLERANCE
        reader.read(rng.randrange(VOCABULARY), TokenTree.chain([3, 3, 3]))


@pytest.mark.usefixtures("proposers")
@pytest.mark.parametrize("architecture", WHOLE)
def test_greedy_text_through_fixed_passes_equals_generate(
    architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chains and trees through the whole loop (on Llama every proposer), target and draft both in fixed shapes, and
    blocks that a lane takes over from the one before, of a longer or a shorter text: the prompts are taken in turn, so
    that each proposer reads all of them over the architectures. Catches: what an earlier lane left in sight of a later
    one, and states that grow stale between passes."""
    models = fixed_pair(architecture)
    expected = [generate(module(models), prompt, 24) for prompt in PROMPTS]
    turn = WHOLE.index(architecture)
    for number, proposer in enumerate(offered(models) if architecture == "llama" else SOME):
        which = (turn + number) % len(PROMPTS)
        monkeypatch.setattr(Oracle, "truth", [*PROMPTS[which], *expected[which]])
        settings = sd.Settings(proposer=proposer, rule=fitting_rule(proposer), max_new_tokens=24)
        trace = sd.decode(models, PROMPTS[which], settings)
        assert trace.token_ids == expected[which], f"{proposer}, prompt {PROMPTS[which]}"
        assert trace.audit() == []


def test_a_lanes_blocks_and_passes_are_taken_over_when_it_has_ended() -> None:
    """Catches: a set that two living readers share, and one that is built anew for every run."""
    graphs = Graphs(build("llama"), capture=False)
    first, second = graphs.reader(100, 5), graphs.reader(100, 5)
    assert first.static is not second.static
    assert list(first.static.passes) == [1, 2, 4, 8], "all widths that five tokens or fewer can need"
    first.prefill([1, 2, 3])
    ended = first.static
    del first
    gc.collect()
    third = graphs.reader(ROWS - 1, 1)
    assert third.static is ended and third.length == 0
    assert graphs.reader(ROWS, 1).static.rows == 2 * ROWS, (
        "the last row is for padding and cannot hold a token"
    )
    assert all(one.width in WIDTHS for one in ended.passes.values())


def test_a_full_memory_refuses_one_more_token() -> None:
    """Catches: a write into the row of padding, where it would be lost unnoticed."""
    reader = Graphs(build("llama"), capture=False).reader(ROWS - 1)
    reader.prefill([5] * (ROWS - 3))
    reader.read(1, TokenTree.chain([2]))
    with pytest.raises(ValueError, match=f"holds {ROWS - 1} rows"):
        reader.read(1, TokenTree.chain([2, 3]))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_check_at_loading_accepts_what_works(architecture: str) -> None:
    """Catches: an architecture that would lose its graphs by mistake."""
    assert works(module(pair(architecture)), capture=False)


@pytest.mark.parametrize("fault", ["position", "mask", "host"])
def test_the_check_at_loading_refuses_what_a_graph_would_get_wrong(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that counts positions itself from the first pass on, one that ignores its mask, one that raises. Catches:
    a check that passes anything."""
    model = build("llama", vocab_size=40)
    forward = model.forward

    def faulty(*args: object, **kwargs: torch.Tensor) -> object:
        wide = kwargs["attention_mask"].shape[-1] == ROWS
        if wide and fault == "position":
            kwargs["position_ids"] = torch.arange(kwargs["input_ids"].shape[1])[None] + 3
        if wide and fault == "mask":
            kwargs["attention_mask"] = torch.zeros_like(kwargs["attention_mask"])
        if wide and fault == "host":
            raise RuntimeError("operation not permitted when stream is capturing")
        return forward(*args, **kwargs)

    monkeypatch.setattr(model, "forward", faulty)
    assert not works(model, capture=False)
