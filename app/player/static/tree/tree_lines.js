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
const ABOVE = ["rejected", "plain", "accepted", "corrected", "bonus"]; // what is drawn over the others where lines meet, lowest first

/** @returns `root`, `fit(layout, items)`, `draw(nodes)`, `accept(path)`, `point(items, key)` */
export function createLines() {
  const route = svg("path", { class: "route" }); // under the lines, whose width says something
  const trail = svg("path", { class: "trail" });
  const root = svg(
    "svg",
    { class: "tree-lines", preserveAspectRatio: "none", "aria-hidden": "true" },
    route,
    trail,
  );
  /** @type {Map<Key, string>} */
  const curves = new Map();
  /** @type {Map<string, {name: string, path: SVGPathElement, known: Record<string, string>}>} by look; kept from round to round */
  const looks = new Map();
  const curveTo = (/** @type {Key} */ node) => nonNull(curves.get(node));

  /** @param {string} verdict @param {string} width px; empty for that of the style sheet */
  function lookOf(verdict, width) {
    const layer = ABOVE.indexOf(verdict);
    const name = `${layer + 1} ${verdict} ${width}`;
    const found = looks.get(name);
    if (found) return found;
    const made = {
      name,
      path: svg("path", { class: `edge ${verdict}`, ...(width ? { "stroke-width": width } : {}) }),
      known: {},
    };
    looks.set(name, made);
    return made;
  }

  return {
    root,
    /**
     * Other places for the nodes.
     * @param {Layout} layout
     * @param {Item[]} items
     */
    fit(layout, items) {
      root.setAttribute("viewBox", `0 0 ${layout.columns} ${layout.rows}`);
      trail.setAttribute("d", "");
      curves.clear();
      for (const item of items) curves.set(item.node, curve(layout, item));
    },
    /** @param {Map<Key, Known>} nodes what is known of each */
    draw(nodes) {
      /** @type {Map<ReturnType<typeof lookOf>, string>} */
      const shapes = new Map();
      for (const [node, { verdict, width }] of nodes) {
        const look = lookOf(
          verdict,
          width === null ? "" : (Math.round(2 * (THIN + (THICK - THIN) * width)) / 2).toFixed(1),
        );
        shapes.set(look, (shapes.get(look) ?? "") + curveTo(node));
      }
      for (const look of looks.values()) if (!shapes.has(look)) look.path.remove();
      [...shapes]
        .sort(([one], [other]) => (one.name < other.name ? -1 : 1))
        .forEach(([look, shape], order) => {
          insertAt(root, look.path, order + 1);
          write(look, "shape", shape, (value) => look.path.setAttribute("d", value));
        });
    },
    /** @param {Item[]} path the accepted nodes */
    accept(path) {
      const way = path.map((item) => curveTo(item.node)).join("");
      if (route.getAttribute("d") !== way) route.setAttribute("d", way);
    },
    /**
     * The path from the root to a node.
     * @param {Item[]} items
     * @param {Key} node
     */
    point(items, node) {
      let way = "";
      for (
        let key = node;
        key !== ROOT && curves.has(key);
        key = items.find((item) => item.node === key)?.parent ?? ROOT
      )
        way += curveTo(key);
      trail.setAttribute("d", way);
    },
  };
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
