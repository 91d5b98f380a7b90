"""Does a draft distilled for somebody's own target open, agree with it more than a fresh one, and decode?"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import specdec_core as sd
from specdec_core.tree import TokenTree
from tests.core.tiny import build, tokenizer
from training.cli import app

TEXT = "the cat sat on the mat and the dog ran to the tree . " * 400


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random target that is sure of what it says, saved as a user would bring it."""
    folder = tmp_path_factory.mktemp("own") / "target"
    words = tokenizer()
    model = build("gpt2", vocab_size=len(words)).requires_grad_(False)
    model.get_output_embeddings().weight.mul_(4.0)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def _train(target: Path, text: Path, tokens: int, *more: str) -> Path:
    out = text.parent / f"draft-{tokens}"
    arguments = [
        "draft",
        "--model",
        str(target),
        "--text",
        str(text),
        "--out",
        str(out),
        "--tokens",
        str(tokens),
    ]
    arguments += [
        "--hidden",
        "64",
        "--layers",
        "1",
        "--context",
        "32",
        "--runs",
        str(text.parent / str(tokens)),
        *more,
    ]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return out


def test_a_distilled_draft_serves_its_target(target: Path, tmp_path: Path) -> None:
    """The whole way by the documented command. Catches: another tokenizer or width, a loss that teaches nothing."""
    torch.set_num_threads(1)
    text = tmp_path / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    overlaps = []
    for tokens in (256, 15_000):
        models = sd.load_models(target, _train(target, text, tokens), device="cpu")
        settings = sd.Settings(max_new_tokens=2, temperature=1.0)
        found = []
        # places of the text: what a random target writes on is like nothing it was taught
        for end in range(4, 12):
            trace = sd.decode(models, " ".join(TEXT.split()[:end]), settings)
            assert trace.header.draft is not None and trace.audit() == []
            found.append(trace.rounds[0].positions[0].overlap or 0.0)
        overlaps.append(sum(found) / len(found))
    assert overlaps[1] > overlaps[0] + 0.1, overlaps


def test_what_cannot_be_built_is_one_sentence(target: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    arguments = ["draft", "--model", str(target), "--text", str(text), "--tokens", "100", "--hidden", "100"]
    result = CliRunner().invoke(app, [*arguments, "--runs", str(tmp_path)])
    assert isinstance(result.exception, ValueError) and "multiple of 64, got 100" in str(result.exception)


def test_a_draft_can_be_trained_further(target: Path, tmp_path: Path) -> None:
    """Without a step it is the draft it started from, mask row and all. Catches: a start that is ignored, weights in
    another's place, sizes taken from the options."""
    text = tmp_path / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    before = _train(target, text, 2_000)
    more = ("--parallel", "3", "--start", str(before), "--layers", "2", "--rate", "1e-12")
    after = _train(target, text, 1, *more)
    old, new = (sd.load_models(target, folder, device="cpu").draft for folder in (before, after))
    assert old is not None and new is not None and (old.mask, new.mask) == (None, old.vocabulary)
    ids = [3, 5, 4]
    rows = []
    for draft in (old, new):
        reader = draft.reader(16)
        reader.prefill(ids[:-1])
        rows.append(reader.read(ids[-1], TokenTree())[:, : old.vocabulary])
    assert torch.allclose(*rows, atol=2e-3)  # stored in 16 bits
    arguments = [
        "draft",
        "--model",
        str(target),
        "--text",
        str(text),
        "--tokens",
        "1",
        "--start",
        str(target),
    ]
    result = CliRunner().invoke(app, [*arguments, "--runs", str(tmp_path / "other")])
    assert isinstance(result.exception, ValueError) and "is no draft to start from" in str(result.exception)


def test_a_parallel_draft_guesses_several_tokens_in_one_pass(target: Path, tmp_path: Path) -> None:
    """Trained by the documented command, it is right about what follows two and three tokens on. Catches: masks at
    other positions than in decoding, a mask that text can contain, guesses that see the text they are to guess."""
    torch.set_num_threads(1)
    text = tmp_path / "text.txt"
    text.write_text(TEXT, encoding="utf-8")
    models = sd.load_models(target, _train(target, text, 24_000, "--parallel", "3"), device="cpu")
    assert models.draft is not None and models.draft.mask == models.target.vocabulary
    mask, overlaps = models.draft.mask, torch.zeros(3)
    for end in range(4, 12):
        before, after = (models.codec.encode(" ".join(TEXT.split()[:count])) for count in (end, end + 4))
        followed = after[
            len(before) : len(before) + 2
        ]  # as the text goes on, which a random target does not write
        target_reader, draft_reader = models.target.reader(64), models.draft.reader(64)
        for reader in (target_reader, draft_reader):
            reader.prefill(before[:-1])
        p = target_reader.read(before[-1], TokenTree.chain(followed)).softmax(-1)
        q = draft_reader.read(before[-1], TokenTree.chain([mask, mask])).softmax(-1)[:, :mask]
        overlaps += torch.minimum(p, q).sum(-1) / 8
    assert float(overlaps.min()) > 0.5, overlaps
    trace = sd.decode(models, "the cat sat", sd.Settings(proposer="parallel-draft", draft_length=3))
    assert trace.audit() == [] and all(row.draft_passes == 1 for row in trace.rounds if row.nodes.token)
