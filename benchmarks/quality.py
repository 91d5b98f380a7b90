"""What 8-bit weights change: `python -m benchmarks quality`.

The target answers prompts of people, drawn at temperature 1, and every way of rounding reads the same tokens: the
share of places where it finds the same token likeliest, the mean KL divergence from float32 in nats, and the ratio of
the perplexities. llama.cpp's Q8_0 is computed twice: its scheme here in torch (weights, and what is multiplied with
them, in groups of 32 with a scale in float16), and by llama.cpp itself on the file that `peers` writes, if it is there.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import specdec_core as sd
from specdec_core.models import catalogue
from specdec_core.models.files.hub import load_model
from specdec_core.models.files.sources import locate
from specdec_core.tree import TokenTree

from . import peers

GROUP = 32
LEVELS = 127
EVERY = 4  # of the questions
LENGTH = 160  # tokens of an answer
TARGET = "target-Q8_0.gguf"
QUESTIONS = peers.HERE / "heads_people.jsonl"  # nothing was trained on them, or tuned by them

Read = Callable[[list[int]], Tensor]
"""Ids (n,) → logits or log-probabilities (n, V), float32."""


def rounded(values: Tensor) -> Tensor:
    """Q8_0 of float32 (…, k × 32): each group's levels times its scale in float16."""
    groups = values.unflatten(-1, (-1, GROUP))
    exact = groups.abs().amax(-1, keepdim=True) / LEVELS
    levels = torch.where(exact > 0, groups / exact, 0.0).round()
    found: Tensor = (levels * exact.half().float()).flatten(-2)
    return found


class Rounded(nn.Module):
    """A linear layer whose weights and input are rounded so."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(rounded(weight), requires_grad=False)

    def forward(self, values: Tensor) -> Tensor:
        return F.linear(rounded(values), self.weight)


def as_q8_0(model: Any) -> Any:
    """The model with all its matrices in Q8_0, in place."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Linear):
                setattr(module, name, Rounded(child.weight.detach()))
    table = model.get_input_embeddings()
    table.weight = nn.Parameter(rounded(table.weight.detach()), requires_grad=False)
    return model


def of_transformers(model: Any) -> Read:
    """What transformers computes."""
    return lambda ids: model(torch.tensor([ids])).logits[0].float()


def of_lab(models: sd.Models) -> Read:
    """What the lab computes, in the passes that it decodes with."""

    def read(ids: list[int]) -> Tensor:
        reader = models.target.reader(len(ids) + 1, len(ids))
        return reader.read(ids[0], TokenTree.chain(ids[1:]))

    return read


def of_llama_cpp(folder: Path, place: Path) -> Read:
    """What llama.cpp computes on the file in Q8_0, one token after the other."""
    child = peers.llama_cpp(folder, {"one": {"model": str(folder / TARGET)}})
    file = place / "shares"

    def read(ids: list[int]) -> Tensor:
        child(way="one", ids=ids, file=str(file))
        shares = torch.from_numpy(np.fromfile(file, np.float32)).view(len(ids), -1)
        return shares.clamp_min(torch.finfo(torch.float32).tiny).log()

    return read


class Sums:
    """What is summed over the places of an answer."""

    def __init__(self) -> None:
        self.places = self.same = 0
        self.divergence = self.loss = self.exact_loss = 0.0

    def add(self, exact: Tensor, found: Tensor, written: Sequence[int]) -> None:
        """One answer: logits float32 (n, V) in float32 and of a way, and the tokens that were written (n,)."""
        p, q = exact.double().log_softmax(-1), found.double().log_softmax(-1)
        chosen = torch.tensor(list(written)).unsqueeze(1)
        self.places += len(written)
        self.same += int((p.argmax(-1) == q.argmax(-1)).sum())
        self.divergence += float((p.exp() * (p - q)).sum())
        self.exact_loss -= float(p.gather(1, chosen).sum())
        self.loss -= float(q.gather(1, chosen).sum())

    @property
    def figures(self) -> tuple[float, float, float]:
        """Share of places with the same likeliest token, mean divergence, ratio of perplexities."""
        return (
            self.same / self.places,
            self.divergence / self.places,
            math.exp((self.loss - self.exact_loss) / self.places),
        )


def answers(models: sd.Models, count: int, file: Path) -> list[tuple[list[int], int]]:
    """Texts as ids and the length of their prompts: `count` tokens of answers in all, kept in a file."""
    if file.exists():
        return [tuple(row) for row in json.loads(file.read_text(encoding="utf-8"))]
    found: list[tuple[list[int], int]] = []
    written = 0
    for seed, question in enumerate(QUESTIONS.read_text(encoding="utf-8").splitlines()[::EVERY]):
        if written >= count:
            break
        ids = models.chat(json.loads(question)["prompt"])
        settings = sd.Settings(
            temperature=1.0, seed=seed, max_new_tokens=min(LENGTH, count - written), record="off"
        )
        tokens = list(sd.decode(models, ids, settings).token_ids)
        found.append(([*ids, *tokens], len(ids)))
        written += len(tokens)
    file.write_text(json.dumps(found), encoding="utf-8")
    return found


@torch.inference_mode()
def main(argv: Sequence[str] | None = None) -> None:
    """Write the answers, read them in every way, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks quality", description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=peers.FOLDER, help="of the peers, and of the answers")
    parser.add_argument("--tokens", type=int, default=8000)
    parser.add_argument("--only", default="", help="ways whose name contains this")
    given = parser.parse_args(argv)
    given.folder.mkdir(parents=True, exist_ok=True)
    texts = answers(
        sd.load_models(catalogue.CHAT, device="cpu", weights="16-bit"),
        given.tokens,
        given.folder / f"answers-{given.tokens}.json",
    )

    def loaded() -> Any:
        return load_model(locate(catalogue.CHAT), torch.device("cpu"), torch.float32)

    exact = of_transformers(loaded())
    with TemporaryDirectory() as place:
        ways: dict[str, Callable[[], Read]] = {
            "the lab, 16-bit": lambda: of_lab(sd.load_models(catalogue.CHAT, device="cpu", weights="16-bit")),
            "the lab, 8-bit": lambda: of_lab(sd.load_models(catalogue.CHAT, device="cpu", weights="8-bit")),
            "Q8_0 in torch": lambda: of_transformers(as_q8_0(loaded())),
        }
        if (given.folder / TARGET).exists():
            ways["llama.cpp, Q8_0"] = lambda: of_llama_cpp(given.folder, Path(place))
        print(
            "| way | places | same likeliest token | mean KL, nats | perplexity / float32 |\n|---|---|---|---|---|"
        )
        for name, made in ways.items():
            if given.only not in name:
                continue
            read, sums = made(), Sums()
            for ids, start in texts:
                kept = slice(start - 1, -1)
                sums.add(exact(ids)[kept], read(ids)[kept], ids[start:])
            same, divergence, perplexity = sums.figures
            print(
                f"| {name} | {sums.places} | {100 * same:.2f}% | {divergence:.5f} | {perplexity:.4f} |",
                flush=True,
            )
