/**
 * The page's own figures: what a pass costs here, and what a run gained, measured and by the formula.
 *
 * @import { Trace } from "../../player/types.js"
 * @import { Curve } from "../engine/curve.js"
 * @import { Wanted } from "../engine/lane.js"
 */

import { modelled } from "../engine/curve.js";
import { el } from "../../player/static/dom/dom.js";

const LEAST = 16; // tokens of a lane whose speed is compared
const ONE_BY_ONE = ["speculative-sampling", "exact-match", "token-matching"];

/** @typedef {{stats: {tokens: number, acceptance_rate: number|null, tokens_per_second: number|null, tokens_per_pass: number|null}}} WithStats */

const milliseconds = (/** @type {number} */ seconds) => `${(seconds * 1000).toPrecision(2)} ms`;

/** T(n) as a table with bars. @param {Curve} curve */
export function table({ widths, seconds, draft }) {
  const most = Math.max(...seconds);
  const row = (/** @type {string} */ name, /** @type {number} */ time) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, name),
      el("td", {}, milliseconds(time)),
      el("td", {}, `${(time / seconds[0]).toFixed(2)}×`),
      el("td", { class: "bar" }, el("i", { style: `inline-size: ${((100 * time) / most).toFixed(1)}%` })),
    );
  const heads = ["Pass over", "Time", "Of one token"].map((head) => el("th", { scope: "col" }, head));
  const rows = widths.map((width, at) => row(width === 1 ? "1 token" : `${width} tokens`, seconds[at]));
  const body = el("tbody", {}, ...rows, row("draft, 1 token", draft));
  return el("table", {}, el("thead", {}, el("tr", {}, ...heads, el("td"))), body);
}

/**
 * What a run gained, in a sentence; nothing where there is no baseline.
 * @param {(Trace & WithStats)[]} traces plain decoding first
 * @param {Curve|null} curve
 */
export function gained(traces, curve) {
  const [plain, other] = traces;
  if (!other) return `${Math.round(plain.stats.tokens_per_second ?? 0)} tokens a second; nothing to compare with.`;
  const [before, after] = [plain.stats.tokens_per_second, other.stats.tokens_per_second];
  if (Math.min(plain.stats.tokens, other.stats.tokens) < LEAST || !before || !after)
    return `Too few tokens to compare speeds: ${LEAST} in each lane are needed.`;
  const passes = other.stats.tokens_per_pass ?? 1;
  const measured = `Measured here: ${(after / before).toFixed(2)}× plain decoding (${Math.round(after)} against ${Math.round(before)} tokens a second, ${passes.toFixed(2)} tokens a pass).`;
  return `${measured} ${byFormula(other, curve)}`;
}

/** @param {Trace & WithStats} trace @param {Curve|null} curve */
function byFormula({ header, stats }, curve) {
  const { proposer, rule, draft_length: gamma } = /** @type {Partial<Wanted>} */ (header?.settings ?? {});
  const alpha = stats.acceptance_rate;
  if (!curve) return "";
  if (proposer !== "draft-model") return "Modelled: the formula is for a draft model's chains.";
  if (!ONE_BY_ONE.includes(String(rule)) || alpha === null || !gamma)
    return "Modelled: the formula does not apply to this rule.";
  return `Modelled: ${modelled(alpha, gamma, curve).toFixed(2)}×, from α = ${alpha.toFixed(2)}, γ = ${gamma} and the passes measured below.`;
}
