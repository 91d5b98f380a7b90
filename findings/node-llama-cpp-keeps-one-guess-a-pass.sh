#!/usr/bin/env bash
# node-llama-cpp keeps at most one guess of a pass: the guesses behind a pass's first one count as refuted, and are thrown
# away, even if all of them are right. So more than one guess a pass costs time and gains nothing.
#
# A made-up model writes t + 1 behind t, modulo a period of 24, and is its own draft, or its prompt is looked up: each guess
# is right. In 121 tokens, passes with guesses and the kept ones, by the most guesses of a pass.
# Seen with node-llama-cpp 3.22.1, run on the CPU, and so with 3.21.1:
#   the model as its own draft, up to 1: 61 guesses in 61 passes, 0 wrong; kept 61, refuted 0
#   the model as its own draft, up to 4: 148 guesses in 49 passes, 0 wrong; kept 49, refuted 99
#   the model as its own draft, up to 8: 274 guesses in 54 passes, 0 wrong; kept 54, refuted 220
#   prompt lookup, up to 1: 61 guesses in 61 passes, 0 wrong; kept 61, refuted 0
#   prompt lookup, up to 4: 244 guesses in 61 passes, 0 wrong; kept 61, refuted 183
#   prompt lookup, up to 8: 488 guesses in 61 passes, 0 wrong; kept 61, refuted 427
# (The draft model works beside the target, so that its numbers may be others; none is kept behind the first one then too.)
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -q gguf==0.19.0 numpy==2.3.5
echo '{"private": true}' > package.json
npm install --silent --no-audit --no-fund node-llama-cpp@3.22.1

cat > model.py <<'PY'
import gguf, numpy as np

period, size, width = 24, 64, 64
out = gguf.GGUFWriter("model.gguf", "llama")
out.add_context_length(512)
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
after = np.zeros((size, width), np.float32)
for token in range(period):
    after[(token + 1) % period, token] = 1
out.add_tensor("token_embd.weight", np.eye(size, width, dtype=np.float32))
out.add_tensor("output.weight", after)
for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
    out.add_tensor(f"{name}.weight", np.ones(width, np.float32))
for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
    out.add_tensor(f"blk.0.{name}.weight", np.zeros((64, 64), np.float32))
out.write_header_to_file()
out.write_kv_data_to_file()
out.write_tensors_to_file()
out.close()
PY
cat > run.mjs <<'JS'
import { DraftSequenceTokenPredictor, getLlama, InputLookupTokenPredictor } from "node-llama-cpp";

const llama = await getLlama({ gpu: false, build: "never", maxThreads: 1, logLevel: "error" });
const model = await llama.loadModel({ modelPath: "model.gguf" });
const sequence = async (options) => (await model.createContext({ contextSize: 512 })).getSequence(options);
const prompt = Array.from({ length: 200 }, (_, at) => at % 24);
let right = true;
for (const way of ["the model as its own draft", "prompt lookup"]) {
  for (const most of [1, 4, 8]) {
    const predictor = way === "prompt lookup"
      ? new InputLookupTokenPredictor({ predictionLength: { max: most } })
      : new DraftSequenceTokenPredictor(await sequence(), { minTokens: most, maxTokens: most, minConfidence: 0 });
    let passes = 0, guesses = 0, wrong = 0;
    const written = [];
    const predict = predictor.predictTokens.bind(predictor);
    predictor.predictTokens = async () => {
      const found = [...(await predict())];
      passes += found.length > 0;
      guesses += found.length;
      found.forEach((token, at) => (wrong += token !== (200 + written.length + at) % 24));
      return found;
    };
    const target = await sequence({ tokenPredictor: predictor });
    predictor.updateInputTokens(prompt);
    for await (const token of target.evaluate(prompt, { temperature: 0 })) if (written.push(token) === 121) break;
    const good = written.every((token, at) => token === (200 + at) % 24);
    const { validated, refuted } = target.tokenPredictions;
    console.log(`${way}, up to ${most}: ${guesses} guesses in ${passes} passes, ${wrong} wrong; kept ${validated}, refuted ${refuted}`);
    right &&= good && wrong === 0 && passes > 0 && validated === passes && refuted === guesses - passes;
  }
}
console.log(right ? "PASS" : "FAIL");
process.exit(0);
JS
venv/bin/python model.py
node run.mjs | tee said.txt
grep -q '^PASS$' said.txt
