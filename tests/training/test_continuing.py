"""EAGLE-3 heads and MTP modules: do they learn, and is what is rehearsed what they do when they draft?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import typer
from safetensors.torch import load_file
from torch import Tensor
from typer.testing import CliRunner

import specdec_core as sd
from specdec_core.models.heads import eagle3 as layout
from specdec_core.runtime.kv import KVMemory
from specdec_measure.optimisation import Rates
from tests.core.tiny import build, tokenizer
from training.checkpoints import load_weights, require_checkpoint
from training.cli import app
from training.heads import eagle3, mtp
from training.heads.cli import layers_of
from training.heads.frozen import Frozen
from training.heads.medusa_eagle import eagle_loss, eagle_pairs, new_eagle
from training.loop import Plan
from training.own_text import OwnText

VOCABULARY = 40
TEXT = torch.arange(6000) * 7 % 11 * 3  # eleven tokens in turn: learnable, and far from the target's own text
PLAN = Plan(
    tokens=40 * 4 * 16, context=16, batch=4, warmup_steps=5, decay_share=0.5, rates=Rates(0.02, 0.005)
)
IDS = torch.arange(0, VOCABULARY, 2)


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Tiny tensors gain nothing from threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def target() -> Frozen:
    """A random target of six layers that is sure of what it says, so that there is something to learn."""
    model = build("llama", vocab_size=VOCABULARY, num_hidden_layers=6).requires_grad_(False)
    model.lm_head.weight.mul_(8.0)
    return Frozen(model, "tiny", bfloat16=False)


def _rows() -> OwnText:
    return OwnText(TEXT, PLAN.context, PLAN.batch, seed=0)


@torch.no_grad()
def test_what_is_rehearsed_is_what_the_head_does_when_it_drafts(target: Frozen) -> None:
    """Each step at some places against the head's own forward with a memory: true rows up to the place, then its own
    outputs one by one. Catches: a row that sees true states it would not have, a position or a token one place off."""
    ids = torch.randint(0, VOCABULARY, (1, 14), generator=torch.Generator().manual_seed(3))
    head = eagle3.new_head(target, IDS, _rows().next(), seed=1)
    found = eagle3.rehearsed(head, target, ids, 4)
    joined, states, logits = target.read_layers(ids, head.layers_read)
    true = head.enter(joined[:, :-1])

    def row(memory: KVMemory, tokens: Tensor, states: Tensor) -> Tensor:
        places = torch.arange(memory.length, memory.length + len(tokens))[None]
        visible = torch.ones(len(tokens), memory.length + len(tokens)).tril(memory.length).bool()
        mask = torch.zeros(visible.shape).masked_fill(~visible, -torch.inf)[None, None]
        made: Tensor = head(tokens[None], states, places, mask, target.embedding, memory)
        memory.extend(len(tokens))
        return made

    for begun in (0, 3, 9):
        memory = KVMemory(1, 20)
        state = row(memory, ids[0, 1 : begun + 2], true[:, : begun + 1])[:, -1:]
        for step, ((own, true_state), (guess, said)) in enumerate(found):
            near = {"atol": 1e-4, "rtol": 1e-4}
            torch.testing.assert_close(guess[0, begun], head.guess(state[0, 0], head.lm_head), **near)
            torch.testing.assert_close(own[0, begun], head.norm(state[0, 0]), **near)
            assert torch.equal(true_state[0, begun], states[0, begun + 1 + step])
            assert torch.equal(said[0, begun], logits[0, begun + 1 + step])
            if step < 3:
                state = row(memory, ids[0, begun + 2 + step : begun + 3 + step], state)


def test_an_eagle3_head_learns_and_continues(target: Frozen, tmp_path: Path) -> None:
    """The loss of every step falls, and four steps in two parts are four in one. Catches: steps that are not trained,
    places drawn anew after a pause, a first fit that replaces what was learnt."""
    rows, head = _rows(), eagle3.new_head(target, IDS, _rows().next(), seed=0)
    loss = eagle3.loss(head, target, 3, 1.0)
    before = loss(rows.heldout).detach()
    state = eagle3.train(tmp_path / "run", head, target, rows, rows.heldout, PLAN, 3, 0.5)
    assert (
        loss(rows.heldout).detach()[:3] < 0.8 * before[:3]
    ).all()  # the other three are distances of states
    assert head.accuracy == state["shares"][0] and len(state["shares"]) == 3

    def run(name: str, plan: Plan) -> dict[str, Tensor]:
        own, fresh = _rows(), eagle3.new_head(target, IDS, _rows().next(), seed=0)
        eagle3.train(tmp_path / name, fresh, target, own, own.heldout, plan, 2, 0.5)
        return load_weights(require_checkpoint(tmp_path / name))

    plan = replace(PLAN, tokens=4 * 4 * 16)
    whole = run("whole", plan)
    run("parts", replace(plan, stop_after_steps=2))
    parts = run("parts", plan)
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    other = eagle3.new_head(
        target, IDS, _rows().next(), seed=0, layers=(1, 2, 3)
    )  # as wide, so its weights would fit
    with pytest.raises(ValueError, match=r"made with layers \[2, 3, 3\], not \[1, 2, 3\]"):
        eagle3.train(tmp_path / "whole", other, target, _rows(), _rows().heldout, plan, 2, 0.5)


def test_a_colder_loss_counts_the_likely_tokens_more(target: Frozen) -> None:
    """Both distributions are at the temperature, of both kinds of heads. Catches: a temperature on one side only, which
    would make a head that copies the target's logits learn others."""
    rows, head = _rows(), eagle3.new_head(target, None, _rows().next(), seed=0)
    ids, older = rows.next(), new_eagle(target, seed=0)

    def wanted(guess: Tensor, said: Tensor, temperature: float) -> Tensor:
        label = torch.softmax(said.float() / temperature, -1)
        return -(label * torch.log_softmax(guess.float() / temperature, -1)).sum(-1).mean()

    for temperature in (1.0, 0.5):
        with torch.no_grad():
            (_, pair), *_ = eagle3.rehearsed(head, target, ids[:, :-1], 2)
            _, older_pair = eagle_pairs(older, target, ids[:, :-1])
        found = eagle3.loss(head, target, 2, 1.0, temperature)(ids)[0]
        assert torch.allclose(found, wanted(*pair, temperature), rtol=2e-2)
        assert torch.allclose(
            eagle_loss(older, target, temperature)(ids)[1], wanted(*older_pair, temperature), rtol=2e-2
        )


def test_modules_learn(target: Frozen, tmp_path: Path) -> None:
    """The loss of every module falls. Catches: a module whose label is another token's, one that is not trained."""
    rows, made = _rows(), mtp.new_modules(target, 3, _rows().next(), seed=0)
    loss = mtp.loss(made, target)
    before = loss(rows.heldout).detach()
    state = mtp.train(tmp_path / "run", made, target, rows, rows.heldout, PLAN)
    assert (
        loss(rows.heldout).detach()[:3] < 0.8 * before[:3]
    ).all()  # the other three are distances of states
    assert made.accuracy == state["shares"][0] and len(state["shares"]) == 3


@pytest.mark.parametrize("kind", ["eagle3", "mtp"])
def test_the_command_line_trains_on_a_users_model_and_text(kind: str, tmp_path: Path) -> None:
    """A folder and a text file in, a head out that loads with the folder. Catches: options that do not reach the run, a
    layout that only its writer understands."""
    folder, text = tmp_path / "target", tmp_path / "text.txt"
    build("llama", vocab_size=len(tokenizer()), num_hidden_layers=6).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    text.write_text("the cat sat on the mat and the dog sat too. " * 60)
    words = f"{kind} --model {folder} --text {text} --runs {tmp_path} --tokens 128 --batch 2 --context 16 --device cpu"
    more = ["--vocabulary", "100"] if kind == "eagle3" else ["--modules", "2"]
    result = CliRunner().invoke(app, [*words.split(), *more, "--out", str(tmp_path / "head")])
    assert result.exit_code == 0, result.output
    assert "4 steps, 128 tokens" in result.output and "right first" in result.output
    models = sd.load_models(folder, **{kind: tmp_path / "head"}, device="cpu")
    trace = sd.decode(models, "the cat", sd.Settings(proposer=kind, max_new_tokens=8))
    assert trace.rounds[0].nodes.token and trace.audit() == []


@pytest.mark.parametrize("kind", ["eagle", "eagle3"])
def test_a_trained_head_is_trained_further(kind: str, tmp_path: Path) -> None:
    """Catches: a run that begins anew instead of with the given head, and a card that forgets what it had learnt
    before."""
    folder, text = tmp_path / "target", tmp_path / "text.txt"
    build("llama", vocab_size=len(tokenizer()), num_hidden_layers=6).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    text.write_text("the cat sat on the mat and the dog sat too. " * 60)
    words = f"{kind} --model {folder} --text {text} --runs {tmp_path} --batch 2 --context 16 --device cpu"

    def train(out: str, *more: str) -> dict[str, Tensor]:
        given = [*words.split(), *more, "--name", out, "--out", str(tmp_path / out)]
        result = CliRunner().invoke(app, given)
        assert result.exit_code == 0, result.output
        return load_file(next((tmp_path / out).glob("*.safetensors")))

    first = train("first", "--tokens", "256", "--seed", "5")
    name = next(key for key in first if "down_proj" in key)
    further = train("further", "--tokens", "64", "--start", str(tmp_path / "first"))
    again = train("again", "--tokens", "64", "--start", str(tmp_path / "further"))

    def apart(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
        return float((one[name].float() - other[name].float()).abs().mean())

    fresh = train("fresh", "--tokens", "64")
    assert 0 < apart(first, further) < apart(fresh, further) and apart(further, again) > 0
    assert "64 tokens" in (card := (tmp_path / "again" / "README.md").read_text())
    assert "after 320 tokens in an earlier run" in card


@torch.no_grad()
def test_a_head_trained_further_can_learn_the_tokens_it_could_not_guess(
    target: Frozen, tmp_path: Path
) -> None:
    """Its own rows stay; the others are the target's. Catches: rows in another order, a vocabulary that stays small."""
    narrow = eagle3.new_head(target, IDS, _rows().next(), seed=1)
    narrow.lm_head.weight.add_(torch.randn(narrow.lm_head.weight.shape))
    layout.write(tmp_path / "head", narrow, "tiny", {}, torch.float32)
    wide = eagle3.started_from(target, tmp_path / "head", whole=True)
    states = torch.randn(2, 3, narrow.lm_head.in_features)
    found = wide.guess(states, wide.lm_head)
    assert found.shape[-1] == VOCABULARY and wide.vocabulary is None
    torch.testing.assert_close(found[..., IDS], narrow.guess(states, narrow.lm_head))
    others = torch.arange(1, VOCABULARY, 2)
    torch.testing.assert_close(found[..., others], target.output(narrow.norm(states))[..., others])
    assert eagle3.started_from(target, tmp_path / "head").vocabulary is not None
    layout.write(tmp_path / "wide", wide, "tiny", {}, torch.float32)
    assert "d2t" not in load_file(tmp_path / "wide" / "model.safetensors")
    assert eagle3.started_from(target, tmp_path / "wide").lm_head.out_features == VOCABULARY


@torch.no_grad()
def test_a_trained_head_can_read_other_layers(target: Frozen, tmp_path: Path) -> None:
    """Layers that hold what the old ones did: the same states enter. Catches: columns of another layer, layers that are
    not written with the head."""
    head = eagle3.new_head(target, IDS, _rows().next(), seed=1)
    assert head.layers_read == (2, 3, 3)
    ids = torch.randint(0, VOCABULARY, (2, 9), generator=torch.Generator().manual_seed(4))
    before = head.enter(target.read_layers(ids, head.layers_read)[0])
    rows = torch.randint(0, VOCABULARY, (64, 17), generator=torch.Generator().manual_seed(5))
    eagle3.read_other_layers(head, target, (5, 3, 2), rows)
    found = head.enter(target.read_layers(ids, (5, 3, 2))[0])
    assert (found - before).norm() < 0.05 * before.norm()
    layout.write(tmp_path / "head", head, "tiny", {}, torch.float32)
    again = eagle3.started_from(target, tmp_path / "head")
    assert again.layers_read == (5, 3, 2) and torch.equal(again.fc.weight, head.fc.weight)


@pytest.mark.parametrize(
    "given", ["13", "-1", "", "2,2", "a", "2;6", "1,,2", "1.5", ",".join(map(str, range(70)))]
)
def test_layers_that_the_target_does_not_have_get_a_sentence(given: str) -> None:
    """Catches: a traceback from deep within the target, and a head that reads nothing."""
    with pytest.raises(typer.BadParameter, match=r"Give numbers from 0 to 12, such as 2,12\."):
        layers_of(given, 12)
    assert layers_of("2, 6,12", 12) == (2, 6, 12)
