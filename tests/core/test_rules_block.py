"""Block verification against the paper's numbers, its guarantee, and the loop. That it is lossless: test_exact.py."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction

import pytest
import torch
from torch import Tensor

import specdec_core as sd
from specdec_core.rules import Judgement
from specdec_core.rules.block import Block
from specdec_core.rules.speculative_sampling import SpeculativeSampling
from specdec_core.sampling import Warp
from specdec_core.tree import TokenTree
from specdec_measure.exact.distribution import Siblings, distance, expected_accepted
from specdec_measure.exact.hierarchical import hierarchical
from specdec_measure.testing import scripted

from .distributions import DRAFT, TARGET, after, chance_of, exact_distribution, sample
from .toys import random_next_probs

CHAIN = [-1, 0]


def test_the_papers_example() -> None:
    """Sun et al. 2024, section 3: p = (1/3, 2/3), q = (2/3, 1/3), γ = 2: 11/9 accepted tokens in the mean, 10/9 when
    judged one by one. Catches: a block rule that is exact but no better, e.g. one that stops at the first coin."""
    p, q = (lambda _: (1 / 3, 2 / 3)), (lambda _: (2 / 3, 1 / 3))
    assert expected_accepted(Block(), CHAIN, p, q) == pytest.approx(11 / 9, abs=1e-12)
    assert expected_accepted(SpeculativeSampling(), CHAIN, p, q) == pytest.approx(10 / 9, abs=1e-12)
    assert distance(Block(), CHAIN, p, q) <= 1e-12


def by_hand(
    p: Sequence[Sequence[Fraction]], q: Sequence[Sequence[Fraction]], tokens: Sequence[int]
) -> list[Fraction]:
    """h_1 … h_γ in rational arithmetic, from the formulas as the paper writes them."""
    claim, thresholds = Fraction(1), []
    for place, token in enumerate(tokens):
        claim = min(Fraction(1), claim * p[place][token] / q[place][token])
        if place + 1 == len(tokens):
            thresholds.append(claim)
        else:
            spare = sum(
                (max(Fraction(0), claim * a - b) for a, b in zip(p[place + 1], q[place + 1], strict=True)),
                Fraction(0),
            )
            thresholds.append(spare / (spare + 1 - claim))
    return thresholds


def test_thresholds_verdicts_and_the_residual_follow_the_paper() -> None:
    """On a chain of three in rational numbers, for the coins of every ending. Catches: a residual without the running
    product, a token taken from the wrong position, a later coin that is ignored."""
    p = [[Fraction(n, 12) for n in row] for row in ((2, 3, 7), (6, 1, 5), (3, 4, 5), (1, 1, 10))]
    q = [[Fraction(n, 12) for n in row] for row in ((4, 4, 4), (3, 7, 2), (6, 3, 3))]
    tokens = [0, 2, 1]
    thresholds = by_hand(p, q, tokens)
    assert all(0 < threshold <= 1 for threshold in thresholds)
    tensors = [
        torch.tensor([[float(n) for n in row] for row in rows], dtype=torch.float64) for rows in (p, q)
    ]
    claims = [Fraction(1), Fraction(1, 2), Fraction(1), Fraction(1)]
    assert claims[2] == min(1, claims[1] * p[1][2] / q[1][2])
    for kept in range(4):
        # only coin τ passes; those before it fail
        coins = [0.0 if node + 1 == kept else 1.0 for node in range(3)]
        judgement = Block().judge(TokenTree.chain(tokens), *tensors, coins)
        assert judgement.thresholds == pytest.approx(
            [float(threshold) for threshold in thresholds], abs=1e-12
        )
        assert judgement.path == list(range(kept))
        assert judgement.verdicts == (["accepted"] * kept + ["rejected", "unreached", "unreached"])[:3]
        if kept == 3:
            assert (judgement.source, judgement.final.tolist()) == ("bonus", tensors[0][3].tolist())
            continue
        rest = [max(Fraction(0), claims[kept] * a - b) for a, b in zip(p[kept], q[kept], strict=True)]
        assert judgement.source == "corrected"
        assert judgement.final.tolist() == pytest.approx([float(n / sum(rest)) for n in rest], abs=1e-12)


@pytest.mark.parametrize("drafts", ["independent", "fixed"])
def test_it_never_accepts_less_than_token_by_token_judging(drafts: Siblings) -> None:
    """The paper's guarantee, over random distributions that differ in every context. Catches: a rule that gives
    acceptance away, which no test of the distribution can see. It must also gain somewhere, and only where the draft
    was sampled."""
    gains = []
    for seed in range(40):
        p, q = (
            random_next_probs(f"p{seed}", zeros=seed % 2 == 1),
            random_next_probs(f"q{seed}", zeros=seed % 3 == 1),
        )
        chain = range(-1, seed % 4)
        block, single = (
            expected_accepted(rule(), list(chain), p, q, drafts) for rule in (Block, SpeculativeSampling)
        )
        gains.append(block - single)
    assert min(gains) >= -1e-12
    assert max(gains) > 0.01 if drafts == "independent" else max(gains) <= 1e-12


class TokenResidual(Block):
    """As an accelerator port once had it: the residual of a single token, without the running product."""

    name = "token-residual"

    def judge(self, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Judgement:
        judgement = super().judge(tree, p, q, coins)
        if q is not None and 0 < len(judgement.path) < len(tree):
            rest = (p[len(judgement.path)] - q[len(judgement.path)]).clamp_min(0.0)
            judgement.final = rest / rest.sum()
        return judgement


def test_the_proof_sees_the_residual_of_a_single_token() -> None:
    """Catches: a proof that would let a known mistake pass."""
    assert distance(TokenResidual(), CHAIN, random_next_probs("p"), random_next_probs("q")) > 1e-3


def test_equal_models_and_impossible_tokens_need_no_special_case() -> None:
    """p = q (0/0 in h), a token that q rules out, a token that p rules out, one-hot distributions. Catches: a NaN, or a
    division by zero, where nothing is left over."""
    same = torch.tensor([[0.25, 0.75]] * 4)
    judgement = Block().judge(TokenTree.chain([0, 1, 0]), same, same[:3], [0.999, 0.999, 0.999])
    assert judgement.path == [0, 1, 2] and judgement.thresholds == [1.0, 1.0, 1.0]
    sure = torch.tensor([[1.0, 0.0]] * 3)
    for q in (None, sure[:2]):
        judgement = Block().judge(TokenTree.chain([0, 1]), sure, q, [0.5, 0.0])
        assert (judgement.path, judgement.final.tolist()) == ([0], [1.0, 0.0])
    assert Block().judge(TokenTree(), same[:1], None, []).source == "bonus"


def test_a_tree_is_refused_with_a_sentence() -> None:
    """Catches: a branching proposal that is judged as if its nodes stood in a row."""
    assert Block.unsuited("chain") is Block.unsuited("none") is None
    for drafts in ("fixed tree", "independent tree", "distinct tree"):
        assert "Choose a proposer that drafts a chain" in str(Block.unsuited(drafts))
    with pytest.raises(ValueError, match="judges chains"):
        Block().judge(TokenTree([0, 1], [-1, -1]), torch.ones(3, 2) / 2, None, [0.0, 0.0])


@pytest.mark.parametrize("proposer", ["draft-model", "prompt-lookup"])
def test_sampled_texts_follow_the_targets_distribution_and_traces_are_sound(proposer: str) -> None:
    """Whole decodes of scripted models in float32, several rounds each; 170 texts, and more in
    test_distribution_matrix; `Meter`, false alarm 1e-4.
    Catches: a verdict or a residual that the loop reads differently from the enumerator."""
    models = scripted(TARGET, DRAFT)
    settings = sd.Settings(
        proposer=proposer, rule="block", draft_length=3, temperature=1.0, max_new_tokens=5, record="off"
    )
    prompt = [0, 1, 2, 0, 1, 0]
    expected = exact_distribution(TARGET, prompt, 5, Warp(1.0))
    assert chance_of(sample(models, prompt, settings, 170), expected, after(prompt, DRAFT)) > 1e-4
    long = [
        sd.decode(models, prompt, settings.but(record="full", seed=seed, max_new_tokens=40))
        for seed in range(5)
    ]
    assert [trace.audit() for trace in long] == [[]] * 5
    carried = [
        node
        for trace in long
        for row in trace.rounds
        for node, verdict in enumerate(row.nodes.verdict)
        if verdict == "accepted" and row.nodes.coin[node] >= row.nodes.threshold[node]  # type: ignore[index,operator]
    ]
    assert carried  # accepted against its own coin, because a later one passed: the case that is new


def _capped(ratios: list[float]) -> float:
    """Definition 5 of HSD: r*, the joint ratio over the largest one of its own prefixes, if that exceeds 1."""
    before = [math.prod(ratios[:at]) for at in range(1, len(ratios))]
    return math.prod(ratios) / max(1.0, *before, 1.0)


def test_capped_hierarchical_verification_is_block_verification() -> None:
    """HSD's acceptance of each prefix, by its definitions 4 to 6 written out with joint probabilities, against the
    thresholds, and its resampling against the residuals; 200 random chains. Catches: a claim true of one ratio only."""
    rng = random.Random(9)
    for _ in range(200):
        size = rng.randrange(1, 6)
        rows = [[rng.random() ** 2 + 1e-3 for _ in range(4)] for _ in range(2 * size + 1)]
        rows = [[x / sum(row) for x in row] for row in rows]
        p, q = rows[: size + 1], rows[size + 1 :]
        tokens = [rng.randrange(4) for _ in range(size)]
        ratios = [p[at][token] / q[at][token] for at, token in enumerate(tokens)]
        rows_p, rows_q = (torch.tensor(rows, dtype=torch.float64) for rows in (p, q))
        judgement = Block().judge(TokenTree.chain(tokens), rows_p, rows_q, [2.0] * size)
        for kept in range(1, size + 1):
            reached = math.prod(q[at][tokens[at]] for at in range(kept))
            if kept == size:
                expected = min(1.0, _capped(ratios))
            else:
                stars = [_capped([*ratios[:kept], p[kept][x] / q[kept][x]]) for x in range(4)]
                gain = sum(reached * q[kept][x] * max(0.0, stars[x] - 1.0) for x in range(4))
                loss = sum(reached * q[kept][x] * max(0.0, 1.0 - stars[x]) for x in range(4))
                expected = gain / loss
            assert judgement.thresholds[kept - 1] == pytest.approx(expected, rel=1e-9)
        excess = [q[0][x] * max(0.0, _capped([p[0][x] / q[0][x]]) - 1.0) for x in range(4)]
        assert judgement.path == [], judgement.thresholds
        assert judgement.final.tolist() == pytest.approx([x / sum(excess) for x in excess])


def test_plain_hierarchical_verification_is_exact_and_pays_in_passes() -> None:
    """Its distance, and beside block verification what it keeps and writes per pass of the target. The means on the
    first pair are those of the package sequential-speculative-decoding 0.1.1, its naive step enumerated. Catches: a
    prefix judged by token ratios, a resample that forgets the joint probabilities."""
    one, other, more = (0.4, 0.2, 0.4), (0.1, 0.1, 0.8), 0
    for gamma, kept in ((2, 1.12), (3, 1.576)):
        assert hierarchical(gamma, lambda _: one, lambda _: other).accepted == pytest.approx(kept)
    for seed in range(8):
        p, q = random_next_probs(f"p{seed}"), random_next_probs(f"q{seed}")
        for gamma in (1, 2, 3):
            found = hierarchical(gamma, p, q)
            block = expected_accepted(Block(), range(-1, gamma - 1), p, q)
            assert found.distance < 1e-12
            more += found.accepted > block + 1e-3
            assert found.tokens / found.passes <= 1.0 + block + 1e-12
    assert more, "it keeps more where it may draw several tokens again"
