"""How far each policy drafts; that none of them changes what is written; and what the memory budget leaves."""

from __future__ import annotations

import math
import random
import time
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from transformers.generation.candidate_generator import AssistedCandidateGenerator

import specdec_core as sd
from specdec_core.foundations.options import fields
from specdec_core.foundations.options import parse as read
from specdec_core.lengths import LENGTH_POLICIES, LengthPolicy, longest, policy_class, read_options, room
from specdec_core.lengths.cost_aware import CostAware
from specdec_core.models.bundle import HubModel
from specdec_core.proposers import Context, Outcome, Proposal
from specdec_core.proposers.draft.draft_model import DraftModel
from specdec_core.runtime.timing import width_curve as hardware
from specdec_core.sampling import Warp
from specdec_core.tree import TokenTree
from specdec_measure.testing import scripted

from .distributions import (
    DRAFT,
    TARGET,
    after,
    chance_of,
    chances,
    exact_distribution,
    mixture,
    sample,
    samples,
    wavering,
)
from .tiny import PROMPTS, generate, module, pair

FALSE_ALARM = 1e-4
EXPLICIT = {"curve": [1, 1.02, 1.05, 1.1, 1.3, 1.5], "cost_ratio": 0.1}
POLICIES: list[tuple[str, dict[str, Any]]] = [
    ("fixed", {}),
    ("confidence", {"threshold": 0.35}),
    ("heuristic", {}),
    ("heuristic", {"most": 5}),
    ("cost-aware", {}),
    ("cost-aware", EXPLICIT),
    ("cost-aware", {"curve": [1, 3], "cost_ratio": 0.9}),
    ("ladder", {}),
    ("kill-switch", {"least": 3.0, "window": 3}),
    ("bandit", {}),
    ("test-erratic", {}),
]


class Erratic(LengthPolicy):
    """Any length after any other, whatever the text: 0 after 4, 4 after 0."""

    name = "test-erratic"

    def length(self, context: Context) -> int:
        return random.Random(f"{context.settings.seed}, {context.round}").choice([0, 0, 1, 2, 3, 4])


@pytest.fixture
def erratic(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy above, under its name."""
    monkeypatch.setitem(LENGTH_POLICIES, Erratic.name, Erratic)


def _lengths(trace: sd.Trace) -> list[int]:
    """How many tokens each round proposed; what was drafted ahead in vain was not."""
    return [sum(verdict != "discarded" for verdict in row.nodes.verdict) for row in trace.rounds]


def _context(settings: sd.Settings, length: int = 64, places: int = 10**6, round: int = 0) -> Context:
    return Context(settings, Warp(), 5, 1, [0], limit=length, length=length, room=places, round=round)


def _policy(name: str, draft_length: int = 4, **options: Any) -> Any:
    settings = sd.Settings(length_policy=name, length_options=options, draft_length=draft_length)
    return policy_class(settings)(read_options(settings)), settings


@pytest.mark.usefixtures("erratic")
@pytest.mark.parametrize("proposer", ["draft-model", "prompt-lookup"])
@pytest.mark.parametrize(("policy", "options"), POLICIES)
def test_the_greedy_text_is_the_targets_whatever_the_policy(
    policy: str, options: dict[str, Any], proposer: str
) -> None:
    """Against transformers' `generate`; two architectures, two prompts, overlap on and off, each with each. Catches: a
    memory that a longer or an empty draft leaves out of step, too little room reserved, a token lost where drafting
    stops."""
    for architecture, which, overlap in (
        ("llama", 0, False), ("llama", 2, True), ("gpt2", 0, True), ("gpt2", 2, False),
    ):  # fmt: skip
        settings = sd.Settings(
            proposer=proposer, length_policy=policy, length_options=options, max_new_tokens=24,
            overlap=overlap and proposer == "draft-model",
        )  # fmt: skip
        trace = sd.decode(pair(architecture), PROMPTS[which], settings)
        assert trace.token_ids == _generated(architecture, which, 24)
        assert trace.audit() == []
        assert max(_lengths(trace)) <= options.get("most", 64)


@cache
def _generated(architecture: str, prompt: int, length: int) -> list[int]:
    return generate(module(pair(architecture)), PROMPTS[prompt], length)


PROMPT = [0, 1, 2, 0, 1, 0]
SAMPLED = sd.Settings(temperature=1.0, max_new_tokens=5, record="off")
COUNT = 100  # texts of a case


SAMPLED_BY: dict[str, dict[str, Any]] = {
    "confidence": {"threshold": 0.5},
    "heuristic": {},
    "cost-aware": {"curve": [1, 1.3], "cost_ratio": 0.2},
    "ladder": {"steps": [1, 2]},
    "kill-switch": {"least": 1.0, "window": 1},
    "bandit": {},
    "test-erratic": {},
}


@pytest.mark.usefixtures("erratic")
def test_sampled_texts_follow_the_targets_distribution_whatever_the_policy() -> None:
    """Scripted models, seven policies with two proposers, one by one and together; COUNT texts each. Catches: a policy
    that looks at a token before it decides whether to send it. False alarm 1e-4."""
    cases = {
        (policy, proposer): SAMPLED.but(proposer=proposer, length_policy=policy, length_options=options)
        for policy, options in SAMPLED_BY.items()
        for proposer in ("draft-model", "prompt-lookup")
    }
    written = samples(scripted(TARGET, DRAFT), PROMPT, cases, COUNT)
    found = chances(written, exact_distribution(TARGET, PROMPT, 5, Warp(1.0)), after(PROMPT, DRAFT))
    assert min(found.values()) > FALSE_ALARM, found


class KeepsTheLikely(DraftModel):
    """Wrong: stops before the doubtful token instead of after it, so unlikely tokens are proposed too rarely."""

    name = "test-keeps-the-likely"

    def propose(self, context: Context) -> Proposal:
        proposal = super().propose(context)
        q, tokens = proposal.q, proposal.tree.tokens
        kept = next(
            (at for at, token in enumerate(tokens) if q is not None and q[at, token] < 0.5), len(tokens)
        )
        return Proposal(TokenTree.chain(tokens[:kept]), None if q is None else q[:kept])


def test_the_meter_rejects_a_policy_that_takes_a_drawn_token_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The power of the test above: the same distributions, the texts of one policy. Dropping a token because of what it
    is biases the text."""
    monkeypatch.setitem(sd.PROPOSERS, KeepsTheLikely.name, KeepsTheLikely)
    expected = exact_distribution(TARGET, PROMPT, 5, Warp(1.0))
    settings = SAMPLED.but(proposer=KeepsTheLikely.name)
    texts = sample(scripted(TARGET, DRAFT), PROMPT, settings, 2 * COUNT)
    assert chance_of(texts, expected, after(PROMPT, DRAFT)) < FALSE_ALARM


def _sure(context: tuple[int, ...]) -> list[float]:
    """Sure of token 0, except after a multiple of three tokens."""
    return [0.3, 0.25, 0.25, 0.2] if len(context) % 3 == 0 else [0.9, 0.1, 0.0, 0.0]


@pytest.mark.parametrize(
    ("threshold", "expected"), [(0.4, [3, 2, 2, 2, 0]), (0.25, [5, 5, 1]), (0.95, [1] * 7)]
)
def test_drafting_stops_after_the_first_doubtful_token(threshold: float, expected: list[int]) -> None:
    """A hand-made draft, accepted throughout, γ = 5, after one token: the third drafted token is the first after a
    multiple of three. Catches: a doubtful token that is left out, one too many after it, the confidence of the token
    before."""
    models = scripted(_sure, _sure)
    settings = sd.Settings(
        draft_length=5, length_policy="confidence", length_options={"threshold": threshold}, max_new_tokens=14
    )
    trace = sd.decode(models, [0], settings)
    confidences = [value for row in trace.rounds for value in row.nodes.model_q or []]
    assert trace.token_ids == [0] * 14
    assert _lengths(trace) == expected, confidences


@pytest.mark.parametrize("temperature", [0.0, 1.7])
def test_confidence_is_the_drafts_own_at_temperature_1(temperature: float) -> None:
    """Every recorded round of a real pair: nothing below the threshold but at the end, and no end without a reason.
    Catches: the warped q (one-hot at temperature 0) taken for the confidence."""
    settings = sd.Settings(
        draft_length=6, length_policy="confidence", max_new_tokens=60, temperature=temperature,
        length_options={"threshold": 0.5},
    )  # fmt: skip
    trace, written, early = sd.decode(pair("llama"), PROMPTS[0], settings), 0, 0
    for row in trace.rounds:
        sure = [float(value) >= 0.5 for value in row.nodes.model_q or [] if value is not None]
        assert len(sure) == len(row.nodes.token)
        assert all(sure[:-1])
        if len(sure) < min(6, 60 - written - 1):
            assert not sure[-1]
            early += 1
        written += len(row.committed.token)
    assert early > 3


def test_the_heuristic_grows_by_two_and_shrinks_by_one() -> None:
    """A hand-written course. Catches: growth by one, shrinking below 1, growth beyond `most`, a bonus token counted
    as accepted, a round without room that teaches something."""
    policy, settings = _policy("heuristic", 4, most=7)
    course = [
        (4, 6), (3, 5), (5, 7), (7, 7), (6, 6), (0, 5), (4, 4), (3, 3), (0, 2), (0, 1), (0, 1), (1, 3), (3, 5),
    ]  # fmt: skip
    assert policy.length(_context(settings)) == 4
    for accepted, then in course:
        context = _context(settings, policy.length(_context(settings)))
        policy.observe(context, Outcome(list(range(accepted)), [0] * (accepted + 1)))
        assert policy.length(context) == then, (accepted, then)
    policy.observe(_context(settings, 0), Outcome([], [0]))
    policy.observe(_context(settings, 5, places=0), Outcome([], [0]))
    assert policy.length(context) == 5
    policy.observe(_context(settings, 5, places=2), Outcome([0, 1], [0] * 3))
    assert policy.length(context) == 7


@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_the_heuristic_is_that_of_transformers(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The draft length of every round of transformers' own assisted generation, schedule 'heuristic', against ours.
    Catches: any difference in what counts as fully accepted. The last rounds may differ: the length limit cuts them."""
    models, asked = pair(architecture), []
    assert isinstance(models.draft, HubModel)
    original = AssistedCandidateGenerator.get_candidates

    def spy(self: Any, ids: Any, *args: Any, **kwargs: Any) -> Any:
        found = original(self, ids, *args, **kwargs)
        asked.append(found[0].shape[1] - ids.shape[1])
        return found

    monkeypatch.setattr(AssistedCandidateGenerator, "get_candidates", spy)
    config = models.draft.model.generation_config
    before = config.to_dict()
    config.update(
        num_assistant_tokens=3, num_assistant_tokens_schedule="heuristic", assistant_confidence_threshold=0.0
    )
    try:
        theirs = generate(module(models), PROMPTS[0], 90, assistant_model=models.draft.model)
    finally:
        config.update(
            **{name: before[name] for name in before if name.startswith(("num_assist", "assistant"))}
        )
    settings = sd.Settings(draft_length=3, length_policy="heuristic", max_new_tokens=90)
    trace = sd.decode(models, PROMPTS[0], settings)
    ours = _lengths(trace)
    assert trace.token_ids == theirs
    assert ours[:-2] == asked[: len(ours) - 2]
    assert len({*ours}) > 2, "the schedule never moved"


def test_a_draft_that_is_always_right_grows_to_the_bound_and_fits() -> None:
    """The target drafts for itself. Catches: KV memory reserved for γ and not for what γ may grow to."""
    models = pair("llama")
    twins = sd.Models(models.codec, models.target, models.target)
    settings = sd.Settings(
        draft_length=1, length_policy="heuristic", length_options={"most": 8}, max_new_tokens=60
    )
    assert _lengths(sd.decode(twins, [5], settings)) == [1, 3, 5, 7, 8, 8, 8, 8, 3]
    assert longest(settings) == 8
    assert longest(sd.Settings(length_policy="heuristic")) == 64


def _brute(chances: list[float], rate: float, cost: float, curve: list[float], most: int) -> int:
    """The best length, all of them tried; on curves that are given in full."""
    speeds = []
    for length in range(len(chances), most + 1):
        every = [chances[at] if at < len(chances) else rate for at in range(length)]
        expected = 1 + sum(math.prod(every[: at + 1]) for at in range(length))
        speeds.append(expected / (length * cost + curve[length]))
    return len(chances) + speeds.index(max(speeds))


def test_cost_aware_chooses_the_best_length_and_the_best_number_of_nodes() -> None:
    """Against brute force on 400 random confidences and curves, rising ones and rugged ones. Catches: a search that
    stops at the first length that does not pay, T(n) for T(n + 1), a branch's values multiplied along the list."""
    rng = random.Random(4)
    answers = set()
    for trial in range(400):
        most = rng.randrange(1, 9)
        steps = [rng.random() * (0.3 if trial % 2 else 1.0) for _ in range(most)]
        curve = [
            1.0 + (sum(steps[:at]) if trial % 4 < 2 else (steps[at - 1] if at else 0.0))
            for at in range(most + 1)
        ]
        cost = rng.choice([0.0, 0.05, 0.3, 1.2])
        policy, settings = _policy("cost-aware", most, curve=curve, cost_ratio=cost)
        policy.accepted, policy.judged = 10 * rng.random(), 10.0
        rate = policy.accepted / policy.judged
        drafted = [rng.random() for _ in range(rng.randrange(most))]
        best = _brute(drafted, rate, cost, curve, most)
        assert policy.best(drafted, most) == best
        if drafted:
            for at, confidence in enumerate(drafted, start=1):
                further = policy.more(_context(settings, most), at, confidence)
            assert further == (best > len(drafted))
        values = sorted((rng.random() for _ in range(most)), reverse=True)
        levels = rng.randrange(4)
        speeds = [(1 + sum(values[:n])) / (levels * cost + curve[n]) for n in range(most + 1)]
        assert policy.nodes(_context(settings, levels), values) == speeds.index(max(speeds))
        answers.add((best - len(drafted), speeds.index(max(speeds))))
    assert len(answers) > 20


def test_cost_aware_grows_a_tree_as_far_as_it_pays() -> None:
    """Against brute force on 300 random trees and machines: the best number of nodes with the levels there are, and
    with another one, whose nodes fall at the rate so far. Catches: a level that costs nothing, more nodes than there
    is room for, a rate that forgets earlier rounds."""
    rng, answers = random.Random(5), []
    for _ in range(100):
        curve = [1.0, *sorted(1.0 + rng.random() for _ in range(39))]
        cost, room = rng.choice([0.0, 0.05, 0.3]), rng.randrange(1, 20)
        policy, settings = _policy("cost-aware", 8, curve=curve, cost_ratio=cost)
        context = _context(settings, 8)
        policy.length(context)
        above, sums, values = 1.0, [4.0], list[float]()
        for levels in range(1, 4):
            front = sorted((above * rng.random() / 3 for _ in range(3)), reverse=True)
            values += front
            sums.append(sum(front) / above)
            above = sum(front)
            rate = sum(sums) / (5 + levels)
            now, then = (
                max(
                    (1 + sum(sorted(tree, reverse=True)[:count])) / (height * cost + curve[count])
                    for count in range(min(room, len(tree)) + 1)
                )
                for tree, height in (
                    (values, levels),
                    (values + [rate * value for value in front], levels + 1),
                )
            )
            assert policy.deeper(context, levels, values, front, room) == (then > now)
            answers.append(then > now)
    assert 30 < sum(answers) < 270


def test_cost_aware_learns_from_what_was_judged() -> None:
    """Four guesses, two accepted, the third rejected, the last not reached. Catches: unreached tokens counted as
    rejected, the last round's confidences counted again."""
    policy, settings = _policy("cost-aware", 8, curve=[1, 1.01], cost_ratio=0.01)
    context = _context(settings, 8)
    for at, confidence in enumerate([0.93, 0.97, 0.55, 0.91], start=1):
        policy.more(context, at, confidence)
    policy.observe(context, Outcome([0, 1], [0] * 3))
    assert [(place, accepted) for place, _, accepted in policy.survival.judged] == [(0, 1), (1, 1), (2, 0)]
    assert (policy.accepted, policy.judged) == (4 + 2, 5 + 3)
    policy.observe(context, Outcome([], [0]))  # nobody asked: nothing is known of what was proposed
    assert (policy.accepted, policy.judged) == (4 + 2, 5 + 3)
    assert len(policy.survival.judged) == 3


def test_cost_aware_leaves_a_bad_round_earlier_at_a_good_pace() -> None:
    """The same guesses after rounds that wrote much and after rounds that wrote little, against brute force. Catches: a
    round judged by its own tokens per second alone, a pace of which the drafting is left out."""
    curve, cost = [1.0, 1.1, 1.2, 1.3, 1.4], 0.2
    for accepted in (4, 0):
        policy, settings = _policy("cost-aware", 4, curve=curve, cost_ratio=cost)
        context = _context(settings, 4)
        for _ in range(3):
            for at in range(1, 5):
                policy.more(context, at, 0.9)
            policy.observe(context, Outcome(list(range(accepted)), [0] * (accepted + 1)))
        pace, rate = (accepted + 1) / (4 * cost + curve[4]), policy.accepted / policy.judged
        chance = policy.survival.chance(0, 0.55)
        worth = [
            1 + sum(chance * rate**more for more in range(n)) - pace * (n * cost + curve[n])
            for n in range(1, 5)
        ]
        assert policy.best([chance], 4) == 1 + worth.index(max(worth))
        policy.accepted, policy.judged = 5.0, 10.0  # the same hopes at either pace
        left = policy.best([0.5], 4)
        assert left == (1 if accepted else 2), (pace, left)


def test_cost_aware_sends_the_best_number_of_a_blocks_slots() -> None:
    """Against brute force on 200 random blocks and machines, after the rounds that send everything, by the pace of the
    one round so far. Catches: a pass charged per slot, T(n) for T(n + 1), a survival that is not a product, slots that
    were not sent taken for judged."""
    rng, answers = random.Random(8), set()
    for _ in range(200):
        curve = [1.0, *sorted(1.0 + rng.random() for _ in range(7))]
        cost = rng.choice([0.0, 0.2, 1.0])
        policy, settings = _policy("cost-aware", 7, curve=curve, cost_ratio=cost)
        confidences = [rng.random() ** 0.3 for _ in range(7)]
        assert policy.slots(_context(settings, 7), confidences) == 7, "the first rounds send all"
        policy.observe(_context(settings, 7), Outcome([0], [0, 0]))
        assert [place for place, _, _ in policy.survival.judged] == [0, 1]
        sent = policy.slots(_context(settings, 7, round=3), confidences)
        survivals = [math.prod(confidences[: at + 1]) for at in range(7)]
        pace = 2 / (cost + curve[7])  # of the one round so far
        worth = [1 + sum(survivals[:n]) - pace * (cost + curve[n]) for n in range(8)]
        assert sent == worth.index(max(worth))
        policy.observe(_context(settings, 7, round=3), Outcome(list(range(sent)), [0] * (sent + 1)))
        assert len(policy.survival.judged) == 2 + sent
        answers.add(sent)
    assert len(answers) > 4


def test_the_ladder_climbs_and_descends_a_step_at_a_time() -> None:
    """Guesses that are all accepted, then none, then two of five. Catches: a move in the warm-up or in every round,
    two steps at once, a step down at the first bad round, leaving the ladder."""
    policy, settings = _policy("ladder", 3)
    assert longest(settings) == 7

    def play(rounds: int, accepted: int) -> list[int]:
        found = []
        for _ in range(rounds):
            length = policy.length(_context(settings))
            found.append(length)
            kept = min(accepted, length)
            policy.observe(_context(settings, length), Outcome(list(range(kept)), [0] * (kept + 1)))
        return found

    assert play(30, 9) == [3] * 15 + [5] * 10 + [7] * 5
    falling = play(40, 0)
    assert falling[:5] == [7] * 5 and falling[-1] == 1
    assert [step for step, before in pairwise([*falling, 1]) if step != before] == [7, 5, 3]
    assert play(60, 2)[-1] == 3  # an average of 2: neither above 3 - 1/2 nor below 1 - 1/4


def test_the_kill_switch_is_final() -> None:
    """Catches: a switch before the window is full, one that comes back, rounds without a guess that count."""
    policy, settings = _policy("kill-switch", 4, least=1.0, window=3)
    seen = []
    for accepted, length in [(0, 4), (0, 4), (4, 4), (0, 0), (0, 4), (0, 4), (0, 4), (4, 4), (4, 4)]:
        seen.append(policy.length(_context(settings)))
        policy.observe(_context(settings, length), Outcome(list(range(accepted)), [0] * (accepted + 1)))
    assert seen == [4] * 7 + [0, 0]


def test_the_bandit_finds_the_fastest_length() -> None:
    """Rounds whose time is known: 4 tokens pay best, then none does. Catches: tokens per round taken for speed, an arm
    that is never tried, one that is never left."""
    policy, settings = _policy("bandit", 8)
    pays = {0: 1.0, 1: 1.1, 2: 1.3, 4: 3.0, 8: 1.5}
    stalls = {arm: 1.0 / (1 + arm) for arm in pays}
    for speeds, best in ((pays, 4), (stalls, 0)):
        chosen = []
        for _ in range(400):
            length = policy.length(_context(settings))
            chosen.append(length)
            tokens = 1 + length
            outcome = Outcome(list(range(length)), [0] * tokens, seconds=(0.0, tokens / speeds[length]))
            policy.observe(_context(settings, length), outcome)
        assert set(chosen) == {*pays}
        assert chosen[-100:].count(best) > 70, chosen[-100:]


def test_cost_aware_gives_up_where_drafting_cannot_pay_and_tries_again() -> None:
    """A draft as slow as its target, on a machine whose passes cost by the token. Catches: a policy that never drafts
    again, or never stops."""
    models = scripted(wavering(9, 1), wavering(9, 2))
    settings = sd.Settings(
        length_policy="cost-aware",
        length_options={"curve": [1, 2], "cost_ratio": 1.0},
        max_new_tokens=60,
        temperature=1.0,
    )
    lengths = _lengths(sd.decode(models, [0], settings))[:-1]
    assert [at for at, length in enumerate(lengths) if length] == [*range(0, len(lengths), 8)]
    assert set(lengths) == {0, 1}
    free = settings.but(length_options={"curve": [1, 1], "cost_ratio": 0.0})
    assert set(_lengths(sd.decode(models, [0], free))[:-4]) == {4}


def test_drafting_nothing_after_drafting_much_keeps_the_draft_in_step() -> None:
    """12 pairs of random models, machines and random numbers, in which the draft length often falls from 2 or more to
    0. Greedy texts are those of plain decoding. Catches: a draft that is rewound to where it stood a round ago."""
    rng, falls = random.Random(7), 0
    for trial in range(12):
        own, other = (wavering(5, seed, sharpness=4.0) for seed in (trial, 100 + trial))
        models = scripted(own, mixture(own, other, rng.choice([0.5, 0.8, 1.0])))
        steps = [0.5, *(rng.choice([0.0, 0.05]) for _ in range(4))]
        settings = sd.Settings(
            length_policy="cost-aware",
            length_options={
                "curve": [1.0 + sum(steps[:at]) for at in range(6)],
                "cost_ratio": rng.choice([0.02, 0.05, 0.1]),
            },
            draft_length=rng.randrange(2, 7), max_new_tokens=40, seed=trial, record="tokens",
        )  # fmt: skip
        plain = sd.decode(models, [0], sd.Settings(proposer="none", max_new_tokens=40))
        assert sd.decode(models, [0], settings).token_ids == plain.token_ids
        for overlap in (False, True):
            trace = sd.decode(models, [0], settings.but(temperature=1.3, overlap=overlap))
            assert trace.audit() == []
            falls += sum(one >= 2 and not other for one, other in pairwise(_lengths(trace)[:-1]))
    assert falls > 12, falls


def test_cost_aware_draws_out_copies_that_hold() -> None:
    """Prompt lookup is never asked: a text that repeats itself for ever gets γ, a text that breaks its repetitions gets
    less. Catches: rounds in which nothing was found, taken for wrong guesses."""
    steep, flat = ({"curve": curve, "cost_ratio": 0.0} for curve in ([1, 1.1], [1, 1.01]))
    settings = sd.Settings(
        proposer="prompt-lookup",
        draft_length=16,
        length_policy="cost-aware",
        length_options=flat,
        max_new_tokens=120,
    )
    cycle = scripted(lambda text: [float(token == len(text) % 20) for token in range(20)])
    assert set(_lengths(sd.decode(cycle, [*range(20), 0], settings))[:-1]) == {16}
    broken = sd.decode(
        scripted(wavering(3, 5, 0.5)),
        [0, 1, 2] * 4,
        settings.but(temperature=1.0, max_new_tokens=200, length_options=steep),
    )
    assert max(_lengths(broken)[20:]) < 10


def test_cost_aware_measures_only_what_it_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a repeatable run that measures nevertheless, a curve in seconds mixed with ratios, a draft
    model's cost charged to a proposer without one."""
    asked: list[object] = []
    curve = hardware.WidthCurve((1, 5), (0.5, 1.0), 0.1, 1, "cpu", "float32", "", "", "", "2026-01-01")

    def known(models: sd.Models) -> hardware.WidthCurve:
        asked.append(models)
        return curve

    monkeypatch.setattr(hardware, "known_curve", known)
    models = scripted(wavering(3, 1), wavering(3, 2))

    def made(proposer: str = "draft-model", **options: Any) -> CostAware:
        from specdec_core.engine.plan import Plan

        settings = sd.Settings(proposer=proposer, length_policy="cost-aware", length_options=options)
        before = list(asked)
        context = Plan.make(models, [0], settings).start_context
        assert asked == before, "a plan measures nothing"
        context.policy.length(context)
        assert isinstance(context.policy, CostAware)
        return context.policy

    policy = made(**EXPLICIT)
    assert not asked and policy.cost == 0.1 and policy.time(4) == 1.1 and policy.time(8) == pytest.approx(1.9)
    policy = made()
    assert asked == [models] and policy.cost == pytest.approx(0.2) and policy.time(3) == pytest.approx(1.5)
    assert made(curve=[1, 1.5]).cost == pytest.approx(0.2) and len(asked) == 2
    policy = made(cost_ratio=0.7)
    assert policy.cost == 0.7 and policy.time(5) == pytest.approx(2.0)
    policy = made("prompt-lookup")
    assert policy.cost == 0.0
    policy.observe(_context(sd.Settings(), 2), Outcome([0], [0, 0], seconds=(0.4, 0.5)))
    assert policy.cost == pytest.approx(0.25 * 0.4 / 2 / 0.5)  # a quarter of the way to 0.4 s over two levels


def test_cost_aware_measures_after_the_start_and_off_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A measurement that takes a second, once. Catches: a lane that starts late, or is charged for the measuring."""
    calls: list[float] = []

    def slow(models: sd.Models) -> hardware.WidthCurve:
        calls.append(time.perf_counter())
        time.sleep(1.0)
        return hardware.WidthCurve((1, 5), (0.5, 1.0), 0.1, 1, "cpu", "float32", "", "", "", "2026-01-01")

    monkeypatch.setattr(hardware, "known_curve", slow)
    settings = sd.Settings(length_policy="cost-aware", max_new_tokens=10)
    events = sd.stream(scripted(wavering(3, 1), wavering(3, 2)), [0], settings)
    assert isinstance(next(events), sd.Started) and not calls
    *_, last = events
    assert len(calls) == 1
    assert isinstance(last, sd.Finished) and last.stats.prefill_s + last.stats.decode_s < 1.0


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        ("fixed", {"threshold": 0.4}),
        ("confidence", {"threshold": 1.5}),
        ("confidence", {"threshold": "0.4"}),
        ("heuristic", {"most": 65}),
        ("heuristic", {"most": 0}),
        ("cost-aware", {"curve": [1.0, "x"]}),
        ("cost-aware", {"curve": [2, 3]}),
        ("cost-aware", {"curve": [1, -1]}),
        ("cost-aware", {"curve": "1 2"}),
        ("cost-aware", {"cost_ratio": -0.1}),
        ("ladder", {"steps": [3, 1]}),
        ("ladder", {"steps": []}),
        ("kill-switch", {"window": 0}),
        ("bandit", {"explore": -1.0}),
        ("unheard-of", {}),
    ],
)
def test_bad_options_are_refused_in_one_sentence(policy: str, options: dict[str, Any]) -> None:
    """Before anything is loaded or measured. Catches: an option nobody checks."""
    models = scripted(wavering(3, 1), wavering(3, 2))
    with pytest.raises(sd.SettingsError) as caught:
        sd.decode(models, [0], sd.Settings(length_policy=policy, length_options=options))
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_every_policy_is_described_and_its_options_can_be_typed() -> None:
    """Two sentences each; options as texts, as the command line and addresses carry them. Catches: an option that no
    screen can offer."""
    for name, kind in LENGTH_POLICIES.items():
        assert kind.name == name and kind.summary.count(". ") == 1 and kind.summary.endswith(".")
        for option in fields(kind.Options).values():
            assert option.help.endswith(".")
    typed = read("it", fields(CostAware.Options), {"curve": "[1, 2]", "cost_ratio": "0.25"})
    policy, _ = _policy("cost-aware", **typed)
    assert [policy.time(tokens) for tokens in (1, 2, 3, 4)] == [1.0, 2.0, 3.0, 4.0]
    assert policy.cost == 0.25


def test_the_room_is_what_the_budget_leaves() -> None:
    """By hand for a Llama of two layers: a row of keys and values is 2 · 2 layers · 2 heads · 8 · 4 bytes, a row of
    logits 97 · 4 bytes, twice. Catches: bits for bytes, the root's own row forgotten."""
    models = pair("llama")
    settings = sd.Settings(memory_budget_mb=0.02)
    for length in (0, 10, 60):
        nodes = room(settings, models, length)
        used = length * 256 + (nodes + 1) * (256 + 2 * 4 * 97)
        assert used <= 20_000 < used + 256 + 2 * 4 * 97
    assert room(settings, models, 1_000) == 0
    assert room(sd.Settings(), models, 10**9) == 10**6


@pytest.mark.parametrize("proposer", ["draft-model", "prompt-lookup"])
@pytest.mark.parametrize("policy", LENGTH_POLICIES)
def test_drafts_shrink_as_the_text_fills_the_budget(proposer: str, policy: str) -> None:
    """The text is still the target's; each round keeps to the room it had; at the end none is left. Catches: a proposer
    that looks at the length asked for and not at the room."""
    models = pair("llama")
    settings = sd.Settings(
        proposer=proposer, length_policy=policy, draft_length=12, max_new_tokens=70, memory_budget_mb=0.02,
        length_options=EXPLICIT if policy == "cost-aware" else {},
    )  # fmt: skip
    prompt = PROMPTS[2] * 2
    trace = sd.decode(models, prompt, settings)
    assert trace.token_ids == generate(module(models), prompt, 70)
    rooms = [room(settings, models, row.cache_before) for row in trace.rounds]
    assert all(one >= other for one, other in pairwise(rooms))
    assert rooms[0] > 0 == rooms[-1]
    assert all(length <= place for length, place in zip(_lengths(trace), rooms, strict=True))
    assert sum(_lengths(trace)) > 0
    for row, place in zip(trace.rounds, rooms, strict=True):
        if place == 0:
            assert row.committed.source == ["plain"] and row.draft_passes == 0


@pytest.mark.parametrize("proposer", ["draft-model", "prompt-lookup"])
@pytest.mark.parametrize("policy", LENGTH_POLICIES)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_without_room_a_decode_is_plain_and_says_so(proposer: str, policy: str, temperature: float) -> None:
    """Catches: an acceptance rate of nothing, a bonus or corrected token where nothing was proposed, a draft pass that
    is counted, and another text: the correction's random numbers are plain decoding's."""
    models = pair("gpt2")
    settings = sd.Settings(
        proposer=proposer,
        length_policy=policy,
        max_new_tokens=20,
        temperature=temperature,
        memory_budget_mb=1e-4,
    )
    trace = sd.decode(models, PROMPTS[2], settings)
    plain = sd.decode(
        models, PROMPTS[2], sd.Settings(proposer="none", max_new_tokens=20, temperature=temperature)
    )
    assert trace.token_ids == plain.token_ids
    assert trace.audit() == []
    stats = trace.stats
    assert (stats.proposed, stats.draft_passes, stats.acceptance_rate, stats.tokens_per_pass) == (
        0,
        0,
        None,
        1.0,
    )
    assert {source for row in trace.rounds for source in row.committed.source} == {"plain"}
