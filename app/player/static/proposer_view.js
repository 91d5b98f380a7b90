/** What the proposer of the leading lane looked at, for those that look at something of their own. */

import { drawAhead } from "./ahead_view.js";
import { el } from "./dom.js";
import { drawLookahead } from "./lookahead_view.js";
import { createArrow, drawLookup } from "./lookup_view.js";
import { list, number } from "./model.js";
import { O } from "./text_odds.js";
import { W } from "./text_proposer.js";

/**
 * What a proposer's picture is made from: the round as far as it is visible, and its recorded row.
 * @typedef {{view: import("./state.js").View, lane: import("./model.js").Lane, round: import("./model.js").Round, row: object,
 *   note: Record<string, unknown>, settings: Record<string, unknown>}} Scene
 */

const OVERLAPPING = ["draft-model", "branching"];
const FACTS = {
  medusa: (scene) => W.medusa(number(scene.note.heads), drafted(scene)),
  eagle: (scene) => W.eagle(number(scene.note.levels), number(scene.note.candidates), drafted(scene)),
  "early-exit": (scene) => W.exit(number(scene.note.exit_layer), drafted(scene)),
};

/** @returns the view: `root`, hidden where the proposer has nothing of its own to show, and `show(view)` */
export function createWindow() {
  const root = el("section", { class: "window", hidden: true });
  const arrow = createArrow(root);
  let drawn = "";

  return {
    root,
    /** @param {import("./state.js").View} view */
    show(view) {
      const lane = view.lanes[view.lead]?.lane;
      const settings = lane?.trace?.header?.settings ?? {};
      const drawer = drawerOf(lane?.proposer, settings);
      root.hidden = !drawer || !list(lane.trace?.rounds).length;
      const key = root.hidden ? "" : [lane.trace.header?.id, view.lead, view.current?.index, view.moment?.step].join(" ");
      if (key === drawn) return;
      drawn = key;
      const row = root.hidden ? null : list(lane.trace.rounds)[view.current?.index];
      const scene = row && { view, lane, round: view.current, row, note: row.note ?? {}, settings };
      const title = root.hidden ? "" : (W.titles[lane.proposer] ?? "");
      root.setAttribute("aria-label", title);
      root.replaceChildren(...(root.hidden ? [] : [heading(title, scene), ...(scene ? drawer(scene) : [el("p", { class: "hint" }, W.start)])]));
      arrow.draw();
    },
  };
}

function heading(title, scene) {
  const where = scene && el("p", { class: "odds-where" }, O.where(scene.round.index + 1, scene.lane.label));
  return el("div", { class: "odds-head" }, el("h2", {}, title), where);
}

function drawerOf(proposer, settings) {
  if (proposer === "lookahead") return drawLookahead;
  if (proposer === "prompt-lookup") return drawLookup;
  if (OVERLAPPING.includes(proposer)) return settings.overlap === true ? drawAhead : null;
  return Object.hasOwn(FACTS, String(proposer)) ? (scene) => [el("p", { class: "window-line" }, FACTS[proposer](scene))] : null;
}

/** How many nodes the target was shown; what was pruned was so before it looked. */
function drafted({ lane, round }) {
  return lane.rounds[round.index].proposals.filter((item) => item.verdict !== "pruned" && item.verdict !== "discarded").length;
}
