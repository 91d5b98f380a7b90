"""Heads of makers who publish a repository: SafeAILab's EAGLE and EAGLE-3, DeepSeek's DeepSpec, the first Medusa.

The repositories are looked for as EAGLE, DeepSpec and Medusa in the folder that SPECDEC_CHECKOUTS names.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from . import common

PACKAGES = ("transformers==5.19.0",)
CHECKOUTS = "SPECDEC_CHECKOUTS"
EAGLE, DEEPSPEC = "SafeAILab/EAGLE at cb7e084", "deepseek-ai/DeepSpec at afdfa7c"
MEDUSA = "FasterDecoding/Medusa at e2a5d20"
NARROW = {"num_attention_heads": 4, "num_key_value_heads": 2}  # its layers know no head_dim


def make(out: Path, target: common.Target) -> None:
    """Write one folder for each kind of head."""
    for name in ("EAGLE", "DeepSpec", "Medusa"):
        sys.path.insert(0, str(Path(os.environ[CHECKOUTS]) / name))
    _eagle(out / "safeailab-eagle", target, {"bias": True}, 300)
    _eagle(out / "safeailab-eagle-without-bias", target, {"bias": False}, 301)
    _eagle3(out / "safeailab-eagle3", target, common.GUESSED, 310)
    _eagle3(out / "safeailab-eagle3-whole-vocabulary", target, common.VOCABULARY, 311)
    _deepspec(out / "deepspec", target, 320)
    _dspark(out / "deepspec-dspark", target, 325)
    _medusa(out / "medusa", target, 330)


def _published(entries: dict[str, Any]) -> dict[str, Any]:
    known = {key: value for key, value in common.LAYER.items() if key != "head_dim"} | NARROW
    return known | {"num_hidden_layers": 1, "hidden_act": "silu", "model_type": "llama"} | entries


def _made(name: str, config: dict[str, Any], target: common.Target, seed: int, **options: Any) -> Any:
    """One of its models with random weights and the target's embeddings."""
    from eagle.model import cnets, cnets1
    from eagle.model.configs import EConfig

    known = EConfig(**config, pad_token_id=None)
    known.rope_scaling, known.rope_theta = None, config["rope_theta"]
    model = {"eagle": cnets1, "eagle3": cnets}[name].Model(known, **options).eval()
    model.gradient_checkpointing = False
    common.scatter(model, seed)
    with torch.no_grad():
        model.embed_tokens.weight.copy_(target.weights["model.embed_tokens.weight"])
    return model


def _eagle(folder: Path, target: common.Target, entries: dict[str, Any], seed: int) -> None:
    config = _published({"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": False} | entries)
    model = _made("eagle", config, target, seed, bias=config["bias"])
    matrix = target.weights["lm_head.weight"]
    found = common.chains(lambda *text: _last(model, target.final, *text) @ matrix.T)
    kept = {key: value for key, value in model.state_dict().items() if key != "embed_tokens.weight"}
    ran = f"{EAGLE}: eagle/model/cnets1.py, Model.forward with its memory"
    common.write(folder, "eagle", ran, found, [], kept, config)


def _eagle3(folder: Path, target: common.Target, guessed: int, seed: int) -> None:
    config = _published({"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": guessed})
    model = _made("eagle3", config, target, seed)
    ids = None
    if guessed < common.VOCABULARY:
        ids = common.draft_vocabulary()
        model.t2d.index_fill_(0, ids, True)
        model.d2t.copy_(ids - torch.arange(len(ids)))
    layers = [2, common.LAYERS // 2, common.LAYERS - 3]  # fixed in eagle/model/modeling_llama_kv.py
    states = target.joined(layers)
    found = common.chains(lambda *text: model.lm_head(model.norm(_last(model, states, *text))), ids)
    gone = {"embed_tokens.weight"} | ({"d2t", "t2d"} if ids is None else set())
    kept = {key: value for key, value in model.state_dict().items() if key not in gone}
    ran = f"{EAGLE}: eagle/model/cnets.py, Model.forward with its memory"
    common.write(folder, "eagle3", ran, found, layers, kept, config)


@torch.no_grad()
def _last(model: Any, states: Tensor, begun: list[int], guessed: list[int]) -> Tensor:
    """The state (d,) behind a beginning and its guesses, one of them at a time, as its `topK_genrate` goes on."""
    rows = len(begun) - 1
    model.reset()
    found, memory = model(states[None, :rows], torch.tensor([begun[1:]]), use_cache=True)
    for token in guessed:
        found, memory = model(found[:, -1:], torch.tensor([[token]]), past_key_values=memory, use_cache=True)
    last: Tensor = found[0, -1]
    return last


def _deepspec(folder: Path, target: common.Target, seed: int) -> None:
    from deepspec.modeling.eagle3 import Qwen3Eagle3Model
    from deepspec.modeling.eagle3.qwen3.config import build_draft_config
    from transformers import DynamicCache, Qwen3Config

    wanted = SimpleNamespace(
        target_layer_ids=[0, 1, 2, 4, 5],
        ttt_length=7,
        step_loss_decay=0.8,
        draft_num_hidden_layers=1,
        target_model_name_or_path="target",
    )
    like = Qwen3Config(num_hidden_layers=common.LAYERS, **common.LAYER)
    config = build_draft_config(target_config=like, model_args=wanted)
    config._attn_implementation = "sdpa"  # as its evaluator runs it
    model: Any = Qwen3Eagle3Model(config).eval()
    common.scatter(model, seed)
    model.initialize_embeddings_and_head(
        embed_tokens=SimpleNamespace(weight=target.weights["model.embed_tokens.weight"]),
        lm_head=SimpleNamespace(weight=target.weights["lm_head.weight"]),
    )
    model.save_pretrained(folder)
    layers = [number + 1 for number in wanted.target_layer_ids]
    states = target.joined(layers)

    @torch.no_grad()
    def logits(begun: list[int], guessed: list[int]) -> Tensor:
        rows, memory = len(begun) - 1, DynamicCache()
        at = torch.arange(len(begun) + len(guessed))[None]
        found = model.extend_draft_cache(states[None, :rows], torch.tensor([begun[1:]]), at[:, :rows], memory)
        for step, token in enumerate(guessed, rows):
            found = model(
                hidden_states=found,
                input_ids=torch.tensor([[token]]),
                position_ids=at[:, step : step + 1],
                past_key_values=memory,
                use_cache=True,
            )
        last: Tensor = model.compute_logits(found)[0, -1]
        return last

    ran = f"{DEEPSPEC}: Qwen3Eagle3Model as its evaluator calls it"
    common.write(folder, "eagle3", ran, common.chains(logits), layers)


@torch.no_grad()
def _dspark(folder: Path, target: common.Target, seed: int) -> None:
    from deepspec.modeling.dspark import Qwen3DSparkModel
    from deepspec.modeling.dspark.qwen3.config import build_draft_config
    from transformers import Qwen3Config

    wanted: Any = {
        "num_draft_layers": 2, "target_layer_ids": [-1, 2, 5], "confidence_head_alpha": 1.0, "markov_rank": 8,
        "confidence_head_with_markov": True, "markov_head_type": "vanilla", "block_size": 4, "mask_token_id": 298,
        "num_anchors": 16,
    }  # fmt: skip
    asked = type("Arguments", (dict,), {"__getattr__": dict.__getitem__})(wanted)
    like = Qwen3Config(num_hidden_layers=common.LAYERS, **common.LAYER)
    config = build_draft_config(target_config=like, model_args=asked)
    config._attn_implementation = "sdpa"  # as its evaluator runs it
    model: Any = Qwen3DSparkModel(config).eval()
    common.scatter(model, seed)
    model.initialize_embeddings_and_head(
        embed_tokens=SimpleNamespace(weight=target.weights["model.embed_tokens.weight"]),
        lm_head=SimpleNamespace(weight=target.weights["lm_head.weight"]),
    )
    model.save_pretrained(folder)
    layers = [number + 1 for number in wanted["target_layer_ids"]]
    states, size = target.joined(layers), wanted["block_size"]

    def logits(begun: list[int], guessed: list[int]) -> Tensor:
        rows, slot = len(begun) - 1, len(guessed)
        block = torch.tensor([[begun[-1], *[wanted["mask_token_id"]] * (size - 1)]])
        hidden = model._forward_backbone(
            position_ids=torch.arange(rows + size)[None],
            noise_embedding=model.embed_tokens(block),
            target_hidden_states=states[None, :rows],
            is_causal=False,
        )
        before = torch.tensor([(begun + guessed)[-1]])
        found: Tensor = model.markov_head.apply_step_logits(
            model.compute_logits(hidden[:, slot]), token_ids=before, hidden_states=hidden[:, slot]
        )
        return found[0]

    ran = f"{DEEPSPEC}: Qwen3DSparkModel as its evaluator calls it"
    common.write(folder, "block", ran, common.chains(logits), layers)


@torch.no_grad()
def _medusa(folder: Path, target: common.Target, seed: int) -> None:
    """Five heads where two are announced, as in its published files: its code makes five of them anyway."""
    import transformers

    for name, kind in (
        ("llama", transformers.LlamaForCausalLM),
        ("mistral", transformers.MistralForCausalLM),
    ):
        # its own copies of these classes, for trees of guesses, do not load in this transformers
        sys.modules[f"medusa.model.modeling_{name}_kv"] = SimpleNamespace(**{kind.__name__: kind})  # type: ignore[assignment]
    from medusa.model import medusa_model

    medusa_model.AutoTokenizer.from_pretrained = lambda *_: None
    config: Any = transformers.LlamaConfig.from_pretrained(target.folder)
    config.medusa_num_heads, config.medusa_num_layers = 5, 2
    model = medusa_model.MedusaModelLlama(config).eval()
    common.scatter(model.medusa_head, seed)
    model.load_state_dict(target.weights, strict=False)
    logits = model(torch.tensor([common.TEXT]), medusa_forward=True)[:, 0]
    found = common.chains(lambda begun, guessed: logits[len(guessed), len(begun) - 2], depth=5)
    entries = {"medusa_num_heads": 2, "medusa_num_layers": 2, "base_model_name_or_path": "target"}
    kept = {key: value.bfloat16() for key, value in model.medusa_head.state_dict().items()}
    ran = f"{MEDUSA}: MedusaModelLlama.forward with transformers' own Llama"
    common.write(folder, "medusa", ran, found, [], kept, entries, "medusa_lm_head.safetensors")
