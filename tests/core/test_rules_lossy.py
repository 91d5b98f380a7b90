"""The lossy rules: what they accept on trees made by hand, and how far from the target they write, in closed form."""

from __future__ import annotations

import math
from itertools import product
from typing import get_args

import pytest
import torch
from torch import Tensor

import specdec_core as sd
from specdec_core.foundations.errors import SettingsError
from specdec_core.rules import RULES, Rule
from specdec_core.rules.confidence import Confidence
from specdec_core.rules.ensemble import Ensemble
from specdec_core.rules.fly import Fly
from specdec_core.rules.speculative_sampling import SpeculativeSampling
from specdec_core.rules.typical import Typical
from specdec_core.tree import TokenTree
from specdec_measure.exact.distribution import NextProbs, Siblings, departure, distance, expected_accepted
from specdec_measure.testing import scripted

from .distributions import mixture, wavering
from .toys import numbered_trees, random_next_probs

EXACT = 1e-12


def tensor(*rows: list[float]) -> Tensor:
    """Rows of probabilities."""
    return torch.tensor(rows, dtype=torch.float64)


def off_by_hand(p: NextProbs, q: NextProbs, keeps: list[bool]) -> float:
    """Distance of a rule that keeps a drafted token of these values for certain and else draws from p; γ = 1."""
    p_row, q_row = p(()), q(())
    kept = sum(chance for chance, keep in zip(q_row, keeps, strict=True) if keep)
    written = [a * keep + (1 - kept) * b for a, b, keep in zip(q_row, p_row, keeps, strict=True)]
    return 0.5 * sum(abs(a - b) for a, b in zip(written, p_row, strict=True))


def test_they_say_that_they_are_lossy() -> None:
    """Catches: a lossy rule that the page would show among the exact ones."""
    assert {name for name, rule in RULES.items() if not rule.lossless} >= {
        "typical",
        "confidence",
        "ensemble",
        "fly",
    }


@pytest.mark.parametrize("drafts", get_args(Siblings))
def test_the_ensembles_distance_is_one_minus_w_times_that_of_the_models(drafts: Siblings) -> None:
    """TV(v, p) = (1 − w) TV(p, q) for a drafted token, with a point mass as q where it is deterministic; and at w = 1
    nothing is lost on any tree. Catches: a weight on the wrong side, a residual that is not the mixture's."""
    for seed in range(10):
        p, q = random_next_probs(f"p{seed}"), random_next_probs(f"q{seed}")
        apart = 0.5 * sum(abs(a - b) for a, b in zip(p(()), q(()), strict=True))
        if drafts == "fixed":
            apart = 1.0 - p(())[max(range(3), key=lambda token: q(())[token])]
        for weight in (0.1, 0.5, 0.9):
            rule = Ensemble(Ensemble.Options(weight=weight))
            assert distance(rule, [-1], p, q, drafts) == pytest.approx((1 - weight) * apart, abs=EXACT)
            accepted = expected_accepted(rule, [-1], p, q, drafts)
            assert accepted == pytest.approx(1 - weight * apart, abs=EXACT)  # Σ min(q, v) = 1 − TV(q, v)
    exact = Ensemble(Ensemble.Options(weight=1.0))
    p, q = random_next_probs("p", 5), random_next_probs("q", 5)
    for shape in numbered_trees(3):
        assert distance(exact, shape, p, q, drafts) <= EXACT
        lossless, lossy = (
            expected_accepted(rule, shape, p, q, drafts)
            for rule in (SpeculativeSampling(), Ensemble(Ensemble.Options(weight=0.3)))
        )
        assert lossless < lossy


def test_the_ensemble_judges_siblings_against_what_is_left_of_p() -> None:
    """By hand: p = (.5, .3, .2), q = (.2, .3, .5), w = ½, siblings 2 and 1. The first passes with ½ + ½·.4; what is
    left is (1, 0, 0), so the second passes with ½. Catches: a mixture with the untouched p at later siblings."""
    p, q = tensor([0.5, 0.3, 0.2]).expand(3, -1), tensor([0.2, 0.3, 0.5]).expand(2, -1)
    judgement = Ensemble(Ensemble.Options(weight=0.5)).judge(TokenTree([2, 1], [-1, -1]), p, q, [1.0, 1.0])
    assert judgement.thresholds == pytest.approx([0.7, 0.5])
    assert judgement.final.tolist() == pytest.approx([1.0, 0.0, 0.0])


def bar(row: list[float], epsilon: float, delta: float) -> float:
    """min(ε, δ exp(−H)), entropy in nats."""
    return min(epsilon, delta * math.exp(sum(chance * math.log(chance) for chance in row if chance)))


def test_typicals_distance_in_closed_form() -> None:
    """γ = 1: the distribution is q on the tokens above the bar and p for the rest. Catches: a residual where there is
    none, a bar from another position."""
    seen = set()
    for seed in range(30):
        p, q = random_next_probs(f"p{seed}", 4), random_next_probs(f"q{seed}", 4)
        for epsilon, delta in ((0.09, 0.3), (0.3, 0.9), (1.0, 1.0)):
            rule = Typical(Typical.Options(epsilon=epsilon, delta=delta))
            keeps = [chance > bar(list(p(())), epsilon, delta) for chance in p(())]
            seen |= set(keeps)
            assert distance(rule, [-1], p, q) == pytest.approx(off_by_hand(p, q, keeps), abs=EXACT)
            token = max(range(4), key=lambda token: q(())[token])
            expected = 1.0 - p(())[token] if keeps[token] else 0.0
            assert distance(rule, [-1], p, q, "fixed") == pytest.approx(expected, abs=EXACT)
    assert seen == {True, False}


def test_typical_takes_the_longest_path_and_of_equal_ones_the_likeliest() -> None:
    """Two branches of two passing nodes, one dead end, one node below a failure. Catches: the first path instead of the
    longest, a tie broken by order, and verdicts that an audit would object to."""
    #        -1 ── 0 (.3) ── 2 (.5)           likelihood .15
    #         ├── 1 (.5) ── 3 (.4)            likelihood .20: taken
    #         └── 4 (.05, fails) ── 5 (1.0, not judged)
    tree = TokenTree([0, 1, 0, 1, 2, 0], [-1, -1, 0, 1, -1, 4])
    p = tensor(
        [0.3, 0.5, 0.05, 0.15], [0.5, 0.3, 0.1, 0.1], [0.2, 0.4, 0.2, 0.2],
        [0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1], [1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25],
    )  # fmt: skip
    judgement = Typical().judge(tree, p, None, [0.5] * 6)
    assert judgement.path == [1, 3]
    assert judgement.thresholds == [1.0, 1.0, 1.0, 1.0, 0.0, None]
    assert judgement.verdicts == ["unreached", "accepted", "unreached", "accepted", "rejected", "unreached"]
    assert (judgement.final.tolist(), judgement.source) == (p[4].tolist(), "bonus")
    p[2] = tensor([0.97, 0.03, 0.0, 0.0])  # node 3 fails: now the other branch is longer
    judgement = Typical().judge(tree, p, None, [0.5] * 6)
    assert judgement.path == [0, 2]
    assert judgement.verdicts == ["accepted", "unreached", "accepted", "unreached", "rejected", "unreached"]


def test_a_token_exactly_at_typicals_bar_fails() -> None:
    """p = ε = ¼ < δ exp(−H). Catches: a `≥`."""
    rule = Typical(Typical.Options(epsilon=0.25, delta=1.0))
    assert rule.judge(TokenTree([1], [-1]), tensor([0.75, 0.25], [0.5, 0.5]), None, [0.0]).path == []


def test_confidence_in_the_token_itself() -> None:
    """Closed form at γ = 1, and a tree: the first child at the threshold is followed, later ones are not asked.
    Catches: `>` for `≥`, the likeliest child instead of the first."""
    for seed in range(20):
        p, q = random_next_probs(f"p{seed}"), random_next_probs(f"q{seed}")
        rule = Confidence(Confidence.Options(threshold=0.4))
        assert distance(rule, [-1], p, q) == pytest.approx(
            off_by_hand(p, q, [chance >= 0.4 for chance in p(())]), abs=EXACT
        )
    rule = Confidence(Confidence.Options(threshold=0.25))
    tree = TokenTree([0, 1, 2, 0], [-1, -1, -1, 1])
    p = tensor([0.2, 0.25, 0.55], [1.0, 0.0, 0.0], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [1.0, 0.0, 0.0])
    judgement = rule.judge(tree, p, None, [0.5] * 4)
    assert judgement.path == [1]
    assert judgement.thresholds == [0.0, 1.0, None, 0.0]
    assert judgement.verdicts == ["rejected", "accepted", "unreached", "rejected"]
    assert (judgement.final.tolist(), judgement.source) == (p[2].tolist(), "corrected")


def test_the_mean_of_the_largest_keeps_what_the_target_rules_out() -> None:
    """The tutorial's rule. The target is sure (.98) and gives the drafted tokens no probability at all; they stay, and
    the distance from the target is the greatest there is, 1. Catches: a rule that has quietly become a sound one."""
    p: NextProbs = lambda context: (0.98, 0.02, 0.0)  # noqa: E731
    q: NextProbs = lambda context: (0.0, 0.0, 1.0)  # noqa: E731
    rule = Confidence(Confidence.Options(threshold=0.9, reading="mean-of-largest"))
    assert expected_accepted(rule, [-1, 0, 1], p, q) == 3.0
    assert distance(rule, [-1, 0, 1], p, q) == pytest.approx(1.0, abs=EXACT)
    stricter = Confidence(Confidence.Options(threshold=0.99, reading="mean-of-largest"))
    assert distance(stricter, [-1, 0, 1], p, q) == pytest.approx(0.0, abs=EXACT)


@pytest.mark.parametrize("reading", ["mean-of-largest", "draft"])
def test_a_mean_keeps_all_or_nothing(reading: str) -> None:
    """Means by hand on a chain, and a tree whose first children count alone. Catches: a mean over other positions, a
    rejected round that keeps a token, thresholds that an audit would object to."""
    p = tensor([0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.4, 0.4, 0.2])
    q = tensor([0.7, 0.2, 0.1], [0.2, 0.2, 0.6])
    mean = (0.5 + 0.8) / 2 if reading == "mean-of-largest" else (0.2 + 0.6) / 2  # tokens 1 and 2
    for threshold, stays in ((mean - 1e-9, True), (mean + 1e-9, False)):
        rule = Confidence(Confidence.Options(threshold=threshold, reading=reading))  # type: ignore[arg-type]
        judgement = rule.judge(TokenTree.chain([1, 2]), p, q, [0.5, 0.5])
        assert judgement.path == ([0, 1] if stays else [])
        assert judgement.thresholds == [float(stays)] * 2
        assert judgement.verdicts == (["accepted"] * 2 if stays else ["rejected", "unreached"])
        assert judgement.final.tolist() == p[2 if stays else 0].tolist()
        tree = TokenTree([1, 0, 2, 0], [-1, -1, 0, 1])  # the same chain as nodes 0 and 2
        branching = rule.judge(tree, p[[0, 1, 0, 2, 0]], q[[0, 0, 1, 0]], [0.5] * 4)
        assert branching.path == ([0, 2] if stays else [])
        assert branching.thresholds == [float(stays), None, float(stays), None]
    sure = Confidence(Confidence.Options(threshold=1.0, reading="draft"))
    # deterministic: confidence 1
    assert sure.judge(TokenTree.chain([1, 2]), p, None, [0.5, 0.5]).path == [0, 1]


@pytest.mark.usefixtures("proposers")
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("proposer", ["draft-model", "prompt-lookup", "test-drawn", "test-ranked"])
@pytest.mark.parametrize(
    ("rule", "options"),
    [
        ("typical", {}),
        ("confidence", {}),
        ("confidence", {"reading": "mean-of-largest", "threshold": 0.5}),
        ("confidence", {"reading": "draft", "threshold": 0.5}),
        ("ensemble", {"weight": 0.4}),
    ],
    ids=["typical", "target", "mean-of-largest", "draft", "ensemble"],
)
def test_their_traces_are_sound(
    rule: str, options: dict[str, object], proposer: str, temperature: float
) -> None:
    """On chains and trees, greedy and sampled. Catches: a verdict without a threshold, a threshold on a one-hot vector
    at temperature 0 (where the models' own probabilities count), a node judged below one that was not accepted."""
    target = wavering(4, seed=1)
    models = scripted(target, mixture(target, wavering(4, seed=2), 0.6))
    settings = sd.Settings(
        proposer=proposer, rule=rule, rule_options=options, draft_length=3,
        temperature=temperature, max_new_tokens=60,
    )  # fmt: skip
    trace = sd.decode(models, [0, 1, 2, 3, 0, 1], settings)
    assert trace.audit() == []
    assert trace.stats.accepted > 0
    if rule != "ensemble":
        thresholds = {threshold for row in trace.rounds for threshold in row.nodes.threshold or []}
        assert thresholds <= {0.0, 1.0, None}
        probabilities = {p for row in trace.rounds for p in row.nodes.p or []}
        assert len(probabilities - {0.0, 1.0}) > 3


@pytest.mark.parametrize(
    ("rule", "options", "message"),
    [
        ("typical", {"epsilon": 0.0}, "epsilon"),
        ("typical", {"delta": 2.0}, "delta"),
        ("confidence", {"threshold": -0.1}, "threshold"),
        ("confidence", {"reading": "median"}, "reading"),
        ("ensemble", {"weight": 0.0}, "weight"),
        ("ensemble", {"share": 0.5}, "has no option 'share'; its options are: weight"),
        ("block", {"weight": 0.5}, "has no option 'weight'"),
    ],
)
def test_options_out_of_range_are_refused(rule: str, options: dict[str, object], message: str) -> None:
    """Catches: a weight of 0, where the target would have no say, or an option that is silently ignored."""
    with pytest.raises(SettingsError, match=message):
        sd.decode(scripted(random_next_probs(0)), [0], sd.Settings(rule=rule, rule_options=options))


@pytest.mark.parametrize("kind", RULES.values(), ids=lambda kind: kind.name)
def test_every_option_is_described_and_the_summary_has_two_sentences(kind: type[Rule]) -> None:
    """What a page shows of a rule. Catches: an option without a word for the user."""
    assert all(
        field.description and field.description.endswith(".") for field in kind.Options.model_fields.values()
    )
    assert kind.summary.count(". ") == 1 and kind.summary.endswith(".")


def _fly(entropy: float = 0.3, window: int = 1) -> Fly:
    return Fly(Fly.Options(entropy=entropy, window=window))


def test_fly_keeps_a_failed_guess_that_the_next_ones_make_up_for() -> None:
    """Three guesses by hand, the first of which fails. Catches: a target that is sure, a guess that it rules out, a
    next guess that fails, a window that does not fit, or a later guess kept loosely taken for one that passed."""
    unsure, sure = [0.5, 0.3, 0.2], [0.98, 0.01, 0.01]
    q = tensor([0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0])
    chain, coins = TokenTree.chain([1, 0, 0]), [0.9, 0.1, 0.9]
    row = {"unsure": unsure, "sure": sure, "ruled out": [0.5, 0.0, 0.5]}
    cases = [("unsure", 1, 2), ("sure", 1, 0), ("ruled out", 1, 0), ("unsure", 2, 0), ("unsure", 3, 0)]
    for first, window, kept in cases:
        judgement = _fly(window=window).judge(chain, tensor(row[first], unsure, unsure, sure), q, coins)
        assert len(judgement.path) == kept, (first, window)
        if kept:
            assert judgement.thresholds == [1.0, 0.5, 0.5] and judgement.verdicts[2] == "rejected"
    both = _fly().judge(chain, tensor(unsure, unsure, unsure, unsure), q, [0.9, 0.9, 0.1])
    assert both.path == [], "the second guess stays loosely, which does not make up for the first"


def test_flys_distance_is_that_of_all_coins_and_grows_as_the_gate_opens() -> None:
    """The enumerator against every draft and coin written out, on chains of three; 0 where nothing is loose. Catches:
    an enumerator that takes a loosely kept guess for one that passed, a rule that is lossy where its gate is shut."""
    for seed in range(6):
        p, q = random_next_probs(f"p{seed}"), random_next_probs(f"q{seed}")
        assert distance(_fly(entropy=1.2), [-1, 0, 1], p, q) < EXACT
        assert distance(_fly(window=3), [-1, 0, 1], p, q) < EXACT
        found = distance(_fly(entropy=0.0), [-1, 0, 1], p, q)
        assert found == pytest.approx(_all_coins(p, q, 3), abs=1e-12)
        assert found > 1e-3
        assert expected_accepted(_fly(entropy=0.0), [-1, 0, 1], p, q) > expected_accepted(
            SpeculativeSampling(), [-1, 0, 1], p, q
        )


def _all_coins(p: NextProbs, q: NextProbs, gamma: int) -> float:
    """The distance of FLy without a gate and with a window of one, by hand: all drafts, all outcomes of all coins."""
    written: dict[tuple[int, ...], float] = {}
    for block in product(range(3), repeat=gamma):
        drafted = math.prod(q(block[:at])[block[at]] for at in range(gamma))
        limits = [min(1.0, p(block[:at])[block[at]] / q(block[:at])[block[at]]) for at in range(gamma)]
        for coins in product((True, False), repeat=gamma):
            chance = drafted * math.prod(
                x if passed else 1 - x for x, passed in zip(limits, coins, strict=True)
            )
            kept = 0
            while kept < gamma and (coins[kept] or (kept + 1 < gamma and coins[kept + 1])):
                kept += 1
            text = block[:kept]
            left = list(p(text))
            if kept < gamma:
                left = [max(0.0, a - b) for a, b in zip(left, q(text), strict=True)]
            if chance > 0.0:
                for token, x in enumerate(left):
                    written[*text, token] = written.get((*text, token), 0.0) + chance * x / sum(left)
    return departure(written, p)
