/** The target's own token in the odds panel: the residual distribution after a rejection, and the draw. */

/**
 * @import { Odds } from "./odds.js"
 * @import { Drawable } from "./odds_rows.js"
 */

import { el } from "../dom/dom.js";
import { drawRuler } from "./ruler.js";
import { label, longest, lookAlikes, value } from "./odds_chart.js";
import { MARK } from "../text/text.js";
import { O } from "../text/text_odds.js";

/**
 * What the rule left of p, in words: [heading, explanation].
 * @param {Odds} odds
 */
function distributionOf(odds) {
  if (odds.matching || (odds.pointed && odds.rule === "speculative-sampling"))
    return [O.matchResidual(odds.failed), O.matchResidualIs];
  if (odds.decision?.kind === "criterion" && odds.decision.asIs) return [O.asIs, O.asIsIs];
  if (odds.rule !== "speculative-sampling" && odds.rule !== "") return [O.left, O.leftIs];
  return odds.failed > 1
    ? [O.siblingsLeft(odds.failed), O.siblingsLeftIs]
    : [O.residual, odds.atZero ? O.residualFormula : O.residualIs];
}

/**
 * What was left of p after the rejections, and the draw from it.
 * @param {Odds} odds
 * @param {NonNullable<Odds["residual"]>} left
 */
export function residual(odds, left) {
  const { rows, rest } = left;
  const top = Math.max(1e-9, ...rows.map((row) => row.prob));
  const table = el("div", { class: "bars", role: "table", "aria-label": O.residual });
  /** @param {Drawable|{id: null, text: null, prob: number, committed: boolean}} row */
  const add = (row) => {
    const line = el("span", { class: `line area under${row.prob > top * 1.0001 ? " over-long" : ""}` });
    line.style.inlineSize = `${Math.min(100, (100 * row.prob) / top)}%`;
    table.append(
      el(
        "div",
        {
          class: `bar-row single${row.committed ? " chosen" : ""}`,
          role: "row",
          "data-token": row.id ?? "rest",
        },
        label(row.text, row.committed ? MARK.corrected : "", alike.has(row.id) ? row.id : null),
        el("span", { class: "plot", role: "cell" }, line),
        value("residual", row.prob, null),
      ),
    );
  };
  const alike = lookAlikes(rows);
  rows.forEach(add);
  table.style.setProperty("--longest", longest(rows));
  if (rest > 1e-6) add({ id: null, text: null, prob: rest, committed: false });
  const [heading, explanation] = distributionOf(odds);
  const drawing = explanation === O.leftIs || explanation === O.matchResidualIs; // says that a token is drawn
  const note = odds.atZero ? (drawing ? O.greedily : `${explanation} ${O.greedily}`) : explanation;
  return el(
    "div",
    { class: "residual" },
    el("h3", {}, heading),
    table,
    el("p", { class: "note" }, note),
    ...drawnFrom(odds),
  );
}

/**
 * The draw of a token without a preceding rejection.
 * @param {Odds} odds
 */
export function drawOf(odds) {
  return el("div", { class: "draw" }, el("h3", {}, O.draw), ...drawnFrom(odds));
}

/** @param {Odds} odds */
function drawnFrom(odds) {
  if (odds.draw === null || odds.atZero) return [];
  const ruler = odds.distribution ? drawRuler(odds.distribution, odds.draw, odds.vocabulary) : [];
  return [
    ...ruler,
    el(
      "p",
      { class: "note", title: O.drawnIs },
      O.drawn(odds.draw),
      ` ${ruler.length ? O.ruler(ruler[0].querySelector(".rest") !== null) : O.unnamedDraw}`,
    ),
  ];
}
