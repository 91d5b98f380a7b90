"""A chat target writes its own training text: many answers at once, with the states that heads learn from.

Heads and drafts guess what the target writes, so its own answers are the training text. Slots of a batch are
refilled as answers end, so that every pass reads full rows. The forward is a plain Llama's, on matrices that oneDNN has
packed; `check` compares it with transformers.

Written to a folder, in parts of at most `PART` answers: `part-0000.safetensors` with

    tokens   int32 (n,)       prompt and answer of all conversations, concatenated, without the common prefix
    states   float16 (n, d)   the input of the target's output matrix at each
    lengths  int32 (c,)       tokens of each conversation
    prompts  int32 (c,)       how many of them are the prompt
    kinds    int32 (c,)       index into `instructions.KINDS`
    ways     int32 (c,)       index into `WAYS`
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from training.chat.plain_llama import PlainLlama
from training.data.instructions import KINDS, Instruction

PART = 128  # answers per file
WAYS = ("greedy", "penalised", "sampled")  # T=0; T=0 with a repetition penalty; T=0.7 with top_p
SHARES = (0.55, 0.2, 0.25)
PENALTY, TEMPERATURE, TOP_K, TOP_P = 1.1, 0.7, 64, 0.95
REPEATS = 24  # an answer whose last 24 tokens occurred before is looping, and ends


@dataclass
class Conversation:
    """One unfinished answer."""

    instruction: Instruction
    way: int
    prompt: list[int]
    tokens: list[int]
    states: list[Tensor] = field(default_factory=list)

    @property
    def answer(self) -> list[int]:
        """What the target has written."""
        return self.tokens[len(self.prompt) :]


class Writer(PlainLlama):
    """A Llama that decodes `slots` conversations at once.

    Args:
        model: a transformers LlamaForCausalLM in float32 on the CPU.
        slots: rows of a pass.
        longest: tokens of a conversation, the common prefix included.
        prefix: tokens that all conversations begin with; read once.
    """

    def __init__(self, model: Any, slots: int, longest: int, prefix: Sequence[int]) -> None:
        super().__init__(model, lambda matrix: _packed(matrix, slots), _product)
        self.slots, self.longest, self.prefix = slots, longest, list(prefix)
        shape = (slots, self.shared, longest, self.width)
        self.keys = [torch.zeros(shape) for _ in self.layers]
        self.values = [torch.zeros(shape) for _ in self.layers]
        self.lengths = torch.zeros(slots, dtype=torch.int64)
        if self.prefix:
            self.read(0, self.prefix)
            for block in (*self.keys, *self.values):
                block[1:, :, : len(self.prefix)] = block[:1, :, : len(self.prefix)]

    @torch.inference_mode()
    def read(self, slot: int, tokens: Sequence[int], start: int = 0) -> Tensor:
        """Read `tokens` into a slot after its first `start` rows; returns their states (n, d)."""
        count = len(tokens)
        places = torch.arange(start, start + count)
        rows = F.embedding(torch.tensor(tokens), self.embedding)
        mask = torch.ones(count, start + count, dtype=torch.bool).tril(start)
        for layer, weights in enumerate(self.layers):
            q, k, v = self.project(rows, weights, places)
            self.keys[layer][slot, :, start : start + count] = k.transpose(0, 1)
            self.values[layer][slot, :, start : start + count] = v.transpose(0, 1)
            group = self.heads // self.shared
            seen = F.scaled_dot_product_attention(
                q.reshape(count, self.shared, group, self.width).permute(1, 2, 0, 3).flatten(1, 2)[None],
                self.keys[layer][slot : slot + 1, :, : start + count],
                self.values[layer][slot : slot + 1, :, : start + count],
                attn_mask=mask.repeat(group, 1),
            )
            seen = seen[0].reshape(self.shared, group, count, self.width).permute(2, 0, 1, 3)
            rows = self.rest(rows, seen.reshape(count, -1), weights)
        self.lengths[slot] = start + count
        return self.states(rows)

    @torch.inference_mode()
    def step(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """One token int64 (slots,) for every slot; states (slots, d) and logits (slots, V)."""
        places = self.lengths
        total = int(places.max()) + 1
        every = torch.arange(self.slots)
        group = self.heads // self.shared
        mask = (torch.arange(total)[None] <= places[:, None])[:, None, None]
        rows = F.embedding(tokens, self.embedding)
        for layer, weights in enumerate(self.layers):
            q, k, v = self.project(rows, weights, places)
            keys, values = self.keys[layer], self.values[layer]
            keys[every, :, places] = k
            values[every, :, places] = v
            seen = F.scaled_dot_product_attention(
                q.reshape(self.slots, self.shared, group, self.width),
                keys[:, :, :total],
                values[:, :, :total],
                attn_mask=mask.expand(-1, -1, group, -1),
            )
            rows = self.rest(rows, seen.reshape(self.slots, -1), weights)
        self.lengths = places + 1
        states = self.states(rows)
        return states, _product(states, self.output)


@torch.inference_mode()
def write(
    folder: Path,
    model: Any,
    tokenizer: Any,
    instructions: Iterator[Instruction],
    seed: int,
    minutes: float,
    slots: int = 128,
    longest_prompt: int = 180,
    longest_answer: int = 160,
) -> int:
    """Let the target answer until the budget of minutes is spent; returns the number of tokens in the folder.

    A stopped run resumes: finished parts stay, and the instructions they used are skipped.
    """
    folder.mkdir(parents=True, exist_ok=True)
    done = sorted(folder.glob("part-*.safetensors"))
    notes = [json.loads(part.with_suffix(".json").read_text()) for part in done]
    spent = sum(note["seconds"] for note in notes)
    for _ in range(notes[-1]["instructions"] if notes else 0):
        next(instructions)
    used = notes[-1]["instructions"] if notes else 0
    total: int = sum(note["tokens"] for note in notes)
    prefix, suffix, turn = template(tokenizer)
    writer = Writer(model, slots, len(prefix) + longest_prompt + longest_answer + 1, prefix)
    chance = torch.Generator().manual_seed(seed + 7919 * len(done))
    ends = {tokenizer.eos_token_id}
    live: list[Conversation | None] = [None] * slots
    following = torch.zeros(slots, dtype=torch.int64)
    finished: list[Conversation] = []
    began = time.monotonic()
    while spent + time.monotonic() - began < 60 * minutes:
        for slot in range(slots):
            while live[slot] is None:
                instruction = next(instructions)
                used += 1
                prompt = tokenizer.encode(instruction.text, add_special_tokens=False) + suffix
                if len(prompt) > longest_prompt:
                    continue
                way = int(torch.multinomial(torch.tensor(SHARES), 1, generator=chance))
                states = writer.read(slot, prompt, len(prefix))
                talk = Conversation(instruction, way, prompt, list(prompt), [states])
                live[slot] = talk
                following[slot] = int(_choose(states[-1:] @ model.lm_head.weight.T, [talk], chance)[0])
        states, logits = writer.step(following)
        talks = [talk for talk in live if talk is not None]
        for slot, talk in enumerate(talks):
            talk.tokens.append(int(following[slot]))
            talk.states.append(states[slot : slot + 1].half())
        following = _choose(logits, talks, chance)
        for slot, talk in enumerate(talks):
            last = talk.tokens[-1]
            if (
                last in ends
                or len(talk.answer) >= longest_answer
                or bool(looping(torch.tensor([talk.answer]))[0])
            ):
                finished.append(talk)
                live[slot] = None
                writer.lengths[slot] = len(prefix)
        if len(finished) >= PART:
            seconds = time.monotonic() - began
            count = _store(folder / f"part-{len(done):04}.safetensors", finished, {
                "seconds": seconds, "instructions": used, "seed": seed, "turn": turn,
            })  # fmt: skip
            total, spent, began = total + count, spent + seconds, time.monotonic()
            done.append(folder)
            print(f"{len(done)} parts, {total} tokens, {count / seconds:.0f} tokens/s", flush=True)
            finished = []
    return total


def check(model: Any, tokens: Sequence[int]) -> float:
    """The largest difference from the states of transformers, for a text read at once and then step by step."""
    seen: list[Tensor] = []
    hook = model.lm_head.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    with torch.inference_mode():
        model(torch.tensor([tokens]), use_cache=False)
    hook.remove()
    half = len(tokens) // 2
    writer = Writer(model, 2, len(tokens) + 1, tokens[:4])
    found = [writer.read(1, tokens[4:half], 4)]
    for token in tokens[half:]:
        found.append(writer.step(torch.tensor([tokens[0], token]))[0][1:])
    return float((torch.cat(found) - seen[0][0, 4:]).abs().max())


def template(tokenizer: Any) -> tuple[list[int], list[int], str]:
    """Tokens before and after a user's words in the chat template, and the template around a marker."""
    mark = "\u241e"
    text = tokenizer.apply_chat_template(
        [{"role": "user", "content": mark}], tokenize=False, add_generation_prompt=True
    )
    before, after = text.split(mark)
    encode = tokenizer.encode
    return encode(before, add_special_tokens=False), encode(after, add_special_tokens=False), text


def _choose(logits: Tensor, talks: Sequence[Conversation], chance: torch.Generator) -> Tensor:
    """The next token of each row, sampled in its conversation's way: logits (n, V) → int64 (n,)."""
    logits = logits.clone()
    for row, talk in enumerate(talks):
        if WAYS[talk.way] == "penalised":
            seen = torch.tensor(sorted(set(talk.tokens)))
            values = logits[row, seen]
            logits[row, seen] = torch.where(values > 0, values / PENALTY, values * PENALTY)
    chosen = logits.argmax(-1)
    drawing = [row for row, talk in enumerate(talks) if WAYS[talk.way] == "sampled"]
    if drawing:
        chosen[drawing] = sampled(logits[drawing], TEMPERATURE, chance)
    return chosen


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


def _store(path: Path, talks: list[Conversation], note: dict[str, Any]) -> int:
    """Write these conversations as a part; returns the number of its tokens."""
    kinds = list(KINDS)
    tokens = torch.tensor([token for talk in talks for token in talk.tokens], dtype=torch.int32)
    return store(path, {
        "tokens": tokens,
        "states": torch.cat([state.half() for talk in talks for state in talk.states]),
        "lengths": torch.tensor([len(talk.tokens) for talk in talks], dtype=torch.int32),
        "prompts": torch.tensor([len(talk.prompt) for talk in talks], dtype=torch.int32),
        "kinds": torch.tensor([kinds.index(talk.instruction.kind) for talk in talks], dtype=torch.int32),
        "ways": torch.tensor([talk.way for talk in talks], dtype=torch.int32),
    }, note)  # fmt: skip


def store(path: Path, columns: dict[str, Tensor], note: dict[str, Any]) -> int:
    """Write a part and, last, its note, which marks it complete; returns the number of its tokens."""
    part = path.with_suffix(".partial")
    save_file(columns, part)
    part.rename(path)
    count = len(columns["tokens"])
    note = {**note, "tokens": count, "answers": count - int(columns["prompts"].sum())}
    path.with_suffix(".json").write_text(json.dumps(note) + "\n", encoding="utf-8")
    return count


def _packed(weight: Tensor, rows: int) -> Tensor:
    """A matrix packed once for products with about this many rows."""
    made: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), rows)
    return made


def _product(rows: Tensor, weight: Tensor) -> Tensor:
    made: Tensor = torch.ops.mkldnn._linear_pointwise(rows.contiguous(), weight, None, "none", [], "")
    return made
