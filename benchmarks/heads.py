"""EAGLE-3 against EAGLE on one target: tokens per target pass, in a chain, in the usual tree and in deep ones.

    python -m benchmarks.heads                       the bundled models on the shipped prompts
    python -m benchmarks.heads --prompts my.jsonl    other prompts, as `specdec sweep --prompts` takes them; in
                                                     benchmarks/heads_prompts.jsonl 220 that no training has seen, in
                                                     heads_people.jsonl those of 2,066 of people, written by who had
                                                     seen nothing, whose continuation is no loop; none was chosen by
    python -m benchmarks.heads --heldout training/runs/data
                                                     beginnings of documents that were held back from training
    python -m benchmarks.heads --tree-temperature 0.65
                                                     as the option of that name; else what is measured for each head
    python -m benchmarks.heads --eagle FOLDER --eagle3 FOLDER
    python -m benchmarks.heads --block FOLDER --eagle FOLDER
                                                     a block head against an EAGLE head instead: as many guesses as the
                                                     block has, in a chain and in trees; with the time of drafting

Prompts whose plain continuation is a loop are left out: any head guesses a loop well. Passes are counted, so the
figures do not depend on the machine. The interval is a bootstrap over prompts.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import specdec_core as sd
from specdec_measure.records.repeats import LOOP
from specdec_measure.sweep.cases import ORDER, from_jsonl, shipped

TREES: dict[str, dict[str, float]] = {
    "chain of 5": {"nodes": 5, "depth": 5, "top_k": 1},  # as vLLM runs both
    "usual": {},
    "usual, 8 levels": {"depth": 8},
    "32 in 8 levels": {"nodes": 32, "depth": 8, "top_k": 10},
    "59 in 8 levels": {"nodes": 59, "depth": 8, "top_k": 10},
}
BLOCKS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # what EAGLE has, and the block head
    "chain of 7": (
        {"options": {"nodes": 7, "depth": 7, "top_k": 1}},
        {"draft_length": 7},
    ),
    "tree of 16": ({"options": {"nodes": 16, "depth": 7, "top_k": 4}}, {"options": {"nodes": 16}}),
}
EACH = 4  # held-out documents of each source
BEGINNING = 32  # tokens of each, at most
DRAWS = 10_000


def beginnings(data: Path, models: sd.Models) -> Iterator[str]:
    """The first tokens of held-out documents of the prepared data, as text."""
    for source in json.loads((data / "manifest.json").read_text(encoding="utf-8")):
        ids = np.load(data / f"{source['name']}.heldout.npy")
        starts = np.load(data / f"{source['name']}.heldout.starts.npy")
        for start, end in list(pairwise(starts))[:EACH]:
            known = [int(one) for one in ids[start:end] if int(one) not in models.eos]
            yield models.codec.decode(known[: min(BEGINNING, max(1, len(known) // 2))])


def interval(one: np.ndarray, other: np.ndarray) -> tuple[float, float, float]:
    """The ratio of tokens per pass, other / one, and its 95% interval; (n, 2) each: tokens and passes of a prompt."""

    def rates(counts: np.ndarray) -> np.ndarray:
        found: np.ndarray = counts[..., 0].sum(-1) / counts[..., 1].sum(-1)
        return found

    drawn = np.random.default_rng(0).integers(0, len(one), (DRAWS, len(one)))
    low, high = np.percentile(rates(other[drawn]) / rates(one[drawn]), (2.5, 97.5))
    return float(rates(other) / rates(one)), float(low), float(high)


def main(argv: Sequence[str] | None = None) -> None:
    """Decode everything and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--eagle", help="folder of the EAGLE head; default: the one that ships")
    parser.add_argument("--eagle3", help="folder of the EAGLE-3 head; default: the one that ships")
    parser.add_argument("--block", help="folder of a block head, to be compared with EAGLE instead")
    parser.add_argument("--limit", type=int, help="the first so many prompts of each")
    parser.add_argument("--prompts", type=Path, help="JSONL of other prompts")
    parser.add_argument("--heldout", type=Path, help="folder of prepared data")
    parser.add_argument("--tree-temperature", type=float, help="for both; default: as measured for each")
    parser.add_argument("--tokens", type=int, default=128, help="written to each prompt")
    given = parser.parse_args(argv)
    models = sd.load_models(eagle=given.eagle, eagle3=given.eagle3, block=given.block)
    if given.heldout:
        prompts = list(beginnings(given.heldout, models))
    else:
        cases = from_jsonl(given.prompts.read_bytes()) if given.prompts else shipped(ORDER)
        prompts = [case.prompt for case in cases]
    prompts = prompts[: given.limit]
    settings = sd.Settings(max_new_tokens=given.tokens, record="off")
    plain = [sd.decode(models, prompt, settings.but(proposer="none")) for prompt in prompts]
    kept = [prompt for prompt, trace in zip(prompts, plain, strict=True) if trace.loops().share < LOOP]
    print(f"{len(prompts)} prompts, {len(prompts) - len(kept)} of them left out as loops")
    if given.block:
        return against_block(models, kept, settings)
    print(f"{'tokens per target pass':24}{'EAGLE':>8}{'EAGLE-3':>9}{'ratio':>8}  95% interval")
    for name, options in TREES.items():
        counts = []
        if given.tree_temperature is not None:
            options = {**options, "tree_temperature": given.tree_temperature}
        for proposer in ("eagle", "eagle3"):
            lane = settings.but(proposer=proposer, options=options)
            runs = [sd.decode(models, prompt, lane).stats for prompt in kept]
            counts.append(np.array([(run.tokens, run.target_passes) for run in runs], float))
        one, other = (found[:, 0].sum() / found[:, 1].sum() for found in counts)
        ratio, low, high = interval(*counts)
        print(f"{name:24}{one:8.2f}{other:9.2f}{ratio:8.3f}  {low:.3f} to {high:.3f}", flush=True)


def against_block(models: sd.Models, prompts: Sequence[str], settings: sd.Settings) -> None:
    """Print the block head's tokens per pass and the time of its drafting against the EAGLE head's."""
    print(
        f"{'tokens per target pass':24}{'EAGLE':>8}{'block':>9}{'ratio':>8}  95% interval      drafting, ms a round"
    )
    for name, lanes in BLOCKS.items():
        counts, times = [], []
        for proposer, given in zip(("eagle", "block"), lanes, strict=True):
            lane = settings.but(proposer=proposer, **given)
            runs = [sd.decode(models, prompt, lane).stats for prompt in prompts]
            counts.append(np.array([(run.tokens, run.target_passes) for run in runs], float))
            times.append(statistics.median(1e3 * run.draft_s / run.target_passes for run in runs))
        one, other = (found[:, 0].sum() / found[:, 1].sum() for found in counts)
        ratio, low, high = interval(*counts)
        print(
            f"{name:24}{one:8.2f}{other:9.2f}{ratio:8.3f}  {low:.3f} to {high:.3f}  {times[0]:.2f} → {times[1]:.2f}, "
            f"{times[1] / times[0]:.2f}×",
            flush=True,
        )


if __name__ == "__main__":
    main()
