#!/usr/bin/env bash
# transformers 5.24.0: greedy assisted generation writes another text than greedy generation where the angles of the
# rotary positions depend on the length ("longrope", as in Phi-3.5 and Phi-4-mini, and "dynamic").
#
# Expected: the same text, as with every other kind of positions; drafting changes the speed only.
# Seen: across the first window texts differ, with an exact copy of the model as its draft, and with prompt lookup.
# All rows of a forward pass get the angles of its last position, so a text depends on how far was guessed.
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
from transformers import LlamaConfig, LlamaForCausalLM, Phi3Config, Phi3ForCausalLM

transformers.logging.set_verbosity_error()
print("transformers", transformers.__version__)
SIZES = dict(
    vocab_size=97, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=192, pad_token_id=0, bos_token_id=1, eos_token_id=None,
)
LONG = {
    "rope_type": "longrope", "rope_theta": 1e4, "factor": 8.0, "original_max_position_embeddings": 24,
    "short_factor": [1.0] * 4, "long_factor": [6.0] * 4,
}


def made(kind, seed):
    torch.manual_seed(seed)
    if kind == "phi3, longrope":
        model = Phi3ForCausalLM(Phi3Config(**SIZES, original_max_position_embeddings=24, rope_parameters=LONG))
    elif kind == "llama, longrope":
        model = LlamaForCausalLM(LlamaConfig(**SIZES, rope_parameters=LONG))
    else:
        model = LlamaForCausalLM(LlamaConfig(**SIZES))
    model.eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.mul_(4)  # for texts that vary
    return model


def text(model, prompt, **options):
    ids = torch.tensor([prompt])
    return model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=16, do_sample=False, **options)


equal = {}
for kind in ("llama, usual positions", "llama, longrope", "phi3, longrope"):
    for way in ("lookup", "a copy as draft"):
        same = 0
        for seed in range(10):
            prompt = [(7 * at * at + 3 * at + seed) % 94 + 3 for at in range(16)]
            draft = made(kind, seed)
            draft.generation_config.update(
                num_assistant_tokens=4, num_assistant_tokens_schedule="constant", assistant_confidence_threshold=0.0
            )
            options = {"prompt_lookup_num_tokens": 4} if way == "lookup" else {"assistant_model": draft}
            same += torch.equal(text(made(kind, seed), prompt), text(made(kind, seed), prompt, **options))
        equal[kind, way] = same
        print(f"{kind}, {way}: {same} of 10 greedy texts are those without drafting")
usual = {count for (kind, _), count in equal.items() if "usual" in kind}
others = [count for (kind, _), count in equal.items() if "usual" not in kind]
print("PASS" if usual == {10} and max(others) < 10 else "FAIL")
sys.exit(0 if usual == {10} and max(others) < 10 else 1)
PYTHON
