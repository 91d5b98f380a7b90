"""The formulas of speculative decoding: pure functions of numbers, no model and no measurement in them.

Symbols and numbered statements are those of Leviathan et al. 2023 (arXiv 2211.17192): α the acceptance rate,
γ the draft length, c the time of a draft pass over that of a plain target pass. Functions of α assume that positions
are independent with that one rate; `tokens_per_pass_by_position` and `tokens_per_tree` do not. Everything here is
*modelled*: it holds only under its assumptions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral

from specdec_core.foundations.errors import SettingsError
from specdec_core.runtime.timing.pass_times import Curve, pass_time, real, whole

MAX_DRAFT_LENGTH = 64  # the longest draft considered in a search


def acceptance_rate(p: Sequence[Sequence[float]], q: Sequence[Sequence[float]]) -> float:
    """α = E[Σ min(p, q)] over positions, Corollary 3.6; at one position it is 1 − TV(p, q), Theorem 3.5.

    Args:
        p: the target's distributions, one per position, as they are sampled.
        q: the draft's, of the same shape.
    """
    if not len(p) or len(p) != len(q):
        raise SettingsError(f"p and q must have the same positions, at least one; got {len(p)} and {len(q)}.")
    return math.fsum(_overlap(one, other) for one, other in zip(p, q, strict=True)) / len(p)


def tokens_per_pass(alpha: float, gamma: int) -> float:
    """Expected committed tokens per target pass, Equation 1: (1 − α^(γ+1)) / (1 − α); γ + 1 at α = 1."""
    alpha, gamma = _rate(alpha), whole("draft length γ", gamma)
    return math.fsum(alpha**depth for depth in range(gamma + 1))


def tokens_per_pass_by_position(rates: Sequence[float]) -> float:
    """The same with a rate per position: 1 + Σ_i α_1 ⋯ α_i.

    Args:
        rates: α_i, how often the i-th drafted token is accepted where the ones before it were.
    """
    expected, reached = 1.0, 1.0
    for rate in rates:
        reached *= _rate(rate)
        expected += reached
    return expected


def tokens_per_tree(parents: Sequence[int], rates: Sequence[float]) -> float:
    """Expected committed tokens of a token tree, 1 + Σ over nodes of the rates on the way down (Sequoia, 2024).

    Args:
        parents: for each node its parent, an earlier node or −1 for the root, as in `TokenTree`.
        rates: rates[k], how often the (k + 1)-th child of an accepted node is the accepted one; they exclude each
            other, so their sum is at most 1.
    """
    rates = [_rate(rate) for rate in rates]
    if math.fsum(rates) > 1.0 + 1e-9:
        raise SettingsError(
            f"At most one child is accepted, so the rates by rank add up to at most 1, got {math.fsum(rates):g}."
        )
    reached = [1.0]  # by position: the root, then the nodes
    families: dict[int, int] = {}
    for node, parent in enumerate(parents):
        if not isinstance(parent, Integral) or not -1 <= parent < node:
            raise SettingsError(f"Node {node} must hang below −1 or an earlier node, got {parent!r}.")
        rank = families.get(parent, 0)
        if rank >= len(rates):
            raise SettingsError(
                f"Node {node} is child number {rank + 1}, but there are {len(rates)} rates by rank."
            )
        families[parent] = rank + 1
        reached.append(reached[parent + 1] * rates[rank])
    return math.fsum(reached)


def speedup(alpha: float, gamma: int, cost: float) -> float:
    """Expected walltime improvement, Theorem 3.8: (1 − α^(γ+1)) / ((1 − α)(γc + 1)).

    Args:
        alpha: acceptance rate.
        gamma: draft length.
        cost: c, the time of one draft pass over that of one plain target pass. A verifying pass over γ + 1 tokens is
            assumed to cost as much as a plain pass, which is not quite true on a real machine; see `speedup_on`.
    """
    return tokens_per_pass(alpha, gamma) / (gamma * _cost(cost) + 1.0)


def implied_cost(speedup: float, tokens: float, gamma: int) -> float:
    """c from measurements, Theorem 3.8 solved for it: (E/S − 1)/γ, the cost of one guess in plain passes.

    Everything a round took beyond a plain pass is spread over its guesses: drafting, the wider pass, the work around
    them. So it is not a draft pass alone, and measurement noise may put it slightly below 0.

    Args:
        speedup: S, measured, above 0.
        tokens: E, committed tokens per target pass, counted.
        gamma: the draft length, at least 1.
    """
    gamma = whole("draft length γ", gamma, least=1)
    if not real(speedup) or speedup <= 0.0 or not real(tokens) or tokens < 1.0:
        raise SettingsError(
            f"A speedup above 0 and at least 1 token per pass are needed, got {speedup!r} and {tokens!r}."
        )
    return (float(tokens) / float(speedup) - 1.0) / gamma


def operations(alpha: float, gamma: int, cost: float) -> float:
    """Factor by which arithmetic operations grow, Theorem 3.11: (1 − α)(γĉ + γ + 1) / (1 − α^(γ+1)).

    Args:
        alpha: acceptance rate.
        gamma: draft length.
        cost: ĉ, the operations per token of the draft over those of the target; not c, which is a ratio of times.
    """
    return (gamma * _cost(cost) + gamma + 1.0) / tokens_per_pass(alpha, gamma)


def best_draft_length(alpha: float, cost: float, most: int = MAX_DRAFT_LENGTH) -> int:
    """The γ from 0 to `most` that maximises Theorem 3.8 (section 3.5), the shortest of equals; 0 if α ≤ c."""
    alpha, cost = _rate(alpha), _cost(cost)
    lengths = range(whole("longest draft", most) + 1)
    return max(lengths, key=lambda gamma: speedup(alpha, gamma, cost))


def acceptance_needed(gain: float, gamma: int, cost: float) -> float:
    """The smallest α at which Theorem 3.8 gives that speedup; ∞ where even α = 1, (γ + 1)/(γc + 1), gives less.

    Args:
        gain: the desired speedup.
        gamma: draft length.
        cost: c, as in `speedup`.
    """
    if not real(gain) or gain <= 0.0:
        raise SettingsError(f"A speedup must be a number above 0, got {gain!r}.")
    if speedup(0.0, gamma, cost) >= gain:
        return 0.0
    if speedup(1.0, gamma, cost) < gain:
        return math.inf
    low, high = 0.0, 1.0  # the speedup rises with α
    while high - low > 1e-12:
        middle = (low + high) / 2.0
        low, high = (low, middle) if speedup(middle, gamma, cost) >= gain else (middle, high)
    return high


def oracle_speedup(alpha: float, cost: float) -> float:
    """Walltime improvement if every draft stopped just before its first error (section 3.5): 1/(1 − α + αc), as it
    drafts α/(1 − α) tokens per pass; 1 if c ≥ 1.

    The target still checks the drafts. Under Theorem 3.8's assumptions no policy that chooses draft
    lengths can be faster.
    """
    alpha, cost = _rate(alpha), _cost(cost)
    missing = 1.0 - alpha + alpha * min(1.0, cost)
    return 1.0 / missing if missing > 0.0 else math.inf


def speedup_on(
    curve: Curve, expected: float, gamma: int, draft: float, overhead: float = 0.0, nodes: int | None = None
) -> float:
    """Walltime improvement on a machine with pass times `curve`: E T(1) / (γ T_d + T(n + 1) + T_o).

    Args:
        curve: T(n).
        expected: E, tokens per target pass, by any of the formulas above.
        gamma: how many draft passes a round takes.
        draft: T_d, the time of one of them, in the curve's unit.
        overhead: T_o, the rest of a round, in the same unit.
        nodes: n, how many tokens are proposed; γ, as in a chain, by default.
    """
    gamma = whole("draft length γ", gamma)
    nodes = gamma if nodes is None else whole("number of nodes", nodes)
    if not real(expected) or not 1.0 <= expected <= nodes + 1:
        raise SettingsError(
            f"The expected tokens per pass must lie between 1 and the {nodes} proposed plus 1, got {expected!r}."
        )
    draft, overhead = _cost(draft, "draft pass's time"), _cost(overhead, "overhead")
    return expected * pass_time(curve, 1) / (gamma * draft + pass_time(curve, nodes + 1) + overhead)


def overlapped_time(gamma: int, draft: float, target: float) -> float:
    """Time of a round that drafts γ tokens during the target's pass: max(γ T_d, T_t) (PEARL, Liu et al. 2024).

    Without overlap it would be their sum. Drafting is wasted unless the guess it starts from comes true.
    """
    gamma = whole("draft length γ", gamma)
    return max(gamma * _cost(draft, "draft pass's time"), _cost(target, "target pass's time"))


def correct_guess_rate(alpha: float, gamma: int) -> float:
    """How often drafting ahead starts from a correct guess: α^(γ+1).

    The guess is that its γ tokens are accepted and that the target's own token is the expected one; that this last
    guess is as good as the others is an assumption.
    """
    return float(_rate(alpha) ** (whole("draft length γ", gamma) + 1))


def overlap_gain(alpha: float, gamma: int, cost: float) -> float:
    """Speedup from drafting ahead: (γc + 1) / (w max((γ + 1)c, 1) + (1 − w)(γc + 1)), w = α^(γ+1).

    A round after a correct guess waits only for what was not drafted in time, `overlapped_time`; any other
    round drafts again. Drafting ahead takes one pass more than a draft, for the guess of the token in between. Assumes
    that neither slows the other, a wrong guess is given up at once, and a verifying pass costs as much as a plain one.
    By the law of large numbers the mean of a round's time is that of all rounds, as guesses are independent.

    Args:
        alpha, gamma, cost: as for `speedup`.
    """
    won, serial = correct_guess_rate(alpha, gamma), gamma * _cost(cost) + 1.0
    return serial / (won * overlapped_time(gamma + 1, cost, 1.0) + (1.0 - won) * serial)


def memory_bound_rate(read: float, bandwidth: float) -> float:
    """Tokens per second that plain decoding cannot exceed where a pass reads `read` bytes: bandwidth over bytes.

    Every pass moves all weights from memory once, whatever it computes with them (Leviathan et al. 2023, section 1).
    """
    if not (real(read) and real(bandwidth) and read > 0.0 and bandwidth > 0.0):
        raise SettingsError(f"Bytes and bandwidth must be numbers above 0, got {read!r} and {bandwidth!r}.")
    return bandwidth / read


def surprise(probability: float) -> float:
    """−log₂ of a token's probability, in bits (Shannon 1948): 0 for a certain token, 1 for a fair coin flip."""
    if not real(probability) or not 0.0 < probability <= 1.0 + 1e-5:
        raise SettingsError(f"A surprise is that of a probability above 0 and up to 1, got {probability!r}.")
    return max(0.0, -math.log2(probability))


def _overlap(p: Sequence[float], q: Sequence[float]) -> float:
    """Σ min(p, q) of two distributions."""
    if len(p) != len(q):
        raise SettingsError(f"p and q must be over the same tokens, got {len(p)} and {len(q)} of them.")
    for name, row in (("p", p), ("q", q)):
        if not all(real(value) and value >= 0.0 for value in row) or abs(math.fsum(row) - 1.0) > 1e-4:
            raise SettingsError(
                f"Each row of {name} must be a distribution: no negative numbers, and a sum of 1."
            )
    return min(1.0, math.fsum(map(min, p, q)))


def _rate(value: float) -> float:
    if not real(value) or not 0.0 <= value <= 1.0:
        raise SettingsError(f"The acceptance rate α must lie between 0 and 1, got {value!r}.")
    return float(value)


def _cost(value: float, name: str = "cost ratio c") -> float:
    if not real(value) or value < 0.0:
        raise SettingsError(f"The {name} must be a number of at least 0, got {value!r}.")
    return float(value)
