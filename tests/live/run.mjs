// Runs the page's engine in node: reads one JSON job from standard input, writes one JSON answer.
import { readFileSync } from "node:fs";
import { measured } from "../../app/live/engine/curve.js";
import { kernels, Model, Reader, relaxed } from "../../app/live/engine/model.js";
import { uniforms } from "../../app/live/engine/philox.js";
import { race } from "../../app/live/engine/race.js";
import { Pieces, Tokenizer } from "../../app/live/engine/tokenizer.js";

const root = new URL("../../", import.meta.url);
const read = (path) => readFileSync(new URL(path, root));
const job = JSON.parse(readFileSync(0, "utf8"));
const tokenizer = new Tokenizer(job.vocabulary);

async function models(build) {
  const code = await kernels(read(`app/live/engine/${build}.wasm`));
  const one = (name) =>
    new Model(code, name, JSON.parse(read(`assets/models/${name}/config.json`)), read(`assets/models/${name}/model.safetensors`));
  return { target: one("specdec-target"), draft: one("specdec-draft"), tokenizer, machine: "node", version: "test", usual: job.usual, titles: {} };
}

/** What was guessed, judged and written. */
const shortened = ({ output, rounds }) => ({
  output: { ids: output.ids },
  rounds: rounds.map(({ nodes, committed, draft_passes }) => ({ nodes, committed, draft_passes })),
});

const tasks = {
  encode: ({ texts }) => texts.map((text) => tokenizer.encode(text)),
  names: ({ ids }) => tokenizer.names(ids),
  pieces: ({ prompt, ids }) => {
    const pieces = new Pieces(tokenizer, prompt);
    return [...ids.map((id) => pieces.push(id)), pieces.rest()];
  },
  continuations: ({ cases }) => cases.map(([ids, typed]) => tokenizer.continuation(ids, typed)),
  uniforms: ({ keys }) => keys.map((key) => uniforms(...key)),
  relaxed: () => relaxed(),
  async runs({ build, runs, brief = false }) {
    const found = [];
    const loaded = await models(build);
    for (const { prompt, ids, lanes, typed = [], stop = Number.POSITIVE_INFINITY, branch = null } of runs) {
      const said = [];
      const words = [...typed];
      const traces = await race(loaded, { prompt, ids: ids ?? tokenizer.encode(prompt), branch }, lanes, {
        say: (message) => said.push(message.type),
        ask: async () => words.shift() ?? "",
        cancelled: () => said.filter((type) => type === "step").length >= stop,
        pause: async () => {},
      });
      found.push({ traces: brief ? traces.map(shortened) : traces, said });
    }
    return found;
  },
  async rows({ build, ids, tree, parents }) {
    const { target } = await models(build);
    const reader = new Reader(target, 400, 40);
    reader.step(ids);
    reader.read(tree, parents, 0);
    const together = tree.map((_, at) => Array.from(reader.logits(at)));
    const alone = tree.map((_, at) => {
      const path = [];
      for (let node = at; node >= 0; node = parents[node]) path.unshift(tree[node]);
      reader.rewind(ids.length);
      reader.step(path, 0);
      return Array.from(reader.logits(0));
    });
    return { together, alone };
  },
  async speeds({ build, prompt, lanes, turns }) {
    const loaded = await models(build);
    const start = { prompt, ids: tokenizer.encode(prompt), branch: null };
    const on = { say() {}, ask: async () => "", cancelled: () => false, pause: async () => {} };
    const found = [];
    for (let turn = 0; turn < turns; turn++)
      for (const lane of lanes) found.push((await race(loaded, start, [lane], on))[0].stats);
    return found;
  },
  async curve({ build }) {
    return measured(await models(build), async () => {});
  },
};

process.stdout.write(JSON.stringify(await tasks[job.task](job)));
