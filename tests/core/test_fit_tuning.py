"""A draft that `specdec fit` trains further: on what the target answers, saved and loaded as it is measured."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

import specdec_core as sd
from specdec_core.models.bundle import HubModel, NarrowModel
from specdec_core.models.tokens import draft_vocabulary
from specdec_core.models.tokens.tokenizer import HubCodec
from specdec_measure.fitting import heads, tuning
from specdec_measure.fitting.bench import FitStopped
from specdec_measure.sweep.cases import Case

from .tiny import build, like, tokenizer

CASES = [
    Case("own", f"line {at}", text) for at, text in enumerate(("the cat sat", "and the dog", "on the mat"))
]
SETTINGS = sd.Settings(max_new_tokens=24)
NARROW = torch.arange(1, 270, 2)


def models(narrow: bool) -> sd.Models:
    """A target, and a draft with half its layers, over all its tokens or over some."""
    words = tokenizer()
    size = len(words)
    target = build("llama", vocab_size=size, num_hidden_layers=4)
    width = len(NARROW) + 1 if narrow else size
    draft = HubModel("draft", build("llama", seed=3, vocab_size=width, num_hidden_layers=1))
    draft.arrange(steps=True)
    whole = sd.Models(HubCodec(words), HubModel("target", target), draft)
    return replace(whole, draft=NarrowModel(draft, NARROW, size)) if narrow else whole


@pytest.mark.parametrize("narrow", [False, True])
def test_a_draft_learns_from_the_target_and_is_measured_as_saved(
    tmp_path: Path, narrow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: tokens and probabilities that are a place apart, the target's names for a draft of few tokens, a folder
    that does not load, and weights other than those that are saved."""
    monkeypatch.setattr(tuning, "PEAK_RATE", 0.01)  # in seconds instead of minutes
    family = models(narrow)
    work = tuning.Tuning(family, SETTINGS, lambda: False, lambda words: None)
    work.run(CASES, tmp_path / "draft", seconds=3.0)
    before, after = work.report["loss"]
    assert work.report["steps"] > 10 and after < 0.95 * before
    trained = tuning.load(family, tmp_path / "draft")
    kept = draft_vocabulary.of_draft(str(tmp_path / "draft"), tokenizer())
    assert kept is None if not narrow else kept is not None and torch.equal(kept, NARROW)
    mine, theirs = (_weights(one) for one in (trained, family))
    assert mine.keys() == theirs.keys() and any(not torch.equal(mine[name], theirs[name]) for name in mine)
    assert all(torch.equal(weight, weight.half().float()) for weight in mine.values())  # as in the file
    trace = sd.decode(trained, "the cat", SETTINGS)
    assert trace.text == sd.decode(family, "the cat", SETTINGS.but(proposer="none")).text


def test_the_first_loss_is_the_draft_s_own_distance_to_the_target() -> None:
    """Of a draft that is the target. Catches: a shift by one between the text, the probabilities and the logits."""
    words = tokenizer()
    target = build("llama", vocab_size=len(words))
    same = like(target, "llama", noise=0.0, vocab_size=len(words))
    family = sd.Models(HubCodec(words), HubModel("target", target), HubModel("same", same))
    work = tuning.Tuning(family, SETTINGS, lambda: False, lambda words: None)
    answers = work._answer(words.encode(CASES[0].prompt), torch.Generator().manual_seed(0), float("inf"))
    loss = float(tuning._Own.of(family).loss(same, answers, torch.arange(tuning.ROWS)).detach())
    entropy = -(answers.chances * answers.chances.log())[answers.judged].sum(-1).mean()
    assert loss == pytest.approx(float(entropy), abs=1e-4)


def test_ctrl_c_and_too_little_time_save_nothing_and_a_large_draft_is_left_alone(tmp_path: Path) -> None:
    """Catches: half a draft that the next session takes for a whole one, and one that hardly learnt anything."""
    family = models(narrow=False)
    with pytest.raises(FitStopped):
        tuning.Tuning(family, SETTINGS, lambda: True, lambda words: None).run(CASES, tmp_path / "draft", 4.0)
    assert not list(tmp_path.iterdir()) and tuning.why_not(family) is None
    slow = tuning.Tuning(family, SETTINGS, lambda: False, lambda words: None)
    slow.run(CASES, tmp_path / "draft", seconds=0.0)  # one token of an answer, and one step
    assert "trained for 1 step, too few" in slow.report["why_not"] and not list(tmp_path.iterdir())
    twin = replace(family, draft=family.target)
    assert "more than half of the target's parameters" in (tuning.why_not(twin) or "")


@pytest.mark.slow
def test_heads_are_trained_by_the_real_trainer_and_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own. Catches: an option that the trainer no longer has, a folder that does not load."""
    monkeypatch.setattr(heads, "WRITING", 0.02)  # four seconds: enough text on a busy machine too
    monkeypatch.setattr(heads, "STARTING_S", 1e9)  # so the training itself takes a second
    family = replace(sd.load_models(device="cpu", dtype="float32"), heads={})
    assert heads.why_not(family) is None
    work = tuning.Tuning(family, SETTINGS, lambda: False, lambda words: None)
    report = heads.train(work, CASES, "bundled", tmp_path, 200.0)
    assert "why_not" not in report and report["tokens"] > 100, report
    trained = replace(family, heads=heads.load(family, tmp_path / heads.NAME))
    assert heads.why_not(trained) == "Medusa heads were loaded."
    trace = sd.decode(trained, "the cat", SETTINGS.but(proposer="medusa"))
    assert trace.text == sd.decode(trained, "the cat", SETTINGS.but(proposer="none")).text


def test_a_trainer_that_fails_or_is_stopped_leaves_the_fit_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: a failure that ends the fit, a trainer that goes on after Ctrl+C, text that is not what the target read
    and wrote."""
    code = "raise SystemExit('there is no room')"
    monkeypatch.setattr(
        heads, "_start",
        lambda command, folder, log: subprocess.Popen([sys.executable, "-S", "-c", code], stdout=log, stderr=log),
    )  # fmt: skip
    family, stop = models(narrow=False), False
    work = tuning.Tuning(family, SETTINGS, lambda: stop, lambda words: None)
    monkeypatch.setattr(heads, "WRITING", 0.02)
    failed = heads.train(work, CASES, "some", tmp_path, 60.0)
    assert failed == {"why_not": "Training heads failed: there is no room (see training.log)."}
    first = (tmp_path / heads.TEXT).read_text().split("\n\n")[0]
    greedy = sd.decode(family, CASES[0].prompt, SETTINGS.but(proposer="none"))
    words = tokenizer()
    whole = words.decode(words.encode(CASES[0].prompt) + greedy.token_ids)
    assert len(first) > len(CASES[0].prompt) and whole.startswith(first)
    code, stop = "import time; time.sleep(60)", True
    # As the trainer does: a background job of a shell, and all it starts, would ignore it.
    reacts = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen([sys.executable, "-S", "-c", code], preexec_fn=reacts)
    with pytest.raises(FitStopped):
        heads._watch(process, work, time.monotonic() + 60.0)
    assert process.returncode != 0


def _weights(family: sd.Models) -> dict[str, torch.Tensor]:
    draft = family.draft.model if isinstance(family.draft, NarrowModel) else family.draft
    assert isinstance(draft, HubModel)
    return dict(draft.model.state_dict())
