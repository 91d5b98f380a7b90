/** A node of the tree: creating it, and updating it to what is known at a moment. */

/**
 * @import { Seen, Source } from "../../types.js"
 * @import { Key } from "../model/tree.js"
 */

import { el, setText } from "../dom/dom.js";
import { setClass, write } from "../dom/patch.js";
import { nonNull } from "../dom/non_null.js";
import { flat, MARK, prob, quote, VERDICT } from "../text/text.js";
import { W } from "../text/text_tree.js";
import { OWN } from "../model/tree.js";
import { LONG } from "./tree_size.js";

/**
 * @typedef {{text: string, verdict: Seen|Source, above: string, depth: number, p: number|null, q: number|null, ownQ: boolean, rank: number|null,
 *   width: number|null, judging: boolean, focus: ""|"focused"|"selected", stop: boolean, isOwn: boolean, detail: string}} Known
 *   `above` is the parent's text, `width` the line's between 0 and 1, `stop` whether the tab key stops here, `detail` how much of
 *   it is drawn
 */

/** @param {Key} key */
export function makeNode(key) {
  const [mark, word] = [
    el("span", { class: "mark", "aria-hidden": "true" }),
    el("span", { class: "chip-text" }),
  ];
  const [p, q] = [el("span"), el("span")];
  const chip = el(
    "button",
    { type: "button", class: "chip", "data-node": key === OWN ? -1 : key },
    el("span", { class: "chip-top" }, mark, word),
    el("span", { class: "chip-facts" }, p, q),
  );
  // The place is a box's around it: moving the chip itself would have all of its own style worked out again.
  const slot = el("span", { class: "seat" }, chip);
  /** @type {Record<string, string|number|boolean|null>} what was last written, by name */
  const known = {};
  return { slot, chip, mark, word, p, q, known };
}

/**
 * @param {ReturnType<typeof makeNode>} node
 * @param {Known} known
 */
export function paintNode(node, known) {
  const { text, verdict, p, q, ownQ, rank, isOwn, detail } = known;
  const [pIs, qIs] = [p === null ? "" : `p ${prob(p)}`, q === null ? "" : W.qIs(prob(q), ownQ)];
  const numbers = detail === "full" || detail === "pair"; // what is not drawn is left empty: a tree of 64 nodes then steps faster
  const states = [
    "chip",
    verdict,
    isOwn && "ghost",
    rank === 1 && (detail === "text" || detail === "word") && "flagged",
    known.judging && "judging",
    known.focus,
  ];
  setClass(node.chip, states.filter(Boolean).join(" "));
  write(node, "text", flat(text), (value) => {
    setText(node.word, value);
    node.word.classList.toggle("long", value.length > LONG);
  });
  write(node, "mark", MARK[verdict] ?? "", (value) => setText(node.mark, value));
  write(node, "p", numbers ? pIs : "", (value) => setText(node.p, value));
  write(node, "q", numbers ? qIs : "", (value) => setText(node.q, value));
  const facts = [pIs, qIs, rank ? W.ranked(rank) : ""].filter(Boolean).join(", ");
  const label = isOwn
    ? W.ownNode(quote(text), VERDICT[verdict] ?? verdict, quote(known.above), facts)
    : W.node(quote(text), VERDICT[verdict] ?? verdict, known.depth, quote(known.above), facts);
  write(node, "label", label, (value) => node.chip.setAttribute("aria-label", value));
  write(
    node,
    "title",
    ownQ && q !== null ? `${label}.\n${W.ownQ}` : label,
    (value) => (node.chip.title = value),
  );
  write(node, "pressed", Boolean(known.focus), (value) =>
    node.chip.setAttribute("aria-pressed", String(value)),
  );
  write(node, "stop", known.stop ? 0 : -1, (value) => (node.chip.tabIndex = value));
}

/** The meaning of the lines, bars and corners. */
export function createLegend() {
  const line = el("span", { class: "tree-key width" });
  const bars = el("span", { class: "tree-key bars" }, el("i", { class: "bars-sample" }), el("span"));
  const way = el("span", { class: "tree-key way" }, el("i", { class: "way-sample" }), W.onPath);
  const first = el("span", { class: "tree-key first" }, el("i", { class: "first-sample" }), W.firstChoice);
  let drawn = "";
  return {
    root: el("p", { class: "tree-legend hint" }, line, bars, first, way),
    /**
     * @param {""|keyof typeof W.widthBy} by
     * @param {boolean} accepted
     * @param {{ranked: boolean, drafted: boolean, judged: boolean}} facts
     */
    show(by, accepted, { ranked, drafted, judged }) {
      const name = `${by} ${accepted} ${ranked} ${drafted} ${judged}`;
      if (name === drawn) return;
      drawn = name;
      setText(line, by ? W.widthBy[by] : "");
      line.hidden = !by;
      bars.hidden = !by || !(drafted || judged);
      setText(nonNull(bars.lastChild), W.bars(judged, drafted));
      bars.className = `tree-key bars${judged ? "" : " no-p"}${drafted ? "" : " no-q"}`;
      // Their places are theirs from the start, or a legend that needs a second line then would move what is below it.
      way.classList.toggle("absent", !accepted);
      first.classList.toggle("absent", !ranked);
    },
  };
}
