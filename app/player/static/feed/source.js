/** A picture's source: addresses, fetching, and whether two requests mean the same. */

/**
 * @import { Rules, Trace } from "../../types.js"
 * @import { PageCursor } from "../cursor/reporter.js"
 * @import { Stream } from "./feed.js"
 */

import { T } from "../text/text.js";

/**
 * @typedef {{label: string, url?: string, trace?: Trace}} TraceRef
 * @typedef {{mode: "live"|"replay", events: string|null, traces: TraceRef[], provenance: string, provenance_note: string,
 *   cursor: Partial<PageCursor>, autoplay: boolean, prompt?: string|null, least?: number, of?: string,
 *   rules?: Rules, proposers?: Record<string, string>, present?: boolean, view_first?: boolean, compared?: boolean,
 *   addressed?: boolean, branches?: boolean, trail?: {run: string, text: string|null, shown: boolean}[]}} Data `present`: for an audience; `view_first`: then the view is above the lane; `addressed`: the cursor is kept in the page's
 *   own address; `branches`: one can go on from a candidate; `trail`: runs that go on from each other, with the token that each began with; `compared` is false if the lanes come from separate runs, so that there is no speedup between them
 */

/**
 * @typedef {object} Api receives the cursor and the end of a run
 * @property {(name: string, value: PageCursor & {of?: string}) => void} [setStateValue]
 * @property {(name: string, value: string) => void} [setTriggerValue]
 * @property {() => Stream} [open] the messages of a run, where they do not come from a server
 * @property {(trace: Trace, at: number, token: number) => void} [branch] goes on from a trace, after so many of its tokens, with
 *   this one
 * @property {(run: string) => void} [back] shows a run of the trail again
 * @property {(question: number, words: string) => Promise<string|null>} [answer] likewise takes a visitor's words
 */

/** @param {string} path an address below the app's root, with or without a leading slash */
export function address(path) {
  const own = import.meta.url; // one file of all modules, or this module in its folder
  return new URL(String(path).replace(/^\/+/, ""), own.slice(0, own.lastIndexOf("/player/") + 1)).href;
}

/**
 * What `data` shows, as one string: the same name means the same picture.
 * @param {Pick<Data, "mode"|"traces"> & Partial<Data>} data
 */
export function nameOf(data) {
  if (data.mode === "live" && data.events) return `live ${data.events}`;
  const names = (data.traces ?? []).map(
    ({ label, url, trace }) => `${label}=${url ?? `${trace?.header?.id}/${trace?.header?.created}`}`,
  );
  return `replay ${names.join(" ")}`;
}

/**
 * The id of the run in an event stream's address; the address itself if it has another form.
 * @param {string} events
 */
export function runId(events) {
  return /runs\/([^/]+)\//.exec(events)?.[1] ?? events;
}

/**
 * Submit the visitor's words to the run whose event stream is `events`.
 * @param {string} events
 * @param {number} question
 * @param {string} words
 * @returns {Promise<string|null>} a sentence if they were not taken
 */
export async function answer(events, question, words) {
  try {
    const body = JSON.stringify({ question, words });
    const reply = await fetch(address(events.replace(/events(?=$|\?)/, "answer")), { method: "POST", body });
    return reply.status === 204 ? null : String((await reply.json()).error);
  } catch {
    return T.lost;
  }
}

/**
 * The traces that `refs` name.
 * @param {TraceRef[]} refs
 * @returns {Promise<{label: string, trace: Trace}[]>}
 * @throws when one cannot be fetched or is not JSON
 */
export function fetchTraces(refs) {
  return Promise.all(
    refs.map(async ({ label, url, trace }) => {
      if (trace) return { label, trace };
      const answer = await fetch(address(String(url)));
      if (!answer.ok) throw new Error(`the trace's address answered ${answer.status}`);
      return { label, trace: await answer.json() };
    }),
  );
}
