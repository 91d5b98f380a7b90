// llama.cpp's greedy continuations: node gguf_llama_cpp.mjs FILE COUNT, where node-llama-cpp is installed.
// Reads a JSON list of prompts (lists of token ids, or texts) and writes a JSON line for each: ids, out, and top, the
// likeliest four tokens of each step with their log-probabilities.
import fs from "node:fs";
import { getLlama } from "node-llama-cpp";

const [file, count] = [process.argv[2], Number(process.argv[3])];
const llama = await getLlama({ gpu: false, build: "never", skipDownload: true, maxThreads: 2, logLevel: "error" });
const model = await llama.loadModel({ modelPath: file });
const context = await model.createContext({
  contextSize: 700,
  flashAttention: false,
  threads: 2,
  experimentalKvCacheKeyType: "F32",
  experimentalKvCacheValueType: "F32",
});
const sequence = context.getSequence();
for (const prompt of JSON.parse(fs.readFileSync(0, "utf8"))) {
  await sequence.clearHistory();
  const ids = typeof prompt === "string" ? [...model.tokenize(prompt, true)] : prompt;
  const first = model.tokens.bos;
  if (typeof prompt === "string" && model.tokens.shouldPrependBosToken && ids[0] !== first) ids.unshift(first);
  const [out, top] = [[], []];
  let next = ids;
  while (out.length < count) {
    const last = next.length - 1;
    const asked = { generateNext: { probabilities: true, options: { temperature: 0 } } };
    const results = await sequence.controlledEvaluate(next.map((token, at) => (at === last ? [token, asked] : token)));
    const found = results[last].next;
    const likely = [...found.probabilities].slice(0, 4).map(([token, share]) => [token, Math.log(share)]);
    out.push(found.token ?? likely[0][0]);
    top.push(likely);
    next = [out.at(-1)];
  }
  console.log(JSON.stringify({ ids, out, top }));
}
process.exit(0);
