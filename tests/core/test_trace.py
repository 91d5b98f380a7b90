"""The record: clean on any settings, equal to itself after JSON, small, and strict about its own laws."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import specdec_core as sd
from specdec_core.models.bundle import HubModel
from specdec_core.record.read import race_json
from specdec_core.record.schema import Candidates, Round
from specdec_measure.adapters import foreign
from specdec_measure.records import odds
from specdec_measure.testing import Letters, scripted

from .distributions import mixture, wavering
from .tiny import PROMPTS, build, like, pair
from .trees import BRANCHING, Oracle

_target = wavering(7, seed=5)
_draft = mixture(_target, wavering(7, seed=6), 0.5)

CHOICES = st.fixed_dictionaries(
    {
        "proposer": st.sampled_from(
            ["none", "draft-model", "prompt-lookup", *(kind.name for kind in BRANCHING)]
        ),
        "rule": st.sampled_from(["speculative-sampling", "token-matching", "exact-match"]),
        "draft_length": st.integers(1, 9),
        "max_new_tokens": st.integers(1, 30),
        "temperature": st.one_of(st.just(0.0), st.floats(0.01, 10.0)),
        "top_k": st.integers(0, 9),
        "top_p": st.floats(1e-6, 1.0),
        "seed": st.integers(0, 2**63 - 1),
        "stop": st.lists(st.text("abcdefg", min_size=1, max_size=3), max_size=2).map(tuple),
        "record": st.sampled_from(["full", "tokens", "off"]),
    }
)


@pytest.fixture(autouse=True, scope="module")
def _branching() -> object:
    """The branching proposers for the whole module: hypothesis wants no fixture per example."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in BRANCHING:
            patch.setitem(sd.PROPOSERS, kind.name, kind)
        patch.setattr(Oracle, "truth", [0] * 200)
        yield


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    choices=CHOICES,
    prompt=st.lists(st.integers(0, 6), min_size=1, max_size=12),
    eos=st.sets(st.integers(0, 6), max_size=1),
)
def test_any_decode_gives_a_clean_trace_that_survives_json(
    choices: dict[str, object], prompt: list[int], eos: set[int]
) -> None:
    """Catches: counts that do not add up, a cache length that is off, a number JSON changes, a column of the wrong
    length, a text offset that is wrong. Equality is exact."""
    if choices["rule"] == "exact-match":
        choices = choices | {"temperature": 0.0}
    trace = sd.decode(scripted(_target, _draft, eos=eos), prompt, sd.Settings(**choices))
    assert trace.audit() == []
    assert sd.Trace.from_json(trace.to_json()) == trace
    output = trace.output
    assert 1 <= len(output.ids) <= choices["max_new_tokens"]  # type: ignore[operator]
    assert output.offsets == [len("".join(output.texts[:place])) for place in range(len(output.texts))]
    if trace.end == "eos":
        assert output.ids[-1] in eos
    if trace.end == "stop":
        assert any(stop in trace.header.prompt + output.text for stop in choices["stop"])  # type: ignore[attr-defined]
    assert not eos & set(output.ids[:-1])
    written = 0
    for row in trace.rounds:
        room = sd.Settings(**choices).max_new_tokens - written  # type: ignore[arg-type]
        assert all(depth < room for depth in row.nodes.depth), (
            "a node that could never be committed was proposed"
        )
        written += len(row.committed.token)
    frames = trace.frames()
    assert len(frames["tokens"]) == len(output.ids)
    assert (
        len(frames["rounds"])
        == len(trace.rounds)
        == (0 if choices["record"] == "off" else trace.stats.target_passes)
    )


@pytest.mark.parametrize(
    ("proposer", "most_bytes"),
    [("draft-model", 1_500_000), ("test-oracle", 5_000_000)],
    ids=["chains", "trees"],
)
def test_a_long_full_trace_is_small(proposer: str, most_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """256 tokens, vocabulary 4,096, temperature 1, full record: chains of 8 in 1.5 MB of JSON, trees of 64 nodes in
    5 MB (design, section 6)."""
    changes = {"vocab_size": 4096, "max_position_embeddings": 512}
    big = build("llama", **changes)
    models = sd.Models(
        Letters(4096), HubModel("target", big), HubModel("draft", like(big, "llama", 1.0, **changes))
    )
    choices = sd.Settings(proposer=proposer, draft_length=8, max_new_tokens=256, temperature=1.0)
    monkeypatch.setattr(Oracle, "least", 64)
    trace = sd.decode(models, [1, 2, 3], choices)
    assert trace.stats.rejected > 50, "a record without rejections proves nothing about the size"
    assert len(trace.to_json().encode()) <= most_bytes
    assert sd.Trace.from_json(trace.to_json()) == trace


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_the_modes_of_recording_change_the_record_alone(temperature: float) -> None:
    """Catches: a recorder that disturbs the decode, or a mode that keeps what it should not."""
    base = sd.Settings(temperature=temperature, max_new_tokens=30, seed=4)
    full, tokens, off = (
        sd.decode(pair("gpt2"), PROMPTS[0], base.but(record=mode)) for mode in ("full", "tokens", "off")
    )
    assert full.token_ids == tokens.token_ids == off.token_ids
    counts = [
        (trace.stats.proposed, trace.stats.accepted, trace.stats.target_passes)
        for trace in (full, tokens, off)
    ]
    assert counts[0] == counts[1] == counts[2]
    assert off.rounds == []
    assert [row.nodes.verdict for row in tokens.rounds] == [row.nodes.verdict for row in full.rounds]
    assert all(row.nodes.p is None and not row.positions for row in tokens.rounds)
    assert all(row.nodes.p is not None and row.positions for row in full.rounds)


def test_recorded_numbers_are_those_of_the_models() -> None:
    """Every node's own probability, rank and entropy against plain transformers passes; tolerance 1e-5. Catches: a row
    described with its neighbour's distribution, batched rounds mixed up."""
    models = pair("llama")
    trace = sd.decode(
        models, PROMPTS[0], sd.Settings(temperature=1.0, max_new_tokens=60, draft_length=3, seed=2)
    )
    assert isinstance(models.target, HubModel) and isinstance(models.draft, HubModel)
    text = list(PROMPTS[0])
    for row in trace.rounds:
        nodes = row.nodes
        whole = torch.tensor([[*text, *nodes.token]])
        with torch.inference_mode():
            p = models.target.model(whole).logits[0, len(text) - 1 :].softmax(-1)
            q = models.draft.model(whole).logits[0, len(text) - 1 :].softmax(-1)
        assert (
            nodes.p is not None
            and nodes.q is not None
            and nodes.rank is not None
            and nodes.entropy is not None
        )
        for node, token in enumerate(nodes.token):
            assert nodes.p[node] == pytest.approx(float(p[node, token]), abs=1e-5)
            assert nodes.q[node] == pytest.approx(float(q[node, token]), abs=1e-5)
            assert nodes.rank[node] == int((p[node] > p[node, token]).sum()) + 1
            assert nodes.entropy[node] == pytest.approx(float(torch.special.entr(p[node]).sum()), abs=1e-4)
        for place, position in enumerate(row.positions):
            assert position.p.prob[0] == pytest.approx(float(p[place].max()), abs=1e-5)
            assert position.p.id[0] == int(p[place].argmax())
            if position.overlap is not None:
                assert position.overlap == pytest.approx(
                    float(torch.minimum(p[place], q[place]).sum()), abs=1e-5
                )
        text += row.committed.token


def _row(trace: sd.Trace, verdict: str) -> Round:
    return next(row for row in trace.rounds if verdict in row.nodes.verdict)


def _drop_a_token(trace: sd.Trace) -> None:
    trace.rounds[2].committed.token.pop()
    trace.rounds[2].committed.source.pop()


def _flip_a_verdict(trace: sd.Trace) -> None:
    verdicts = _row(trace, "rejected").nodes.verdict
    verdicts[verdicts.index("rejected")] = "accepted"


def _judge_an_unreached_node(trace: sd.Trace) -> None:
    verdicts = _row(trace, "unreached").nodes.verdict
    verdicts[verdicts.index("unreached")] = "rejected"


def _swap_a_token(trace: sd.Trace) -> None:
    row = _row(trace, "accepted")
    row.committed.token[0] = (row.committed.token[0] + 1) % 7


def _miscount(trace: sd.Trace) -> None:
    trace.stats.accepted += 1


def _forget_to_roll_back(trace: sd.Trace) -> None:
    trace.rounds[1].cache_after += 1


def _start_with_a_stale_cache(trace: sd.Trace) -> None:
    trace.rounds[1].cache_before -= 1


def _lose_a_round(trace: sd.Trace) -> None:
    del trace.rounds[1]


def _run_two_rounds_at_once(trace: sd.Trace) -> None:
    trace.rounds[1].start_s = 0.0
    trace.rounds[0].verify_s = 1.0


def _change_the_text(trace: sd.Trace) -> None:
    trace.output.text += "!"


def _change_a_coin(trace: sd.Trace) -> None:
    row = _row(trace, "rejected")
    assert row.nodes.coin is not None
    row.nodes.coin[row.nodes.verdict.index("rejected")] = 0.0
    threshold = row.nodes.threshold
    assert threshold is not None
    threshold[row.nodes.verdict.index("rejected")] = 0.5


def _lose_mass(trace: sd.Trace) -> None:
    trace.rounds[0].positions[0].p.prob[0] *= 0.5


def _deepen_a_node(trace: sd.Trace) -> None:
    trace.rounds[0].nodes.depth[-1] += 1


def _overcount_passes(trace: sd.Trace) -> None:
    trace.stats.target_passes += 1


def _outrun_the_limit(trace: sd.Trace) -> None:
    trace.output.ids.append(0)


def _of_an_accepted_node(column: str, change: Callable[[float], float]) -> Callable[[sd.Trace], None]:
    """Another number in one column, at an accepted node whose token is among the candidates at its position."""

    def mutate(trace: sd.Trace) -> None:
        row = _row(trace, "accepted")
        values = getattr(row.nodes, column)
        values[row.nodes.verdict.index("accepted")] = change(values[row.nodes.verdict.index("accepted")])

    mutate.__name__ = f"another_{column}"
    return mutate


def _of_a_position(name: str, change: Callable[[float], float]) -> Callable[[sd.Trace], None]:
    """Another number at a position where something was drafted."""

    def mutate(trace: sd.Trace) -> None:
        position = _row(trace, "accepted").positions[0]
        setattr(position, name, change(getattr(position, name)))

    mutate.__name__ = f"another_{name}"
    return mutate


def _call_a_corrected_token_bonus(trace: sd.Trace) -> None:
    _row(trace, "rejected").committed.source[-1] = "bonus"


def _call_a_bonus_token_corrected(trace: sd.Trace) -> None:
    next(row for row in trace.rounds if row.committed.source[-1] == "bonus").committed.source[-1] = (
        "corrected"
    )


def _misstate_the_rates_by_depth(trace: sd.Trace) -> None:
    trace.stats.acceptance_by_depth = [0.01] * 4


def _end_by_a_token_that_did_not_end_it_before(trace: sd.Trace) -> None:
    assert trace.token_ids[-1] in trace.token_ids[:-1]
    trace.end = "eos"


def _end_by_length_too_soon(trace: sd.Trace) -> None:
    trace.header.settings["max_new_tokens"] += 1


def _end_by_a_stop_string_that_is_not_there(trace: sd.Trace) -> None:
    trace.end, trace.header.settings["stop"] = "stop", ["xyz"]


def _put_an_unseen_node_first(trace: sd.Trace) -> None:
    nodes = _row(trace, "unreached").nodes
    nodes.verdict[nodes.verdict.index("unreached") - 1] = "pruned"


MUTATIONS = [
    _drop_a_token, _flip_a_verdict, _judge_an_unreached_node, _swap_a_token, _miscount, _forget_to_roll_back,
    _start_with_a_stale_cache, _lose_a_round, _run_two_rounds_at_once, _change_the_text, _change_a_coin, _lose_mass,
    _deepen_a_node, _overcount_passes, _outrun_the_limit,
    *(_of_an_accepted_node(name, lambda value: value / 5) for name in ("p", "q", "model_p", "model_q", "threshold")),
    _of_an_accepted_node("rank", lambda _: 900), _misstate_the_rates_by_depth, _end_by_length_too_soon,
    _end_by_a_token_that_did_not_end_it_before, _end_by_a_stop_string_that_is_not_there, _put_an_unseen_node_first,
    _call_a_corrected_token_bonus, _call_a_bonus_token_corrected,
    *(_of_a_position(name, lambda value: value / 2) for name in ("entropy_p", "entropy_q", "overlap")),
]  # fmt: skip


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda mutate: mutate.__name__.strip("_"))
def test_the_audit_catches(mutate: Callable[[sd.Trace], None]) -> None:
    """Each mutation breaks one law of a clean trace; the audit must say so in a sentence."""
    clean = sd.decode(
        scripted(_target, _draft), [0, 1, 2], sd.Settings(temperature=1.0, max_new_tokens=30, seed=1)
    )
    assert clean.audit() == []
    trace = copy.deepcopy(clean)
    mutate(trace)
    problems = trace.audit()
    assert problems
    assert all(problem.endswith(".") and "\n" not in problem for problem in problems)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), kept=st.integers(1, 12), sharpness=st.floats(0.1, 8.0))
def test_what_a_head_tells_of_a_whole_distribution(seed: int, kept: int, sharpness: float) -> None:
    """Ranges of entropy, overlap and mass hold the whole distributions' values, and are points where all is kept."""
    chance = np.random.default_rng(seed)
    p, q = (np.exp(sharpness * chance.normal(size=12)) for _ in range(2))
    p, q = p / p.sum(), q / q.sum()
    heads = [
        Candidates(order[:kept].tolist(), one[order[:kept]].tolist(), float(one[order[kept:]].sum()))
        for one in (p, q)
        for order in [np.argsort(-one)]
    ]
    some = set(chance.choice(12, 3, replace=False).tolist())
    for (low, high), whole in (
        (odds.entropy_range(heads[0], float(np.log(12))), -(p * np.log(p)).sum()),
        (odds.overlap_range(*heads), np.minimum(p, q).sum()),
        (odds.mass_range(heads[0], some), p[list(some)].sum()),
    ):
        assert low - 1e-9 <= whole <= high + 1e-9
        if kept == 12:
            assert high - low < 1e-9


def test_files_are_read_as_they_were_written(tmp_path: Path) -> None:
    """A trace, and the lanes of a race. Catches: a refusal of a race by from_json that does not name what reads it."""
    settings = [sd.Settings(proposer=name, max_new_tokens=4) for name in ("none", "draft-model")]
    lanes = [
        event.trace
        for event in sd.race(scripted(_target, _draft), [0, 1, 2], settings)
        if isinstance(event, sd.Finished)
    ]
    one, race = tmp_path / "one.json", tmp_path / "race.json"
    one.write_text(lanes[0].to_json(), encoding="utf-8")
    race.write_text(race_json(lanes), encoding="utf-8")
    assert sd.read_traces(one) == lanes[:1] and sd.read_traces(str(race)) == lanes
    with pytest.raises(sd.TraceError, match=r"not one trace; read_traces\(\) reads its file\.$"):
        sd.Trace.from_json(race.read_bytes())


def test_an_empty_file_is_called_empty() -> None:
    """Catches: "EOF while parsing a value at line 1 column 0"."""
    for read in (sd.Trace.from_json, foreign.read):
        with pytest.raises(sd.TraceError, match=r" is empty\.$"):
            read(b" \n")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace('"draft_s":0.0', '"draft_s":NaN', 1).encode(), "write null"),
        (lambda text: text.encode("utf-8-sig"), "byte-order mark"),
        (lambda text: text.encode("utf-16"), "byte-order mark"),
        (lambda text: text.replace("{", "{,", 1).encode(), "line 1 column 2"),
    ],
    ids=["NaN", "UTF-8 with a mark", "UTF-16", "a comma"],
)
def test_what_is_no_json_says_why(change: Callable[[str], bytes], said: str) -> None:
    """Catches: "expected value at line 1 column 1692" for the NaN that Python's json writes."""
    clean = sd.decode(scripted(_target, _draft), [0, 1, 2], sd.Settings(max_new_tokens=4, proposer="none"))
    clean.rounds[0].draft_s = 0.0
    for read in (sd.Trace.from_json, foreign.read):
        with pytest.raises(sd.TraceError, match=f"is not valid JSON: .*{said}"):
            read(change(clean.to_json()))


FORMULAS: list[tuple[str, dict[str, object], dict[str, object]]] = [
    ("draft-model", {}, {"rule": "speculative-sampling"}),
    ("draft-model", {}, {"rule": "token-matching"}),
    ("draft-model", {}, {"rule": "kseq"}),
    ("draft-model", {}, {"rule": "block"}),
    ("draft-model", {}, {"rule": "ensemble", "rule_options": {"weight": 0.6}}),
    ("branching", {"draw": "likeliest"}, {"rule": "speculative-sampling"}),
    ("branching", {"draw": "likeliest"}, {"rule": "kseq"}),
    ("branching", {"draw": "distinct"}, {"rule": "speculative-sampling"}),
    ("prompt-lookup", {}, {"rule": "block"}),
]


@pytest.mark.parametrize(("proposer", "options", "rule"), FORMULAS, ids=lambda value: str(value))
def test_the_audit_knows_the_formula_of_each_rule(
    proposer: str, options: dict[str, object], rule: dict[str, object]
) -> None:
    """Each judged node whose threshold is moved is found, but for drawn siblings after the first. Catches: a formula
    that is not applied, or that is another than the rule's."""
    trace = sd.decode(
        scripted(_target, _draft), [0, 1, 2, 0, 1],
        sd.Settings(proposer=proposer, options=options, temperature=1.0, max_new_tokens=40, seed=1, **rule),
    )  # fmt: skip
    assert trace.audit() == []
    moved = found = 0
    for at, row in enumerate(trace.rounds):
        for node, threshold in enumerate(row.nodes.threshold or []):
            if threshold is None or row.nodes.verdict[node] not in ("accepted", "rejected"):
                continue
            changed = copy.deepcopy(trace)
            (changed.rounds[at].nodes.threshold or [])[node] = threshold + (
                0.01 if threshold < 0.5 else -0.01
            )
            moved += 1
            found += any("has the threshold" in problem for problem in changed.audit())
    assert found == moved > 20 or (options.get("draw") == "distinct" and moved > found > 20)
