"""EAGLE: every drafted tree against an unoptimised computation without a memory, the target's text and distribution,
files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from math import exp
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import specdec_core as sd
from specdec_core import lengths as draft_length
from specdec_core.models.bundle import HubModel
from specdec_core.models.heads import EagleHead, Target
from specdec_core.models.heads import eagle as layout
from specdec_core.sampling import Warp

from .distributions import chances, exact_distribution, model_next_probs, samples
from .tiny import build, generate, module, tokenizer
from .tiny_heads import WIDTH, eagle_head, headed, texts, true_states

SETTINGS = sd.Settings(proposer="eagle", max_new_tokens=25)
PROMPTS = [[5, 9, 3, 2, 7], [1], [4, 1, 4, 1, 4, 1, 4]]
HEADS, SHARED, HEAD_WIDTH, BASE = 4, 2, 8, 500.0  # of tiny_heads.eagle_head


def _norm(rows: Tensor, weight: Tensor) -> Tensor:
    return weight * rows * (rows.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


def _turned(rows: Tensor) -> Tensor:
    """Rotary positions 0 … n − 1 on rows (heads, n, HEAD_WIDTH), as complex numbers of the two halves."""
    half = HEAD_WIDTH // 2
    angles = torch.outer(torch.arange(rows.shape[1]), BASE ** (-torch.arange(half) / half))
    turned = torch.complex(rows[..., :half], rows[..., half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((turned.real, turned.imag), -1)


def forward(head: EagleHead, embedding: Tensor, tokens: list[int], states: Tensor) -> Tensor:
    """The published head, written out: tokens one place after `states` (n, d) → guessed states (n, d)."""
    w = head.state_dict()
    rows = torch.cat((embedding[tokens], states), -1) @ w["fc.weight"].T
    if "fc.bias" in w:
        rows = rows + w["fc.bias"]
    return layer(w, "layers.0.", rows, rows)


def layer(w: Mapping[str, Tensor], at: str, rows: Tensor, onto: Tensor) -> Tensor:
    """A causal Llama layer, written out: its attention reads `rows` (n, …) and adds its result to `onto` (n, d)."""
    n = len(rows)

    def project(name: str, heads: int) -> Tensor:
        return (rows @ w[f"{at}self_attn.{name}.weight"].T).view(n, heads, HEAD_WIDTH).transpose(0, 1)

    q, k = _turned(project("q_proj", HEADS)), _turned(project("k_proj", SHARED))
    k, v = (part.repeat_interleave(HEADS // SHARED, 0) for part in (k, project("v_proj", SHARED)))
    scores = q @ k.transpose(1, 2) / HEAD_WIDTH**0.5
    scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf)
    mixed = (scores.softmax(-1) @ v).transpose(0, 1).reshape(n, -1)
    onto = onto + mixed @ w[f"{at}self_attn.o_proj.weight"].T
    normed = _norm(onto, w[f"{at}post_attention_layernorm.weight"])
    gate = normed @ w[f"{at}mlp.gate_proj.weight"].T
    up = normed @ w[f"{at}mlp.up_proj.weight"].T
    return onto + (gate * gate.sigmoid() * up) @ w[f"{at}mlp.down_proj.weight"].T


class Slow:
    """What the head says after `text`, each path alone from its beginning."""

    temperature = 1.0  # of the probabilities that choose the tree

    @staticmethod
    def deepest(models: sd.Models, text: list[int], depth: int) -> int:
        """How many levels can be guessed after a text so short."""
        return depth

    def __init__(self, models: sd.Models, text: list[int]) -> None:
        model = module(models)
        self.head: EagleHead = models.heads["eagle"]
        own = self.head.state_dict().get("embed_tokens.weight")
        self.embedding = model.get_input_embeddings().weight if own is None else own
        self.output = model.get_output_embeddings().weight
        self.text, self.states = text, true_states(models, text)[:-1]

    @cache  # noqa: B019
    def guessed(self, path: tuple[int, ...]) -> Tensor:
        """The state at the end of text + path (d,), guessed."""
        states = [*self.states, *(self.guessed(path[:end]) for end in range(len(path)))]
        return forward(self.head, self.embedding, [*self.text[1:], *path], torch.stack(states))[-1]

    def children(self, path: tuple[int, ...], count: int) -> list[tuple[tuple[int, ...], float]]:
        """The most likely continuations and the log of their probability."""
        chances = (self.logits(path) / self.temperature).log_softmax(-1).topk(count)
        tokens = chances.indices if self.head.vocabulary is None else self.head.vocabulary[chances.indices]
        return [((*path, t), s) for t, s in zip(tokens.tolist(), chances.values.tolist(), strict=True)]

    def logits(self, path: tuple[int, ...]) -> Tensor:
        """Of the tokens the head may guess after text + path, (k,)."""
        return self.output @ self.guessed(path)

    def tree(
        self, depth: int, top_k: int, nodes: int, threshold: float = 0.0
    ) -> tuple[list[tuple[int, ...]], dict[tuple[int, ...], float]]:
        """EAGLE-2: the best `nodes` of all candidates in the order in which they came up, and all scores; no level
        below one whose paths to follow have probabilities that sum to less than `threshold`."""
        scores: dict[tuple[int, ...], float] = {(): 0.0}
        front: list[tuple[int, ...]] = [()]
        for _ in range(depth):
            found = [(path, scores[path[:-1]] + s) for top in front for path, s in self.children(top, top_k)]
            scores.update(found)
            front = [path for path, _ in sorted(found, key=lambda pair: -pair[1])[:top_k]]
            if sum(exp(scores[path]) for path in front) < threshold:
                break
        del scores[()]
        best = set(sorted(scores, key=lambda path: -scores[path])[:nodes])
        return [path for path in scores if path in best], scores


@pytest.mark.parametrize(
    ("architecture", "temperature", "shape"),
    [
        ("llama", 0.0, (4, 5, 30)),
        ("gpt2", 0.0, (3, 4, 12)),
        ("llama", 1.0, (5, 3, 15)),
        ("llama", 0.0, (1, 6, 6)),
    ],
)
def test_every_tree_equals_the_slow_computation(
    architecture: str, temperature: float, shape: tuple[int, int, int]
) -> None:
    """Each round's tokens, parents and probabilities, by full passes over the whole text and one path at a time, with
    the layer written out in this file. Catches: token and state paired one place off, guessed states left in the
    memory after the verdict, a sibling in sight, wrong positions, a ranking by level instead of over all."""
    drafted, accepted = compared(headed(architecture), SETTINGS.but(temperature=temperature), shape, Slow)
    assert drafted > 20 and accepted >= 8, "the accepted path was never put to the test"


class Sure(Slow):
    """The same, its tree chosen at temperature 0.5."""

    temperature = 0.5


@pytest.mark.parametrize(
    ("named", "measured", "temperature", "slow"),
    [
        (0.5, 1.0, 0.0, Sure),
        (0.5, 1.0, 1.0, Sure),
        (None, 0.5, 0.0, Sure),
        (None, 0.5, 1.0, Slow),
        (1.0, 0.5, 0.0, Slow),
    ],
)
def test_a_tree_is_chosen_at_its_temperature(
    named: float | None, measured: float, temperature: float, slow: type[Slow]
) -> None:
    """As the option says, else for greedy text as measured for the head, else at 1. Catches: a power of q that is not
    normalised, which chooses as q does, the head's own q recorded at that temperature, and what was measured for
    greedy text taken for sampled text."""
    models = headed("llama")
    head = models.heads["eagle"]
    head.tree_temperature = measured
    options: dict[str, float] = {"depth": 4, "top_k": 5, "nodes": 12}
    settings = SETTINGS.but(temperature=temperature, options=options)
    asked = settings if named is None else settings.but(options={**options, "tree_temperature": named})
    drafted, accepted = compared(models, asked, (4, 5, 12), slow)
    assert drafted > 20 and accepted >= 8
    found = sd.decode(models, PROMPTS[0], asked).rounds
    chosen = {row.note.get("tree_temperature") for row in found if row.nodes.token}
    assert chosen == {None if slow is Slow else 0.5}
    head.tree_temperature = 1.0
    usual = sd.decode(models, PROMPTS[0], settings).rounds
    same = [row.nodes.token for row in found] == [row.nodes.token for row in usual]
    assert same == (slow is Slow)


def test_trees_end_where_the_head_is_unsure() -> None:
    """Dynamic Depth Decoding: the same, with a threshold for the levels. Catches: one level too many or too few, a sum
    over all candidates instead of those that would be read, passes that are counted and were not made."""
    settings = SETTINGS.but(length_policy="confidence", length_options={"threshold": 0.3})
    models = headed("llama")
    drafted, accepted = compared(models, settings, (5, 3, 30), Slow)
    assert drafted > 20 and accepted >= 5
    trace = sd.decode(models, PROMPTS[0], settings.but(options={"depth": 5, "top_k": 3}))
    levels = [row.note["levels"] for row in trace.rounds if "levels" in row.note]
    assert levels == [row.draft_passes for row in trace.rounds if "levels" in row.note]
    assert len(set(levels)) > 1, "the threshold decided nothing"


def compared(
    models: sd.Models, settings: sd.Settings, shape: tuple[int, int, int], slow: type[Slow]
) -> tuple[int, int]:
    """Hold every tree of a few decodes against the slow computation; rounds with a tree, and accepted nodes."""
    depth, top_k, nodes = shape
    options = {"depth": depth, "top_k": top_k, "nodes": nodes}
    settings = settings.but(options={**settings.options, **options})
    accepted, drafted = 0, 0
    for prompt in PROMPTS:
        trace = sd.decode(models, prompt, settings)
        assert trace.audit() == []
        for text, row in zip(texts(trace), trace.rounds, strict=True):
            limit = min(slow.deepest(models, text, depth), 25 - (len(text) - len(prompt)) - 1)
            sent = [node for node, verdict in enumerate(row.nodes.verdict) if verdict != "pruned"]
            if len(text) == 1 or limit < 1:
                assert sent == []
                continue
            wanted, scores = slow(models, text).tree(
                limit, top_k, nodes, settings.length_options.get("threshold", 0.0)
            )
            paths: list[tuple[int, ...]] = []
            for token, parent in zip(row.nodes.token, row.nodes.parent, strict=True):
                paths.append((*(paths[parent] if parent >= 0 else ()), token))
            assert [paths[node] for node in sent] == wanted
            assert not set(paths[len(sent) :]) & set(wanted) and len(set(paths)) == len(paths)
            assert set(paths) <= set(scores)
            assert row.nodes.model_q is not None
            assert (row.nodes.tree_q is None) == (slow.temperature == 1.0)
            for path, chance in zip(paths, row.nodes.tree_q or row.nodes.model_q, strict=True):
                own = scores[path] - scores.get(path[:-1], 0.0)
                assert chance == pytest.approx(float(torch.tensor(own).exp()), abs=1e-4)
            if slow.temperature != 1.0:
                head = slow(models, text)
                assert head.head.vocabulary is None
                for path, chance in zip(paths, row.nodes.model_q, strict=True):
                    own_q = head.logits(path[:-1]).detach().softmax(-1)
                    assert chance == pytest.approx(float(own_q[path[-1]]), abs=1e-4)
            accepted += row.nodes.verdict.count("accepted")
            drafted += 1
    return drafted, accepted


@pytest.mark.parametrize("embedding", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_the_layer_equals_the_published_one(bias: bool, embedding: bool) -> None:
    """All rows of a text at once against the layer written out. Catches: a norm before the attention, the two inputs
    joined the other way round, the target's embedding where the head has its own."""
    head, target = eagle_head(12, bias, embedding), build("llama", vocab_size=12)
    tokens, states = (
        [3, 1, 4, 1, 5, 9, 2, 6],
        torch.randn(8, WIDTH, generator=torch.Generator().manual_seed(3)),
    )
    with torch.inference_mode():
        found = head(
            torch.tensor([tokens]), states[None], torch.arange(8)[None], None, target.get_input_embeddings()
        )[0]
        rows = head.embed_tokens.weight if embedding else target.get_input_embeddings().weight
        torch.testing.assert_close(found, forward(head, rows, tokens, states), atol=1e-4, rtol=1e-4)


GREEDY = ["gpt2", "opt", "llama", "qwen3", "gpt-neox", "phi"]


@pytest.mark.parametrize("options", [{}, {"depth": 6, "top_k": 10, "nodes": 59}])
@pytest.mark.parametrize("architecture", GREEDY)
def test_greedy_text_equals_generate(architecture: str, options: dict[str, int]) -> None:
    """Two prompts in turn, so that every tree meets all four. Catches: KV rows of the wrong branch kept in the
    target."""
    models = headed(architecture)
    for prompt in PROMPTS[GREEDY.index(architecture) % 2 :: 2]:
        trace = sd.decode(models, prompt, SETTINGS.but(options=options))
        assert trace.token_ids == generate(module(models), prompt, 25)
        assert trace.audit() == []


def test_a_long_prompt_is_read_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same trees whatever the chunk. Catches: a chunk's rows that do not see those before it, one row lost between
    two chunks."""
    models, prompt = headed("llama"), [(7 * place) % 12 for place in range(50)]
    whole = sd.decode(models, prompt, SETTINGS)
    monkeypatch.setattr("specdec_core.proposers.heads.state_tree.PREFILL_CHUNK", 7)
    parts = sd.decode(models, prompt, SETTINGS)
    assert [row.nodes.token for row in whole.rounds] == [row.nodes.token for row in parts.rounds]


def test_sampled_texts_follow_the_targets_distribution() -> None:
    """A Llama of six tokens against its exact distribution. Catches: a ranking that depends on a coin. 65 texts of
    four tokens, and more in test_distribution_matrix; false alarm 1e-4."""
    models = headed("llama", 6)
    assert isinstance(models.target, HubModel)
    options = {"depth": 2, "top_k": 3, "nodes": 6}
    settings = sd.Settings(proposer="eagle", options=options, temperature=1.5, max_new_tokens=4, record="off")
    expected = exact_distribution(model_next_probs(models.target), [1, 2, 3], 4, Warp(1.5))
    assert chances(samples(models, [1, 2, 3], {(): settings}, 65), expected)["all"] > 1e-4


class Pauses(draft_length.FixedLength):
    """Sends nothing in two rounds of three."""

    name = "test-pauses"

    def nodes(self, context: object, values: object, levels: int | None = None) -> int:
        return 3 if context.round % 3 == 0 else 0  # type: ignore[attr-defined]


def test_a_policy_may_send_nothing_and_the_head_stays_in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds without a proposal still bring a state. Catches: a memory that loses count when nothing was sent."""
    monkeypatch.setitem(draft_length.LENGTH_POLICIES, Pauses.name, Pauses)
    models = headed("llama")
    options = {"depth": 2, "top_k": 3, "nodes": 6}
    trace = sd.decode(models, PROMPTS[0], SETTINGS.but(length_policy=Pauses.name, options=options))
    assert trace.token_ids == generate(module(models), PROMPTS[0], 25) and trace.audit() == []
    sent = [
        [
            token
            for token, verdict in zip(row.nodes.token, row.nodes.verdict, strict=True)
            if verdict != "pruned"
        ]
        for row in trace.rounds
    ]
    assert [len(tokens) for tokens in sent[:7]] == [3, 0, 0, 3, 0, 0, 3]
    wanted, _ = Slow(models, texts(trace)[6]).tree(2, 3, 3)
    assert sent[6] == [path[-1] for path in wanted]


# Files

SIZE = len(tokenizer())
KEYS = {
    "fc.weight",
    *(f"layers.0.self_attn.{part}_proj.weight" for part in "qkvo"),
    *(f"layers.0.mlp.{part}_proj.weight" for part in ("gate", "up", "down")),
    "layers.0.post_attention_layernorm.weight",
}


def _folder(path: Path, bias: bool = True, embedding: bool = True) -> Path:
    layout.write(path, eagle_head(SIZE, bias, embedding), "tiny", {}, torch.float32)
    return path


@pytest.mark.parametrize("embedding", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_what_is_written_is_the_published_layout_and_read_again(
    bias: bool, embedding: bool, tmp_path: Path
) -> None:
    """Catches: a renamed weight, a rotary base or head size that is lost on the way."""
    folder = _folder(tmp_path / "head", bias, embedding)
    assert "specdec_tree_temperature" not in json.loads((folder / "config.json").read_text())
    head = eagle_head(SIZE, bias, embedding)
    head.tree_temperature = 0.75
    layout.write(tmp_path / "measured", head, "tiny", {}, torch.float32)
    assert layout.read(str(tmp_path / "measured"), Target(WIDTH, SIZE, WIDTH)).tree_temperature == 0.75
    extra = ({"fc.bias"} if bias else set()) | ({"embed_tokens.weight"} if embedding else set())
    assert set(load_file(folder / "model.safetensors")) == KEYS | extra
    assert json.loads((folder / "config.json").read_text())["bias"] is bias
    models = headed("llama", SIZE)
    decoded = [
        sd.decode(replace(models, heads={"eagle": head}), PROMPTS[0], SETTINGS).rounds
        for head in (eagle_head(SIZE, bias, embedding), layout.read(str(folder), Target(WIDTH, SIZE, WIDTH)))
    ]
    assert [row.nodes.token for row in decoded[0]] == [row.nodes.token for row in decoded[1]]


def _refusal(folder: Path, width: int = WIDTH, vocabulary: int = SIZE, embedding_width: int = WIDTH) -> str:
    with pytest.raises(sd.ModelError) as caught:
        layout.read(str(folder), Target(width, vocabulary, embedding_width))
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence and str(folder.parent) not in sentence
    return sentence


def _edit(folder: Path, **changes: object) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return folder


def test_heads_that_cannot_be_read_are_refused_with_a_sentence(tmp_path: Path) -> None:
    """Each with what to do. Catches: a traceback, an EAGLE-3 head half read, a head of another target."""
    assert "279 × 64" in _refusal(_folder(tmp_path / "wide"), width=64)
    assert "400 × 32" in _refusal(_folder(tmp_path / "words"), vocabulary=400)
    assert "16 wide" in _refusal(_folder(tmp_path / "narrow", embedding=False), embedding_width=16)
    assert "has 2 layers" in _refusal(_edit(_folder(tmp_path / "deep"), num_hidden_layers=2))
    assert "hidden_size should be" in _refusal(_edit(_folder(tmp_path / "odd"), hidden_size="x"))
    assert "damaged configuration" in _refusal(_edit(_folder(tmp_path / "act"), hidden_act="nothing"))
    assert "does not fit" in _refusal(_edit(_folder(tmp_path / "heads"), head_dim=16))
    for at, value in enumerate((0, "0.5", True, 11, None)):
        sentence = _refusal(_edit(_folder(tmp_path / f"sure{at}"), specdec_tree_temperature=value))
        assert "from 0.1 to 10" in sentence
    third = _folder(tmp_path / "third")
    tensors = load_file(third / "model.safetensors")
    save_file(tensors | {"midlayer.hidden_norm.weight": torch.zeros(4)}, third / "model.safetensors")
    assert "EAGLE-3" in _refusal(third)
    del tensors["layers.0.mlp.up_proj.weight"]
    save_file(tensors, third / "model.safetensors")
    assert "up_proj.weight' is missing" in _refusal(third)
    (third / "model.safetensors").rename(third / "pytorch_model.bin")
    assert "pickled" in _refusal(third)


def test_load_models_takes_an_eagle_head(tmp_path: Path) -> None:
    """From files to a decode. Catches: a head in another dtype than its target."""
    build("llama", vocab_size=SIZE).save_pretrained(tmp_path / "target")
    tokenizer().save_pretrained(tmp_path / "target")
    head = _folder(tmp_path / "eagle", embedding=False)
    for dtype in ("float32", "bfloat16"):
        models = sd.load_models(tmp_path / "target", eagle=head, device="cpu", dtype=dtype)
        plain = sd.decode(models, "the cat sat", SETTINGS.but(proposer="none"))
        trace = sd.decode(models, "the cat sat", SETTINGS)
        assert trace.rounds[0].nodes.token and trace.audit() == []
        if dtype == "float32":  # in 16 bits the width of a pass may turn a tie
            assert trace.token_ids == plain.token_ids
