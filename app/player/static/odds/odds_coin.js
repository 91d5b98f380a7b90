/** How a guess was decided: the coin on its ruler, the coins of a chain, or what stands in for them. */

/**
 * @import { Seen } from "../../types.js"
 * @import { Criterion, Coin, Decision, Odds } from "./odds.js"
 */

import { el } from "../dom/dom.js";
import { coinRuler, rulerEnds } from "./ruler.js";
import { nonNull } from "../dom/non_null.js";
import { flat, MARK, prob, VERDICT } from "../text/text.js";
import { O } from "../text/text_odds.js";

/**
 * The words of the rule that judged; null for a rule without any.
 * @param {Record<string, (siblings: number) => string>} words
 * @param {Odds} odds
 */
export function saidBy(words, odds) {
  return Object.hasOwn(words, odds.rule) ? words[odds.rule](odds.siblings) : null;
}

/**
 * In place of the coin at temperature 0, where none decides: the target's first choice beside the guess.
 * @param {Odds} odds
 * @param {string} best
 */
export function choice(odds, best) {
  /** @param {string} name @param {string} words @param {string} text */
  const row = (name, words, text) =>
    el("div", { class: name }, el("dt", {}, words), el("dd", {}, flat(text)));
  const verdict = nonNull(odds.verdict);
  return el(
    "div",
    { class: "coin choice" },
    el("h3", {}, O.choice),
    el("dl", {}, row("best", O.firstChoice, best), row(`own ${verdict}`, O.theGuess, odds.text)),
    el("p", { class: "note" }, O.decides(verdict === "accepted", VERDICT[verdict] ?? verdict)),
  );
}

/**
 * @param {Odds} odds
 * @param {Extract<Decision, {kind: "coin"}>} met
 * @param {string} title
 * @param {boolean} beside whether the chart beside it shows others than what was compared
 */
export function coin(odds, met, title, beside) {
  const { u, threshold, later } = met;
  const carried = odds.longest && odds.verdict === "accepted" && u >= threshold;
  const words = carried ? O.carried(u, threshold) : O.tossed(u, threshold, nonNull(odds.verdict));
  return el(
    "div",
    { class: "coin", "data-coin": u, "data-threshold": threshold },
    el("h3", {}, O.coin),
    coinRuler(u, threshold),
    rulerEnds(),
    el("p", { class: "note met" }, words),
    el("p", { class: "note" }, thresholdOf(odds, later, title), beside ? ` ${O.judgedValues}` : ""),
  );
}

/**
 * In place of a coin that nobody recorded, as in runs of other engines.
 * @param {number|null} threshold
 */
export function unknownCoin(threshold) {
  return el(
    "div",
    { class: "coin unknown" },
    el("h3", {}, O.coin),
    el("p", { class: "note" }, O.coinUnknown(threshold)),
  );
}

/**
 * The origin of the coin's threshold.
 * @param {Odds} odds
 * @param {boolean} later
 * @param {string} title
 */
function thresholdOf(odds, later, title) {
  if (odds.longest) return O.longest;
  if (odds.matching) return later ? O.matchRatioLater : O.matchRatio;
  if (odds.rule !== "speculative-sampling") return saidBy(O.ratioBy, odds) ?? O.ruled(title);
  if (odds.pointed) return later ? O.ratioFixedLater : O.ratioFixed;
  const { p = null, q = null } = odds.judged?.rows.find((row) => row.chosen) ?? {};
  return later
    ? O.ratioLater
    : O.ratio(p !== null && q !== null && p < q ? `${digits(p)} / ${digits(q)}` : "");
}

/**
 * A probability with the digits that a quotient needs.
 * @param {number} value
 */
function digits(value) {
  return String(Number(value.toPrecision(3)));
}

/**
 * The coins of a chain that is judged as one, below each other.
 * @param {Odds} odds
 * @param {Coin[]} all
 */
export function coins(odds, all) {
  /** @param {Coin} coin */
  const row = ({ node, text, verdict, u, threshold }) =>
    el(
      "li",
      {
        class: `${verdict}${node === odds.node ? " chosen" : ""}`,
        "data-node": node,
        "data-round": odds.round,
        "data-lane": odds.lane,
      },
      el("span", { class: "mark", "aria-hidden": "true" }, MARK[verdict] ?? ""),
      el("span", { class: "bar-token" }, flat(text)),
      coinRuler(u, threshold),
      el("span", { class: "unseen" }, `${VERDICT[verdict] ?? verdict}: ${prob(u)} / ${prob(threshold)}`),
    );
  return el("div", { class: "coins" }, el("h3", {}, O.coins), el("ol", {}, ...all.map(row)));
}

/**
 * In place of the coin, for a rule that compares probabilities with a threshold.
 * @param {Criterion} criterion
 * @param {Seen} verdict
 */
export function decided(criterion, verdict) {
  const rule = O.criteria[criterion.rule](criterion).replace(/\.$/, "");
  return el(
    "div",
    { class: "coin decided" },
    el("h3", {}, O.decided),
    el("p", { class: "note" }, `${rule}: ${VERDICT[verdict]}. `, O.noCoin),
  );
}
