/**
 * What a pass costs here: T(n) of the target and one of the draft, measured in this browser.
 *
 * @import { Models } from "./lane.js"
 * @typedef {{widths: number[], seconds: number[], draft: number}} Curve
 */

import { Reader } from "./model.js";

export const WIDTHS = [1, 2, 3, 5, 9, 17];
const PREFIX = 128; // tokens before the pass
const TURNS = 5;
const LEAST_MS = 20; // of one measurement, since browsers round their clocks

/** The median over some turns, the widths taken in turn. @param {Models} models @param {() => Promise<void>} pause @returns {Promise<Curve>} */
export async function measured({ target, draft }, pause) {
  const { code } = target;
  const mark = code.mark();
  try {
    const readers = [target, draft].map((model) => new Reader(model, PREFIX, Math.max(...WIDTHS)));
    for (const reader of readers) reader.step(Array.from({ length: PREFIX }, (_, at) => (at * 37 + 11) % 4096));
    /** @type {number[][]} */
    const found = [...WIDTHS, 1].map(() => []);
    for (let turn = 0; turn < TURNS; turn++) {
      for (const [at, width] of [...WIDTHS, 1].entries()) {
        found[at].push(timed(readers[Number(at === WIDTHS.length)], width));
        await pause();
      }
    }
    const medians = found.map((times) => times.sort((one, other) => one - other)[TURNS >> 1]);
    return { widths: WIDTHS, seconds: medians.slice(0, -1), draft: medians[WIDTHS.length] };
  } finally {
    code.release(mark);
  }
}

/** Seconds of a pass. @param {Reader} reader @param {number} width */
function timed(reader, width) {
  const tokens = Array.from({ length: width }, () => 5);
  const parents = tokens.map((_, at) => at - 1);
  const began = performance.now();
  let passes = 0;
  let spent = 0;
  while (spent < LEAST_MS) {
    reader.read(tokens, parents, 0);
    reader.rewind(PREFIX);
    passes += 1;
    spent = performance.now() - began;
  }
  return spent / passes / 1000;
}

/** Tokens per plain pass's time (Leviathan et al. 2023, Theorem 3.8), a pass over γ + 1 tokens costing what was measured. @param {number} alpha @param {number} gamma @param {Curve} curve */
export function modelled(alpha, gamma, { widths, seconds, draft }) {
  const tokens = alpha < 1 ? (1 - alpha ** (gamma + 1)) / (1 - alpha) : gamma + 1;
  const next = Math.max(
    1,
    widths.findIndex((width) => width > gamma),
  ); // T(n) is on a line between measured widths
  const share = (gamma + 1 - widths[next - 1]) / (widths[next] - widths[next - 1]);
  return tokens / ((gamma * draft + seconds[next - 1] + share * (seconds[next] - seconds[next - 1])) / seconds[0]);
}
