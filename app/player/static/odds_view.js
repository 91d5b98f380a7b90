/** The odds panel: p against q as areas, the coin on its ruler, and what a rejection leaves to draw from. */

import { areasOf } from "./areas.js";
import { el } from "./dom.js";
import { coinRuler, drawRuler, rulerEnds } from "./needle.js";
import { oddsOf, shownOf } from "./odds.js";
import { chart, label, sums, value } from "./odds_chart.js";
import { flat, MARK, prob, quote, VERDICT } from "./text.js";
import { O } from "./text_odds.js";

/** @returns the panel's view: `root`, `show(view, rules)` */
export function createOdds() {
  const root = el("section", { class: "odds", "aria-label": O.title });
  let drawn = "";
  let titles = {}; // of the rules
  let lens = null; // the viewer's choice between "judged" and "models", kept from token to token
  let expanded = false;

  function draw(odds) {
    root.replaceChildren(...(odds ? panel(odds) : [el("p", { class: "hint" }, O.empty)]));
  }

  /** Draw again after a press, with the keyboard where it was. */
  function again(odds, button) {
    draw(odds);
    root.querySelector(button)?.focus();
  }

  function panel(odds) {
    const judged = odds.verdict === "accepted" || odds.verdict === "rejected";
    const parts = [heading(odds)];
    const unseen = odds.missing && (O[odds.verdict] ?? O.sibling);
    const why = odds.missing === "record" ? O.nothing : (unreached(odds) ?? unseen);
    if (why) parts.push(el("p", { class: "hint" }, why));
    if (!odds.missing) parts.push(...distributions(odds));
    if (odds.coin) parts.push(coin(odds, titleOf(odds)));
    if (odds.coins?.length > 1) parts.push(coins(odds));
    if (odds.bar && judged) parts.push(decided(odds.bar, odds.verdict));
    if (odds.residual && odds.verdict !== "accepted") parts.push(residual(odds));
    else if (odds.source && odds.law) parts.push(drawOf(odds));
    if (odds.missing && odds.facts) parts.push(facts(odds.facts));
    return parts;
  }

  function titleOf(odds) {
    return titles[odds.rule]?.title ?? odds.rule;
  }

  function distributions(odds) {
    const using = (lens ?? (odds.greedy ? "models" : "judged")) === "models" && odds.models ? "models" : odds.judged ? "judged" : "models";
    const bars = odds[using];
    const rows = shownOf(bars, expanded);
    const fixed = using === "judged" && bars.hasP && !bars.hasQ ? odds.fixed : null;
    const parts = using === "judged" && bars.hasP && (bars.hasQ || fixed !== null) && !odds.own && !odds.matching;
    const areas = areasOf(rows, using === "judged" ? odds.overlap : null, fixed);
    const tab = (name, words) => {
      const button = el("button", { type: "button", class: "tab", "aria-pressed": String(using === name) }, words);
      button.onclick = () => {
        lens = name;
        again(odds, '.tab[aria-pressed="true"]');
      };
      return button;
    };
    const made = [el("p", { class: "compares" }, comparison(odds, titleOf(odds)))];
    if (odds.judged && odds.models) made.push(el("div", { class: "tabs", role: "group", "aria-label": O.views }, tab("judged", O.judge), tab("models", O.sure)));
    if (parts && areas.totals) made.push(sums(areas.totals, words(odds, fixed), Boolean(fixed)));
    made.push(el("p", { class: "guide" }, O.guide(bars.hasP, bars.hasQ)), chart(areas, bars, parts, odds));
    if (bars.rows.some((row) => row.minor)) {
      const more = el("button", { type: "button", class: "more-rows" }, expanded ? O.showFewer : O.showAll(bars.rows.length));
      more.onclick = () => {
        expanded = !expanded;
        again(odds, ".more-rows");
      };
      made.push(more);
    }
    for (const note of notes(odds, using, areas, parts, Boolean(fixed))) made.push(el("p", { class: "note" }, note));
    return made;
  }

  return {
    root,
    /**
     * @param {import("./state.js").View} view
     * @param {Record<string, {title: string}>} [rules]
     */
    show(view, rules = {}) {
      titles = rules;
      const { focus, moment } = view;
      const lane = focus ? view.lanes[focus.lane].lane : null;
      const inside = focus && focus.lane === view.lead && focus.round === view.current?.index ? moment?.step : "whole";
      const key = focus ? `${focus.lane} ${focus.round} ${focus.node} ${inside} ${lane.trace?.header?.id}` : "none";
      if (key === drawn) return;
      drawn = key;
      draw(oddsOf(view));
    },
  };
}

function heading(odds) {
  const verdict = odds.verdict ?? odds.source;
  const title = odds.verdict ? O.judged(quote(odds.text), VERDICT[odds.verdict] ?? odds.verdict) : O.own(quote(odds.text), odds.source);
  return el(
    "div", { class: "odds-head" },
    el("h2", { class: `odds-title ${verdict}` }, el("span", { class: "mark", "aria-hidden": "true" }, MARK[verdict] ?? ""), title),
    el("p", { class: "odds-where" }, O.where(odds.round + 1, odds.label)),
  );
}

/** Why no verdict fell on an unreached guess. */
function unreached({ unreached: found }) {
  if (!found) return null;
  const { by, other = "", stem = "" } = found;
  return O.unreached[by](quote(other), quote(stem));
}

/** The words of the rule that judged; null for a rule without any. */
function saidBy(words, odds) {
  return Object.hasOwn(words, odds.rule) ? words[odds.rule](odds.siblings) : null;
}

/** What the judge holds against what here, in one sentence. */
function comparison(odds, title) {
  if (!odds.knowsP) return odds.pointed ? O.beforeFixed : O.before;
  if (odds.undrafted) return odds.atZero ? O.writesGreedy : O.writes;
  if (odds.greedy && !odds.verdict) return O.writesGreedy;
  if (odds.greedy && !odds.lossy) {
    return O.comparesGreedy(quote(odds.text), odds.target ? quote(odds.target.text) : null, odds.target?.rank ?? null);
  }
  if (odds.own) return O.comparesOwn;
  if (odds.matching) return O.comparesMatching(odds.siblings);
  if (odds.longest) return O.comparesChain;
  if (odds.bar) return O.comparesBar[odds.rule];
  if (odds.rule !== "speculative-sampling") return saidBy(O.comparesBy, odds) ?? O.comparesRule(title);
  if (odds.pointed) return O.comparesFixed(odds.siblings);
  if (odds.elder) return O.comparesElder(odds.elder.q, odds.elder.lawful, odds.elder.waiting);
  return O.compares;
}

function words(odds, fixed) {
  if (fixed) return odds.covers ? O.parts.fixed : O.parts.held;
  return odds.rule === "speculative-sampling" && !odds.atZero ? O.parts.strict : O.parts.loose;
}

function notes(odds, using, areas, parts, fixed) {
  const said = [];
  if (odds.greedy && using === "judged") said.push(O.oneHot);
  else if (odds.greedy && !odds.coin) said.push(O.modelsOnly);
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
  return said;
}

function coin(odds, title) {
  const { u, threshold } = odds.coin;
  const carried = odds.longest && odds.verdict === "accepted" && u >= threshold;
  const words = carried ? O.carried(u, threshold) : O.tossed(u, threshold, odds.verdict);
  return el(
    "div", { class: "coin", "data-coin": u, "data-threshold": threshold },
    el("h3", {}, O.coin), coinRuler(u, threshold), rulerEnds(), el("p", { class: "note" }, words, " ", thresholdOf(odds, title)),
  );
}

/** Where the threshold comes from that the coin met. */
function thresholdOf(odds, title) {
  const { later } = odds.coin;
  if (odds.greedy && !odds.lossy) return O.greedy;
  if (odds.longest) return O.longest;
  if (odds.matching) return later ? O.matchRatioLater : O.matchRatio;
  if (odds.rule !== "speculative-sampling") return saidBy(O.ratioBy, odds) ?? O.ruled(title);
  return later ? O.ratioLater : odds.pointed ? O.ratioFixed : O.ratio;
}

/** The coins of a chain that is judged as one, below each other. */
function coins(odds) {
  const row = ({ node, text, verdict, u, threshold }) => el(
    "li", { class: `${verdict}${node === odds.node ? " chosen" : ""}`, "data-node": node, "data-round": odds.round, "data-lane": odds.lane },
    el("span", { class: "mark", "aria-hidden": "true" }, MARK[verdict] ?? ""),
    el("span", { class: "bar-token" }, flat(text)), coinRuler(u, threshold),
    el("span", { class: "unseen" }, `${VERDICT[verdict] ?? verdict}: ${prob(u)} / ${prob(threshold)}`),
  );
  return el("div", { class: "coins" }, el("h3", {}, O.coins), el("ol", {}, ...odds.coins.map(row)));
}

/** In place of the coin, for a rule that holds probabilities against a bar. */
function decided(bar, verdict) {
  const law = O.bars[bar.rule](bar).replace(/\.$/, "");
  return el(
    "div", { class: "coin decided" },
    el("h3", {}, O.decided),
    el("p", { class: "note" }, `${law}: ${VERDICT[verdict]}. `, O.noCoin),
  );
}

/** What the rule left of p, in words: [heading, law]. */
function lawOf(odds) {
  if (odds.matching) return [O.matchResidual(odds.failed), O.matchResidualIs];
  if (odds.bar?.asIs) return [O.asIs, O.asIsIs];
  if (odds.rule !== "speculative-sampling" && odds.rule !== "") return [O.left, O.leftIs];
  return odds.failed > 1 ? [O.siblingsLeft(odds.failed), O.siblingsLeftIs] : [O.residual, odds.atZero ? O.residualLaw : O.residualIs];
}

function residual(odds) {
  const rows = odds.residual.rows;
  const top = Math.max(1e-9, ...rows.map((row) => row.prob));
  const table = el("div", { class: "bars", role: "table", "aria-label": O.residual });
  const add = (row) => {
    const line = el("span", { class: `line area under${row.prob > top * 1.0001 ? " over-long" : ""}` });
    line.style.inlineSize = `${Math.min(100, (100 * row.prob) / top)}%`;
    table.append(el(
      "div", { class: `bar-row single${row.committed ? " chosen" : ""}`, role: "row", "data-token": row.id ?? "rest" },
      label(row.text, row.committed ? MARK.corrected : ""), el("span", { class: "plot", role: "cell" }, line), value("residual", row.prob, null),
    ));
  };
  rows.forEach(add);
  if (odds.residual.rest > 1e-6) add({ id: null, text: null, prob: odds.residual.rest, committed: false });
  const [heading, law] = lawOf(odds);
  const drawing = law === O.leftIs || law === O.matchResidualIs; // says that a token is drawn
  const note = odds.atZero ? (drawing ? O.greedily : `${law} ${O.greedily}`) : law;
  return el("div", { class: "residual" }, el("h3", {}, heading), table, el("p", { class: "note" }, note), ...drawnFrom(odds));
}

/** The draw of a token that nothing was rejected for. */
function drawOf(odds) {
  return el("div", { class: "draw" }, el("h3", {}, O.draw), ...drawnFrom(odds));
}

function drawnFrom(odds) {
  if (odds.draw === null || odds.atZero) return [];
  const ruler = odds.law && drawRuler(odds.law, odds.draw, odds.vocabulary);
  return [...(ruler ? [ruler, rulerEnds()] : []), el("p", { class: "note" }, O.drawn(odds.draw), ruler ? ` ${O.ruler}` : "")];
}

function facts(values) {
  const grid = el("dl", { class: "facts" });
  for (const [name, value] of Object.entries(values)) {
    if (value === null) continue;
    grid.append(el("div", {}, el("dt", {}, O.facts[name]), el("dd", { "data-name": name, "data-value": value }, name === "rank" ? String(value) : prob(value))));
  }
  return el("div", {}, el("h3", {}, O.recorded), grid);
}
