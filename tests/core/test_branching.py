"""The branching proposer: what its trees hold, what they leave out, and that they change no distribution."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
import torch

import specdec_core as sd
from specdec_core import lengths as draft_length
from specdec_core.engine.plan import Plan
from specdec_core.lengths import FixedLength
from specdec_core.models.bundle import HubModel
from specdec_core.proposers import Context, Proposal
from specdec_core.proposers.draft import growth
from specdec_core.proposers.draft.branching import Branching
from specdec_core.rules import Judgement, Rule
from specdec_core.sampling import Warp
from specdec_core.tree import TokenTree
from specdec_measure.exact.distribution import Distribution, total_variation
from specdec_measure.testing import scripted

from .distributions import (
    DRAFT,
    TARGET,
    Meter,
    after,
    chances,
    exact_distribution,
    mixture,
    sample,
    samples,
    wavering,
)
from .tiny import ARCHITECTURES, PROMPTS, VOCABULARY, generate, module, pair
from .trees import largest_difference, random_tree

FALSE_ALARM = 1e-4
COUNT = 100  # texts of a case
PROMPT = [0, 1, 2, 0]
SHAPES: list[dict[str, int | float | bool]] = [
    {},
    {"rerank": False},
    {"width": 4, "nodes": 7, "depth": 6, "beam": 8},
    {"width": 2, "depth": 3, "threshold": 0.2},
    {"width": 1, "depth": 5},
]


def branching(**changes: object) -> sd.Settings:
    """Settings with this proposer."""
    return sd.Settings(**{"proposer": "branching", **changes})


def texts(trace: sd.Trace) -> Iterator[tuple[list[int], sd.trace.Round]]:
    """The text before each round, prompt included, and the round."""
    text = list(trace.header.prompt_ids)
    for row in trace.rounds:
        yield list(text), row
        text += row.committed.token


def path(row: sd.trace.Round, node: int) -> list[int]:
    """The tokens from the first level down to a node; none for the root."""
    nodes = row.nodes
    return [*path(row, nodes.parent[node]), nodes.token[node]] if node >= 0 else []


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_tree_read_in_parts_equals_the_tree_read_at_once(architecture: str, device: str) -> None:
    """Random trees after a random prefix, read in one to five parts, then a path of them kept, three times over.
    Catches: a part that does not see the parts before it, stands at the wrong position, or overwrites their rows; and
    a memory that keeps other rows than those of the path. Tolerance 1e-5 on the CPU, 1e-4 on CUDA."""
    tolerance = 1e-5 if device == "cpu" else 1e-4
    rng = random.Random(23)
    model = pair(architecture, device).target
    parts, text = model.reader(96), [rng.randrange(VOCABULARY) for _ in range(9)]
    parts.prefill(text[:-1])
    for size in (1, 6, 15):
        tree = random_tree(size, VOCABULARY, rng)
        ends = sorted({*(rng.randrange(1, size + 1) for _ in range(4)), size + 1})
        logits, known = [], 0
        for end in ends:
            part = TokenTree(tree.tokens[: end - 1], tree.parents[: end - 1])
            logits.append(parts.read(text[-1], part, known))
            known = end
        fresh = model.reader(96)
        fresh.prefill(text[:-1])
        assert largest_difference(torch.cat(logits), fresh.read(text[-1], tree)) <= tolerance
        chosen = tree.path(size - 1)
        parts.keep([0, *(node + 1 for node in chosen)])
        text += [*(tree.tokens[node] for node in chosen), rng.randrange(VOCABULARY)]
        fresh = model.reader(96)
        fresh.prefill(text[:-1])
        after = parts.read(text[-1], TokenTree())
        assert largest_difference(after, fresh.read(text[-1], TokenTree())) <= tolerance


GREEDY = ["gpt2", "opt", "llama", "qwen3", "gpt-neox", "olmo2"]


@pytest.mark.parametrize("architecture", GREEDY)
def test_greedy_output_equals_generate(architecture: str, device: str) -> None:
    """Every shape and every prompt with every architecture, each shape with each prompt. Catches: wrong rows kept in
    either memory, in any shape of tree. No tolerance; see test_architectures."""
    models = pair(architecture, device)
    rates = []
    expected = [generate(module(models), prompt, 30) for prompt in PROMPTS[:3]]
    rules = itertools.cycle(("speculative-sampling", "exact-match"))
    for turn, (options, rule) in enumerate(zip(SHAPES, rules, strict=False), GREEDY.index(architecture)):
        settings = branching(options=options, rule=rule, max_new_tokens=30)
        trace = sd.decode(models, PROMPTS[turn % 3], settings)
        assert trace.token_ids == expected[turn % 3], (options, turn % 3)
        assert trace.audit() == []
        rates.append(trace.stats.tokens_per_pass)
    assert min(rates) < 4 and max(rates) > 1.5, "nothing is rolled back, or nothing is kept"


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("options", SHAPES)
def test_siblings_are_the_drafts_likeliest_tokens(
    options: dict[str, int | float | bool], overlap: bool
) -> None:
    """At every node of every round, against a plain transformers pass of the draft over the text. Catches: a draft
    whose memory holds other rows than the text's, which the lossless rule would hide; and with overlap, a guess that
    was collected although it was wrong. Ids that tie with the next to rounding are not in these models."""
    models = pair("llama")
    assert isinstance(models.draft, HubModel)
    settings = branching(options=options, overlap=overlap, max_new_tokens=30)
    for text, row in texts(sd.decode(models, PROMPTS[0], settings)):
        seen = [
            node
            for node, verdict in enumerate(row.nodes.verdict)
            if verdict in ("accepted", "rejected", "unreached")
        ]
        for parent in {row.nodes.parent[node] for node in seen}:
            children = [row.nodes.token[node] for node in seen if row.nodes.parent[node] == parent]
            with torch.inference_mode():
                logits = models.draft.model(torch.tensor([[*text, *path(row, parent)]])).logits[0, -1]
            assert children == logits.topk(len(children)).indices.tolist()


def test_sampled_texts_follow_the_targets_distribution() -> None:
    """Scripted models whose distributions depend on the whole text; texts of four tokens in two to four rounds, every
    way to draw with two rules, one by one and together. Catches: a q that is not what a sibling was drawn from,
    siblings dropped or reordered for what they are, rows of the draft gone wrong. False alarm 1e-4."""
    models = scripted(TARGET, DRAFT)
    options = {"width": 2, "depth": 3, "nodes": 5, "beam": 2, "threshold": 0.1}
    cases = {
        (draw, rule): branching(
            options={"draw": draw, **options}, rule=rule, temperature=1.0, max_new_tokens=4, record="off"
        )
        for draw in ("distinct", "independent", "likeliest")
        for rule in ("speculative-sampling", "token-matching")
    }
    expected = exact_distribution(TARGET, PROMPT, 4, Warp(1.0))
    found = chances(samples(models, PROMPT, cases, COUNT), expected, after(PROMPT, DRAFT))
    assert min(found.values()) > FALSE_ALARM, found


def test_sampled_texts_follow_the_warped_distribution() -> None:
    """Top-k leaves two of four tokens, so the draft runs out of siblings. Catches: children of probability 0, which
    would divide by nothing or stand in the way of the residual. False alarm 1e-4."""
    target = wavering(4, seed=3)
    draft = mixture(target, wavering(4, seed=4), 0.6)
    models = scripted(target, draft)
    options = {"width": 4, "depth": 2, "nodes": 8}
    settings = branching(temperature=1.3, top_k=2, max_new_tokens=4, record="off")
    cases = {(draw,): settings.but(options={"draw": draw, **options}) for draw in ("distinct", "likeliest")}
    expected = exact_distribution(target, PROMPT, 4, Warp(1.3, top_k=2))
    found = chances(samples(models, PROMPT, cases, COUNT), expected, after(PROMPT, draft))
    assert min(found.values()) > FALSE_ALARM, found


def verdicts(rule: Rule, proposal: Proposal, p: torch.Tensor) -> Iterator[tuple[Judgement, float]]:
    """Every way the coins can fall and its probability; a coin of 0 passes, a coin of 1 does not."""
    tree, undecided = proposal.tree, [(dict[int, float](), 1.0)]
    while undecided:
        coins, chance = undecided.pop()
        judgement = rule.judge(tree, p, proposal.q, [coins.get(node, 0.0) for node in range(len(tree))])
        thresholds = judgement.thresholds
        judged = [node for node in range(len(tree)) if thresholds[node] is not None and node not in coins]
        if not judged:
            yield judgement, chance
            continue
        node = min(judged, key=lambda node: (tree.depths[node], node))
        passes = thresholds[node] or 0.0
        undecided += [
            ({**coins, node: coin}, chance * share)
            for coin, share in ((0.0, passes), (1.0, 1.0 - passes))
            if share > 0.0
        ]


def round_distribution(
    options: dict[str, object], rule: str, unsure: float, monkeypatch: pytest.MonkeyPatch
) -> tuple[Distribution, int]:
    """The exact distribution of the first three tokens of one round: every way the siblings can be drawn, by replaying
    the proposer with other draws until all are through, times every way the coins can fall; and the number of trees.
    Below a level with less than the probability `unsure` there is no other."""
    target, draft = wavering(4, seed=7, sharpness=1.0), wavering(4, seed=107, sharpness=1.0)
    settings = branching(
        options=options, rule=rule, temperature=1.0, max_new_tokens=3,
        length_policy="confidence", length_options={"threshold": unsure},
    )  # fmt: skip
    complete: Distribution = {}
    waiting: list[list[int]] = [[]]
    trees = 0
    while waiting:
        decided, taken, weight = waiting.pop(), list[int](), [1.0]

        def choose(
            probs: torch.Tensor, uniform: float, decided: list[int] = decided, taken: list[int] = taken,
            weight: list[float] = weight,
        ) -> torch.Tensor:  # fmt: skip
            possible = probs.nonzero().flatten().tolist()
            if len(taken) == len(decided):
                waiting.extend([*decided, other] for other in possible[1:])
                decided.append(possible[0])
            token = decided[len(taken)]
            taken.append(token)
            weight[0] *= float(probs[token] / probs.sum())
            return torch.tensor(token)

        monkeypatch.setattr(growth, "draw", choose)
        plan = Plan.make(scripted(target, draft), PROMPT, settings)
        plan.proposer.start(plan.start_context)
        proposal = plan.proposer.propose(replace(plan.start_context, limit=2, length=2, room=100))
        tree, trees = proposal.tree, trees + 1
        above = [tuple(tree.tokens[step] for step in tree.path(node)) for node in range(-1, len(tree))]
        p = torch.tensor([target((*PROMPT, *text)) for text in above], dtype=torch.float64)
        for judgement, chance in verdicts(plan.rule, proposal, p):
            path = tuple(tree.tokens[node] for node in judgement.path)
            written: Distribution = {
                (*path, token): weight[0] * chance * mass
                for token, mass in enumerate(judgement.final.tolist())
            }
            for _ in range(3 - len(path) - 1):
                written = {
                    (*text, token): mass * share
                    for text, mass in written.items()
                    for token, share in enumerate(target((*PROMPT, *text)))
                }
            for text, mass in written.items():
                complete[text] = complete.get(text, 0.0) + mass
    return complete, trees


@pytest.mark.parametrize("rule", ["speculative-sampling", "token-matching"])
@pytest.mark.parametrize(
    ("options", "unsure"),
    [
        ({"draw": "distinct", "width": 3, "depth": 1, "nodes": 3}, 0.0),
        ({"draw": "distinct", "width": 2, "depth": 2, "nodes": 4, "beam": 1}, 0.0),
        ({"draw": "distinct", "width": 2, "depth": 2, "nodes": 3, "beam": 2, "threshold": 0.2}, 0.0),
        ({"draw": "distinct", "width": 2, "depth": 2, "nodes": 3, "beam": 2}, 0.5),
        ({"draw": "independent", "width": 2, "depth": 2, "nodes": 3, "beam": 2}, 0.0),
    ],
)
def test_one_rounds_distribution_is_the_targets_exactly(
    options: dict[str, object], unsure: float, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Enumerated, to the rounding of float32. Catches what samples are too few for: a q without the elder siblings
    taken out, a beam or a threshold that looks at what is not settled yet."""
    written, trees = round_distribution(options, rule, unsure, monkeypatch)
    assert trees > 20
    exact = exact_distribution(wavering(4, seed=7, sharpness=1.0), PROMPT, 3, Warp(1.0))
    assert total_variation(written, exact) < 1e-6


class PostSelecting(Branching):
    """Wrong: of two drawn siblings it sends the one that the draft thinks likelier."""

    name = "test-post-selecting"

    def propose(self, context: Context) -> Proposal:
        proposal = super().propose(context)
        if len(proposal.tree) < 2:
            return proposal
        assert self.growth is not None and proposal.q is not None
        best = max((0, 1), key=lambda node: self.growth.nodes[node].value)  # type: ignore[union-attr]
        self.kept = [best]
        return Proposal(TokenTree([proposal.tree.tokens[best]], [-1]), proposal.q[[best]])


def test_the_meter_finds_a_proposer_that_drops_drawn_siblings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The power of the tests above, with their distributions and the texts of one way to draw: choosing among drawn
    siblings changes the distribution."""
    monkeypatch.setitem(sd.PROPOSERS, PostSelecting.name, PostSelecting)
    models = scripted(TARGET, DRAFT)
    options = {"draw": "distinct", "width": 2, "depth": 1, "nodes": 2}
    settings = sd.Settings(
        proposer=PostSelecting.name, options=options, temperature=1.0, max_new_tokens=4, record="off"
    )
    expected = exact_distribution(TARGET, PROMPT, 4, Warp(1.0))
    meter = Meter(expected, after(PROMPT, DRAFT))
    assert meter.chance(sample(models, PROMPT, settings, 2 * COUNT)) < FALSE_ALARM
    right = settings.but(proposer="branching")
    assert meter.chance(sample(models, PROMPT, right, 2 * COUNT)) > FALSE_ALARM


@pytest.mark.parametrize("draw", ["distinct", "independent"])
def test_q_is_the_distribution_each_sibling_was_drawn_from(draw: str) -> None:
    """The recorded q of every node against the draft's distribution by hand: without replacement, over what the elder
    siblings left. Catches: siblings judged by the first one's q, which only many samples would show."""
    draft = wavering(5, seed=8)
    settings = branching(options={"draw": draw, "width": 4}, temperature=1.0, max_new_tokens=20)
    trace = sd.decode(scripted(wavering(5, seed=7), draft), PROMPT, settings)
    repeated = 0
    for text, row in texts(trace):
        elder: dict[int, list[int]] = {}
        assert row.nodes.q is not None
        for node, (parent, token) in enumerate(zip(row.nodes.parent, row.nodes.token, strict=True)):
            probs = draft((*text, *path(row, parent)))
            gone = elder.setdefault(parent, [])
            left = 1.0 - sum(probs[other] for other in gone) if draw == "distinct" else 1.0
            assert row.nodes.q[node] == pytest.approx(probs[token] / left, rel=1e-4)
            repeated += token in gone
            gone.append(token)
    assert (repeated > 0) == (draw == "independent")


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("rerank", [True, False])
def test_no_tree_is_larger_than_asked_for(temperature: float, rerank: bool) -> None:
    """Catches: a budget spent twice, a node with too many children, a level below the limit or below the depth; and a
    tree that leaves the budget unused although there was more to guess."""
    models = scripted(wavering(9, seed=1), wavering(9, seed=2))
    for nodes, width, depth, beam in itertools.product((1, 5, 11), (1, 3), (1, 4), (1, 3)):
        options = {"nodes": nodes, "width": width, "depth": depth, "beam": beam, "rerank": rerank}
        settings = branching(options=options, temperature=temperature, max_new_tokens=12)
        trace = sd.decode(models, PROMPT, settings)
        assert trace.audit() == []
        for text, row in texts(trace):
            sent = [node for node, verdict in enumerate(row.nodes.verdict) if verdict != "pruned"]
            limit = 12 - (len(text) - len(PROMPT)) - 1
            families = [row.nodes.parent[node] for node in sent]
            assert len(sent) <= nodes
            assert max((row.nodes.depth[node] for node in sent), default=0) <= min(depth, limit)
            assert max((families.count(parent) for parent in families), default=0) <= width
            possible = sum(width * min(beam, width**level) for level in range(min(depth, limit)))
            assert len(sent) == min(nodes, possible) or not rerank or temperature


def test_a_memory_budget_bounds_the_tree() -> None:
    """Catches: a proposer that ignores `room`. The budget leaves fewer and fewer nodes as the text grows."""
    models = pair("llama")
    budget = (40 * models.target.kv_bytes + 9 * 8 * models.target.vocabulary) / 1e6
    for overlap in (False, True):
        trace = sd.decode(
            models, PROMPTS[0], branching(memory_budget_mb=budget, max_new_tokens=30, overlap=overlap)
        )
        assert trace.token_ids == generate(module(models), PROMPTS[0], 30)
        for text, row in texts(trace):
            left = budget * 1e6 - (len(text) - 1) * models.target.kv_bytes
            sent = sum(verdict not in ("pruned", "discarded") for verdict in row.nodes.verdict)
            assert sent <= left / (models.target.kv_bytes + 8 * models.target.vocabulary) - 1


def _subtrees(
    children: dict[tuple[int, ...], list[tuple[int, ...]]], size: int
) -> set[frozenset[tuple[int, ...]]]:
    """All sets of `size` nodes that hold every node's parent; a node is the tuple of tokens that leads to it."""
    found: set[frozenset[tuple[int, ...]]] = {frozenset()}
    for _ in range(size):
        found = {
            tree | {child}
            for tree in found
            for parent in (*tree, ())
            for child in children.get(parent, [])
            if child not in tree
        }
    return found


def test_reranking_keeps_the_best_subtree_there_is() -> None:
    """Against all subtrees of five nodes, by brute force: of the whole tree of three children and three levels, none
    has a larger sum of path probabilities. And what was not sent is on record, once, with its place and the draft's
    own probability. Catches: a greedy choice level by level, a parent left out, a dropped token lost or counted
    twice."""
    draft = wavering(4, seed=5)
    settings = branching(options={"width": 3, "depth": 3, "nodes": 5, "beam": 9}, max_new_tokens=12)
    trace = sd.decode(scripted(wavering(4, seed=6), draft), PROMPT, settings)
    assert trace.audit() == []
    checked = 0
    for text, row in texts(trace):
        if len(text) - len(PROMPT) > 12 - 4:
            continue  # the length limit cuts the depth
        value: dict[tuple[int, ...], float] = {(): 1.0}
        children: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for depth in range(3):
            for above in [node for node in value if len(node) == depth]:
                probs: Sequence[float] = draft((*text, *above))
                best = sorted(range(4), key=lambda token: -probs[token])[:3]
                children[above] = [(*above, token) for token in best]
                value |= {(*above, token): value[above] * probs[token] for token in best}
        everything = [tuple(path(row, node)) for node in range(len(row.nodes.token))]
        sent = {
            node for node, verdict in zip(everything, row.nodes.verdict, strict=True) if verdict != "pruned"
        }
        best_sum = max(sum(value[node] for node in tree) for tree in _subtrees(children, 5))
        assert len(sent) == 5
        assert sum(value[node] for node in sent) == pytest.approx(best_sum, rel=1e-5)
        assert sorted(everything) == sorted(set(value) - {()})
        assert row.nodes.model_q is not None
        for node, own in zip(everything, row.nodes.model_q, strict=True):
            assert own == pytest.approx(value[node] / value[node[:-1]], rel=1e-4)
        checked += 1
    assert checked > 1
    assert trace.stats.pruned == sum(row.nodes.verdict.count("pruned") for row in trace.rounds) > 0


class Frugal(FixedLength):
    """Sends two nodes, whatever is offered."""

    name = "test-frugal"

    def nodes(self, context: Context, values: Sequence[float], levels: int | None = None) -> int:
        assert list(values) == sorted(values, reverse=True)
        return 2


@pytest.mark.parametrize("rerank", [True, False])
def test_the_length_policy_cuts_fixed_trees(rerank: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a policy that is not asked, or asked with values that do not fall."""
    monkeypatch.setitem(draft_length.LENGTH_POLICIES, Frugal.name, Frugal)
    models = scripted(wavering(9, seed=1), wavering(9, seed=2))
    settings = branching(length_policy=Frugal.name, max_new_tokens=12, options={"rerank": rerank})
    trace = sd.decode(models, PROMPT, settings)
    assert trace.audit() == []
    sizes = {sum(verdict != "pruned" for verdict in row.nodes.verdict) for row in trace.rounds}
    assert sizes <= {0, 2} and 2 in sizes


def test_options_that_make_no_sense_are_refused() -> None:
    """Catches: a tree whose record no trace could hold, and a misspelt way of drawing."""
    models = scripted(wavering(3, seed=1), wavering(3, seed=2))
    with pytest.raises(sd.SettingsError, match="at most 1,024"):
        sd.decode(models, PROMPT, branching(options={"width": 16, "beam": 32, "depth": 9}))
    with pytest.raises(sd.SettingsError, match="draw"):
        sd.decode(models, PROMPT, branching(options={"draw": "often"}))
    with pytest.raises(sd.SettingsError, match="needs a draft model"):
        sd.decode(scripted(wavering(3, seed=1)), PROMPT, branching())
