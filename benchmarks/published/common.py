"""What all makers share: the target, its states, random weights, and the form of the results.

State k is what the target's layer k reads; with n layers state n is what the last one returns, before the final norm.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

WIDTH, INNER, LAYERS, VOCABULARY, GUESSED = 32, 48, 7, 300, 100
DEPTH = 3  # guesses in a chain
LAYER: dict[str, Any] = {
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,  # the least that vLLM takes on a CPU
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-6,
    "rope_theta": 700.0,
}
"""The sizes of every head's layer."""
WIDE = {"embed": 1.0, "fc.weight": 0.04, "eh_proj": 0.2, "input_proj": 0.2}
"""Spread of random matrices by part of their name: what joins the states is small, so that the layer counts."""

QUIET = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TRANSFORMERS_VERBOSITY": "error", "PYTHONWARNINGS": "ignore"}
TEXT = [
    5, 55, 259, 206, 40, 1, 40, 169, 81, 287, 94, 3, 65, 268, 66, 101, 234, 196, 116, 79, 16, 111, 166, 87, 77, 253, 22,
    170, 181, 95,
]  # fmt: skip
"""Two tokens and what the target writes behind them by its likeliest token, so that engines can be asked as well."""

Step = Callable[[list[int], list[int]], Tensor]


@dataclass(frozen=True)
class Target:
    """The shared target's folder, its weights, the text, and the states at it.

    Attributes:
        folder: its config.json and model.safetensors.
        weights: by published name.
        states: state k for k = 0 … n, each (30, d).
        final: what its output matrix reads, (30, d).
    """

    folder: Path
    weights: dict[str, Tensor]
    states: tuple[Tensor, ...]
    final: Tensor

    def joined(self, layers: Sequence[int]) -> Tensor:
        """The states of these numbers side by side, (30, len(layers) · d)."""
        return torch.cat([self.states[layer] for layer in layers], -1)


@torch.inference_mode()
def target(folder: Path) -> Target:
    """The target, written to `folder` if it is not there."""
    from transformers import LlamaConfig, LlamaForCausalLM

    if not (folder / "config.json").exists():
        made = LlamaForCausalLM(LlamaConfig(num_hidden_layers=LAYERS, tie_word_embeddings=False, **LAYER))
        scatter(made, 14)
        made.save_pretrained(folder)
        (folder / "generation_config.json").unlink()
    model: Any = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    read: list[Tensor] = []
    for layer in model.model.layers:
        layer.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0][0]))
    model.model.norm.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0][0]))
    model.lm_head.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0][0]))
    logits = model(torch.tensor([TEXT])).logits[0]
    assert logits[1:-1].argmax(-1).tolist() == TEXT[2:], "the target writes another text"
    return Target(folder, load_file(folder / "model.safetensors"), tuple(read[:-1]), read[-1])


@torch.no_grad()
def scatter(module: nn.Module, seed: int) -> None:
    """Random weights everywhere, norms and biases as well, that bfloat16 can hold: an omitted one shows."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in sorted(module.named_parameters()):
        drawn = torch.randn(weight.shape, generator=generator)
        wide = next((size for part, size in WIDE.items() if part in name), 0.4)
        weight.copy_((1 + 0.4 * drawn if weight.ndim == 1 and "norm" in name else wide * drawn).bfloat16())


def draft_vocabulary() -> Tensor:
    """The target's tokens that a head with a reduced vocabulary may guess, int64 (k,) ascending."""
    return torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(2))[:GUESSED].sort().values


def chains(step: Step, ids: Tensor | None = None, depth: int = DEPTH) -> dict[str, Any]:
    """For each beginning of the text of two tokens or more, the maker's own likeliest chain.

    Args:
        step: of a beginning and the guesses behind it the logits (k,) of the next guess.
        ids: the target's tokens that are guessed, if not all.
        depth: guesses in a chain.
    """
    found: list[list[int]] = []
    top: list[list[list[float]]] = []
    for size in range(2, len(TEXT) + 1):
        chain: list[int] = []
        best: list[list[float]] = []
        for _ in range(depth):
            values, places = step(TEXT[:size], chain).float().topk(3)
            chosen = int(places[0])
            chain.append(chosen if ids is None else int(ids[chosen]))
            best.append([round(value, 4) for value in values.tolist()])
        found.append(chain)
        top.append(best)
    return {"chains": found, "top": top}


def write(
    folder: Path,
    kind: str,
    ran: str,
    found: dict[str, Any],
    layers: Sequence[int],
    tensors: dict[str, Tensor] | None = None,
    config: dict[str, Any] | None = None,
    file: str = "model.safetensors",
    text: list[int] | None = None,
) -> None:
    """Write guesses.json, and what the maker did not save itself.

    Args:
        folder: of the head.
        kind: what it is loaded as.
        ran: the maker's package, its version, and what of it was called.
        found: what `chains` returns.
        layers: the states that it reads, joined; none for what the output matrix reads.
        tensors: the weights by published name.
        config: entries of config.json.
        file: the weights' name.
        text: of the target in the same folder, where that is not the shared one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if tensors is not None:
        save_file({name: one.contiguous() for name, one in tensors.items()}, folder / file, {"format": "pt"})
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    facts = {"kind": kind, "ran": ran, "layers_read": list(layers), "text": text or TEXT}
    rows = {key: [json.dumps(row) for row in value] for key, value in found.items()}
    lists = ",\n".join(f'  "{key}": [\n    ' + ",\n    ".join(value) + "\n  ]" for key, value in rows.items())
    heads = "".join(f"  {json.dumps(key)}: {json.dumps(value)},\n" for key, value in facts.items())
    (folder / "guesses.json").write_text("{\n" + heads + lists + "\n}\n", encoding="utf-8")
    for one in folder.iterdir():
        one.chmod(0o644)
