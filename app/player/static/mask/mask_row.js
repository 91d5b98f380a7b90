/** The parts of the mask's drawing: a row with its cells, and the legend. */

/**
 * @import { Phase } from "../model/moments.js"
 * @import { Pass } from "../model/slots.js"
 */

import { el, setText, svg } from "../dom/dom.js";
import { attribute } from "../dom/patch.js";
import { sees } from "../model/slots.js";
import { flat, quote } from "../text/text.js";
import { W } from "../text/text_tree.js";

const RIM = 0.08; // of a cell
export const PREFIX = { few: 3, many: 4 }; // cells, the width of the folded column, so that its number fits

/** @typedef {ReturnType<typeof makeRow>} Drawn one row as it is drawn */

export function makeRow() {
  const [mark, word, position, slot] = ["mark", "mask-word", "mask-number", "mask-number slot-number"].map(
    (name) => el("span", { class: name }),
  );
  const head = el(
    "button",
    { type: "button", class: "mask-row", "aria-label": "", "aria-disabled": "false", tabindex: -1 },
    mark,
    word,
    position,
    slot,
  );
  const line = svg(
    "g",
    { class: "mask-line" },
    ...["ground", "path", "own", "rim"].map((name) => svg("path", { class: name })),
  );
  return { head, mark, word, position, slot, line, column: el("span", { class: "mask-column" }), known: {} };
}

/**
 * The row's cells: what it attends to. Nothing else in the drawing is filled, also while the pointer is on the row.
 * @param {Drawn} row
 * @param {number} at
 * @param {number[]} seen the slots it attends to, in order
 * @param {number} rows how many the pass has
 */
function drawCells(row, at, seen, rows) {
  const [ground, path, own, rim] = row.line.children;
  attribute(ground, "d", `M${-PREFIX.many} ${at}H${rows}v1H${-PREFIX.many}z`);
  attribute(rim, "d", `M${-PREFIX.many} ${at + RIM}H${rows - RIM}v${1 - 2 * RIM}H${-PREFIX.many}`); // within the row, free of the grid's lines
  attribute(
    path,
    "d",
    `M${-PREFIX.many} ${at}H0v1H${-PREFIX.many}z${runs(seen.slice(0, -1))
      .map(([from, long]) => `M${from} ${at}h${long}v1h-${long}z`)
      .join("")}`,
  );
  attribute(own, "d", `M${at} ${at}h1v1h-1z`);
}

/**
 * Adjacent cells merged: [first, how many].
 * @param {number[]} columns
 */
function runs(columns) {
  /** @type {[number, number][]} */
  const made = [];
  for (const column of columns) {
    const last = made.at(-1);
    if (last && last[0] + last[1] === column) last[1] += 1;
    else made.push([column, 1]);
  }
  return made;
}

/** The samples of the moment: what the cells and the slots look like then. */
export function createLegend() {
  /** @param {keyof typeof W.maskLegend} name */
  const key = (name) =>
    el("span", { class: "mask-key" }, el("i", { class: `mask-sample ${name}` }), W.maskLegend[name]);
  const verdicts = key("verdicts");
  const slots = {
    reserved: key("reserved"),
    written: key("written"),
    kept: key("kept"),
    freed: key("freed"),
    free: key("free"),
  };
  const rider = key("rider");
  const root = el(
    "p",
    { class: "mask-legend hint" },
    key("prefix"),
    key("sees"),
    key("self"),
    verdicts,
    ...Object.values(slots),
    rider,
  );
  return {
    root,
    /** @param {Phase} phase @param {boolean} rides whether the pass has extra tokens */
    show(phase, rides) {
      root.dataset.phase = phase;
      verdicts.hidden = phase === "proposed" || phase === "verified";
      slots.reserved.hidden = phase !== "proposed";
      slots.written.hidden = phase !== "verified" && phase !== "judged";
      slots.kept.hidden = slots.freed.hidden = slots.free.hidden = phase !== "committed";
      rider.hidden = !rides;
    },
  };
}

/**
 * The parts of a row that are the same at every moment.
 * @param {Drawn} row
 * @param {Pass} pass
 * @param {number} at
 * @param {{round: number, lane: number}} owner
 */
export function fillRow(row, pass, at, owner) {
  const { kind, node, text, depth } = pass.rows[at];
  const seen = sees(pass.rows, at);
  const [position, slot] = pass.before === null ? [null, null] : [pass.before + depth, pass.before + at];
  const name = {
    root: W.rowNamed(quote(text), "root"),
    node: quote(text),
    rider: `${quote(text)} (${W.rider})`,
  }[kind];
  setText(row.word, flat(text));
  setText(row.position, position === null ? `+${depth}` : String(position));
  setText(row.slot, slot === null ? `+${at}` : String(slot));
  setText(row.column, slot === null ? `+${at}` : String(slot));
  attribute(row.head, "aria-label", W.maskRow(name, position, slot, seen.length));
  attribute(row.head, "aria-disabled", kind !== "node"); // the others remain readable
  for (const element of [row.head, row.line]) {
    attribute(element, "data-row", at);
    for (const [key, value] of Object.entries({ node, ...owner }))
      attribute(element, `data-${key}`, kind === "node" ? value : null);
  }
  drawCells(row, at, seen, pass.rows.length);
}

/**
 * What a row sees, in a sentence.
 * @param {Pass} pass
 * @param {number} at
 */
export function sentenceOf({ rows, before }, at) {
  const named = sees(rows, at)
    .slice(0, -1)
    .map((each) => (each ? quote(rows[each].text) : W.theRoot(quote(rows[0].text))));
  const others =
    named.length > 5
      ? `${named.slice(0, 2).join(", ")}, ${W.moreRows(named.length - 3)}, ${named.at(-1)}`
      : named.join(", ") || null;
  const own = W.rowNamed(quote(rows[at].text), rows[at].kind);
  return W.maskSees(
    own,
    before,
    others,
    before === null ? null : before + rows[at].depth,
    (before ?? 0) + at,
  );
}
