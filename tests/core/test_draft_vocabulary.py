"""Draft vocabularies: heads and drafts that guess some of the target's tokens, against the same ones over all of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import specdec_core as sd
from specdec_core.models.bundle import HubModel, NarrowModel
from specdec_core.models.heads import EagleHead, MedusaHeads, Target, eagle, medusa
from specdec_core.models.tokens import draft_vocabulary
from specdec_core.models.tokens.draft_vocabulary import NarrowReader
from specdec_core.runtime.reader import CausalReader
from specdec_core.sampling import Warp
from specdec_core.tree import TokenTree
from specdec_measure.testing import Letters

from .distributions import chance_of, exact_distribution, model_next_probs, sample
from .test_eagle import Slow, texts
from .test_eagle import _norm as norm
from .tiny import build, generate, like, module, tokenizer
from .tiny_heads import WIDTH, eagle_head, headed, medusa_heads, true_states

IDS = torch.tensor([0, 2, 3, 5, 6, 9, 11])
PROMPTS = [[5, 9, 3, 2, 7], [1], [4, 1, 4, 1, 4, 1, 4]]


def narrow_eagle(vocabulary: int, norms: bool = False) -> EagleHead:
    """The usual tiny head over `IDS`."""
    whole = eagle_head(vocabulary)
    made = EagleHead(whole.config, True, vocabulary=IDS, norms=norms)
    made.load_state_dict(whole.state_dict(), strict=False)
    return made.requires_grad_(False).eval()


def narrow_models(proposer: str) -> sd.Models:
    """A tiny target whose heads, or whose draft, guess over `IDS`."""
    models = headed("llama")
    heads = medusa_heads(12, shared=True)
    guessing = MedusaHeads(len(heads), heads.blocks, WIDTH, guesses=IDS)
    guessing.load_state_dict(heads.state_dict(), strict=False)
    found = {"medusa": guessing.requires_grad_(False).eval(), "eagle": narrow_eagle(12)}
    return replace(
        models, heads=found, draft=narrow_draft(module(models)) if proposer == "draft-model" else None
    )


def narrow_draft(target: torch.nn.Module) -> NarrowModel:
    """A draft of the target's kind over `IDS` and one row more, with some of the target's weights."""
    near = like(target, "llama", vocab_size=12)  # type: ignore[arg-type]
    small = build("llama", 1, vocab_size=len(IDS) + 1)
    weights = near.state_dict()
    for key in ("model.embed_tokens.weight", "lm_head.weight"):
        weights[key] = torch.cat((weights[key][IDS], weights[key][1:2]))
    small.load_state_dict(weights)
    return NarrowModel(HubModel("narrow draft", small), IDS, 12)


class NarrowSlow(Slow):
    """What the head says, by full passes, with everything outside `IDS` impossible."""

    def children(self, path: tuple[int, ...], count: int) -> list[tuple[tuple[int, ...], float]]:
        logits = self.output @ self.guessed(path)
        chances = logits.index_select(0, IDS).log_softmax(-1).topk(count)
        return [
            ((*path, int(IDS[place])), score)
            for place, score in zip(chances.indices.tolist(), chances.values.tolist(), strict=True)
        ]


def test_an_eagle_tree_equals_the_slow_computation_over_its_tokens() -> None:
    """Each round's tokens and probabilities against full passes. Catches: a guess that is not mapped to the target's
    id, probabilities normalised over the whole vocabulary, a level that reads the draft's own numbers as tokens."""
    models = narrow_models("eagle")
    settings = sd.Settings(proposer="eagle", max_new_tokens=25, options={"depth": 3, "top_k": 3, "nodes": 9})
    seen = 0
    for prompt in PROMPTS:
        trace = sd.decode(models, prompt, settings)
        assert trace.audit() == []
        assert trace.token_ids == generate(module(models), prompt, 25)
        for text, row in zip(texts(trace), trace.rounds, strict=True):
            limit = min(3, 25 - (len(text) - len(prompt)) - 1)
            if len(text) == 1 or limit < 1:
                continue
            wanted, scores = NarrowSlow(models, text).tree(limit, 3, 9)
            paths: list[tuple[int, ...]] = []
            for token, parent in zip(row.nodes.token, row.nodes.parent, strict=True):
                paths.append((*(paths[parent] if parent >= 0 else ()), token))
            assert [
                path for path, said in zip(paths, row.nodes.verdict, strict=True) if said != "pruned"
            ] == wanted
            for path, chance in zip(paths, row.nodes.model_q or [], strict=True):
                own = scores[path] - scores.get(path[:-1], 0.0)
                assert chance == pytest.approx(float(torch.tensor(own).exp()), abs=1e-4)
            seen += 1
    assert seen > 20


def test_medusa_heads_guess_only_their_tokens() -> None:
    """The first guess of every head against a product by hand. Catches: ranks taken for token ids."""
    models = narrow_models("medusa")
    settings = sd.Settings(proposer="medusa", max_new_tokens=25, options={"tree": "chain"})
    target, heads = module(models), models.heads["medusa"]
    for prompt in PROMPTS:
        trace = sd.decode(models, prompt, settings)
        assert trace.audit() == [] and trace.token_ids == generate(target, prompt, 25)
        for text, row in zip(texts(trace), trace.rounds, strict=True):
            if not row.nodes.token:
                continue
            state = true_states(models, text)[-2]
            logits = target.get_output_embeddings().weight
            for head, token in zip(heads, row.nodes.token, strict=False):
                assert token == int(IDS[(logits @ head(state))[IDS].argmax()])


@pytest.mark.parametrize("proposer", ["eagle", "medusa", "draft-model", "branching"])
def test_penalties_go_by_the_targets_ids(proposer: str) -> None:
    """Greedy text under a repetition penalty against `generate`. Catches: a penalty on the wrong column."""
    models = narrow_models("draft-model" if proposer == "branching" else proposer)
    settings = sd.Settings(proposer=proposer, max_new_tokens=25, repetition_penalty=1.3)
    accepted = 0
    for prompt in PROMPTS:
        trace = sd.decode(models, prompt, settings)
        assert trace.audit() == []
        assert trace.token_ids == generate(module(models), prompt, 25, repetition_penalty=1.3)
        accepted += trace.stats.accepted
    assert accepted > 0


@pytest.mark.parametrize("rule", ["speculative-sampling", "exact-match"])
def test_a_narrow_draft_keeps_the_targets_text(rule: str) -> None:
    """Catches: ids of the draft that reach the tree, a rewind that the draft's own rows do not follow."""
    models = narrow_models("draft-model")
    accepted = 0
    for prompt in PROMPTS:
        for proposer in ("draft-model", "branching"):
            trace = sd.decode(models, prompt, sd.Settings(proposer=proposer, rule=rule, max_new_tokens=25))
            assert trace.audit() == [] and trace.token_ids == generate(module(models), prompt, 25)
            assert {token for row in trace.rounds for token in row.nodes.token} <= set(IDS.tolist())
            accepted += trace.stats.accepted
    assert accepted > 10, "the draft never guessed right"


def test_sampled_texts_follow_the_targets_distribution() -> None:
    """A target of twelve tokens, a draft of seven. Catches: q above zero where the draft cannot guess. 170 texts of
    three tokens; false alarm 1e-4."""
    models = narrow_models("draft-model")
    assert isinstance(models.target, HubModel)
    settings = sd.Settings(temperature=1.5, max_new_tokens=3, record="off", draft_length=2)
    expected = exact_distribution(model_next_probs(models.target), [1, 2, 3], 3, Warp(1.5))
    assert chance_of(sample(models, [1, 2, 3], settings, 170), expected) > 1e-4


def test_a_narrow_reader_is_the_draft_between_two_tables() -> None:
    """Every call against the draft's own. Catches: a token outside the draft vocabulary read as one inside it."""
    small = build("llama", 1, vocab_size=len(IDS) + 1)
    reader, own = NarrowReader(CausalReader(small, 20), IDS, 12), CausalReader(small, 20)
    reader.prefill([0, 1, 5])
    own.prefill([0, 7, 3])  # 1 is no token of the draft: the row for all others
    tree = TokenTree([9, 4], [-1, 0])
    wide, narrow = reader.read(11, tree), own.read(6, TokenTree([5, 7], [-1, 0]))
    assert wide.shape == (3, 12)
    assert torch.equal(wide[:, IDS], narrow[:, :-1])
    assert bool(torch.isneginf(wide[:, [1, 4, 7, 8, 10]]).all())
    reader.keep([0])
    own.keep([0])
    assert torch.equal(reader.step(torch.tensor([3]))[IDS], own.step(torch.tensor([2]))[:-1])
    assert reader.length == own.length == 5
    reader.rewind(2)
    assert reader.length == 2


def test_norms_are_those_of_a_llama_layer() -> None:
    """With norms the head equals a written-out pre-norm layer. Catches: the norm on the residual, a norm left out."""
    head = narrow_eagle(12, norms=True)
    with torch.no_grad():
        head.norm.weight.normal_(1, 0.2)
        head.layers[0].input_layernorm.weight.normal_(1, 0.2)
    target = build("llama", vocab_size=12)
    states = torch.randn(1, 1, WIDTH, generator=torch.Generator().manual_seed(3))
    token, place = torch.tensor([[4]]), torch.zeros(1, 1, dtype=torch.int64)
    w = head.state_dict()
    rows = (
        torch.cat((target.get_input_embeddings().weight[4], states[0, 0])) @ w["fc.weight"].T + w["fc.bias"]
    )
    value = norm(rows, w["layers.0.input_layernorm.weight"]) @ w["layers.0.self_attn.v_proj.weight"].T
    # one row sees itself alone; two heads share a value
    seen = value.view(2, 1, 8).expand(2, 2, 8).reshape(-1)
    rows = rows + seen @ w["layers.0.self_attn.o_proj.weight"].T
    normed = norm(rows, w["layers.0.post_attention_layernorm.weight"])
    gate = normed @ w["layers.0.mlp.gate_proj.weight"].T
    rows = (
        rows
        + (gate * gate.sigmoid() * (normed @ w["layers.0.mlp.up_proj.weight"].T))
        @ w["layers.0.mlp.down_proj.weight"].T
    )
    with torch.inference_mode():
        found = head(token, states, place, None, target.get_input_embeddings())[0, 0]
    torch.testing.assert_close(found, norm(rows, w["norm.weight"]), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", ["eagle", "medusa"])
def test_heads_with_a_draft_vocabulary_are_read_again(kind: str, tmp_path: Path) -> None:
    """Catches: d2t stored as 16-bit numbers, norms lost."""
    if kind == "eagle":
        head = narrow_eagle(12, norms=True)
        eagle.write(tmp_path, head, "target", {}, torch.float32)
        found: torch.nn.Module = eagle.read(str(tmp_path), Target(WIDTH, 12, WIDTH))
    else:
        head = narrow_models("medusa").heads["medusa"]
        medusa.write(tmp_path, head, "target", {}, torch.float32)
        found = medusa.read(str(tmp_path), Target(WIDTH, 12, WIDTH))
    assert torch.equal(found.vocabulary, IDS)  # type: ignore[arg-type]
    for key, weight in head.state_dict().items():
        assert torch.equal(found.state_dict()[key], weight)


@pytest.mark.parametrize(
    ("offsets", "words"),
    [
        (torch.tensor([0.0, 1.0]), "damaged draft vocabulary"),
        (torch.tensor([[0, 1]]), "damaged draft vocabulary"),
        (torch.tensor([3, 1]), "ascending token ids"),
        (torch.tensor([0, 11]), "below 12"),
        (torch.tensor([-1, 1]), "ascending token ids"),
        (torch.zeros(13, dtype=torch.int64), "1 to 12"),
    ],
)
def test_a_damaged_draft_vocabulary_is_refused(offsets: Tensor, words: str, tmp_path: Path) -> None:
    """Catches: ids that an index would read from the wrong end, or outside the target's logits."""
    eagle.write(tmp_path, narrow_eagle(12), "target", {}, torch.float32)
    tensors = load_file(tmp_path / "model.safetensors") | {"d2t": offsets}
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(sd.ModelError, match=words):
        eagle.read(str(tmp_path), Target(WIDTH, 12, WIDTH))


def test_a_drafts_folder_brings_its_vocabulary(tmp_path: Path) -> None:
    """From files to a decode, without a tokenizer of its own; a foreign vocabulary is refused. Catches: a
    draft over a part of another tokenizer, which would guess nonsense, and a width that does not fit."""
    words = tokenizer()
    target = build("llama", vocab_size=len(words))
    target.save_pretrained(tmp_path / "target")
    words.save_pretrained(tmp_path / "target")
    ids = torch.arange(0, len(words), 2)
    draft = build("llama", 1, vocab_size=len(ids) + 1)
    draft.save_pretrained(tmp_path / "draft")
    draft_vocabulary.write(tmp_path / "draft", ids, words)
    models = sd.load_models(tmp_path / "target", draft=tmp_path / "draft")
    assert isinstance(models.draft, NarrowModel)
    trace = sd.decode(models, "the cat", sd.Settings(max_new_tokens=12))
    assert trace.audit() == []
    assert all(token % 2 == 0 for row in trace.rounds for token in row.nodes.token)

    draft_vocabulary.write(tmp_path / "draft", ids[:-1], words)
    with pytest.raises(sd.ModelError, match="one more than named"):
        sd.load_models(tmp_path / "target", draft=tmp_path / "draft")
    draft_vocabulary.write(tmp_path / "draft", ids, tokenizer(265))
    with pytest.raises(sd.ModelError, match="another tokenizer's vocabulary"):
        sd.load_models(tmp_path / "target", draft=tmp_path / "draft")
    (tmp_path / "draft" / draft_vocabulary.FILE).write_bytes(b"x")
    with pytest.raises(sd.ModelError, match="damaged draft vocabulary"):
        sd.load_models(tmp_path / "target", draft=tmp_path / "draft")


def test_output_rows_follow_the_target() -> None:
    """Catches: rows kept from another target that the head served before."""
    head, one, two = narrow_eagle(12), build("llama", 3, vocab_size=12), build("llama", 4, vocab_size=12)
    states = torch.randn(2, WIDTH, generator=torch.Generator().manual_seed(0))
    for target in (one, two, one):
        output = target.get_output_embeddings()
        torch.testing.assert_close(head.output(output)(states), output(states)[:, IDS], atol=1e-5, rtol=1e-5)


def test_a_vocabulary_of_letters_is_wide_enough() -> None:
    """The tests' own premise: what the tiny target writes is not all in `IDS`."""
    written = {token for prompt in PROMPTS for token in generate(module(headed("llama")), prompt, 25)}
    assert written - set(IDS.tolist()) and written & set(IDS.tolist())
    assert Letters(12).decode([0])
