/** The odds panel: p against q as areas, the coin on its ruler, and the residual distribution after a rejection. */

/**
 * @import { Odds } from "./odds.js"
 * @import { View } from "../model/state.js"
 */

import { areasOf } from "./areas.js";
import { el } from "../dom/dom.js";
import { FACTS, oddsOf } from "./odds.js";
import { chart, keyed, sums } from "./odds_chart.js";
import { choice, coin, coins, decided, unknownCoin } from "./odds_coin.js";
import { drawOf, residual } from "./odds_residual.js";
import { shownOf } from "./odds_rows.js";
import { comparison, judgeName, notes, partsOf } from "./odds_words.js";
import { nonNull } from "../dom/non_null.js";
import { MARK, prob, quote, VERDICT } from "../text/text.js";
import { O } from "../text/text_odds.js";

/** @type {Record<string, string|undefined>} why a guess was not judged, by its verdict */
const UNSEEN = { waiting: O.waiting, pruned: O.pruned, cut: O.cut, discarded: O.discarded };

/** `root`, `show(view, rules)`. */
export class OddsView {
  root = el("section", { class: "odds", "aria-label": O.title });
  drawn = "";
  /** @type {Record<string, {title: string}>} */
  titles = {}; // of the rules
  /** @type {Record<"greedy"|"drawn", "judged"|"models">} */
  lens = { greedy: "models", drawn: "judged" }; // the viewer's choice, kept from token to token
  expanded = false;
  branches = false; // whether the page can go on from a candidate
  moved = false; // whether it, or what it is in, was scrolled: asking each time would make the browser lay out the panel
  /** @type {HTMLElement|null} */
  around = null;
  scrolled = () => {
    this.moved = true;
  };

  constructor() {
    this.root.addEventListener("scroll", this.scrolled, { passive: true });
  }

  /** Another decision is read from its heading. */
  toTop() {
    this.moved = false;
    this.root.scrollTop = 0;
    if (this.root.classList.contains("open")) this.root.parentElement?.scrollTo(0, 0);
  }

  /** @param {Odds|null} odds */
  draw(odds) {
    this.root.replaceChildren(...(odds ? this.panel(odds) : [el("p", { class: "hint" }, O.empty)]));
  }

  /**
   * Redraw after a press, keeping the focus and what is in sight.
   * @param {Odds} odds
   * @param {string} button
   */
  again(odds, button) {
    const top = this.root.scrollTop;
    this.draw(odds);
    /** @type {HTMLElement|null} */ (this.root.querySelector(button))?.focus({ preventScroll: true });
    this.root.scrollTop = top;
  }

  /** @param {Odds} odds */
  panel(odds) {
    const others = this.usingOf(odds) === "models" && odds.judged !== null; // than what was compared are in the chart
    const judged = odds.verdict === "accepted" || odds.verdict === "rejected";
    /** @type {HTMLElement[]} what was compared */
    const main = [];
    /** @type {HTMLElement[]} what came of it */
    const side = [];
    const unseen = odds.missing && (UNSEEN[odds.verdict ?? ""] ?? O.sibling);
    const why = odds.missing === "record" ? O.nothing : (unreached(odds) ?? unseen);
    if (why) main.push(el("p", { class: "hint" }, why));
    if (!odds.missing) main.push(...this.distributions(odds));
    const by = odds.decision;
    if (by?.kind === "choice") side.push(choice(odds, by.best));
    else if (by?.kind === "coin") side.push(coin(odds, by, this.titleOf(odds), others));
    else if (by?.kind === "unknown" && (odds.facts || !odds.missing)) side.push(unknownCoin(by.threshold));
    if (odds.coins && odds.coins.length > 1) side.push(coins(odds, odds.coins));
    if (by?.kind === "criterion" && odds.verdict && judged) side.push(decided(by, odds.verdict));
    if (odds.residual && odds.verdict !== "accepted") side.push(residual(odds, odds.residual));
    else if (odds.source && odds.distribution) side.push(drawOf(odds));
    if (odds.missing && odds.facts) main.push(facts(odds.facts));
    return [
      heading(odds, this.lenses(odds)),
      el(
        "div",
        { class: side.length ? "odds-body sided" : "odds-body" },
        el("div", { class: "odds-main" }, ...main),
        side.length ? el("div", { class: "odds-side" }, ...side) : null,
      ),
    ];
  }

  /** @param {Odds} odds */
  titleOf(odds) {
    return this.titles[odds.rule]?.title ?? odds.rule;
  }

  /** @param {Odds} odds @returns {"judged"|"models"} */
  usingOf(odds) {
    return this.lens[odds.greedy ? "greedy" : "drawn"] === "models" && odds.models
      ? "models"
      : odds.judged
        ? "judged"
        : "models";
  }

  /** @param {Odds} odds */
  lenses(odds) {
    if (odds.missing || !odds.judged || !odds.models) return null;
    /** @param {"judged"|"models"} name @param {string} words */
    const tab = (name, words) => {
      const button = el(
        "button",
        {
          type: "button",
          class: "tab",
          "aria-pressed": String(this.usingOf(odds) === name),
          title:
            name === "judged"
              ? O.judgeMeans
              : O.sureMeans(odds.penalised && odds.before.alike, odds.before.p),
        },
        words,
      );
      button.onclick = () => {
        this.lens[odds.greedy ? "greedy" : "drawn"] = name;
        this.again(odds, '.tab[aria-pressed="true"]');
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
  distributions(odds) {
    const using = this.usingOf(odds);
    const bars = nonNull(odds[using]);
    const rows = shownOf(bars, this.expanded);
    const fixed = using === "judged" && bars.hasP ? odds.fixed : null;
    const parts =
      using === "judged" &&
      bars.hasP &&
      (bars.hasQ || fixed !== null) &&
      !odds.own &&
      !odds.matching &&
      (!odds.greedy || odds.lossy); // one-hot distributions need no sums
    const areas = areasOf(rows, using === "judged" ? odds.overlap : null, fixed);
    const named = parts && areas.totals ? partsOf(odds, fixed) : null;
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
          ...keyed(comparison(odds, this.titleOf(odds), using, unpenalised), named !== null),
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
        this.expanded ? O.showFewer : O.showAll(bars.rows.length),
      );
      more.onclick = () => {
        this.expanded = !this.expanded;
        this.again(odds, ".more-rows");
      };
      made.push(more);
    }
    for (const note of notes(odds, using, areas, parts, Boolean(fixed)))
      made.push(el("p", { class: "note" }, note));
    return made;
  }

  /** A run that goes on has no odds yet. */
  wait() {
    this.drawn = "";
    this.root.replaceChildren(el("p", { class: "hint" }, O.live));
  }

  /**
   * @param {View} view
   * @param {Record<string, {title: string}>} [rules]
   */
  show(view, rules = {}) {
    this.titles = rules;
    const { focus, moment } = view;
    const lane = focus ? view.lanes[focus.lane].lane : null;
    const inside =
      focus && focus.lane === view.lead && focus.round === view.current?.index ? moment?.step : "whole";
    const key =
      focus && lane
        ? `${focus.lane} ${focus.round} ${focus.node} ${inside} ${lane.trace?.header?.id}`
        : "none";
    if (key === this.drawn) return;
    this.drawn = key;
    const odds = oddsOf(view);
    this.draw(odds && !this.branches ? { ...odds, at: null } : odds);
    if (this.around !== this.root.parentElement) {
      this.around = this.root.parentElement;
      this.around?.addEventListener("scroll", this.scrolled, { passive: true });
    }
    if (this.moved) this.toTop();
  }
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
