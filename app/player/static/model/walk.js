/** Cursor moves: event by event, round by round, to another lane, and the delays of playback. Pure. */

/**
 * @import { Lane } from "./model.js"
 * @import { Cursor, Selection, View } from "./state.js"
 */

import { momentsOf } from "./moments.js";
import { endedBy, lastStop, leader, neighbour, placed, visible } from "./state.js";

export const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];
export const ROUND_MS = 1_000; // at 1×, drafting and checking of an average round together
const EVENT_MS = 150; // at 1×, how long an event is visible at least
const LONGEST = 2.5; // a round longer than this many average ones is cut short
const SHORTEST = 0.4;
const PERFORMANCE_MS = 16_000; // how long a whole run may take when the page starts it by itself

/**
 * One event forward or back.
 * @param {Lane[]} lanes
 * @param {Cursor} cursor
 * @param {1|-1} by
 * @returns {Cursor}
 */
export function byEvent(lanes, cursor, by) {
  const { stop, event, lead } = placed(lanes, cursor);
  /** @param {number} next @param {number|null} inside */
  const at = (next, inside) => placed(lanes, { stop: next, event: inside, selection: null, lead });
  if (by > 0 && event !== null) return at(stop, event + 1);
  if (by > 0) return stop < lastStop(lanes, lead) ? at(stop + 1, 0) : at(stop, null);
  if (event !== null) return event > 0 ? at(stop, event - 1) : at(stop - 1, null);
  const round = lanes[lead]?.rounds[stop - 1];
  const steps = round ? momentsOf(lanes[lead], round).length : 0;
  return steps > 1 ? at(stop, steps - 2) : at(stop - 1, null);
}

/**
 * One round forward or back: from within a round to its end or to its beginning.
 * @param {Lane[]} lanes
 * @param {Cursor} cursor
 * @param {1|-1} by
 * @returns {Cursor}
 */
export function byRound(lanes, cursor, by) {
  const { stop, event, lead } = placed(lanes, cursor);
  const next = by > 0 && event !== null ? stop : stop + by;
  return placed(lanes, { stop: next, event: null, selection: null, lead });
}

/**
 * To the next or previous token; forward also into the next round.
 * @param {Lane[]} lanes
 * @param {Cursor} cursor
 * @param {View} view what is seen at the cursor
 * @param {1|-1} by
 * @returns {(Cursor & {selection: Selection})|null} null where there is none
 */
export function byNode(lanes, cursor, view, by) {
  const { focus } = view;
  if (!focus) return null;
  const beside = view.chosen ? neighbour(view, focus, by) : focus;
  if (beside) return { ...cursor, selection: beside };
  if (by < 0 || focus.lane !== view.lead || view.event !== null || view.stop >= view.last) return null;
  const further = { ...cursor, stop: view.stop + 1, event: null, selection: null };
  const first = neighbour(visible(lanes, further), focus, by);
  return first && { ...further, selection: first };
}

/**
 * The same time in another lane.
 * @param {Lane[]} lanes
 * @param {View} view
 * @param {number} lane
 * @returns {Cursor}
 */
export function ledBy(lanes, view, lane) {
  const lead = leader(lanes, lane);
  const stop = view.atEnd ? lastStop(lanes, lead) : endedBy(lanes[lead]?.rounds ?? [], view.clock);
  return placed(lanes, { stop: view.stop === 0 ? 0 : stop, event: null, selection: null, lead });
}

/**
 * The round of a lane that a time of the clock lies in, as a whole.
 * @param {Lane[]} lanes
 * @param {number} lane
 * @param {number} clock seconds
 * @returns {Cursor}
 */
export function roundOfClock(lanes, lane, clock) {
  const rounds = lanes[lane]?.rounds ?? [];
  return placed(lanes, {
    stop: Math.min(endedBy(rounds, clock) + 1, rounds.length),
    event: null,
    selection: null,
    lead: lane,
  });
}

/**
 * The moment of the leading lane at a time of its clock: the phase in progress.
 * @param {Lane[]} lanes
 * @param {number} lead
 * @param {number} clock seconds
 * @returns {Cursor}
 */
export function atClock(lanes, lead, clock) {
  const rounds = lanes[lead]?.rounds ?? [];
  const done = endedBy(rounds, clock);
  if (done >= rounds.length)
    return placed(lanes, { stop: lastStop(lanes, lead), event: null, selection: null, lead });
  if (clock <= 0) return placed(lanes, { stop: 0, event: null, selection: null, lead });
  const list = momentsOf(lanes[lead], rounds[done]);
  const reached = list.findLastIndex((item) => item.clock <= clock);
  return placed(
    lanes,
    reached < 0
      ? { stop: done, event: null, selection: null, lead }
      : { stop: done + 1, event: reached, selection: null, lead },
  );
}

/**
 * What playback shows next, and after what delay. Up to 1× it goes event by event, faster round by round; the clock
 * is stretched until an average round takes ROUND_MS.
 * @param {Lane[]} lanes
 * @param {Cursor} cursor
 * @param {number} speed
 * @returns {{cursor: Cursor, ms: number}|null} null at the end
 */
export function paced(lanes, cursor, speed) {
  const from = placed(lanes, cursor);
  const lane = lanes[from.lead];
  if (!lane || (from.stop === lastStop(lanes, from.lead) && from.event === null)) return null;
  const next = speed > 1 ? byRound(lanes, from, 1) : byEvent(lanes, from, 1);
  const mean = meanRound(lane);
  const share =
    mean > 0 && next.stop <= lane.rounds.length ? (clockAt(lane, next) - clockAt(lane, from)) / mean : 1;
  const ms = Math.max(speed > 1 ? SHORTEST * ROUND_MS : EVENT_MS, Math.min(share, LONGEST) * ROUND_MS);
  return { cursor: next, ms: ms / speed };
}

/**
 * The speed that shows a whole run in good time.
 * @param {number} rounds
 */
export function speedFor(rounds) {
  return (
    SPEEDS.find((value) => value >= 1 && (ROUND_MS * rounds) / value <= PERFORMANCE_MS) ??
    SPEEDS[SPEEDS.length - 1]
  );
}

/**
 * Seconds of an average round of a lane.
 * @param {Lane|undefined} lane
 */
export function meanRound(lane) {
  return lane?.rounds.length ? lane.rounds[lane.rounds.length - 1].end / lane.rounds.length : 0;
}

/** @param {Lane} lane @param {{stop: number, event: number|null}} at */
function clockAt(lane, { stop, event }) {
  const round = lane.rounds[stop - 1];
  if (!round) return 0;
  return event === null ? round.end : momentsOf(lane, round)[event].clock;
}

/**
 * The stop whose round is shown: the cursor's, or the one that is looked back at.
 * @param {Pick<View, "stop"|"current"|"chosen"|"event">} view
 */
export function shownStop({ stop, current, chosen, event }) {
  return chosen && event === null && current ? Math.min(stop, current.index + 1) : stop;
}
