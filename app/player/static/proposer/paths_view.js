/** A head's guesses by how likely their paths are to it: the rank by which some of them were sent to the target. */

/**
 * @import { Proposal } from "../model/model.js"
 * @import { Scene } from "./proposer_view.js"
 */

import { el, present } from "../dom/dom.js";
import { list, number } from "../model/model.js";
import { wasRead } from "../model/slots.js";
import { flat, MARK, prob, quote, VERDICT } from "../text/text.js";
import { W } from "../text/text_proposer.js";

const MOST = 64; // rows; a hostile record may have more guesses

/**
 * Each recorded guess with its path from the root, and the product along it of the probabilities that chose the tree.
 * @param {Scene} scene
 * @returns {{item: Proposal, path: Proposal[], chance: number}[]} the most likely first; empty without these probabilities
 */
export function pathsOf({ round, row, settings }) {
  const penalised =
    (number(settings.repetition_penalty) ?? 1) !== 1 || (number(settings.no_repeat_ngram_size) ?? 0) > 0;
  // The rank is by what penalties leave of q, which an old record has at temperature 0 only.
  const q = list(row.nodes?.tree_q ?? (penalised ? row.nodes?.penalised_q : row.nodes?.model_q)).map(number);
  /** @type {Map<number, {path: Proposal[], chance: number}>} */
  const known = new Map([[-1, { path: [], chance: 1 }]]);
  const found = [];
  for (const item of round.proposals) {
    const above = known.get(item.parent);
    const own = q[item.node] ?? null;
    if (!above || own === null || item.verdict === "discarded" || item.verdict === "absent") continue;
    const here = { path: [...above.path, item], chance: above.chance * own };
    known.set(item.node, here);
    found.push({ item, ...here });
  }
  return found.sort((one, other) => other.chance - one.chance);
}

/**
 * @param {Scene} scene
 * @returns {HTMLElement[]}
 */
export function drawPaths(scene) {
  const found = pathsOf(scene);
  if (!found.length) return [];
  const { view, round } = scene;
  const by = W.pathsBy(number(scene.note.tree_temperature));
  const rows = found.slice(0, MOST).flatMap(({ item, path, chance }, at) => {
    const bar = el("i", { class: "path-bar" });
    bar.style.setProperty("--share", `${100 * Math.min(Math.max(chance, 0), 1)}%`);
    const first = at > 0 && !wasRead(item) && wasRead(found[at - 1].item);
    return present([
      first ? el("li", { class: "path-unsent hint" }, W.pathsUnsent) : null,
      el(
        "li",
        { class: wasRead(item) ? "path-row" : "path-row unsent", "data-node": item.node },
        el("span", { class: "phrase" }, ...path.map(token)),
        bar,
        el("span", { class: "path-number" }, prob(chance)),
      ),
    ]);
  });
  return [
    el("p", { class: "hint" }, by),
    el(
      "ol",
      { class: "paths", "aria-label": by, "data-round": round.index, "data-lane": view.lead },
      ...rows,
    ),
  ];
}

/**
 * A token of a path; its verdict as far as it is known.
 * @param {Proposal} item
 */
function token(item) {
  return el(
    "span",
    {
      class: `phrase-token ${item.verdict}`,
      "data-node": item.node,
      title: `${quote(item.text)}: ${VERDICT[/** @type {keyof typeof VERDICT} */ (item.verdict)] ?? item.verdict}`,
    },
    MARK[item.verdict] ? el("span", { class: "mark", "aria-hidden": "true" }, MARK[item.verdict]) : null,
    flat(item.text),
  );
}
