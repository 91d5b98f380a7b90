// llama.cpp for benchmarks/peers.py: node peers_llama_cpp.mjs WAYS, where node-llama-cpp is installed. WAYS is JSON, by
// name {model, draft?, lookup?}. A line {way, ids, count} is answered by {tokens, seconds}; one with `file` instead of
// `count` by writing the probabilities after each of the ids, float32 (ids, vocabulary), to that file.
import fs from "node:fs";
import readline from "node:readline";
import { DraftSequenceTokenPredictor, getLlama, InputLookupTokenPredictor } from "node-llama-cpp";

const llama = await getLlama({ gpu: false, build: "never", skipDownload: true, maxThreads: 2, logLevel: "error" });
const models = {};
const opened = async (modelPath) => (models[modelPath] ??= await llama.loadModel({ modelPath }));
const room = async (model) => (await opened(model)).createContext({ contextSize: 1024, threads: 2 });
const ways = {};
for (const [name, { model, draft, lookup }] of Object.entries(JSON.parse(process.argv[2]))) {
  const tokenPredictor = draft
    ? new DraftSequenceTokenPredictor((await room(draft)).getSequence())
    : lookup && new InputLookupTokenPredictor();
  ways[name] = (await room(model)).getSequence(tokenPredictor ? { tokenPredictor } : {});
  if (lookup) ways[name].lookup = tokenPredictor;
}

async function written(sequence, ids, count) {
  await sequence.clearHistory();
  const began = performance.now();
  sequence.lookup?.updateInputTokens(ids);
  const tokens = [];
  for await (const token of sequence.evaluate(ids, { temperature: 0, yieldEogToken: true })) {
    if (tokens.push(token) === count || sequence.model.isEogToken(token)) break;
  }
  return { tokens, seconds: (performance.now() - began) / 1000 };
}

async function probabilities(sequence, ids, file) {
  await sequence.clearHistory();
  const asked = { generateNext: { probabilities: true, options: { temperature: 0 } } };
  const out = fs.openSync(file, "w");
  for (const token of ids) {
    const row = new Float32Array(sequence.model.fileInfo.metadata.tokenizer.ggml.tokens.length);
    const [{ next }] = await sequence.controlledEvaluate([[token, asked]]);
    for (const [at, share] of next.probabilities) row[at] = share;
    fs.writeSync(out, row);
  }
  fs.closeSync(out);
  return {};
}

console.log("{}");
for await (const line of readline.createInterface({ input: process.stdin })) {
  const { way, ids, count, file } = JSON.parse(line);
  console.log(JSON.stringify(await (file ? probabilities(ways[way], ids, file) : written(ways[way], ids, count))));
}
process.exit(0);
