/**
 * The first round of a visitor's first run, in slow motion: guessed, checked, judged one by one, committed. Then the run
 * is shown in real time, also what ran meanwhile. The browser remembers that it was seen; those who prefer no motion never
 * see it.
 */

/**
 * @import { Lane } from "../model/model.js"
 * @import { Phase } from "../model/moments.js"
 * @import { Cursor } from "../model/state.js"
 */

import { momentsOf } from "../model/moments.js";
import { placed } from "../model/state.js";
import { byEvent } from "../model/walk.js";

const KEY = "specdec-first-round"; // in the browser's storage
const SOON_MS = 300;
const LATEST_MS = 8_000; // after the slow round; what is left then is shown at once
/** @type {Record<Phase, number>} how long each moment is shown */
const SHOWN_MS = { proposed: 1_200, verified: 1_000, judged: 600, committed: 900 };

/** Whether the visitor has still to see a round in slow motion. */
export function isNew() {
  try {
    return !matchMedia("(prefers-reduced-motion: reduce)").matches && localStorage.getItem(KEY) === null;
  } catch {
    return false; // a page without storage would show it each time
  }
}

function remember() {
  try {
    localStorage.setItem(KEY, "seen");
  } catch {
    // not remembered
  }
}

/**
 * The next moment in slow motion, and after what delay.
 * @param {Lane[]} lanes
 * @param {Cursor} cursor
 * @returns {{cursor: Cursor, ms: number}|null} null once the first round with a guess is over
 */
export function slowly(lanes, cursor) {
  const { stop, event, lead } = placed(lanes, cursor);
  const rounds = lanes[lead]?.rounds ?? [];
  const first = rounds.findIndex((round) => round.proposals.length > 0);
  if (first < 0 || stop > first + 1 || (stop === first + 1 && event === null)) return null;
  const phase = event === null ? null : momentsOf(lanes[lead], rounds[stop - 1])[event].phase;
  return { cursor: byEvent(lanes, cursor, 1), ms: phase ? SHOWN_MS[phase] : SOON_MS };
}

/**
 * The round after the cursor's, and how long it took.
 * @param {Lane[]} lanes
 * @param {Cursor} cursor
 * @returns {{cursor: Cursor, ms: number}|null} null where there is none yet
 */
function inRealTime(lanes, cursor) {
  const { stop, lead } = placed(lanes, cursor);
  const round = lanes[lead]?.rounds[stop];
  return round
    ? {
        cursor: { stop: stop + 1, event: null, selection: null, lead },
        ms: (round.end - round.times.start) * 1000,
      }
    : null;
}

/**
 * The slow round of a live run; what arrives meanwhile is shown afterwards.
 * @param {{now: () => [Lane[], number|null], show: (cursor: Cursor) => void, over: () => void}} on
 */
export function createFirstRound(on) {
  let begun = false;
  let timer = 0;
  let until = 0; // when real time ends at the latest
  /** @type {(() => void)[]} */
  const waiting = [];

  /** @param {Cursor} cursor */
  function show(cursor) {
    on.show(cursor);
    const next = slowly(on.now()[0], cursor);
    timer = setTimeout(() => (next ? show(next.cursor) : follow(cursor)), next?.ms ?? SHOWN_MS.committed);
  }

  /**
   * Round after round, each for as long as it took, until the run is caught up with.
   * @param {Cursor} cursor
   */
  function follow(cursor) {
    remember();
    const [lanes] = on.now();
    until ||= performance.now() + LATEST_MS;
    const next = inRealTime(lanes, cursor);
    if (!next || performance.now() > until) return finish();
    on.show(next.cursor);
    timer = setTimeout(() => follow(next.cursor), next.ms);
  }

  function finish() {
    stop();
    on.over();
  }

  function stop() {
    clearTimeout(timer);
    timer = until = 0;
    for (const go of waiting.splice(0)) go();
  }

  return {
    /** Begin once the first guess has come; at most once for a run. */
    begin() {
      if (begun || timer || !isNew()) return;
      const [lanes, lead] = on.now();
      const at = placed(lanes, { stop: 0, event: null, lead }).lead;
      const first = lanes[at]?.rounds.findIndex((round) => round.proposals.length > 0) ?? -1;
      if (first < 0) return;
      begun = true;
      show(placed(lanes, { stop: first + 1, event: 0, lead: at }));
    },
    isRunning: () => timer !== 0,
    /** Resolves once nothing of it is shown any more. */
    over: () =>
      new Promise((/** @type {(value: void) => void} */ resolve) =>
        timer ? waiting.push(resolve) : resolve(),
      ),
    /** Another run: drop it. */
    reset() {
      begun = false;
      stop();
    },
  };
}
