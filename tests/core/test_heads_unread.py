"""Whatever is in a head's files is computed with, is a known copy, or is named in a refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import specdec_core as sd
from specdec_core.models.heads import READERS, Target, eagle, eagle3, medusa, mtp
from specdec_core.models.heads.block import checkpoint
from specdec_core.models.heads.layouts import files, kinds

from .tiny import build
from .tiny_heads import WIDTH, all_heads

SIZE, LAYERS = 300, 6
OTHERS = Path(__file__).with_name("published") / "others"
WRITERS: dict[str, Any] = {"medusa": medusa, "eagle": eagle, "eagle3": eagle3, "block": checkpoint}
FITS = Target(WIDTH, SIZE, WIDTH, LAYERS)


def _folder(path: Path, kind: str) -> Path:
    """A head of this kind in its layout."""
    head: Any = all_heads(SIZE)[kind]
    if kind == "mtp":
        mtp.write(path, head, "tiny", LAYERS, {}, torch.float32)
    else:
        WRITERS[kind].write(path, head, "tiny", {}, torch.float32)
    return path


def _weights(folder: Path) -> Path:
    return next(folder.glob("*.safetensors"))


def _add(folder: Path, tensors: dict[str, torch.Tensor] | None = None, **entries: object) -> Path:
    file = _weights(folder)
    save_file(load_file(file) | (tensors or {}), file)
    config = json.loads((folder / "config.json").read_text()) | entries
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def _refusal(kind: str, folder: Path) -> str:
    with pytest.raises(sd.ModelError) as refused:
        READERS[kind](str(folder), FITS)
    return str(refused.value)


@pytest.mark.parametrize("kind", kinds.TITLES)
def test_a_tensor_or_an_entry_that_nothing_reads_is_named(kind: str, tmp_path: Path) -> None:
    """Catches: a head that loads without a word and computes something else than its maker's code."""
    READERS[kind](str(_folder(tmp_path / "whole", kind)), FITS)
    extra = _add(_folder(tmp_path / "tensor", kind), {"zebra.weight": torch.ones(3)})
    assert "'zebra.weight'" in _refusal(kind, extra)
    layer = f"model.layers.{LAYERS}." if kind == "mtp" else "layers.0."
    inside = _add(_folder(tmp_path / "bias", kind), {f"{layer}self_attn.zebra.bias": torch.ones(3)})
    assert "zebra.bias'" in _refusal(kind, inside)
    assert "'zebra_scale'" in _refusal(kind, _add(_folder(tmp_path / "entry", kind), zebra_scale=2.0))
    assert "'quantization_config'" in _refusal(
        kind, _add(_folder(tmp_path / "quantised", kind), quantization_config={"quant_method": "x"})
    )


@pytest.mark.parametrize("kind", kinds.TITLES)
def test_what_changes_nothing_is_no_reason_to_refuse(kind: str, tmp_path: Path) -> None:
    """Catches: sound heads refused for entries that every program writes."""
    folder = _add(
        _folder(tmp_path / "head", kind),
        torch_dtype="float16", transformers_version="4.28.1", pad_token_id=0, initializer_range=0.02,
        auto_map={"AutoModel": "x.Y"}, sliding_window=None, use_cache=True, architectures=["LlamaForCausalLM"],
        rope_scaling=None, another=None,
    )  # fmt: skip
    READERS[kind](str(folder), FITS)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"sliding_window": 64}, "sliding_window"),
        ({"layer_types": ["sliding_attention"]}, "layer_types"),
        ({"model_type": "gemma2"}, "gemma2"),
        ({"num_aux_hidden_states": 4}, "num_aux_hidden_states"),
        ({"target_hidden_size": 64}, "target_hidden_size"),
        ({"draft_vocab_size": 17}, "draft_vocab_size"),
        ({"fc_norm": True}, "fc_norm"),
        ({"norm_before_fc": True}, "norm_before_fc"),
        ({"eagle_config": {"use_aux_hidden_state": False}}, "use_aux_hidden_state"),
        ({"eagle_config": {"zebra": 1}}, "eagle_config.zebra"),
        ({"num_hidden_layers": 3}, "num_hidden_layers"),
        ({"rope_scaling": {"type": "wobbly", "factor": 2.0}}, "rope_scaling.rope_type"),
    ],
    ids=str,
)
def test_an_entry_of_another_computation_is_named(change: dict[str, Any], named: str, tmp_path: Path) -> None:
    """Catches: an entry that is read and then not followed."""
    ids = torch.arange(0, SIZE, 3)
    from .tiny_heads import eagle3_head

    eagle3.write(tmp_path, eagle3_head(SIZE, ids=ids, layers=(1, 3, 4)), "tiny", {}, torch.float32)
    assert named in _refusal("eagle3", _add(tmp_path, **change))


def test_entries_and_tables_without_effect_in_published_heads(tmp_path: Path) -> None:
    """Catches: sound heads refused for vLLM's tree sizes, a model's entries beside Medusa heads, or saved angles."""
    model: dict[str, Any] = {
        "hidden_size": WIDTH,
        "intermediate_size": 48,
        "num_attention_heads": 4,
        "hidden_act": "silu",
    }
    beside = _add(_folder(tmp_path / "m", "medusa"), max_paths=64, topk=10, medusa_choices=[[0]], **model)
    READERS["medusa"](str(beside), FITS)
    whole: Any = READERS["eagle"](str(_folder(tmp_path / "e", "eagle")), FITS)
    angles: Any = whole.rotary.inv_freq
    key = "layers.0.self_attn.rotary_emb.inv_freq"
    READERS["eagle"](str(_add(tmp_path / "e", {key: angles.half()}, parallel_drafting=False)), FITS)
    assert key in _refusal("eagle", _add(tmp_path / "e", {key: 2 * angles}))
    for vocabulary, said in ((SIZE, ""), (SIZE - 1, "truncated_vocab_size")):
        folder = _add(_folder(tmp_path / f"v{vocabulary}", "eagle"), truncated_vocab_size=vocabulary)
        if said:
            assert said in _refusal("eagle", folder)
        else:
            READERS["eagle"](str(folder), FITS)


def test_quantised_weights_of_heads_are_called_so(tmp_path: Path) -> None:
    """Catches: a traceback on fp8 weights, and 'it has no midlayer weights' for packed ones."""
    for at, extra in enumerate(
        ({"midlayer.q_proj.qweight": torch.ones(3, dtype=torch.int32)}, {"fc.weight_scale": torch.ones(1)})
    ):
        assert "quantised" in _refusal("eagle3", _add(_folder(tmp_path / str(at), "eagle3"), extra))
    fc = load_file(_weights(_folder(tmp_path / "fc", "eagle3")))["fc.weight"]
    assert "whole numbers (I8)" in _refusal("eagle3", _add(tmp_path / "fc", {"fc.weight": fc.to(torch.int8)}))
    READERS["eagle3"](str(_add(tmp_path / "fc", {"fc.weight": fc.to(torch.float8_e4m3fn)})), FITS)


def test_the_targets_matrices_beside_modules(tmp_path: Path) -> None:
    """Copies under the target's own names are shared, others used. Catches: modules exported with them refused."""
    fits = Target.of(build("llama", vocab_size=SIZE, num_hidden_layers=LAYERS))
    assert fits.output is not None and fits.embedding is not None
    folder, own = _folder(tmp_path / "mtp", "mtp"), torch.randn(SIZE, WIDTH)
    names = ("lm_head.weight", "model.embed_tokens.weight")
    copies = {names[0]: fits.output.detach().clone(), names[1]: fits.embedding.detach().clone()}
    shared: Any = READERS["mtp"](str(_add(folder, copies)), fits)
    assert not hasattr(shared, "lm_head") and not hasattr(shared, "embed_tokens")
    used: Any = READERS["mtp"](str(_add(folder, {names[0]: own, names[1]: own.clone()})), fits)
    assert torch.equal(used.lm_head.weight, own) and torch.equal(used.embed_tokens.weight, own)


def test_copies_are_compared(tmp_path: Path) -> None:
    """An output matrix and embeddings equal to the target's are shared, others are used. Catches: a head that guesses
    with the target's matrix where its file has another."""
    model = build("llama", vocab_size=SIZE, num_hidden_layers=LAYERS)
    fits, own = Target.of(model), torch.randn(SIZE, WIDTH)
    assert fits.output is not None
    for kind, key in (("eagle", "lm_head.weight"), ("mtp", f"model.layers.{LAYERS}.shared_head.head.weight")):
        folder = _folder(tmp_path / kind, kind)
        if kind == "mtp":  # both modules'
            other = f"model.layers.{LAYERS + 1}.shared_head.head.weight"
            copies = {key: fits.output.detach().clone(), other: fits.output.detach().clone()}
            owns = {key: own, other: own.clone()}
        else:
            copies, owns = {key: fits.output.detach().clone()}, {key: own}
        shared: Any = READERS[kind](str(_add(folder, copies)), fits)
        assert not hasattr(shared, "lm_head")
        used: Any = READERS[kind](str(_add(folder, owns)), fits)
        assert torch.equal(used.lm_head.weight, own)
    assert "not all of its modules'" in _refusal("mtp", _add(tmp_path / "mtp", {other: own + 1}))


def test_two_lists_of_a_draft_vocabulary_have_to_agree(tmp_path: Path) -> None:
    """Catches: guesses that mean other tokens by one list than by the other."""
    from .tiny_heads import eagle3_head

    ids = torch.arange(0, SIZE, 3)
    eagle3.write(tmp_path, eagle3_head(SIZE, ids=ids, layers=(1, 3, 4)), "tiny", {}, torch.float32)
    tensors = load_file(tmp_path / "model.safetensors")
    alone = {key: tensor for key, tensor in tensors.items() if key != "d2t"}
    save_file(alone, tmp_path / "model.safetensors")
    head: Any = READERS["eagle3"](str(tmp_path), FITS)
    assert torch.equal(head.vocabulary, ids)
    tensors["t2d"][0], tensors["t2d"][1] = False, True
    save_file(tensors, tmp_path / "model.safetensors")
    assert "name different tokens" in _refusal("eagle3", tmp_path)


def test_numbered_files_are_read_by_their_index(tmp_path: Path) -> None:
    """Catches: sharded heads called pickled; an index that leads out of the folder; a missing shard."""
    folder = _folder(tmp_path / "head", "eagle")
    tensors = load_file(_weights(folder))
    wanted = READERS["eagle"](str(folder), FITS).state_dict()
    _weights(folder).unlink()
    names = [f"model-0000{at}-of-00002.safetensors" for at in (1, 2)]
    halves = list(tensors)[::2], list(tensors)[1::2]
    for name, half in zip(names, halves, strict=True):
        save_file({key: tensors[key] for key in half}, folder / name)
    where = {key: name for name, half in zip(names, halves, strict=True) for key in half}
    index = folder / files.INDEX
    index.write_text(json.dumps({"weight_map": where}))
    found = READERS["eagle"](str(folder), FITS).state_dict()
    assert all(torch.equal(found[key], wanted[key]) for key in wanted)
    index.write_text(json.dumps({"weight_map": where | {"fc.weight": "../other.safetensors"}}))
    assert "not beside it" in _refusal("eagle", folder)
    index.write_text(json.dumps({"weight_map": where}))
    (folder / names[1]).unlink()
    assert f"names {names[1]}, which is not there" in _refusal("eagle", folder)


@pytest.mark.parametrize("name", sorted(path.stem for path in OTHERS.glob("*.json")))
@pytest.mark.parametrize("announced", [True, False])
def test_kinds_that_are_not_run_are_refused_by_their_names(
    name: str, announced: bool, tmp_path: Path
) -> None:
    """As speculators writes them, and with nothing but their tensors. Catches: one of them half read as an EAGLE head,
    the advice to load it as another kind."""
    made = json.loads((OTHERS / f"{name}.json").read_text())
    weights = {key: torch.ones(shape) for key, shape in made["weights"].items()}
    save_file(weights, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(made["config"] if announced else {"hidden_size": 32}))
    for kind in ("eagle", "eagle3", "mtp"):
        refusal = _refusal(kind, tmp_path)
        assert f"holds {kinds.NOT_RUN[name]} (it has" in refusal and "not run here" in refusal


def test_the_targets_final_norm_beside_modules_is_compared(tmp_path: Path) -> None:
    """Catches: modules exported with it refused; another target's norm passed over."""
    model: Any = build("llama", vocab_size=SIZE, num_hidden_layers=LAYERS)
    fits, folder = Target.of(model), _folder(tmp_path, "mtp")
    norm = model.model.norm.weight.detach().clone()
    READERS["mtp"](str(_add(folder, {"model.norm.weight": norm})), fits)
    with pytest.raises(sd.ModelError, match=r"model\.norm\.weight"):
        READERS["mtp"](str(_add(folder, {"model.norm.weight": norm + 1})), fits)
