"""Damaged and hostile model folders and heads: one sentence each, nothing built that a file merely claims."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import specdec_core as sd
from specdec_core.models import catalogue
from specdec_core.models.files.load_errors import cut
from specdec_core.models.files.sources import resolve
from specdec_core.models.heads import Target, eagle, eagle3, medusa, mtp
from specdec_core.models.heads.layouts import files
from specdec_measure.testing import scripted

from .distributions import wavering
from .test_models import _edit, _refused, _save
from .tiny_heads import WIDTH, eagle_head, headed, medusa_heads

SIZE = 12


def _without(folder: Path, part: str) -> None:
    tensors = load_file(folder / "model.safetensors")
    gone = next(name for name in tensors if part in name)
    save_file(
        {name: tensor for name, tensor in tensors.items() if name != gone}, folder / "model.safetensors"
    )


def test_a_missing_weight_is_refused_and_not_made_up(tmp_path: Path) -> None:
    """transformers fills it with random numbers and says so in a log. Catches: fluent nonsense from a damaged file."""
    folder = _save(tmp_path / "model")
    _without(folder, "mlp")
    assert "are missing" in _refused(folder)


@pytest.mark.parametrize("layers", [1, 3])
def test_a_configuration_with_other_layers_than_the_weights_is_refused(layers: int, tmp_path: Path) -> None:
    folder = _save(tmp_path / "model")
    _edit(folder, "config.json", num_hidden_layers=layers, layer_types=["full_attention"] * layers)
    assert "do not fit its config.json" in _refused(folder)


@pytest.mark.parametrize(
    "change",
    [
        {"num_hidden_layers": -1},
        {"num_hidden_layers": 10**9},
        {"num_key_value_heads": 0},
        {"vocab_size": 0},
        {"hidden_act": "nope"},
        {"rope_parameters": {"rope_type": "zzz"}},
    ],
    ids=str,
)
def test_a_damaged_configuration_is_one_sentence(change: dict[str, Any], tmp_path: Path) -> None:
    """Catches: a traceback out of transformers, and a build that never ends."""
    folder = _save(tmp_path / "model")
    _edit(folder, "config.json", **change)
    _refused(folder)


def _reshaped(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    name = next(name for name in tensors if "mlp" in name)
    save_file(tensors | {name: torch.zeros(3, 5)}, folder / "model.safetensors", {"format": "pt"})


def _shortened(folder: Path) -> None:
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda folder: _edit(folder, "config.json", model_type="gemma17"), "is of the type 'gemma17', which transf"),
        (lambda folder: _edit(folder, "config.json", model_type=None, architectures=[]), "names no model_type"),
        (lambda folder: (folder / "config.json").write_text('{"model_type": "lla'), "a file of it is not JSON"),
        (_reshaped, "have other shapes than its config.json says"),
        (_shortened, "is cut off: its end is missing"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b"version https://git-lfs" * 9), "Git LFS pointer"),
        (lambda folder: _edit(folder, "config.json", hidden_act="nope"), "'nope' is not known to transformers"),
    ],
    ids=["unknown", "no type", "not JSON", "shapes", "cut off", "pointer", "activation"],
)  # fmt: skip
def test_unknown_misshaped_and_truncated_files_are_told_apart(
    change: Any, words: str, tmp_path: Path
) -> None:
    """Catches: "may be damaged" of a model that transformers merely does not know; a library's sentence that ends in
    the middle; the path above the folder."""
    folder = _save(tmp_path / "model")
    change(folder)
    said = _refused(folder)
    assert words in said and str(tmp_path) not in said


def test_a_library_s_long_sentence_ends_at_a_word() -> None:
    assert (
        cut("one two three", 8) == "one two …"
        and cut("one two", 8) == "one two"
        and cut("x" * 9, 8) == "xxxxxxxx …"
    )


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    """transformers makes up an empty one. Catches: every prompt read as one end-of-text token."""
    folder = _save(tmp_path / "model")
    for file in folder.glob("tokenizer*"):
        file.unlink()
    assert "has no tokenizer" in _refused(folder)


def test_a_name_longer_than_a_path_is_refused() -> None:
    assert "at most" in _refused("a" * 5_000)


@pytest.mark.parametrize("ends", [[[1]], 1.5, "x", 10**9, -1, True])
def test_an_end_token_that_is_none_is_left_out(ends: object, tmp_path: Path) -> None:
    """Catches: a traceback over a damaged generation_config.json, or an end that never comes."""
    folder = _save(tmp_path / "model")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
    try:
        models = sd.load_models(folder, device="cpu")
    except sd.ModelError:
        return
    assert all(type(token) is int and 0 <= token < models.target.vocabulary for token in models.eos)


def _heads_folder(folder: Path, kind: Any, made: torch.nn.Module) -> Path:
    kind.write(folder, made, "tiny", {})
    return folder


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_heads_with_numbers_that_are_not_finite_are_refused(value: float, tmp_path: Path) -> None:
    """Catches: a trace full of NaN."""
    folder = _heads_folder(tmp_path / "heads", medusa, medusa_heads(SIZE))
    file = folder / medusa.FILE
    tensors = load_file(file)
    next(iter(tensors.values())).view(-1)[0] = value
    save_file(tensors, file)
    with pytest.raises(sd.ModelError, match="not finite"):
        medusa.read(str(folder), Target(WIDTH, SIZE, WIDTH))


@pytest.mark.parametrize("change", [{"medusa_num_heads": 10**9}, {"medusa_num_layers": 10**9}], ids=str)
def test_medusa_heads_without_number_are_refused_at_once(change: dict[str, Any], tmp_path: Path) -> None:
    folder = _heads_folder(tmp_path / "heads", medusa, medusa_heads(SIZE))
    _edit(folder, "config.json", **change)
    with pytest.raises(sd.ModelError, match="damaged configuration"):
        medusa.read(str(folder), Target(WIDTH, SIZE, WIDTH))


@pytest.mark.parametrize(
    "change",
    [
        {"intermediate_size": 10**6},
        {"head_dim": -1},
        {"head_dim": 7},
        {"num_key_value_heads": 10**9},
        {"rms_norm_eps": "abc"},
        {"hidden_act": None},
        {"num_attention_heads": 10**9},
        {"num_hidden_layers": 2},
    ],
    ids=str,
)
def test_a_damaged_eagle_configuration_is_one_sentence(change: dict[str, Any], tmp_path: Path) -> None:
    """Catches: memory reserved for what a file merely claims, and transformers' own errors."""
    folder = _heads_folder(tmp_path / "head", eagle, eagle_head(SIZE))
    _edit(folder, "config.json", **change)
    with pytest.raises(sd.ModelError) as caught:
        eagle.read(str(folder), Target(WIDTH, SIZE, WIDTH))
    assert "\n" not in str(caught.value)


def test_what_an_eagle_configuration_says_beside_the_layer_is_not_read(tmp_path: Path) -> None:
    folder = _heads_folder(tmp_path / "head", eagle, eagle_head(SIZE))
    _edit(folder, "config.json", dtype="nope", id2label=5, num_labels=10**9, auto_map={"AutoModel": "x.Y"})
    eagle.read(str(folder), Target(WIDTH, SIZE, WIDTH))


def test_a_deeply_nested_configuration_is_one_sentence(tmp_path: Path) -> None:
    folder = _heads_folder(tmp_path / "heads", medusa, medusa_heads(SIZE))
    (folder / "config.json").write_text("[" * 100_000)
    with pytest.raises(sd.ModelError, match="damaged configuration"):
        medusa.read(str(folder), Target(WIDTH, SIZE, WIDTH))


HELD = {"medusa": "Medusa heads", "eagle": "an EAGLE head", "eagle3": "an EAGLE-3 head", "mtp": "MTP modules"}


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("asked", HELD)
def test_heads_of_another_kind_are_named(asked: str, held: str) -> None:
    """The bundled ones, each asked for as each kind. Catches: sound heads called damaged, the advice to load them as a
    third kind, talk of pickles where there are none."""
    source = resolve(f"specdec-{held}")
    if asked == held:
        assert files.read(source, asked)
        return
    with pytest.raises(sd.ModelError) as refused:
        files.read(source, asked)
    assert str(refused.value) == f"'specdec-{held}' holds {HELD[held]}; load it as {held}=…."


def test_a_plain_model_is_no_head() -> None:
    """Catches: a model that is taken for a head, or said to be damaged."""
    source = resolve("specdec-draft")
    for read in (medusa.read, eagle3.read, mtp.read):
        with pytest.raises(sd.ModelError, match=r"^'specdec-draft' holds no (whole )?(Medusa|EAGLE-3|MTP)"):
            read(source, Target(WIDTH, SIZE, WIDTH, 6))  # type: ignore[operator]


def test_lanes_in_several_threads_see_their_own_states() -> None:
    """Medusa beside plain decoding on the same weights. Catches: a hook that receives another thread's states."""
    models = headed("llama")
    settings = sd.Settings(proposer="medusa", max_new_tokens=40, record="tokens")
    alone = sd.decode(models, [1, 2, 3], settings)
    stop = threading.Event()

    def beside() -> None:
        while not stop.is_set():
            sd.decode(models, [3, 2, 1], settings.but(proposer="none", max_new_tokens=8))

    other = threading.Thread(target=beside)
    other.start()
    try:
        for _ in range(8):
            again = sd.decode(models, [1, 2, 3], settings)
            assert [row.nodes.token for row in again.rounds] == [row.nodes.token for row in alone.rounds]
    finally:
        stop.set()
        other.join()


def test_a_tokenizer_wider_than_its_model_is_refused() -> None:
    """Catches: an index error deep in the embedding."""
    models = scripted(wavering(4, seed=1))
    models.codec.vocabulary = 10  # type: ignore[attr-defined]
    with pytest.raises(sd.PromptError, match="do not belong together"):
        sd.decode(models, "hij", sd.Settings(proposer="none"))


def test_the_bundled_folder_is_whole() -> None:
    """The check for missing weights lets the shipped models pass."""
    assert (catalogue.bundled_folder() / "specdec-target" / "model.safetensors").is_file()
    sd.load_models()
