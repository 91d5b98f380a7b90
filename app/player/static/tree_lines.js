/** The lines of the tree's picture: one to each node, the accepted path under them, and the way to the node pointed at. */

/** @import { Item, Key, Layout } from "./tree.js" */

import { sure } from "./sure.js";
import { ROOT } from "./tree.js";
import { line } from "./tree_node.js";

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {Map<Key, ReturnType<typeof import("./tree_node.js").makeNode>>} nodes what is drawn, with the line to each
 * @returns `root`, `fit(layout)`, `accept(path)`, `point(items, key)`
 */
export function createLines(nodes) {
  const root = document.createElementNS(SVG, "svg");
  for (const [name, value] of [["class", "tree-lines"], ["preserveAspectRatio", "none"], ["aria-hidden", "true"]]) root.setAttribute(name, value);
  const route = line("route"); // under the lines, whose width says something
  const trail = line("trail");
  root.append(route, trail);
  /** @param {Key} node */
  const curveTo = (node) => sure(nodes.get(node)).known.curve;

  return {
    root,
    /** @param {Layout} layout */
    fit({ columns, rows }) {
      root.setAttribute("viewBox", `0 0 ${columns} ${rows}`);
      trail.setAttribute("d", "");
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
      for (let key = node; key !== ROOT && nodes.has(key); key = items.find((item) => item.node === key)?.parent ?? ROOT) way += curveTo(key);
      trail.setAttribute("d", way);
    },
  };
}
