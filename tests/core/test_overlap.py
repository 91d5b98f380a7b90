"""Drafting beside the target's pass: the same text, honest books, and no thread that outlives its lane."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import specdec_core as sd
from specdec_core import lengths as draft_length
from specdec_core.lengths import FixedLength
from specdec_core.models.bundle import HubModel
from specdec_core.proposers import Context
from specdec_core.proposers.draft.drafting_ahead import Ahead
from specdec_core.sampling import Warp
from specdec_measure.testing import ScriptedReader, scripted

from .distributions import DRAFT, TARGET, after, chances, exact_distribution, mixture, samples, wavering
from .tiny import PROMPTS, generate, module, pair

PROMPT = [0, 1, 2, 0]
COUNT = 120  # texts of a case
ABLE = ["draft-model", "branching"]


def overlapping(proposer: str = "draft-model", **changes: object) -> sd.Settings:
    """Settings that overlap."""
    return sd.Settings(**{"proposer": proposer, "overlap": True, "max_new_tokens": 30, **changes})


def drafting() -> list[threading.Thread]:
    """The threads that draft ahead."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("specdec-ahead")]


def won(trace: sd.Trace) -> int:
    """In how many rounds something that was drafted ahead was of use."""
    return sum("ahead" in row.note or "ahead_levels" in row.note for row in trace.rounds)


def to_the_end(self: Ahead, advance: Callable[[], bool]) -> None:
    """`Ahead.begin` without luck: all that could be drafted ahead is, before the target begins."""
    while advance():
        pass


@pytest.mark.parametrize("policy", ["fixed", "confidence"])
@pytest.mark.parametrize("lucky", [True, False])
@pytest.mark.parametrize("draw", ["distinct", "independent", "likeliest"])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_scripted_text_is_the_same_with_overlap_and_without(
    temperature: float, draw: str, lucky: bool, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every token, node, verdict and draft pass of four runs for either proposer: what is drafted ahead, as far as the
    target's time allows or as far as can be, is what the next round would have drafted. Catches: a guess collected
    although it was wrong, numbers of another round, rows of the draft that are not the text's, levels drafted ahead
    that the length policy would not have grown."""
    if not lucky:
        monkeypatch.setattr(Ahead, "begin", to_the_end)
    target = wavering(6, seed=1, sharpness=2.5)
    models = scripted(target, mixture(target, wavering(6, seed=2), 0.3))
    collected = 0
    for proposer in ABLE:
        options = {"draw": draw} if proposer == "branching" else {}
        for seed in range(4):
            settings = overlapping(
                proposer, temperature=temperature, seed=seed, options=options, length_policy=policy
            )
            ahead, plain = (sd.decode(models, PROMPT, settings.but(overlap=on)) for on in (True, False))
            assert ahead.token_ids == plain.token_ids
            for one, other in zip(ahead.rounds, plain.rounds, strict=True):
                size = len(other.nodes.token)
                assert one.nodes.token[:size] == other.nodes.token
                assert one.nodes.verdict[:size] == other.nodes.verdict
                assert set(one.nodes.verdict[size:]) <= {"discarded"}
                assert one.nodes.q is not None and one.nodes.q[:size] == other.nodes.q
                assert one.draft_passes <= other.draft_passes
            assert ahead.audit() == plain.audit() == []
            assert won(plain) == plain.stats.discarded == 0
            collected += won(ahead)
    assert collected > 5 or lucky


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.5])
@pytest.mark.parametrize("proposer", ABLE)
@pytest.mark.parametrize("architecture", ["llama", "gpt2"])
def test_a_real_models_text_is_the_same_with_overlap_and_without(
    architecture: str, proposer: str, temperature: float, device: str
) -> None:
    """At temperature 0 it is also transformers' own. A chain's passes are the same passes in the same order, so it is
    the same to the last bit; a tree that was grown ahead stood elsewhere in the memory, so its q may differ in
    rounding, which changes a draw once in a million. Catches: rows gathered wrongly when a guess is right or wrong."""
    models = pair(architecture, device)
    for prompt in PROMPTS[:3] if temperature == 0.0 else PROMPTS[2 * ABLE.index(proposer) :][:2]:
        settings = overlapping(proposer, temperature=temperature)
        trace = sd.decode(models, prompt, settings)
        plain = sd.decode(models, prompt, settings.but(overlap=False))
        assert trace.token_ids == plain.token_ids
        assert trace.audit() == []
        if proposer == "draft-model":
            for one, other in zip(trace.rounds, plain.rounds, strict=True):
                assert one.nodes.model_q is not None and other.nodes.model_q is not None
                assert one.nodes.model_q[: len(other.nodes.token)] == other.nodes.model_q
        if temperature == 0.0:
            assert trace.token_ids == generate(module(models), prompt, 30)


def test_sampled_texts_follow_the_targets_distribution() -> None:
    """Scripted models, texts of five tokens, of either proposer and of both. Catches: a guess that makes some
    continuations likelier. False alarm 1e-4."""
    models = scripted(TARGET, DRAFT)
    chain = overlapping(draft_length=2, temperature=1.0, max_new_tokens=5, record="off")
    tree = chain.but(proposer="branching", options={"width": 2, "depth": 2, "nodes": 4})
    expected = exact_distribution(TARGET, PROMPT, 5, Warp(1.0))
    written = samples(models, PROMPT, {("chain",): chain, ("tree",): tree}, COUNT)
    found = chances(written, expected, after(PROMPT, DRAFT))
    assert min(found.values()) > 1e-4, found


def test_what_was_drafted_on_a_wrong_guess_is_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Round by round against transformers' `generate` with the draft: the discarded tokens are its greedy text after
    the whole chain, the guess first, below the chain's last node. Catches: a guess from the wrong place, dropped tokens
    that hang elsewhere, a guess that came true and still counted as discarded."""
    monkeypatch.setattr(Ahead, "begin", to_the_end)
    models = pair("llama")
    assert isinstance(models.draft, HubModel)
    trace = sd.decode(models, PROMPTS[0], overlapping(draft_length=3))
    text, lost = list(PROMPTS[0]), 0
    for row, following in zip(trace.rounds, [*trace.rounds[1:], None], strict=True):
        nodes = row.nodes
        size = sum(verdict != "discarded" for verdict in nodes.verdict)
        assert nodes.parent == list(range(-1, len(nodes.token) - 1))
        discarded = nodes.token[size:]
        if discarded:
            expected = generate(models.draft.model, [*text, *nodes.token[:size]], len(discarded))
            assert discarded == expected
            assert nodes.model_q is not None and None not in nodes.model_q[size:]
            assert [*nodes.token[:size], discarded[0]] != row.committed.token
            lost += 1
        if following is not None and "ahead" in following.note:
            assert not discarded
            assert len(row.committed.token) == size + 1
        text += row.committed.token
    assert lost > 0
    assert trace.stats.discarded == sum(row.nodes.verdict.count("discarded") for row in trace.rounds)


class Clock:
    """A slow target and a draft that write down when they ran and on which thread.

    A pass of the target takes some seconds, and up to `patience` more, until the draft has made a step beside it; once
    it has made `enough`, the target waits no longer.
    """

    def __init__(self, seconds: float = 0.01, patience: float = 0.0, enough: int = 2) -> None:
        self.seconds, self.patience, self.enough = seconds, patience, enough
        self.verified: list[tuple[float, float]] = []
        self.drafted: list[tuple[float, str]] = []
        self.failing = False
        self.text = wavering(5, seed=4, sharpness=3.0)

    def target(self, text: tuple[int, ...]) -> Sequence[float]:
        began, steps = time.perf_counter(), len(self.drafted)
        time.sleep(self.seconds)  # lets other threads run, as a pass does
        patience = self.patience if self.patience and len(self.beside()) < self.enough else 0.0
        while len(self.drafted) == steps and time.perf_counter() - began < patience:
            time.sleep(0.001)
        self.verified.append((began, time.perf_counter()))
        return self.text(text)

    def draft(self, text: tuple[int, ...]) -> Sequence[float]:
        name = threading.current_thread().name
        if self.failing and name.startswith("specdec-ahead"):
            raise RuntimeError("the draft broke")
        self.drafted.append((time.perf_counter(), name))
        return self.text(text)

    def beside(self) -> list[str]:
        """The threads of the draft's steps that fell into a pass of the target."""
        return [
            name for when, name in self.drafted if any(began < when < ended for began, ended in self.verified)
        ]


@pytest.mark.parametrize("proposer", ABLE)
def test_the_draft_works_while_the_target_does(proposer: str) -> None:
    """By the time stamps of both, and by the record. Catches: an overlap that is none, and time beside the target that
    is counted although the pass had ended."""
    clock = Clock(patience=0.3)
    trace = sd.decode(scripted(clock.target, clock.draft), PROMPT, overlapping(proposer, max_new_tokens=12))
    assert len(clock.beside()) >= clock.enough
    assert all(name.startswith("specdec-ahead") for name in clock.beside())
    assert all(0.0 <= row.ahead_s <= row.verify_s for row in trace.rounds)
    assert any(row.ahead_s > 0.0 for row in trace.rounds)
    assert won(trace) > 0
    alone = Clock()
    plain = overlapping(proposer, max_new_tokens=12, overlap=False)
    trace = sd.decode(scripted(alone.target, alone.draft), PROMPT, plain)
    assert alone.beside() == []
    assert {row.ahead_s for row in trace.rounds} == {0.0}


@pytest.mark.parametrize("proposer", ABLE)
@pytest.mark.parametrize("ending", ["close", "cancel", "finish", "fail", "never started"])
def test_no_thread_outlives_its_lane(proposer: str, ending: str) -> None:
    """However a lane ends, its thread has ended with it, and between two rounds the draft stands still: a lane whose
    clock stands must not compute. Catches: a worker that goes on with the draft's memory after the lane is gone."""
    clock = Clock(0.003)
    models, steps = scripted(clock.target, clock.draft), 0
    events: Any = sd.stream(
        models,
        PROMPT,
        overlapping(proposer, max_new_tokens=60),
        cancelled=lambda: ending == "cancel" and steps == 3,
    )
    if ending != "never started":
        for event in events:
            steps += isinstance(event, sd.Step)
            if isinstance(event, sd.Step) and steps == 3:
                assert len(drafting()) == 1
                before = len(clock.drafted)
                time.sleep(0.02)
                assert len(clock.drafted) == before
                if ending == "close":
                    break
                if ending == "fail":
                    clock.failing = True
                    with pytest.raises(RuntimeError, match="the draft broke"):
                        list(events)
                    break
    events.close()
    assert drafting() == []
    before = len(clock.drafted)
    time.sleep(0.02)
    assert len(clock.drafted) == before


def test_a_target_that_fails_takes_the_thread_along() -> None:
    """Catches: a worker left behind by an error between drafting and judging."""
    clock = Clock(0.001)

    def target(text: tuple[int, ...]) -> Sequence[float]:
        if len(text) > len(PROMPT) + 8:
            raise RuntimeError("the target broke")
        return clock.target(text)

    with pytest.raises(RuntimeError, match="the target broke"):
        sd.decode(scripted(target, clock.draft), PROMPT, overlapping())
    assert drafting() == []


def test_two_lanes_that_overlap_do_not_disturb_each_other() -> None:
    """A race of a chain and a tree on one draft's weights. Catches: a worker or a memory that lanes share, and one that
    computes while the other lane's clock runs."""
    clock = Clock(0.001)
    models = scripted(clock.target, clock.draft)
    lanes = [overlapping(proposer) for proposer in ABLE]
    traces = {
        event.lane: event.trace for event in sd.race(models, PROMPT, lanes) if isinstance(event, sd.Finished)
    }
    for lane, settings in enumerate(lanes):
        assert traces[lane].audit() == []
        alone = sd.decode(scripted(clock.text, clock.text), PROMPT, settings.but(overlap=False))
        assert traces[lane].token_ids == alone.token_ids
    assert drafting() == []


class Doubting(FixedLength):
    """Wants ever fewer tokens, then many again, and stops after a doubtful one."""

    name = "test-doubting"
    can_stop = True

    def length(self, context: Context) -> int:
        return (5, 1, 3, 0)[context.round % 4]

    def more(self, context: Context, drafted: int, confidence: float) -> bool:
        return confidence > 0.5

    @classmethod
    def most(cls, settings: sd.Settings) -> int:
        return 5


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_chain_drafted_too_far_ahead_is_cut(temperature: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that wants less than was drafted gets less, and the text does not change. Catches: a surplus that stays
    in the draft's memory or is missing in the record, and a policy that is not asked about what was drafted ahead."""
    monkeypatch.setattr(Ahead, "begin", to_the_end)
    monkeypatch.setitem(draft_length.LENGTH_POLICIES, Doubting.name, Doubting)
    target = wavering(6, seed=1, sharpness=3.0)
    models = scripted(target, target)
    surplus = 0
    for seed in range(6):
        settings = overlapping(
            length_policy=Doubting.name, temperature=temperature, seed=seed, max_new_tokens=60
        )
        ahead, plain = (sd.decode(models, PROMPT, settings.but(overlap=on)) for on in (True, False))
        assert ahead.token_ids == plain.token_ids
        assert ahead.audit() == []
        for one, other in zip(ahead.rounds, plain.rounds, strict=True):
            size = len(other.nodes.token)
            assert one.nodes.token[:size] == other.nodes.token
            surplus += "ahead" in one.note and "discarded" in one.nodes.verdict
    assert surplus > 0


def test_only_who_can_overlap_may_be_asked_to() -> None:
    """Catches: an overlap that is silently none."""
    models = scripted(wavering(3, seed=1), wavering(3, seed=2))
    with pytest.raises(sd.SettingsError, match="overlap works with"):
        sd.decode(models, PROMPT, overlapping("prompt-lookup"))


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("proposer", ABLE)
def test_every_pass_of_the_draft_is_counted(
    proposer: str, overlap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against a count of the reader's own calls. Catches: passes of a wrong guess, or of tokens that were given up,
    that nobody reports; passes that are reported twice."""
    calls: list[str] = []

    def counting(inner: Callable[..., Any]) -> Callable[..., Any]:
        def counted(self: ScriptedReader, *given: Any) -> Any:
            calls.append(self.model.info.name)
            return inner(self, *given)

        return counted

    for name in ("read", "step"):
        monkeypatch.setattr(ScriptedReader, name, counting(getattr(ScriptedReader, name)))
    target = wavering(6, seed=1, sharpness=2.5)
    models = scripted(target, mixture(target, wavering(6, seed=2), 0.3))
    for temperature, policy in ((0.0, "fixed"), (0.8, "fixed"), (0.8, "confidence")):
        settings = sd.Settings(
            proposer=proposer,
            overlap=overlap,
            temperature=temperature,
            length_policy=policy,
            max_new_tokens=40,
        )
        calls.clear()
        trace = sd.decode(models, PROMPT, settings)
        assert trace.stats.draft_passes == calls.count("scripted draft")
        assert trace.audit() == []
