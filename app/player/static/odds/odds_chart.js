/** Draws p against q: a table whose rows carry three areas, and their sums. */

/**
 * @import { Areas, Row } from "./areas.js"
 * @import { Odds } from "./odds.js"
 * @import { Bars, Shown } from "./odds_rows.js"
 */

import { polygons, ticks } from "./areas.js";
import { el, svg } from "../dom/dom.js";
import { below, flat, MARK, prob, quote } from "../text/text.js";
import { O } from "../text/text_odds.js";

/** @typedef {"shared"|"over"|"under"} Part */

/** @type {("p"|"q")[]} */
const SIDES = ["q", "p"];
/** @type {Part[]} */
const PARTS = ["shared", "over", "under"];

/**
 * Both distributions as bars of length 1, made of what they share and what they do not; with the numbers.
 * @param {NonNullable<Areas["totals"]>} totals
 * @param {Record<Part, string>} words
 * @param {boolean} fixed
 */
export function sums(totals, words, fixed) {
  /** @param {Part} name @param {number} size */
  const piece = (name, size) => {
    const part = el("span", { class: `area ${name}` });
    part.style.inlineSize = `${100 * size}%`;
    return part;
  };
  /** @param {"p"|"q"} name @param {Part} other */
  const bar = (name, other) =>
    el(
      "div",
      { class: "sum" },
      el("span", { class: "sum-name" }, O.sums[name]),
      el("span", { class: "sum-bar" }, piece("shared", totals.shared), piece(other, 1 - totals.shared)),
    );
  /** @param {Part} name */
  const item = (name) =>
    words[name] &&
    el(
      "li",
      { "data-part": name, "data-value": totals[name] },
      el("span", { class: `swatch area ${name}` }),
      el("span", {}, words[name]),
      el("b", {}, prob(totals[name])),
    );
  return el(
    "div",
    { class: "sums" },
    el("div", { "aria-hidden": "true" }, fixed ? null : bar("q", "over"), bar("p", "under")),
    el("ul", { class: "part-list" }, ...PARTS.map((name) => item(name) || null)),
  );
}

/**
 * A sentence with the areas that it is about drawn after their names.
 * @param {string} sentence with their names in braces
 * @param {boolean} areas whether they are drawn in the chart
 */
export function keyed(sentence, areas) {
  return sentence
    .split(/\[(\w+)\]/)
    .map((part, at) => (at % 2 === 0 ? part : areas ? el("i", { class: `swatch area ${part}` }) : ""));
}

/**
 * The areas over the rows of a table: one row for each token, one polygon for each area.
 * @param {Areas<Shown>} areas
 * @param {Bars} bars
 * @param {boolean} parts
 * @param {Odds} odds
 */
export function chart(areas, bars, parts, odds) {
  const heads = el(
    "div",
    { class: `bar-row bar-heads${bars.hasQ ? "" : " single"}`, role: "row", title: O.order },
    el("span", { role: "columnheader" }, el("span", { class: "unseen" }, O.token)),
    el(
      "span",
      { class: "key", role: "columnheader" },
      bars.hasP ? el("span", {}, el("span", { class: "stroke p" }), O.target) : null,
      bars.hasQ
        ? el(
            "span",
            {},
            el("span", { class: "stroke q" }),
            odds.sureQ && bars === odds.judged ? O.certain : O.draft,
          )
        : null,
    ),
    bars.hasP || !bars.hasQ ? el("span", { class: "value", role: "columnheader" }, "p") : null,
    bars.hasQ ? el("span", { class: "value", role: "columnheader" }, "q") : null,
  );
  const columns = (bars.hasP ? 1 : 0) + (bars.hasQ ? 1 : 0);
  const alike = lookAlikes(areas.rows);
  const body = el(
    "div",
    { class: "bar-body", role: "rowgroup" },
    plane(areas, parts, bars),
    ...areas.rows.map((row) => barRow(row, areas.top, bars, parts, odds, alike)),
  );
  const table = el(
    "div",
    { class: `bars chart columns-${columns}`, role: "table", "aria-label": O.views },
    el("div", { role: "rowgroup" }, heads),
    body,
    axis(areas.top),
  );
  table.style.setProperty("--longest", longest(areas.rows));
  return table;
}

/**
 * What is drawn under all rows at once.
 * @param {Areas<Shown>} areas
 * @param {boolean} parts
 * @param {Bars} bars
 */
function plane(areas, parts, bars) {
  const made = polygons(areas, parts).map(({ name, points }) => {
    const part = el("div", { class: `area ${name}`, "data-area": name });
    part.style.clipPath = `polygon(${points.map(([x, y]) => `${(100 * x).toFixed(4)}% ${(100 * y).toFixed(4)}%`).join(", ")})`;
    return part;
  });
  const lines = svg("svg", { viewBox: `0 0 1 ${areas.rows.length}`, preserveAspectRatio: "none" });
  for (const name of SIDES.filter((each) => bars[each === "p" ? "hasP" : "hasQ"])) {
    const steps = areas.rows.map((row, at) => `H${((row[name] ?? 0) / areas.top).toFixed(5)} V${at + 1}`);
    lines.append(svg("path", { class: name, d: `M0 0 ${steps.join(" ")} H0` }));
  }
  return el("div", { class: "plane", "aria-hidden": "true" }, ...made, lines);
}

/** @param {Row<Shown>} row @param {number} top @param {Bars} bars @param {boolean} parts @param {Odds} odds @param {Set<number|null>} alike */
function barRow(row, top, bars, parts, odds, alike) {
  const beside = row.node === null ? null : (odds.verdicts.get(row.node) ?? null);
  const verdict = row.chosen ? odds.verdict : beside === "accepted" || beside === "rejected" ? beside : null;
  const mark = (verdict ? MARK[verdict] : row.committed && odds.committed ? MARK[odds.committed] : "") ?? "";
  const said = parts ? (row.most > 1e-9 ? O.sharedAtMost(row.most) : O.sharedBy(row.shared)) : "";
  const plot = el("span", { class: "plot", role: "cell" }, el("span", { class: "unseen" }, said));
  if (parts && row.most > 0) {
    const fog = el("span", { class: "fog", title: O.among });
    fog.style.inlineSize = `${(100 * row.most) / top}%`;
    plot.append(fog);
  }
  const at = row.node;
  if (odds.at !== null && row.id !== null && row.text !== null)
    plot.append(
      el(
        "button",
        {
          type: "button",
          class: "from-here",
          "data-at": odds.at,
          "data-id": row.id,
          title: O.fromHere(quote(row.text)),
          "aria-label": O.fromHere(quote(row.text)),
        },
        "⤷",
      ),
    );
  return el(
    "div",
    {
      class: `bar-row${row.chosen ? " chosen" : ""}`,
      role: "row",
      "data-token": row.id ?? "rest",
      "data-node": at,
      "data-round": at === null ? null : odds.round,
      "data-lane": at === null ? null : odds.lane,
    },
    label(row.text, mark, alike.has(row.id) ? row.id : null),
    plot,
    bars.hasP || !bars.hasQ ? value("p", row.p, row.pBound) : null,
    bars.hasQ ? value("q", row.q, row.qBound) : null,
  );
}

/** @param {string} text */
function shortOf(text) {
  return flat(text.length > 24 ? `${text.slice(0, 23)}…` : text);
}

/**
 * How many characters the labels of these rows need.
 * @param {{text: string|null}[]} rows
 */
export function longest(rows) {
  return String(Math.max(0, ...rows.map(({ text }) => shortOf(text ?? "").length)));
}

/**
 * The tokens that an eye cannot tell apart, as dashes and quotation marks of several kinds.
 * @param {{id: number|null, text: string|null}[]} rows
 * @returns {Set<number|null>} their ids
 */
export function lookAlikes(rows) {
  /** @type {Map<string, (number|null)[]>} */
  const ids = new Map();
  for (const { id, text } of rows) {
    if (text === null) continue;
    const seen = /^[ \w]*$/.test(text)
      ? text
      : flat(text)
          .normalize("NFKC")
          .replace(/\p{Dash}/gu, "-")
          .replace(/\p{Quotation_Mark}/gu, "'");
    ids.set(seen, [...(ids.get(seen) ?? []), id]);
  }
  return new Set([...ids.values()].filter((same) => same.length > 1).flat());
}

/** @param {string|null} text @param {string} marks @param {number|null} [id] shown beside it, where its text does not tell it from another */
export function label(text, marks, id = null) {
  const word = el("span", { class: "bar-token" }, text === null ? el("i", {}, O.everything) : shortOf(text));
  const number = id === null ? null : el("span", { class: "bar-id", title: O.looksAlike }, O.tokenId(id));
  return el(
    "span",
    { class: "bar-label", role: "rowheader", title: text === null ? O.everythingIs : quote(text) },
    word,
    number,
    marks ? el("span", { class: "bar-mark" }, marks) : null,
  );
}

/** @param {string} name @param {number|null} exact @param {number|null|undefined} bound */
export function value(name, exact, bound) {
  const [text, title] =
    exact !== null
      ? [prob(exact), String(Number(exact.toPrecision(6)))]
      : bound === null || bound === undefined
        ? ["—", null]
        : [below(bound), O.bounded];
  return el(
    "span",
    {
      class: `value${exact === null ? " bound" : ""}`,
      role: "cell",
      "data-name": name,
      "data-value": exact,
      title,
    },
    text,
  );
}

/** @param {number} top */
function axis(top) {
  return el(
    "div",
    { class: "scale", "aria-hidden": "true" },
    ...ticks(top).map((value) => {
      const tick = el("span", { class: "tick" }, String(value));
      tick.style.insetInlineStart = `${(100 * value) / top}%`;
      return tick;
    }),
  );
}
