"""Finding a kept run: search, order, cards, and what may stand side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.decoding.runs import Runs
from app.library import rows
from app.records import listing
from app.records.listing import LibraryEntry
from app.records.summary import Summary, summarize
from specdec_core.settings import Settings
from specdec_measure.analysis.diagnosis import why

from .conftest import scripted_models
from .kept import LANES, finish
from .library_page import page
from .tables import tables


def entry(key: str, *, prompt: str = "a prompt", created: float = 0.0, **changes: object) -> LibraryEntry:
    values: dict[str, object] = {
        "label": "Draft model, γ = 4", "proposer": "draft-model", "rule": "speculative-sampling", "lossy": False,
        "target": "specdec-target", "draft": "specdec-draft", "tokens": 24, "passes": 8, "acceptance": 0.5,
        "tokens_per_pass": 3.0, "tokens_per_second": 9.0, "speedup": 1.5, "end": "length", "problem": None,
    }  # fmt: skip
    return LibraryEntry(key, key, prompt, created, (Summary(**{**values, **changes}),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"proposer": "prompt-lookup", "max_new_tokens": 5}, "nothing was judged."),
        ({"proposer": "branching", "max_new_tokens": 24}, "its proposals were trees"),
        ({"proposer": "lookahead", "max_new_tokens": 1}, "nothing was judged, or"),
        ({"proposer": "draft-model", "max_new_tokens": 24}, None),
        ({"proposer": "none", "max_new_tokens": 24}, None),
    ],
)
def test_the_reason_for_a_missing_alpha_is_that_of_the_record(
    choices: dict[str, Any], reason: str | None
) -> None:
    """Catches: “proposals were trees” of a lookup that found nothing."""
    from specdec_core import decode

    trace = decode(scripted_models(), "abc", Settings(**choices))  # type: ignore[arg-type]
    (summary,) = summarize([trace], ["x"])
    found = rows.why_no_alpha(summary)
    assert (found is None) == (reason is None) and (found or "").startswith(reason or "")
    judged = sum(verdict in ("accepted", "rejected") for row in trace.rounds for verdict in row.nodes.verdict)
    branched = any(len(set(row.nodes.parent)) < len(row.nodes.parent) for row in trace.rounds)
    assert {"nothing was judged.": not judged, "its proposals were trees": branched}.get(str(reason), True)


def test_a_lane_without_alpha_says_why_below_the_table(saving: Runs) -> None:
    saved = finish(
        saving, lanes=(LANES[0].but(max_new_tokens=5), Settings(proposer="prompt-lookup", max_new_tokens=5))
    )
    assert saved is not None
    at = page(run=saved.id)
    assert tables(at)[0][1]["Acceptance rate α"] == "—"
    said = [caption.value for caption in at.caption if caption.value.startswith("No α")]
    assert len(said) == 1 and said[0].endswith(": nothing was judged.")


def test_a_search_finds_prompt_name_proposer_rule_and_model() -> None:
    entries = [
        entry("Straße", prompt="Once upon a TIME"),
        entry("b", proposer="eagle", label="EAGLE head", rule="typical", target="gpt2"),
    ]

    def keys(words: str, proposer: str = "any") -> list[str]:
        return [found.key for found in listing.find(entries, words, proposer, "name")]

    assert keys("") == ["b", "Straße"]
    assert keys("STRASSE") == keys("upon time") == keys("time upon") == keys("γ") == ["Straße"]
    assert keys("eagle") == keys("Typical accept") == keys("gpt2") == ["b"]
    assert keys("eagle upon") == keys("%") == keys("nothing like it") == []
    assert keys("", "eagle") == ["b"] and keys("upon", "eagle") == []


def test_orders_sort_by_what_they_say_and_put_what_has_no_figure_last() -> None:
    entries = [
        entry("b", created=2, tokens_per_pass=3.0, speedup=None),
        entry("A", created=3, tokens_per_pass=None, speedup=0.8),
        entry("c", created=1, tokens_per_pass=1.5, speedup=1.2),
    ]

    def keys(order: str) -> str:
        return "".join(found.key for found in listing.find(entries, "", "any", order))

    assert {order: keys(order) for order in listing.ORDERS} == {
        "newest": "Abc",
        "oldest": "cbA",
        "tokens-per-pass": "bcA",
        "speedup": "cAb",
        "name": "Abc",
    }


@pytest.mark.parametrize("off_the_clock", ["oracle", "you"])
def test_a_bound_is_no_measured_speedup_in_the_order(off_the_clock: str) -> None:
    """Catches: the oracle, whose guesses cost nothing, on top of everything that was measured, by either figure."""
    bound = entry("bound", proposer=off_the_clock, speedup=9.0, tokens_per_pass=5.0)
    slow = entry("slow", speedup=0.5)
    both = LibraryEntry("both", "both", "a prompt", 0.0, (*bound.lanes, *entry("x", speedup=0.7).lanes))
    order = listing.find([bound, slow, both], "", "any", "speedup")
    assert [found.key for found in order] == ["both", "slow", "bound"]
    some = entry("some", speedup=0.5, tokens_per_pass=1.5)
    assert listing.find([bound, some], "", "any", "tokens-per-pass")[0] is some


def test_a_card_shows_every_lane_with_its_letter() -> None:
    """Catches: “and 2 more lanes”, one of which was the fastest; figures that belong to no name."""

    def of(*lanes: tuple[str, float]) -> LibraryEntry:
        made = [
            entry("x", proposer=name, tokens_per_second=speed, speedup=speed / 10) for name, speed in lanes
        ]
        return LibraryEntry("all", "all", "a prompt", 0.0, tuple(lane.lanes[0] for lane in made))

    many = of(("none", 10), ("draft-model", 11), ("eagle", 8), ("oracle", 99), ("eagle3", 20), ("medusa", 7))
    lines = rows.lines(many)
    assert [line[:8] for line in lines] == [f"**{letter}** · " for letter in "ABCDEF"]
    assert "10 tokens/s" in lines[0] and "**1.10×**" in lines[1] and "**2.00×**" in lines[4]
    (alone,) = rows.lines(of(("none", 10)))
    assert "**A**" not in alone


def test_a_speedup_that_chance_could_bring_is_no_clear_one() -> None:
    """By the intervals of “Why faster, why slower”, as in the player's headline. Catches: 1.17× in the library of what
    the run itself called not clearly faster; a doubt about runs that were kept before it was asked."""
    said = [
        rows.speedup(entry("x", speedup=speedup, firm=firm, tokens_per_pass=2.0).lanes[0], elsewhere=False)
        for speedup, firm in (
            *((1.17, False), (0.9, False), (1.001, False), (2.4, False)),
            *((1.17, True), (1.17, None)),
        )
    ]
    assert said == [
        "**1.17×** speedup, measured, not clearly faster",
        "**0.90×** speedup, measured, not clearly slower",
        "**1.00×** speedup, measured, not clearly faster or slower",
        "**2.40×** speedup, measured, above the tokens per pass: timing noise",
        "**1.17×** speedup, measured",
        "**1.17×** speedup, measured",
    ]


def test_whether_a_speedup_is_clear_is_kept_with_it() -> None:
    """Rounds of 10 ms against 30 ms for over three tokens; then every other plain round takes a second. Catches:
    another test than that of the diagnosis, a baseline that is compared with itself."""
    from specdec_core import decode

    plain, lane = (
        decode(scripted_models(), "abc", Settings(proposer=name, max_new_tokens=24))
        for name in ("none", "draft-model")
    )
    for trace, took in ((plain, 0.010), (lane, 0.030)):
        for row in trace.rounds:
            row.draft_s, row.verify_s, row.judge_s, row.commit_s = 0.0, took, 0.0, 0.0
        rate = trace.stats.tokens / took / len(trace.rounds)
        trace.stats = replace(
            trace.stats, draft_s=0.0, verify_s=took * len(trace.rounds), other_s=0.0, tokens_per_second=rate
        )
    for slow, firm in ((0.010, True), (1.0, False)):
        for row in plain.rounds[::2]:
            row.verify_s = slow
        found = why(plain, lane)
        assert found is not None and (found.low > 1) is firm
        assert [one.firm for one in summarize([plain, lane], ["a", "b"])] == [None, firm]


def test_only_runs_of_one_prompt_stand_side_by_side_and_never_with_another_s_baseline() -> None:
    one, same, other = entry("a"), entry("b"), entry("c", prompt="another")
    plain = entry("d", proposer="none")
    both = LibraryEntry("e", "e", "a prompt", 0.0, (*plain.lanes, *one.lanes))
    assert listing.together([one, same]) is None
    assert "“a” and “c” continue different prompts" in (listing.together([one, same, other]) or "")
    assert "plain decoding alone" in (listing.together([one, plain]) or "")
    assert "7 lanes; up to 6" in (listing.together([one] * 7) or "")
    assert [(found.key, lane) for found, lane in listing.side_by_side([both])] == [("e", 0), ("e", 1)]
    assert [(found.key, lane) for found, lane in listing.side_by_side([both, same])] == [("e", 1), ("b", 0)]
