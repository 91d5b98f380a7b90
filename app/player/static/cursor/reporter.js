/** The cursor between player and page: its form in the page's address, and when the page receives it. */

/** @import { View } from "../model/state.js" */

import { NAMES } from "./panels.js";
import { nonNull } from "../dom/non_null.js";

const REPLACED_MS = 10_000;
const REST_MS = 400; // how long the cursor rests before it is written to the page's address

/**
 * @typedef {{round: number|null, step: number|null, node: number|null, lead: number|null, view: string|null}} PageCursor `step` is the
 *   event within the round (null: the whole round), `lead` the leading lane (null: the last), `view` the open one
 * @typedef {{stop: number|null, event: number|null, node: number|null, lead: number|null, view: string|null}} Wanted what the page requests
 */

/** @param {unknown} value */
function whole(value) {
  return typeof value === "number" && Number.isInteger(value) ? value : null;
}

/**
 * What the page requests; anything odd counts as missing.
 * @param {Partial<PageCursor>|null|undefined} cursor
 * @returns {Wanted}
 */
export function cursorOf(cursor) {
  const { round, step, node, lead, view } = cursor ?? {};
  return {
    stop: whole(round),
    event: whole(step),
    node: whole(node),
    lead: whole(lead),
    view: NAMES.find((name) => name === view) ?? null,
  };
}

/**
 * The cursor as the page knows it; a selection in an earlier round is that round's moment.
 * @param {View} view
 * @param {string|null} panel
 * @returns {PageCursor}
 */
export function published(view, panel) {
  const selection = view.chosen && view.focus?.lane === view.lead ? view.focus : null;
  const round = selection ? selection.round + 1 : view.stop;
  return {
    round,
    step: round === view.stop ? view.event : null,
    node: selection ? selection.node : null,
    lead: view.lead === view.lanes.length - 1 ? null : view.lead,
    view: panel,
  };
}

/** @type {{of: string|undefined, asked: string, value: PageCursor, at: number}|null} where the viewer moved last, in whichever player */
let replaced = null;

/**
 * Reports to the page where the cursor rests, but only for the viewer's moves: playing itself leaves the address alone.
 * @param {HTMLElement} box where gestures count as the viewer's
 * @param {{value: () => PageCursor|null, named: () => [string|undefined, string], say: (value: PageCursor) => void}} on `value` is null while there is
 *   nothing to report; `named` is the run, and the cursor that the page names
 */
export function createReporter(box, on) {
  let touched = false;
  let resuming = false; // whether it goes on from a player that was replaced
  let timer = 0;
  let last = "";
  /** @type {string[]} */
  let reports = []; // reported and possibly still to be handed back: the page responds late, with what it knew before
  for (const gesture of ["pointerdown", "keydown"])
    box.addEventListener(gesture, () => (touched = true), { capture: true });

  /** The page may mount the player that replaces this one before it removes this one. */
  function keep() {
    const value = touched ? on.value() : null;
    const [of, asked] = on.named();
    if (value !== null) replaced = { of, asked, value, at: performance.now() };
  }

  function report() {
    const value = touched ? on.value() : null;
    if (value === null || JSON.stringify(value) === last) return;
    last = JSON.stringify(value);
    reports.push(last);
    on.say(value);
  }

  return {
    soon() {
      keep();
      clearTimeout(timer);
      timer = setTimeout(report, REST_MS);
    },
    /** The viewer moved by a gesture outside of the box. */
    touch() {
      touched = true;
    },
    /**
     * Where to begin instead: where a player of the same run stands that the page replaces by this one, as on leaving
     * a presentation, if the page still names what it did then. What that one reported last may be lost with it.
     */
    resumed() {
      const [of, asked] = on.named();
      resuming =
        replaced !== null &&
        of !== undefined &&
        replaced.of === of &&
        replaced.asked === asked &&
        performance.now() - replaced.at < REPLACED_MS;
      return resuming ? nonNull(replaced).value : null; // and so may the next one, if this one is replaced before it has read its run
    },
    /** The page itself set the cursor: nothing to report before the viewer moves. */
    forget() {
      touched = resuming;
      if (resuming) report(); // the page does not know it yet
      resuming = false;
      last = JSON.stringify(on.value());
      reports = [last];
    },
    /**
     * Whether this was reported to the page, and nothing later was handed back yet.
     * @param {Wanted} wanted
     */
    reported(wanted) {
      const at = reports.lastIndexOf(
        JSON.stringify({
          round: wanted.stop,
          step: wanted.event,
          node: wanted.node,
          lead: wanted.lead,
          view: wanted.view,
        }),
      );
      reports = reports.slice(Math.max(at, 0));
      return at >= 0;
    },
    destroy: () => clearTimeout(timer),
  };
}
