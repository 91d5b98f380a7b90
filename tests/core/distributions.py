"""The exact distribution of a text, the frequencies of sampled ones, and whether they agree; and wrong rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from scipy.stats import chi2, norm

import specdec_core as sd
from specdec_core.models.bundle import HubModel
from specdec_core.rules import Judgement
from specdec_core.rules.speculative_sampling import SpeculativeSampling
from specdec_core.sampling import Warp
from specdec_core.tree import TokenTree
from specdec_measure.testing import NextProbs

Text = tuple[int, ...]
# texts expected less often than this are counted together, as chi-square's approximation wants
SMALLEST = 5.0
CAP = 3.0  # of a token's score


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


def texts_of(
    models: sd.Models, prompt: Sequence[int], settings: sd.Settings, seeds: Iterable[int]
) -> list[Text]:
    """What is written with each seed."""
    return [
        tuple(sd.decode(models, prompt, settings.model_copy(update={"seed": seed})).token_ids)
        for seed in seeds
    ]


def sample(
    models: sd.Models, prompt: Sequence[int], settings: sd.Settings, count: int, seed: int = 0
) -> Counter[Text]:
    """How often each text was written, one decode per seed."""
    return Counter(texts_of(models, prompt, settings, range(seed, seed + count)))


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


Written = TypeVar("Written", Counter[Text], dict[Text, float])


def shortened(texts: Written, length: int) -> Written:
    """The same of the first `length` tokens: frequencies or probabilities of texts that begin alike, added up."""
    found = type(texts)()
    for text, number in texts.items():
        found[text[:length]] = found.get(text[:length], 0) + number
    return found


class Meter:
    """Whether texts follow a distribution: the smallest p-value of several comparisons, each sharp for other faults.

    - Pearson's chi-square over whole texts, and over their first three tokens, of which there are fewer kinds: any
      fault, given enough texts.
    - Leanings: how much the texts lean towards a wrong source of each token (see `_sources`). A leaning is a number
      that each text has, and the distribution says its mean and variance; so few texts show that all of them lean the
      same way, where chi-square would have to find it in hundreds of cells. What goes wrong in practice leans: to the
      draft, to an earlier row, to a text with a hole.

    Args:
        distribution: of whole texts.
        sources: further wrong sources: probabilities after a text (without the prompt), the draft's above all.
    """

    def __init__(self, distribution: dict[Text, float], *sources: NextProbs) -> None:
        self.distribution, self.short = distribution, shortened(distribution, 3)
        masses = np.array(list(distribution.values()))
        scores = _scores(distribution, sources)
        self.leaning = dict(zip(distribution, scores, strict=True))
        self.spread = np.sqrt((masses[:, None] * scores**2).sum(0))

    def chance(self, texts: Counter[Text]) -> float:
        """The probability of texts at least this far off by one of the comparisons, if the distribution is the true
        one."""
        if any(self.distribution.get(text, 0.0) == 0.0 for text in texts):
            return 0.0  # an impossible text was written
        return min(
            pearson(texts, self.distribution),
            pearson(shortened(texts, 3), self.short),
            float(2 * norm.sf(np.abs(self.leanings(texts)).max())),
        )

    def leanings(self, texts: Counter[Text]) -> Any:
        """How far the texts lean towards each wrong source, in standard deviations."""
        leaning = sum((self.leaning[text] * number for text, number in texts.items()), np.zeros(1))
        found = self.spread > 1e-9  # there is no such source where it is the right one
        return np.divide(
            leaning, self.spread * texts.total() ** 0.5, out=np.zeros_like(self.spread), where=found
        )

    def chances(self, written: Mapping[Case, Counter[Text]]) -> dict[str, float]:
        """`chance` of the texts of each case, of the cases that share a part of their name, and of all.

        So few texts of each case do: a fault of a rule or of a proposer shows in all its cases.
        """
        groups: dict[str, Counter[Text]] = {"all": Counter()}
        for case, texts in written.items():
            for group in {"all", "-".join(case), *case}:
                groups.setdefault(group, Counter()).update(texts)
        return {group: self.chance(texts) for group, texts in groups.items()}


def _scores(distribution: dict[Text, float], further: Sequence[NextProbs]) -> np.ndarray:
    """For each text and each wrong source the sum of its tokens' scores, (texts, sources): how much likelier the source
    writes a token than the distribution does, less what is expected, so that a text's mean is 0."""
    length, width = len(next(iter(distribution))), 1 + max(text[-1] for text in distribution)
    rows: dict[Text, np.ndarray] = {}  # the distribution's conditionals
    for end in range(1, length + 1):
        for text, mass in shortened(distribution, end).items():
            rows.setdefault(text[:-1], np.zeros(width))[text[-1]] = mass
    steps: dict[Text, np.ndarray] = {}  # a text without its last token → the scores of that, (width, sources)
    for text, row in rows.items():
        if row.sum() == 0.0:
            steps[text] = np.zeros((width, 1))
            continue
        p = row / row.sum()
        sources = np.stack(_sources(text, p, rows, further), 1)
        # capped: no rare token decides alone
        scores = np.divide(sources, p[:, None], out=np.zeros_like(sources), where=p[:, None] > 0.0).clip(
            max=CAP
        )
        steps[text] = scores - p @ scores
    return np.array([sum(steps[text[:end]][text[end]] for end in range(length)) for text in distribution])


def _sources(
    text: Text, p: np.ndarray, rows: dict[Text, np.ndarray], further: Sequence[NextProbs]
) -> list[np.ndarray]:
    """Where a decoder that is wrong might take the token after `text` from; p where there is no such place."""

    def row(other: Text) -> np.ndarray:
        mass = rows[other].sum()
        return rows[other] / mass if mass else p

    sources = [
        row(text[:-1]), row(text[:-2]), row(text[:-3]),  # rows that are too early
        row((*text[:-2], *text[-1:])),  # a text that lacks its last token but one
        p**2 / (p**2).sum(),  # too sharp, or too flat
        np.eye(len(p))[text[-1]] if text else p,  # the token before once more, or never
    ]  # fmt: skip
    for draft in further:
        q = np.asarray(draft(text))[: len(p)]
        liked = bool(text) and draft(text[:-1])[text[-1]] > row(text[:-1])[text[-1]]
        sources += [q, q if liked else p]  # anywhere, and after a token that the draft likes too much
    return sources


def chance_of(texts: Counter[Text], distribution: dict[Text, float], *sources: NextProbs) -> float:
    """`Meter.chance`, once."""
    return Meter(distribution, *sources).chance(texts)


def chances(
    written: Mapping[Case, Counter[Text]], distribution: dict[Text, float], *sources: NextProbs
) -> dict[str, float]:
    """`Meter.chances`, once."""
    return Meter(distribution, *sources).chances(written)


def after(prompt: Sequence[int], next_probs: NextProbs) -> NextProbs:
    """The same of a text that begins after the prompt."""
    return lambda text: next_probs((*prompt, *text))


def pearson(frequencies: Counter[Text], distribution: dict[Text, float]) -> float:
    """Pearson's chi-square: the probability (p-value) of frequencies at least this far off
    if `distribution` is the true one."""
    total = frequencies.total()
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


# Of forty random pairs one on which wrong rules show within few texts: the draft, which knows nothing of the target, is
# often kept and often wrong.
TARGET, DRAFT = wavering(3, seed=5), wavering(3, seed=105)


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
