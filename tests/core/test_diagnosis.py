"""The diagnosis: records in which exactly one cause holds, and its account against plain arithmetic."""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import specdec_core as sd
from specdec_measure import testing
from specdec_measure.analysis.diagnosis import Diagnosis, why

MS = 0.001


def next_probs(context: tuple[int, ...]) -> list[float]:
    """The next letter of four, for sure."""
    following = ((context[-1] if context else 0) + 1) % 4
    return [1.0 if token == following else 0.0 for token in range(4)]


def wrong(context: tuple[int, ...]) -> list[float]:
    """A draft that is always wrong."""
    following = ((context[-1] if context else 0) + 2) % 4
    return [1.0 if token == following else 0.0 for token in range(4)]


def record(draft: object = next_probs, **settings: object) -> sd.Trace:
    models = testing.scripted(next_probs, draft)  # type: ignore[arg-type]
    return sd.decode(models, [0], sd.Settings(**{"max_new_tokens": 41, **settings}))


def timed(trace: sd.Trace, draft: float, verify: float, other: float) -> sd.Trace:
    """The trace with every round's times replaced, in milliseconds; its statistics follow."""
    clock = 0.0
    for row in trace.rounds:
        row.start_s, row.draft_s, row.verify_s = clock, draft * MS, verify * MS
        row.judge_s, row.commit_s = other * MS / 2, other * MS / 2
        clock = row.end_s
    count = len(trace.rounds)
    trace.stats = replace(
        trace.stats,
        draft_s=draft * MS * count,
        verify_s=verify * MS * count,
        other_s=other * MS * count,
        tokens_per_second=trace.stats.tokens / clock,
    )
    return trace


def noisy(trace: sd.Trace, seconds: Any) -> None:
    """Give the rounds these lengths, all of them spent in the target's pass."""
    for row, length in zip(trace.rounds, seconds.tolist(), strict=True):
        row.draft_s = row.judge_s = row.commit_s = 0.0
        row.verify_s = length
    whole = float(seconds.sum())
    trace.stats = replace(
        trace.stats, draft_s=0.0, verify_s=whole, other_s=0.0, tokens_per_second=trace.stats.tokens / whole
    )


def plain() -> sd.Trace:
    return timed(record(proposer="none"), 0.0, 9.0, 1.0)


def test_two_losses_of_one_printed_size_are_both_named() -> None:
    """Catches: “most was lost to” one of two parts that the bar beside it shows alike."""
    found = why(plain(), timed(record(next_probs), 20.0, 29.0, 1.0))
    assert found is not None
    assert found.cause in ("drafting", "width")
    assert ", 2.0 plain rounds" in found.sentence and ", and as much for " in found.sentence
    unlike = why(plain(), timed(record(next_probs), 20.0, 28.0, 1.0))
    assert unlike is not None and "as much" not in unlike.sentence


@pytest.mark.parametrize(
    ("draft", "times", "settings", "cause", "words"),
    [
        (
            wrong,
            (0.1, 9.1, 1.0),
            {},
            "acceptance",
            "Biggest cost: wrong guesses: of ",
        ),
        (next_probs, (60.0, 9.0, 1.0), {}, "drafting", "Biggest cost: making the guesses, 6.0 plain rounds"),
        (
            next_probs,
            (1.0, 69.0, 1.0),
            {},
            "width",
            "Biggest cost: checking several tokens at once, 6.0 plain rounds",
        ),
        (
            next_probs,
            (1.0, 9.0, 61.0),
            {},
            "overhead",
            "Biggest cost: the work around the models, 6.0 plain rounds",
        ),
    ],
)
def test_the_one_cause_is_named(
    draft: object, times: tuple[float, float, float], settings: dict[str, object], cause: str, words: str
) -> None:
    """Catches: a cause that is read off the wrong phase, or blamed on acceptance where all guesses were right."""
    found = why(plain(), timed(record(draft, **settings), *times))
    assert found is not None
    assert found.speedup < 1
    assert found.cause == cause
    assert words in found.sentence
    assert found.sentence.startswith("Slower, ")


def test_a_proposer_that_finds_nothing_guesses_too_little() -> None:
    """Prompt lookup in a text where nothing comes twice has no wrong guesses, only missing ones."""

    def counting(context: tuple[int, ...]) -> list[float]:
        return [1.0 if token == len(context) % 64 else 0.0 for token in range(64)]

    models = testing.scripted(counting)
    settings = sd.Settings(proposer="prompt-lookup", max_new_tokens=41)
    trace = sd.decode(models, [0], settings)
    assert trace.stats.proposed == 0
    base = sd.decode(models, [0], settings.but(proposer="none"))
    found = why(timed(base, 0.0, 9.0, 1.0), timed(trace, 0.5, 9.0, 1.0))
    assert found is not None
    assert found.cause == "few guesses"
    rooms = [min(4, 40 - done) for done in range(41)]  # what γ and the end of the text would have allowed
    assert found.unguessed == pytest.approx(sum(rooms) / 41)
    assert "Biggest cost: guesses that were not made, worth up to" in found.sentence


def test_a_sentence_about_wrong_guesses_counts_guesses() -> None:
    """Catches: τ − 1 as what was accepted, where the text ends with a guess and no token of the target's follows."""

    def often(context: tuple[int, ...]) -> list[float]:
        return [*wrong(context), 0.0] if len(context) % 4 == 3 else next_ending(context)

    def next_ending(context: tuple[int, ...]) -> list[float]:
        return [0.0] * 4 + [1.0] if len(context) == 34 else [*next_probs(context), 0.0]

    lane = timed(
        sd.decode(testing.scripted(next_ending, often, eos=[4]), [0], sd.Settings(draft_length=4)),
        0.1,
        9.0,
        1.0,
    )
    nodes = [row.nodes for row in lane.rounds]
    accepted = sum(row.verdict.count("accepted") for row in nodes) / len(nodes)
    found = why(plain(), lane)
    assert found is not None
    assert found.accepted == accepted != pytest.approx(found.tokens - 1.0)
    assert found.guessed == sum(max(row.depth, default=0) for row in nodes) / len(nodes)
    assert f"of {found.guessed:.1f} in a row, {accepted:.1f} were accepted" in found.sentence


def test_missing_guesses_are_worth_what_the_lane_s_others_were() -> None:
    """By hand: of γ = 4, rounds that guessed one level lack three, worth α² + α³ + α⁴. Catches: a guess nobody made
    that is counted as if it had been right."""
    trace = timed(record(wrong, draft_length=4), 0.1, 9.0, 1.0)
    for row in trace.rounds:
        for name in ("parent", "depth", "token", "verdict", "coin", "threshold"):
            del getattr(row.nodes, name)[1:]
    trace.stats = replace(trace.stats, acceptance_rate=0.5)
    found = why(plain(), trace)
    rooms = [min(4, 40 - done) for done in range(41)]
    worth = {0: 0.0, 1: 0.0, 2: 0.25, 3: 0.375, 4: 0.4375}
    assert found is not None
    assert found.unguessed == pytest.approx(sum(worth[room] for room in rooms) / 41)
    assert "at α = 50%" in found._cause() or found.cause != "few guesses"


def test_a_draft_s_own_tokens_are_not_missing_guesses() -> None:
    """Its γ tokens became fewer of the target's. Catches: “guesses not made” over a draft that made all of its own."""
    trace = timed(record(wrong, draft_length=4), 0.1, 9.0, 1.0)
    for row in trace.rounds:
        for name in ("parent", "depth", "token", "verdict", "coin", "threshold"):
            del getattr(row.nodes, name)[1:]
    trace.header.settings["proposer"] = "text-draft"
    found = why(plain(), trace)
    assert found is not None and found.unguessed == 0.0 and found.rejected > 0.0


def test_what_the_rounds_noise_explains_is_called_neither_faster_nor_slower() -> None:
    """Both lanes draw their rounds' times from one distribution, a thousand times over. Catches: a verdict on luck,
    one that is withheld where the difference is real, and “about as fast” of 1.3× that is only uncertain."""
    random = np.random.default_rng(0)
    base, lane = plain(), record(wrong, draft_length=1)
    said = {"Faster": 0, "Slower": 0, "About": 0, "Not": 0}
    for _ in range(1_000):
        for trace in (base, lane):
            noisy(trace, random.gamma(16.0, 10 * MS / 16.0, len(trace.rounds)))
        found = why(base, lane)
        assert found is not None
        said[found.sentence.replace(",", " ").split()[0]] += 1
    assert 10 <= said["Faster"] <= 45 and 10 <= said["Slower"] <= 45  # 2.5% each are expected
    noisy(lane, random.gamma(16.0, 13 * MS / 16.0, len(lane.rounds)))
    real = why(base, lane)
    assert real is not None and real.sentence.startswith("Slower, ")
    for long, words in ((13.5, "Not clearly faster"), (14.5, "Not clearly slower"), (14.0, "About as fast")):
        for trace, length in ((base, 14.0), (lane, long)):
            noisy(trace, np.resize([6.0 * MS, length * MS], len(trace.rounds)))
        unclear = why(base, lane)
        assert unclear is not None and unclear.low < 1.0 < unclear.high
        assert unclear.sentence.startswith(
            f"{words} {'than ' * ('Not' in words)}{'as ' * ('About' in words)}plain, "
        )
        assert f"(95% interval {unclear.low:.2f} to {unclear.high:.2f}, by the scatter" in unclear.sentence


def test_load_that_lasts_for_several_rounds_is_called_neither_faster_nor_slower() -> None:
    """Other work doubles a plain round's time for seven rounds in turn, or for as many here and there. Catches: an
    interval that takes rounds slowed by one cause for independent ones."""
    slow = set(range(8, 15))
    spread = set(range(2, 37, 5))
    said = []
    for where in (slow, spread):
        base, lane = plain(), record(wrong, draft_length=1)
        assert len(where) == 7
        noisy(base, np.array([(20 if at in where else 10) * MS for at in range(len(base.rounds))]))
        noisy(lane, np.full(len(lane.rounds), 10 * MS))
        found = why(base, lane)
        assert found is not None and found.speedup > 1.1
        said.append(found)
    assert said[0].speedup == pytest.approx(said[1].speedup)
    assert said[0].short.startswith("Not clearly faster") and said[1].short.startswith("Faster")


def test_a_round_that_took_less_than_a_plain_one_is_said_to_be_noise() -> None:
    found = why(plain(), timed(record(), 0.1, 5.0, 1.0))
    assert found is not None and found.cost < 1.0
    assert "plain rounds, less than one by timing noise" in found.sentence


def test_the_account_adds_up_to_the_measured_speedup() -> None:
    """τ / (1 + D + W + O) is the speedup, whatever the times; computed here from the rounds themselves."""
    for times in ((2.0, 11.0, 1.5), (0.0, 8.0, 0.5), (30.0, 9.0, 7.0)):
        base, lane = plain(), timed(record(), *times)
        found = why(base, lane)
        assert found is not None
        seconds = sum(row.draft_s + row.verify_s + row.judge_s + row.commit_s for row in lane.rounds)
        speed = len(lane.token_ids) / seconds
        assert found.speedup == pytest.approx(speed / (41 / (41 * 10 * MS)))
        assert found.tokens / found.cost == pytest.approx(found.speedup)
        assert sum(value for _, value in found.segments) == pytest.approx(found.cost)
        assert found.tokens == pytest.approx(41 / len(lane.rounds))
        assert found.drafting == pytest.approx(times[0] / 10)
        assert found.width == pytest.approx((times[1] - 9) / 10)
        assert found.overhead == pytest.approx((times[2] - 1) / 10)


def test_a_faster_lane_is_called_so_with_what_holds_it_back() -> None:
    found = why(plain(), timed(record(), 4.0, 10.0, 1.0))
    assert found is not None
    assert found.speedup > 2
    assert found.cause == "drafting"
    assert found.sentence.startswith("Faster, ") and "Biggest cost: making the guesses" in found.sentence
    assert ". Biggest cost: " in found.short


def test_a_slower_lane_s_first_sentence_names_its_cause() -> None:
    """Catches: a verdict whose reader has to go on to the next sentence to learn why."""
    found = why(plain(), timed(record(wrong), 0.1, 30.0, 1.0))
    assert found is not None and found.speedup < 1
    assert re.match(r"Slower, 0\.\d\d×; biggest cost: \w", found.short)


def test_what_held_passes_up_is_not_called_the_cost_of_reading_several_tokens() -> None:
    """Catches: another program's time under the name of the wider pass, and the sentence that then blames the pass."""
    lane = timed(record(), 1.0, 12.0, 1.0)
    quiet = why(plain(), lane)
    lane.rounds[2].verify_s += 0.4
    lane.stats = replace(lane.stats, verify_s=lane.stats.verify_s + 0.4)
    found = why(plain(), lane)
    assert quiet is not None and found is not None
    assert found.width == pytest.approx(quiet.width) and quiet.held == 0.0
    assert found.held == pytest.approx(0.4 / len(lane.rounds) / (10 * MS))
    assert found.cause == "held up" and "other programs that slowed passes, " in found.short
    assert found.tokens / found.cost == pytest.approx(found.speedup)
    assert sum(value for _, value in found.segments) == pytest.approx(found.cost)


def test_with_a_width_curve_only_what_it_explains_is_blamed_on_width() -> None:
    """Five tokens in a pass cost 1.2 by the curve; the passes took 3: the machine was busy, not the pass wide."""
    lane = timed(record(), 0.1, 27.0, 1.0)
    found = why(plain(), lane, {1: 1.0, 5: 1.2})
    assert found is not None
    widths = [1 + len(row.nodes.token) for row in lane.rounds]
    ratio = sum(1 + 0.05 * (width - 1) for width in widths) / len(widths)
    assert found.width == pytest.approx((ratio - 1) * 0.9)
    assert found.unexplained == pytest.approx(1.8 - found.width)
    assert found.cause == "unexplained"
    assert found.tokens / found.cost == pytest.approx(found.speedup)
    alone = why(plain(), lane)
    assert alone is not None and alone.cause == "width"


def test_too_little_says_nothing() -> None:
    short = timed(record(max_new_tokens=8), 1.0, 9.0, 1.0)
    assert why(plain(), short) is None
    brief = timed(record(proposer="none", max_new_tokens=8), 0.0, 9.0, 1.0)
    assert why(brief, timed(record(), 1.0, 9.0, 1.0)) is None
    assert why(plain(), record(record="off")) is None


def test_swapped_traces_are_refused() -> None:
    """Catches: a lane as the baseline, whose speedup is the inverse and whose losses mean nothing."""
    with pytest.raises(sd.SettingsError, match=r"Call why\(plain, lane\)\."):
        why(timed(record(), 1.0, 9.0, 1.0), plain())


def test_trees_are_described_by_counts_as_they_have_no_single_rate() -> None:
    """On a tree the loss is counted along its depth: siblings beside the accepted path are no lost tokens."""
    models = testing.scripted(next_probs, lambda context: [0.4, 0.3, 0.2, 0.1])
    trace = sd.decode(models, [0], sd.Settings(proposer="branching", max_new_tokens=41))
    found = why(plain(), timed(trace, 1.0, 10.0, 1.0))
    assert found is not None
    sent = [  # the target never saw a node without a coin
        [depth for depth, coin in zip(row.nodes.depth, row.nodes.coin or [], strict=True) if coin is not None]
        for row in trace.rounds
    ]
    deepest = [max(depths, default=0) for depths in sent]
    assert sum(map(len, sent)) > sum(deepest)
    accepted = [
        len(row.committed.token) - ("accepted" not in row.committed.source[-1:]) for row in trace.rounds
    ]
    assert found.rejected == pytest.approx((sum(deepest) - sum(accepted)) / len(trace.rounds))
    assert math.isclose(found.tokens, trace.stats.tokens_per_pass or 0.0)
    assert found.alpha is None


def test_a_lane_that_loses_nothing_is_not_blamed() -> None:
    """All guesses right and all for free: there is no cause. Catches: "too few guesses were right (α = 100%)"."""
    found = why(plain(), timed(record(), 0.0, 9.0, 1.0))
    assert found is not None and found.alpha == 1.0
    assert found.cause == "nothing"
    assert " plain rounds. No single loss stands out." in found.sentence


def test_guesses_beyond_the_end_of_the_text_did_not_fall() -> None:
    """A text that ends within the last proposal: the rest of it is cut, and every guess had been right."""
    trace = record(draft_length=8)
    row = trace.rounds[-2]
    assert set(row.nodes.verdict) == {"accepted"}
    row.nodes.verdict[4:] = ["cut"] * 4
    found = why(plain(), timed(trace, 0.0, 9.0, 1.0))
    assert found is not None and found.rejected == 0.0


def test_a_text_that_repeats_is_said() -> None:
    """The text counts 0 1 2 3 0 1 2 3 …: 37 of 41 tokens. Catches: a loop's speedup without a word about the loop."""
    plain = timed(record(proposer="none"), 0.0, 10.0, 0.0)
    lane = timed(record(), 1.0, 10.0, 0.0)
    found = why(plain, lane)
    assert found is not None
    assert found.sentence.endswith(". Careful: 90% of the text is repetition, which is easy to guess.")
    fewer = replace(found, flattered=False)  # there were more tokens per pass before it repeated
    assert fewer.sentence.endswith(". 90% of the text is repetition, which is easy to guess.")
    for at in range(len(lane.output.ids)):
        lane.output.ids[at] = at  # as if nothing did
    assert "repeats" not in why(plain, lane).sentence  # type: ignore[union-attr]


def test_the_main_loss_is_the_one_without_which_the_lane_would_be_fastest() -> None:
    """Of lanes whose losses vary, the speedup with each loss taken away, computed here. Catches: a token weighed as a
    plain round in a lane that writes several tokens in the time of two."""
    chance, named = random.Random(4), set()
    for _ in range(300):
        rejected, unguessed, drafting, width, overhead = (
            chance.choice((0.0, chance.random())) for _ in range(5)
        )
        tokens, cost = 1 + 3 * chance.random(), 1 + drafting + width + overhead
        found = Diagnosis(
            tokens / cost,
            0.0,
            9.0,
            None,
            tokens,
            3.0,
            tokens - 1,
            rejected,
            unguessed,
            drafting,
            width,
            overhead,
        )
        without = {
            "acceptance": (tokens + rejected) / cost,
            "few guesses": (tokens + unguessed) / cost,
            "drafting": tokens / (1 + width + overhead),
            "width": tokens / (1 + drafting + overhead),
            "overhead": tokens / (1 + drafting + width),
        }
        best = max(without.values())
        if found.cause == "nothing":
            assert best - tokens / cost < 0.03
        else:
            assert without[found.cause] == pytest.approx(best)
        named.add(found.cause)
    assert named >= {"acceptance", "few guesses", "drafting", "width", "overhead"}
