"""The exact distribution of a text, the frequencies of sampled ones, and whether they agree; and wrong rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
import torch
from scipy.stats import chi2

import specdec_core as sd
from specdec_core.models.bundle import HubModel
from specdec_core.rules import Judgement
from specdec_core.rules.speculative_sampling import SpeculativeSampling
from specdec_core.sampling import Warp
from specdec_core.testing import NextProbs
from specdec_core.tree import TokenTree

Text = tuple[int, ...]
# texts expected less often than this are counted together, as chi-square's approximation wants
SMALLEST = 5.0


def exact_distribution(
    next_probs: NextProbs, prompt: Sequence[int], length: int, warp: Warp
) -> dict[Text, float]:
    """Probability of every text of `length` tokens: the product of the target's warped conditionals."""
    width = len(next_probs(tuple(prompt)))
    chances: dict[Text, float] = {(): 1.0}
    for _ in range(length):
        longer: dict[Text, float] = {}
        for text, chance in chances.items():
            probs = warp(
                torch.tensor(next_probs((*prompt, *text)), dtype=torch.float64).log().float()
            ).double()
            for token in range(width):
                longer[(*text, token)] = chance * float(probs[token])
        chances = longer
    return chances


def model_next_probs(model: HubModel) -> NextProbs:
    """A real model's conditionals by a plain transformers pass over the whole text, without a KV cache."""
    known: dict[Text, list[float]] = {}

    def next_probs(text: Text) -> Sequence[float]:
        if text not in known:
            with torch.inference_mode():
                ids = torch.tensor([text], device=model.model.device)
                known[text] = model.model(ids).logits[0, -1].double().softmax(-1).tolist()
        return known[text]

    return next_probs


def sample(
    models: sd.Models, prompt: Sequence[int], settings: sd.Settings, count: int, seed: int = 0
) -> Counter[Text]:
    """How often each text was written, one decode per seed."""
    base = settings.model_dump()
    return Counter(
        tuple(sd.decode(models, prompt, sd.Settings(**{**base, "seed": seed + number})).token_ids)
        for number in range(count)
    )


Case = tuple[str, ...]
"""What a case is called: a rule and a proposer, say."""


def samples(
    models: sd.Models, prompt: Sequence[int], cases: Mapping[Case, sd.Settings], count: int
) -> dict[Case, Counter[Text]]:
    """`count` texts of each case, each with seeds of its own, so that the cases together are one sample."""
    return {
        case: sample(models, prompt, settings, count, seed=number * count)
        for number, (case, settings) in enumerate(cases.items())
    }


def chances(written: Mapping[Case, Counter[Text]], distribution: dict[Text, float]) -> dict[str, float]:
    """`chance_of` the texts of each case, of the cases that share a part of their name, and of all.

    So few texts of each case do: a fault of a rule or of a proposer shows in all its cases. Besides whole texts the
    first three tokens are counted, of which there are fewer kinds; the smaller chance is given.
    """
    groups: dict[str, Counter[Text]] = {"all": Counter()}
    for case, texts in written.items():
        for group in {"all", "-".join(case), *case}:
            groups.setdefault(group, Counter()).update(texts)
    short = shortened(distribution, 3)
    return {
        group: min(chance_of(texts, distribution), chance_of(shortened(texts, 3), short))
        for group, texts in groups.items()
    }


def chance_of(frequencies: Counter[Text], distribution: dict[Text, float]) -> float:
    """Pearson's chi-square: the probability (p-value) of frequencies at least this far off
    if `distribution` is the true one."""
    total = frequencies.total()
    if any(distribution.get(text, 0.0) == 0.0 for text in frequencies):
        return 0.0  # an impossible text was written
    ordered = sorted(distribution, key=distribution.__getitem__)
    seen, expected = [0.0], [0.0]
    for text in ordered:
        if expected[-1] >= SMALLEST:
            seen.append(0.0)
            expected.append(0.0)
        seen[-1] += frequencies[text]
        expected[-1] += distribution[text] * total
    statistic = sum((one - other) ** 2 / other for one, other in zip(seen, expected, strict=True) if other)
    return float(chi2.sf(statistic, len(expected) - 1))


Frequencies = TypeVar("Frequencies", Counter[Text], dict[Text, float])


def shortened(texts: Frequencies, length: int) -> Frequencies:
    """The same of the first `length` tokens: frequencies or probabilities of texts that begin alike, added up."""
    found = type(texts)()
    for text, number in texts.items():
        found[text[:length]] = found.get(text[:length], 0) + number
    return found


def wavering(width: int, seed: int, sharpness: float = 1.5) -> NextProbs:
    """A distribution that depends on the whole text so far, so that a missing or doubled token shows at once."""
    known: dict[Text, list[float]] = {}

    def next_probs(text: Text) -> Sequence[float]:
        if text not in known:
            key = np.random.SeedSequence([seed, len(text), *text])
            logits = np.random.default_rng(key).normal(size=width) * sharpness
            known[text] = (np.exp(logits) / np.exp(logits).sum()).tolist()
        return known[text]

    return next_probs


def mixture(one: NextProbs, other: NextProbs, share: float) -> NextProbs:
    """A draft that partly agrees with the target."""
    return lambda text: [(1 - share) * a + share * b for a, b in zip(one(text), other(text), strict=True)]


class ResamplesFromP(SpeculativeSampling):
    """Wrong: after a rejection it draws from p itself instead of the residual."""

    name = "test-resamples-from-p"

    def judge(
        self, tree: TokenTree, p: torch.Tensor, q: torch.Tensor | None, coins: Sequence[float]
    ) -> Judgement:
        judgement = super().judge(tree, p, q, coins)
        judgement.final = p[judgement.path[-1] + 1 if judgement.path else 0]
        return judgement


class OneCoin(SpeculativeSampling):
    """Wrong: all nodes of a round share one coin, so that a lucky token is followed by lucky ones."""

    name = "test-one-coin"

    def judge(
        self, tree: TokenTree, p: torch.Tensor, q: torch.Tensor | None, coins: Sequence[float]
    ) -> Judgement:
        return super().judge(tree, p, q, [coins[0]] * len(tree) if len(tree) else coins)


class NoBonus(SpeculativeSampling):
    """Wrong: the token after the accepted path is drawn from the distribution at the root."""

    name = "test-stale-bonus"

    def judge(
        self, tree: TokenTree, p: torch.Tensor, q: torch.Tensor | None, coins: Sequence[float]
    ) -> Judgement:
        judgement = super().judge(tree, p, q, coins)
        if judgement.source == "bonus":
            judgement.final = p[0]
        return judgement


BROKEN = (ResamplesFromP, OneCoin, NoBonus)
