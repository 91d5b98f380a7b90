"""Do trained heads learn, are they measured rightly, does a run continue, and does what is exported decode?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import specdec_core as sd
from specdec_core.models.bundle import HubModel
from specdec_core.models.heads import Target, eagle, medusa
from specdec_measure.optimisation import Rates
from specdec_measure.testing import Letters
from tests.core.tiny import build, tokenizer
from tests.training.tiny import tiny_folder
from training.checkpoints import load_weights, require_checkpoint
from training.cli import app
from training.data.tokenizer import load_tokenizer, save_tokenizer
from training.heads.medusa_eagle import (
    Frozen,
    accuracy,
    eagle_loss,
    export,
    medusa_loss,
    new_eagle,
    new_medusa,
    train,
)
from training.heads.rows import rows_for
from training.loop import Plan
from training.own_text import OwnText

VOCABULARY = 40
TEXT = torch.arange(6000) * 7 % 11 * 3  # eleven tokens in turn: learnable, and far from the target's own text
PLAN = Plan(tokens=60 * 4 * 16, context=16, batch=4, warmup_steps=5, decay_share=0.5, rates=Rates(0.02, 0.01))


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Tiny tensors gain nothing from threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def target() -> Frozen:
    """A random target that is sure of what it says, so that there is something to learn."""
    model = build("llama", vocab_size=VOCABULARY).requires_grad_(False)
    model.lm_head.weight.mul_(8.0)
    return Frozen(model, "tiny", bfloat16=False)


def _rows() -> OwnText:
    return OwnText(TEXT, PLAN.context, PLAN.batch, seed=0)


@pytest.mark.parametrize(("shared", "soft"), [(True, True), (False, True), (False, False)])
def test_medusa_heads_learn(shared: bool, soft: bool, target: Frozen, tmp_path: Path) -> None:
    """Loss falls for every head, and guesses are right far more often than by chance (1 in 40). Catches: labels one
    place off (a text in turn would still be learnt, the measured accuracies would not), heads that are not trained."""
    heads, rows = new_medusa(target, 3, 1, shared), _rows()
    loss = medusa_loss(heads, target, soft)
    before = loss(rows.heldout).detach()
    untrained = accuracy(heads, target, rows.heldout)
    state = train(tmp_path / "run", heads, target, rows, rows.heldout, PLAN, soft)
    assert state["step"] == 60
    assert (loss(rows.heldout).detach() < 0.8 * before).all()
    if soft:  # accuracy is agreement with the target, whose own text is another than the one trained on
        for was, found in zip(untrained, heads.accuracy or [], strict=True):
            assert found[0] > 0.35 and found[0] > was[0]
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert len(log[0]["parts"]) == 3, "the log has the loss of each head"


def test_an_eagle_head_learns(target: Frozen, tmp_path: Path) -> None:
    """Both parts of the loss fall, and the token after the guessed state is the target's. Catches: states paired with
    the wrong token or compared one place off."""
    head, rows = new_eagle(target, seed=0), _rows()
    loss = eagle_loss(head, target)
    before = loss(rows.heldout).detach()
    train(tmp_path / "run", head, target, rows, rows.heldout, PLAN)
    assert (loss(rows.heldout).detach() < 0.7 * before).all()
    assert head.accuracy is not None and head.accuracy[0] > 0.5


@torch.no_grad()
def test_accuracies_equal_a_count_by_hand(target: Frozen) -> None:
    """One place after the other on random text. Catches: a rank or a head off by one."""
    heads, head = new_medusa(target, 2, 1, shared=True), new_eagle(target, seed=1)
    for weight in [*heads.parameters(), *head.parameters()]:
        weight.normal_(0.0, 0.2, generator=torch.Generator().manual_seed(1))
    ids = torch.randint(0, VOCABULARY, (2, 17), generator=torch.Generator().manual_seed(2))
    states, logits = target.read(ids)
    for number, shares in enumerate(accuracy(heads, target, ids, batch=1)):
        hits, places = [0] * 10, 0
        for row in range(2):
            for place in range(17 - 1 - number):
                guess = target.output(heads[number](states[row, place])).topk(10).indices.tolist()
                right = int(logits[row, place + 1 + number].argmax())
                hits = [hit + (token == right) for hit, token in zip(hits, guess, strict=True)]
                places += 1
        assert shares == pytest.approx([hit / places for hit in hits], abs=1e-4)
    assert sum(accuracy(head, target, ids)[0]) <= 1.0


@pytest.mark.parametrize("kind", ["medusa", "eagle"])
def test_six_steps_equal_three_and_three(kind: str, target: Frozen, tmp_path: Path) -> None:
    """Catches: an order of rows, an optimiser state or a schedule that begins anew."""
    plan = replace(PLAN, tokens=6 * 4 * 16)

    def run(name: str, plan: Plan) -> dict[str, torch.Tensor]:
        rows = _rows()
        if kind == "medusa":
            train(tmp_path / name, new_medusa(target, 2, 1, True), target, rows, rows.heldout, plan, True)
        else:
            train(tmp_path / name, new_eagle(target, 0), target, rows, rows.heldout, plan)
        return load_weights(require_checkpoint(tmp_path / name))

    whole = run("whole", plan)
    half = run("parts", replace(plan, stop_after_steps=3))
    parts = run("parts", plan)
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    assert not all(torch.equal(whole[name], half[name]) for name in whole)


def test_a_run_of_other_heads_is_not_continued(target: Frozen, tmp_path: Path) -> None:
    """Catches: a checkpoint loaded into heads that were asked for differently."""
    rows, plan = _rows(), replace(PLAN, tokens=64)
    train(tmp_path / "run", new_medusa(target, 2, 1, True), target, rows, rows.heldout, plan, True)
    with pytest.raises(ValueError, match="made with heads 2, not 3: choose another --name"):
        train(tmp_path / "run", new_medusa(target, 3, 1, True), target, rows, rows.heldout, plan, True)


def test_exported_heads_are_read_and_decode(target: Frozen, tmp_path: Path) -> None:
    """Catches: a layout that only its writer understands."""
    rows, plan = _rows(), replace(PLAN, tokens=10 * 4 * 16)
    heads, head = new_medusa(target, 3, 1, True), new_eagle(target, 0)
    export(
        tmp_path / "m",
        heads,
        target,
        train(tmp_path / "a", heads, target, rows, rows.heldout, plan, True),
    )
    export(
        tmp_path / "e",
        head,
        target,
        train(tmp_path / "b", head, target, _rows(), rows.heldout, plan),
    )
    read = {
        "medusa": medusa.read(str(tmp_path / "m"), Target(32, VOCABULARY, 32)),
        "eagle": eagle.read(str(tmp_path / "e"), Target(32, VOCABULARY, 32)),
    }
    assert read["medusa"].accuracy == heads.accuracy and read["eagle"].accuracy == head.accuracy
    assert json.loads((tmp_path / "m" / "config.json").read_text())["specdec_training"]["step"] == 10
    models = sd.Models(Letters(VOCABULARY), HubModel("tiny", target.model), heads=read)
    prompt, settings = TEXT[:20].tolist(), sd.Settings(max_new_tokens=20)
    plain = sd.decode(models, prompt, settings.but(proposer="none"))
    for name in read:
        trace = sd.decode(models, prompt, settings.but(proposer=name))
        assert trace.token_ids == plain.token_ids and trace.rounds[0].nodes.token


def test_rows_of_ones_own_text() -> None:
    """Every row once an epoch, none of the held-out ones, the same after a pause. Catches: a batch over the end of an
    epoch that repeats or loses a row."""
    ids = torch.arange(31 * 5)
    rows = OwnText(ids, context=4, batch=3, seed=5)
    assert len(rows.heldout) == 1
    seen = torch.cat([rows.next() for _ in range(20)])[:, 0].tolist()
    assert sorted(seen[:30]) == sorted(seen[30:]) == list(range(0, 150, 5)) and seen[:30] != seen[30:]
    again = OwnText(ids, context=4, batch=3, seed=5)
    for _ in range(7):
        again.next()
    later = OwnText(ids, context=4, batch=3, seed=5)
    later.restore(again.state())
    assert torch.equal(later.next(), again.next())
    with pytest.raises(ValueError, match="another text"):
        OwnText(ids[:100], context=4, batch=3, seed=5).restore(again.state())
    with pytest.raises(ValueError, match="at least 66 are needed"):
        OwnText(ids[:60], context=32, batch=3, seed=5)


@pytest.mark.parametrize("kind", ["medusa", "eagle"])
def test_the_command_line_trains_on_a_users_model_and_text(kind: str, tmp_path: Path) -> None:
    """A folder and a text file in, heads out that load with the folder. Catches: options that do not reach the run."""
    folder, text = tmp_path / "target", tmp_path / "text.txt"
    build("llama", vocab_size=len(tokenizer())).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    text.write_text("the cat sat on the mat and the dog sat too. " * 60)
    words = f"{kind} --model {folder} --text {text} --runs {tmp_path} --tokens 256 --batch 2 --context 16 --device cpu"
    result = CliRunner().invoke(app, [*words.split(), "--out", str(tmp_path / "heads")])
    assert result.exit_code == 0, result.output
    assert "8 steps, 256 tokens" in result.output and "right first" in result.output
    models = sd.load_models(folder, **{kind: tmp_path / "heads"}, device="cpu")
    assert sd.decode(models, "the cat", sd.Settings(proposer=kind, max_new_tokens=8)).rounds[0].nodes.token
    refused = CliRunner().invoke(app, f"{kind} --model {folder} --runs {tmp_path} --tokens 9".split())
    assert isinstance(refused.exception, ValueError) and "give --text" in str(refused.exception)


@pytest.mark.parametrize("kind", ["medusa", "eagle"])
def test_the_shipped_heads_guess_for_the_shipped_target(kind: str) -> None:
    """More than one and a half tokens per pass on code and on a story, the text as without heads. Catches: heads left
    behind by a target that was trained further; they would still be exact, and useless."""
    models = sd.load_models(device="cpu")
    prompts = ["class Counter:\n    def __init__(self):\n", "Once upon a time there was a little girl named"]
    for prompt in prompts:
        settings = sd.Settings(proposer=kind, max_new_tokens=48, record="off")
        trace = sd.decode(models, prompt, settings)
        assert trace.token_ids == sd.decode(models, prompt, settings.but(proposer="none")).token_ids
        assert (trace.stats.tokens_per_pass or 0.0) > 1.5


def test_data_in_other_tokens_than_the_targets_is_refused(tmp_path: Path) -> None:
    """Catches: an hour of training on data that a tokenizer of one's own has cut: to the target, noise."""
    data, plan = tiny_folder(tmp_path), Plan(tokens=64, context=16, batch=2)
    with pytest.raises(ValueError, match="not in the tokens of this target"):
        rows_for("bundled", None, data, plan)
    save_tokenizer(load_tokenizer(tmp_path / "tokenizer"), data)
    with pytest.raises(ValueError, match="not in the tokens of this target"):
        rows_for("bundled", None, data, plan)
    save_tokenizer(load_tokenizer(Path("assets/models/specdec-target")), data)
    assert rows_for("bundled", None, data, plan)[1].shape[1] == plan.context + 1
