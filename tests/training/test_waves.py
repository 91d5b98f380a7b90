"""Answers written in waves: as transformers writes them, and stored as the slots of `answers.py` store theirs."""

from __future__ import annotations

import copy
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.core.tiny import build, tokenizer
from training.chat import drafters as chat
from training.chat import waves
from training.chat.answers import REPEATS, WAYS, looping, template
from training.chat.rows import Answers
from training.chat.waves import Choice, Waves, _prompts, turns, write
from training.data.instructions import KINDS, OWN, Instruction, instructions

TEMPLATE = (
    "{% for m in messages %}<s>{{ m['role'] }} {{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>the {% endif %}"
)
WORDS = ["the cat", "a dog sat on the mat", "mat and dog", "on the mat too and on the dog", "sat", "the cat"]


def test_a_wave_writes_what_generate_writes(tmp_path: Path) -> None:
    """Prompts of several lengths in one wave; greedy answers against transformers' logits, all states against a plain
    pass. Catches: padding that is seen, positions that count it, a state one column off, columns of another row."""
    words = copy.deepcopy(tokenizer())
    words.chat_template = TEMPLATE
    model = build("llama", vocab_size=len(words)).requires_grad_(False)
    model.lm_head.weight.mul_(8.0)
    instructions = (Instruction("chat", f"{WORDS[at % len(WORDS)]} {at // 8}") for at in count())
    found = write(tmp_path, model, words, instructions, 3, 700, rows=12, device="cpu", longest_answer=20)
    prefix, suffix, _ = template(words)
    compared, kinds, total = 0, set(), 0
    for path in sorted(tmp_path.glob("*.safetensors")):
        part = load_file(path)
        kinds |= set(part["kinds"].tolist())
        total += len(part["tokens"])
        starts = part["lengths"].cumsum(0) - part["lengths"]
        for start, length, prompt, way in zip(
            *(one.tolist() for one in (starts, part["lengths"], part["prompts"], part["ways"])), strict=True
        ):
            tokens = part["tokens"][start : start + length].tolist()
            assert tokens[prompt - len(suffix) : prompt] == suffix
            seen: list[torch.Tensor] = []
            hook = model.lm_head.register_forward_pre_hook(
                lambda _, inputs, seen=seen: seen.append(inputs[0])
            )
            with torch.inference_mode():
                logits = model(torch.tensor([prefix + tokens])).logits[0, len(prefix) + prompt - 1 : -1]
            hook.remove()
            stored = part["states"][start : start + length].float()
            torch.testing.assert_close(stored, seen[0][0, len(prefix) :], atol=0.02, rtol=0.02)
            if WAYS[way] == "greedy":
                best = logits.topk(2)
                clear = best.values[:, 0] - best.values[:, 1] > 1e-3
                assert bool((torch.tensor(tokens[prompt:]) == best.indices[:, 0])[clear].all())
                compared += int(clear.sum())
    assert total == found >= 700 and compared > 50
    assert kinds == {list(KINDS).index("chat")}
    rows = Answers(tmp_path, chat.prefix_of(model, words), 4, 0)
    assert rows.fetch(rows.next()).judged.any()
    with pytest.raises(ValueError, match="answers in"):
        write(tmp_path, model, words, instructions, 3, 700, rows=12, device="cpu")


def test_the_target_makes_up_turns_of_its_own() -> None:
    """With many tokens that end one. Catches: an end kept as text, a turn cut off, turns never asked."""
    words = tokenizer()
    model = build("llama", vocab_size=len(words)).requires_grad_(False)
    ends = list(range(0, len(words), 9))
    found = turns(Waves(model, "cpu"), [1, 2, 3], ends, 64, 5)
    assert found and all(3 < len(turn) < 60 and not set(turn) & set(ends) for turn in found)
    instructions = (Instruction("chat", f"the cat {at}") for at in count())
    given = list(islice(_prompts(instructions, found, words, 50, 16), 8 * len(found)))
    own = [prompt for kind, prompt, _ in given if kind == list(KINDS).index(OWN)]
    assert sorted(own) == sorted(found)


def test_each_range_of_rows_is_chosen_in_its_way() -> None:
    """Greedy, penalised and sampled rows of the same logits. Catches: a penalty on padding or on another range, a draw
    beyond top-p."""
    prompts, pads = torch.tensor([[9, 1], [9, 1], [1, 9], [2, 3]]), torch.tensor([1, 1, 0, 0])
    choice = Choice(prompts, pads, [0, 1, 1, 2], seed=0, temperature=0.7, vocabulary=10)
    logits: Any = torch.zeros(4, 10)
    logits[:, 1], logits[:, 9] = 5.0, 4.9
    logits[3] = torch.tensor([9.0, *[0.0] * 9])
    assert choice(logits).tolist() == [1, 9, 1, 0]  # row 1 has seen 1 alone, row 2 both
    logits[:, 1], logits[:, 9], logits[:3, 0] = 5.0, 4.9, 4.8
    assert choice(logits).tolist()[:3] == [1, 0, 0]  # now row 1 has written 9


def test_a_loop_is_noticed_at_every_fourth_token() -> None:
    """Catches: a repetition that overlaps its own beginning, or one looked for in other rows."""
    fresh = torch.arange(2 * REPEATS)
    again = torch.arange(REPEATS).repeat(2)
    assert looping(torch.stack((fresh, again))).tolist() == [False, True]
    assert not looping(torch.stack((fresh, again))[:, 1:]).any()


def test_a_missing_corpus_is_noticed_before_long_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: minutes of made-up turns before the first instruction is read."""
    monkeypatch.setattr(waves, "Waves", None)  # whoever makes one fails
    words = copy.deepcopy(tokenizer())
    words.chat_template = TEMPLATE
    with pytest.raises(ValueError, match=r"code_functions|stories"):
        write(tmp_path / "runs", None, words, instructions(tmp_path, 1), 3, 10, own_waves=2, device="cpu")
    assert not (tmp_path / "runs").exists()
