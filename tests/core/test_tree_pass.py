"""One pass over a tree equals its paths read one by one; compacted KV memory equals a fresh prefill."""

from __future__ import annotations

import random

import pytest
import torch

from specdec_core.models.bundle import HubModel
from specdec_core.runtime.reader import CausalReader, Reader
from specdec_core.tree import TokenTree

from .tiny import ARCHITECTURES, VOCABULARY, module, pair
from .trees import largest_difference, paths_alone, random_tree

# Largest difference of two float32 logits. CUDA picks other kernels, that add in another order, for other shapes.
TOLERANCE = {"cpu": 1e-5, "cuda": 1e-4}
CAPACITY = 96


def _reader(architecture: str, device: str) -> Reader:
    model = pair(architecture, device).target
    assert isinstance(model, HubModel)
    return model.reader(CAPACITY)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_tree_pass_equals_its_paths_read_alone(architecture: str, device: str) -> None:
    """Every position of random trees, 1 to 20 nodes, after a random prefix. Catches: a node that sees a cousin, or
    stands at the wrong position. Tolerance 1e-5 on CPU; the logits' own spread
    is 1 to 10."""
    rng = random.Random(7)
    for size in (1, 2, 5, 20):
        reader = _reader(architecture, device)
        reader.prefill([rng.randrange(VOCABULARY) for _ in range(rng.randrange(0, 30))])
        root, tree = rng.randrange(VOCABULARY), random_tree(size, VOCABULARY, rng)
        together = reader.read(root, tree)
        assert together.shape == (size + 1, VOCABULARY)
        for node in range(size):
            alone = reader.read(root, paths_alone(tree, node))
            assert largest_difference(together[node + 1], alone[-1]) <= TOLERANCE[device]
            assert largest_difference(together[0], alone[0]) <= TOLERANCE[device]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_watched_prefill_computes_the_logits_of_one_row(architecture: str, device: str) -> None:
    """And whoever watches still gets the states of all rows; a tree's pass has the logits of all. Catches: the whole
    prompt multiplied with the output matrix, half a gigabyte at 150,000 tokens of vocabulary."""
    reader, states, rows = _reader(architecture, device), [], []
    reader.watch(states.append)
    hook = (
        module(pair(architecture, device))
        .get_output_embeddings()
        .register_forward_hook(lambda layer, inputs, output: rows.append(output.shape[-2]))
    )
    try:
        reader.prefill(range(11))
        reader.read(5, TokenTree([1, 2, 3], [-1, -1, 0]))
    finally:
        hook.remove()
    assert [len(seen) for seen in states] == [11, 4]
    assert rows[0] == 1
    assert len(rows) > 1 or device == "cuda"  # a captured pass is replayed without hooks


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_compacted_memory_equals_a_fresh_prefill(architecture: str, device: str) -> None:
    """Six rounds of random trees, each keeping a random path, then the logits after the text against a model that
    read the same text at once. Catches: rows gathered wrongly, at the wrong place, or overwritten before they were
    read. Tolerance 1e-5 on CPU."""
    rng = random.Random(11)
    reader = _reader(architecture, device)
    text = [rng.randrange(VOCABULARY) for _ in range(9)]
    reader.prefill(text[:-1])
    for _ in range(6):
        tree = random_tree(rng.randrange(9), VOCABULARY, rng)
        reader.read(text[-1], tree)
        path = tree.path(rng.randrange(-1, len(tree)))
        reader.keep([0, *(node + 1 for node in path)])
        text += [tree.tokens[node] for node in path] + [rng.randrange(VOCABULARY)]
        assert reader.length == len(text) - 1
        fresh = _reader(architecture, device)
        fresh.prefill(text[:-1])
        last = random_tree(5, VOCABULARY, rng)
        assert (
            largest_difference(reader.read(text[-1], last), fresh.read(text[-1], last)) <= TOLERANCE[device]
        )


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_steps_and_rewinds_equal_a_fresh_prefill(architecture: str, device: str) -> None:
    """The draft's way of reading: chains of one to three tokens, then a rewind. Catches: a rewind that leaves rows
    visible. Tolerance 1e-5 on CPU."""
    rng = random.Random(13)
    reader = _reader(architecture, device)
    text: list[int] = []
    for _ in range(8):
        piece = [rng.randrange(VOCABULARY) for _ in range(rng.randrange(1, 4))]
        text += piece
        logits = reader.step(torch.tensor(piece, device=reader.device))
        fresh = _reader(architecture, device)
        fresh.prefill(text[:-1])
        assert largest_difference(logits, fresh.read(text[-1], TokenTree())[0]) <= TOLERANCE[device]
        del text[rng.randrange(max(len(text) - 2, 0), len(text)) + 1 :]
        reader.rewind(len(text))


def test_a_long_prompt_is_read_in_chunks() -> None:
    """Catches: a chunk that does not see the one before it. 220 tokens in chunks of 50 against one transformers pass,
    tolerance 1e-5."""
    rng = random.Random(3)
    model = pair("llama").target
    assert isinstance(model, HubModel)
    text = [rng.randrange(VOCABULARY) for _ in range(220)]
    reader = model.reader(256)
    for start in range(0, 219, 50):
        reader.prefill(text[:219][start : start + 50])
    with torch.inference_mode():
        expected = model.model(torch.tensor([text])).logits[0, -1]
    assert largest_difference(reader.read(text[-1], TokenTree())[0], expected) <= TOLERANCE["cpu"]


def test_the_memory_never_reallocates_and_stays_within_its_capacity(device: str) -> None:
    """Catches: a `keep` or `read` that builds new blocks, and writing beyond the reserved rows unnoticed."""
    reader = CausalReader(module(pair("llama", device)), CAPACITY)  # graphs reserve more, see test_graphs.py
    memory = reader.memory
    rng = random.Random(5)
    reader.prefill([1, 2, 3])
    blocks = [block for layer in memory.layers for block in (layer.block_keys, layer.block_values)]  # type: ignore[attr-defined]
    before = [block.data_ptr() for block in blocks]
    while reader.length < CAPACITY - 24:
        tree = random_tree(12, VOCABULARY, rng)
        reader.read(4, tree)
        reader.keep([0, *(node + 1 for node in tree.path(11))])
        reader.rewind(reader.length - rng.randrange(2))
    after = [block for layer in memory.layers for block in (layer.block_keys, layer.block_values)]  # type: ignore[attr-defined]
    assert [block.data_ptr() for block in after] == before
    assert {block.shape[2] for block in after} == {CAPACITY}
    reader.read(4, TokenTree())
    with pytest.raises(ValueError, match=f"holds {CAPACITY} rows"):
        reader.keep(range(CAPACITY))
    with pytest.raises(ValueError, match="cannot rewind"):
        reader.rewind(reader.length + 1)


def test_a_tree_knows_its_depths_children_paths_and_ancestors() -> None:
    """Against a tree written down by hand; catches an off-by-one between nodes and positions."""
    tree = TokenTree([5, 6, 7, 8, 9], [-1, -1, 0, 2, 1])
    assert tree.depths == [1, 1, 2, 3, 2]
    assert tree.children == [[0, 1], [2], [4], [3], [], []]
    assert tree.path(3) == [0, 2, 3]
    assert tree.path(-1) == []
    assert not tree.is_chain
    assert tree.visible().int().tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 0, 1, 0, 0, 0],
        [1, 1, 0, 1, 0, 0],
        [1, 1, 0, 1, 1, 0],
        [1, 0, 1, 0, 0, 1],
    ]
    assert TokenTree.chain([3, 4]).parents == [-1, 0]
    assert len(TokenTree()) == 0 and TokenTree().is_chain


@pytest.mark.parametrize(
    ("tokens", "parents"), [([1], []), ([1], [0]), ([1, 2], [1, -1]), ([1], [-2]), ([1, 2], [-1, 5])]
)
def test_a_malformed_tree_is_refused(tokens: list[int], parents: list[int]) -> None:
    """Catches: a child before its parent, which would read garbage as its ancestor."""
    with pytest.raises(ValueError, match="parent"):
        TokenTree(tokens, parents)
