/** Every sentence and word the viewer sees, from the messages of the language; here is what they need to be computed. */

/**
 * @import { Seen, Source } from "../../types.js"
 * @import { Moment } from "../model/moments.js"
 */

import { apart, below, decimal, prob, quote, seconds, texts } from "./format.js";
import { MESSAGES } from "./messages.js";
import { flat, MARK, roughly } from "./signs.js";

export { apart, below, flat, MARK, prob, quote, seconds };

/** @typedef {Record<string, string|undefined>} Words by a name that a record gives */

export const VERDICT = /** @type {Record<Exclude<Seen, "absent">|Source, string> & {absent?: string}} */ (
  MESSAGES.verdict
);

export const LEGEND = /** @type {[keyof typeof MARK, string][]} */ (Object.entries(MESSAGES.legend));

const question = texts(MESSAGES.question);

/** The question to a visitor who drafts. */
export const Q = {
  ...question,
  sent: (/** @type {string} */ words) => question.sent(words.replace(/ /g, "␣")),
};

/** A page that contains its own record. */
export const PAGE = texts(MESSAGES.page);

const text = texts(MESSAGES.text);

/** @param {number} value null where there is none to speak of */
const some = (value) => (value > 0 ? value : null);

export const T = {
  ...text,
  ends: /** @type {Words} */ (text.ends),
  endsMean: /** @type {Words} */ (text.endsMean),
  provenance: /** @type {Words} */ (text.provenance),
  timelineKeyMeans: /** @type {Words} */ (text.timelineKeyMeans),
  /** @param {number} value @param {string} label @param {boolean} firm */
  faster: (value, label, firm) =>
    text.faster(value > 1.005 ? "faster" : value < 0.995 ? "slower" : "same", label, firm),
  /** @param {string[]} titles */
  lossy: (titles) => text.lossy(titles.length, titles.map(text.titled).join(", ")),
  /** @param {string[]} labels */
  heldUpRun: (labels) => text.heldUpRun(labels.length, labels[0].length > 16 ? null : labels[0]),
  /** @param {{kept: number|null, tokens: number, guesses: number, accepted: number, lost: boolean}} round */
  opened: ({ kept, tokens, guesses, accepted, lost }) => text.opened(kept, tokens, guesses, accepted, lost),
  /** @param {Moment} moment @param {number} read */
  phase: (moment, read) => text.phase(moment.phase, moment.judged.size, read),
  /** @param {number} factor how much slower it is played than it ran @param {number} round seconds of one */
  slow: (factor, round) => {
    const times = factor < 10 ? decimal(factor.toFixed(1)) : Math.round(factor);
    return text.slow(round < 1 ? Math.round(1 / round) : null, round, factor >= 1.5 ? times : null);
  },
  /** @param {number} draft @param {number} verify @param {number} other @param {number} ahead @param {number|null} usual */
  phases: (draft, verify, other, ahead, usual) => text.phases(some(draft), verify, other, some(ahead), usual),
  /** @param {number} ahead @param {number|null} wait */
  queued: (ahead, wait) => text.queued(ahead, wait === null ? null : roughly(wait)),
};
