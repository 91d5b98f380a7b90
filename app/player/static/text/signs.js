/** What is the same in every language: invisible characters as signs, probabilities, the marks of verdicts. */

/** @import { Seen, Source } from "../../types.js" */

/**
 * Text on one line: line breaks, tabs, and otherwise invisible spaces as signs.
 * @param {string} text
 */
export function flat(text) {
  /** @param {string} run */
  const spaces = (run) => (run.length > 4 ? `␣×${run.length}` : "␣".repeat(run.length));
  return text
    .replace(/\r?\n|\r/g, "⏎")
    .replace(/\t/g, "⇥")
    .replace(/ {2,}| $| (?=[⏎⇥])|(?<=[⏎⇥]) /g, spaces);
}

/**
 * A probability with three decimals; one that rounds to zero says so.
 * @param {number|null|undefined} value
 */
export function prob(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "—";
  if (value > 0 && value < 0.0005) return "< 0.001";
  if (value >= 0.9995) return value < 1 ? "> 0.999" : "1"; // exactly: nothing else can be
  return value.toFixed(3);
}

/**
 * A probability that is compared with another: with more decimals where both would look the same.
 * @param {number} value
 * @param {number} other
 */
export function apart(value, other) {
  return value !== other && prob(value) === prob(other) ? value.toPrecision(7) : prob(value);
}

/**
 * What a probability lies below, of which only a bound is known: rounded up, since the bound itself may be reached.
 * @param {number} bound
 */
export function below(bound) {
  const next = (Math.floor(bound * 1000) + 1) / 1000;
  return next < 1 ? `< ${next.toFixed(3)}` : "—";
}

/** @type {Record<Exclude<Seen, "absent">|Source|"again"|"parted", string> & {absent?: string}} */
export const MARK = {
  accepted: "✓",
  corrected: "↻",
  bonus: "★",
  plain: "",
  unknown: "?",
  rejected: "✗",
  waiting: "○",
  unreached: "·",
  pruned: "–",
  cut: "┤",
  discarded: "∅",
  again: "↺",
  parted: "≠",
};

/**
 * A wait in whole seconds, of which nobody needs the last few to be exact: beyond ten a multiple of five.
 * @param {number} wait
 */
export function roughly(wait) {
  return wait > 10 ? 5 * Math.round(wait / 5) : Math.max(1, Math.round(wait));
}
