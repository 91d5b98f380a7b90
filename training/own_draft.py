"""How does a target of one's own get a draft? A small Llama with its tokenizer, distilled on one's own text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor

from specdec_core.models.files.hub import load_tokenizer
from training.checkpoints import load_weights, require_checkpoint
from training.export import llama_config, write_json
from training.heads.frozen import Frozen
from training.heads.medusa_eagle import made_by
from training.heads.rows import source_of
from training.loop import Plan, Source, steps
from training.model import SmallLlama
from training.parallel import accuracy, parallel_loss, shape_with_mask, with_mask
from training.results.card import table
from training.results.evaluate import family_losses
from training.shapes import Shape

Weights = dict[str, Tensor]

HEAD_DIM = 32
MOST_POSITIONS = 4096


def shape_for(target: Frozen, layers: int, hidden: int) -> Shape:
    """A draft of this size for a target: its vocabulary, its window (at most `MOST_POSITIONS`).

    Raises:
        ValueError: if the width cannot be divided into heads.
    """
    if hidden % (2 * HEAD_DIM):
        raise ValueError(f"The draft's width has to be a multiple of {2 * HEAD_DIM}, got {hidden}.")
    heads = hidden // HEAD_DIM
    window = int(getattr(target.model.config, "max_position_embeddings", None) or MOST_POSITIONS)
    return Shape(
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=heads // 2,
        head_dim=HEAD_DIM,
        ffn=-(-hidden * 8 // 3 // HEAD_DIM) * HEAD_DIM,
        vocab=int(target.output.weight.shape[0]),
        max_positions=min(window, MOST_POSITIONS),
    )


def distance(draft: SmallLlama, target: Frozen) -> Callable[[Tensor], Tensor]:
    """Loss: int64 ids [batch, time + 1] to the mean KL(target || draft) in nats per token."""

    def loss(ids: Tensor) -> Tensor:
        with target.autocast():
            wanted = F.log_softmax(target.read(ids[:, :-1])[1].float(), dim=-1)
            guessed = F.log_softmax(draft(ids[:, :-1]).float(), dim=-1)
        return (wanted.exp() * (wanted - guessed)).sum(-1).mean()

    return loss


def started_from(folder: Path) -> tuple[Shape, Weights]:
    """Shape and weights of a draft to train further: a folder as `export_draft` writes it.

    Raises:
        ValueError: if it has another layout, or already guesses several tokens in one pass.
    """
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    names = {
        "layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads",
        "kv_heads": "num_key_value_heads", "head_dim": "head_dim", "ffn": "intermediate_size", "vocab": "vocab_size",
        "max_positions": "max_position_embeddings", "rope_theta": "rope_theta", "norm_eps": "rms_norm_eps",
    }  # fmt: skip
    own = (
        config.get("model_type") == "llama"
        and config.get("tie_word_embeddings")
        and "pard_token" not in config
    )
    if not own or not config.keys() >= set(names.values()):
        raise ValueError(
            f"'{folder}' is no draft to start from: a small Llama as `python -m training draft` writes it, with one "
            "matrix for input and output and without a mask token."
        )
    weights = {name: weight.float() for name, weight in load_file(folder / "model.safetensors").items()}
    return Shape(**{own: config[theirs] for own, theirs in names.items()}), weights


def train_draft(
    run: Path,
    shape: Shape,
    target: Frozen,
    batches: Source,
    heldout: Tensor,
    plan: Plan,
    ahead: int = 1,
    start: Weights | None = None,
) -> dict[str, Any]:
    """Distil a draft from scratch or from the weights `start`, or resume the run; returns its counters.

    `ahead`: how many tokens it learns to guess in one pass; above 1 it gets a mask token, see `parallel`.
    """
    if ahead > 1:
        shape, start = shape_with_mask(shape), start and with_mask(start)
    draft = SmallLlama(shape, seed=plan.seed).to(target.device)
    objective = parallel_loss(draft, target, ahead, plan.seed) if ahead > 1 else distance(draft, target)

    @torch.no_grad()
    def measured() -> dict[str, Any]:
        def logits_of(ids: Tensor) -> Tensor:
            out: Tensor = draft(ids.to(target.device))
            return out[..., : target.output.weight.shape[0]].cpu()

        return {"loss": round(family_losses(logits_of, {"own": heldout})["own"], 4)}

    facts = {"kind": "draft", "target": target.name, "shape": shape.to_dict(), "ahead": ahead}
    state = steps(run, draft, objective, batches, measured, plan, facts, start, device=target.device)
    if ahead > 1:
        state["shares"] = accuracy(draft, target, heldout, ahead)
    return state


def export_draft(
    run: Path, model: str, target: Frozen, folder: Path, shares: list[float] | None = None
) -> None:
    """Write the newest checkpoint as a folder in the transformers layout, with the target's tokenizer.

    `shares`: of a parallel draft, how often each guess of a pass is right, for its README.
    """
    checkpoint = require_checkpoint(run)
    state = json.loads((checkpoint / "state.json").read_text(encoding="utf-8"))
    shape = Shape(**state["shape"])
    tokenizer = load_tokenizer(source_of(model))
    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        name: weight.to(torch.float16).contiguous() for name, weight in load_weights(checkpoint).items()
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    ends = {
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": None,
    }
    kept = {"specdec_training": {key: state[key] for key in ("step", "tokens", "seconds")}}
    mask = {"pard_token": shape.vocab - 1} if state.get("ahead", 1) > 1 else {}
    write_json(folder / "config.json", llama_config(shape) | ends | mask | kept)
    if shares:
        (folder / "README.md").write_text(_readme(target, shape, state, shares), encoding="utf-8")
    write_json(folder / "generation_config.json", {**ends, "do_sample": False})
    tokenizer.save_pretrained(folder)


def _readme(target: Frozen, shape: Shape, state: dict[str, Any], shares: list[float]) -> str:
    rows = [[str(number), f"{share:.3f}"] for number, share in enumerate(shares, start=1)]
    return f"""# A parallel draft for {target.name}

It guesses up to {state["ahead"]} tokens in one pass: after the text it reads mask tokens (id {shape.vocab - 1}),
each of which guesses one token further on. {shape.parameter_count():,} parameters, {shape.layers} layers, stored in
16 bits. It shares the target's tokenizer, and guesses one token at a time as well. {made_by("draft", state)}

How often the target itself would write the guessed token after the true text, on held-out text, each guess of a pass:

{table(["guess", "right"], rows)}
"""
