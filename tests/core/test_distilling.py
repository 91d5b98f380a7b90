"""Training a draft while it is watched: what is counted, what is held back, and that it learns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load

import specdec_core as sd
from specdec_core.foundations.errors import ModelError
from specdec_lessons import distilling
from specdec_lessons.distilled import HELD_BACK, Distilled, Report, Standing, interval, scored
from specdec_lessons.distilling import LiveTraining, shares
from specdec_measure.sweep.cases import shipped

TOKENS = 16  # of each answer held back
STEPS = 36


@pytest.fixture(scope="module")
def models() -> sd.Models:
    return sd.load_models()


@pytest.fixture(scope="module")
def reports(models: sd.Models) -> Iterator[list[Report]]:
    """All reports of a training of a few seconds."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(distilling, "TOKENS", TOKENS)
        patched.setattr(distilling, "LENGTH", 32)
        patched.setattr(distilling, "WRITING", 0.0)  # one batch
        training = LiveTraining(models, "story", 1e-9, lambda: False)
        patched.setattr(LiveTraining, "_train", _steps)
        yield list(training.run())


_train = LiveTraining._train


def _steps(self: LiveTraining, draft: torch.nn.Module) -> Iterator[Standing]:
    """STEPS steps, however slow the machine is."""
    self.budget_s = 1e9
    for standing in _train(self, draft):  # type: ignore[arg-type]
        yield standing
        if self._steps >= STEPS:
            return


def test_rounds_are_counted_as_by_hand() -> None:
    """Catches: a round that keeps guesses after a wrong one, or lacks its bonus token. γ = 4; ✓✗ ✓✓✓✓★ ✗ ✓: four
    passes for nine tokens, six of eight judged guesses accepted."""
    agrees = [True, False, True, True, True, True, False, False, True]
    score = scored([agrees])
    assert score.tokens_per_pass == 9 / 4
    assert score.acceptance == 6 / 8


def test_the_count_is_what_the_decoder_does(models: sd.Models) -> None:
    """Catches: tokens per pass on screen that no decode has."""
    training = LiveTraining(models, "story", 1.0, lambda: False)
    settings = sd.Settings(max_new_tokens=24, draft_length=4, record="tokens")
    decoded = []
    for case in shipped(["story"], 3):
        trace = sd.decode(models, case.prompt, settings)
        training._answers.append((trace.header.prompt_ids, trace.token_ids))
        decoded.append(trace.stats.tokens_per_pass)
    assert models.draft is not None
    counted = training.score(models.draft.model)  # type: ignore[attr-defined]
    assert counted.tokens_per_pass == pytest.approx(sum(map(float, decoded)) / 3)  # type: ignore[arg-type]


def test_the_interval_is_student_s() -> None:
    """Catches: an interval for another number of prompts. 1 to 10: mean 5.5, deviation 3.0277."""
    middle, low, high = interval(list(range(1, 11)))
    assert (
        middle == 5.5 and high - middle == pytest.approx(2.262 * 3.0277 / 10**0.5, rel=1e-3) == middle - low
    )
    with pytest.raises(ValueError, match="for 10 values, got 9"):
        interval([1.0] * 9)


def test_a_draft_learns_from_nothing_and_wins_against_itself(reports: list[Report]) -> None:
    """Catches: a training that does not train, or whose result is not the draft that raced."""
    *standings, last = reports
    assert isinstance(last, Distilled) and len(last.heats) == HELD_BACK
    phases = list(dict.fromkeys(report.phase for report in standings if isinstance(report, Standing)))
    assert phases == ["reading", "writing", "training", "racing"]
    known = [report.score for report in standings if isinstance(report, Standing) and report.score]
    assert known[0].tokens_per_pass < 1.1 and last.gain[1] > 0.05, last.gain
    assert last.shipped is not None and last.shipped.tokens_per_pass > known[-1].tokens_per_pass
    raced = sum(heat.after for heat in last.heats) / HELD_BACK
    assert raced == pytest.approx(known[-1].tokens_per_pass, rel=1e-3)
    seconds = [report.seconds for report in standings if isinstance(report, Standing)]
    assert seconds == sorted(seconds)
    plain, before, after = (
        sum(getattr(heat, name) for heat in last.heats) for name in ("plain_s", "before_s", "after_s")
    )
    assert last.speedup("before") == pytest.approx(plain / before)
    assert last.speedup("after") == pytest.approx(plain / after)


def test_the_downloaded_draft_loads_beside_the_target(reports: list[Report], tmp_path: Path) -> None:
    """Catches: a file that misses a weight, or holds another draft than the one that raced."""
    last = reports[-1]
    assert isinstance(last, Distilled)
    bundled = Path("assets/models/specdec-draft")
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (tmp_path / name).write_bytes((bundled / name).read_bytes())
    (tmp_path / "model.safetensors").write_bytes(last.weights)
    assert set(load(last.weights)) == set(load((bundled / "model.safetensors").read_bytes()))
    again = sd.load_models(draft=tmp_path)
    case = shipped(["story"], 1)[0]
    trace = sd.decode(again, case.prompt, sd.Settings(max_new_tokens=TOKENS, draft_length=4))
    assert trace.stats.tokens_per_pass == pytest.approx(
        last.heats[0].after, abs=0.3
    )  # float16 may turn a close guess


def test_nothing_held_back_is_trained_on(models: sd.Models) -> None:
    """Catches: a row that repeats an answer of the race, or a prompt of the race among the openings."""
    answer = list(range(100, 140))
    assert shares([1, 2, *answer[5:21], 3], [([], answer)])
    assert not shares([1, 2, *answer[5:20], 3, *answer[:15]], [([], answer)])
    for kind, openings in distilling.OPENINGS.items():
        prompts = [case.prompt for case in shipped([kind], HELD_BACK)]
        assert len(prompts) == HELD_BACK
        assert all(len(opening) < 20 for opening in openings) and not {*prompts} & {*openings}


def test_a_cancelled_training_ends_without_a_result(models: sd.Models) -> None:
    """Catches: a training that goes on for its minute after its visitor pressed Stop."""
    stop: list[bool] = []
    reports = LiveTraining(models, "code", 60.0, lambda: bool(stop)).run()
    assert isinstance(next(reports), Standing)
    stop.append(True)
    assert list(reports) == []


def test_what_cannot_be_trained_is_refused_in_a_sentence(models: sd.Models) -> None:
    with pytest.raises(ModelError, match="'poem' is not written here; take story or code"):
        LiveTraining(models, "poem", 1.0, lambda: False)
    with pytest.raises(ModelError, match="a draft model of its own"):
        LiveTraining(replace(models, draft=None), "story", 1.0, lambda: False)
