"""The GGUF file that the benchmark hands to llama.cpp: the same weights under llama.cpp's names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGUFReader

from benchmarks.engines.llama_cpp import installed, write

from .tiny import build


@pytest.mark.parametrize("tied", [True, False])
def test_the_file_holds_the_weights(tied: bool, tmp_path: Path) -> None:
    """Read by another library. Catches: a matrix under another's name, rows of queries or keys in the wrong order, an
    output matrix that is missing, sizes that are not the model's."""
    model = build("llama", tie_word_embeddings=tied)
    write(model, tmp_path / "model.gguf")
    reader = GGUFReader(tmp_path / "model.gguf")
    found = {one.name: torch.from_numpy(np.array(one.data)) for one in reader.tensors}
    state, config = model.state_dict(), model.config
    assert ("output.weight" in found) is not tied
    assert len(found) == len(state) - tied
    for layer in range(config.num_hidden_layers):
        ours, theirs = f"model.layers.{layer}", f"blk.{layer}"
        for one, other in (
            ("self_attn.v_proj", "attn_v"),
            ("mlp.down_proj", "ffn_down"),
            ("mlp.gate_proj", "ffn_gate"),
        ):
            assert torch.equal(state[f"{ours}.{one}.weight"], found[f"{theirs}.{other}.weight"])
        heads, half = config.num_key_value_heads, config.head_dim // 2
        keys, theirs_keys = state[f"{ours}.self_attn.k_proj.weight"], found[f"{theirs}.attn_k.weight"]
        for head in range(heads):
            for place in range(half):  # llama.cpp turns neighbours, transformers the two halves
                row, start = head * config.head_dim, head * config.head_dim + 2 * place
                assert torch.equal(theirs_keys[start], keys[row + place])
                assert torch.equal(theirs_keys[start + 1], keys[row + half + place])
    fields = {name: field.contents() for name, field in reader.fields.items()}
    assert (
        fields["llama.attention.head_count_kv"] == heads and fields["llama.vocab_size"] == config.vocab_size
    )


def test_other_models_are_refused(tmp_path: Path) -> None:
    """Catches: a comparison with a model that computes something else."""
    with pytest.raises(ValueError, match="only Llama models"):
        write(build("qwen2"), tmp_path / "model.gguf")


@pytest.mark.skipif(not installed(), reason="llama-cpp-python is not installed")
def test_llama_cpp_writes_the_same_text(tmp_path: Path) -> None:
    """Plain, and with its own speculation. Catches: a file that llama.cpp reads as another model."""
    from benchmarks.engines.llama_cpp import DRAFT, LOOKUP, PLAIN, Peer

    torch.manual_seed(0)
    model, draft = build("llama", max_position_embeddings=1024), build("llama", max_position_embeddings=1024)
    ids = [3, 1, 4, 1, 5, 9, 2, 6]
    output = model.generate(torch.tensor([ids]), max_new_tokens=24, do_sample=False, eos_token_id=None)
    expected = output[0, len(ids) :].tolist()
    with Peer(model, draft, 4, 10) as peer:
        for name in (PLAIN, DRAFT, LOOKUP):
            assert peer.ways[name](1)(ids, 24) == expected, name
