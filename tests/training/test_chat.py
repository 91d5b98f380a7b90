"""A chat target's own answers and what is trained on them: written as transformers would, learnt from, decoded with."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import specdec_core as sd
from specdec_core.runtime.kv import KVMemory
from specdec_measure.optimisation import Rates
from tests.core.tiny import build, tokenizer
from training.chat import drafters as chat
from training.chat import eagle as chat_eagle
from training.chat import heads as chat_heads
from training.chat.eagle import eagle_accuracy
from training.chat.eagle3 import eagle3_accuracy
from training.chat.heads import Teacher, draft_accuracy, medusa_accuracy
from training.chat.rows import HELD_OUT_EVERY, Answers
from training.chat.waves import write
from training.data.instructions import Instruction
from training.heads.frozen import Frozen
from training.loop import Plan, steps

TEMPLATE = (
    "{% for m in messages %}<s>{{ m['role'] }} {{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>the {% endif %}"
)
TOKENS = 4000  # two waves of 90 answers
WORDS = ["the cat", "a dog sat", "mat and dog", "on the mat too", "sat", "the dog and the cat"]


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Tiny tensors gain nothing from threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def words() -> Any:
    """The tiny tokenizer with a chat template."""
    made = copy.deepcopy(tokenizer())
    made.chat_template = TEMPLATE
    return made


@pytest.fixture(scope="module")
def model(words: Any) -> Any:
    """A tiny Llama that is sure of what it says, so that there is something to learn."""
    made = build("llama", vocab_size=len(words), num_hidden_layers=4).requires_grad_(False)
    made.lm_head.weight.mul_(8.0)
    return made


def _instructions() -> Iterator[Instruction]:
    number = 0
    while True:
        yield Instruction("chat", f"{WORDS[number % len(WORDS)]} {number}")
        number += 1


@pytest.fixture(scope="module")
def folder(model: Any, words: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small parts of answers."""
    where = tmp_path_factory.mktemp("answers")
    write(
        where,
        model,
        words,
        _instructions(),
        3,
        TOKENS,
        rows=90,
        device="cpu",
        longest_prompt=60,
        longest_answer=30,
    )
    return where


def _rows(folder: Path, model: Any, words: Any, **more: Any) -> Answers:
    return Answers(folder, chat.prefix_of(model, words), 6, 0, **more)


def test_rows_hold_what_was_written(folder: Path, model: Any, words: Any) -> None:
    """Catches: padding that counts, a prompt's tokens judged, held-out conversations trained on."""
    rows = _rows(folder, model, words)
    assert len(rows.heldout) == len(rows.lengths) // HELD_OUT_EVERY
    assert not set(rows.heldout.tolist()) & set(rows.training.tolist())
    drawn = [rows.next() for _ in range(len(rows.training) // 6)]
    assert len(set(torch.cat(drawn).tolist())) == 6 * len(drawn)
    prefix = len(rows.prefix[0])
    found = rows.fetch(drawn[0])
    for row, number in enumerate(drawn[0].tolist()):
        count, prompt = int(rows.lengths[number]), int(rows.prompts[number])
        judged = found.judged[row].nonzero()[:, 0].tolist()
        assert judged == list(range(prefix + prompt - 1, prefix + count))
        assert not found.tokens[row, prefix + count :].any()
    again = _rows(folder, model, words)
    again.restore({"step": 3, "parts": 1})
    assert torch.equal(again.next(), drawn[3])
    with pytest.raises(ValueError, match="only 1 are there"):
        _rows(folder, model, words, parts=1).restore({"step": 0, "parts": 2})


def test_the_training_pass_is_the_heads_own(folder: Path, model: Any, words: Any) -> None:
    """First pass: all places at once against `EagleHead.forward`. Second, third: against the head's memory after true
    features and one guess or two, as it is used. Catches: training that shows the head rows it will not have."""
    rows = _rows(folder, model, words)
    head = chat_eagle.new_eagle_head(model, rows.vocabulary(100, [1]), rows)
    found = rows.fetch(torch.tensor([0]))
    embedding = model.get_input_embeddings()
    embedded = F.embedding(found.tokens, embedding.weight)
    count = 12
    with torch.inference_mode():
        first, keys = chat_eagle._pass(head, embedded[:, 1:], found.states[:, :-1])
        second, own_keys = chat_eagle._pass(head, embedded[:, 2:], first[:, :-1], keys)
        third, _ = chat_eagle._pass(head, embedded[:, 3:], second[:, :-1], keys, [own_keys])
        memory = KVMemory(1, 64)
        places = torch.arange(count)[None]
        causal = torch.zeros(1, 1, count, count).masked_fill(~torch.ones(count, count).tril().bool(), -1e9)
        own = head(found.tokens[:, 1 : count + 1], found.states[:, :count], places, causal, embedding, memory)
        torch.testing.assert_close(own, first[:, :count], atol=2e-3, rtol=2e-3)
        memory.extend(count)
        mask = torch.zeros(1, 1, 1, count + 1)
        token = found.tokens[:, count + 1 : count + 2]
        guess = head(token, own[:, -1:], torch.tensor([[count]]), mask, embedding, memory)
        memory.extend(1)
        token, mask = found.tokens[:, count + 2 : count + 3], torch.zeros(1, 1, 1, count + 2)
        next_guess = head(token, guess, torch.tensor([[count + 1]]), mask, embedding, memory)
    torch.testing.assert_close(guess[:, 0], second[:, count - 1], atol=2e-3, rtol=2e-3)
    torch.testing.assert_close(next_guess[:, 0], third[:, count - 1], atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("part", ["eagle", "eagle3", "medusa", "draft"])
def test_a_drafter_learns_and_decodes(
    part: str, folder: Path, model: Any, words: Any, tmp_path: Path
) -> None:
    """Loss falls, held-out guesses improve on the beginning, a stopped run goes on, and what is exported drafts for the
    target without changing its text. Catches: losses over places that the answer does not have, weights not written."""
    target = tmp_path / "target"
    model.save_pretrained(target)
    words.save_pretrained(target)
    rows = _rows(folder, model, words)
    teacher = Teacher.of(
        model, rows.vocabulary(chat.VOCABULARY if part != "draft" else 250, [1])[: len(words) - 1]
    )
    frozen = Frozen(model, "tiny", bfloat16=False)
    module = chat._new(part, frozen, teacher, rows, fresh=True)  # type: ignore[arg-type]
    objective, weights = chat._loss(part, module, frozen, teacher, rows)  # type: ignore[arg-type]
    measures: dict[str, Any] = {
        "eagle": lambda: eagle_accuracy(module, teacher, rows)["accuracy"][0],
        "eagle3": lambda: eagle3_accuracy(module, frozen, teacher, rows)[0][0],
        "medusa": lambda: medusa_accuracy(module, teacher, rows)[0][0],
        "draft": lambda: draft_accuracy(module, teacher, rows),
    }
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():  # away from the fitted beginning, which leaves little to learn on so small a target
        for weight in module.parameters():
            weight.add_(
                0.5 * weight.std() * torch.randn(weight.shape, generator=generator) if weight.ndim > 1 else 0
            )
            weight.add_(0.2 * torch.randn(weight.shape, generator=generator) if part == "medusa" else 0)
        start = measures[part]()
        before = float(sum(objective(rows.training_batch(at)).sum() for at in range(4)))
    rate = Rates(0.003, 0.003)
    for stop in (20, None):
        plan = Plan(None, 40_000, batch=6, warmup_steps=3, rates=rate, stop_after_steps=stop)
        state = steps(
            tmp_path / "run", module, objective, rows, dict, plan, {"kind": part}, None, weights,
            chat_heads.trained_by_adamw, "cpu", rows.size,
        )  # fmt: skip
        assert state["step"] == 20 if stop else state["tokens"] >= 40_000
    with torch.no_grad():
        after = float(sum(objective(rows.training_batch(at)).sum() for at in range(4)))
    assert after < 0.9 * before
    assert measures[part]() > start
    state["vocabulary"] = teacher.vocabulary.tolist()
    accuracy = {
        "eagle": {"accuracy": [0.5]},
        "eagle3": [[0.5]] * 5,
        "medusa": [[0.5, 0.1]] * 4,
        "draft": 0.5,
    }[part]
    chat.export(tmp_path / part, part, module, str(target), state, accuracy)  # type: ignore[arg-type]
    models = sd.load_models(target, **{part: tmp_path / part})
    settings = sd.Settings(proposer="draft-model" if part == "draft" else part, max_new_tokens=24)
    plain = sd.decode(models, "the cat", settings.but(proposer="none"))
    trace = sd.decode(models, "the cat", settings)
    assert trace.audit() == [] and trace.token_ids == plain.token_ids
    assert trace.stats.proposed > 0


def test_a_fitted_beginning_guesses_better_than_chance(folder: Path, model: Any, words: Any) -> None:
    """Least squares before any step. Catches: embedding and state joined the other way round."""
    rows = _rows(folder, model, words)
    teacher = Teacher.of(model, rows.vocabulary(200, [1]))
    head = chat_eagle.new_eagle_head(model, teacher.vocabulary, rows)
    fitted = eagle_accuracy(head, teacher, rows)["accuracy"][0]
    with torch.no_grad():
        head.fc.weight.copy_(head.fc.weight.roll(32, 1))
    assert fitted > 2 * eagle_accuracy(head, teacher, rows)["accuracy"][0]


def test_instructions_are_many_and_follow_the_seed(tmp_path: Path) -> None:
    """From a small corpus of every file that is read. Catches: a kind that never comes, an order that varies."""
    import json
    import lzma

    from training.data.instructions import KINDS, OWN, instructions

    def put(name: str, text: str) -> None:
        with lzma.open(tmp_path / name, "wt", encoding="utf-8") as file:
            file.write(text)

    story = "Once Tom met a bird called Pip. They sang all day, and Tom laughed. " * 3
    for name in ("stories_tinystories.txt.xz", "stories_asp_prathambooks.txt.xz"):
        put(name, story)
    records = {
        "code_functions.jsonl.xz": {
            "code": "def f():\n    return 1",
            "instruction": "Returns the number one, always",
        },
        "code_mbpp.jsonl.xz": {"prompt": "Write a function to add.", "split": "train"},
        "math_gsm8k_train.jsonl.xz": {"question": "How many eggs are two eggs?"},
        "qa_fairytaleqa.jsonl.xz": {"context": "A fox ran.", "question": "Who ran?", "split": "train"},
    }
    for name, record in records.items():
        put(name, json.dumps(record) + "\n")
    first, again, other = (list(islice(instructions(tmp_path, seed), 300)) for seed in (1, 1, 2))
    assert first == again != other
    assert {found.kind for found in first} == set(KINDS) - {OWN}
    assert len({found.text for found in first}) > 180
    assert not any("{" in found.text and "}" in found.text for found in first)


def test_the_card_of_the_chat_family_is_what_its_measurements_say() -> None:
    """Catches: a number edited by hand, a card older than its measurements or its text."""
    import json

    from training.chat.card_text import render

    models = Path(__file__).resolve().parents[2] / "assets" / "models"
    measured = json.loads((models / "smollm2-measurements.json").read_text(encoding="utf-8"))
    assert (models / "smollm2.md").read_text(encoding="utf-8") == render(measured)


@pytest.mark.slow
def test_the_card_measures_every_lane(
    monkeypatch: pytest.MonkeyPatch, folder: Path, model: Any, words: Any, tmp_path: Path
) -> None:
    """A whole card of a tiny target with fresh drafters, from prompts to tables, of short texts. Catches: a lane or a
    kind left out."""
    from specdec_core.runtime.timing.width_curve import width_curve
    from training.chat import card as chat_card
    from training.chat.card import cases, measure
    from training.chat.card_text import render
    from training.results import figures

    target = tmp_path / "target"
    model.save_pretrained(target)
    words.save_pretrained(target)
    rows = _rows(folder, model, words)
    parts = {}
    for part in ("eagle", "medusa", "draft"):
        teacher = Teacher.of(model, rows.vocabulary(200, [1]))
        module = chat._new(part, Frozen(model, "tiny"), teacher, rows, fresh=True)  # type: ignore[arg-type]
        state = {"step": 0, "tokens": 0, "seconds": 0.0, "vocabulary": teacher.vocabulary.tolist()}
        accuracy: Any = {"eagle": {"accuracy": [0.5]}, "medusa": [[0.5, 0.1]] * 4, "draft": 0.5}[part]
        chat.export(tmp_path / part, part, module, str(target), state, accuracy)  # type: ignore[arg-type]
        parts[part] = tmp_path / part
    prompts = tmp_path / "prompts.toml"
    prompts.write_text('chat = ["the cat", "a dog"]\nedits = ["the mat"]\n', encoding="utf-8")
    loaded = sd.load_models(target, **parts)
    monkeypatch.setattr(chat_card.sd, "load_models", lambda name: loaded)
    monkeypatch.setattr(chat_card, "SETS", {"held out": prompts})
    for module in (chat_card, figures):
        monkeypatch.setattr(module, "TOKENS", 24)
    monkeypatch.setattr(
        chat_card,
        "curve_of",
        lambda models, which: width_curve(models.drafting(which), prefix=50, budget_s=0.3),
    )
    assert [case.prompt for case in cases(prompts, 1)] == ["the cat", "the mat"]
    found = measure("tiny", tmp_path / "runs", on_prompt=lambda prompt: None)
    text = render(found)
    assert "{{" not in text and "{{figures" not in text
    for label in ("draft-model", "eagle", "medusa", "prompt-lookup"):
        line = found["sets"]["held out"]["kinds"]["chat"]["all"]["lanes"][label]
        assert line["prompts"] == 2 and line["tokens_per_pass"] >= 1.0
        assert f"| {label} |" in text or f" {label} |" in text
    assert "| chat (2) |" in text and "| edits (1) |" in text
    same = found["sets"]["held out"]["equality"]
    assert (same["generate"], same["lanes"]) == (3, 3 * len(chat_card.lanes(loaded)))
    assert all(fork["margin"] < 1e-4 for fork in same["forks"])
    assert f"of {same['lanes']} texts" in text
