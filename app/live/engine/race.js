/**
 * Lanes on one prompt, each on its own clock; the lane that is behind computes next. Reports what happens as the app's event
 * streams do, so that the player follows it.
 *
 * @import { Message } from "../../player/types.js"
 * @import { Models, Start, Wanted } from "./lane.js"
 */

import { identity, Lane } from "./lane.js";

/**
 * @param {Models} models
 * @param {Start} start
 * @param {Wanted[]} lanes
 * @param {{say: (message: Message) => void, ask: (text: string, lane: number) => Promise<string>, cancelled: () => boolean,
 *   pause: () => Promise<void>}} on `pause` lets messages from outside arrive
 */
export async function race(models, start, lanes, on) {
  const { code } = models.target;
  const mark = code.mark();
  try {
    const race = lanes.length > 1 ? identity() : null;
    const made = lanes.map((settings, at) => new Lane(models, start, settings, at, (text) => on.ask(text, at)));
    for (const lane of made) on.say(lane.begin());
    const going = new Set(made);
    while (going.size && !on.cancelled()) {
      const lane = [...going].reduce((one, other) => (other.clock < one.clock ? other : one));
      const step = await lane.round(on.cancelled);
      if (step) on.say(step);
      if (lane.end) going.delete(lane);
      await on.pause();
    }
    const traces = made.map((lane) => lane.trace(race ? { id: race, lane: lane.number, lanes: lanes.length } : null));
    for (const [at, trace] of traces.entries())
      on.say({ type: "finished", lane: at, end: trace.end, label: made[at].label(), record: trace });
    on.say({ type: "done" });
    return traces;
  } finally {
    code.release(mark);
  }
}
