/**
 * The page's own figures: what a pass costs here, and what a run gained, measured and by the formula.
 *
 * @import { Trace } from "../../player/types.js"
 * @import { Curve } from "../engine/curve.js"
 * @import { Wanted } from "../engine/lane.js"
 */

import { modelled } from "../engine/curve.js";
import { el } from "../../player/static/dom/dom.js";
import { decimal } from "../../player/static/text/format.js";
import { say } from "./words.js";

const LEAST = 16; // tokens of a lane whose speed is compared
const ONE_BY_ONE = ["speculative-sampling", "exact-match", "token-matching"];

/** @typedef {{stats: {tokens: number, acceptance_rate: number|null, tokens_per_second: number|null, tokens_per_pass: number|null}}} WithStats */

const two = (/** @type {number} */ value) => decimal(value.toFixed(2));
const milliseconds = (/** @type {number} */ seconds) => `${decimal((seconds * 1000).toPrecision(2))} ms`;

/** T(n) as a table with bars. @param {Curve} curve */
export function table({ widths, seconds, draft }) {
  const most = Math.max(...seconds);
  const row = (/** @type {string} */ name, /** @type {number} */ time) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, name),
      el("td", {}, milliseconds(time)),
      el("td", {}, `${decimal((time / seconds[0]).toFixed(2))}×`),
      el("td", { class: "bar" }, el("i", { style: `inline-size: ${((100 * time) / most).toFixed(1)}%` })),
    );
  const heads = ["Pass over", "Time", "Of one token"].map((head) => el("th", { scope: "col" }, say(head)));
  const rows = widths.map((width, at) => row(say(width === 1 ? "1 token" : "{width} tokens", { width }), seconds[at]));
  const body = el("tbody", {}, ...rows, row(say("draft, 1 token"), draft));
  return el("table", {}, el("thead", {}, el("tr", {}, ...heads, el("td"))), body);
}

/**
 * What a run gained, in a sentence; nothing where there is no baseline.
 * @param {(Trace & WithStats)[]} traces plain decoding first
 * @param {Curve|null} curve
 */
export function gained(traces, curve) {
  const [plain, other] = traces;
  const speed = Math.round(plain.stats.tokens_per_second ?? 0);
  if (!other) return say("{speed} tokens a second; nothing to compare with.", { speed });
  const [before, after] = [plain.stats.tokens_per_second, other.stats.tokens_per_second];
  if (Math.min(plain.stats.tokens, other.stats.tokens) < LEAST || !before || !after)
    return say("Too few tokens to compare speeds: {least} in each lane are needed.", { least: LEAST });
  const measured = say(
    "Measured here: {ratio}× plain decoding ({after} against {speed} tokens a second, {passes} tokens a pass).",
    { ratio: two(after / before), after: Math.round(after), speed, passes: two(other.stats.tokens_per_pass ?? 1) },
  );
  return `${measured} ${byFormula(other, curve)}`;
}

/** @param {Trace & WithStats} trace @param {Curve|null} curve */
function byFormula({ header, stats }, curve) {
  const { proposer, rule, draft_length: gamma } = /** @type {Partial<Wanted>} */ (header?.settings ?? {});
  const alpha = stats.acceptance_rate;
  if (!curve) return "";
  if (proposer !== "draft-model") return say("Modelled: the formula is for a draft model's chains.");
  if (!ONE_BY_ONE.includes(String(rule)) || alpha === null || !gamma)
    return say("Modelled: the formula does not apply to this rule.");
  return say("Modelled: {ratio}×, from α = {alpha}, γ = {gamma} and the passes measured below.", {
    ratio: two(modelled(alpha, gamma, curve)),
    alpha: two(alpha),
    gamma,
  });
}
