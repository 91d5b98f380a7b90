/** The words of the odds. */

/**
 * @import { Seen } from "../../types.js"
 * @import { Criterion } from "../odds/odds.js"
 */

import { apart, equals, prob, texts } from "./format.js";
import { MESSAGES } from "./messages.js";
import { VERDICT } from "./text.js";

const odds = texts(MESSAGES.odds);

/** @typedef {Record<string, (siblings: number) => string>} ByRule */

/**
 * The threshold of typical acceptance; its value where the record has all of it.
 * @param {Criterion} criterion
 */
function thresholdName({ options: { epsilon, delta }, entropy }) {
  /** @param {unknown} value @param {string} sign */
  const given = (value, sign) => (typeof value === "number" ? prob(value) : sign); // a record omits defaults
  const name = `min(${given(epsilon, "ε")}, ${given(delta, "δ")}·exp(−H))`;
  if (entropy === null || typeof epsilon !== "number" || typeof delta !== "number") return name;
  return `${name} = ${prob(Math.min(epsilon, delta * Math.exp(-entropy)))}`;
}

/**
 * A threshold beside the number that it is compared with; one that rounds to zero has digits of its own.
 * @param {number} threshold
 * @param {number} u
 */
function limit(threshold, u) {
  const text = apart(threshold, u);
  return text.startsWith("<") ? threshold.toPrecision(2) : text;
}

/** @param {number} u @param {number} threshold */
const coin = (u, threshold) => `u ${equals(apart(u, threshold))}`;

export const O = {
  ...odds,
  comparesBy: /** @type {ByRule} */ (odds.comparesBy),
  ratioBy: /** @type {ByRule} */ (odds.ratioBy),
  /** @param {string} text @param {string} verdict */
  judged: (text, verdict) => odds.judged(text, verdict === VERDICT.waiting ? null : verdict),
  /** @param {number} value */
  sharedAtMost: (value) => odds.sharedAtMost(prob(value).replace("< ", "")),
  /** @param {string} guess @param {number|null} rank @param {string} shown */
  comparesPenalised: (guess, rank, shown) =>
    odds.comparesPenalised(odds.comparesGreedy(guess, rank), odds.beforeIt(shown)),
  /** @param {string} shown */
  writesPenalised: (shown) => odds.writesPenalised(odds.beforeIt(shown)),
  /** @param {string} judge @param {boolean} penalised @param {boolean} before */
  modelsOnly: (judge, penalised, before) => odds.modelsOnly(judge, judge === odds.used, penalised, before),
  /** @param {number} u @param {number} threshold @param {Seen} verdict */
  tossed: (u, threshold, verdict) => {
    const [under, accepted] = [u < threshold, verdict === "accepted"];
    return odds.tossed(coin(u, threshold), under, limit(threshold, u), under === accepted, VERDICT[verdict]);
  },
  /** @param {number} u @param {number} threshold */
  carried: (u, threshold) => odds.carried(coin(u, threshold), limit(threshold, u)),
  criteria: {
    /** @param {Criterion} criterion */
    typical: (criterion) => odds.criteria.typical(thresholdName(criterion), criterion.p),
    /** @param {Criterion} criterion */
    confidence: ({ p, options: { reading, threshold } }) =>
      odds.criteria.confidence(
        String(reading),
        odds.thresholdAt(typeof threshold === "number" ? threshold : null),
        p,
      ),
  },
};
