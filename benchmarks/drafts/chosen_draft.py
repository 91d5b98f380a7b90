"""Speculative decoding of random weights with a draft that guesses as well as is wanted.

The draft is the target's own first layers, with its final norm and output matrix. The layers above them are scaled
down until the two distributions overlap as much as wanted: at 0 they are equal.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

import specdec_core as sd
from benchmarks.parts import Found
from specdec_cli.profile import random_model
from specdec_core.models.bundle import HubModel
from specdec_core.runtime.cuda_graphs import works
from specdec_core.runtime.layers import decoder_layers, first_layers
from specdec_core.runtime.machine import describe, fitting_threads
from specdec_core.runtime.timing.width_curve import width_curve
from specdec_measure import theory
from specdec_measure.machines.model_sizes import Shape
from specdec_measure.testing import Letters

PROMPT = 128  # tokens, of the prompt and before the passes that are timed alone
PASSES = 30  # of each kind that are timed alone, at most
GAMMA = 4
RATES = (0.6, 0.8, 0.9)  # of acceptance
SPREAD = (
    2.0  # standard deviation of the target's logits over the temperature: at less all distributions are alike
)
LEAST, MOST = 3, 5  # turns


@dataclass(slots=True)
class Bench:
    """What is measured: one set of weights, with passes as graphs and without.

    Attributes:
        models, eager: target and draft, by which passes.
        model, draft: the same two in transformers; the draft is the first `kept` layers of the target.
        prompt: random token ids.
        read: bytes of weights that a pass over one token reads.
    """

    models: sd.Models
    eager: sd.Models
    model: PreTrainedModel
    draft: PreTrainedModel
    kept: int
    prompt: list[int]
    read: int

    @property
    def device(self) -> torch.device:
        """Of the weights."""
        return self.model.device

    @property
    def ids(self) -> Tensor:
        """The prompt as transformers takes it."""
        return torch.tensor([self.prompt], device=self.device)


def load(found: Found, one: Shape, device: torch.device, dtype: torch.dtype) -> Bench:
    """Random weights, made on the device, and the draft that shares them."""
    torch.manual_seed(0)
    model = random_model(one, device, dtype)
    for config in (model.config, model.generation_config):
        config.eos_token_id = None  # no text is to end early
    kept = max(1, one.layers // 10)
    draft = first_layers(model, kept)
    graphs = device.type == "cuda" and works(model) and works(draft)
    names = f"{one.name}, random weights", f"its first {kept} layers"

    def models(captured: bool) -> sd.Models:
        # without our own forward for CPUs: it would store the weights anew
        large, small = (
            HubModel(name, part, captured, lean=False)
            for name, part in zip(names, (model, draft), strict=True)
        )
        return sd.Models(
            Letters(one.vocabulary),
            large,
            small,
            device=device.type,
            dtype=str(dtype).removeprefix("torch."),
            machine=describe(device),
            threads=fitting_threads(device, one.parameters),
        )

    weights = model.named_parameters()  # a tied output matrix is among them once, as the embedding
    read = sum(each.nbytes for name, each in weights if one.tied or "embed_tokens" not in name)
    rng = random.Random(0)
    prompt = [rng.randrange(one.vocabulary) for _ in range(PROMPT)]
    found |= {"shape": one.name, "title": one.title, "layers": one.layers, "dtype": str(model.dtype)}
    found |= {"parameters": int(model.num_parameters()), "bytes_read_per_token": read}
    found |= {"draft_layers": kept, "graphs": graphs}
    return Bench(models(graphs), models(False), model, draft, kept, prompt, read)


class Upper:
    """The target's layers above the draft's, whose share in its states can be scaled."""

    def __init__(self, bench: Bench) -> None:
        self.bench, ids = bench, bench.ids
        layers: list[Any] = decoder_layers(bench.model)[bench.kept :]
        self.weights = [
            weight for one in layers for weight in (one.self_attn.o_proj.weight, one.mlp.down_proj.weight)
        ]
        self.whole = [weight.detach().clone() for weight in self.weights]
        with torch.inference_mode():
            spread = float(bench.model(ids, use_cache=False).logits[0].float().std())
        self.temperature = min(10.0, max(0.01, spread / SPREAD))

    @torch.no_grad()
    def scale(self, factor: float) -> None:
        """Scale their weights in place: captured passes read them where they lie."""
        for weight, whole in zip(self.weights, self.whole, strict=True):
            weight.copy_(whole * factor)

    @torch.inference_mode()
    def overlap(self, factor: float) -> float:
        """Σ min(p, q), the chance that a drawn guess is accepted, over the positions of the prompt."""
        self.scale(factor)
        p, q = (
            (model(self.bench.ids, use_cache=False).logits[0].float() / self.temperature).softmax(-1)
            for model in (self.bench.model, self.bench.draft)
        )
        return float(torch.minimum(p, q).sum(-1).mean())

    def reach(self, rate: float) -> tuple[float, float]:
        """The factor at which they overlap so much, and how much they do there; 1 where they overlap more."""
        low, high = 0.0, 1.0  # the overlap falls from 1
        if self.overlap(high) < rate:
            for _ in range(12):
                middle = (low + high) / 2
                low, high = (middle, high) if self.overlap(middle) >= rate else (low, middle)
        return high, self.overlap(high)


def speculative(bench: Bench, found: Found, until: float, new: int) -> None:
    """The gain over plain decoding at several rates of acceptance, beside the width-aware formula's."""
    curve = width_curve(bench.models, (1, GAMMA + 1), prefix=PROMPT, repeats=PASSES, budget_s=2.0)
    assert curve.draft_s is not None
    upper = Upper(bench)
    found |= {"gamma": GAMMA, "temperature": upper.temperature, "logits_over_temperature": SPREAD}
    found |= {"target_s": curve.table, "draft_s": curve.draft_s, "cost_ratio": curve.cost_ratio}
    share = (until - time.perf_counter()) / len(RATES)
    try:
        for rate in RATES:
            factor, overlap = upper.reach(rate)
            row: Found = {"scaled_by": factor, "overlap": overlap}
            found[f"{rate:g}"] = row
            compare(
                bench, row, time.perf_counter() + share, upper.temperature, new, curve.table, curve.draft_s
            )
    finally:
        upper.scale(1.0)


def compare(
    bench: Bench,
    row: Found,
    until: float,
    temperature: float,
    new: int,
    table: dict[int, float],
    draft_s: float,
) -> None:
    """Plain and speculative decoding in turn, each turn with its own seed; medians of ratios within a turn."""

    def decode(proposer: str, seed: int, length: int) -> sd.Trace:
        settings = sd.Settings(
            proposer=proposer, draft_length=GAMMA, max_new_tokens=length, temperature=temperature, seed=seed,
            record="off",
        )  # fmt: skip
        return sd.decode(bench.models, bench.prompt, settings)

    for proposer in ("none", "draft-model"):
        decode(proposer, 0, 8)
    measured, expected, rates, passes, rounds = [], [], [], [], []
    for turn in range(MOST):
        if turn >= LEAST and time.perf_counter() > until:
            break
        plain, drafted = (decode(proposer, turn, new).stats for proposer in ("none", "draft-model"))
        rate = drafted.acceptance_rate or 0.0
        rates.append(rate)
        passes.append(drafted.tokens / drafted.target_passes)
        measured.append(plain.decode_s / plain.tokens / (drafted.decode_s / drafted.tokens))
        expected.append(theory.speedup_on(table, theory.tokens_per_pass(rate, GAMMA), GAMMA, draft_s))
        times = (drafted.draft_s, drafted.verify_s, drafted.other_s)
        rounds.append([seconds / drafted.target_passes for seconds in times])
        row |= {
            "turns": turn + 1,
            "alpha": median(rates),
            "tokens_per_pass": median(passes),
            "measured_speedup": median(measured),
            "formula_speedup": median(expected),
            "measured_over_formula": median(one / two for one, two in zip(measured, expected, strict=True)),
            "measured_speedups": list(measured),
            "plain_tokens_per_s": plain.tokens_per_second,
            "round_s": dict(
                zip(("draft", "verify", "other"), map(median, zip(*rounds, strict=True)), strict=True)
            ),
        }
