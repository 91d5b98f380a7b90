/** What is said in the tree's first column, which only the root is in: what the root is, and that lines follow each other. */

/**
 * @import { Layout } from "../model/tree.js"
 * @import { Size } from "./tree_size.js"
 */

import { el } from "../dom/dom.js";
import { W } from "../text/text_tree.js";
import { ROOT } from "../model/tree.js";
import { CHIP } from "./tree_size.js";

const LEAST = 66; // px, its longest words
const STEP = 6; // px
const CLOSE = 2; // px of the row's own space

/** @returns `root`, `fit(layout, size, scale)` */
export function createNote() {
  const is = el("span", { class: "note-is" }, W.rootIs);
  const lines = el("span", { class: "note-lines" }, W.inLines);
  const root = el("span", { class: "tree-note" }, is, lines);
  /** @type {Map<string, number[]>} by width: how high both are */
  const known = new Map();
  let fitted = "";
  return {
    root,
    /**
     * Show what there is room for below the root.
     * @param {Layout} layout
     * @param {Size} size of a column and a row
     * @param {number} scale how much larger than usual the page's type is
     * @returns whether it says what the root is
     */
    fit(layout, { column, row }, scale) {
      const room = ((layout.places.get(ROOT)?.wide ?? 1) - 1 + CHIP) * column;
      const wide = STEP * Math.floor(room / STEP); // so that few widths have to be asked for
      const high = (layout.rows - 1) * row;
      const key = `${wide} ${high} ${row} ${layout.lines}`;
      if (key === fitted) return !is.hidden;
      root.style.cssText = `top: ${row}px; inline-size: ${wide}px; block-size: ${high}px`;
      const size = `${wide} ${scale}`;
      if (!known.has(size)) {
        // asking makes the browser lay out the whole tree
        is.hidden = lines.hidden = false;
        known.set(size, [is.offsetHeight, lines.offsetHeight]);
      }
      const [one, other] = known.get(size) ?? [0, 0];
      if (!one) known.clear(); // not laid out yet
      fitted = one ? key : "";
      is.hidden = wide < LEAST * scale || one > high + CLOSE;
      lines.hidden = !layout.lines || (is.hidden ? 0 : one) + other > high + CLOSE;
      return !is.hidden;
    },
  };
}
