#!/usr/bin/env bash
# transformers 5.24.0: with rotary positions of the kind "dynamic" the same greedy call on the same model gives another
# text the second time.
#
# Expected: generate is a function of the model and the prompt.
# Seen: the module keeps the angles of the longest text so far until a text comes that is shorter than the first window;
# a prompt beyond that window is read with the angles that the call before it left.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet torch==2.13.0 transformers==5.24.0
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import torch
import transformers
from transformers import LlamaConfig, LlamaForCausalLM

transformers.logging.set_verbosity_error()
print("transformers", transformers.__version__)
again, after = 0, 0
for seed in range(10):
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=97, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=24, pad_token_id=0, bos_token_id=1, eos_token_id=None,
        rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0},
    )).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.mul_(4)  # for texts that vary
    ids = torch.tensor([[(7 * at * at + 3 * at + seed) % 94 + 3 for at in range(26)]])
    options = dict(attention_mask=torch.ones_like(ids), max_new_tokens=16, do_sample=False)
    first, second = (model.generate(ids, **options) for _ in range(2))
    model(torch.tensor([[5, 6, 7]]))  # a text shorter than the first window
    third = model.generate(ids, **options)
    again += torch.equal(first, second)
    after += torch.equal(first, third)
print(f"the second call wrote the text of the first: {again} of 10; a third one after a short text: {after} of 10")
print("PASS" if again < 10 and after == 10 else "FAIL")
sys.exit(0 if again < 10 and after == 10 else 1)
PYTHON
