"""Medusa: the published trees and files exactly, guesses from the right state, the target's text and distribution."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

import specdec_core as sd
from specdec_core import lengths as draft_length
from specdec_core.models.bundle import HubModel
from specdec_core.models.heads import Target
from specdec_core.models.heads import medusa as layout
from specdec_core.proposers import available
from specdec_core.proposers.heads import medusa_tree
from specdec_core.sampling import Warp

from .distributions import chances, exact_distribution, model_next_probs, samples
from .tiny import build, generate, module, tokenizer
from .tiny_heads import WIDTH, headed, medusa_heads, texts, true_states

# As published with Medusa, typed out as there; the package keeps its lists in another notation.
MC_SIM_7B_63 = [
    [0], [0, 0], [1], [0, 1], [2], [0, 0, 0], [1, 0], [0, 2], [3], [0, 3], [4], [0, 4], [2, 0], [0, 5], [0, 0, 1], [5],
    [0, 6], [6], [0, 7], [0, 1, 0], [1, 1], [7], [0, 8], [0, 0, 2], [3, 0], [0, 9], [8], [9], [1, 0, 0], [0, 2, 0],
    [1, 2], [0, 0, 3], [4, 0], [2, 1], [0, 0, 4], [0, 0, 5], [0, 0, 0, 0], [0, 1, 1], [0, 0, 6], [0, 3, 0], [5, 0],
    [1, 3], [0, 0, 7], [0, 0, 8], [0, 0, 9], [6, 0], [0, 4, 0], [1, 4], [7, 0], [0, 1, 2], [2, 0, 0], [3, 1], [2, 2],
    [8, 0], [0, 5, 0], [1, 5], [1, 0, 1], [0, 2, 1], [9, 0], [0, 6, 0], [0, 0, 0, 1], [1, 6], [0, 7, 0],
]  # fmt: skip
SETTINGS = sd.Settings(proposer="medusa", max_new_tokens=30)
PROMPTS = [[5, 9, 3, 2, 7], [1], [4, 1, 4, 1, 4, 1, 4]]


def test_the_published_tree_is_as_published() -> None:
    """63 nodes and the root, four levels, 42 paths. Catches: a slip in the package's shorter notation."""
    assert [list(choice) for choice in medusa_tree.PUBLISHED["mc_sim_7b_63"]] == MC_SIM_7B_63
    found = medusa_tree.buffers(medusa_tree.check(MC_SIM_7B_63))
    assert (len(found.choices), max(found.positions), len(found.paths)) == (63, 4, 42)
    assert found.mask.shape == (64, 64) and found.paths.shape == (42, 5)
    assert all(len(choices) == 63 for choices in medusa_tree.PUBLISHED.values())


@pytest.mark.parametrize("name", [*medusa_tree.PUBLISHED, "ours"])
def test_buffers_equal_a_direct_construction(name: str) -> None:
    """Mask by comparing beginnings of choices, positions by their lengths, paths by looking every beginning up: exact.
    Catches: a node that sees its sibling, a path that ends early, rows in another order than the published code's."""
    given = medusa_tree.PUBLISHED.get(name, ((0,), (1,), (1, 0), (0, 3), (1, 0, 2)))
    order = sorted(given, key=lambda choice: (len(choice), choice))
    nodes = [(), *order]
    found = medusa_tree.buffers(medusa_tree.check(reversed(given)))
    assert found.choices == order
    assert found.positions == [len(node) for node in nodes]
    assert found.mask.tolist() == [[row[: len(column)] == column for column in nodes] for row in nodes]
    leaves = [node for node in reversed(order) if not any(other[:-1] == node for other in order)]
    deepest = max(map(len, order))
    paths = [[nodes.index(leaf[:end]) for end in range(len(leaf) + 1)] for leaf in leaves]
    assert found.paths.tolist() == [path + [-1] * (deepest + 1 - len(path)) for path in paths]


def test_growth_finds_the_best_tree() -> None:
    """Against all trees of the size, by exhaustion. Catches: a neighbour that is offered too late or twice."""
    accuracy = [[0.5, 0.2, 0.15], [0.4, 0.3, 0.05], [0.35, 0.1]]
    paths = [
        path
        for depth in (1, 2, 3)
        for path in itertools.product(*(range(len(row)) for row in accuracy[:depth]))
    ]

    def worth(tree: tuple[tuple[int, ...], ...] | list[tuple[int, ...]]) -> float:
        return sum(float(torch.tensor([accuracy[i][r] for i, r in enumerate(path)]).prod()) for path in tree)

    for nodes in range(1, 6):
        trees = (
            tree for tree in itertools.combinations(paths, nodes)
            if all(len(path) == 1 or path[:-1] in tree for path in tree)
        )  # fmt: skip
        grown = medusa_tree.grow(accuracy, nodes)
        assert len(set(grown)) == nodes and worth(grown) == pytest.approx(max(map(worth, trees)))
    assert len(medusa_tree.grow(accuracy, 1000)) == len(paths), "ends when all are taken"


def _by_hand(models: sd.Models, state: Tensor) -> Tensor:
    """The heads' logits (heads, V) from their published weights, written out."""
    heads = models.heads["medusa"]
    weights, rows = heads.state_dict(), []
    for head in range(len(heads)):
        hidden = state
        for block in range(heads.blocks):
            at = f"{head}.{block}.linear"
            inner = weights[f"{at}.weight"] @ hidden + weights[f"{at}.bias"]
            hidden = hidden + inner * torch.sigmoid(inner)
        last = (
            module(models).get_output_embeddings().weight
            if heads.shared
            else weights[f"{head}.{heads.blocks}.weight"]
        )
        rows.append(last @ hidden)
    return torch.stack(rows)


@pytest.mark.parametrize(("temperature", "shared"), [(0.0, False), (0.0, True), (1.0, False)])
def test_every_tree_holds_what_the_heads_say_after_the_state_before_the_root(
    temperature: float, shared: bool
) -> None:
    """Every round of three runs, the state taken from a fresh transformers pass. Catches: the state of another row
    (the root's own, a rejected node's), a head off by one level, a rank off by one."""
    models = headed("llama", shared=shared)
    settings = SETTINGS.but(
        temperature=temperature, options={"choices": [[0], [1], [0, 0], [0, 1], [1, 2], [0, 0, 0]]}
    )
    nodes = [(0,), (1,), (0, 0), (0, 1), (1, 2), (0, 0, 0)]
    accepted = 0
    for prompt in PROMPTS:
        trace = sd.decode(models, prompt, settings)
        assert trace.audit() == []
        for text, row in zip(texts(trace), trace.rounds, strict=True):
            room = 30 - (len(text) - len(prompt)) - 1
            sent = [node for node in nodes if len(node) <= room]
            if len(text) == 1:
                assert row.nodes.token == [], "before the first pass there is no state"
                continue
            if not sent:
                continue
            ranked = _by_hand(models, true_states(models, text)[-2]).sort(descending=True).indices
            assert row.nodes.token == [int(ranked[len(node) - 1, node[-1]]) for node in sent]
            assert row.nodes.parent == [sent.index(node[:-1]) if len(node) > 1 else -1 for node in sent]
            accepted += row.nodes.verdict.count("accepted")
    assert accepted > 10, "the accepted path was never put to the test"


GREEDY = ["gpt2", "opt", "llama", "qwen3", "gpt-neox", "phi"]


@pytest.mark.parametrize("options", [{}, {"tree": "mc_sim_7b_63", "nodes": 63}, {"tree": "chain"}])
@pytest.mark.parametrize("architecture", GREEDY)
def test_greedy_text_equals_generate(architecture: str, options: dict[str, str]) -> None:
    """With heads that are right now and then; two prompts in turn, so that every tree meets all four. Catches: KV rows
    of the wrong branch kept, a state of another lane."""
    models = headed(architecture)
    for prompt in PROMPTS[GREEDY.index(architecture) % 2 :: 2]:
        trace = sd.decode(models, prompt, SETTINGS.but(options=options))
        assert trace.token_ids == generate(module(models), prompt, 30)
        assert trace.audit() == []


def test_sampled_texts_follow_the_targets_distribution() -> None:
    """A Llama of six tokens against its exact distribution; the tree is chosen by the heads, never by a coin. Catches:
    a tree cut or sorted by what was drawn. 90 texts of four tokens, and more in test_distribution_matrix; false alarm
    1e-4."""
    models = headed("llama", 6)
    assert isinstance(models.target, HubModel)
    options = {"tree": "mc_sim_7b_63", "nodes": 12}
    settings = sd.Settings(
        proposer="medusa", options=options, temperature=1.5, max_new_tokens=4, record="off"
    )
    expected = exact_distribution(model_next_probs(models.target), [1, 2, 3], 4, Warp(1.5))
    assert chances(samples(models, [1, 2, 3], {(): settings}, 90), expected)["all"] > 1e-4


class Few(draft_length.FixedLength):
    """Sends the four nodes of the largest value."""

    name = "test-few"

    def nodes(self, context: object, values: object, levels: int | None = None) -> int:
        assert list(values) == sorted(values, reverse=True)  # type: ignore[call-overload, type-var]
        return 4


def test_a_policy_cuts_the_least_promising_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent are the four paths of the largest product of probabilities; the others are recorded as pruned.
    Catches: a cut by place in the list, a pruned node below a parent that it does not have."""
    monkeypatch.setitem(draft_length.LENGTH_POLICIES, Few.name, Few)
    models = headed("llama")
    settings = SETTINGS.but(length_policy=Few.name, options={"tree": "mc_sim_7b_63", "nodes": 20})
    trace = sd.decode(models, PROMPTS[0], settings)
    assert trace.token_ids == generate(module(models), PROMPTS[0], 30) and trace.audit() == []
    choices = medusa_tree.PUBLISHED["mc_sim_7b_63"][:20]
    text, row = texts(trace)[3], trace.rounds[3]
    chances, ranked = _by_hand(models, true_states(models, text)[-2]).softmax(-1).sort(descending=True)
    worth = {
        choice: float(torch.stack([chances[i, r] for i, r in enumerate(choice)]).prod()) for choice in choices
    }
    best = sorted(choices, key=lambda choice: -worth[choice])
    path = {-1: ()}
    for node, (token, parent) in enumerate(zip(row.nodes.token, row.nodes.parent, strict=True)):
        rank = ranked[len(path[parent])].tolist().index(token)
        path[node] = (*path[parent], rank)
    assert {path[node] for node in range(4)} == set(best[:4])
    assert {path[node] for node in range(4, 20)} == set(best[4:])
    assert [verdict == "pruned" for verdict in row.nodes.verdict] == [False] * 4 + [True] * 16
    assert row.nodes.model_q is not None
    assert row.nodes.model_q[5] == pytest.approx(float(chances[len(path[5]) - 1, path[5][-1]]), abs=1e-5)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ([[0], [1, 0]], r"hold \[1, 0\] without \[1\]"),
        ([[0], [0]], "twice"),
        ([[-1]], "negative"),
        ([[]], "no empty one"),
        ([[rank] for rank in range(300)], "at most 256"),
    ],
)
def test_a_list_of_choices_that_is_no_tree_is_refused(choices: list[list[int]], words: str) -> None:
    """Before any model is read. Catches: a traceback from deep inside."""
    with pytest.raises(sd.SettingsError, match=words):
        sd.decode(headed("llama"), [1, 2], SETTINGS.but(options={"choices": choices}))


def test_without_heads_the_proposer_is_refused() -> None:
    """A sentence that says what to load."""
    with pytest.raises(sd.SettingsError, match="needs trained medusa heads"):
        sd.decode(replace(headed("llama"), heads={}), [1, 2], SETTINGS)


def test_measured_accuracies_shape_the_tree() -> None:
    """A second head that is never right gets no node. Catches: measurements that are read and not used."""
    heads = medusa_heads(12, heads=2)
    heads.accuracy = [[0.5, 0.2, 0.1], [1e-6, 1e-7, 1e-8]]
    trace = sd.decode(
        replace(headed("llama"), heads={"medusa": heads}), [1, 2, 3], SETTINGS.but(options={"nodes": 3})
    )
    assert trace.rounds[0].nodes.parent == [-1, -1, -1]


# Files


def _folder(path: Path, file: str = "medusa_lm_head.safetensors", prefix: str = "", **config: object) -> Path:
    """Published heads (two, one block) as others save them."""
    path.mkdir()
    tensors = medusa_heads(SIZE, heads=2).state_dict()
    save_file({prefix + name: tensor for name, tensor in tensors.items()}, path / file)
    known = {"medusa_num_heads": 2, "medusa_num_layers": 1, "base_model_name_or_path": "someone/target"}
    (path / "config.json").write_text(json.dumps(known | config))
    return path


SIZE = len(tokenizer())


@pytest.mark.parametrize("file", ["medusa_lm_head.safetensors", "model.safetensors"])
@pytest.mark.parametrize("prefix", ["", "medusa_head."])
def test_every_published_spelling_is_read(file: str, prefix: str, tmp_path: Path) -> None:
    """Names and shapes as in published files. Catches: a prefix or file name that is not known."""
    found = layout.read(str(_folder(tmp_path / "heads", file, prefix)), Target(WIDTH, SIZE, WIDTH))
    wanted = medusa_heads(SIZE, heads=2).state_dict()
    assert set(wanted) == {
        f"{i}.{part}" for i in (0, 1) for part in ("0.linear.weight", "0.linear.bias", "1.weight")
    }
    assert all(torch.equal(found.state_dict()[name], tensor) for name, tensor in wanted.items())
    assert not found.shared and found.accuracy is None


@pytest.mark.parametrize("shared", [False, True])
def test_what_is_written_is_read_again(shared: bool, tmp_path: Path) -> None:
    """Weights as stored in 16 bits, measured accuracies, two blocks. Catches: a config key that is only written."""
    heads = medusa_heads(SIZE, heads=3, blocks=2, shared=shared)
    heads.accuracy = [[0.5, 0.1], [0.4, 0.1], [0.3, 0.1]]
    layout.write(tmp_path / "heads", heads, "tiny", {"specdec_note": 1})
    found = layout.read(str(tmp_path / "heads"), Target(WIDTH, SIZE, WIDTH))
    assert (found.shared, found.blocks, found.accuracy) == (shared, 2, heads.accuracy)
    assert all(
        torch.equal(found.state_dict()[name], w.half().float()) for name, w in heads.state_dict().items()
    )


def _refusal(folder: Path, width: int = WIDTH, vocabulary: int = SIZE) -> str:
    with pytest.raises(sd.ModelError) as caught:
        layout.read(str(folder), Target(width, vocabulary, width))
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence and str(folder.parent) not in sentence
    return sentence


def test_heads_that_cannot_be_read_are_refused_with_a_sentence(tmp_path: Path) -> None:
    """Each with what to do. Catches: a traceback, a machine's path in a message, a pickle that is opened."""
    assert "256 × 256" in _refusal(_folder(tmp_path / "wide"), width=256)
    assert "400 × 32" in _refusal(_folder(tmp_path / "words"), vocabulary=400)
    assert "'2.0.linear.weight' is missing" in _refusal(_folder(tmp_path / "few", medusa_num_heads=3))
    assert "medusa_num_heads should be" in _refusal(_folder(tmp_path / "odd", medusa_num_heads="two"))
    broken = _folder(tmp_path / "broken")
    (broken / "medusa_lm_head.safetensors").write_bytes(b"\x09" * 50)
    assert "not a whole safetensors file" in _refusal(broken)
    (broken / "config.json").write_text("{")
    assert "not JSON" in _refusal(broken)
    pickled = _folder(tmp_path / "pickled")
    (pickled / "medusa_lm_head.safetensors").rename(pickled / "medusa_lm_head.pt")
    assert "weights_only=True" in _refusal(pickled) and "pickled" in _refusal(pickled)
    assert "no config.json" in _refusal(tmp_path)
    none = _folder(tmp_path / "none")
    (none / "config.json").write_text("{}")
    assert "has no 'medusa_num_heads'" in _refusal(none)
    assert "There is no folder" in _refusal(tmp_path / "nowhere")


def test_load_models_takes_heads_and_finds_the_bundled_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From files to a decode, by name and beside the bundled family. Catches: heads that stay on the disk, and
    measurements of another family's heads used unasked."""
    for name in ("specdec-target", "specdec-draft"):
        build("llama", vocab_size=SIZE).save_pretrained(tmp_path / name)
        tokenizer().save_pretrained(tmp_path / name)
    plain = sd.load_models(tmp_path / "specdec-target", device="cpu")
    assert dict(plain.heads) == {}
    assert "medusa=" in (available(plain)["medusa"] or "")
    heads = _folder(tmp_path / "specdec-medusa")
    given = sd.load_models(tmp_path / "specdec-target", medusa=heads, device="cpu")
    monkeypatch.setenv("SPECDEC_BUNDLED", str(tmp_path))
    for models in (given, sd.load_models(device="cpu")):
        trace = sd.decode(models, "the cat sat", SETTINGS)
        assert trace.token_ids == sd.decode(plain, "the cat sat", SETTINGS.but(proposer="none")).token_ids
        assert trace.rounds[0].nodes.token and available(models)["medusa"] is None


def test_a_tree_is_worth_the_chances_of_its_nodes() -> None:
    """1 + Σ Π by hand for four nodes, and the sum of a chain. Catches: a level that takes another head's accuracies."""
    table = [[0.5, 0.2], [0.4, 0.1]]
    assert medusa_tree.tokens_per_pass([(0,), (1,), (0, 0), (1, 1)], table) == pytest.approx(
        1 + 0.5 + 0.2 + 0.5 * 0.4 + 0.2 * 0.1
    )
    assert medusa_tree.tokens_per_pass([], table) == 1.0
    best = max(
        medusa_tree.tokens_per_pass(tree, table)
        for tree in itertools.combinations([(0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1)], 3)
        if all(len(node) == 1 or node[:-1] in tree for node in tree)
    )
    assert medusa_tree.tokens_per_pass(medusa_tree.grow(table, 3), table) == pytest.approx(best)
    with pytest.raises(sd.SettingsError, match="no accuracy"):
        medusa_tree.tokens_per_pass([(0,), (0, 2)], table)


@pytest.mark.parametrize(
    "text",
    [
        "[[0], [0, 0], [1]]",
        "tree = [(0,), (0, 0), (1,)]",
        " [ [0],[0,0] ,(1,),]\n",
        "[(0,),\n (0, 0),\n [1]]",
    ],
)
def test_a_published_list_is_read(text: str) -> None:
    assert medusa_tree.read(text, 3, 2, 2) == [(0,), (0, 0), (1,)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "list of lists"),
        ("[", "list of lists"),
        ("__import__('os').getcwd()", "list of lists"),
        ("[[0], [0 0]]", "number 2"),
        ("[[0]][[1]]", "number 1"),
        ("[[0], [-1]]", "number 2"),
        ("[[0], [[1]]]", "number 2"),
        ("[[0], print(1)]", "number 2"),
        ("[[0], [1000]]", "number 2"),
        ("[[0, 0]]", "without"),
        ("[[0], [0]]", "twice"),
        ("[[0], [1], [2]]", "ranks 0 to 1"),
        ("[[0], [0, 0], [0, 0, 0]]", "2 levels"),
        ("[[0], [1], [0, 0], [0, 1]]", "budget"),
        ("[" + "[0]," * 3_000 + "]", "characters"),
    ],
)
def test_any_other_text_gets_a_sentence(text: str, said: str) -> None:
    with pytest.raises(sd.SettingsError, match=said):
        medusa_tree.read(text, 3, 2, 2)


def test_accuracies_are_read_without_the_weights(tmp_path: Path) -> None:
    """From config.json alone; None for a folder without, and for a table that does not fit its heads."""
    assert layout.read_accuracy(tmp_path) is None
    config = {"medusa_num_heads": 2, layout.ACCURACY: [[0.5, 0.1], [0.25, 0.1]]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert layout.read_accuracy(tmp_path) == [[0.5, 0.1], [0.25, 0.1]]
    (tmp_path / "config.json").write_text(json.dumps(config | {"medusa_num_heads": 3}))
    assert layout.read_accuracy(tmp_path) is None
