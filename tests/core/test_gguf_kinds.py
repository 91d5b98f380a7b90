"""GGUF files of every architecture that is read: llama.cpp's text, and nothing in them that is passed over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

import specdec_core as sd
from specdec_core.models.files import hub
from specdec_core.models.gguf_files import config as gguf_config
from specdec_core.models.gguf_files import convert as gguf_files

from .gguf_kinds_writing import ALL, CASES, LEAVES, PROMPT, QKV, write

THEIRS: dict[str, Any] = json.loads(
    Path(__file__).with_name("gguf_llama_cpp.json").read_text(encoding="utf-8")
)
THETA = 500.0 ** -(torch.arange(0, 16, 2) / 16)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of this test alone."""
    monkeypatch.setenv("SPECDEC_CACHE", str(tmp_path / "cache"))


def model(path: Path) -> Any:
    return hub.load_model(str(gguf_files.converted(path)), torch.device("cpu"), torch.float32)


def refused(path: Path) -> str:
    with pytest.raises(sd.ModelError) as caught:
        gguf_files.converted(path)
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence and len(sentence) < 400
    return sentence


@pytest.mark.parametrize("case", CASES)
def test_the_text_is_llama_cpp_s(case: str, tmp_path: Path) -> None:
    """Catches: an entry of the file that is read otherwise than by the program it was made for: positions, scales,
    caps, windows, experts, biases, the order of a head's rows."""
    architecture, options = CASES[case]
    loaded = model(write(tmp_path / "tiny.gguf", architecture, **options))
    theirs = THEIRS[case]
    ids = torch.tensor([PROMPT + theirs["out"]])
    with torch.no_grad():
        found = loaded(ids).logits[0, len(PROMPT) - 1 : -1].log_softmax(-1)
    assert found.argmax(-1).tolist() == theirs["out"]
    for row, step in ((found[0], theirs["top"][0]), (found[-1], theirs["top"][1])):
        for token, value in step:
            assert float(row[token]) == pytest.approx(value, abs=0.01)


def test_every_architecture_has_its_case() -> None:
    """Catches: an architecture that is announced and was never compared."""
    assert gguf_config.KINDS.keys() == LEAVES.keys() == {architecture for architecture, _ in CASES.values()}
    assert THEIRS.keys() == CASES.keys()


@pytest.mark.parametrize("architecture", gguf_config.KINDS)
@pytest.mark.parametrize(
    "name", ["blk.0.attn_zeta.weight", "zeta.weight", "output.bias", "blk.7.attn_norm.weight"]
)
def test_a_tensor_that_nothing_reads_is_named(architecture: str, name: str, tmp_path: Path) -> None:
    """Catches: a model that runs without a part of its file."""
    path = write(tmp_path / "tiny.gguf", architecture, tensors={name: np.ones(64)})
    assert f"'{name}'" in refused(path)


@pytest.mark.parametrize("architecture", gguf_config.KINDS)
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("attention.zeta", 3),
        ("attention.clamp_kqv", 8.0),
        ("attention.max_alibi_bias", 8.0),
        ("rope.scaling.zeta", 2.0),
        ("attention.value_length", 48),
        ("zeta", "text"),
    ],
)
def test_an_entry_that_nothing_reads_is_named(
    architecture: str, key: str, value: Any, tmp_path: Path
) -> None:
    """Catches: an entry that would make another model of the same weights, read by nobody."""
    assert f"'{architecture}.{key}'" in refused(write(tmp_path / "tiny.gguf", architecture, {key: value}))


def test_entries_that_change_nothing_are_no_obstacle(tmp_path: Path) -> None:
    """Catches: a refusal of an ordinary file: what llama.cpp's converter writes beside what is computed with."""
    facts = {
        "vocab_size": 260, "rope.dimension_count": 16, "attention.key_length": 16, "attention.value_length": 16,
        "attention.causal": True, "expert_count": 0, "rope.scaling.finetuned": True, "nextn_predict_layers": 0,
        "rope.scaling.factor": 1.0, "attention.scale": 0.25, "tensor_data_layout": "Meta AI original pth",
    }  # fmt: skip
    loaded = model(write(tmp_path / "tiny.gguf", "llama", facts))
    assert torch.allclose(loaded.model.rotary_emb.inv_freq, THETA)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rope.scaling.type", "dynamic"),
        ("rope.scaling.type", "longrope"),
        ("attention.scale", 0.5),
        ("vocab_size", 259),
        ("rope.dimension_count", 8),
        ("attention.head_count_kv", [2, 4]),
        ("feed_forward_length", [96, 64]),
        ("expert_count", 8),
    ],
)
def test_an_entry_with_a_value_that_is_not_computed_is_named(key: str, value: Any, tmp_path: Path) -> None:
    """Catches: a value that is replaced by the usual one."""
    sentence = refused(write(tmp_path / "tiny.gguf", "llama", {key: value}))
    assert key.rpartition(".")[2] in sentence or "rope_factors" in sentence


def test_an_entry_that_is_missing_is_named(tmp_path: Path) -> None:
    """Catches: transformers' default in place of what the file does not say."""
    assert "'llama.attention.layer_norm_rms_epsilon'" in refused(
        write(tmp_path / "tiny.gguf", "llama", {"attention.layer_norm_rms_epsilon": None})
    )


def test_llama_3_s_own_factors_are_called_so(tmp_path: Path) -> None:
    """Catches: factors of Llama 3.1, in every one of its files, under another name than in its config.json."""
    rotary: dict[str, Any] = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    }
    rotary |= {"original_max_position_embeddings": 8192, "rope_theta": 500_000.0}
    config = LlamaConfig(hidden_size=64, num_attention_heads=4, head_dim=16, rope_parameters=rotary)
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    factors = (500_000.0 ** -(torch.arange(0, 16, 2) / 16) / scaled).numpy()
    path = write(
        tmp_path / "tiny.gguf", "llama", {"rope.freq_base": 500_000.0}, tensors={"rope_freqs.weight": factors}
    )
    loaded = model(path)
    assert loaded.config.rope_parameters == pytest.approx(rotary)
    assert torch.allclose(loaded.model.rotary_emb.inv_freq, scaled, rtol=1e-5)


def test_llama_3_s_factors_are_found_among_others(tmp_path: Path) -> None:
    """Catches: any factors called Llama 3's."""
    path = write(tmp_path / "tiny.gguf", "llama", tensors={"rope_freqs.weight": np.arange(1, 9)})
    assert torch.allclose(model(path).model.rotary_emb.inv_freq, THETA / torch.arange(1, 9))
    assert "'rope_freqs.weight'" in refused(
        write(tmp_path / "short.gguf", "llama", tensors={"rope_freqs.weight": np.ones(5)})
    )


@pytest.mark.parametrize(
    "tensors", [{"rope_factors_long.weight": np.ones(8)}, {"rope_freqs.weight": np.ones(8)}]
)
def test_half_of_a_scaling_is_refused(tensors: dict[str, Any], tmp_path: Path) -> None:
    """Catches: LongRoPE with one of its two tables, YaRN and a table at once."""
    facts = (
        {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0} if "rope_freqs.weight" in tensors else {}
    )
    assert next(iter(tensors)) in refused(write(tmp_path / "tiny.gguf", "llama", facts, tensors=tensors))


@pytest.mark.parametrize("leaves", [QKV, ALL])
def test_biases_of_some_layers_only_are_named(leaves: dict[str, tuple[int, ...]], tmp_path: Path) -> None:
    """Catches: a bias that is dropped, and one that is invented for the layers that have none."""
    path = write(tmp_path / "tiny.gguf", "llama", leaves=leaves, tensors={"blk.0.ffn_up.bias": np.ones(96)})
    assert "'blk.0.ffn_up.bias'" in refused(path)


@pytest.mark.parametrize("counted", [True, False])
def test_multi_token_prediction_modules_are_left_out_of_the_target(counted: bool, tmp_path: Path) -> None:
    """Catches: a target that is refused for the modules behind it, or that computes with them."""
    plain = write(tmp_path / "plain.gguf", "llama")
    blocks = {f"blk.2.{leaf}": np.ones(shape) for leaf, shape in LEAVES["llama"].items()}
    modules = {"blk.2.nextn.eh_proj.weight": np.ones((64, 128)), "blk.2.nextn.enorm.weight": np.ones(64)}
    facts = {"block_count": 3 if counted else 2, "nextn_predict_layers": 1}
    both = write(tmp_path / "both.gguf", "llama", facts, tensors=blocks | modules)
    one, two = model(plain), model(both)
    assert two.config.num_hidden_layers == 2
    assert all(torch.equal(weight, two.state_dict()[key]) for key, weight in one.state_dict().items())
    alone = write(tmp_path / "mtp-tiny.gguf", "llama", facts, tensors=modules, layers=0)
    assert "multi-token-prediction modules" in refused(alone)


def test_the_ends_of_a_turn_end_a_text(tmp_path: Path) -> None:
    """Catches: an answer that runs on behind its end of turn, which the file names apart from the end of text."""
    path = write(tmp_path / "tiny.gguf", "llama")
    assert model(path).generation_config.eos_token_id == 2
    header = gguf.GGUFWriter.write_header_to_file

    def more(self: gguf.GGUFWriter, *rest: Any) -> None:
        self.add_eot_token_id(7)
        header(self, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gguf.GGUFWriter, "write_header_to_file", more)
        path = write(tmp_path / "turns.gguf", "llama")
    assert model(path).generation_config.eos_token_id == [2, 7]
