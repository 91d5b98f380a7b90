"""Is a resumed run the unbroken run, and does the export compute what the trained model computed?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from specdec_measure.optimisation import relative_rate
from tests.training.tiny import TINY, tiny_folder
from training.batches import Batches, pack
from training.checkpoints import load_state, load_weights, require_checkpoint
from training.distill import distill, load_model
from training.export import export
from training.loop import ActiveClock, Plan
from training.model import SmallLlama
from training.pretrain import pick_device, pretrain

PLAN = Plan(tokens=6 * 4 * 32, context=32, batch=4, warmup_steps=2, checkpoint_every=100, evaluate_every=4)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("tiny"))


def test_six_steps_equal_three_and_three(tmp_path: Path, data: Path) -> None:
    whole = pretrain(tmp_path / "whole", TINY, data, PLAN, bfloat16=False)
    pretrain(tmp_path / "parts", TINY, data, replace(PLAN, stop_after_steps=3), bfloat16=False)
    assert load_state(require_checkpoint(tmp_path / "parts"))["step"] == 3
    parts = pretrain(tmp_path / "parts", TINY, data, PLAN, bfloat16=False)
    assert whole["step"] == parts["step"] == 6
    assert whole["data"] == parts["data"]
    one, two = (load_weights(require_checkpoint(tmp_path / name)) for name in ("whole", "parts"))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_distillation_runs_and_lowers_the_divergence(tmp_path: Path, data: Path) -> None:
    pretrain(tmp_path / "teacher", TINY, data, PLAN, bfloat16=False)
    small = replace(TINY, layers=1)
    pretrain(tmp_path / "draft", small, data, replace(PLAN, stop_after_steps=1), bfloat16=False)
    draft, target = (require_checkpoint(tmp_path / name) for name in ("draft", "teacher"))
    plan = replace(PLAN, tokens=25 * 4 * 32)
    distill(tmp_path / "distilled", draft, target, data, plan)
    ids = Batches(data, 32, 8, seed=5).next()[:, :-1]

    def divergence(checkpoint: Path) -> float:
        with torch.no_grad():
            p, q = (torch.log_softmax(load_model(path)(ids), -1) for path in (target, checkpoint))
        return float((p.exp() * (p - q)).sum(-1).mean())

    assert divergence(require_checkpoint(tmp_path / "distilled")) < divergence(draft)


def test_export_opens_in_transformers_with_equal_logits(tmp_path: Path, data: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    pretrain(tmp_path / "run", TINY, data, PLAN, bfloat16=False)
    checkpoint = require_checkpoint(tmp_path / "run")
    export(checkpoint, data.parent / "tokenizer", tmp_path / "model")
    exported = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    model = SmallLlama(TINY)
    model.load_state_dict({name: w.half().float() for name, w in load_weights(checkpoint).items()})
    ids = torch.randint(0, TINY.vocab, (3, 50), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(exported(ids).logits, model(ids), atol=1e-5, rtol=1e-4)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert tokenizer.eos_token_id == tokenizer.bos_token_id == tokenizer.pad_token_id == 0
    assert {path.suffix for path in (tmp_path / "model").iterdir()} == {".json", ".safetensors"}


def test_long_rows_of_attention_equal_the_reference() -> None:
    from training.model import causal_attention

    generator = torch.Generator().manual_seed(1)
    q = torch.randn(2, 4, 70, 16, generator=generator)
    k, v = (torch.randn(2, 2, 70, 16, generator=generator) for _ in range(2))
    wanted = torch.nn.functional.scaled_dot_product_attention(
        q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1), is_causal=True
    )
    torch.testing.assert_close(causal_attention(q, k, v, chunk=32), wanted, atol=1e-5, rtol=1e-5)


def test_packing_shows_short_documents_whole() -> None:
    import numpy as np

    documents = [[1] * 5 + [0], [2] * 5 + [0], [3] * 20 + [0]]
    ids = np.array([token for document in documents for token in document], dtype=np.uint16)
    rows = pack(ids, np.array([0, 6, 12, 33]), np.array([0, 1, 2]), 10)
    assert rows.tolist()[0] == [1] * 5 + [0] + [2] * 4
    assert rows.tolist()[1][:6] == [2] * 5 + [0]
    assert rows.shape == (3, 10)


def test_a_pause_hardly_counts() -> None:
    clock = ActiveClock()
    for _ in range(10):
        clock.add(1.0)
    clock.add(500.0)
    assert clock.seconds == pytest.approx(13.0)


def test_schedule_warms_up_stays_and_ends_at_zero() -> None:
    assert relative_rate(0, 0.0, 10, 0.3) == pytest.approx(0.1)
    assert relative_rate(50, 0.5, 10, 0.3) == 1.0
    assert relative_rate(90, 0.85, 10, 0.3) == pytest.approx(0.5)
    assert relative_rate(99, 1.0, 10, 0.3) == 0.0


def test_missing_budget_device_and_data_are_clear(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="give --minutes or --tokens"):
        Plan().progress(0, 0)
    with pytest.raises(ValueError, match="expected auto, cpu or cuda"):
        pick_device("tpu")
    with pytest.raises(ValueError, match="run the `prepare` stage first"):
        Batches(tmp_path, 32, 4, 0)
    with pytest.raises(ValueError, match="train this model first"):
        require_checkpoint(tmp_path)
