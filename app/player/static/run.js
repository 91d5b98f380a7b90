/** A live run: the meaning of its messages, from the queue to the addresses of its traces. */

/**
 * @import { Message, Question } from "../types.js"
 * @import { Lane } from "./model.js"
 * @import { TraceRef } from "./source.js"
 */

import { listen } from "./live.js";
import { addStep, emptyLane } from "./model.js";
import { T } from "./text.js";

const MAX_LANES = 8;

/**
 * Follow a run to its end.
 * @param {string} url its event stream
 * @param {{prompt: string, labels: string[]}} known what the page already knows about it
 * @param {{lanes: (lanes: Lane[]) => void, progress: () => void, say: (text: string|null) => void,
 *   ask: (question: Question|null) => void, done: (refs: TraceRef[], failed: string|null) => void}} on `lanes` reports a new or renamed
 *   lane, `progress` of rounds that were added to the lanes, `ask` of a question to the visitor, `done` comes once and last
 * @returns {{close: () => void}}
 */
export function followRun(url, known, on) {
  /** @type {Lane[]} */
  let lanes = [];
  /** @type {string|null} */
  let failed = null;
  let over = false;
  /** @type {string|null} */
  let said = T.connecting;
  /** @type {Map<number, string|undefined>} */
  const finished = new Map();
  /** @param {string|null} text */
  const say = (text) => {
    said = text;
    on.say(text);
  };

  /** @param {number} at @param {Extract<Message, {type: "started"}>} message */
  function start(at, message) {
    const next = lanes.slice();
    while (next.length <= at || next.length < Math.min(known.labels.length, MAX_LANES)) { // all at once: none changes the others' size
      next.push(emptyLane(known.labels[next.length] ?? "", known.prompt, ""));
    }
    const proposer = String(message.proposer ?? "");
    next[at] = { ...next[at], label: String(message.label ?? known.labels[at] ?? proposer), proposer, rule: String(message.rule ?? ""), root: String(message.root ?? "") };
    lanes = next;
    on.lanes(lanes);
    say(failed);
  }

  /** @param {Message} message */
  function take(message) {
    const { lane = -1 } = message;
    const at = Number.isInteger(lane) && lane >= 0 && lane < MAX_LANES ? lane : null;
    if (message.type === "queued") say(T.queued(Number(message.place) || 1, message.wait_s ?? null));
    else if (message.type === "error") say((failed = String(message.message ?? T.lost)));
    else if (message.type === "started" && at !== null) start(at, message);
    else if (message.type === "ask" && Number.isInteger(message.question)) on.ask(message);
    else if (message.type === "answered") on.ask(null);
    else if (message.type === "step" && at !== null && lanes[at]) addStep(lanes[at], message);
    else if (message.type === "finished" && at !== null && lanes[at]) {
      lanes[at].end = typeof message.end === "string" ? message.end : null;
      finished.set(at, message.trace);
    } else if (message.type === "done") {
      over = true;
      on.ask(null);
    }
  }

  const stream = listen(url, {
    batch(messages) {
      messages.forEach(take);
      if (lanes.length) on.progress();
      if (over) on.done(lanes.map((lane, at) => ({ label: lane.label, url: finished.get(at) })), failed);
    },
    connection(state) {
      if (failed || over) return;
      if (state === "open" && said === T.reconnecting) say(lanes.length ? null : T.connecting);
      else if (state === "reconnecting") say(T.reconnecting);
      else if (state === "lost") say(T.lost);
    },
  });
  say(T.connecting);
  return stream;
}
