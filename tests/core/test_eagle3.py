"""EAGLE-3: every drafted tree against an unoptimised computation without a memory, the published layouts."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import specdec_core as sd
from specdec_core.models.bundle import HubModel
from specdec_core.models.heads import Eagle3Head, MtpModules, Target, eagle3
from specdec_core.rules import RULES
from specdec_measure.exact.distribution import distance

from .distributions import model_next_probs
from .test_eagle import PROMPTS, SETTINGS, Slow, _norm, compared, layer
from .tiny import build, generate, module, tokenizer
from .tiny_heads import LAYERS_READ, WIDTH, eagle3_head, headed, texts

EAGLE3 = SETTINGS.but(proposer="eagle3")
IDS = torch.tensor([0, 2, 3, 5, 8, 9, 11])  # a draft vocabulary of twelve tokens


class Slow3(Slow):
    """What an EAGLE-3 head says after `text`; what the target's layers read is transformers' own account of it."""

    def __init__(self, models: sd.Models, text: list[int]) -> None:
        model = module(models)
        self.head: Eagle3Head = models.heads["eagle3"]
        self.w = self.head.state_dict()
        own = self.w.get("embed_tokens.weight")
        self.embedding = model.get_input_embeddings().weight if own is None else own
        last: list[Tensor] = []  # what the last layer returns; transformers' list has it after the norm
        norm = model.model.norm if hasattr(model, "model") else model.transformer.ln_f
        hook = norm.register_forward_pre_hook(lambda module, inputs: last.append(inputs[0]))
        with torch.inference_mode():
            inner = model(torch.tensor([text]), output_hidden_states=True).hidden_states[:-1]
        hook.remove()
        joined = torch.cat([(*inner, *last)[number][0] for number in self.head.layers_read], -1)
        self.text, self.states = text, (joined @ self.w["fc.weight"].T)[:-1]

    @cache  # noqa: B019
    def guessed(self, path: tuple[int, ...]) -> Tensor:
        states = torch.stack([*self.states, *(self.guessed(path[:end]) for end in range(len(path)))])
        embedded = _norm(self.embedding[[*self.text[1:], *path]], self.w["midlayer.input_layernorm.weight"])
        normed = _norm(states, self.w["midlayer.hidden_norm.weight"])
        onto = normed if self.head.midlayer.norm_first else states
        return layer(self.w, "midlayer.", torch.cat((embedded, normed), -1), onto)[-1]

    def logits(self, path: tuple[int, ...]) -> Tensor:
        return self.w["lm_head.weight"] @ _norm(self.guessed(path), self.w["norm.weight"])


def with_head(head: Eagle3Head | MtpModules, architecture: str = "llama", vocabulary: int = 12) -> sd.Models:
    """The tiny target with this head."""
    name = "mtp" if isinstance(head, MtpModules) else "eagle3"
    models = headed(architecture, vocabulary)
    return replace(models, heads={**models.heads, name: head})


@pytest.mark.parametrize(
    ("architecture", "temperature", "shape", "head"),
    [
        ("llama", 0.0, (4, 5, 30), eagle3_head(12)),
        ("gpt2", 1.0, (3, 4, 12), eagle3_head(12, embedding=True)),
        ("llama", 1.0, (4, 3, 15), eagle3_head(12, ids=IDS, norm_first=True)),
        ("llama", 0.0, (4, 5, 30), eagle3_head(12, layers=(0, 2))),
        ("gpt2", 0.0, (4, 5, 30), eagle3_head(12, layers=(2, 1, 0))),
    ],
)
def test_every_tree_equals_the_slow_computation(
    architecture: str, temperature: float, shape: tuple[int, int, int], head: Eagle3Head
) -> None:
    """As for EAGLE, on our own forward (Llama) and on transformers' (GPT-2). Catches: a state of another layer or its
    output, normed states fed back, the two halves of what the attention reads swapped, guesses not mapped to the
    target's tokens."""
    drafted, accepted = compared(
        with_head(head, architecture), EAGLE3.but(temperature=temperature), shape, Slow3
    )
    assert drafted > 20 and accepted >= 5


def test_states_of_layers_follow_a_partly_read_tree_and_a_long_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same trees whatever the chunk of a prompt. Catches: layers' states of one chunk only."""
    models, prompt = headed("gpt2"), [(7 * place) % 12 for place in range(30)]
    whole = sd.decode(models, prompt, EAGLE3)
    for place in ("specdec_core.proposers.heads.state_tree", "specdec_core.runtime.reader"):
        monkeypatch.setattr(f"{place}.PREFILL_CHUNK", 7)
    parts = sd.decode(models, prompt, EAGLE3)
    assert [row.nodes.token for row in whole.rounds] == [row.nodes.token for row in parts.rounds]


@pytest.mark.parametrize("proposer", ["eagle3", "mtp"])
def test_the_drawn_trees_keep_the_target_s_distribution_exactly(proposer: str) -> None:
    """The trees that the heads drew on a model of four tokens, with the model's own probabilities, enumerated under
    every lossless rule. Catches: a rule that takes these deterministic trees for drawn ones."""
    models = headed("llama", 4)
    assert isinstance(models.target, HubModel)
    p = model_next_probs(models.target)
    settings = sd.Settings(
        proposer=proposer, temperature=1.0, max_new_tokens=7, options={"depth": 2, "top_k": 2, "nodes": 4}
    )
    trace, tried = sd.decode(models, [1, 2, 3], settings), 0
    for text, row in list(zip(texts(trace), trace.rounds, strict=True))[:2]:
        sent = [node for node, verdict in enumerate(row.nodes.verdict) if verdict not in ("pruned", "cut")]
        parents, tokens = [row.nodes.parent[node] for node in sent], [row.nodes.token[node] for node in sent]
        paths = [()]
        for parent, token in zip(parents, tokens, strict=True):
            paths.append((*paths[parent + 1], token))

        def q(context: tuple[int, ...], paths: list[tuple[int, ...]] = paths) -> list[float]:
            """Ranks the tokens as the tree has them, so that "fixed" draws this tree."""
            rank = [path[-1] for path in paths[1:] if path[:-1] == context]
            return [0.5 ** (1 + rank.index(one)) if one in rank else 0.01 for one in range(4)]

        for name, rule in RULES.items():
            if rule.lossless and name != "exact-match" and rule.unsuited("fixed tree") is None:
                off = distance(rule(), parents, lambda after, t=text: p((*t, *after)), q, "fixed")
                assert off <= 1e-12, name
                tried += 1
    assert tried >= 4


def _published(folder: Path, layout: str) -> Path:
    """A head as SafeAILab's, SpecForge's or the speculators library's files name and hold it."""
    head = eagle3_head(300, embedding=layout != "SafeAILab", ids=torch.arange(0, 300, 3))
    tensors = {key: tensor.clone() for key, tensor in head.state_dict().items()}
    tensors["t2d"] = torch.zeros(300, dtype=torch.bool).index_fill_(0, torch.arange(0, 300, 3), True)
    config = {
        "architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "hidden_size": WIDTH,
        "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
        "num_hidden_layers": 1, "vocab_size": 300, "draft_vocab_size": 100, "rope_theta": 500.0,
        "hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": False,
    }  # fmt: skip
    if layout == "speculators":
        tensors = {key.replace("midlayer.", "layers.0."): tensor for key, tensor in tensors.items()}
        config["eagle_aux_hidden_state_layer_ids"] = [1, 2, 3]
    elif layout == "SpecForge":
        config["eagle_config"] = {"eagle_aux_hidden_state_layer_ids": [1, 2, 3], "use_aux_hidden_state": True}
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("layout", ["SafeAILab", "SpecForge", "speculators"])
def test_published_layouts_load_and_draft(layout: str, tmp_path: Path) -> None:
    """From a file in that layout to a tree of the slow computation. Catches: a renamed part left at random, the layers
    of another layout, a decode that differs from `generate`."""
    build("llama", vocab_size=300, num_hidden_layers=6).save_pretrained(tmp_path / "target")
    tokenizer().save_pretrained(tmp_path / "target")
    models = sd.load_models(tmp_path / "target", eagle3=_published(tmp_path / "head", layout), device="cpu")
    head = models.heads["eagle3"]
    assert (
        head.layers_read == {"SafeAILab": (2, 3, 3), "SpecForge": (2, 3, 4), "speculators": (1, 2, 3)}[layout]
    )
    trace = sd.decode(models, PROMPTS[0], EAGLE3)
    assert trace.token_ids == generate(module(models), PROMPTS[0], 25) and trace.audit() == []
    loaded = eagle3.read(str(tmp_path / "head"), Target(WIDTH, 300, WIDTH, 6))
    plain = build("llama", vocab_size=300, num_hidden_layers=6)
    fresh = replace(models, target=HubModel("target", plain), heads={"eagle3": loaded})
    wanted, _ = Slow3(fresh, PROMPTS[0]).tree(5, 4, 16)
    assert trace.rounds[0].nodes.token[: len(wanted)] == [path[-1] for path in wanted]
    assert all(token % 3 == 0 for token in trace.rounds[0].nodes.token)


def test_a_written_head_is_read_again(tmp_path: Path) -> None:
    """Catches: a part, the layers or the draft vocabulary lost on the way to the file."""
    head = eagle3_head(12, ids=IDS, norm_first=True)
    head.accuracy = [0.5, 0.25]
    eagle3.write(tmp_path, head, "target", {}, torch.float32)
    found = eagle3.read(str(tmp_path), Target(WIDTH, 12, WIDTH, 2))
    assert found.layers_read == LAYERS_READ and found.midlayer.norm_first and found.accuracy == [0.5, 0.25]
    assert found.vocabulary is not None and torch.equal(found.vocabulary, IDS)
    assert all(torch.equal(weight, found.state_dict()[key]) for key, weight in head.state_dict().items())
    assert load_file(tmp_path / "model.safetensors")["t2d"].nonzero().flatten().tolist() == IDS.tolist()


def test_heads_of_another_kind_or_target_are_one_sentence(tmp_path: Path) -> None:
    """Catches: an EAGLE-1 head half read, layers the target lacks, an embedding of another width."""
    folder = _published(tmp_path / "head", "SpecForge")

    def refusal(layers: int = 6, width: int = WIDTH) -> str:
        with pytest.raises(sd.ModelError) as refused:
            eagle3.read(str(folder), Target(width, 300, WIDTH, layers))
        return str(refused.value)

    assert "target has 2" in refusal(layers=2)
    assert "fc.weight is 32 × 96 and the target asks for 32 × 48" in refusal(width=16)
    tensors = load_file(folder / "model.safetensors")
    del tensors["midlayer.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors")
    assert "up_proj.weight' is missing" in refusal()
    kept = {key: tensor for key, tensor in tensors.items() if not key.startswith("midlayer.")}
    save_file(kept, folder / "model.safetensors")
    assert "no whole EAGLE-3 head" in refusal()
