"""k-SEQ against its equation, a direct summation, and the loop. That it is lossless on trees: test_exact.py."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

import specdec_core as sd
from specdec_core.rules.kseq import KSeq
from specdec_core.rules.speculative_sampling import SpeculativeSampling
from specdec_core.sampling import Warp
from specdec_core.tree import TokenTree
from specdec_measure.exact.distribution import distance, expected_accepted
from specdec_measure.testing import scripted

from .distributions import DRAFT, TARGET, after, chance_of, exact_distribution, sample
from .toys import random_next_probs


def random_probs(source: random.Random, vocabulary: int, zeros: bool = False) -> list[float]:
    """A distribution; with `zeros`, each token but the first is impossible with probability ½."""
    weights = [source.random() + 0.02 for _ in range(vocabulary)]
    if zeros:
        weights = [weight * (source.random() < 0.5 or token == 0) for token, weight in enumerate(weights)]
        source.shuffle(weights)
    return [weight / sum(weights) for weight in weights]


def first_token(p: Tensor, q: Tensor) -> list[float]:
    """The distribution of the first token that k siblings with distributions q (k, V) write, summed over every draft
    and coin."""
    count, vocabulary = q.shape
    written = [0.0] * vocabulary
    for tokens in itertools.product(range(vocabulary), repeat=count):
        chance = 1.0
        for sibling, token in enumerate(tokens):
            chance *= float(q[sibling, token])
        if chance == 0.0:
            continue
        tree = TokenTree(tokens, [-1] * count)
        judgement = KSeq().judge(tree, p.expand(count + 1, -1), q, [1.0] * count)
        for token, threshold in zip(tokens, judgement.thresholds, strict=True):
            assert threshold is not None
            written[token] += chance * threshold
            chance *= 1.0 - threshold
        for token, mass in enumerate(judgement.final.tolist()):
            written[token] += chance * mass
    return written


@pytest.mark.parametrize("zeros", [False, True])
def test_siblings_of_different_distributions_write_p(zeros: bool) -> None:
    """Each sibling has a q of its own, some with tokens ruled out. Catches: a ρ that is right only for equal q's, or
    one that rounding pushed below what exactness needs."""
    for seed in range(60):
        source = random.Random(seed)
        p = torch.tensor(random_probs(source, 3, zeros), dtype=torch.float64)
        q = torch.tensor([random_probs(source, 3, zeros) for _ in range(2 + seed % 3)], dtype=torch.float64)
        assert first_token(p, q) == pytest.approx(p.tolist(), abs=1e-12)


def test_where_the_smallest_scale_fits_but_larger_ones_do_not() -> None:
    """q_1 = p and two siblings that p rules out: ρ = 1 is exact, and with the bound Σ r_i ≤ ρ over all siblings no ρ
    between 1 and 2 would be. Catches: a search that starts from the wrong end or skips ρ = 1."""
    p = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64)
    q = torch.stack([p, p.new_tensor([0.0, 0.0, 1.0]), p.new_tensor([0.0, 0.0, 1.0])])
    assert first_token(p, q) == pytest.approx(p.tolist(), abs=1e-12)
    judgement = KSeq().judge(TokenTree([0, 2, 2], [-1] * 3), p.expand(4, -1), q, [1.0] * 3)
    assert judgement.thresholds == [1.0, 0.0, 0.0]


def test_equal_siblings_meet_the_papers_equation() -> None:
    """1 − (1 − β)^k = ρ β, with ρ read off a threshold. Catches: a ρ that is exact but larger than it need be, which
    costs acceptance and which no test of the distribution can see."""
    for seed in range(40):
        source, count = random.Random(seed), 2 + seed % 4
        p, q = (torch.tensor(random_probs(source, 5), dtype=torch.float64) for _ in range(2))
        token = int((p / q).argmin())
        judgement = KSeq().judge(
            TokenTree([token] * count, [-1] * count),
            p.expand(count + 1, -1),
            q.expand(count, -1),
            [1.0] * count,
        )
        assert judgement.thresholds[0] is not None and len(set(judgement.thresholds)) == 1
        rho = float(p[token] / q[token]) / judgement.thresholds[0]
        beta = float(torch.minimum(q, p / rho).sum())
        assert 1.0 <= rho <= count
        assert 1.0 - (1.0 - beta) ** count == pytest.approx(rho * beta, abs=1e-7)


def test_acceptance_beside_recursive_rejection() -> None:
    """Chains: the same as speculative sampling. Two equal siblings: less than twice as much as one, but more than one.
    Fixed siblings: each passes with its own p, so never more than recursive rejection, which accepts Σ p."""
    for seed in range(10):
        p, q = random_next_probs(f"p{seed}"), random_next_probs(f"q{seed}")
        one, other = (expected_accepted(rule(), [-1, 0, 1], p, q) for rule in (KSeq, SpeculativeSampling))
        assert one == pytest.approx(other, abs=1e-12)
        single, double = (expected_accepted(KSeq(), parents, p, q) for parents in ([-1], [-1, -1]))
        assert single < double < 2 * single
        best = sorted(p(()), reverse=True)
        fixed = expected_accepted(KSeq(), [-1, -1], p, p, "fixed")
        assert fixed == pytest.approx(best[0] + (1 - best[0]) * best[1], abs=1e-12)
        assert fixed < expected_accepted(SpeculativeSampling(), [-1, -1], p, p, "fixed")


def test_siblings_without_replacement_are_refused_for_a_reason() -> None:
    """Catches: a refusal that is missing, or that is no longer needed."""
    assert "without replacement" in str(KSeq.unsuited("distinct tree"))
    assert all(
        KSeq.unsuited(drafts) is None for drafts in ("none", "chain", "fixed tree", "independent tree")
    )
    assert (
        distance(
            KSeq(), [-1] * 3, random_next_probs("p", 4), random_next_probs("q", 4), "distinct", lazy=False
        )
        > 1e-3
    )


@pytest.mark.usefixtures("proposers")
@pytest.mark.parametrize("proposer", ["draft-model", "test-drawn", "test-ranked"])
def test_sampled_texts_follow_the_targets_distribution_and_traces_are_sound(proposer: str) -> None:
    """Whole decodes of scripted models in float32 on chains and trees; 130 texts, and more in
    test_distribution_matrix; `Meter`, false alarm 1e-4.
    Catches: a child's q that is looked up at another node once the loop has a real tree."""
    models = scripted(TARGET, DRAFT)
    settings = sd.Settings(
        proposer=proposer, rule="kseq", draft_length=3, temperature=1.0, max_new_tokens=4, record="off"
    )
    prompt: Sequence[int] = [0, 1, 2, 0, 1, 0]
    expected = exact_distribution(TARGET, prompt, 4, Warp(1.0))
    assert chance_of(sample(models, prompt, settings, 130), expected, after(prompt, DRAFT)) > 1e-4
    for temperature in (0.0, 1.0):
        trace = sd.decode(
            models, prompt, settings.but(record="full", temperature=temperature, max_new_tokens=40)
        )
        assert trace.audit() == [] and trace.stats.accepted > 0
