/**
 * The lines of the tree's picture: those to the nodes, the accepted path under them, and the way to the node pointed at.
 * Lines of one look are one path, so that a step writes a few shapes and no styles; widths are to half a pixel for that.
 */

/**
 * @import { Item, Key, Layout } from "../model/tree.js"
 * @import { Known } from "./tree_node.js"
 */

import { svg } from "../dom/dom.js";
import { insertAt, write } from "../dom/patch.js";
import { nonNull } from "../dom/non_null.js";
import { ROOT } from "../model/tree.js";
import { CHIP } from "./tree_size.js";

const END = 0.14; // of a column: what is drawn of a line whose other end is elsewhere
const [THIN, THICK] = [1, 9]; // px
const ABOVE = ["rejected", "plain", "unknown", "accepted", "corrected", "bonus"]; // what is drawn over the others where lines meet, lowest first

/** `root`, `fit(layout, items)`, `draw(nodes)`, `accept(path)`, `point(items, key)`. */
export class Lines {
  route = svg("path", { class: "route" }); // under the lines, whose width says something
  trail = svg("path", { class: "trail" });
  root = svg(
    "svg",
    { class: "tree-lines", preserveAspectRatio: "none", "aria-hidden": "true" },
    this.route,
    this.trail,
  );
  /** @type {Map<Key, string>} */
  curves = new Map();
  /** @type {Map<string, {name: string, path: SVGPathElement, known: Record<string, string>}>} by look; kept from round to round */
  looks = new Map();
  curveTo = (/** @type {Key} */ node) => nonNull(this.curves.get(node));

  /** @param {string} verdict @param {string} width px; empty for that of the style sheet */
  lookOf(verdict, width) {
    const layer = ABOVE.indexOf(verdict);
    const name = `${layer + 1} ${verdict} ${width}`;
    const found = this.looks.get(name);
    if (found) return found;
    const made = {
      name,
      path: svg("path", { class: `edge ${verdict}`, ...(width ? { "stroke-width": width } : {}) }),
      known: {},
    };
    this.looks.set(name, made);
    return made;
  }

  /**
   * Other places for the nodes.
   * @param {Layout} layout
   * @param {Item[]} items
   */
  fit(layout, items) {
    this.root.setAttribute("viewBox", `0 0 ${layout.columns} ${layout.rows}`);
    this.trail.setAttribute("d", "");
    this.curves.clear();
    for (const item of items) this.curves.set(item.node, curve(layout, item));
  }

  /** @param {Map<Key, Known>} nodes what is known of each */
  draw(nodes) {
    /** @type {Map<ReturnType<Lines["lookOf"]>, string>} */
    const shapes = new Map();
    for (const [node, { verdict, width }] of nodes) {
      const look = this.lookOf(
        verdict,
        width === null ? "" : (Math.round(2 * (THIN + (THICK - THIN) * width)) / 2).toFixed(1),
      );
      shapes.set(look, (shapes.get(look) ?? "") + this.curveTo(node));
    }
    for (const look of this.looks.values()) if (!shapes.has(look)) look.path.remove();
    [...shapes]
      .sort(([one], [other]) => (one.name < other.name ? -1 : 1))
      .forEach(([look, shape], order) => {
        insertAt(this.root, look.path, order + 1);
        write(look, "shape", shape, (value) => look.path.setAttribute("d", value));
      });
  }

  /** @param {Item[]} path the accepted nodes */
  accept(path) {
    const way = path.map((item) => this.curveTo(item.node)).join("");
    if (this.route.getAttribute("d") !== way) this.route.setAttribute("d", way);
  }

  /**
   * The path from the root to a node.
   * @param {Item[]} items
   * @param {Key} node
   */
  point(items, node) {
    let way = "";
    for (
      let key = node;
      key !== ROOT && this.curves.has(key);
      key = items.find((item) => item.node === key)?.parent ?? ROOT
    )
      way += this.curveTo(key);
    this.trail.setAttribute("d", way);
  }
}

/**
 * A line from a parent's right edge to a child's left one, in columns and rows; where a chain goes on in the next line,
 * its two ends.
 * @param {Layout} layout
 * @param {Item} item
 */
function curve(layout, item) {
  const from = nonNull(layout.places.get(item.parent));
  const to = nonNull(layout.places.get(item.node));
  const [x, y, right, low] = [
    from.column + (from.wide ?? 1) - 1 + CHIP,
    from.row + 0.5,
    to.column,
    to.row + 0.5,
  ];
  if (right < x) return `M${x.toFixed(3)} ${y}h${END}M${right - END} ${low}h${END}`;
  const middle = ((x + right) / 2).toFixed(3);
  return `M${x.toFixed(3)} ${y}C${middle} ${y} ${middle} ${low} ${right} ${low}`;
}
