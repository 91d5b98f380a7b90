"""What a budget for verification may look at: four policies enumerated, and our own policies as they really decide."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from math import prod

import pytest

import specdec_core as sd
from specdec_core.lengths import policy_class, read_options
from specdec_core.lengths.cost_aware import CostAware
from specdec_core.round import Context, Outcome
from specdec_core.rules import RULES
from specdec_core.sampling import Warp
from specdec_measure.exact.budgets import POLICIES, Policy, best_budget, budgeted
from specdec_measure.exact.early_stop import cut
from specdec_measure.exact.enumeration import NextProbs

P = ((0.5, 0.5), (0.5, 0.5), (0.95, 0.05))
Q = ((0.8, 0.2), (0.6, 0.4), (0.05, 0.95))
TIMES = (1.0, 1.8, 1.9)
RULE = RULES["speculative-sampling"]()
CURVE = {"curve": [1, 1.8, 1.9, 1.95], "cost_ratio": 0.0}


def p(text: tuple[int, ...]) -> tuple[float, ...]:
    return P[text[-1] + 1 if text else 0]


def q(text: tuple[int, ...]) -> tuple[float, ...]:
    return Q[text[-1] + 1 if text else 0]


def _table(rows: Sequence[Sequence[float]]) -> NextProbs:
    return lambda text: rows[text[-1] + 1 if text else 0]


@pytest.mark.parametrize(
    ("policy", "distance"), [("prefix-only", 0.0), ("stale", 0.0), ("drawn-token", 0.1), ("live", 0.1)]
)
def test_the_four_policies_on_the_smallest_example(policy: Policy, distance: float) -> None:
    """By hand: a live budget drops the block after b, so a is written with .8 · .625 + .2 · .5 = .6 instead of .5.
    Catches: an enumeration that cannot tell a safe policy from a biased one."""
    found = budgeted(policy, RULE, p, q, TIMES)
    assert found.distance == pytest.approx(distance, abs=1e-12)
    assert found.first[0] == pytest.approx(0.5 + distance)


def test_safe_policies_are_exact_and_the_others_are_not_on_random_pairs() -> None:
    """40 random pairs of three tokens, blocks of three. Catches: a policy that is safe by luck of the example."""
    rng, off = random.Random(3), dict.fromkeys(POLICIES, 0.0)
    for _ in range(40):
        tables = [[[rng.random() ** 2 + 1e-3 for _ in range(3)] for _ in range(4)] for _ in range(2)]
        one, other = ([[x / sum(row) for x in row] for row in table] for table in tables)
        times = [1.0, *sorted(1.0 + rng.random() for _ in range(3))]
        for policy in POLICIES:
            found = budgeted(policy, RULE, _table(one), _table(other), times)
            off[policy] = max(off[policy], found.distance)
    assert off["prefix-only"] < 1e-12 and off["stale"] < 1e-12, off
    assert off["drawn-token"] > 1e-2 and off["live"] > 1e-2, off


def test_the_best_budget_is_that_of_all_lengths() -> None:
    """Catches: a search that stops at the first guess that does not pay."""
    assert best_budget([0.7, 0.63], TIMES) == 2  # 1, .94, 1.23
    assert best_budget([0.7, 0.07], TIMES) == 0  # 1, .94, .93
    assert best_budget([0.5], (1.0, 1.5)) == 0


def _policy(name: str, **options: object) -> tuple[CostAware, sd.Settings]:
    settings = sd.Settings(length_policy=name, length_options=options, draft_length=3)
    made = policy_class(settings)(read_options(settings))
    return made, settings  # type: ignore[return-value]


def _taught(name: str, options: dict[str, object]) -> tuple[CostAware, sd.Settings]:
    """The policy after ten rounds of which half were accepted: the past it decides by."""
    policy, settings = _policy(name, **options)
    for number in range(10):
        context = Context(settings, Warp(), 2, 1, [0], limit=3, length=3, room=9, round=number)
        policy.length(context)
        for at in (1, 2):
            policy.more(context, at, 0.6)
        kept = 2 * (number % 2)
        policy.observe(context, Outcome(list(range(kept)), [0] * (kept + 1), seconds=(0.1, 1.0 + kept)))
    return policy, settings


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("fixed", {}), ("heuristic", {}), ("confidence", {"threshold": 0.5}), ("cost-aware", CURVE), ("ladder", {}),
        ("kill-switch", {}), ("bandit", {}),
    ],
)  # fmt: skip
def test_every_policy_as_it_decides_is_exact(name: str, options: dict[str, object]) -> None:
    """Each policy of the package, asked token by token about every block that can be drawn, with the draft's
    probability of the drawn token for its confidence, as chains are drafted. Catches: a policy that decides about a
    token by that token or by later ones."""
    lengths = set()

    def sent(block: tuple[int, ...]) -> int:
        policy, settings = _taught(name, options)
        context = Context(settings, Warp(), 2, 1, [0], limit=3, length=3, room=9, round=10)
        length = min(3, policy.length(context))
        for at in range(1, length):
            if policy.can_stop and not policy.more(context, at, q(block[: at - 1])[block[at - 1]]):
                lengths.add(at)
                return at
        lengths.add(length)
        return length

    assert cut(RULE, 3, p, q, sent).distance < 1e-12
    assert lengths


def test_slots_are_safe_only_with_what_was_known_before_the_block_was_drawn() -> None:
    """`slots` with confidences that do not see the block, and with those that do, which its contract forbids. The
    second is the live budget. Catches: a budget that nobody's enumeration would have noticed."""

    def sent(block: tuple[int, ...], live: bool) -> int:
        policy, settings = _policy("cost-aware", curve=[1, 1.8, 1.9], cost_ratio=0.0)
        context = Context(settings, Warp(), 2, 1, [0], limit=2, length=2, room=9, round=10)
        sums = [sum(map(min, p(block[:at]), q(block[:at]))) for at in range(2)]
        return policy.slots(context, sums if live else [sums[0], 0.74])

    assert cut(RULE, 2, p, q, lambda block: sent(block, live=False)).distance < 1e-12
    assert cut(RULE, 2, p, q, lambda block: sent(block, live=True)).distance == pytest.approx(0.1)


def test_a_budget_of_an_earlier_round_leaves_both_rounds_exact() -> None:
    """Two rounds in a row, the second's budget decided by the first one's drawn block, guesses that failed included:
    the text of both together. Catches: a dependence on the past that reaches the text after all."""
    length = 6
    written: dict[tuple[int, ...], float] = {}
    for earlier in product(range(2), repeat=2):
        chance = prod(q(earlier[:at])[token] for at, token in enumerate(earlier))
        budget = best_budget([0.7, 0.7 * (0.9, 0.1)[earlier[0]]], TIMES)
        for text, mass in _texts(earlier):
            for second, share in _round(text, budget):
                whole = (*text, *second)
                for rest in product(range(2), repeat=length - len(whole)):
                    full = (*whole, *rest)
                    tail = prod(p(full[:at])[full[at]] for at in range(len(whole), length))
                    written[full] = written.get(full, 0.0) + chance * mass * share * tail
    for text in product(range(2), repeat=length):
        wanted = prod(p(text[:at])[token] for at, token in enumerate(text))
        assert written.get(text, 0.0) == pytest.approx(wanted, abs=1e-12)


def _texts(block: tuple[int, ...], before: tuple[int, ...] = ()) -> list[tuple[tuple[int, ...], float]]:
    """What one round writes with this block, by Leviathan's rule written out."""
    found, alive = [], 1.0
    for at, token in enumerate(block):
        target, draft = p((*before, *block[:at])), q((*before, *block[:at]))
        keep = min(1.0, target[token] / draft[token])
        left = [max(0.0, x - y) for x, y in zip(target, draft, strict=True)]
        for other, mass in enumerate(left):
            if mass > 0.0 and keep < 1.0:
                found.append(((*block[:at], other), alive * (1 - keep) * mass / sum(left)))
        alive *= keep
    return found + [((*block, token), alive * x) for token, x in enumerate(p((*before, *block)))]


def _round(before: tuple[int, ...], budget: int) -> list[tuple[tuple[int, ...], float]]:
    """What a round with that budget writes after a text."""
    found = []
    for block in product(range(2), repeat=budget):
        chance = prod(q((*before, *block[:at]))[token] for at, token in enumerate(block))
        found += [(text, chance * mass) for text, mass in _texts(block, before)]
    return found
