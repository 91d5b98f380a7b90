/** The moves that buttons and keys make, as cursors. */

/**
 * @import { Moves } from "./controls.js"
 * @import { Lane } from "../model/model.js"
 * @import { Wanted } from "./reporter.js"
 * @import { Cursor, Placed, View } from "../model/state.js"
 */

import { leader, placed } from "../model/state.js";
import { byEvent, byRound, ledBy, shownStop } from "../model/walk.js";

/**
 * The cursor at the end of a round.
 * @param {Cursor} cursor
 * @param {number} stop
 * @returns {Cursor}
 */
export function whole(cursor, stop) {
  return { ...cursor, stop, event: null, selection: null };
}

/**
 * The cursor that the page requests, within its bounds.
 * @param {Lane[]} lanes
 * @param {Wanted} wanted
 * @returns {Cursor}
 */
export function wantedAt(lanes, wanted) {
  const at = placed(lanes, wanted);
  const round = Math.min(at.stop, lanes[at.lead]?.rounds.length ?? 0) - 1;
  return {
    ...at,
    selection: wanted.node === null || round < 0 ? null : { lane: at.lead, round, node: wanted.node },
  };
}

/**
 * From a round that is looked back at, they go on from there.
 * @param {{lanes: Lane[], cursor: Cursor, view: View|null, go: (cursor: Cursor) => void}} on what is shown now, and what moves it
 * @returns {Omit<Moves, "play"|"speed">}
 */
export function createMoves(on) {
  /** @param {number} stop */
  const to = (stop) => on.go(whole(on.cursor, stop));
  const here = () => {
    const stop = on.view ? shownStop(on.view) : on.cursor.stop;
    return stop < on.cursor.stop ? whole(on.cursor, stop) : on.cursor;
  };
  return {
    first: () => to(0),
    previous: () => on.go(byRound(on.lanes, here(), -1)),
    back: () => on.go(byEvent(on.lanes, here(), -1)),
    step: () => on.go(byEvent(on.lanes, here(), 1)),
    next: () => on.go(byRound(on.lanes, here(), 1)),
    last: () => to(Infinity),
    scrub: to,
  };
}

/**
 * To the same time in another lane; back in a lane that was left, to the place where it was left, unless the cursor has
 * been moved since.
 * @returns {(lanes: Lane[], cursor: Cursor, view: View, lane: number) => Cursor}
 */
export function createLeading() {
  /** @type {Map<number, Placed>} where each lane was left */
  const left = new Map();
  let reached = ""; // the last lane that was gone to, and where in it
  return (lanes, cursor, view, lane) => {
    const from = placed(lanes, cursor);
    if (JSON.stringify(from) !== reached) left.clear();
    left.set(from.lead, from);
    const to = placed(lanes, left.get(leader(lanes, lane)) ?? ledBy(lanes, view, lane));
    reached = JSON.stringify(to);
    return to;
  };
}
