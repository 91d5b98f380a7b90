"""Recorded rounds judged again by other rules: held to the rules themselves, shown the whole distributions."""

from __future__ import annotations

import copy
import itertools
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import specdec_core as sd
from specdec_core.foundations.randomness import Stream, uniforms
from specdec_core.models.bundle import HubModel
from specdec_core.proposers import Context, Proposal
from specdec_core.record.schema import Round
from specdec_core.round import Dropped
from specdec_core.rules import RULES, Judgement, Rule
from specdec_core.rules.speculative_sampling import SpeculativeSampling
from specdec_core.sampling import Warp, draw
from specdec_core.tree import Drafts, TokenTree
from specdec_measure.analysis.counterfactual import judge_again, why_not
from specdec_measure.testing import scripted

from .distributions import mixture, wavering
from .matrix import valid
from .tiny import PROMPTS, pair
from .trees import Drawn, Ranked, _within

PROMPT = [0, 1, 2, 0, 1, 0]  # repeats itself, so that prompt lookup finds something
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "confidence": [
        {"reading": "target"},
        {"reading": "mean-of-largest"},
        {"reading": "draft", "threshold": 0.4},
    ],
    "ensemble": [{"weight": 0.6}],
}
CHOICES = [(rule, options) for rule in RULES for options in OPTIONS.get(rule, [{}])]
WARPS = [Warp(0.0), Warp(1.0), Warp(0.7, top_k=4), Warp(1.6, top_p=0.8)]
TREES = (
    "test-drawn",
    "test-ranked",
    "test-apart",
    "branching independent",
    "branching distinct",
    "branching likeliest",
)
DRAWN = {"test-drawn", "test-apart", "branching independent", "branching distinct"}
APART = {"test-apart", "branching distinct"}  # without replacement

_target = wavering(6, seed=11, sharpness=1.2)
_draft = mixture(_target, wavering(6, seed=12), 0.5)


class Apart(Drawn):
    """Siblings are drawn without replacement, and in every round two more tokens are given up unseen."""

    name = "test-apart"

    def propose(self, context: Context) -> Proposal:
        root, tree = context.tokens[-1], TokenTree()
        if context.warp.greedy:
            return super().propose(context)
        shape = _within(TokenTree([0] * len(self.parents), self.parents), context.limit).parents
        rows: list[Tensor] = []
        for parent, number in zip(shape, context.uniforms(len(shape)), strict=True):
            q = context.warp(self.draft.read(root, tree))[parent + 1]
            q[[token for token, above in zip(tree.tokens, tree.parents, strict=True) if above == parent]] = (
                0.0
            )
            rows.append(q / q.sum())
            tree = TokenTree([*tree.tokens, int(draw(q, number))], [*tree.parents, parent])
        dropped = [Dropped(1, -1, "pruned", 0.25), Dropped(2, len(tree), "discarded", None)]
        logits = self.draft.read(root, tree)
        q = torch.stack(rows) if rows else None
        return Proposal(tree, q=q, logits=logits, passes=1, dropped=dropped)


@pytest.fixture(autouse=True, scope="module")
def _branching() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for kind in (Drawn, Ranked, Apart):
            patch.setitem(sd.PROPOSERS, kind.name, kind)
        yield


def chosen(proposer: str) -> dict[str, Any]:
    """A proposer of the table with its options."""
    name, *draw = proposer.split()
    return {
        "proposer": name,
        "options": {"width": 2, "depth": 3, "nodes": 7, "draw": draw[0]} if draw else {},
    }


def decoded(proposer: str, rule: str, options: dict[str, Any], warp: Warp, **more: Any) -> sd.Trace:
    """A full record of the scripted models."""
    settings = sd.Settings(
        **chosen(proposer), rule=rule, rule_options=options, draft_length=4, temperature=warp.temperature,
        top_k=warp.top_k, top_p=warp.top_p, **{"max_new_tokens": 16, "seed": 3, **more},
    )  # fmt: skip
    return sd.decode(scripted(_target, _draft), PROMPT, settings)


def rebuilt_round(
    row: Round, text: list[int], proposer: str, warp: Warp, own: bool
) -> tuple[TokenTree, Tensor, Tensor | None]:
    """The tree of a round with p and q as a rule would get them, from the hand-written distributions alone."""
    size = sum(verdict not in ("pruned", "discarded") for verdict in row.nodes.verdict)
    tree = TokenTree(row.nodes.token[:size], row.nodes.parent[:size])
    contexts = [(*text, *(tree.tokens[step] for step in tree.path(node))) for node in range(-1, size)]

    def stack(next_probs: Any, rows: list[int]) -> Tensor:
        return torch.tensor([next_probs(contexts[row]) for row in rows], dtype=torch.float64).log().float()

    p = stack(_target, list(range(size + 1)))
    seen_by = Warp(1.0) if own and warp.greedy else warp
    has_q = (
        size and proposer != "prompt-lookup" and (own if warp.greedy else proposer in {*DRAWN, "draft-model"})
    )
    if not has_q:
        return tree, seen_by(p), None
    q = seen_by(stack(_draft, [parent + 1 for parent in tree.parents]))
    if proposer in APART and not warp.greedy:
        for node, other in itertools.combinations(range(size), 2):
            if tree.parents[node] == tree.parents[other]:
                q[other, tree.tokens[node]] = 0.0
        q /= q.sum(-1, keepdim=True)
    return tree, seen_by(p), q


def rebuilt(
    trace: sd.Trace, proposer: str, warp: Warp, own: bool
) -> list[tuple[TokenTree, Tensor, Tensor | None, list[float]]]:
    """What a rule would have been given in each round, coins included; the same for all rules that see the same p and
    q."""
    found, text = [], list(PROMPT)
    for row in trace.rounds:
        tree, p, q = rebuilt_round(row, text, proposer, warp, own)
        found.append((tree, p, q, uniforms(3, Stream.COINS, row.index, len(tree)).tolist()))
        text += row.committed.token
    return found


def served(proposer: str, rule: str, warp: Warp) -> bool:
    """Whether the rule itself takes such proposals at this temperature."""
    return valid(**chosen(proposer), rule=rule, temperature=warp.temperature) is not None


def known(proposer: str, rule: str, warp: Warp, recorded: str) -> bool:
    """Whether the record is said to hold what the rule needs."""
    drawn = proposer in DRAWN and not warp.greedy
    again = "judge_recorded" in vars(RULES[rule])
    return again and served(proposer, rule, warp) and not (rule == "kseq" and drawn and recorded != "kseq")


@pytest.mark.parametrize("warp", WARPS, ids=lambda warp: f"T={warp.temperature}")
@pytest.mark.parametrize("proposer", ["draft-model", "prompt-lookup", *TREES])
def test_every_rule_judges_the_record_of_every_other_as_it_would_have_judged_the_round(
    proposer: str, warp: Warp
) -> None:
    """Each round of a decode under rule A is rebuilt from the hand-written distributions and shown to rule B itself;
    what `judge_again` makes of the numbers in the record must be the same: thresholds to 1e-5, verdicts exactly.
    Catches: a wrong formula for any pair, a column of another distribution, a residual of siblings that is off."""
    compared = 0
    for recorded, its_options in CHOICES:
        if not served(proposer, recorded, warp):
            continue
        trace = decoded(proposer, recorded, its_options, warp)
        shown = {own: rebuilt(trace, proposer, warp, own) for own in (False, True)}
        for rule, options in CHOICES:
            if not known(proposer, rule, warp, recorded):
                with pytest.raises(sd.SpecdecError, match=r"^[A-Z].*\.$"):
                    judge_again(trace, rule, options)
                continue
            other = judge_again(trace, rule, options)
            kind = RULES[rule]
            judge = kind(kind.read_options(sd.Settings(rule_options=options))).judge
            for (tree, p, q, coins), again in zip(shown[kind.own_probabilities], other.rounds, strict=True):
                agrees(judge(tree, p, q, coins), again, len(tree))
                compared += len(tree)
    assert compared > 500


def agrees(expected: Judgement, again: Any, size: int) -> None:
    """The rule's own judgement and that from the record."""
    assert again.verdicts[:size] == expected.verdicts
    assert again.path == expected.path
    assert again.tokens == len(expected.path) + 1
    for one, other in zip(again.thresholds, [*expected.thresholds, None, None], strict=False):
        assert (one is None) == (other is None)
        assert one is None or abs(one - other) <= 1e-5


@pytest.mark.parametrize(
    ("proposer", "rule", "options", "temperature"),
    [
        (proposer, rule, options, temperature)
        for proposer in ("draft-model", "prompt-lookup", *TREES)
        for rule, options in CHOICES
        for temperature in (0.0, 0.9)
        if served(proposer, rule, Warp(temperature))
    ],
)
def test_the_rule_that_was_used_reproduces_the_record(
    proposer: str, rule: str, options: dict[str, Any], temperature: float
) -> None:
    """Exactly, also where the text ends in the middle of a round, and after a JSON round trip; the last text ends
    at letters of the one before. Catches: a cut that is forgotten, unseen nodes that are judged, a number that JSON
    changes."""
    models = scripted(_target, _draft, eos={4})
    text = ""
    for seed, stops in ((0, False), (1, False), (1, True)):
        stop = (text[4:6],) if stops and len(text) > 6 else ()
        settings = sd.Settings(
            **chosen(proposer), rule=rule, rule_options=options, temperature=temperature, seed=seed, stop=stop,
            max_new_tokens=12,
        )  # fmt: skip
        trace = sd.decode(models, PROMPT, settings)
        assert (trace.end == "stop") == bool(stop)
        text = trace.text
        again = judge_again(sd.Trace.from_json(trace.to_json()), rule)
        assert again == judge_again(trace, rule, options)
        for row, judged in zip(trace.rounds, again.rounds, strict=True):
            assert judged.same
            assert judged.verdicts == row.nodes.verdict
            assert judged.thresholds == row.nodes.threshold
            assert judged.tokens == len(row.committed.token)
        assert again.parts_at is None
        assert again.tokens_per_pass == again.recorded_tokens_per_pass


def test_a_text_that_ends_in_a_round_ends_under_the_other_rule_too() -> None:
    """A token that ends the text ends it whoever accepts it: nothing after it is counted. Catches: tokens counted
    after the end of the text."""
    models = scripted(_target, _draft, eos={4})
    cut = 0
    for seed in range(40):
        trace = sd.decode(
            models, PROMPT, sd.Settings(temperature=1.0, seed=seed, draft_length=6, max_new_tokens=30)
        )
        for rule in ("ensemble", "block"):
            for row, judged in zip(trace.rounds, judge_again(trace, rule).rounds, strict=True):
                tokens = [row.nodes.token[node] for node in judged.path]
                if trace.end == "eos" and 4 in tokens:
                    assert tokens.index(4) == len(tokens) - 1 == judged.tokens - 1
                    cut += 1
    assert cut > 5


def test_a_rule_for_chains_is_not_shown_a_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that does not look: what it refuses to decode it must not judge. Catches: figures of a rule that was
    given what it says it cannot judge."""

    class Chains(SpeculativeSampling):
        name = "chains"

        @classmethod
        def unsuited(cls, drafts: Drafts) -> str | None:
            return None if drafts == "chain" else "Not a chain."

    monkeypatch.setitem(RULES, Chains.name, Chains)
    tree = decoded("branching likeliest", "speculative-sampling", {}, Warp(1.0))
    with pytest.raises(sd.TraceError, match="proposes a tree, and the rule 'chains' judges chains"):
        judge_again(tree, "chains")
    assert why_not(decoded("draft-model", "speculative-sampling", {}, Warp(1.0)), "chains") is None


def test_lossy_rules_gain_tokens_and_the_parting_is_named() -> None:
    """On the same rounds an ensemble of small weight accepts at least what speculative sampling does, and token
    matching at most that. Catches: thresholds that are swapped."""
    trace = decoded("draft-model", "speculative-sampling", {}, Warp(1.0), max_new_tokens=80)
    gains = {
        rule: judge_again(trace, rule, options)
        for rule, options in (("ensemble", {"weight": 0.2}), ("token-matching", {}))
    }
    assert not gains["ensemble"].lossless
    assert gains["token-matching"].lossless
    rates = [gains[rule].tokens_per_pass for rule in ("ensemble", "token-matching")]
    recorded = gains["ensemble"].recorded_tokens_per_pass
    assert rates[0] is not None and rates[1] is not None and recorded is not None
    assert rates[0] > recorded > rates[1]
    for other in gains.values():
        differs = [row.index for row in other.rounds if row.path != _accepted(trace.rounds[row.index])]
        assert other.parts_at == differs[0]


def _accepted(row: Round) -> list[int]:
    return [node for node, verdict in enumerate(row.nodes.verdict) if verdict == "accepted"]


@pytest.mark.parametrize("warp", [Warp(0.8, 20), Warp(0.05)], ids=["T=0.8", "T=0.05"])
def test_a_real_models_record_is_judged_again_alike(warp: Warp) -> None:
    """A tiny Llama: rules, largest probabilities and entropies against the logits of plain passes. Catches: columns
    that agree on toy vocabularies only, an entropy that loses its digits at a low temperature. Tolerance 1e-4."""
    models, text = pair("llama"), list(PROMPTS[0])
    settings = sd.Settings(temperature=warp.temperature, top_k=warp.top_k, max_new_tokens=60, seed=5)
    trace = sd.decode(models, text, settings)
    assert isinstance(models.target, HubModel) and isinstance(models.draft, HubModel)
    for index, row in enumerate(trace.rounds):
        tree, nodes = TokenTree.chain(row.nodes.token), row.nodes
        whole = torch.tensor([[*text, *tree.tokens]])
        with torch.inference_mode():
            p = warp(models.target.model(whole).logits[0, len(text) - 1 :].float())
            q = warp(models.draft.model(whole).logits[0, len(text) - 1 : -1].float())
        assert nodes.p_max == pytest.approx(p[:-1].amax(-1).tolist(), abs=1e-4)
        assert nodes.p_entropy == pytest.approx(torch.special.entr(p[:-1]).sum(-1).tolist(), abs=1e-4)
        for rule in ("block", "typical", "speculative-sampling"):
            coins = uniforms(5, Stream.COINS, index, len(tree)).tolist()
            expected = RULES[rule]().judge(tree, p, q, coins)
            again = judge_again(trace, rule).rounds[index]
            assert again.path == expected.path
            assert again.thresholds == pytest.approx(expected.thresholds, abs=1e-4)
        text += row.committed.token


def test_of_two_tokens_that_tie_one_is_the_greedy_one() -> None:
    """A lossy rule at temperature 0 may keep the other; exact match on the same record must not. Catches: ranks that
    call both the first."""
    models = scripted(lambda text: (0.4, 0.4, 0.2), lambda text: (0.1, 0.8, 0.1))
    settings = sd.Settings(rule="confidence", rule_options={"threshold": 0.3}, max_new_tokens=20)
    trace = sd.decode(models, PROMPT, settings)
    assert trace.stats.acceptance_rate == 1.0
    other = judge_again(trace, "exact-match")
    assert other.tokens_per_pass == 1.0
    assert all(row.path == [] for row in other.rounds)


@pytest.mark.parametrize(
    ("record", "rule", "fragment"),
    [
        ("tokens", "block", "record='full'"),
        ("off", "block", "record='full'"),
        ("full", "exact-match", "temperature"),
        ("full", "blcok", "Choose one of"),
    ],
)
def test_what_cannot_be_judged_again_is_refused(record: str, rule: str, fragment: str) -> None:
    """Catches: a traceback, or an answer, where the record does not hold what is needed."""
    trace = decoded("draft-model", "speculative-sampling", {}, Warp(1.0), record=record)
    with pytest.raises(sd.SpecdecError, match=fragment):
        judge_again(trace, rule)
    assert fragment in (why_not(trace, rule) or "")
    assert why_not(decoded("draft-model", "speculative-sampling", {}, Warp(1.0)), "block") is None


@pytest.mark.parametrize(
    ("column", "rule", "options"),
    [
        ("p_max", "confidence", {"reading": "mean-of-largest"}),
        ("p_entropy", "typical", {}),
        ("block_mass", "block", {}),
    ],
)
def test_a_trace_without_a_column_is_refused_and_not_guessed(
    column: str, rule: str, options: dict[str, Any]
) -> None:
    """A trace of an earlier version lacks columns that were added since. Catches: a silent stand-in."""
    trace = copy.deepcopy(decoded("draft-model", "speculative-sampling", {}, Warp(0.7)))
    assert why_not(trace, rule, options) is None
    for row in trace.rounds:
        setattr(row if column == "block_mass" else row.nodes, column, None)
    with pytest.raises(sd.TraceError, match="does not hold"):
        judge_again(trace, rule, options)


def test_a_trace_from_elsewhere_is_refused_in_a_sentence() -> None:
    """A file may pass the schema and still be nonsense. Catches: a traceback for settings that are none, or for a
    column with a hole."""
    trace = copy.deepcopy(decoded("draft-model", "typical", {}, Warp(0.7)))
    column = next(row.nodes.p_entropy for row in trace.rounds if row.nodes.p_entropy)
    column[0] = None
    with pytest.raises(sd.TraceError, match="does not hold"):
        judge_again(trace, "typical")
    trace.header.settings["rule_options"] = 5
    with pytest.raises(sd.SettingsError, match="rule_options"):
        judge_again(trace, "block")


def test_wrong_options_are_a_sentence() -> None:
    """Catches: a traceback for an option that is out of range."""
    trace = decoded("draft-model", "speculative-sampling", {}, Warp(1.0))
    with pytest.raises(sd.SettingsError, match="weight"):
        judge_again(trace, "ensemble", {"weight": 2.0})


def test_rounds_are_judged_again_without_torch() -> None:
    """Every rule on a trace from the disk, in a process of its own. Catches: a page of traces that waits for torch."""
    code = """
import sys
import specdec_core as sd
from specdec_core.rules import RULES
trace = sd.Trace.from_json(sys.stdin.read())
others = [sd.counterfactual.judge_again(trace, rule) for rule in RULES if rule != "exact-match"]
print(len(others), "torch" in sys.modules)
"""
    trace = decoded("draft-model", "speculative-sampling", {}, Warp(1.0))
    ran = subprocess.run(
        [sys.executable, "-c", code], input=trace.to_json(), capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"{len(RULES) - 1} False\n"


def test_a_rule_that_reads_no_record_is_refused_and_a_record_with_a_hole_too() -> None:
    """Catches: a traceback for a rule of one's own, or a threshold that is made up where the record has none."""

    class Whole(SpeculativeSampling):
        name = "whole"
        judge_recorded = Rule.judge_recorded

    trace = copy.deepcopy(decoded("draft-model", "speculative-sampling", {}, Warp(1.0)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RULES, "whole", Whole)
        with pytest.raises(sd.TraceError, match="whole distributions"):
            judge_again(trace, "whole")
    assert trace.rounds[0].nodes.threshold is not None
    trace.rounds[0].nodes.threshold[0] = None
    with pytest.raises(sd.TraceError, match="does not hold the threshold"):
        judge_again(trace, "speculative-sampling")
