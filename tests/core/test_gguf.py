"""GGUF files: converted to exactly the weights that transformers reads from them, kept, or refused with a sentence."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, AutoTokenizer
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

import specdec_core as sd
from specdec_core.models.files import hub
from specdec_core.models.gguf_files import (
    cache as conversions,
)
from specdec_core.models.gguf_files import (
    config as gguf_config,
)
from specdec_core.models.gguf_files import convert as gguf_files
from specdec_core.models.gguf_files import (
    header as gguf_header,
)

from .gguf_writing import TEMPLATE, write

KINDS = gguf.GGMLQuantizationType


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test alone."""
    monkeypatch.setenv("SPECDEC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _refused(name: object) -> str:
    with pytest.raises(sd.ModelError) as caught:
        sd.load_models(str(name), device="cpu")
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence and len(sentence) < 400
    return sentence


@pytest.mark.parametrize("kind", [KINDS.Q4_1, KINDS.Q8_0, KINDS.F16], ids=lambda kind: kind.name)
@pytest.mark.parametrize("tied", [True, False])
def test_the_weights_are_those_of_transformers_rounded_once(
    kind: gguf.GGMLQuantizationType, tied: bool, tmp_path: Path
) -> None:
    """Bit for bit. Catches: queries and keys left in llama.cpp's order, a transposed matrix, double rounding, an output
    matrix that is forgotten or kept twice."""
    path = write(tmp_path / "tiny.gguf", quantised=kind, tied=tied)
    folder = gguf_files.converted(path)
    model = hub.load_model(str(folder), torch.device("cpu"), torch.float32)
    wanted = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)["tensors"]
    found = load_file(folder / "model.safetensors")
    assert found.keys() == wanted.keys() and ("lm_head.weight" in found) is not tied
    for name, weight in wanted.items():
        assert found[name].dtype == torch.bfloat16
        assert torch.equal(found[name], weight.to(torch.bfloat16)), name


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
@pytest.mark.parametrize("tied", [True, False])
def test_the_configuration_is_that_of_transformers(architecture: str, tied: bool, tmp_path: Path) -> None:
    """Ours is read another way. Catches: a size, a base of the rotary angles or a token id left at its default."""
    path = write(tmp_path / "tiny.gguf", architecture=architecture, tied=tied)
    theirs = AutoConfig.from_pretrained(str(tmp_path), gguf_file=path.name).to_dict()
    ours = gguf_config.config(gguf_header.read(path))[0].to_dict()
    differing = {key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)}
    assert differing <= {"_name_or_path", "_model_name_or_path", "dtype", "architectures", "head_dim"}, (
        differing
    )


def test_tokenizer_template_and_end_are_those_of_the_file(tmp_path: Path) -> None:
    """Catches: another tokenizer than transformers would take, a chat template or an end token that is lost."""
    path = write(tmp_path / "tiny.gguf")
    models = sd.load_models(path, device="cpu")
    theirs = AutoTokenizer.from_pretrained(str(tmp_path), gguf_file=path.name)
    for text in ("the other thing", "Grüße,  12 + 3\n", ""):
        assert models.codec.encode(text) == theirs.encode(text)
    assert models.eos == {2} and models.bos == 1
    assert models.chat("th") == theirs.encode("<s>th", add_special_tokens=False)
    assert theirs.chat_template == TEMPLATE
    trace = sd.decode(models, "the", sd.Settings(proposer="prompt-lookup", max_new_tokens=8))
    assert trace.audit() == [] and str(tmp_path) not in trace.to_json()


def test_a_file_or_its_folder_is_converted_once_and_found_by_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: a second conversion, a copy that is tied to a path, one that is taken for another file's."""
    made: list[str] = []
    convert = gguf_files._convert
    monkeypatch.setattr(
        gguf_files, "_convert", lambda header, *rest: made.append(header.path.name) or convert(header, *rest)
    )
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    path = write(first / "tiny.gguf")
    sd.load_models(path, device="cpu")
    path.rename(second / "tiny.gguf")
    sd.load_models(second, device="cpu")
    assert made == ["tiny.gguf"] and len(conversions.copies()) == 1
    write(second / "tiny.gguf", tied=False)
    sd.load_models(second, device="cpu")
    assert len(made) == 2 and len(conversions.copies()) == 2


def test_what_is_no_whole_gguf_file_is_refused(tmp_path: Path, cache: Path) -> None:
    """Catches: a traceback, an endless read, a sentence with a path of the server, a cache that keeps the attempt."""
    whole = write(tmp_path / "whole.gguf").read_bytes()
    cases = {
        "empty": (b"", "not a GGUF file"),
        "text": (b"once upon a time", "not a GGUF file"),
        "header": (whole[:100], "cut off or damaged"),
        "counts": (whole[:8] + b"\xff" * 16 + whole[24:], "cut off or damaged"),
        "weights": (whole[:-2000], "is cut off"),
    }
    for name, (content, words) in cases.items():
        file = tmp_path / f"{name}.gguf"
        file.write_bytes(content)
        sentence = _refused(file)
        assert words in sentence and str(tmp_path) not in sentence
    assert "cannot be read" in _refused(tmp_path / "missing.gguf")
    assert not list(cache.glob("*/"))


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"architecture": "command-r"}, "architecture 'command-r'"),
        ({"tokenizer": False}, "no tokenizer"),
        ({"split": 3}, "was split into 3"),
        ({"leave_out": "blk.1.ffn_up.weight"}, "'model.layers.1.mlp.up_proj.weight' is missing"),
    ],
)
def test_models_that_cannot_be_read_are_refused(
    broken: dict[str, object], words: str, tmp_path: Path, cache: Path
) -> None:
    """Catches: random numbers in place of a missing weight, half a model, a copy that stays behind."""
    sentence = _refused(write(tmp_path / "tiny.gguf", **broken))  # type: ignore[arg-type]
    assert words in sentence and str(tmp_path) not in sentence
    assert conversions.copies() == [] and not list(cache.glob(".*.part"))


def test_too_large_a_file_and_several_at_once_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: a limit that nothing checks, a folder's file chosen at random."""
    write(tmp_path / "one.gguf")
    write(tmp_path / "two.gguf")
    assert "holds 2 GGUF files" in _refused(tmp_path)
    monkeypatch.setattr(gguf_header, "LARGEST_BYTES", 1000)
    assert "GGUF models of up to" in _refused(tmp_path / "one.gguf")


def test_the_hub_s_file_is_a_nearly_exact_one() -> None:
    """Catches: a split model before a whole one, the smallest quantisation because it comes first in the alphabet."""
    files = ["README.md", "m-IQ2_M.gguf", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "m-f16-00001-of-00002.gguf"]
    assert hub.best_gguf(files) == "m-Q8_0.gguf"
    assert hub.best_gguf(["a.gguf"]) == "a.gguf"
    assert (
        hub.best_gguf(["x/a.gguf", "a-00002-of-00002.gguf", "a-00001-of-00002.gguf"])
        == "a-00001-of-00002.gguf"
    )
    assert hub.best_gguf(["x/a.gguf", "a-00002-of-00002.gguf"]) is None


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if gguf_header._unpacks(int(kind))], ids=lambda kind: kind.name
)
def test_every_number_format_that_gguf_unpacks_is_read(
    kind: gguf.GGMLQuantizationType, tmp_path: Path
) -> None:
    """Catches: a format refused that the package reads, such as Q5_0 in files that are called Q4_K_M; one read as
    another."""
    block, size = gguf.GGML_QUANT_SIZES[kind]
    raw = np.random.default_rng(3).integers(0, 60, (4, 512 // block * size), dtype=np.uint8)
    path = tmp_path / "one.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("token_embd.weight", raw, raw_dtype=kind)
    for part in (
        writer.write_header_to_file,
        writer.write_kv_data_to_file,
        writer.write_tensors_to_file,
        writer.close,
    ):
        part()
    (stored,) = gguf_header.read(path).tensors
    found = gguf_header.unpack(stored)
    assert found.dtype == np.float32 and stored.shape == found.shape == (4, 512)
    np.testing.assert_array_equal(found, gguf.dequantize(raw, kind).astype(np.float32))


def test_a_number_format_that_is_not_unpacked_is_named(tmp_path: Path) -> None:
    """Catches: advice to take Q4_K_M, whose files may hold the same format."""
    path = write(tmp_path / "tiny.gguf", quantised=KINDS.F32)
    content = path.read_bytes()
    at = content.index(b"blk.0.attn_q.weight") + len(b"blk.0.attn_q.weight") + 4 + 16
    for number, name in ((int(KINDS.Q8_K), "Q8_K"), (99, "the number 99"), (int(KINDS.I32), "I32")):
        path.write_bytes(content[:at] + number.to_bytes(4, "little") + content[at + 4 :])
        sentence = _refused(path)
        assert name in sentence and "'blk.0.attn_q.weight'" in sentence


COMPANIONS = {
    "clip": "a projector",
    "imatrix": "an importance matrix",
    "eagle3": "an EAGLE-3 head",
    "dflash": "a DFlash head",
    "controlvector": "a control vector",
    "gemma4-assistant": "an assistant",
}


@pytest.mark.parametrize("architecture", COMPANIONS)
def test_what_lies_beside_a_model_is_told_apart_by_what_it_says(architecture: str, tmp_path: Path) -> None:
    """Whatever its name is. Catches: a folder refused for its projector, a draft head taken for the model."""
    write(tmp_path / "Pine-Q4_1.gguf")
    beside = write(tmp_path / "A.gguf", architecture=architecture, tokenizer=False)
    assert gguf_files.find(tmp_path) == tmp_path / "Pine-Q4_1.gguf"
    assert COMPANIONS[architecture] in _refused(beside)
    (tmp_path / "Pine-Q4_1.gguf").unlink()
    assert COMPANIONS[architecture] in _refused(tmp_path)
    write(tmp_path / "B.gguf", architecture="clip", tokenizer=False)
    assert "no whole model" in _refused(tmp_path) and COMPANIONS[architecture] in _refused(tmp_path)


@pytest.mark.parametrize(
    ("fact", "words"),
    [(("general.type", "adapter"), "a LoRA adapter"), (("adapter.type", "lora"), "a LoRA adapter"),
     (("general.type", "imatrix"), "an importance matrix"), (("general.type", "mmproj"), "a projector")],
)  # fmt: skip
def test_a_companion_of_the_model_s_own_architecture_is_told_apart(
    fact: tuple[str, str], words: str, tmp_path: Path
) -> None:
    """Catches: an adapter's matrices taken for a model that lacks the others."""
    write(tmp_path / "Pine.gguf")
    write(tmp_path / "A.gguf", further=dict([fact]))
    assert gguf_files.find(tmp_path) == tmp_path / "Pine.gguf"
    assert words in _refused(tmp_path / "A.gguf")


def test_a_vocabulary_alone_is_called_so(tmp_path: Path) -> None:
    path = write(tmp_path / "ggml-vocab-pine.gguf", weights=False)
    assert "a vocabulary without weights" in _refused(path)


def test_a_split_model_is_read_as_one(tmp_path: Path) -> None:
    """Catches: half a model, a folder of parts taken for several models, a sentence without the missing part."""
    whole = write(tmp_path / "whole.gguf")
    parts = tmp_path / "parts"
    parts.mkdir()
    names = [f"Pine-Q4_1-{at:05}-of-00002.gguf" for at in (1, 2)]
    for at, name in enumerate(names):
        write(parts / name, split=2, part=at)
    first = load_file(gguf_files.converted(whole) / "model.safetensors")
    second = load_file(gguf_files.converted(parts / names[1]) / "model.safetensors")
    assert first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
    assert gguf_files.find(parts) == parts / names[0]
    (parts / names[1]).rename(parts / "other.gguf")
    assert f"'{names[1]}' cannot be read" in _refused(parts / names[0])


@pytest.mark.parametrize(
    "beside",
    ["mmproj-Pine-Q8_0.gguf", "Pine-MMPROJ-F16-Q8_0.gguf", "Pine.mmproj-Q8_0.gguf", "mtp-Pine-Q8_0.gguf",
     "MTP-Pine-Q8_0.gguf", "imatrix.gguf", "Pine-imatrix-Q8_0.gguf", "imatrix_unsloth.gguf", "Pine-eagle3-Q8_0.gguf",
     "Pine-draft-Q8_0.gguf", "Pine_lora-Q8_0.gguf", "Pine-DFlash-Q8_0.gguf", "ggml-vocab-pine-q8_0.gguf",
     "adapter-Q8_0.gguf", "Pine-assistant-Q8_0.gguf"],
)  # fmt: skip
def test_a_companion_on_the_hub_is_passed_over_by_its_name(beside: str) -> None:
    """Catches: a projector or a sidecar downloaded for the model, because its format is the more exact one."""
    for model in ("Pine-Q4_K_M.gguf", "pine-iq3_m.gguf"):
        assert hub.best_gguf(sorted([model, beside])) == model


def test_a_model_that_is_called_like_a_companion_is_taken_where_it_is_alone() -> None:
    """Catches: a repository refused for its model's name; a projector taken where there is nothing else."""
    assert hub.best_gguf(["mtp-Pine-Q4_K_M.gguf", "mtp-Pine-Q8_0.gguf"]) == "mtp-Pine-Q8_0.gguf"
    assert (
        hub.best_gguf(["Pine-draft-Q4_K_M.gguf", "mmproj-Pine-draft-Q8_0.gguf"]) == "Pine-draft-Q4_K_M.gguf"
    )
    assert hub.best_gguf(["Pine-MTP-Q8_0.gguf", "Draftsman-Q4_K_M.gguf"]) == "Pine-MTP-Q8_0.gguf"
    assert hub.best_gguf(["Pine-Q4_K_M-imatrix.gguf", "Pine-Q8_0-imatrix.gguf", "imatrix.gguf"]) == (
        "Pine-Q8_0-imatrix.gguf"
    )
    assert hub.best_gguf(["mmproj-Pine-Q8_0.gguf", "imatrix.gguf"]) is None


def test_another_way_of_splitting_text_is_refused(tmp_path: Path) -> None:
    """Catches: other tokens than the model was trained with, in silence."""
    assert "'deepseek-llm'" in _refused(write(tmp_path / "tiny.gguf", splitting="deepseek-llm"))
    assert sd.load_models(write(tmp_path / "other.gguf", splitting="llama-bpe"), device="cpu").eos == {2}
