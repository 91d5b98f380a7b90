"""A chat target's own training text: how its answers are drawn, and the files they are kept in, with the states that
heads learn from. `waves.py` writes them.

Heads and drafts guess what the target writes, so its own answers are the training text. Parts of a folder,
`part-0000.safetensors` and on, have

    tokens   int32 (n,)       prompt and answer of all conversations, concatenated, without the common prefix
    states   float16 (n, d)   the input of the target's output matrix at each
    lengths  int32 (c,)       tokens of each conversation
    prompts  int32 (c,)       how many of them are the prompt
    kinds    int32 (c,)       index into `instructions.KINDS`
    ways     int32 (c,)       index into `WAYS`
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

WAYS = ("greedy", "penalised", "sampled")  # T=0; T=0 with a repetition penalty; T=0.7 with top_p
SHARES = (0.55, 0.2, 0.25)
PENALTY, TEMPERATURE, TOP_K, TOP_P = 1.1, 0.7, 64, 0.95
REPEATS = 24  # an answer whose last 24 tokens occurred before is looping, and ends


def template(tokenizer: Any) -> tuple[list[int], list[int], str]:
    """Tokens before and after a user's words in the chat template, and the template around a marker."""
    mark = "\u241e"
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": mark}], tokenize=False, add_generation_prompt=True
    )
    before, after = text.split(mark)
    encode = tokenizer.encode
    return encode(before, add_special_tokens=False), encode(after, add_special_tokens=False), text


def sampled(logits: Tensor, temperature: float, chance: torch.Generator) -> Tensor:
    """A token of each row (n, V), with top-k and top-p: int64 (n,)."""
    values, ids = logits.topk(min(TOP_K, logits.shape[1]))
    chances = (values / temperature).softmax(-1)
    chances = chances.masked_fill(chances.cumsum(-1) - chances >= TOP_P, 0.0)
    drawn = torch.multinomial(chances, 1, generator=chance)
    return ids.gather(1, drawn)[:, 0]


def looping(written: Tensor) -> Tensor:
    """Whose last `REPEATS` tokens occurred before, looked at every fourth token: int64 (b, t) → bool (b,)."""
    count = written.shape[1]
    if count < 2 * REPEATS or count % 4:
        return torch.zeros(len(written), dtype=torch.bool, device=written.device)
    before = written[:, : count - REPEATS].unfold(1, REPEATS, 1)
    return (before == written[:, None, count - REPEATS :]).all(-1).any(1)


def store(path: Path, columns: dict[str, Tensor], note: dict[str, Any]) -> int:
    """Write a part and, last, its note, which marks it complete; returns the number of its tokens."""
    part = path.with_suffix(".partial")
    save_file(columns, part)
    part.rename(path)
    count = len(columns["tokens"])
    note = {**note, "tokens": count, "answers": count - int(columns["prompts"].sum())}
    path.with_suffix(".json").write_text(json.dumps(note) + "\n", encoding="utf-8")
    return count
