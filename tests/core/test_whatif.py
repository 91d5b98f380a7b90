"""The what-if clock: rounds priced by hand, the formula it must agree with, and what it refuses."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import specdec_core as sd
from specdec_core.record.schema import Committed, ModelInfo, Nodes, Round, Verdict
from specdec_measure import theory
from specdec_measure.analysis.draft_costs import FREE, assumption, drafts_with
from specdec_measure.analysis.whatif import on_clock, replay
from specdec_measure.machines.costs import Costs
from specdec_measure.machines.profiles import RecordedProfile, read, shipped

from .test_profiles import RECORDED
from .tiny import pair

HERE = read(json.dumps(RECORDED), "here.json")
TABLE = {1: 0.004, 3: 0.005, 5: 0.008}  # of HERE; its draft takes 1 ms for one token and 1.3 ms for four
CARDS = {name: one for name, one in shipped()[0].items() if one.kind == "modelled"}


@cache
def decoded(proposer: str = "draft-model", **settings: Any) -> sd.Trace:
    """What the tiny models wrote with that proposer."""
    models = pair("llama")
    return sd.decode(
        models, [5, 9, 3], sd.Settings(proposer=proposer, max_new_tokens=24, record="tokens", **settings)
    )


def with_rounds(rounds: list[Round], proposer: str = "draft-model", **options: Any) -> sd.Trace:
    """A trace of these rounds."""
    base = decoded()
    settings = {**base.header.settings, "proposer": proposer, "options": options}
    return replace(base, rounds=rounds, header=replace(base.header, settings=settings))


def a_round(
    parents: list[int], committed: int, passes: int, verdicts: list[Verdict] | None = None, **more: Any
) -> Round:
    """A round of that tree; only what the clock looks at is filled in."""
    depths: list[int] = []
    for parent in parents:
        depths.append(1 if parent < 0 else depths[parent] + 1)
    said: list[Verdict] = verdicts or ["accepted"] * len(parents)
    return Round(
        index=0, start_s=0.0, draft_s=9.0, verify_s=9.0, judge_s=9.0, commit_s=9.0, cache_before=5, cache_after=5,
        draft_passes=passes, nodes=Nodes(parents, depths, [1] * len(parents), said),
        committed=Committed([1] * committed, ["accepted"] * committed), **more,
    )  # fmt: skip


def test_rounds_by_hand() -> None:
    """A chain of two, a round without a guess, and a chain of four. Catches: the root left out of the pass, measured
    seconds of the record in the sum, plain decoding without its last token."""
    rounds = [a_round([-1, 0], 3, 2), a_round([], 1, 0), a_round([-1, 0, 1, 2], 2, 4)]
    result = replay(with_rounds(rounds), HERE)
    assert result.widths == (3, 1, 5)
    assert result.rounds == pytest.approx((0.002 + 0.005, 0.004, 0.004 + 0.008))
    assert (result.draft_s, result.verify_s) == pytest.approx((0.006, 0.017))
    assert result.tokens == 6 and result.plain_s == pytest.approx(6 * 0.004)
    assert result.seconds == pytest.approx(sum(result.rounds))
    assert result.speedup == pytest.approx(0.024 / 0.023)
    assert result.tokens_per_second == pytest.approx(6 / 0.023)
    assert (result.kind, result.label, result.costs.context) == ("recorded", "here", 128)
    assert result.provenance == "modelled from recorded pass times · a machine, 2026-01-01"


def test_what_the_target_never_saw_is_not_in_its_pass() -> None:
    """Catches: pruned and discarded nodes that are paid for, extra tokens that cost nothing."""
    verdicts: list[Verdict] = ["accepted", "rejected", "unreached", "cut", "pruned", "discarded"]
    row = a_round([-1, -1, 0, 2, 0, 3], 2, 2, verdicts, riders=3)
    assert row.width == 1 + 4 + 3


def test_the_passes_of_a_tree_read_what_they_expand() -> None:
    """Two levels below the root: the root alone, then its two children that have children, one of them pruned."""
    row = a_round([-1, -1, -1, 0, 0, 1], 2, 2, ["accepted"] * 3 + ["unreached", "rejected", "pruned"])
    result = replay(with_rounds([row], "branching"), HERE)
    assert result.draft_s == pytest.approx(0.001 + 0.0011)  # one token, then two
    ahead = replay(with_rounds([replace(row, draft_passes=1)], "branching"), HERE)
    assert ahead.draft_s == pytest.approx(0.0011)  # the first level was there before
    more = replay(with_rounds([replace(row, draft_passes=4)], "branching"), HERE)
    assert more.draft_s == pytest.approx(2 * 0.001 + 0.001 + 0.0011)


def test_drafting_beside_the_target_takes_the_longer_of_the_two() -> None:
    """PEARL's max(γ T_d, T_t). Catches: a sum, or overlapped drafting for nothing."""
    for passes, expected in ((3, 0.008), (12, 0.012)):
        row = a_round([-1, 0, 1, 2], 5, 0, ahead_passes=passes)
        result = replay(with_rounds([row]), HERE)
        assert result.seconds == pytest.approx(expected)
        assert result.seconds == pytest.approx(
            theory.overlapped_time(passes, 0.001, theory.pass_time(TABLE, 5))
        )
        assert any("PEARL" in said for said in result.assumptions)


def test_heads_cost_their_share_of_a_target_pass() -> None:
    """Heads of a tenth of the target, and an output matrix of a fifth of the profile's."""
    trace = with_rounds([a_round([-1, 0, -1], 2, 1)], "medusa")
    target = ModelInfo("target", 30_000)
    share = 3_000 / 30_000 + 0.2
    trace = replace(
        trace, header=replace(trace.header, target=target, heads=[ModelInfo("medusa heads", 3_000)])
    )
    assert replay(trace, HERE).draft_s == pytest.approx(share * 0.004)
    settings = {**trace.header.settings, "proposer": "eagle", "options": {"top_k": 3}}
    eagle = replace(trace, header=replace(trace.header, settings=settings))
    for parents in ([-1, -1, -1, 0, 1, 2], [-1, 0]):  # one token, then the three it follows, sent or not
        found = replay(replace(eagle, rounds=[a_round(parents, 2, 2)]), HERE)
        assert found.draft_s == pytest.approx(share * (0.004 + 0.005))


@pytest.mark.parametrize(("rows", "output"), [(None, 0.2), (0, 0.0), (10, 0.05), (40, 0.2)])
def test_heads_cost_what_they_read_of_the_output_matrix(rows: int | None, output: float) -> None:
    """A draft vocabulary of a quarter, a matrix of their own, an input embedding on neither side. Catches: the whole
    matrix for heads that read some rows or none; an older record that is priced so without saying it."""
    trace = with_rounds([a_round([-1, 0, -1], 2, 1)], "medusa")
    heads = ModelInfo("medusa heads", 9_000, read=1_000, output_rows=rows)
    target = replace(trace.header.target, parameters=30_000, read=20_000)
    trace = replace(trace, header=replace(trace.header, heads=[heads], target=target, vocabulary=40))
    found = replay(trace, HERE)
    assert found.draft_s == pytest.approx((0.05 + output) * 0.004)
    assert any("so the whole is counted" in said for said in found.assumptions) is (rows is None)
    assert any("output matrix does not: it is 20% of what" in said for said in found.assumptions)


def test_an_early_exit_costs_its_layers_and_the_output_matrix() -> None:
    row = a_round([-1, 0], 3, 2, note={"exit_layer": 1})
    trace = with_rounds([row], "early-exit", layer=1)
    result = replay(trace, HERE, layers=4)
    assert result.draft_s == pytest.approx(2 * 0.004 * (0.25 * 0.8 + 0.2))
    with pytest.raises(sd.SettingsError, match="does not say of how many"):
        replay(trace, HERE)
    with pytest.raises(sd.SettingsError, match="after layer 3, which a target of 2 layers lacks"):
        replay(replace(trace, rounds=[replace(row, note={"exit_layer": 3})]), HERE, layers=2)
    usual = with_rounds([row], "early-exit", layer=0)
    assert replay(usual, HERE).draft_s == pytest.approx(2 * 0.004 * (0.8 / 3 + 0.2))
    assert isinstance(HERE, RecordedProfile)
    header = replace(trace.header, target=replace(trace.header.target, name="big"))
    # the profile's own target has 4
    assert replay(replace(trace, header=header), HERE).draft_s == result.draft_s


def test_searching_costs_nothing_and_an_oracle_is_called_a_bound() -> None:
    row = a_round([-1, 0], 3, 0)
    assert replay(with_rounds([row], "prompt-lookup"), HERE).draft_s == 0.0
    drafted = a_round([-1, 0], 3, 2)
    for name in ("oracle", "you"):
        result = replay(with_rounds([drafted], name), HERE)
        assert result.off_the_clock and result.draft_s == 0.0
    assert not replay(with_rounds([row], "prompt-lookup"), HERE).off_the_clock
    assert {name for name, kind in sd.PROPOSERS.items() if kind.off_the_clock} == {"oracle", "you"}


@given(
    gamma=st.integers(1, 12), tokens=st.lists(st.integers(1, 13), min_size=1, max_size=20),
    context=st.sampled_from([128, 512]),
)  # fmt: skip
def test_rounds_as_the_formula_assumes_them_give_the_formula_s_speedup(
    gamma: int, tokens: list[int], context: int
) -> None:
    """Every round drafts γ tokens in γ passes. Against `theory.speedup_on` with the mean of the committed tokens."""
    tokens = [min(count, gamma + 1) for count in tokens]
    rounds = [a_round(list(range(-1, gamma - 1)), count, gamma) for count in tokens]
    expected = theory.speedup_on(TABLE, sum(tokens) / len(tokens), gamma, 0.001)
    assert replay(with_rounds(rounds), HERE, context=context).speedup == pytest.approx(expected)


@pytest.mark.parametrize("card", CARDS)
def test_a_modelled_card_gives_the_formula_s_speedup_too(card: str) -> None:
    rounds = [a_round([-1, 0, 1, 2], count, 4) for count in (5, 3, 1, 4)]
    result = replay(with_rounds(rounds), CARDS[card], batch=4, context=1024, target="1.5B", draft="0.5B")
    costs = result.costs
    assert costs.draft is not None
    curve = {n: costs.target(n) for n in (1, 5)}
    assert result.speedup == pytest.approx(theory.speedup_on(curve, 13 / 4, 4, costs.draft(1)))
    assert result.kind == "modelled" and costs.pair == "1.5B with 0.5B"


def test_a_large_batch_makes_a_wide_tree_not_pay() -> None:
    """The lesson of the slider: on every card the speedup of a 64-node tree falls with the batch, to below 1."""
    tree = a_round([-1] * 4 + [node // 4 for node in range(60)], 3, 3)
    for name in ("h100-sxm", "a100-80gb"):
        speedups = [
            replay(with_rounds([tree], "branching"), CARDS[name], batch=batch).speedup
            for batch in (1, 8, 32, 64)
        ]
        assert speedups == sorted(speedups, reverse=True)
        assert speedups[0] > 1.0 > speedups[-1]


def test_plain_decoding_is_the_baseline_of_itself() -> None:
    for profile in (HERE, *CARDS.values()):
        result = replay(decoded("none"), profile)
        assert result.speedup == pytest.approx(1.0)
        assert result.draft_s == 0.0 and {*result.widths} == {1}


@pytest.mark.parametrize(
    ("proposer", "settings"),
    [
        ("draft-model", ()),
        ("draft-model", (("overlap", True),)),
        ("draft-model", (("temperature", 1.0),)),
        ("branching", ()),
        ("prompt-lookup", ()),
        ("lookahead", ()),
        ("recycling", ()),
        ("suffix", ()),
        ("early-exit", ()),
        ("blind", ()),
        ("oracle", ()),
    ],
)
def test_real_records_of_every_proposer_can_be_put_on_the_clock(
    proposer: str, settings: tuple[tuple[str, Any], ...]
) -> None:
    """Widths against the passes that the target was asked for. Catches: a proposer whose record reads otherwise."""
    trace = decoded(proposer, **dict(settings))
    result = replay(trace, HERE)
    seen = [
        1
        + row.riders
        + len(row.nodes.verdict)
        - row.nodes.verdict.count("pruned")
        - row.nodes.verdict.count("discarded")
        for row in trace.rounds
    ]
    assert [*result.widths] == seen
    assert result.tokens == trace.stats.tokens and len(result.rounds) == trace.stats.target_passes
    assert result.plain_s == pytest.approx(trace.stats.tokens * 0.004)
    assert result.verify_s == pytest.approx(sum(theory.pass_time(TABLE, width) for width in seen))
    assert (result.draft_s > 0) == (proposer in ("draft-model", "branching", "early-exit"))
    assert result.seconds > 0 and result.assumptions


def test_time_of_the_record_does_not_matter() -> None:
    """Catches: measured seconds that leak into another machine's clock."""
    trace = decoded("branching")
    slower = replace(
        trace, rounds=[replace(row, draft_s=5.0, verify_s=7.0, judge_s=3.0) for row in trace.rounds]
    )
    assert replay(slower, HERE).rounds == replay(trace, HERE).rounds


def test_what_cannot_be_put_on_a_clock_is_refused_in_one_sentence() -> None:
    empty = replace(decoded(), rounds=[])
    alone = read(
        json.dumps(
            RECORDED
            | {"draft": None}
            | {"curves": [{**RECORDED["curves"][0], "draft_widths": [], "draft_s": [], "draft_median_s": []}]}
        ),
        "alone.json",
    )
    for refused, said in (
        (lambda: replay(empty, HERE), "holds no rounds"),
        (lambda: replay(decoded(), alone), "drafted by a model, and the profile knows none"),
        (lambda: replay(decoded(), HERE, batch=4), "not recorded at batch 4"),
        (lambda: replay(decoded(), HERE, target="8B"), "recorded with its own models"),
        (lambda: replay(decoded(), CARDS["l4"], target="70B"), "Choose smaller models"),
    ):
        with pytest.raises(sd.SettingsError, match=said):
            refused()
    assert replay(decoded("prompt-lookup"), alone).draft_s == 0.0


def test_every_proposer_is_priced_in_one_sentence_of_its_own() -> None:
    """What is shown of each proposer's rounds begins with it. Catches: a proposer without a sentence, with that of
    another, with two, or one the clock does not show."""
    words = {name: assumption(kind) for name, kind in sd.PROPOSERS.items()}
    for name, sentence in words.items():
        assert re.fullmatch(r"[A-Z][^.]*\.", sentence), (name, sentence)
        result = replay(with_rounds([a_round([], 1, 0)], name), HERE)
        assert [said for said in result.assumptions if said in words.values()] == [sentence], name
        assert result.assumptions[0] == sentence, name
    for name, other in itertools.combinations(words, 2):
        assert words[name] != words[other] or words[name] == FREE, (
            f"'{name}' and '{other}' have the same sentence in `ASSUMPTIONS`: give each its own"
        )
    for name, kind in sd.PROPOSERS.items():
        assert words[name] != FREE or drafts_with(kind) == "nothing", (
            f"'{name}' drafts with {drafts_with(kind)}: say in `ASSUMPTIONS` what the what-if clock takes for it"
        )


def test_what_drafting_costs_follows_from_what_it_needs() -> None:
    """Catches: a proposer with a draft model whose drafting is free on every other machine."""

    class Another(sd.proposers.Proposer):
        needs = ("draft",)

    assert drafts_with(Another) == "draft"
    expected = {
        **dict.fromkeys(
            ("draft-model", "parallel-draft", "text-draft", "shared-tokens", "branching"), "draft"
        ),
        **dict.fromkeys(("medusa", "eagle", "eagle3", "mtp"), "heads"),
        **dict.fromkeys(("none", "blind", "prompt-lookup", "lookahead", "oracle", "you"), "nothing"),
        "early-exit": "first layers",
    }
    assert {name: drafts_with(sd.PROPOSERS[name]) for name in expected} == expected


def test_any_costs_can_be_the_clock() -> None:
    """For lessons with numbers of their own."""
    costs = Costs(lambda n: 1.0 + 0.5 * (n - 1), lambda n: 0.25, 1, 0.0, 1, 0, "made up")
    result = on_clock(with_rounds([a_round([-1, 0], 3, 2)]), HERE, costs)
    assert result.speedup == pytest.approx(3.0 / 2.5)


def test_what_is_no_profile_or_no_trace_is_one_sentence() -> None:
    """Catches: a profile's name in place of the profile, which ended in an AttributeError."""
    with pytest.raises(sd.SettingsError, match=r"^A profile is one of profiles\.shipped\(\), .* type str\.$"):
        replay(decoded(), "h100-sxm")  # type: ignore[arg-type]
    with pytest.raises(sd.TraceError, match=r"^A trace is what decode\(\)"):
        replay(HERE, decoded())  # type: ignore[arg-type]
