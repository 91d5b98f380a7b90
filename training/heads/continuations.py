"""Which text do the bundled target's heads meet in use? What the target writes itself, from others' beginnings.

Beginnings are what visitors would type (`people.jsonl`), whole or its first words, those of training documents in the
proportions of the closing phase, instructions, and nothing at all. Half is written at T = 0, half at T = 0.7 or 1; a
text that loops ends there. The result is prepared data (`prepare.py`) of two sources, `greedy` and `sampled`, in the
proportion in which they were written.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, islice, pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from specdec_core.models import catalogue
from specdec_core.models.files.hub import load_model, load_tokenizer
from training.batches import SourceRows
from training.chat.waves import Waves
from training.data.instructions import instructions
from training.data.mix import FOCUS
from training.heads.rows import check_tokens, source_of
from training.shapes import EOS_ID

SHORTEST, LONGEST = 4, 160  # tokens of a beginning
WRITTEN = 160  # tokens that are added, at most
PEOPLE = Path(__file__).parents[1] / "data" / "people.jsonl"  # 1,963 prompts, written for this
FROM_NOTHING, FROM_INSTRUCTIONS, FROM_PEOPLE = 0.03, 0.07, 0.6  # shares of the beginnings
WHOLE = 0.4  # of the people's prompts; of the others the first words, so that few texts are written twice
TEMPERATURES = (0.7, 1.0)  # of the sampled half, wave by wave
HELD_OUT = 0.01  # of the texts of each source
GREEDY, SAMPLED = 0, 2  # ways of `waves`


def beginnings(data: Path, corpus: Path, tokenizer: Any, seed: int) -> Iterator[list[int]]:
    """Beginnings without end, as tokens; of documents of the prepared data no more than half of each."""
    typed = [json.loads(line)["prompt"] for line in PEOPLE.read_text(encoding="utf-8").splitlines()]
    people = [list(tokenizer.encode(prompt)[:LONGEST]) for prompt in typed]
    chance = random.Random(seed)
    names = list(FOCUS)
    sources = {name: SourceRows(data, name, index, LONGEST, seed) for index, name in enumerate(names)}
    asked = instructions(corpus, seed)
    while True:
        kind = chance.random()
        if kind < FROM_NOTHING:
            yield [EOS_ID]
        elif kind < FROM_NOTHING + FROM_INSTRUCTIONS:
            yield list(tokenizer.encode(next(asked).text)[:LONGEST])
        elif kind < FROM_NOTHING + FROM_INSTRUCTIONS + FROM_PEOPLE:
            prompt = chance.choice(people)
            yield prompt if chance.random() < WHOLE else prompt[: chance.randint(1, len(prompt))]
        else:
            source = sources[chance.choices(names, list(FOCUS.values()))[0]]
            at = chance.randrange(len(source.starts) - 1)
            document = source.ids[source.starts[at] : source.starts[at + 1]].tolist()
            if len(document) >= 2 * SHORTEST:
                yield document[: chance.randint(SHORTEST, min(LONGEST, len(document) // 2))]


def written(folder: Path, data: Path, corpus: Path, tokens: int, processes: int, rows: int) -> int:
    """Let the bundled target write, in so many processes; returns the number of tokens in `folder`.

    Raises:
        ValueError: if the prepared data is missing or not in the target's tokens.
    """
    check_tokens(data, catalogue.BUNDLED)
    parts = [folder / f"part-{seed}" for seed in range(1, processes + 1)]
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        jobs = [
            pool.submit(_alone, part, data, corpus, -(-tokens // processes), seed, rows)
            for seed, part in enumerate(parts, start=1)
        ]
        for job in jobs:
            job.result()
    return join(parts, folder)


def _alone(part: Path, data: Path, corpus: Path, tokens: int, seed: int, rows: int) -> int:
    torch.set_num_threads(1)  # two processes of one thread write faster than one of two
    source = source_of(catalogue.BUNDLED)
    model = load_model(source, torch.device("cpu"), torch.float32)
    return write(part, data, corpus, model, load_tokenizer(source), tokens, seed, rows)


def write(
    folder: Path, data: Path, corpus: Path, model: Any, tokenizer: Any, tokens: int, seed: int = 0, rows: int = 256,
    device: str = "cpu",
) -> int:  # fmt: skip
    """Continue beginnings, `rows` at once, until the texts have `tokens` tokens; returns their number.

    The folder is whole after every wave, so that an interrupted command loses one.
    """
    waves, given = Waves(model, device), beginnings(data, corpus, tokenizer, seed)
    chance = random.Random(seed)
    texts: dict[str, list[list[int]]] = {"greedy": [], "sampled": []}
    total, number, began = 0, 0, time.monotonic()
    while total < tokens:
        several = sorted(islice(given, 8 * rows), key=len)  # rows of a wave are alike in length
        for first in chance.sample(range(0, len(several), rows), 8):
            some = several[first : first + rows]
            chance.shuffle(some)
            ways = [GREEDY] * (rows // 2) + [SAMPLED] * (rows - rows // 2)
            wave = waves.answer(
                some, ways, WRITTEN, [EOS_ID], seed + number, TEMPERATURES[number % len(TEMPERATURES)]
            )
            for row, (way, prompt) in enumerate(zip(ways, some, strict=True)):
                written = wave.tokens[row, wave.width : wave.width + int(wave.counts[row])].tolist()
                text = [token for token in prompt + written if token != EOS_ID] + [EOS_ID]
                texts["greedy" if way == GREEDY else "sampled"].append(text)
                total += len(text)
            number += 1
            _store(folder, data, texts)
            print(f"{total:,} tokens, {total / (time.monotonic() - began):,.0f} tokens/s", flush=True)
            if total >= tokens:
                break
    return total


def join(parts: Sequence[Path], folder: Path) -> int:
    """The texts of several seeds as one; returns the number of tokens."""
    texts: dict[str, list[list[int]]] = {"greedy": [], "sampled": []}
    for part in parts:
        for name, found in texts.items():
            for side in ("heldout", "train"):
                ids = np.load(part / f"{name}.{side}.npy").tolist()
                starts = np.load(part / f"{name}.{side}.starts.npy").tolist()
                found += [ids[start:end] for start, end in pairwise(starts)]
    _store(folder, parts[0], texts)
    return sum(map(len, chain(*texts.values())))


def _store(folder: Path, data: Path, texts: dict[str, list[list[int]]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_bytes((data / "tokenizer.json").read_bytes())
    listed = []
    for name, found in texts.items():
        kept = max(1, int(HELD_OUT * len(found)))
        counts: dict[str, int] = {}
        for part, some in (("heldout", found[:kept]), ("train", found[kept:])):
            ids = np.array([token for text in some for token in text], dtype=np.uint16)
            np.save(folder / f"{name}.{part}.npy", ids)
            np.save(folder / f"{name}.{part}.starts.npy", np.cumsum([0, *map(len, some)]).astype(np.int64))
            counts |= {f"{part}_documents": len(some), f"{part}_tokens": len(ids)}
        listed.append({"name": name, "family": "own", "weight": counts["train_tokens"], **counts})
    (folder / "manifest.json").write_text(json.dumps(listed, indent=2), encoding="utf-8")
