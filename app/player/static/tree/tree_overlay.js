/**
 * What lies on every node: two bars along its lower edge, p solid above, q striped below, as wide as their probability, and
 * a flag in the corner of the target's first choice. They are one picture over all nodes: as parts of each node they would
 * have its style worked out again at every step.
 */

/**
 * @import { Seen, Source } from "../../types.js"
 * @import { Key, Layout } from "../model/tree.js"
 * @import { Known } from "./tree_node.js"
 * @import { Size } from "./tree_size.js"
 */

import { svg } from "../dom/dom.js";
import { write } from "../dom/patch.js";
import { nonNull } from "../dom/non_null.js";
import { boxOf } from "./tree_size.js";

const ASIDE = 5; // px from a bar to the sides
const HIGH = 2; // px of a bar
const FLAG = 9; // px
/** @type {Partial<Record<Seen|Source, number>>} px, as in the style sheet; of others it is 1 */
const BORDERS = { accepted: 2, corrected: 2, plain: 2, unknown: 2, bonus: 4 };
const LOW_BORDERS = { ...BORDERS, bonus: 3 };

/** @returns `root`, `draw(nodes, layout, size, detail)` */
export function createOverlay() {
  const [p, light, q, flags] = ["bar p", "bar light", "bar q", "flags"].map((name) => ({
    path: svg("path", { class: name }),
    known: {},
  })); // q is striped: light under dashes
  const root = svg(
    "svg",
    { class: "tree-overlay", "aria-hidden": "true" },
    p.path,
    light.path,
    q.path,
    flags.path,
  );

  /**
   * @param {Map<Key, Known>} nodes what is known of each
   * @param {Layout} layout
   * @param {Size} size
   * @param {string} detail
   */
  function draw(nodes, layout, size, detail) {
    const low = detail === "word" || detail === "mark"; // no room for bars
    const lift = detail === "text" ? 0 : 1; // px above the border; there they are kept free of what goes below the line of text
    let [above, below, corners] = ["", "", ""];
    for (const [node, { verdict, p: target, q: draft, rank, isOwn }] of nodes) {
      if (low && rank !== 1) continue;
      const { left, top, width, height } = boxOf(nonNull(layout.places.get(node)), size, detail);
      const border = (low ? LOW_BORDERS : BORDERS)[verdict] ?? 1;
      if (rank === 1) {
        const [x, y] = [left + width - border - (isOwn ? 4 : 0), top + border + (isOwn ? 3 : 0)]; // within its own token's round corner
        corners += `M${(x - FLAG).toFixed(1)} ${y.toFixed(1)}h${FLAG}v${FLAG}z`;
      }
      if (low || (detail === "text" && isOwn)) continue; // nor has a double border
      const [x, y, full] = [
        left + border + ASIDE,
        top + height - border - lift - HIGH / 2,
        Math.max(0, width - 2 * (border + ASIDE)),
      ];
      const bar = (/** @type {number|null} */ share, /** @type {number} */ at) =>
        share ? `M${x.toFixed(1)} ${at.toFixed(1)}h${(full * Math.min(share, 1)).toFixed(1)}` : "";
      above += bar(target, y - HIGH);
      below += bar(draft, y);
    }
    write(p, "shape", above, (value) => p.path.setAttribute("d", value));
    write(q, "shape", below, (value) => [light, q].forEach((each) => each.path.setAttribute("d", value)));
    write(flags, "shape", corners, (value) => flags.path.setAttribute("d", value));
  }

  return { root, draw };
}
