/** How a replay opens that nobody has walked through: it plays by itself or not, and then stands on its most informative round. */

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

const REST_MS = 2_500; // how long the end of what played by itself is shown

/**
 * @param {{now: () => {lanes: Lane[], cursor: Cursor, least: number|undefined}, move: (cursor: Cursor) => void,
 *   hint: (text: string, why: string) => void, whole: (ratios: (number|null)[]) => void}} on `whole` names what the whole
 *   run gave each lane
 */
export function createOpening(on) {
  let slow = false; // whether playing begins with a round in slow motion
  let alone = false; // whether it plays without having been asked to
  let rest = 0;

  function name() {
    const { lanes, cursor, least } = on.now();
    on.whole(visible(lanes, whole(cursor, Infinity), least).lanes.map((lane) => lane.speedup));
  }

  /** @returns {boolean} whether it has an informative round */
  function stand() {
    const { lanes, cursor, least } = on.now();
    const lane = lanes[leader(lanes, cursor.lead)];
    const stop = openingRound(lane, least);
    on.move(whole(cursor, stop ?? Infinity));
    if (stop === null) return false;
    if (stop < lastStop(lanes, cursor.lead)) on.hint(T.opened(shownBy(lane.rounds[stop - 1])), T.openedWhy);
    return true;
  }

  return {
    /**
     * @param {boolean} playing whether it will play by itself
     * @param {boolean} standing whether nobody has named a place in it
     * @param {boolean} measured whether the figure of the whole run is named in any case
     */
    begin(playing, standing, measured) {
      clearTimeout(rest);
      alone = playing;
      slow = playing && isNew();
      if ((standing && !playing && stand()) || measured) name();
    },
    /** The next step of playing. @param {number} speed */
    next(speed) {
      const { lanes, cursor } = on.now();
      return (slow && slowly(lanes, cursor)) || paced(lanes, cursor, speed);
    },
    /** Playing ended or was interrupted: a race that nobody touched goes back to its most informative round. */
    paused() {
      const { lanes, cursor } = on.now();
      if (!alone) return;
      alone = false;
      if (paced(lanes, cursor, 1)) return; // interrupted
      clearTimeout(rest);
      rest = setTimeout(() => {
        if (on.now().cursor === cursor && stand()) name();
      }, REST_MS);
    },
    /** The viewer is at work: the round stays. */
    stay: () => clearTimeout(rest),
    destroy: () => clearTimeout(rest),
  };
}
