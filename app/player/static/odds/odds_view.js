/** The odds panel: p against q as areas, the coin on its ruler, and the residual distribution after a rejection. */

/**
 * @import { Areas } from "./areas.js"
 * @import { Odds } from "./odds.js"
 * @import { View } from "../model/state.js"
 */

import { areasOf } from "./areas.js";
import { el } from "../dom/dom.js";
import { FACTS, oddsOf } from "./odds.js";
import { chart, keyed, sums } from "./odds_chart.js";
import { choice, coin, coins, decided, saidBy, unknownCoin } from "./odds_coin.js";
import { drawOf, residual } from "./odds_residual.js";
import { isBounded, shownOf } from "./odds_rows.js";
import { nonNull } from "../dom/non_null.js";
import { MARK, prob, quote, VERDICT } from "../text/text.js";
import { O } from "../text/text_odds.js";

/** @type {Record<string, string|undefined>} why a guess was not judged, by its verdict */
const UNSEEN = { waiting: O.waiting, pruned: O.pruned, cut: O.cut, discarded: O.discarded };

/** @returns the panel's view: `root`, `show(view, rules)` */
export function createOdds() {
  const root = el("section", { class: "odds", "aria-label": O.title });
  let drawn = "";
  /** @type {Record<string, {title: string}>} */
  let titles = {}; // of the rules
  /** @type {Record<"greedy"|"drawn", "judged"|"models">} */
  const lens = { greedy: "models", drawn: "judged" }; // the viewer's choice, kept from token to token
  let expanded = false;
  let moved = false; // whether it, or what it is in, was scrolled: asking each time would make the browser lay out the panel
  /** @type {HTMLElement|null} */
  let around = null;
  const scrolled = () => {
    moved = true;
  };
  root.addEventListener("scroll", scrolled, { passive: true });

  /** Another decision is read from its heading. */
  function toTop() {
    moved = false;
    root.scrollTop = 0;
    if (root.classList.contains("open")) root.parentElement?.scrollTo(0, 0);
  }

  /** @param {Odds|null} odds */
  function draw(odds) {
    root.replaceChildren(...(odds ? panel(odds) : [el("p", { class: "hint" }, O.empty)]));
  }

  /**
   * Redraw after a press, keeping the focus and what is in sight.
   * @param {Odds} odds
   * @param {string} button
   */
  function again(odds, button) {
    const top = root.scrollTop;
    draw(odds);
    /** @type {HTMLElement|null} */ (root.querySelector(button))?.focus({ preventScroll: true });
    root.scrollTop = top;
  }

  /** @param {Odds} odds */
  function panel(odds) {
    const judged = odds.verdict === "accepted" || odds.verdict === "rejected";
    /** @type {HTMLElement[]} what was compared */
    const main = [];
    /** @type {HTMLElement[]} what came of it */
    const side = [];
    const unseen = odds.missing && (UNSEEN[odds.verdict ?? ""] ?? O.sibling);
    const why = odds.missing === "record" ? O.nothing : (unreached(odds) ?? unseen);
    if (why) main.push(el("p", { class: "hint" }, why));
    if (!odds.missing) main.push(...distributions(odds));
    if (odds.choice) side.push(choice(odds, odds.choice));
    if (odds.coin)
      side.push(coin(odds, odds.coin, titleOf(odds), usingOf(odds) === "models" && odds.judged !== null));
    if (odds.coinless && (odds.facts || !odds.missing)) side.push(unknownCoin(odds.coinless.threshold));
    if (odds.coins && odds.coins.length > 1) side.push(coins(odds, odds.coins));
    if (odds.criterion && odds.verdict && judged) side.push(decided(odds.criterion, odds.verdict));
    if (odds.residual && odds.verdict !== "accepted") side.push(residual(odds, odds.residual));
    else if (odds.source && odds.distribution) side.push(drawOf(odds));
    if (odds.missing && odds.facts) main.push(facts(odds.facts));
    return [
      heading(odds, lenses(odds)),
      el(
        "div",
        { class: side.length ? "odds-body sided" : "odds-body" },
        el("div", { class: "odds-main" }, ...main),
        side.length ? el("div", { class: "odds-side" }, ...side) : null,
      ),
    ];
  }

  /** @param {Odds} odds */
  function titleOf(odds) {
    return titles[odds.rule]?.title ?? odds.rule;
  }

  /** @param {Odds} odds @returns {"judged"|"models"} */
  function usingOf(odds) {
    return lens[odds.greedy ? "greedy" : "drawn"] === "models" && odds.models
      ? "models"
      : odds.judged
        ? "judged"
        : "models";
  }

  /** @param {Odds} odds */
  function lenses(odds) {
    if (odds.missing || !odds.judged || !odds.models) return null;
    /** @param {"judged"|"models"} name @param {string} words */
    const tab = (name, words) => {
      const button = el(
        "button",
        {
          type: "button",
          class: "tab",
          "aria-pressed": String(usingOf(odds) === name),
          title:
            name === "judged"
              ? O.judgeMeans
              : O.sureMeans(odds.penalised && odds.before.alike, odds.before.p),
        },
        words,
      );
      button.onclick = () => {
        lens[odds.greedy ? "greedy" : "drawn"] = name;
        again(odds, '.tab[aria-pressed="true"]');
      };
      return button;
    };
    return el(
      "div",
      { class: "tabs", role: "group", "aria-label": O.views },
      tab("judged", judgeName(odds)),
      tab("models", O.sure),
    );
  }

  /** @param {Odds} odds */
  function distributions(odds) {
    const using = usingOf(odds);
    const bars = nonNull(odds[using]);
    const rows = shownOf(bars, expanded);
    const fixed = using === "judged" && bars.hasP ? odds.fixed : null;
    const parts =
      using === "judged" &&
      bars.hasP &&
      (bars.hasQ || fixed !== null) &&
      !odds.own &&
      !odds.matching &&
      (!odds.greedy || odds.lossy); // one-hot distributions need no sums
    const areas = areasOf(rows, using === "judged" ? odds.overlap : null, fixed);
    const named = parts && areas.totals ? words(odds, fixed) : null;
    const unpenalised =
      using === "models"
        ? `${bars.hasP && odds.before.p ? "p" : ""}${bars.hasQ && odds.before.q ? "q" : ""}`
        : "";
    const unread = odds.verdict === "pruned" || odds.verdict === "discarded" ? O[odds.verdict] : null; // by the target
    const said = unread
      ? el("p", { class: "hint" }, unread)
      : el(
          "p",
          { class: "compares" },
          ...keyed(comparison(odds, titleOf(odds), using, unpenalised), named !== null),
        );
    /** @type {HTMLElement[]} */
    const made = [said];
    made.push(
      el("p", { class: "guide" }, O.guide(bars.hasP, bars.hasQ, odds.sureQ && bars === odds.judged)),
      chart(areas, bars, parts, odds),
    );
    if (named && areas.totals) made.push(sums(areas.totals, named, Boolean(fixed)));
    if (bars.rows.some((row) => row.minor)) {
      const more = el(
        "button",
        { type: "button", class: "more-rows" },
        expanded ? O.showFewer : O.showAll(bars.rows.length),
      );
      more.onclick = () => {
        expanded = !expanded;
        again(odds, ".more-rows");
      };
      made.push(more);
    }
    for (const note of notes(odds, using, areas, parts, Boolean(fixed)))
      made.push(el("p", { class: "note" }, note));
    return made;
  }

  return {
    root,
    /** A run that goes on has no odds yet. */
    wait() {
      drawn = "";
      root.replaceChildren(el("p", { class: "hint" }, O.live));
    },
    /**
     * @param {View} view
     * @param {Record<string, {title: string}>} [rules]
     */
    show(view, rules = {}) {
      titles = rules;
      const { focus, moment } = view;
      const lane = focus ? view.lanes[focus.lane].lane : null;
      const inside =
        focus && focus.lane === view.lead && focus.round === view.current?.index ? moment?.step : "whole";
      const key =
        focus && lane
          ? `${focus.lane} ${focus.round} ${focus.node} ${inside} ${lane.trace?.header?.id}`
          : "none";
      if (key === drawn) return;
      drawn = key;
      draw(oddsOf(view));
      if (around !== root.parentElement)
        (around = root.parentElement)?.addEventListener("scroll", scrolled, { passive: true });
      if (moved) toTop();
    },
  };
}

/**
 * What the rule's view of the probabilities is called at this moment.
 * @param {Odds} odds
 */
function judgeName(odds) {
  if (!odds.siblings) return O.used;
  return odds.verdict === "waiting" ? O.judgeNext : O.judge;
}

/** @param {Odds} odds @param {HTMLElement|null} tabs */
function heading(odds, tabs) {
  const verdict = odds.verdict ?? odds.source;
  const title = odds.verdict
    ? O.judged(quote(odds.text), VERDICT[odds.verdict] ?? odds.verdict)
    : O.own(quote(odds.text), odds.source);
  return el(
    "div",
    { class: tabs && !odds.elsewhere ? "odds-head lensed" : "odds-head" },
    el(
      "h2",
      { class: `odds-title ${verdict}` },
      el("span", { class: "mark", "aria-hidden": "true" }, verdict ? MARK[verdict] : ""),
      title,
    ),
    el("p", { class: "odds-where" }, O.where(odds.round + 1, odds.label)),
    tabs,
  );
}

/**
 * Why an unreached guess has no verdict.
 * @param {Odds} odds
 */
function unreached({ unreached: found }) {
  if (!found) return null;
  const { by, other = "", stem = "" } = found;
  return O.unreached[by](quote(other), quote(stem));
}

/**
 * What the rule compares here, in one sentence.
 * @param {Odds} odds
 * @param {string} title
 * @param {"judged"|"models"} using
 * @param {string} shown the models' own probabilities in the chart that are from before penalties: "p", "q" or "pq"; empty without any
 */
function comparison(odds, title, using, shown) {
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
  if (odds.criterion) return O.comparesCriterion[odds.criterion.rule];
  if (odds.rule !== "speculative-sampling") return saidBy(O.comparesBy, odds) ?? O.comparesRule(title);
  if (odds.pointed) return O.comparesFixed(odds.siblings);
  if (odds.elder) return O.comparesElder(odds.elder.q, odds.elder.sameQ, odds.elder.waiting);
  return O.compares;
}

/** @param {Odds} odds @param {Set<number|null>|null} fixed */
function words(odds, fixed) {
  if (fixed) return odds.covers ? O.parts.fixed : O.parts.held;
  const strict = odds.sureQ ? O.parts.certain : O.parts.strict;
  return odds.rule === "speculative-sampling" && !odds.atZero ? strict : O.parts.loose;
}

/** @param {Odds} odds @param {"judged"|"models"} using @param {Areas} areas @param {boolean} parts @param {boolean} fixed */
function notes(odds, using, areas, parts, fixed) {
  const said = [];
  if (odds.greedy && using === "judged")
    said.push(O.oneHot(nonNull(odds.judged).hasQ && odds.verdict !== "pruned", odds.models !== null));
  else if (odds.greedy && odds.judged && odds.knowsP && !odds.coin && !odds.choice)
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

/** @param {NonNullable<Odds["facts"]>} values */
function facts(values) {
  const grid = el("dl", { class: "facts" });
  for (const name of FACTS) {
    const value = values[name] ?? null;
    if (value === null) continue;
    grid.append(
      el(
        "div",
        {},
        el("dt", {}, O.facts[name]),
        el(
          "dd",
          { "data-name": name, "data-value": value },
          name === "rank" ? String(value) : name === "entropy" ? value.toFixed(3) : prob(value),
        ),
      ),
    );
  }
  return el("div", {}, el("h3", {}, O.recorded), grid);
}
