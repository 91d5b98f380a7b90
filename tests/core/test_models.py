"""Loading: what can be decoded is loaded, everything else is refused with a sentence that says why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    BartConfig,
    BertConfig,
    BloomConfig,
    FalconConfig,
    Gemma3Config,
    MambaConfig,
    MptConfig,
    PreTrainedConfig,
    Qwen2Config,
    RwkvConfig,
)

import specdec_core as sd
from specdec_core.models.files.hub import check_architecture
from specdec_core.models.files.unread_tensors import unknown_entries
from specdec_core.proposers import available

from .tiny import ARCHITECTURES, build, generate, like, tokenizer

SIZE = len(tokenizer())


def _save(
    folder: Path, architecture: str = "llama", words: object = None, width: int = SIZE, draft: bool = False
) -> Path:
    """A model folder in the transformers layout, as a user would bring it."""
    model = build(architecture, vocab_size=width)
    if draft:
        model = like(model, architecture, vocab_size=width)
    model.save_pretrained(folder)
    (words or tokenizer()).save_pretrained(folder)  # type: ignore[attr-defined]
    return folder


def _refused(*arguments: object, **options: object) -> str:
    with pytest.raises(sd.ModelError) as caught:
        sd.load_models(*arguments, **options)  # type: ignore[arg-type]
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence and "Traceback" not in sentence
    assert len(sentence) < 400
    return sentence


def _edit(folder: Path, name: str, **changes: object) -> None:
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_folder_of_each_architecture_is_loaded_and_decodes(architecture: str, tmp_path: Path) -> None:
    """From safetensors on disk to greedy text equal to `generate`. Catches: a layer count or vocabulary read from the
    wrong field, an architecture that the self-check refuses by mistake."""
    folder = _save(tmp_path / "target", architecture)
    models = sd.load_models(folder, _save(tmp_path / "draft", architecture, draft=True), device="cpu")
    trace = sd.decode(models, "the cat sat", sd.Settings(max_new_tokens=12))
    model = models.target.model  # type: ignore[attr-defined]
    ids = tokenizer().encode("the cat sat")
    assert trace.token_ids == generate(model, ids, 12, pad_token_id=0)
    assert trace.audit() == []
    assert (trace.header.dtype, trace.header.device) == ("float32", "cpu")
    assert trace.header.target.name == "target", "a folder's path says who works here; its name is enough"
    assert trace.header.draft is not None and trace.header.draft.name == "draft"
    assert str(tmp_path) not in trace.to_json()


def test_an_unknown_target_comes_without_a_draft(tmp_path: Path) -> None:
    """And says so when a draft is asked for."""
    models = sd.load_models(_save(tmp_path / "model"), device="cpu")
    assert models.draft is None
    assert available(models)["draft-model"] is not None


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_dtype_is_what_was_asked_for(dtype: str, tmp_path: Path) -> None:
    """Catches: a dtype that the checkpoint decides."""
    models = sd.load_models(_save(tmp_path / "model"), device="cpu", dtype=dtype)
    again = sd.load_models(tmp_path / "model", device=torch.device("cpu"), dtype=getattr(torch, dtype))
    assert (again.dtype, again.device) == (models.dtype, models.device)
    assert models.target.model.dtype == getattr(torch, dtype)  # type: ignore[attr-defined]
    assert sd.decode(models, "the", sd.Settings(proposer="none", max_new_tokens=4)).header.dtype == dtype


def test_a_draft_padded_to_another_width_is_taken(tmp_path: Path) -> None:
    """Both sides hold the same tokenizer; one output matrix is wider."""
    models = sd.load_models(
        _save(tmp_path / "target"), _save(tmp_path / "draft", width=SIZE + 28, draft=True), device="cpu"
    )
    assert sd.decode(models, "the cat", sd.Settings(max_new_tokens=8)).audit() == []


def test_a_draft_with_another_tokenizer_is_refused(tmp_path: Path) -> None:
    """The sentence names both models, never their paths."""
    draft = _save(tmp_path / "other", words=tokenizer(265), width=300)
    sentence = _refused(_save(tmp_path / "mine"), draft)
    assert "tokenizers differ" in sentence and "'other'" in sentence and str(tmp_path) not in sentence


def test_pickled_weights_are_refused_unread(tmp_path: Path) -> None:
    """The pickle here would raise if it were opened. Catches: reading it anyway."""
    folder = _save(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    assert "safetensors" in _refused(folder)


def test_code_from_a_models_repository_is_refused_unrun(tmp_path: Path) -> None:
    """An unknown type with an `auto_map` to a file that would leave a mark. Catches: running it, or asking on stdin."""
    folder = _save(tmp_path / "model")
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    remote = {
        "AutoConfig": "evil.Config",
        "AutoModelForCausalLM": "evil.Model",
        "AutoTokenizer": "evil.Words",
    }
    _edit(folder, "config.json", model_type="evil", architectures=["Evil"], auto_map=remote)
    _edit(
        folder,
        "tokenizer_config.json",
        tokenizer_class="Evil",
        auto_map={"AutoTokenizer": ["evil.Words", None]},
    )
    _refused(folder)
    assert not (tmp_path / "ran").exists()


SIZES = {"vocab_size": SIZE, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
UNSUITED: dict[str, tuple[PreTrainedConfig, str]] = {
    "gemma3": (Gemma3Config(), "more than text"),
    "mamba": (MambaConfig(vocab_size=SIZE, hidden_size=32, num_hidden_layers=2), "recurrent"),
    "rwkv": (RwkvConfig(vocab_size=SIZE, hidden_size=32, num_hidden_layers=2), "recurrent"),
    "bart": (BartConfig(vocab_size=SIZE), "encoder–decoder"),
    "bert": (BertConfig(intermediate_size=64, **SIZES), "'model'"),
}


@pytest.mark.parametrize("kind", UNSUITED)
def test_an_unsuited_architecture_is_refused_before_its_weights_are_read(kind: str, tmp_path: Path) -> None:
    """The folder holds a configuration and no weights at all, so only the configuration can have been judged."""
    config, word = UNSUITED[kind]
    tokenizer().save_pretrained(tmp_path / "model")
    config.save_pretrained(tmp_path / "model")
    sentence = _refused(tmp_path / "model")
    assert word in sentence
    assert "safetensors" not in sentence


def test_qwens_window_that_is_switched_off_is_no_window() -> None:
    """Qwen2 configurations carry a sliding_window that is not in use; refusing them would refuse the family."""
    check_architecture(Qwen2Config(use_sliding_window=False, sliding_window=4096, **SIZES), "qwen2")


def test_a_model_that_ignores_its_mask_is_refused() -> None:
    """An attention that looks everywhere passes for causal on chains it reads alone, and breaks trees."""
    model = build("llama", vocab_size=SIZE)
    forward = model.forward

    def blind(*args: object, attention_mask: torch.Tensor, **kwargs: object) -> object:
        return forward(*args, attention_mask=torch.zeros_like(attention_mask), **kwargs)

    model.forward = blind  # type: ignore[method-assign]
    with pytest.raises(sd.ModelError, match="differently from its branches"):
        sd.assemble(tokenizer(), model)


_SMALL = {"vocab_size": SIZE, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_that_counts_distances_by_row_is_refused_in_any_precision(dtype: torch.dtype) -> None:
    """MPT's bias grows with the distance in the pass, not in the tree. Catches: an error as small as the rounding of 16
    bits, waved through."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(MptConfig(**_SMALL))
    with pytest.raises(sd.ModelError, match="differently from its branches"):
        sd.assemble(tokenizer(), model.to(dtype))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_model_that_reads_trees_is_taken_in_16_bits(architecture: str) -> None:
    """Catches: a check for 16-bit models that refuses a good one, or draws from torch's own random numbers."""
    model = build(architecture, vocab_size=SIZE).to(torch.bfloat16)
    before = torch.get_rng_state()
    assert sd.assemble(tokenizer(), model).dtype == "bfloat16"
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    "config", [FalconConfig(alibi=True, **_SMALL), BloomConfig(**_SMALL)], ids=["falcon", "bloom"]
)
def test_a_model_that_cannot_take_the_mask_is_refused_in_one_sentence(config: PreTrainedConfig) -> None:
    """With ALiBi both unpack the mask as one of two dimensions. Catches: transformers' own error shown to a person."""
    with pytest.raises(sd.ModelError, match="fails with the mask it is given") as caught:
        sd.assemble(tokenizer(), AutoModelForCausalLM.from_config(config))
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["", " "])
def test_a_name_that_is_empty_is_said_to_be_so(name: str) -> None:
    """Catches: an empty name taken for the current folder."""
    with pytest.raises(sd.ModelError, match=r"^The model's name is empty"):
        sd.load_models(name)


def test_a_name_is_no_loaded_model() -> None:
    """Catches: an AttributeError from deep inside, where `load_models` was meant."""
    names, model = tokenizer(), build("llama")
    for call in (
        lambda: sd.assemble("a", "b"),  # type: ignore[arg-type]
        lambda: sd.assemble(names, "b"),  # type: ignore[arg-type]
        lambda: sd.assemble(names, model, "c"),  # type: ignore[arg-type]
    ):
        with pytest.raises(sd.ModelError, match=r"transformers has loaded, got a value of type str\."):
            call()


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    """A hub id without a network, a missing folder, an empty one. Catches: a wait for the network, a long traceback."""
    (tmp_path / "empty").mkdir()
    assert "nobody/nothing" in _refused("nobody/nothing", device="cpu")
    for name in (str(tmp_path / "missing"), str(tmp_path / "empty"), "no such model!", "../../etc", ""):
        sentence = _refused(name, device="cpu")
        assert str(tmp_path) not in sentence, "a page must not tell the server's paths"


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\x00\xff\x00" * 8], ids=["empty", "cut", "bytes"])
def test_a_damaged_folder_is_refused(name: str, damage: bytes, tmp_path: Path) -> None:
    """Catches: another exception than ModelError from any of the readers."""
    folder = _save(tmp_path / "model")
    (folder / name).write_bytes(damage)
    assert str(tmp_path) not in _refused(folder)


@pytest.mark.parametrize("device", ["tpu", "cuda:99", "", "cpu:x", "meta"])
def test_an_unknown_or_absent_device_is_refused(device: str, tmp_path: Path) -> None:
    """Before anything is read."""
    _refused(tmp_path, device=device)


def test_an_absent_gpu_is_refused(tmp_path: Path) -> None:
    """Catches: torch's own error, twenty lines long."""
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    assert "choose cpu" in _refused(tmp_path, device="cuda")


@pytest.mark.parametrize("dtype", ["int8", "float64", "", "float"])
def test_an_unknown_dtype_is_refused(dtype: str, tmp_path: Path) -> None:
    """The sentence lists the known ones."""
    assert "bfloat16" in _refused(tmp_path, dtype=dtype)


def test_the_catalogue_can_be_read_without_loading_anything() -> None:
    """The bundled family first; names and target ids both find their entry."""
    entries = sd.catalogue.entries()
    assert entries[0].bundled
    assert len({entry.name for entry in entries}) == len(entries)
    for entry in entries:
        assert sd.catalogue.find(entry.name) == entry
    assert sd.catalogue.find("nothing") is None


@pytest.mark.parametrize("proposer", ["draft-model", "branching"])
def test_a_lane_may_take_the_larger_draft(proposer: str, tmp_path: Path) -> None:
    """Two drafts, one run. Catches: the option ignored, the wrong draft named, another's KV memory."""
    target, usual = _save(tmp_path / "target"), _save(tmp_path / "usual", draft=True)
    models = sd.load_models(target, usual, larger_draft=target, device="cpu")  # the target drafts for itself
    settings = sd.Settings(proposer=proposer, max_new_tokens=16, options={"draft": "larger"})
    larger = sd.decode(models, "the cat sat", settings)
    small = sd.decode(models, "the cat sat", sd.Settings(proposer=proposer, max_new_tokens=16))
    assert larger.header.draft is not None and larger.header.draft.name == "target"
    assert small.header.draft is not None and small.header.draft.name == "usual"
    assert larger.token_ids == small.token_ids

    def apart(trace: sd.Trace) -> float:
        nodes = [row.nodes for row in trace.rounds]
        pairs = [zip(each.model_p or (), each.model_q or (), strict=True) for each in nodes]
        return max(abs(p - q) for pair in pairs for p, q in pair if p is not None and q is not None)

    assert apart(larger) < 1e-5 < apart(small)
    with pytest.raises(sd.SettingsError, match="larger draft is requested and none is loaded"):
        sd.decode(sd.load_models(target, usual, device="cpu"), "the cat sat", settings)


def test_a_parallel_draft_is_loaded_beside_the_usual_one(tmp_path: Path) -> None:
    """Each proposer runs its own. Catches: masks read by a draft that has none, the usual draft replaced, a draft
    without a mask token taken for one with."""
    target, usual = _save(tmp_path / "target"), _save(tmp_path / "usual", draft=True)
    masked = _save(tmp_path / "masked", draft=True)
    with pytest.raises(sd.ModelError, match="'masked' was not trained to guess several tokens in one pass"):
        sd.load_models(target, usual, parallel_draft=masked, device="cpu")
    config = json.loads((masked / "config.json").read_text(encoding="utf-8"))
    (masked / "config.json").write_text(json.dumps(config | {"pard_token": 5}), encoding="utf-8")
    models = sd.load_models(target, usual, parallel_draft=masked, device="cpu")
    texts = set()
    for proposer, name in (("parallel-draft", "masked"), ("draft-model", "usual")):
        trace = sd.decode(models, "the cat sat", sd.Settings(proposer=proposer, max_new_tokens=16))
        assert trace.header.draft is not None and trace.header.draft.name == name
        assert trace.audit() == [] and all(
            (row.draft_passes == 1) == (name == "masked") for row in trace.rounds
        )
        texts.add(tuple(trace.token_ids))
    assert len(texts) == 1
    alone = sd.load_models(target, masked, device="cpu")  # as the only draft it serves both
    trace = sd.decode(alone, "the cat sat", sd.Settings(proposer="parallel-draft", max_new_tokens=16))
    assert (
        tuple(trace.token_ids) in texts
        and trace.header.draft is not None
        and trace.header.draft.name == "masked"
    )


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_entries_of_a_configuration_that_its_class_lacks_are_named(architecture: str, tmp_path: Path) -> None:
    """Catches: an entry that changes a model where it was made, passed over without a word; talk of sound entries."""
    config = build(architecture).config
    config.save_pretrained(tmp_path)
    assert unknown_entries(AutoConfig.from_pretrained(tmp_path)) == []
    stored = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(stored | {"zebra_scale": 2.0, "use_cache": False}))
    assert unknown_entries(AutoConfig.from_pretrained(tmp_path)) == ["zebra_scale"]


def test_an_undeclared_entry_is_said_with_the_models_remarks(tmp_path: Path) -> None:
    build("llama", vocab_size=300).save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(stored | {"zebra_scale": 2.0}))
    said = " ".join(sd.load_models(tmp_path, device="cpu").generation.remarks(sd.Settings()))
    assert "zebra_scale, which transformers' LlamaConfig does not declare" in said
