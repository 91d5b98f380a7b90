"""A chat target answers thousands of instructions at once; also the user's turns that it makes up itself.

Rows of a wave have prompts of similar length, padded on the left, so that every row writes the same column of the KV
cache. A wave runs until nearly all its rows have ended. Products are in float32 (TF32 where the device has it), on a
GPU the KV cache in 16 bits.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from training.chat import answers
from training.chat.answers import PENALTY, SHARES, TEMPERATURE, looping, sampled
from training.chat.plain_llama import PlainLlama
from training.data.instructions import KINDS, OWN, Instruction

CHUNK = 512  # rows whose prompts are read together
DONE = 0.98  # of a wave's rows; the others are cut off there
TURN = 60  # most tokens of a user's turn that the target makes up
AHEAD = 6  # waves whose prompts are sorted by length together
BLOCKED = -1e9


@dataclass(frozen=True)
class Wave:
    """What the rows of a wave wrote.

    Attributes:
        tokens: int64 (b, t), columns before a row's `pads` are padding.
        states: (b, t, d), what the target's output matrix read at each.
        pads, counts: int64 (b,), columns of padding, and tokens written after the prompt.
        width: columns of the prompts.
    """

    tokens: Tensor
    states: Tensor
    pads: Tensor
    counts: Tensor
    width: int


class Waves(PlainLlama):
    """A Llama that decodes many rows at once.

    Args:
        model: a transformers LlamaForCausalLM in float32; its weights are copied to `device`.
    """

    def __init__(self, model: Any, device: str) -> None:
        super().__init__(model, device=device)
        self.narrow = torch.float16 if self.device.type == "cuda" else torch.float32
        self.block = torch.empty(0, dtype=self.narrow, device=self.device)

    @torch.inference_mode()
    def answer(
        self, prompts: Sequence[Sequence[int]], ways: Sequence[int], longest: int, ends: Sequence[int], seed: int,
        temperature: float = TEMPERATURE,
    ) -> Wave:  # fmt: skip
        """Continue every prompt by at most `longest` tokens, in its way; `ways` rise, so that each is one range."""
        width, rows = max(map(len, prompts)), len(prompts)
        pads = torch.tensor([width - len(prompt) for prompt in prompts], device=self.device)
        tokens = torch.zeros(rows, width + longest, dtype=torch.int64)
        for row, prompt in enumerate(prompts):
            tokens[row, width - len(prompt) : width] = torch.tensor(prompt)
        tokens = tokens.to(self.device)
        states = torch.empty(*tokens.shape, self.norm.shape[0], dtype=self.narrow, device=self.device)
        cache = self._cache(rows, width + longest)
        for first in range(0, rows, CHUNK):
            some = slice(first, min(rows, first + CHUNK))
            states[some, :width] = self._read(tokens[some, :width], pads[some], cache[:, :, some]).to(
                self.narrow
            )
        choose = Choice(tokens[:, :width], pads, ways, seed, temperature, len(self.output))
        mask = torch.where(torch.arange(width + longest, device=self.device) < pads[:, None], BLOCKED, 0.0)
        mask = mask.to(self.narrow)[:, None, None]
        counts = torch.full((rows,), longest, device=self.device)
        alive = torch.ones(rows, dtype=torch.bool, device=self.device)
        stops = torch.tensor(list(ends), device=self.device)
        last = states[:, width - 1].float()
        for step in range(longest):
            following = choose(last @ self.output.T)
            column = width + step
            tokens[:, column] = following
            last = self._step(following, column, pads, cache, mask)
            states[:, column] = last.to(self.narrow)
            ended = alive & (torch.isin(following, stops) | looping(tokens[:, width : column + 1]))
            counts[ended] = step + 1
            alive &= ~ended
            if int(alive.sum()) <= (1 - DONE) * rows:
                counts[alive] = step + 1
                break
        return Wave(tokens, states, pads, counts, width)

    def _cache(self, rows: int, columns: int) -> Tensor:
        """Keys and values (2, layers, rows, kv heads, columns, width), in memory that the next wave uses again."""
        shape = (2, len(self.layers), rows, self.shared, columns, self.width)
        size = torch.Size(shape).numel()
        if len(self.block) < size:
            self.block = torch.empty(0, dtype=self.narrow, device=self.device)
            self.block = torch.empty(size, dtype=self.narrow, device=self.device)
        return self.block[:size].view(shape)

    def _read(self, tokens: Tensor, pads: Tensor, cache: Tensor) -> Tensor:
        """Read whole prompts (b, t); states (b, t, d)."""
        count = tokens.shape[1]
        every = torch.arange(count, device=self.device)
        places = (every - pads[:, None]).clamp(min=0)
        seen = (every[None] <= every[:, None]) & (every >= pads[:, None, None])
        seen = (seen | torch.eye(count, dtype=torch.bool, device=self.device))[:, None]
        rows = F.embedding(tokens, self.embedding)
        group = self.heads // self.shared
        for layer, weights in enumerate(self.layers):
            q, k, v = (part.transpose(1, 2) for part in self.project(rows, weights, places))
            cache[0, layer, :, :, :count], cache[1, layer, :, :, :count] = k, v
            k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            rows = self.rest(rows, mixed.transpose(1, 2).flatten(2), weights)
        return self.states(rows)

    def _step(self, tokens: Tensor, column: int, pads: Tensor, cache: Tensor, mask: Tensor) -> Tensor:
        """One token (b,) of every row, in that column; states (b, d)."""
        rows = F.embedding(tokens, self.embedding)
        count, group = len(rows), self.heads // self.shared
        for layer, weights in enumerate(self.layers):
            q, k, v = self.project(rows[:, None], weights, column - pads[:, None])
            keys, values = cache[0, layer], cache[1, layer]
            keys[:, :, column], values[:, :, column] = k[:, 0], v[:, 0]
            asked = (q * self.width**-0.5).to(self.narrow).view(count, self.shared, group, self.width)
            scores = asked @ keys[:, :, : column + 1].transpose(2, 3) + mask[..., : column + 1]
            chances = scores.float().softmax(-1).to(self.narrow)
            mixed = (chances @ values[:, :, : column + 1]).float().reshape(count, -1)
            rows = self.rest(rows, mixed, weights)
        return self.states(rows)


class Choice:
    """The next token of every row, each in its way: those of a way are one range of rows."""

    def __init__(
        self, prompts: Tensor, pads: Tensor, ways: Sequence[int], seed: int, temperature: float, vocabulary: int
    ) -> None:  # fmt: skip
        first, second, end = (sum(way < bound for way in ways) for bound in (1, 2, 3))
        self.penalised, self.sampled, self.temperature = slice(first, second), slice(second, end), temperature
        self.chance = torch.Generator(prompts.device).manual_seed(seed)
        self.seen = torch.zeros(second - first, vocabulary, dtype=torch.bool, device=prompts.device)
        if second > first:
            some, inside = prompts[self.penalised], torch.arange(prompts.shape[1], device=prompts.device)
            row, column = (inside >= pads[self.penalised][:, None]).nonzero().unbind(1)
            self.seen[row, some[row, column]] = True

    def __call__(self, logits: Tensor) -> Tensor:
        """Logits float32 (b, V), changed in place → int64 (b,)."""
        if len(self.seen):
            values = logits[self.penalised]
            less = torch.where(values > 0, values / PENALTY, values * PENALTY)
            logits[self.penalised] = torch.where(self.seen, less, values)
        chosen = logits.argmax(-1)
        if len(self.seen):
            self.seen.scatter_(1, chosen[self.penalised][:, None], True)
        if self.sampled.start < self.sampled.stop:
            chosen[self.sampled] = sampled(logits[self.sampled], self.temperature, self.chance)
        return chosen


def write(
    folder: Path, model: Any, tokenizer: Any, instructions: Iterator[Instruction], seed: int, tokens: int,
    rows: int = 4096, device: str = "cuda", own_waves: int = 0, longest_prompt: int = 180, longest_answer: int = 160,
) -> int:  # fmt: skip
    """Let the target answer until `tokens` are in the folder, in waves of `rows`; returns their number.

    The first `own_waves` waves' worth of prompts are the target's own, mixed with the instructions.
    """
    if any(folder.glob("part-*.safetensors")):
        raise ValueError(f"There are answers in {folder} already: choose another --runs, or delete them.")
    instructions = chain([next(instructions)], instructions)  # a missing corpus is noticed before long work
    folder.mkdir(parents=True, exist_ok=True)
    prefix, suffix, turn = answers.template(tokenizer)
    waves, ends = Waves(model, device), [int(tokenizer.eos_token_id)]
    own = [found for at in range(own_waves) for found in turns(waves, prefix, ends, rows, seed + at)]
    given = _prompts(instructions, own, tokenizer, longest_prompt - len(suffix), rows)
    chance = torch.Generator().manual_seed(seed)
    total, number, storing = 0, 0, None
    with ThreadPoolExecutor(1) as background:
        while total < tokens:
            several = sorted(islice(given, AHEAD * rows), key=lambda one: len(one[1]))
            for first in torch.randperm(AHEAD, generator=chance).tolist():
                began = time.monotonic()
                some = several[first * rows : (first + 1) * rows]
                repeated = [one[2] for one in some]
                drawn = torch.multinomial(torch.tensor(SHARES), len(some), replacement=True, generator=chance)
                found = [2 if again else way for again, way in zip(repeated, drawn.tolist(), strict=True)]
                order = sorted(range(len(some)), key=lambda row: found[row])
                ways, chosen = [found[row] for row in order], [some[row] for row in order]
                wave = waves.answer(
                    [prefix + list(one[1]) + suffix for one in chosen],
                    ways,
                    longest_answer,
                    ends,
                    seed + number,
                )
                columns = _columns(wave, len(prefix), [one[0] for one in chosen], ways)
                if storing is not None:
                    storing.result()
                seconds = time.monotonic() - began
                note = {"seconds": seconds, "instructions": rows, "seed": seed, "turn": turn}
                path = folder / f"part-{number:04}.safetensors"
                storing = background.submit(answers.store, path, columns, note)
                total, number = total + len(columns["tokens"]), number + 1
                print(
                    f"{number} parts, {total} tokens, {len(columns['tokens']) / seconds:.0f} tokens/s",
                    flush=True,
                )
                if total >= tokens:
                    break
        if storing is not None:
            storing.result()
    return total


def turns(
    waves: Waves, prefix: Sequence[int], ends: Sequence[int], rows: int, seed: int
) -> list[tuple[int, ...]]:
    """What users would say, as the target makes it up at temperature 1 from the bare beginning of its template."""
    wave = waves.answer([prefix] * rows, [2] * rows, TURN, ends, seed, temperature=1.0)
    found = set()
    for written, count in zip(wave.tokens[:, wave.width :].tolist(), wave.counts.tolist(), strict=True):
        if count > 4 and written[count - 1] in ends:
            found.add(tuple(written[: count - 1]))
    return sorted(found)


def _prompts(
    instructions: Iterator[Instruction],
    own: Sequence[tuple[int, ...]],
    tokenizer: Any,
    longest: int,
    rows: int,
) -> Iterator[tuple[int, tuple[int, ...], bool]]:
    """Kind, tokens and whether they came before, without end; the target's own among the first."""
    kinds, known, left = list(KINDS), set[tuple[int, ...]](), list(own)
    share = 0.4 if own else 0.0
    chance = torch.Generator().manual_seed(len(own))
    while True:
        some = list(islice(instructions, rows))
        encoded = tokenizer([one.text for one in some], add_special_tokens=False)["input_ids"]
        for instruction, ids in zip(some, encoded, strict=True):
            if left and float(torch.rand((), generator=chance)) < share:
                prompt = left.pop()
                yield kinds.index(OWN), prompt, prompt in known
                known.add(prompt)
            if len(ids) <= longest:
                prompt = tuple(ids)
                yield kinds.index(instruction.kind), prompt, prompt in known
                known.add(prompt)


def _columns(wave: Wave, before: int, kinds: Sequence[int], ways: Sequence[int]) -> dict[str, Tensor]:
    """A wave as the columns of a part, without the common prefix of that many tokens."""
    every = torch.arange(wave.tokens.shape[1], device=wave.tokens.device)
    kept = (every >= wave.pads[:, None] + before) & (every < wave.width + wave.counts[:, None])
    return {
        "tokens": wave.tokens[kept].int().cpu(),
        "states": wave.states[kept].half().cpu(),
        "lengths": kept.sum(1).int().cpu(),
        "prompts": (wave.width - wave.pads - before).int().cpu(),
        "kinds": torch.tensor(kinds, dtype=torch.int32),
        "ways": torch.tensor(ways, dtype=torch.int32),
    }
