/**
 * The worker: holds the models, runs what the page asks for, and says what happens.
 *
 * @import { Start, Wanted, Models } from "../engine/lane.js"
 * @import { Vocabulary } from "../engine/tokenizer.js"
 * @typedef {{name: string, config: Record<string, number>, file: Uint8Array<ArrayBuffer>}} ModelFile
 * @typedef {{builds: {plain: Uint8Array<ArrayBuffer>, relaxed: Uint8Array<ArrayBuffer>}, target: ModelFile, draft: ModelFile,
 *   vocabulary: Vocabulary, rest: Omit<Models, "target"|"draft"|"tokenizer">}} Files
 * @typedef {{type: "load", files: Files} | {type: "run", prompt: string, ids: number[]|null, lanes: Wanted[],
 *   branch: Start["branch"]} | {type: "stop"} | {type: "answer", words: string} | {type: "measure"}} Request
 */

import { measured } from "../engine/curve.js";
import { kernels, Model, relaxed } from "../engine/model.js";
import { race } from "../engine/race.js";
import { Tokenizer } from "../engine/tokenizer.js";

/** @type {Models|null} */
let models = null;
let stopped = false;
/** @type {((words: string) => void)|null} */
let answered = null;

/** @param {object} message */
const say = (message) => postMessage(JSON.stringify(message));

/** Lets a message from the page arrive: timers would wait four milliseconds. @returns {Promise<void>} */
const pause = () =>
  new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });

/** @param {Files} files */
async function load({ builds, target, draft, vocabulary, rest }) {
  const fused = relaxed();
  const code = await kernels(fused ? builds.relaxed : builds.plain);
  const one = (/** @type {ModelFile} */ { name, config, file }) => new Model(code, name, config, file);
  models = { target: one(target), draft: one(draft), tokenizer: new Tokenizer(vocabulary), ...rest };
  say({ type: "loaded", fused });
}

/** @param {Extract<Request, {type: "run"}>} request */
async function run({ prompt, ids, lanes, branch }) {
  if (!models) return;
  const { tokenizer, target } = models;
  const given = ids ?? tokenizer.encode(prompt);
  const start = {
    prompt: ids ? tokenizer.decode(ids) : prompt,
    ids: given.length ? given : [tokenizer.special],
    branch,
  };
  const room = target.positions - start.ids.length;
  if (room < 2) {
    const message = "This text has {tokens} tokens, and the model reads at most {most}. Shorten it.";
    say({ type: "error", message, values: { tokens: start.ids.length, most: target.positions } });
    say({ type: "done" });
    return;
  }
  stopped = false;
  let question = 0;
  const fitting = lanes.map((lane) => ({ ...lane, max_new_tokens: Math.min(lane.max_new_tokens, room) }));
  await race(models, start, fitting, {
    say,
    cancelled: () => stopped,
    pause,
    ask: (text, lane) =>
      new Promise((resolve) => {
        if (stopped) return resolve("");
        answered = (words) => {
          answered = null;
          say({ type: "answered", lane });
          resolve(words);
        };
        say({ type: "ask", lane, question: question++, text, most: 500 });
      }),
  });
}

/** @param {Request} request */
async function take(request) {
  if (request.type === "load") await load(request.files);
  else if (request.type === "run") await run(request);
  else if (request.type === "answer") answered?.(request.words);
  else if (request.type === "measure" && models) say({ type: "curve", curve: await measured(models, pause) });
  else if (request.type === "stop") {
    stopped = true;
    answered?.("");
  }
}

/** Begin. Errors of an asynchronous handler reach no one by themselves. */
export function listen() {
  addEventListener("message", ({ data }) => {
    take(data).catch((error) => say({ type: "failed", message: String(error?.message ?? error) }));
  });
}
