"""Block heads: every chain and tree against an unoptimised computation without a memory, exactness by enumeration, what
the memory has, refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import specdec_core as sd
from specdec_core.models.bundle import HubModel
from specdec_core.models.heads import Target
from specdec_core.models.heads.block import INNER, BlockHead, BlockShape, checkpoint
from specdec_core.rules import RULES
from specdec_core.sampling import Warp
from specdec_core.sampling import draw as drawn
from specdec_measure.exact.distribution import distance

from .distributions import model_next_probs
from .test_eagle import BASE, HEAD_WIDTH, HEADS, PROMPTS, SHARED, _norm
from .tiny import module
from .tiny_heads import LAYERS_READ, WIDTH, block_head, headed, texts

SETTINGS = sd.Settings(proposer="block", draft_length=4, max_new_tokens=20)
IDS = torch.tensor([0, 2, 3, 5, 8, 9, 11])  # a draft vocabulary of twelve tokens
INNERS = ("", *INNER)


class Slow:
    """What a head says after `text`: its layers written out over all rows at once, no memory."""

    def __init__(self, models: sd.Models, text: list[int]) -> None:
        model = module(models)
        self.head: BlockHead = models.heads["block"]
        self.w, self.text = self.head.state_dict(), text  # without the target's gradients
        self.embedding = model.get_input_embeddings().weight.detach()
        self.output = model.get_output_embeddings().weight.detach()
        if self.head.vocabulary is not None:
            self.output = self.output[self.head.vocabulary]
        with torch.no_grad():
            inner = model(torch.tensor([text]), output_hidden_states=True).hidden_states
        self.states = torch.cat([inner[at][0] for at in self.head.layers_read], -1)[:-1]
        self.slots = self._slots()

    def _slots(self) -> Tensor:
        block, w = self.head.block, self.w
        context = _norm(self.states @ w["fc.weight"].T, w["hidden_norm.weight"])
        rows = self.embedding[[self.text[-1], *[block.mask] * (block.size - 1)]]
        for at in range(len(self.head.layers)):
            rows = self._layer(f"layers.{at}.", context, rows)
        return _norm(rows, w["norm.weight"])[block.size - block.guesses :]

    def _layer(self, at: str, context: Tensor, rows: Tensor) -> Tensor:
        w, own = self.w, _norm(rows, self.w[f"{at}input_layernorm.weight"])
        read, count = torch.cat((context, own)), len(rows)

        def project(name: str, of: Tensor, heads: int) -> Tensor:
            found = (of @ w[f"{at}self_attn.{name}_proj.weight"].T).view(len(of), heads, HEAD_WIDTH)
            norm = w.get(f"{at}self_attn.{name}_norm.weight")
            return (found if norm is None else _norm(found, norm)).transpose(0, 1)

        q = _turned(project("q", own, HEADS), len(context))
        k, v = _turned(project("k", read, SHARED), 0), project("v", read, SHARED)
        k, v = (part.repeat_interleave(HEADS // SHARED, 0) for part in (k, v))
        scores = q @ k.transpose(1, 2) / HEAD_WIDTH**0.5
        if self.head.block.causal:
            later = torch.ones(count, count).triu(1).bool()
            scores[:, :, len(context) :] = scores[:, :, len(context) :].masked_fill(later, -torch.inf)
        mixed = (scores.softmax(-1) @ v).transpose(0, 1).reshape(count, -1)
        rows = rows + mixed @ w[f"{at}self_attn.o_proj.weight"].T
        normed = _norm(rows, w[f"{at}post_attention_layernorm.weight"])
        gate, up = (normed @ w[f"{at}mlp.{one}_proj.weight"].T for one in ("gate", "up"))
        return rows + (gate * gate.sigmoid() * up) @ w[f"{at}mlp.down_proj.weight"].T

    @cache  # noqa: B019
    def logits(self, path: tuple[int, ...]) -> Tensor:
        """Of the slot after the guesses `path`, (k,)."""
        slot, state = len(path), self.slots[len(path)]
        found = self.output @ state
        block, w, before = self.head.block, self.w, [self.text[-1], *path]
        if not block.inner:
            return found
        row, second = w["markov_head.markov_w1.weight"][before[slot]], w["markov_head.markov_w2.weight"]
        if block.inner == "gated":
            gate = (
                w["markov_head.gate_proj.weight"] @ torch.cat((state, row)) + w["markov_head.gate_proj.bias"]
            )
            row = gate.sigmoid() * row
        if block.inner == "rnn":
            memory = torch.zeros(block.rank)
            for at in range(slot + 1):
                known = torch.cat((memory, w["markov_head.markov_w1.weight"][before[at]], self.slots[at]))
                z = w["markov_head.joint_proj.weight"] @ known + w["markov_head.joint_proj.bias"]
                keep, new, row = (
                    z[: block.rank].sigmoid(),
                    z[block.rank : -block.rank].tanh(),
                    z[-block.rank :].tanh(),
                )
                memory = keep * memory + (1 - keep) * new
        return found + second @ row

    def q(self, path: tuple[int, ...], size: int) -> Tensor:
        """The distribution of the next guess over the whole vocabulary, float32 (size,)."""
        chances = self.logits(path).softmax(-1)
        if self.head.vocabulary is None:
            return chances
        return torch.zeros(size).index_copy(0, self.head.vocabulary, chances)


def _turned(rows: Tensor, first: int) -> Tensor:
    """Rotary positions from `first` on rows (heads, n, HEAD_WIDTH), as complex numbers of the two halves."""
    half = HEAD_WIDTH // 2
    angles = torch.outer(torch.arange(first, first + rows.shape[1]), BASE ** (-torch.arange(half) / half))
    turned = torch.complex(rows[..., :half], rows[..., half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((turned.real, turned.imag), -1)


def with_head(head: BlockHead, architecture: str = "llama", vocabulary: int = 12) -> sd.Models:
    """The tiny target with this head."""
    models = headed(architecture, vocabulary)
    return replace(models, heads={**models.heads, "block": head})


@pytest.mark.parametrize("inner", INNERS)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    "shape", [{}, {"from_anchor": False, "causal": True}, {"ids": IDS, "norms": True, "depth": 1}]
)
def test_every_chain_equals_the_slow_computation(
    inner: str, temperature: float, shape: dict[str, Any]
) -> None:
    """Each round's tokens and q by full passes over the whole text, with the layers and inner heads written out in this
    file. Catches: a block's rows left in the memory, context rows normed like the block's, wrong positions, a slot that
    is one off, a bias of another token, an inner head that forgets the block's beginning, guesses not mapped to the
    target's tokens."""
    models = with_head(block_head(12, inner=inner, **shape))
    settings = SETTINGS.but(temperature=temperature, seed=3)
    rounds = 0
    for prompt in PROMPTS:
        trace = sd.decode(models, prompt, settings)
        assert (
            temperature
            or trace.token_ids == sd.decode(models, prompt, settings.but(proposer="none")).token_ids
        )
        assert trace.audit() == []
        for text, row in zip(texts(trace), trace.rounds, strict=True):
            if not row.nodes.token:
                continue
            slow, path = Slow(models, text), ()
            for token, own, q in zip(row.nodes.token, row.nodes.model_q, row.nodes.q, strict=True):
                wanted = slow.q(path, 12)
                assert own == pytest.approx(float(wanted[token]), abs=2e-5)
                assert q == pytest.approx(float(wanted[token]) if temperature else 1.0, abs=2e-5)
                assert temperature or float(wanted[token]) > float(wanted.max()) - 1e-5
                path = (*path, token)
            rounds += 1
    assert rounds > 10


@pytest.mark.parametrize("inner", INNERS)
@pytest.mark.parametrize(("temperature", "ids"), [(0.0, None), (1.0, None), (0.0, IDS)])
def test_every_tree_is_the_best_of_its_slots(inner: str, temperature: float, ids: Tensor | None) -> None:
    """Against all paths of up to three guesses, ranked by their products. Catches: a heap that loses a sibling or a
    child, a product of another path, children by another parent's bias."""
    models = with_head(block_head(12, inner=inner, ids=ids, size=3))
    settings = SETTINGS.but(temperature=temperature, options={"nodes": 9, "top_k": 12 if ids is None else 7})
    compared = 0
    for text, row in _rounds(models, settings):
        slow = Slow(models, text)
        sent = [at for at, verdict in enumerate(row.nodes.verdict) if verdict != "cut"]
        paths: list[tuple[int, ...]] = []
        for at in sent:
            parent = row.nodes.parent[at]
            paths.append((*(() if parent < 0 else paths[parent]), row.nodes.token[at]))
        if len(paths) < 9:  # so near the end there is less room
            continue
        scores = {(): 1.0}
        tokens = list(range(12)) if ids is None else ids.tolist()
        for length in (1, 2, 3):
            for path in product(tokens, repeat=length):
                scores[path] = scores[path[:-1]] * float(slow.q(path[:-1], 12)[path[-1]])
        del scores[()]
        best = sorted(scores.values(), reverse=True)[:9]
        assert sorted((scores[path] for path in paths), reverse=True) == pytest.approx(best, rel=1e-3)
        assert len(set(paths)) == 9
        compared += 1
    assert compared > 10


def _rounds(models: sd.Models, settings: sd.Settings) -> list[tuple[list[int], Any]]:
    found = []
    for prompt in PROMPTS:
        trace = sd.decode(models, prompt, settings)
        assert trace.audit() == []
        if not settings.temperature:
            plain = sd.decode(models, prompt, settings.but(proposer="none", options={}))
            assert trace.token_ids == plain.token_ids
        found += [pair for pair in zip(texts(trace), trace.rounds, strict=True) if pair[1].nodes.token]
    return found


@pytest.mark.parametrize("inner", INNERS)
@pytest.mark.parametrize("ids", [None, torch.tensor([0, 2, 3])])
def test_chains_and_trees_keep_the_target_s_distribution_exactly(inner: str, ids: Tensor | None) -> None:
    """On a model of four tokens, with the head's and the model's own probabilities, enumerated under every lossless
    rule: the chain with the q that the proposer hands on, and the tree that it drew. Catches: a q that is not what the
    token was drawn from, a rule that takes these trees for drawn ones."""
    models = with_head(block_head(4, inner=inner, ids=ids, size=3), vocabulary=4)
    assert isinstance(models.target, HubModel)
    p, text = model_next_probs(models.target), [1, 2, 3]
    slow = Slow(models, text)

    def q(path: tuple[int, ...]) -> list[float]:
        if len(path) == 3:  # behind the chain, where nothing is drafted
            return [0.25] * 4
        chances = slow.q(path, 4).double()
        return (chances / chances.sum()).tolist()

    judged = [rule for rule in RULES.values() if rule.lossless and rule.name != "exact-match"]
    for rule in judged:
        if rule.unsuited("chain") is None:
            assert distance(rule(), [-1, 0, 1], lambda after: p((*text, *after)), q) <= 1e-12, rule.name
    settings = sd.Settings(
        proposer="block", temperature=1.0, max_new_tokens=8, options={"nodes": 5, "top_k": 2}
    )
    row = sd.decode(models, text, settings).rounds[0]
    paths: list[tuple[int, ...]] = [()]
    for parent, token in zip(row.nodes.parent, row.nodes.token, strict=True):
        paths.append((*paths[parent + 1], token))

    def ranked(path: tuple[int, ...]) -> list[float]:
        """Ranks the tokens as the tree has them, so that "fixed" draws this tree."""
        rank = [one[-1] for one in paths[1:] if one[:-1] == path]
        return [0.5 ** (1 + rank.index(one)) if one in rank else 0.01 for one in range(4)]

    tried = 0
    for rule in judged:
        if rule.unsuited("fixed tree") is None:
            off = distance(rule(), list(row.nodes.parent), lambda after: p((*text, *after)), ranked, "fixed")
            assert off <= 1e-12, rule.name
            tried += 1
    assert tried >= 2


@pytest.mark.parametrize("inner", INNERS)
def test_drawn_guesses_come_from_the_q_that_is_handed_on(inner: str) -> None:
    """Catches: guesses drawn from another distribution, or by other numbers, than the rule is given."""
    from specdec_core.proposers import Context, Resources
    from specdec_core.proposers.heads.block import WholeBlock as Proposer

    models = with_head(block_head(12, inner=inner))
    settings = SETTINGS.but(temperature=0.8, top_k=5)
    target = models.target.reader(60)
    proposer = Proposer(Resources(target, models, 60), Proposer.Options())
    context = Context(settings, Warp.of(settings), 12, 5, [5, 9, 3, 2, 7], limit=9, length=4, room=99)
    with torch.inference_mode():
        target.prefill(context.tokens[:-1])
        proposer.start(context)
        proposal = proposer.propose(context)
    slow, path = Slow(models, context.tokens), ()
    assert proposal.q is not None and len(proposal.q) == 4
    for place, (token, q) in enumerate(zip(proposal.tree.tokens, proposal.q, strict=True)):
        assert torch.allclose(q, Warp.of(settings)(slow.logits(path)), atol=1e-5)
        assert token == int(drawn(q, context.uniforms(4)[place]))
        path = (*path, token)
    assert proposer.memory.length == len(context.tokens) - 1, "rows of the block are left"


def test_a_long_prompt_is_read_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: states of one chunk only, a chunk at the wrong positions."""
    models, prompt = headed("gpt2"), [(7 * place) % 12 for place in range(30)]
    whole = sd.decode(models, prompt, SETTINGS)
    for place in ("specdec_core.proposers.heads.block", "specdec_core.runtime.reader"):
        monkeypatch.setattr(f"{place}.PREFILL_CHUNK", 7)
    parts = sd.decode(models, prompt, SETTINGS)
    assert [row.nodes.token for row in whole.rounds] == [row.nodes.token for row in parts.rounds]


def test_the_confidence_head_does_not_read_the_guess_it_judges() -> None:
    """Catches: the log-odds of a slot that depend on its own token, which would bias a budget above temperature 0."""
    head = block_head(12, inner="vanilla", confidence=True)
    states = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(5))
    w, before = head.state_dict(), torch.tensor([7, 1, 2, 3])
    found = head.confidence(states, before)
    read = torch.cat((states, w["markov_head.markov_w1.weight"][before]), -1)
    wanted = read @ w["confidence_head.proj.weight"][0] + w["confidence_head.proj.bias"]
    assert found is not None and torch.allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("layout", ["dflash", "dspark", "speculators"])
def test_what_is_written_is_read_back(layout: Any, tmp_path: Path) -> None:
    """Catches: an entry that one of the two leaves out, layers counted one off."""
    plain = layout == "dflash"
    head = block_head(
        12, inner="" if plain else "gated", from_anchor=not plain, causal=True, norms=True, confidence=not plain,
        ids=IDS if layout == "speculators" else None,
    )  # fmt: skip
    checkpoint.write(tmp_path, head, "tiny", {}, torch.float32, layout, target_layers=2)
    again = checkpoint.read(str(tmp_path), Target(WIDTH, 12, WIDTH, 2))
    assert again.block == head.block and again.config.num_hidden_layers == head.config.num_hidden_layers
    own, found = head.state_dict(), again.state_dict()
    assert own.keys() == found.keys() and all(torch.equal(own[key], found[key]) for key in own)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({"target_layer_ids": [0, 5]}, "the target has 2"),
        ({"mask_token_id": 12}, "its mask token is one of the target's 12"),
        ({"block_size": 1}, "a block has 2 to"),
        ({"markov_rank": 3}, "'markov_head_type'"),
        ({"num_target_layers": 9}, "'num_target_layers'"),
        ({"input_embedding_scale": 2.0}, "'input_embedding_scale': 2.0"),
        ({"layer_types": ["sliding_attention"]}, "'layer_types'"),
        ({"num_hidden_layers": 3}, "'num_hidden_layers' is 3"),
        ({"kernel": 3}, "the entry 'kernel'"),
    ],
)
def test_another_head_is_refused_by_what_shows_it(entries: dict[str, Any], said: str, tmp_path: Path) -> None:
    """Catches: an entry that is passed over, so that guesses are made otherwise than where the head was trained."""
    checkpoint.write(
        tmp_path, block_head(12, inner="vanilla", norms=True), "tiny", {}, torch.float32, target_layers=2
    )
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | entries), encoding="utf-8")
    with pytest.raises(sd.ModelError, match=said):
        checkpoint.read(str(tmp_path), Target(WIDTH, 12, WIDTH, 2))


def test_z_lab_s_layout_is_refused_for_what_it_cannot_say(tmp_path: Path) -> None:
    """Catches: a head whose inner part is left out without a word."""
    with pytest.raises(ValueError, match="no inner head"):
        checkpoint.write(tmp_path, block_head(12, inner="rnn"), "tiny", {}, layout="dflash")


def test_the_block_s_guesses() -> None:
    """Catches: a block of the wrong number of guesses."""
    assert (
        BlockShape(LAYERS_READ, 8, 1, from_anchor=False).guesses == 7
        and BlockShape(LAYERS_READ, 7, 1).guesses == 7
    )
