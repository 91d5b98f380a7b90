/** Where two lanes' texts part. */

/**
 * @import { Lane } from "./model.js"
 * @import { LaneView } from "./state.js"
 */

/**
 * @typedef {{round: number, at: number}} Fork the token at which a lane's text departs from another's: round and place
 */

/** @type {WeakMap<Lane, WeakMap<Lane, (Fork & {other: number})|null>>} where their whole texts part; each pair is compared once */
const parted = new WeakMap();

/**
 * The fork of a lane from the baseline, once both have written it; null before, and while one text begins the other.
 * @param {LaneView} view
 * @param {LaneView} plain
 * @returns {Fork|null}
 */
export function forkOf(view, plain) {
  if (!view.lane.trace || !plain.lane.trace || view.lane.prompt !== plain.lane.prompt) return null; // live lanes grow
  const known = parted.get(view.lane) ?? new WeakMap();
  parted.set(view.lane, known);
  if (!known.has(plain.lane)) known.set(plain.lane, part(view.lane, plain.lane));
  const found = known.get(plain.lane);
  return found && found.round < view.rounds.length && found.other < plain.rounds.length ? found : null;
}

/**
 * Whether several finished lanes of one prompt wrote the same text.
 * @param {Lane[]} lanes
 */
export function sameText(lanes) {
  const [first, ...others] = lanes;
  return (
    others.length > 0 &&
    lanes.every((lane) => lane.trace && lane.prompt === first.prompt) &&
    others.every((lane) => textOf(lane) === textOf(first))
  );
}

/** @param {Lane} lane @param {Lane} plain */
function part(lane, plain) {
  const one = textOf(lane);
  const other = textOf(plain);
  let at = 0;
  while (at < one.length && one[at] === other[at]) at += 1;
  if (at === one.length || at === other.length) return null;
  return { ...tokenAt(lane, at), other: tokenAt(plain, at).round };
}

/** @param {Lane} lane */
function textOf(lane) {
  return lane.rounds.flatMap((round) => round.tokens.map((token) => token.text)).join("");
}

/**
 * The token that contains a character of the text.
 * @param {Lane} lane
 * @param {number} character
 */
function tokenAt(lane, character) {
  let length = 0;
  for (const round of lane.rounds) {
    for (const [at, token] of round.tokens.entries()) {
      length += token.text.length;
      if (length > character) return { round: round.index, at };
    }
  }
  return { round: 0, at: 0 };
}
