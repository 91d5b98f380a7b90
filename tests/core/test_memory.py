"""What is refused before any weights are read: quantised ones without their packages, and what cannot fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import specdec_core as sd
from specdec_cli import commands as cli
from specdec_core.models import catalogue, memory
from specdec_core.models.files.quantised import METHODS, check_quantised, method

from . import tiny

CPU = torch.device("cpu")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A configuration and a tokenizer; the weights are a file that would raise if it were read."""
    tiny.build("llama", vocab_size=300).config.save_pretrained(tmp_path / "model")
    tiny.tokenizer().save_pretrained(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").write_bytes(b"x" * 4_000_000)
    return tmp_path / "model"


def edit(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}), encoding="utf-8")


@pytest.mark.parametrize(
    ("quantised", "words"),
    [
        ({"quant_method": "gptq", "bits": 4}, "quantised with GPTQ, which transformers reads with"),
        ({"load_in_4bit": True}, "quantised with bitsandbytes"),
        ({"quant_method": "imaginary"}, "quantised by 'imaginary', which is not read here"),
    ],
)
def test_quantised_weights_without_their_package_are_refused(
    folder: Path, quantised: dict[str, object], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: an import error from the middle of loading, called damaged weights."""
    monkeypatch.setattr("specdec_core.models.files.quantised._there", lambda package: False)
    edit(folder, quantization_config=quantised)
    with pytest.raises(sd.ModelError, match=words) as caught:
        sd.load_models(folder, device="cpu")
    assert "GGUF" in str(caught.value)


def test_every_method_that_transformers_knows_by_these_names_is_its_own() -> None:
    """Catches: a method under a name that no config.json uses."""
    from transformers.quantizers.auto import AUTO_QUANTIZATION_CONFIG_MAPPING as known

    assert {name for name in METHODS if name != "bitsandbytes"} <= known.keys()
    assert method(tiny.build("llama").config) is None
    check_quantised(tiny.build("llama").config, "plain")


def test_memory_is_told_and_refused_before_weights_are_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of target and draft together; quantised weights by their file. Catches: a draft that no longer fits beside its
    target, found out halfway; four bits counted as thirty-two."""
    one = memory.need(str(folder), CPU, torch.float32)
    count = tiny.build("llama", vocab_size=300).num_parameters()
    assert (one.name, one.parameters) == ("model", count) and one.bytes == int(count * 4 * 1.1)
    assert memory.need(str(folder), CPU, torch.bfloat16).bytes == int(count * 2 * 1.1)
    monkeypatch.setattr("specdec_core.models.files.quantised._there", lambda package: True)
    edit(folder, quantization_config={"quant_method": "gptq", "bits": 4})
    assert memory.need(str(folder), CPU, torch.float32).bytes == int(4_000_000 * 1.1)
    edit(folder, quantization_config=None)
    monkeypatch.setattr(memory, "available_bytes", lambda device: int(1.5 * one.bytes))
    said: list[str] = []
    with pytest.raises(sd.ModelError, match=r"SPECDEC_IGNORE_MEMORY=1 tries it anyway"):
        sd.load_models(folder, folder, device="cpu", say=said.append)
    monkeypatch.setenv("SPECDEC_IGNORE_MEMORY", "1")
    with pytest.raises(sd.ModelError, match="not safetensors"):  # it is tried
        sd.load_models(folder, folder, device="cpu", say=said.append)
    assert len(said) == 1 and said[0].startswith("'model' and 'model' need about ") and "cpu has" in said[0]


def test_what_a_model_needs_is_known_before_it_is_downloaded(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: a catalogue entry without its draft, a look-up that needs the network, a refusal that is a crash."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(memory, "available_bytes", lambda device: 2_000_000_000)
    gpt2 = catalogue.find("gpt2")
    assert gpt2 is not None
    said, fits = memory.ahead("gpt2", None, CPU, torch.float32)
    assert fits and said.startswith("'openai-community/gpt2' and 'distilbert/distilgpt2' need about 0.9 GB")
    assert memory.ahead(gpt2.target, None, CPU, torch.float32) == (said, fits)
    assert memory.ahead("gpt2", str(folder), CPU, torch.float32)[0].startswith(
        "'openai-community/gpt2' and 'model' need"
    )
    said, fits = memory.ahead("qwen3-1.7b", None, CPU, torch.float32)
    assert not fits and "need about 10.2 GB" in said and "Choose a smaller model" in said
    assert memory.ahead(str(folder), None, CPU, torch.float32)[1]
    for count, written in ((640_000, "0.64 M"), (8_791_040, "8.8 M"), (1_721_000_000, "1,721 M")):
        assert f"for {written} parameters" in memory.said([memory.MemoryNeed("x", count, 4)], CPU)[0]
    with pytest.raises(sd.ModelError, match=r"hub id\. Did you mean 'bundled'\?$"):
        memory.ahead("bundeld", None, CPU, torch.float32)
    with pytest.raises(sd.ModelError, match="GGUF"):
        memory.ahead("some/model.gguf", None, CPU, torch.float32)
    written = CliRunner().invoke(cli.app, ["memory", "qwen3-1.7b", "--device", "cpu", "--progress", "json"])
    assert json.loads(written.output) == {"said": said, "fits": False}
    assert CliRunner().invoke(cli.app, ["memory", "qwen3-1.7b", "--device", "cpu"]).exit_code == 2
