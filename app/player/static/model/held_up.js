/** Passes of the target that something else held up: another program, or the first run of models just loaded. As in
 * `specdec_measure/analysis/slow_passes.py`. */

/** @import { Trace } from "../../types.js" */

import { list, number } from "./model.js";

const TIMES = 2; // as long as usual, at least
const FEWEST = 5; // passes that are compared
const WORTH = 0.05; // of a lane's time

/** @type {Set<unknown>} */
const UNREAD = new Set(["pruned", "discarded"]);

/** @type {WeakMap<Trace, boolean>} by record, whether that is said of it */
const slowed = new WeakMap();

/** @type {WeakMap<Trace, number>} the usual seconds of a record's passes, whatever their width */
const known = new WeakMap();

/**
 * The usual time of a pass that took several times as long as others of its lane over at least as many tokens; null of any other.
 * @param {Trace} trace
 * @param {number} index of its round
 * @returns {number|null} seconds
 */
export function usualInstead(trace, index) {
  const rounds = list(trace.rounds);
  const took = number(rounds[index]?.verify_s) ?? 0;
  if (!known.has(trace)) known.set(trace, middle(rounds.map((row) => number(row?.verify_s) ?? 0)));
  if (took < TIMES * (known.get(trace) ?? 0)) return null; // so that only few are looked at closely
  // what the target read, as `Round.width` counts it but for the root
  const widthOf = (/** @type {number} */ at) =>
    list(rounds[at]?.nodes?.token).length -
    list(rounds[at]?.nodes?.verdict).filter((verdict) => UNREAD.has(verdict)).length +
    (number(rounds[at]?.riders) ?? 0);
  const others = rounds.flatMap((row, at) =>
    at !== index && widthOf(at) >= widthOf(index) ? [number(row?.verify_s) ?? 0] : [],
  );
  const usual = middle(others);
  return others.length >= FEWEST && usual > 0 && took >= TIMES * usual ? usual : null;
}

/**
 * Whether passes that were held up took a notable part of a lane's time; as in app/running/why.py.
 * @param {import("./model.js").Lane} lane
 */
export function wasHeldUp({ trace, untimed, rounds }) {
  if (!trace || untimed) return false;
  const known = slowed.get(trace);
  if (known !== undefined) return known;
  const lost = list(trace.rounds).reduce((sum, row, at) => {
    const usual = usualInstead(trace, at);
    return usual === null ? sum : sum + (number(row?.verify_s) ?? 0) - usual;
  }, 0);
  const found = lost > 0 && lost >= WORTH * (rounds.at(-1)?.end ?? 0);
  slowed.set(trace, found);
  return found;
}

/** @param {number[]} values */
function middle(values) {
  return [...values].sort((one, other) => one - other)[Math.floor(values.length / 2)] ?? 0;
}
