/** Where what is drawn comes from: the records of a finished run, or a run that is followed until it has left some. */

/**
 * @import { Question, Trace } from "../types.js"
 * @import { Lane } from "./model.js"
 * @import { TraceRef } from "./source.js"
 */

import { followRun } from "./run.js";
import { address, fetchTraces, runId } from "./source.js";
import { T } from "./text.js";

const TRIGGER_MS = 500; // triggers sent while a component is being mounted can be lost

/** @typedef {{label: string, trace: Trace}[]} Traces */

/**
 * @param {{say: (text: string|null) => void, ask: (question: Question|null) => void, lanes: (lanes: Lane[]) => void, progress: () => void,
 *   recordOf: (lane: number) => string|undefined, recorded: (refs: TraceRef[], traces: Traces, failed: string|null) => Promise<void>,
 *   unrecorded: () => void, idle: () => Promise<void>, done: (run: string) => void}} on `idle`: resolves once records may
 *   replace what is shown; `recordOf`: the address of a lane's record that the run did
 *   not name; `recorded`: a followed run is over and here are its records; `unrecorded`: or there are none and no reason
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
    const refs = given.map(({ label, url }, at) => ({ label, url: url ?? on.recordOf(at) }));
    if (refs.length && refs.every((ref) => ref.url)) await read(refs, (traces) => on.recorded(refs, traces, failed));
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
      const current = (action) => (...args) => mine === job && action(...args);
      live = followRun(address(url), known, {
        say: current(on.say),
        ask: current(on.ask),
        lanes: current(on.lanes),
        progress: current(on.progress),
        done: current((/** @type {TraceRef[]} */ refs, /** @type {string|null} */ failed) => finish(refs, failed, runId(url))),
      });
    },
    destroy() {
      close();
      clearTimeout(doneTimer);
    },
  };
}
