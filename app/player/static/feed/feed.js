/** Where what is drawn comes from: the records of a finished run, or a run that is followed until it has left some. */

/**
 * @import { Message, Question, Trace } from "../../types.js"
 * @import { Lane } from "../model/model.js"
 * @import { TraceRef } from "./source.js"
 */

import { addStep, emptyLane } from "../model/model.js";
import { fetchTraces, runId } from "./source.js";
import { T } from "../text/text.js";

const TRIGGER_MS = 500; // triggers sent while a component is being mounted can be lost
const LATE_MS = 200; // a hidden tab gets no frames; its lanes are still kept up to date
const MAX_LANES = 8;

/**
 * @typedef {{label: string, trace: Trace}[]} Traces
 * @typedef {Pick<EventSource, "readyState"|"onopen"|"onmessage"|"onerror"|"addEventListener"|"close">} Stream
 */

/**
 * @param {{say: (text: string|null) => void, ask: (question: Question|null) => void, lanes: (lanes: Lane[]) => void, progress: () => void,
 *   recordOf: (lane: number) => string|undefined, recorded: (refs: TraceRef[], traces: Traces, failed: string|null) => Promise<void>,
 *   unrecorded: () => void, idle: () => Promise<void>, done: (run: string) => void, open: (events: string) => Stream}} on `idle`:
 *   resolves once records may replace what is shown; `open`: the messages of a run; `recordOf`: the address of a lane's record
 *   that the run did not name; `recorded`: a followed run is over and here are its records; `unrecorded`: or there are none and no reason
 *   was given; `done`, once, after either
 */
export function createFeed(on) {
  const born = performance.now();
  let job = 0; // counts sources, so that a late response to an old request is dropped
  /** @type {{close: () => void}|null} */
  let live = null;
  let doneTimer = 0;

  /** Drop what was asked for. */
  function close() {
    job += 1;
    live?.close();
    live = null;
  }

  /** @param {TraceRef[]} refs @param {(traces: Traces) => unknown} then may take its time */
  async function read(refs, then) {
    const mine = job;
    let traces = null;
    try {
      traces = await fetchTraces(refs);
    } catch {
      if (mine === job) on.say(T.noRecord);
    }
    await on.idle();
    if (traces && mine === job) await then(traces);
  }

  /**
   * The run is over: read its records, and say once that it is done.
   * @param {TraceRef[]} given
   * @param {string|null} failed
   * @param {string} run
   */
  async function finish(given, failed, run) {
    const mine = job;
    const refs = given.map((ref, at) => ({ ...ref, url: ref.url ?? on.recordOf(at) }));
    if (refs.length && refs.every((ref) => ref.url || ref.trace))
      await read(refs, (traces) => on.recorded(refs, traces, failed));
    else if (!failed) on.unrecorded();
    if (mine !== job) return;
    doneTimer = setTimeout(() => on.done(run), Math.max(0, born + TRIGGER_MS - performance.now()));
  }

  return {
    close,
    read,
    /**
     * Follow a run to its end.
     * @param {string} url its event stream
     * @param {{prompt: string, labels: string[]}} known what the page already knows about it
     */
    follow(url, known) {
      const mine = job;
      /**
       * @template {unknown[]} Args
       * @param {(...args: Args) => unknown} action
       * @returns {(...args: Args) => unknown}
       */
      const current =
        (action) =>
        (...args) =>
          mine === job && action(...args);
      live = followRun(on.open(url), known, {
        say: current(on.say),
        ask: current(on.ask),
        lanes: current(on.lanes),
        progress: current(on.progress),
        done: current((/** @type {TraceRef[]} */ refs, /** @type {string|null} */ failed) =>
          finish(refs, failed, runId(url)),
        ),
      });
    },
    destroy() {
      close();
      clearTimeout(doneTimer);
    },
  };
}

/**
 * Follow a run to its end.
 * @param {Stream} source its messages
 * @param {{prompt: string, labels: string[]}} known what the page already knows about it
 * @param {{lanes: (lanes: Lane[]) => void, progress: () => void, say: (text: string|null) => void,
 *   ask: (question: Question|null) => void, done: (refs: TraceRef[], failed: string|null) => void}} on `lanes` reports a new or renamed
 *   lane, `progress` of rounds that were added to the lanes, `ask` of a question to the visitor, `done` comes once and last
 * @returns {{close: () => void}}
 */
function followRun(source, known, on) {
  /** @type {Lane[]} */
  let lanes = [];
  /** @type {string|null} */
  let failed = null;
  let over = false;
  /** @type {string|null} */
  let said = T.connecting;
  /** @type {Map<number, {url?: string, trace?: Trace}>} */
  const finished = new Map();
  /** @param {string|null} text */
  const say = (text) => {
    said = text;
    on.say(text);
  };

  /** @param {string} text */
  const fail = (text) => {
    failed = text;
    say(text);
  };

  /** @param {number} at @param {Extract<Message, {type: "started"}>} message */
  function start(at, message) {
    lanes = started(lanes, at, message, known);
    on.lanes(lanes);
    say(failed);
  }

  /** @param {Message} message */
  function take(message) {
    const { lane = -1 } = message;
    const at = Number.isInteger(lane) && lane >= 0 && lane < MAX_LANES ? lane : null;
    if (message.type === "queued") say(T.queued(Number(message.place) || 1, message.wait_s ?? null));
    else if (message.type === "error") fail(String(message.message ?? T.lost));
    else if (message.type === "started" && at !== null) start(at, message);
    else if (message.type === "ask" && Number.isInteger(message.question)) on.ask(message);
    else if (message.type === "answered") on.ask(null);
    else if (message.type === "step" && at !== null && lanes[at]) addStep(lanes[at], message);
    else if (message.type === "finished" && at !== null && lanes[at]) {
      lanes[at].end = typeof message.end === "string" ? message.end : null;
      finished.set(at, { url: message.trace, trace: message.record });
    } else if (message.type === "done") {
      over = true;
      on.ask(null);
    }
  }

  const stream = listen(source, {
    batch(messages) {
      messages.forEach(take);
      if (lanes.length) on.progress();
      if (over)
        on.done(
          lanes.map((lane, at) => ({ label: lane.label, ...finished.get(at) })),
          failed,
        );
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

/**
 * Listen to a run. Messages repeated after a reconnect are passed on once.
 * @param {Stream} source
 * @param {{batch: (messages: Message[]) => void, connection: (state: "open"|"reconnecting"|"lost") => void}} on
 * @returns {{close: () => void}}
 */
function listen(source, on) {
  let seen = -1;
  /** @type {Message[]} */
  let waiting = [];
  let frame = 0;
  let timer = 0;

  function flush() {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
    frame = timer = 0;
    const messages = waiting;
    waiting = [];
    if (messages.length) on.batch(messages);
  }

  /** @param {string} data */
  function take(data) {
    let message = null;
    try {
      message = JSON.parse(data);
    } catch {
      return; // a truncated message of a broken connection; it will be sent again
    }
    if (message === null || typeof message !== "object") return;
    if (message.type === "done") source.close(); // otherwise the browser would reconnect
    waiting.push(message);
    if (!frame) {
      frame = requestAnimationFrame(flush);
      timer = setTimeout(flush, LATE_MS);
    }
  }

  source.onopen = () => on.connection("open");
  source.addEventListener("waiting", (event) => take(event.data)); // without a number: how long it still takes
  source.onmessage = (event) => {
    const id = /^\d+$/.test(event.lastEventId) ? Number(event.lastEventId) : null;
    if (id !== null) {
      if (id <= seen) return;
      seen = id;
    }
    take(event.data);
  };
  source.onerror = () => {
    if (source.readyState === EventSource.CONNECTING) on.connection("reconnecting");
    else on.connection("lost");
  };

  return {
    close() {
      source.close();
      cancelAnimationFrame(frame);
      clearTimeout(timer);
      waiting = [];
    },
  };
}

/**
 * The lanes with one that has started; those of which only the labels are known are there as well, as none is to change
 * the others' size.
 * @param {Lane[]} lanes
 * @param {number} at
 * @param {Extract<Message, {type: "started"}>} message
 * @param {{prompt: string, labels: string[]}} known
 */
function started(lanes, at, message, { prompt, labels }) {
  const next = lanes.slice();
  while (next.length <= at || next.length < Math.min(labels.length, MAX_LANES)) {
    next.push(emptyLane(labels[next.length] ?? "", prompt, ""));
  }
  const proposer = String(message.proposer ?? "");
  next[at] = {
    ...next[at],
    label: String(message.label ?? labels[at] ?? proposer),
    proposer,
    rule: String(message.rule ?? ""),
    root: String(message.root ?? ""),
  };
  return next;
}
