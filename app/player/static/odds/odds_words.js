/** The sentences of the odds that depend on several of their facts. */

/**
 * @import { Areas } from "./areas.js"
 * @import { Odds } from "./odds.js"
 */

import { nonNull } from "../dom/non_null.js";
import { quote } from "../text/text.js";
import { O } from "../text/text_odds.js";
import { saidBy } from "./odds_coin.js";
import { isBounded } from "./odds_rows.js";

/**
 * What the rule's view of the probabilities is called at this moment.
 * @param {Odds} odds
 */
export function judgeName(odds) {
  if (!odds.siblings) return O.used;
  return odds.verdict === "waiting" ? O.judgeNext : O.judge;
}

/**
 * What the rule compares here, in one sentence.
 * @param {Odds} odds
 * @param {string} title
 * @param {"judged"|"models"} using
 * @param {string} shown the models' own probabilities in the chart that are from before penalties: "p", "q" or "pq"; empty without any
 */
export function comparison(odds, title, using, shown) {
  if (using === "models" && odds.judged && !odds.atZero)
    return O.modelsOnly(judgeName(odds), odds.penalised && odds.before.alike, odds.before.p);
  if (!odds.knowsP)
    return odds.modelless && odds.atZero
      ? O.beforeModelless
      : odds.pointed || (odds.sureQ && using === "judged")
        ? O.beforeFixed(!odds.modelless)
        : odds.atZero
          ? O.beforeGreedy(odds.penalised && shown !== "")
          : O.before;
  const without = odds.without === null ? "" : O.without(quote(odds.without));
  const greedy = odds.moved && !without ? O.writesPenalised(shown) : O.writesGreedy + without;
  if (odds.undrafted) return odds.atZero ? greedy : O.writes;
  if (odds.greedy && !odds.verdict) return greedy;
  if (odds.greedy && !odds.lossy) {
    const rank = odds.target?.rank ?? null;
    return odds.moved && !without
      ? O.comparesPenalised(quote(odds.text), rank, shown)
      : O.comparesGreedy(quote(odds.text), rank) + without;
  }
  if (odds.own) return O.comparesOwn;
  if (odds.matching) return O.comparesMatching(odds.siblings);
  if (odds.longest) return O.comparesChain;
  if (odds.decision?.kind === "criterion") return O.comparesCriterion[odds.decision.rule];
  if (odds.rule !== "speculative-sampling") return saidBy(O.comparesBy, odds) ?? O.comparesRule(title);
  if (odds.pointed) return O.comparesFixed(odds.siblings);
  if (odds.elder) return O.comparesElder(odds.elder.q, odds.elder.sameQ, odds.elder.waiting);
  return O.compares;
}

/** @param {Odds} odds @param {Set<number|null>|null} fixed */
export function partsOf(odds, fixed) {
  if (fixed) return odds.covers ? O.parts.fixed : O.parts.held;
  const strict = odds.sureQ ? O.parts.certain : O.parts.strict;
  return odds.rule === "speculative-sampling" && !odds.atZero ? strict : O.parts.loose;
}

/** @param {Odds} odds @param {"judged"|"models"} using @param {Areas} areas @param {boolean} parts @param {boolean} fixed */
export function notes(odds, using, areas, parts, fixed) {
  const said = [];
  if (odds.greedy && using === "judged")
    said.push(O.oneHot(nonNull(odds.judged).hasQ && odds.verdict !== "pruned", odds.models !== null));
  else if (
    odds.greedy &&
    odds.judged &&
    odds.knowsP &&
    odds.decision?.kind !== "coin" &&
    odds.decision?.kind !== "choice"
  )
    said.push(O.modelsOnly(judgeName(odds), odds.penalised && odds.before.alike, odds.before.p));
  if (odds.modelless && using === "models") said.push(O.modelless);
  if (parts && odds.overlap !== null) {
    if (odds.pointed || fixed) {
      said.push((odds.covers ? O.coveredIs : O.heldIs)(odds.overlap, odds.siblings));
      if (odds.chance !== null) said.push(O.chanceIs(odds.chance, odds.siblings));
    } else {
      said.push(odds.shared ? O.sharedIs(odds.overlap) : O.overlapIs(odds.overlap, odds.siblings));
    }
    const others = areas.rows.find((row) => row.id === null);
    if (!fixed && others && others.shared > 5e-4) said.push(O.othersIs);
  }
  if (parts && areas.rows.some((row) => row.most / areas.top > 0.002)) said.push(O.atMost);
  else if (areas.rows.some(isBounded)) said.push(O.boundedAre);
  return said;
}
