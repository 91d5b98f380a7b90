/** How a replay opens that nobody has walked through: it plays by itself to its end, or stands on the round that tells its story. */

/**
 * @import { Lane } from "../model/model.js"
 * @import { Cursor } from "../model/state.js"
 */

import { isNew, slowly } from "./first_round.js";
import { whole } from "./moves.js";
import { lastStop, leader, visible } from "../model/state.js";
import { openingRound, shownBy } from "../model/opening_round.js";
import { T } from "../text/text.js";
import { paced } from "../model/walk.js";

/**
 * @param {{now: () => {lanes: Lane[], cursor: Cursor, least: number|undefined}, move: (cursor: Cursor) => void,
 *   hint: (text: string, why: string) => void, whole: (ratios: (number|null)[]) => void}} on `whole` names what the whole
 *   run gave each lane
 */
export function createOpening(on) {
  let slow = false; // whether playing begins with a round in slow motion

  /** @returns what the whole run gave each lane */
  function ratios() {
    const { lanes, cursor, least } = on.now();
    return visible(lanes, whole(cursor, Infinity), least).lanes.map((lane) => lane.speedup);
  }

  /** @returns {boolean} whether it has an informative round */
  function stand() {
    const { lanes, cursor, least } = on.now();
    const at = leader(lanes, cursor.lead);
    const lost = (ratios()[at] ?? 1) < 1;
    const stop = openingRound(lanes[at], least, lost);
    on.move(whole(cursor, stop ?? Infinity));
    if (stop === null) return false;
    if (stop < lastStop(lanes, cursor.lead)) {
      const round = lanes[at].rounds[stop - 1];
      const counted = round.tokens.at(-1)?.source !== "unknown"; // else nobody knows how many guesses there were
      on.hint(T.opened({ ...shownBy(round), lost: lost && counted }), T.openedWhy);
    }
    return true;
  }

  return {
    /**
     * @param {boolean} playing whether it will play by itself
     * @param {boolean} standing whether nobody has named a place in it
     * @param {boolean} measured whether the figure of the whole run is named in any case
     */
    begin(playing, standing, measured) {
      slow = playing && isNew();
      if ((standing && !playing && stand()) || measured) on.whole(ratios());
    },
    /** The next step of playing. @param {number} speed */
    next(speed) {
      const { lanes, cursor } = on.now();
      return (slow && slowly(lanes, cursor)) || paced(lanes, cursor, speed);
    },
  };
}
