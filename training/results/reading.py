"""What does a model write? Continuations of the shipped prompts, and how often the draft agrees."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from training.shapes import SHAPES

PROMPT_FIELDS = ("name", "text", "look_for")


def load_prompts(folder: Path) -> dict[str, dict[str, Any]]:
    """The prompt files for models that continue a text, by family; a clear error where a file lacks something."""
    files = sorted(folder.glob("*.toml"))
    if not files:
        raise ValueError(f"No prompt files in {folder}: expected one <family>.toml for each family.")
    prompts = {}
    for path in files:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        missing = [field for field in ("title", "description", "prompt") if not content.get(field)]
        for number, prompt in enumerate(content.get("prompt", []), start=1):
            missing += [f"prompt {number}: {field}" for field in PROMPT_FIELDS if not prompt.get(field)]
        if missing:
            raise ValueError(f"{path.name} lacks {', '.join(missing)}: fill it in.")
        if content.get("audience", "text") == "text":
            prompts[path.stem] = content
    return prompts


def load_family(models: Path) -> tuple[dict[str, Any], Any]:
    """The exported models by name, the target first, float32 on the CPU; and their tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folders = {name: models / f"specdec-{name}" for name in SHAPES}
    for folder in folders.values():
        if not (folder / "config.json").is_file():
            raise ValueError(f"No model in {folder}: run the `export` stage first.")
    family = {
        name: AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        for name, folder in folders.items()
    }
    return family, AutoTokenizer.from_pretrained(folders["target"])


@torch.no_grad()
def continuation(model: Any, tokenizer: Any, text: str, tokens: int = 128) -> Tensor:
    """Greedy continuation: int64 [new] ids after those of `text` (EOS included if reached)."""
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    mask = torch.ones_like(ids)
    out: Tensor = model.generate(ids, attention_mask=mask, max_new_tokens=tokens, do_sample=False)
    return out[0, ids.shape[1] :]


@torch.no_grad()
def agreement(target: Any, draft: Any, prompt: Tensor, written: Tensor) -> tuple[float, float]:
    """How well the draft predicts `written` (int64 [n], the target's own text after `prompt`).

    Returns (share of positions where both prefer the same token, mean overlap sum(min(p, q)) at
    temperature 1, which is the expected acceptance rate of one proposed token).
    """
    ids = torch.cat([prompt, written])[None]
    start = len(prompt) - 1
    p, q = (torch.softmax(model(ids).logits[0, start:-1].float(), dim=-1) for model in (target, draft))
    same = (p.argmax(-1) == q.argmax(-1)).float().mean().item()
    return same, torch.minimum(p, q).sum(-1).mean().item()
