#!/usr/bin/env bash
# transformers loads a GGUF file of the Llama architecture without its scaled positions and its biases, and says nothing:
# rope_freqs.weight (in every file of Llama 3.1 and 3.2), rope.scaling.type and .factor, and attn_q.bias change no logit.
# llama.cpp computes with all three.
#
# A made-up model is written four times: plain, with factors of its frequencies, with linear scaling, with biases.
# Seen with transformers 5.23.0, gguf 0.19.0, torch 2.13.0.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q transformers==5.23.0 gguf==0.19.0 torch==2.13.0 numpy==2.3.5 accelerate==1.14.0

cat > try.py <<'PY'
import gguf, numpy as np, torch, transformers

transformers.logging.set_verbosity_warning()
size, width = 64, 32


def write(name, add=lambda out: None):
    out = gguf.GGUFWriter(name, "llama")
    out.add_context_length(256)
    out.add_embedding_length(width)
    out.add_block_count(1)
    out.add_feed_forward_length(48)
    out.add_head_count(2)
    out.add_head_count_kv(2)
    out.add_rope_dimension_count(16)
    out.add_rope_freq_base(10000.0)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_vocab_size(size)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list([f"w{i}" for i in range(size)])
    out.add_token_types([1] * size)
    out.add_token_merges(["w 1"])
    out.add_bos_token_id(62)
    out.add_eos_token_id(63)
    add(out)
    draw = np.random.default_rng(1).standard_normal
    shapes = {"attn_q": (32, 32), "attn_k": (32, 32), "attn_v": (32, 32), "attn_output": (32, 32),
              "ffn_gate": (48, 32), "ffn_up": (48, 32), "ffn_down": (32, 48)}
    out.add_tensor("token_embd.weight", draw((size, width)).astype(np.float32))
    for norm in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        out.add_tensor(f"{norm}.weight", np.ones(width, np.float32))
    for part, shape in shapes.items():
        out.add_tensor(f"blk.0.{part}.weight", (draw(shape) / 4).astype(np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    model = transformers.AutoModelForCausalLM.from_pretrained(".", gguf_file=name, dtype=torch.float32)
    with torch.no_grad():
        return model(torch.tensor([[3, 9, 27, 17, 51, 25, 11, 33]])).logits, model


def linear(out):
    out.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    out.add_rope_scaling_factor(8.0)


plain, model = write("plain.gguf")
factors = write("factors.gguf", lambda out: out.add_tensor("rope_freqs.weight", np.full(8, 8.0, np.float32)))[0]
scaled = write("scaled.gguf", linear)[0]
biased = write("biased.gguf", lambda out: out.add_tensor("blk.0.attn_q.bias", np.full(32, 3.0, np.float32)))[0]
model.model.rotary_emb.inv_freq /= 8  # what the factors and the linear scaling ask for
with torch.no_grad():
    right = model(torch.tensor([[3, 9, 27, 17, 51, 25, 11, 33]])).logits
print("transformers", transformers.__version__, "gguf 0.19.0")
print("largest difference that scaled positions would make:", round(float((right - plain).abs().max()), 3))
same = {"rope_freqs.weight": factors, "rope.scaling linear": scaled, "attn_q.bias": biased}
for name, logits in same.items():
    print(f"with {name}: largest difference of a logit {float((logits - plain).abs().max())}")
dropped = all(torch.equal(logits, plain) for logits in same.values())
print("PASS" if dropped and float((right - plain).abs().max()) > 0.1 else "FAIL")
PY
venv/bin/python try.py 2>&1 | tee said.txt
grep -q '^PASS$' said.txt
