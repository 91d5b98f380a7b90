"""Which files hold a model's weights, and that no tensor of them is passed over in silence."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import specdec_core as sd
from specdec_core.models import memory
from specdec_core.models.files import hub, weight_files

from . import tiny

ONES = torch.ones


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny model with its tokenizer."""
    return model(tmp_path / "model")


def model(place: Path, architecture: str = "llama", **changes: Any) -> Path:
    tiny.build(architecture, vocab_size=300, **changes).save_pretrained(place)
    tiny.tokenizer().save_pretrained(place)
    return place


def add(folder: Path, tensors: dict[str, Tensor], **entries: Any) -> Path:
    """More tensors in a folder's file, more entries in its configuration."""
    file, config = folder / "model.safetensors", folder / "config.json"
    save_file(load_file(file) | tensors, file, {"format": "pt"})
    config.write_text(json.dumps(json.loads(config.read_text()) | entries))
    return folder


def refused(folder: Path) -> str:
    with pytest.raises(sd.ModelError) as caught:
        sd.load_models(folder, device="cpu")
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence and str(folder.parent) not in sentence
    return sentence


@pytest.mark.parametrize(
    "name",
    [
        "model.layers.0.self_attn.q_proj.bias",
        "model.layers.0.self_attn.q_norm.weight",
        "model.layers.9.input_layernorm.weight",
        "lm_head.bias",
        "model.embed_norm.weight",
        "zeta",
    ],
)
def test_a_tensor_that_the_configuration_does_not_describe_is_named(name: str, folder: Path) -> None:
    """Anywhere in the file. Catches: another model under the name, without its biases or norms."""
    sentence = refused(add(folder, {name: ONES(32)}))
    assert f"'{name}'" in sentence and "1 tensors are in the files" in sentence


def test_a_bias_that_is_announced_is_computed(folder: Path) -> None:
    """Catches: a refusal of what the configuration does describe."""
    biased = model(folder.parent / "biased", attention_bias=True)
    assert sd.load_models(biased, device="cpu").eos


@pytest.mark.parametrize(
    ("names", "entries"),
    [
        (["mtp.fc.weight", "mtp.layers.0.mlp.up_proj.weight"], {}),
        (["model.mtp_layers.0.input_proj.weight"], {"num_nextn_predict_layers": 1}),
        (["model.mtp_block.0.mlp.up_proj.weight"], {}),
        (["model.layers.2.eh_proj.weight", "model.layers.2.enorm.weight"], {"num_nextn_predict_layers": 1}),
        (
            [
                "model.layers.0.self_attn.rotary_emb.inv_freq",
                "model.layers.1.self_attn.rotary_emb.cos_cached",
            ],
            {},
        ),
    ],
)
def test_what_a_target_does_not_compute_with_is_no_obstacle(
    names: list[str], entries: dict[str, Any], folder: Path
) -> None:
    """Catches: a target refused for its own multi-token-prediction modules, or for a table of angles."""
    plain = sd.load_models(folder, device="cpu").causal_target.state_dict()
    more = sd.load_models(add(folder, {name: ONES(32) for name in names}, **entries), device="cpu")
    found = more.causal_target.state_dict()
    assert plain.keys() == found.keys() and all(torch.equal(plain[key], found[key]) for key in plain)


def test_layers_beyond_those_that_are_announced_are_named(folder: Path) -> None:
    """Catches: any layer taken for a prediction module."""
    names = {f"model.layers.{at}.enorm.weight": ONES(32) for at in (2, 3)}
    assert "'model.layers.3.enorm.weight'" in refused(add(folder, names, num_nextn_predict_layers=1))


@pytest.mark.parametrize("kept", [True, False])
def test_old_checkpoints_masks_are_known_by_their_form(kept: bool, tmp_path: Path) -> None:
    """Catches: GPT-Neo's masks refused as layers; a bias that was trained taken for one."""
    from transformers import GPTNeoConfig, GPTNeoForCausalLM

    config = GPTNeoConfig(
        vocab_size=300, hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]],
        max_position_embeddings=64, window_size=16, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    GPTNeoForCausalLM(config).save_pretrained(tmp_path / "old")
    tiny.tokenizer().save_pretrained(tmp_path / "old")
    mask = ONES(1, 1, 64, 64).tril() if kept else torch.rand(1, 1, 64, 64)
    name = "transformer.h.0.attn.attention.bias"
    old = add(
        tmp_path / "old", {name: mask, "transformer.h.0.attn.attention.masked_bias": torch.tensor(-1e9)}
    )
    if kept:
        assert sd.load_models(old, device="cpu").eos
    else:
        assert f"'{name}'" in refused(old)


def test_a_tied_output_matrix_is_compared(tmp_path: Path) -> None:
    """Catches: an output matrix of its own in a model that says it has none; a copy refused."""
    folder = model(tmp_path / "model", tie_word_embeddings=True)
    embedding = load_file(folder / "model.safetensors")["model.embed_tokens.weight"]
    assert sd.load_models(add(folder, {"lm_head.weight": embedding.clone()}), device="cpu").eos
    sentence = refused(add(folder, {"lm_head.weight": embedding + 1}))
    assert "tie_word_embeddings" in sentence and "lm_head.weight" in sentence


def shards(folder: Path) -> list[str]:
    """The folder's weights in two files with an index."""
    whole = load_file(folder / "model.safetensors")
    names = [f"model-{at:05}-of-00002.safetensors" for at in (1, 2)]
    places = {key: names[at % 2] for at, key in enumerate(sorted(whole))}
    for name in names:
        part = {key: whole[key] for key in whole if places[key] == name}
        save_file(part, folder / name, {"format": "pt"})
    (folder / weight_files.INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    (folder / "model.safetensors").unlink()
    return names


def test_weights_in_the_maker_s_own_layout_beside_them_are_not_counted(folder: Path) -> None:
    """Catches: Mistral's consolidated.safetensors counted a second time; an adapter read with the model."""
    names = shards(folder)
    for other in ("consolidated.safetensors", "adapter_model.safetensors", "model.fp16.safetensors"):
        (folder / other).write_bytes(b"x" * 5_000_000)
    assert [file.name for file in weight_files.of_folder(folder)] == names
    assert sd.load_models(folder, device="cpu").eos
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "method", lambda config: "gptq")
        assert memory.need(str(folder), torch.device("cpu"), torch.float32).bytes < 5_000_000


def test_what_is_missing_is_named(folder: Path) -> None:
    """Catches: a sentence about a folder that does not exist, or about pickles that nobody saw."""
    names = shards(folder)
    (folder / names[1]).rename(folder / "consolidated.safetensors")
    assert f"'{names[1]}'" in refused(folder)
    (folder / weight_files.INDEX).unlink()
    assert "'consolidated.safetensors' instead" in refused(folder)
    for file in folder.glob("*.safetensors"):
        file.unlink()
    assert "pickle" not in refused(folder)
    (folder / "pytorch_model.bin").write_bytes(b"x")
    assert "'pytorch_model.bin', a pickle" in refused(folder)
    for broken in ("[]", "{}", '{"weight_map": {}}', '{"weight_map": {"a": "../b.safetensors"}}', "x"):
        (folder / weight_files.INDEX).write_text(broken)
        assert weight_files.INDEX in refused(folder)


class Hub:
    """A repository of these files, of one byte each, but for the index, which is real."""

    def __init__(self, place: Path, *names: str, shards: tuple[str, ...] = ()) -> None:
        self.names, self.fetched = [*names, *shards], []
        self.index = place / "index.json"
        self.index.write_text(json.dumps({"weight_map": {str(at): name for at, name in enumerate(shards)}}))

    def model_info(self, *rest: Any, **options: Any) -> SimpleNamespace:
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=name, size=1) for name in self.names])

    def download(self, repository: str, name: str) -> str:
        self.fetched.append(name)
        return str(self.index if name == weight_files.INDEX else name)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def made(*names: str, shards: tuple[str, ...] = ()) -> Hub:
        found = Hub(tmp_path, *names, shards=shards)
        monkeypatch.setattr("huggingface_hub.HfApi", lambda: found)
        monkeypatch.setattr("huggingface_hub.hf_hub_download", found.download)
        monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *rest: None)
        return found

    return made


def test_only_weights_that_are_read_are_downloaded(repository: Any) -> None:
    """Catches: a model fetched twice, once in its maker's own layout."""
    parts = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
    beside = (
        "config.json",
        "consolidated.safetensors",
        "adapter_model.safetensors",
        "original/consolidated.00.pth",
    )
    many = repository(*beside, weight_files.INDEX, shards=parts)
    hub.fetch("owner/name")
    assert {*many.fetched} == {"config.json", weight_files.INDEX, *parts}
    one = repository(*beside, "model.safetensors", weight_files.INDEX, shards=parts)
    totals: list[int] = []
    hub.fetch("owner/name", lambda done, total: totals.append(total))
    assert {*one.fetched} == {"config.json", weight_files.INDEX, "model.safetensors"} and totals[-1] == 3


def test_all_parts_of_a_split_file_are_downloaded(repository: Any) -> None:
    """Catches: half a model; a repository of nothing but parts called one of pickles."""
    parts = [f"Pine-Q8_0-{at:05}-of-00003.gguf" for at in (1, 2, 3)]
    held = repository(*parts, "mmproj-Pine-Q8_0.gguf")
    hub.fetch("owner/name")
    assert held.fetched == parts
    held.fetched.clear()
    assert hub.fetch_gguf("owner/name") == Path(parts[0]) and held.fetched == parts
    repository(*parts[:2])
    with pytest.raises(sd.ModelError, match="lacks 'Pine-Q8_0-00003-of-00003"):
        hub.fetch("owner/name")
    repository("mmproj-Pine-Q8_0.gguf")
    with pytest.raises(sd.ModelError, match="nor a GGUF file"):
        hub.fetch("owner/name")
