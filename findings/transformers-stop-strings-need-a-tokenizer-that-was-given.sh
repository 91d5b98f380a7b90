#!/usr/bin/env bash
# transformers 5.24.0: stop_strings together with assistant_model is an error that asks for the tokenizer, although the
# call has it.
#
# Expected: the text ends with the stop string, as it does without an assistant.
# Seen: ValueError "… but we could not locate a tokenizer", from the assistant's own call of generate, which inherits
# stop_strings and not the tokenizer. With prompt lookup the same call works.
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
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

transformers.logging.set_verbosity_error()
print("transformers", transformers.__version__)
letters = sorted(pre_tokenizers.ByteLevel.alphabet())
rust = Tokenizer(models.BPE({"<s>": 0, **{letter: at for at, letter in enumerate(letters, 1)}}, []))
rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
rust.decoder = decoders.ByteLevel()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=rust, bos_token="<s>")
torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(
    vocab_size=257, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
    pad_token_id=0, bos_token_id=0, eos_token_id=None,
)).eval()
ids = torch.tensor([[5, 9, 3, 22, 7]])
options = dict(
    attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False, tokenizer=tokenizer, stop_strings=["x"]
)


def call(**more):
    try:
        return f"{model.generate(ids, **options, **more).shape[1] - 5} tokens"
    except ValueError as error:
        return f"ValueError: {str(error).splitlines()[0]}"


plain, lookup, drafted = call(), call(prompt_lookup_num_tokens=3), call(assistant_model=model)
print("plain:", plain, "\nprompt lookup:", lookup, "\nassistant model:", drafted)
seen = plain.endswith("tokens") and lookup.endswith("tokens") and "locate a tokenizer" in drafted
print("PASS" if seen else "FAIL")
sys.exit(0 if seen else 1)
PYTHON
