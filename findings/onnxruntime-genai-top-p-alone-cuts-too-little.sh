#!/usr/bin/env bash
# onnxruntime-genai on a CPU, with top_k 0 so that top_p alone is to cut: in a vocabulary of 4,096 tokens it draws tokens far
# outside of top_p (in one of 64 it does not). With top_k set to the size of the vocabulary, which cuts nothing, it follows it.
#
# A made-up ONNX model, a table, gives four tokens the probabilities 0.6, 0.2, 0.1 and 0.05 and the others the rest, whatever
# was read, so that a top_p of 0.1 or 0.5 leaves the first one alone. 400 draws each.
# Seen with onnxruntime-genai 0.18.0 and onnxruntime 1.32.0:
#   64 tokens, {'top_k': 0, 'top_p': 0.5}: drawn {0: 400}
#   4096 tokens, {'top_k': 4096, 'top_p': 0.5}: drawn {0: 400}
#   4096 tokens, {'top_k': 0, 'top_p': 0.1}: drawn {0: 245, 1: 97, 2: 36, 3: 22}
#   4096 tokens, {'top_k': 0, 'top_p': 0.5}: drawn {0: 245, 1: 97, 2: 36, 3: 22}
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q onnxruntime-genai==0.18.0 onnxruntime==1.32.0 onnx==1.23.2 numpy==2.3.5

cat > run.py <<'PY'
import json, sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
import onnxruntime_genai as og
from onnx import TensorProto, helper, numpy_helper

size = int(sys.argv[1])
share = np.array([0.6, 0.2, 0.1, 0.05] + [0.05 / (size - 4)] * (size - 4))
logits = np.tile(np.log(share), (size, 1)).astype(np.float32)
cache = ["batch", 1, "past", 8]
nodes = [
    helper.make_node("Gather", ["table", "input_ids"], ["logits"]),
    helper.make_node("Cast", ["input_ids"], ["number"], to=TensorProto.FLOAT),
    helper.make_node("Unsqueeze", ["number", "axes"], ["one"]),
    helper.make_node("Expand", ["one", "shape"], ["new"]),
    helper.make_node("Concat", ["past_key_values.0.key", "new"], ["present.0.key"], axis=2),
    helper.make_node("Concat", ["past_key_values.0.value", "new"], ["present.0.value"], axis=2),
]
fixed = {"table": logits, "axes": np.array([1, 3]), "shape": np.array([1, 1, 1, 8])}
given = [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", length])
         for name, length in (("input_ids", "new"), ("attention_mask", "all"))]
given += [helper.make_tensor_value_info(f"past_key_values.0.{name}", TensorProto.FLOAT, cache) for name in ("key", "value")]
made = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "new", size])]
made += [helper.make_tensor_value_info(f"present.0.{name}", TensorProto.FLOAT, ["batch", 1, "all", 8]) for name in ("key", "value")]
graph = helper.make_graph(nodes, "table", given, made, [numpy_helper.from_array(value, name) for name, value in fixed.items()])
Path("model").mkdir(exist_ok=True)
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "model/model.onnx")
decoder = {
    "session_options": {"provider_options": []}, "filename": "model.onnx", "head_size": 8, "hidden_size": 8,
    "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask",
               "past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"},
    "outputs": {"logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value"},
    "num_attention_heads": 1, "num_hidden_layers": 1, "num_key_value_heads": 1,
}
about = {"type": "llama", "vocab_size": size, "context_length": 64, "bos_token_id": 9, "eos_token_id": 9, "pad_token_id": 9, "decoder": decoder}
Path("model/genai_config.json").write_text(json.dumps({"model": about, "search": {"max_length": 64, "past_present_share_buffer": False}}))

model = og.Model("model")


def drawn(**options):
    """Which tokens are drawn, and how often."""
    found = Counter()
    for seed in range(400):
        params = og.GeneratorParams(model)
        params.set_search_options(max_length=4, do_sample=True, temperature=1.0, random_seed=seed, **options)
        generator = og.Generator(model, params)
        generator.append_tokens(np.array([1, 2, 3], np.int32))
        generator.generate_next_token()
        found[int(generator.get_sequence(0)[3])] += 1
    print(f"{size} tokens, {options}: drawn", dict(sorted(found.items())))
    return set(found)


right = all([drawn(top_k=size, top_p=top_p) == {0} for top_p in (0.1, 0.5)])
kept = all([drawn(top_k=0, top_p=top_p) == {0} for top_p in (0.1, 0.5)])
print(version("onnxruntime-genai"), version("onnxruntime"), "PASS" if right and kept == (size == 64) else "FAIL")
PY
for size in 64 4096; do venv/bin/python run.py $size; done | tee said.txt
test "$(grep -c PASS said.txt)" = 2
