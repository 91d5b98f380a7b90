"""Penalties are `generate`'s own, per node with its own path, and lossless rules are lossless for what they leave."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList, PreTrainedModel

import specdec_core as sd
from specdec_core.engine import decode as loop
from specdec_core.lengths import FixedLength
from specdec_core.models.bundle import HubModel
from specdec_core.record.schema import Candidates
from specdec_core.rules.speculative_sampling import SpeculativeSampling
from specdec_core.sampling import Warp, widen
from specdec_core.sampling.penalties import Past, Penalties, paths_of
from specdec_core.tree import TokenTree
from specdec_measure.exact.distribution import distance
from specdec_measure.records.audit import audit
from specdec_measure.testing import NextProbs, scripted

from .distributions import (
    after,
    chance_of,
    chances,
    exact_distribution,
    mixture,
    model_next_probs,
    sample,
    samples,
    wavering,
)
from .matrix import POLICY_OPTIONS, proposals, valid, whole
from .tiny import PROMPTS, build, generate, module
from .tiny_heads import texts
from .tiny_t5 import generate_t5, module_t5, pair_t5

WIDTH = 12
LENGTH = 16
FIXED = ["eagle", "eagle3", "mtp", "medusa"]  # draw no guesses at any temperature
SETS: list[dict[str, Any]] = [
    {"repetition_penalty": 1.4},
    {"no_repeat_ngram_size": 2},
    {"repetition_penalty": 0.8, "no_repeat_ngram_size": 3},
]


@cache
def _tiny() -> PreTrainedModel:
    return build("llama", vocab_size=WIDTH)


@cache
def _processors(**asked: Any) -> LogitsProcessorList:
    """What `generate` builds, in its own order."""
    config = GenerationConfig(do_sample=asked.get("temperature", 0.0) > 0, **asked)
    return _tiny()._get_logits_processor(config, input_ids_seq_length=1, model_kwargs={})


def _theirs(text: Sequence[int], logits: Tensor, **asked: Any) -> Tensor:
    """What `generate` makes of one row of logits (V,) after a text."""
    return _processors(**asked)(torch.tensor([list(text)]), logits.unsqueeze(0))[0]


small_texts = st.lists(st.integers(0, WIDTH - 1), min_size=1, max_size=14)


@tries(max_examples=300, deadline=None, derandomize=True)
@given(
    text=small_texts,
    paths=st.lists(st.lists(st.integers(0, WIDTH - 1), max_size=5), min_size=1, max_size=4),
    repetition=st.sampled_from([1.0, 0.5, 1.1, 2.0]),
    ngram=st.integers(0, 4),
    split=st.integers(0, 14),
    seed=st.integers(0, 1_000),
)
def test_every_row_gets_what_generate_would_do_after_its_own_path(
    text: list[int], paths: list[list[int]], repetition: float, ngram: int, split: int, seed: int
) -> None:
    """Bit for bit, however the text came to be known: at once, in two parts, or as another's continuation. Catches: a
    row that sees its neighbour's path, an n-gram across the seam of text and path that is missed, a sign that is
    treated the other way round."""
    logits = torch.randn(len(paths), WIDTH, generator=torch.Generator().manual_seed(seed)) * 3
    kept = logits.clone()
    asked = {"repetition_penalty": repetition, "no_repeat_ngram_size": ngram}
    penalties = Penalties(repetition, ngram)
    parts = Past(penalties, text[:split])
    longer = parts.extended(text[split:])
    parts.extend(text[split:])
    for past in (Past(penalties, text), parts, longer):
        ours = past.penalised(logits, paths)
        for row, path in enumerate(paths):
            theirs = _theirs([*text, *path], logits[row], **asked)
            if bool((theirs > -torch.inf).any()):  # where nothing is left, see below
                assert torch.equal(ours[row], theirs)
    assert torch.equal(logits, kept), "the model's own logits have changed"


@tries(max_examples=200, deadline=None, derandomize=True)
@given(
    text=small_texts,
    paths=st.lists(st.lists(st.integers(0, WIDTH - 1), max_size=5), min_size=1, max_size=4),
    known=st.sets(st.integers(0, WIDTH - 1), min_size=1),
    repetition=st.sampled_from([1.0, 0.5, 2.0]),
    ngram=st.integers(0, 3),
    seed=st.integers(0, 1_000),
)
def test_a_draft_vocabulary_is_penalised_as_its_part_of_the_whole(
    text: list[int], paths: list[list[int]], known: set[int], repetition: float, ngram: int, seed: int
) -> None:
    """What a head may guess, alone or spread over all tokens: the same numbers. Catches: columns taken for ids, a token
    that the head lacks and that changes another's logit, an n-gram ban of the neighbour."""
    ids = torch.tensor(sorted(known))
    logits = torch.randn(len(paths), len(ids), generator=torch.Generator().manual_seed(seed)) * 3
    past = Past(Penalties(repetition, ngram), text)
    whole = past.penalised(widen(logits, ids, WIDTH), paths)
    for _ in range(2):  # the second time from what is remembered
        assert torch.equal(past.penalised(logits, paths, ids), whole[:, ids])
    assert torch.equal(past.penalised(widen(logits, ids, WIDTH), paths), whole)


@tries(max_examples=300, deadline=None, derandomize=True)
@given(
    text=small_texts,
    temperature=st.floats(0.1, 3.0),
    top_k=st.integers(0, WIDTH + 2),
    top_p=st.floats(0.05, 1.0),
    min_p=st.floats(0.0, 1.0),
    repetition=st.sampled_from([1.0, 1.3]),
    seed=st.integers(0, 1_000),
)
def test_the_whole_row_of_processors_equals_transformers(
    text: list[int],
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    repetition: float,
    seed: int,
) -> None:
    """Penalty, temperature, top-k, top-p, min-p in the order that `generate` builds. Tolerance 1e-6, except where a cut
    falls within rounding of a token's probability. Catches: another order, min-p held against another maximum."""
    logits = torch.randn(WIDTH, generator=torch.Generator().manual_seed(seed)) * 3
    settings = sd.Settings(
        temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition
    )
    past = Penalties.of(settings).after(text)
    scores = logits if past is None else past.next(logits)
    ours = Warp.of(settings)(scores)
    asked = {"repetition_penalty": repetition, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    theirs = _theirs(text, logits, **asked, min_p=min_p).softmax(-1)
    whole_row = Warp(temperature, top_k)(scores).sort(descending=True).values.double().cumsum(-1)
    before = Warp(temperature, top_k, top_p)(scores)
    clear = (whole_row - top_p).abs().amin() > 1e-5 and (before - min_p * before.amax()).abs().amin() > 1e-6
    if clear or min_p in (0.0, 1.0):
        assert torch.allclose(ours, theirs, atol=1e-6) or not (whole_row - top_p).abs().amin() > 1e-5


def test_a_ban_that_leaves_nothing_is_not_applied() -> None:
    """With all tokens of the vocabulary seen, no 1-gram is left. Catches: a distribution that is 0/0."""
    past = Past(Penalties(ngram=1), range(4))
    logits = torch.tensor([[0.5, 2.0, -1.0, 0.0]])
    assert torch.equal(past.penalised(logits, [[]]), logits)
    assert Warp(1.0)(past.penalised(logits, [[]])).isfinite().all()


def test_one_text_serves_draft_vocabularies_that_come_and_go() -> None:
    """Catches: the columns of a vocabulary that is gone, used for one that lies where it lay."""
    past, logits = Past(Penalties(repetition=2.0), [1, 3]), torch.ones(1, 2)
    for first in (0, 1, 2, 3, 0, 1):
        changed = past.penalised(logits, [[]], torch.tensor([first, first + 1]))
        assert changed.tolist() == [[0.5 if token in (1, 3) else 1.0 for token in (first, first + 1)]]


def test_what_changes_nothing_costs_nothing() -> None:
    """Catches: rounds that copy logits for a penalty of 1 or for none."""
    assert Penalties.of(sd.Settings()).after([1, 2]) is None
    switched_off = sd.Settings(repetition_penalty=1.0, no_repeat_ngram_size=0, min_p=0.0)
    assert Penalties.of(switched_off).after([1, 2]) is None
    assert Warp.of(switched_off) == Warp.of(sd.Settings()) == Warp()


@pytest.mark.parametrize("asked", SETS, ids=str)
@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_greedy_text_is_that_of_generate_with_the_same_penalties(
    architecture: str, asked: dict[str, Any], device: str
) -> None:
    """Token for token, float32: every proposer with every option set, overlap on and off, and the length policies that
    ask for confidence; what is not a proposer's default meets each set of penalties with one of the architectures.
    Catches: a penalty that looks at the root's text alone, at a sibling's path, or at what a lost guess ahead has left
    in it; a draft that guesses without it still has to end in the same text."""
    models = whole(architecture, device)
    expected = [generate(module(models), prompt, LENGTH, **asked) for prompt in PROMPTS]
    assert all(
        text != generate(module(models), prompt, LENGTH)
        for text, prompt in zip(expected, PROMPTS, strict=True)
    ), "the penalty changes nothing: this proves nothing"
    accepted: dict[str, int] = {}
    number = 0
    for proposer, options in proposals(models):
        for more in _variants(proposer, options):
            settings = valid(
                proposer=proposer, options=options, draft_length=3, max_new_tokens=LENGTH, **asked, **more
            )
            if settings is None:
                continue
            which, number = number % len(PROMPTS), number + 1
            turn = (number + SETS.index(asked)) % len(SETS)
            if (options or more) and (turn == 0) != (architecture == "gpt2"):
                continue
            trace = sd.decode(models, PROMPTS[which], settings)
            changed = settings.model_dump(exclude_defaults=True)
            assert trace.token_ids == expected[which], f"prompt {PROMPTS[which]}: {changed}"
            assert trace.audit() == [], changed
            accepted[proposer] = accepted.get(proposer, 0) + trace.stats.accepted
    assert min(accepted[name] for name in ("draft-model", "branching", "oracle")) > 0


def _variants(proposer: str, options: dict[str, Any]) -> list[dict[str, Any]]:
    """As it is, drafting ahead where that is possible, and the policies that ask how sure the draft is."""
    variants: list[dict[str, Any]] = [{}]
    if sd.PROPOSERS[proposer].can_overlap:
        variants.append({"overlap": True})
    if not options and sd.PROPOSERS[proposer].uses:
        variants.append({"length_policy": "confidence"})
        variants.append({"length_policy": "cost-aware", "length_options": POLICY_OPTIONS["cost-aware"]})
    return variants


@pytest.mark.parametrize("rule", list(sd.RULES))
def test_every_rule_goes_by_the_penalised_text_at_temperature_zero(rule: str) -> None:
    """With nothing proposed every rule writes the target's own text; with a draft the lossless ones do. Catches: a rule
    that is shown the models' own probabilities and takes their likeliest token without the penalty."""
    models, asked = whole("llama"), SETS[0]
    expected = generate(module(models), PROMPTS[0], LENGTH, **asked)
    for proposer in ("none", "draft-model", "prompt-lookup"):
        settings = valid(proposer=proposer, rule=rule, max_new_tokens=LENGTH, **asked)
        if settings is None or (proposer != "none" and not sd.RULES[rule].lossless):
            continue
        assert sd.decode(models, PROMPTS[0], settings).token_ids == expected


@pytest.mark.parametrize("asked", SETS, ids=str)
def test_an_encoder_decoder_is_penalised_for_what_its_decoder_wrote(asked: dict[str, Any]) -> None:
    """`generate` counts the decoder's ids, its start token with them, and not the source. Every proposer with each set
    of penalties, what is not its default with one. Catches: a T5 that is penalised for the words of its prompt."""
    models = pair_t5("t5")
    model = module_t5(models)
    source = [5, 9, 3, 22, 7]
    expected = generate_t5(model, source, LENGTH, **asked)
    for number, (proposer, further) in enumerate(proposals(models)):
        if further and number % len(SETS) != SETS.index(asked):
            continue
        settings = valid(proposer=proposer, options=further, max_new_tokens=LENGTH, **asked)
        if settings is not None and further.get("draft") != "larger":
            assert sd.decode(models, source, settings).token_ids == expected, (proposer, further)


class Spy:
    """Keeps what the rule was shown, round by round."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.seen: list[tuple[TokenTree, Tensor, Tensor | None]] = []
        judge = SpeculativeSampling.judge

        def spying(rule: Any, tree: TokenTree, p: Tensor, q: Tensor | None, coins: Sequence[float]) -> Any:
            self.seen.append((tree, p.clone(), None if q is None else q.clone()))
            return judge(rule, tree, p, q, coins)

        patch.setattr(SpeculativeSampling, "judge", spying)


ASKED: dict[str, Any] = {
    "temperature": 0.8,
    "top_k": 9,
    "top_p": 0.95,
    "min_p": 0.02,
    "repetition_penalty": 1.4,
    "no_repeat_ngram_size": 2,
}


class Plain:
    """The processed distribution after a text, by transformers alone: a plain pass, whose rows are also those of the
    text's beginnings, then `generate`'s processors. Each text is read once."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.logits: dict[tuple[int, ...], Tensor] = {}
        self.processed: dict[tuple[int, ...], Tensor] = {}

    def __call__(self, text: list[int]) -> Tensor:
        key = tuple(text)
        if key not in self.logits:
            with torch.inference_mode():
                rows = self.model(torch.tensor([text])).logits[0].float()
            self.logits.update({key[: end + 1]: row for end, row in enumerate(rows)})
        if key not in self.processed:
            self.processed[key] = _theirs(text, self.logits[key], **ASKED).softmax(-1)
        return self.processed[key].clone()


@pytest.mark.parametrize("overlap", [False, True])
def test_p_and_q_of_every_node_are_processed_with_its_own_path(
    overlap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every proposer; each row of p, and of the drawn drafts' q, against a plain transformers pass over the text and
    the node's own path, tolerance 1e-4. Catches: one node's path in another's row, a q that was not what was drawn
    from, a guess ahead drafted with the round before's text."""
    models, rounds, drawn = whole("llama", vocabulary=WIDTH), 0, 0
    assert isinstance(models.draft, HubModel)
    of_target, of_draft = Plain(module(models)), Plain(models.draft.model)
    for proposer, options in proposals(models):
        settings = valid(
            proposer=proposer, options=options, overlap=overlap, max_new_tokens=10, draft_length=3, **ASKED
        )
        if settings is None or (overlap and not sd.PROPOSERS[proposer].can_overlap):
            continue
        with monkeypatch.context() as patch:
            spy = Spy(patch)
            trace = sd.decode(models, [3, 1, 4, 1, 5], settings)
        for (tree, p, q), text in zip(spy.seen, texts(trace), strict=True):
            paths = paths_of(tree)
            for row, path in sorted(
                enumerate(paths), key=lambda one: -len(one[1])
            ):  # the longest pass has the others
                assert torch.allclose(p[row], of_target([*text, *path]), atol=1e-4)
            rounds += 1
            drafts = proposer in ("draft-model", "branching") and options.get("draft") != "larger"
            if q is None or not (drafts or proposer == "oracle"):
                continue
            plain = of_draft if drafts else of_target
            for node, parent in enumerate(tree.parents):
                expected = plain([*text, *paths[parent + 1]])
                if options.get("draw", "distinct") == "distinct":
                    elder = [tree.tokens[other] for other in range(node) if tree.parents[other] == parent]
                    expected[elder] = 0.0
                    expected = expected / expected.sum()
                assert torch.allclose(q[node], expected, atol=1e-3)
                drawn += 1
    assert rounds > 10 and drawn > 10


def penalised(next_probs: NextProbs, penalties: Penalties, warp: Warp) -> NextProbs:
    """The distribution that decoding with these settings is to follow."""

    def found(text: tuple[int, ...]) -> Sequence[float]:
        logits = torch.tensor(next_probs(text), dtype=torch.float64).log()
        past = penalties.after(text)
        return warp(logits if past is None or not text else past.next(logits)).tolist()

    return found


PENALTIES, WARP = Penalties(1.8), Warp(1.2, min_p=0.12)
SAMPLED = {"temperature": 1.2, "min_p": 0.12, "repetition_penalty": 1.8, "max_new_tokens": 5}
PROMPT = [0, 1, 2, 0, 1, 0]
FALSE_ALARM = 1e-5
COUNT = 80  # texts of a case
_target = wavering(4, seed=31)
_draft = mixture(_target, wavering(4, seed=32), 0.6)
SCRIPTED = scripted(_target, _draft)
REAL = whole("llama", vocabulary=4)
DRAWS = [
    ("draft-model", {}),
    ("prompt-lookup", {}),
    ("branching", {}),
    ("branching", {"draw": "independent"}),
    ("branching", {"draw": "likeliest"}),
    ("lookahead", {}),
    ("recycling", {}),
    ("suffix", {}),
    ("oracle", {}),
    ("blind", {}),
]


def penalised_distribution(next_probs: NextProbs) -> dict[tuple[int, ...], float]:
    return exact_distribution(penalised(next_probs, PENALTIES, WARP), PROMPT, 5, Warp(1.0))


def test_sampled_texts_follow_the_penalised_distribution() -> None:
    """Whole texts of five tokens, COUNT of each case, and the cases together; false alarm 1e-5.
    Catches: p or q of a node that is processed with another text than its own, alone or while drafting ahead."""
    cases = {}
    for proposer, options in DRAWS:
        for overlap in (False, True) if sd.PROPOSERS[proposer].can_overlap else (False,):
            settings = valid(
                proposer=proposer, options=options, overlap=overlap, draft_length=3, record="off", **SAMPLED
            )
            assert settings is not None
            cases[proposer, str(options), f"overlap {overlap}"] = settings
    assert len(cases) == 14
    written = samples(SCRIPTED, PROMPT, cases, COUNT)
    found = chances(written, penalised_distribution(_target), after(PROMPT, _draft))
    assert min(found.values()) > FALSE_ALARM, found


def test_sampled_texts_of_heads_and_exits_follow_the_penalised_distribution() -> None:
    """The same for proposers that need layers, states or heads: 210 texts, shared by the three; false alarm 1e-5."""
    assert isinstance(REAL.target, HubModel)
    cases = {
        (proposer,): sd.Settings(proposer=proposer, draft_length=3, record="off", **SAMPLED)
        for proposer in ("early-exit", "medusa", "eagle")
    }
    logits = model_next_probs(REAL.target)

    def next_probs(text: tuple[int, ...]) -> Sequence[float]:
        with torch.inference_mode():
            row = module(REAL)(torch.tensor([text])).logits[0, -1].double()
        return WARP(Past(PENALTIES, text).next(row)).tolist()

    assert len(logits((0,))) == 4
    found = chances(samples(REAL, PROMPT, cases, 70), exact_distribution(next_probs, PROMPT, 5, Warp(1.0)))
    assert min(found.values()) > FALSE_ALARM, found


def test_the_meter_rejects_a_penalty_that_forgets_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The power of the tests above, with the texts of three cases: every node is processed with the root's text, as if
    the path did not count."""
    monkeypatch.setattr(loop, "paths_of", lambda tree: [[] for _ in range(len(tree) + 1)])
    settings = sd.Settings(draft_length=3, record="off", **SAMPLED)
    texts = sample(SCRIPTED, PROMPT, settings, 3 * COUNT)
    assert chance_of(texts, penalised_distribution(_target), after(PROMPT, _draft)) < FALSE_ALARM


@pytest.mark.parametrize("drafts", ["independent", "distinct", "fixed"])
@pytest.mark.parametrize("rule", [name for name, kind in sd.RULES.items() if kind.lossless])
def test_lossless_rules_write_the_penalised_distribution_exactly(rule: str, drafts: Any) -> None:
    """Enumerated, distance below 1e-12: p and q are processed at every node with its own path. Catches: a rule that is
    exact only where p does not depend on what was just accepted."""
    shapes = {"chain": [-1, 0, 1], "tree": [-1, -1, 0, 0]}
    kinds = {"independent": "independent tree", "distinct": "distinct tree", "fixed": "fixed tree"}
    p = penalised(wavering(3, 41), Penalties(1.8, 3), WARP)
    q = penalised(wavering(3, 42), Penalties(1.8, 3), WARP)
    if rule == "exact-match":
        p = penalised(wavering(3, 41), Penalties(1.8, 3), Warp())
        q = penalised(wavering(3, 42), Penalties(1.8, 3), Warp())
    judged = 0
    for name, shape in shapes.items():
        if sd.RULES[rule].unsuited("chain" if name == "chain" else kinds[drafts]) is None:
            assert distance(sd.RULES[rule](), shape, p, q, drafts=drafts) < 1e-12
            judged += 1
    assert judged


def test_the_record_keeps_the_processed_p_and_the_models_own() -> None:
    """Catches: a recorded p without the penalty, a model_p with it, a rank that is not greedy decoding's, a position
    whose one-hot p points at the token that the penalty removed; no record of what it was taken from."""
    models, asked = whole("llama"), SETS[0]
    for temperature in (0.0, 0.9):
        settings = sd.Settings(temperature=temperature, max_new_tokens=LENGTH, **asked)
        trace = sd.decode(models, PROMPTS[0], settings)
        moved = 0
        for row, text in zip(trace.rounds, texts(trace), strict=True):
            tree = TokenTree(row.nodes.token, row.nodes.parent)
            for place, position in enumerate(row.positions):
                before = [*text, *paths_of(tree)[position.at + 1]]
                with torch.inference_mode():
                    logits = module(models)(torch.tensor([before])).logits[0, -1].float()
                scores = _processed(before, logits, asked)
                own, likeliest = position.model_p, int(scores.argmax())
                moved += own.id[0] != likeliest
                assert own.prob[0] == pytest.approx(float(logits.softmax(-1)[own.id[0]]), abs=1e-4)
                p = Warp(temperature)(scores)
                assert position.p.id[0] == likeliest
                _near(position.penalised_p, scores)
                if position.model_q is not None:
                    with torch.inference_mode():
                        drafted = drafting(models)(torch.tensor([before])).logits[0, -1].float()
                    _near(position.model_q, drafted)
                    _near(position.penalised_q, _processed(before, drafted, asked))
                assert position.p.prob[0] == pytest.approx(float(p[likeliest]), abs=1e-4)
                if temperature == 0.0:
                    assert row.committed.token[place] == likeliest
            assert row.nodes.rank is not None and row.nodes.p is not None
            for node, parent in enumerate(tree.parents):
                if temperature == 0.0:
                    assert (row.nodes.p[node] == 1.0) == (row.nodes.rank[node] == 1), parent
                assert row.nodes.penalised_p is not None and row.nodes.penalised_q is not None
                before = [*text, *paths_of(tree)[parent + 1]]
                for model, column in (
                    (module(models), row.nodes.penalised_p),
                    (drafting(models), row.nodes.penalised_q),
                ):
                    with torch.inference_mode():
                        logits = model(torch.tensor([before])).logits[0, -1].float()
                    chance = _processed(before, logits, asked).softmax(-1)[tree.tokens[node]]
                    assert column[node] == pytest.approx(float(chance), abs=1e-4)
        assert moved, "the penalty moved no likeliest token: this proves nothing"
        assert trace.header.settings["repetition_penalty"] == 1.4
        assert sd.Trace.from_json(trace.to_json()) == trace


@pytest.mark.parametrize("proposer", ["draft-model", "branching", "prompt-lookup", *FIXED])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("rule", ["speculative-sampling", "typical"])
@pytest.mark.parametrize("empty", [False, True], ids=["trees", "empty-trees"])
def test_every_round_keeps_the_same_of_penalties(
    proposer: str, temperature: float, rule: str, empty: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was proposed in it, and whichever rounds it was described with, some of them without guesses. Catches:
    an empty tree's rows missing among those after penalties, and p shown before and after them by turns."""
    trees = iter(range(10_000))

    def nodes(self: object, context: object, values: list[float], levels: int | None = None) -> int:
        return 0 if empty and next(trees) % 2 else len(values)

    monkeypatch.setattr(FixedLength, "nodes", nodes)
    settings = sd.Settings(
        proposer=proposer, rule=rule, max_new_tokens=24, **{**SETS[0], "temperature": temperature}
    )
    trace = sd.decode(whole("llama"), PROMPTS[0], settings)
    assert trace.audit() == []
    judged = temperature == 0.0 and rule == "typical"  # p and q are these themselves
    assert trace.header.own_probabilities is judged
    for row in trace.rounds:
        assert all((position.penalised_p is None) is judged for position in row.positions)
        for position in row.positions:
            known = position.model_q is not None and not judged
            assert (position.penalised_q is not None) is known
        if len(row.nodes.token):
            assert (row.nodes.penalised_p is None) is judged


def drafting(models: sd.Models) -> PreTrainedModel:
    """The draft's module."""
    assert isinstance(models.draft, HubModel)
    return models.draft.model


def _near(head: Candidates | None, scores: Tensor) -> None:
    """The recorded head is that of these logits."""
    assert head is not None
    probs = scores.softmax(-1)
    assert head.prob == pytest.approx(probs[head.id].tolist(), abs=1e-4)
    assert head.prob == pytest.approx(probs.topk(len(head.id)).values.tolist(), abs=1e-4)
    assert head.tail == pytest.approx(1.0 - sum(head.prob), abs=1e-4)


def _processed(text: list[int], logits: Tensor, asked: dict[str, Any]) -> Tensor:
    past = Penalties.of(sd.Settings(**asked)).after(text)
    assert past is not None
    return past.next(logits)


@pytest.mark.parametrize(
    ("proposer", "temperature"),
    [
        *((proposer, 0.0) for proposer in ("draft-model", "oracle", "early-exit", "branching", *FIXED)),
        *((proposer, 1.0) for proposer in FIXED),
    ],
)
def test_what_a_penalised_draft_took_its_guesses_from_is_kept(proposer: str, temperature: float) -> None:
    """Of a place's guesses the most likely one after penalties is the draft's first. Catches: rows of another place, or
    logits before the penalty; above temperature 0 a q from before it beside a p from after it."""
    settings = sd.Settings(
        proposer=proposer, max_new_tokens=LENGTH, **{**SETS[0], "temperature": temperature}
    )
    trace = sd.decode(whole("llama"), PROMPTS[0], settings)
    kept = moved = 0
    for row in trace.rounds:
        pruned = [node for node, verdict in enumerate(row.nodes.verdict) if verdict == "pruned"]
        for node in pruned:  # its siblings are at most as likely as the place's most likely token
            assert row.nodes.penalised_q is not None and row.nodes.penalised_q[node] is not None
            place = [each for each in row.positions if each.at == row.nodes.parent[node]]
            for head in (each.penalised_q for each in place if each.penalised_q is not None):
                known = dict(zip(head.id, head.prob, strict=True))
                assert row.nodes.penalised_q[node] == pytest.approx(known[row.nodes.token[node]], abs=1e-5)
        for position in row.positions:
            children = [node for node, parent in enumerate(row.nodes.parent) if parent == position.at]
            if not children or position.model_q is None:
                continue
            after = position.penalised_q
            assert (
                after is not None and row.nodes.penalised_q is not None and row.nodes.penalised_p is not None
            )
            assert row.nodes.token[children[0]] == after.id[0]
            assert row.nodes.penalised_q[children[0]] == pytest.approx(after.prob[0], abs=1e-6)
            if temperature == 1.0 and row.nodes.p is not None:
                assert row.nodes.penalised_p[children[0]] == pytest.approx(row.nodes.p[children[0]], abs=1e-6)
            kept += 1
            moved += after.prob[0] != position.model_q.prob[0]
    assert kept and moved
    assert not list(audit(trace))


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("proposer", ["draft-model", "branching", "prompt-lookup"])
def test_recorded_rounds_are_judged_again_by_what_was_judged(proposer: str, temperature: float) -> None:
    """The rule that was used gives the record back, and a lossless rule accepts at temperature 0 what another did.
    Catches: judging again by the models' own probabilities where the penalised ones decided."""
    settings = sd.Settings(
        proposer=proposer, temperature=temperature, max_new_tokens=LENGTH, **SETS[0], min_p=0.05
    )
    trace = sd.decode(whole("llama"), PROMPTS[2], settings)
    again = sd.counterfactual.judge_again(trace, "speculative-sampling")
    assert all(row.same for row in again.rounds)
    matching = sd.counterfactual.judge_again(trace, "token-matching") if proposer != "branching" else again
    if temperature == 0.0:
        assert all(row.same for row in matching.rounds)


def test_a_rule_with_a_bar_of_its_own_is_refused_where_the_record_lacks_its_numbers() -> None:
    """At temperature 0 such a rule judges by the probabilities after the penalty, which only its own record holds.
    Catches: judging by the probabilities before it."""
    models, asked = whole("llama"), SETS[0]
    greedy = sd.decode(models, PROMPTS[0], sd.Settings(max_new_tokens=LENGTH, **asked))
    with pytest.raises(sd.TraceError, match="after the penalty"):
        sd.counterfactual.judge_again(greedy, "typical")
    typical = sd.decode(models, PROMPTS[0], sd.Settings(rule="typical", max_new_tokens=LENGTH, **asked))
    assert typical.audit() == []
    again = sd.counterfactual.judge_again(typical, "typical", {"epsilon": 0.3})
    assert all(row.same for row in sd.counterfactual.judge_again(typical, "typical").rounds)
    assert len(again.rounds) == len(typical.rounds)
