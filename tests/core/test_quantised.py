"""Quantised checkpoints that load here: MXFP4, in which gpt-oss is published, without any further package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoModelForCausalLM, GptOssConfig, PreTrainedModel

import specdec_core as sd
from specdec_core.models import memory

from .tiny import generate, tokenizer

HALF = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # what three bits of E2M1 stand for; the fourth is the sign
PLAIN = "model.layers.*.self_attn model.layers.*.mlp.router model.embed_tokens lm_head".split()


def values(blocks: Tensor, scales: Tensor) -> Tensor:
    """MXFP4 by its definition: two numbers a byte, the lower half first, each block of 32 times 2 to its scale − 127;
    uint8 (…, b, 16) and (…, b) → float32 (…, 32 b)."""
    table = torch.tensor([*HALF, *(-one for one in HALF)])
    pairs = torch.stack((table[(blocks & 15).long()], table[(blocks >> 4).long()]), -1)
    return (pairs.flatten(-2) * torch.exp2(scales.float() - 127).unsqueeze(-1)).flatten(-2)


@pytest.fixture
def published(tmp_path: Path) -> tuple[Path, PreTrainedModel]:
    """A tiny gpt-oss in the layout of the published files, and the same model with its numbers written out."""
    words = tokenizer()
    config = GptOssConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=256, num_local_experts=4, num_experts_per_tok=2,
        sliding_window=6, layer_types=["sliding_attention", "full_attention"], pad_token_id=0, bos_token_id=1,
        eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval().requires_grad_(False)
    for weight in model.parameters():
        if weight.ndim > 1:
            weight.normal_(std=0.15)
    state = {name: weight.clone() for name, weight in model.state_dict().items()}
    for name in [name for name in state if name.endswith(("gate_up_proj", "down_proj"))]:
        experts, read, written = state.pop(name).shape
        blocks = torch.randint(0, 256, (experts, written, read // 32, 16), dtype=torch.uint8)
        scales = torch.randint(121, 125, (experts, written, read // 32), dtype=torch.uint8)
        state |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
        model.get_parameter(name).copy_(values(blocks, scales).transpose(1, 2))
    save_file(state, tmp_path / "model.safetensors", metadata={"format": "pt"})
    quantised = {"quant_method": "mxfp4", "modules_to_not_convert": PLAIN}
    content = config.to_dict() | {"architectures": ["GptOssForCausalLM"], "quantization_config": quantised}
    (tmp_path / "config.json").write_text(json.dumps(content), encoding="utf-8")
    words.save_pretrained(tmp_path)
    return tmp_path, model


@pytest.mark.parametrize("proposer", ["suffix", "recycling"])
def test_mxfp4_is_read_as_the_numbers_it_stands_for(
    published: tuple[Path, PreTrainedModel], proposer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No package is there. Catches: halves of a byte or rows and columns swapped, a refusal for a package that only
    faster kernels need, memory told as if four bits stayed four bits."""
    monkeypatch.setattr("specdec_core.models.files.quantised._there", lambda package: False)
    folder, model = published
    models = sd.load_models(folder, device="cpu", dtype="float32")
    trace = sd.decode(models, "the cat sat", sd.Settings(proposer=proposer, max_new_tokens=30))
    assert trace.token_ids == generate(model, trace.header.prompt_ids, 30)
    assert trace.audit() == [] and len(set(trace.token_ids)) > 5
    count = model.num_parameters()
    assert trace.header.target.parameters == count
    assert memory.need(str(folder), torch.device("cpu"), torch.bfloat16).bytes == int(count * 2 * 1.1)
