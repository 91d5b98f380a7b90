#!/usr/bin/env bash
# transformers 5.23.0: model(ids, cache=…), as release 5.24 calls the argument, is taken without a word and ignored.
#
# Expected: a TypeError for an argument that the release does not have, as Python has it, or the cache's use.
# Seen: the logits of a text without a past. Code written for 5.24 runs on 5.23 and computes something else.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
python3 -m venv "$folder/newer"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 transformers==5.23.0
"$folder/newer/bin/pip" install --quiet torch==2.13.0 transformers==5.24.0
cd "$folder"
cat >try.py <<'PYTHON'
import torch
import transformers
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(
    vocab_size=97, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
)).eval()
ids = torch.tensor([[5, 9, 3, 22, 7, 11]])
with torch.inference_mode():
    whole, alone = model(ids).logits[0, -1], model(ids[:, -1:]).logits[0, -1]
    cache = DynamicCache(config=model.config)
    model(ids[:, :-1], cache=cache, use_cache=True)
    found = model(ids[:, -1:], cache=cache, use_cache=True).logits[0, -1]
said = "as with the past" if torch.allclose(found, whole, atol=1e-5) else "neither"
said = "as without a past" if torch.allclose(found, alone, atol=1e-5) else said
print(f"transformers {transformers.__version__}: {said}")
PYTHON
older=$(venv/bin/python try.py 2>/dev/null | tail -1)
newer=$(newer/bin/python try.py 2>/dev/null | tail -1)
printf '%s\n%s\n' "$older" "$newer"
if [[ $older == *"as without a past" && $newer == *"as with the past" ]]; then echo PASS; else
  echo FAIL
  exit 1
fi
