/** The current round in large: its number, how long its phases took, and the tree of what was proposed. */

/**
 * @import { Phases, Trace } from "../../types.js"
 * @import { View } from "../model/state.js"
 */

import { el, setText } from "../dom/dom.js";
import { usualInstead } from "../model/held_up.js";
import { list, number } from "../model/model.js";
import { knows } from "../model/moments.js";
import { T } from "../text/text.js";
import { TreeView } from "./tree_view.js";

/** @returns the view: `root`, `show(view)`, `settle()`, `focus(node)`, `has(element)` */
export function createRound() {
  const title = el("h2", { class: "round-title" });
  const phases = el("span", { class: "phases", title: T.phasesAre });
  const tree = new TreeView();
  const root = el(
    "section",
    { class: "strip" },
    el("div", { class: "strip-head" }, title, phases),
    tree.root,
  );

  return {
    root,
    /** @param {View} view */
    show(view) {
      const round = view.current;
      setText(title, round ? T.roundTitle(round.index + 1) : T.prompt);
      tree.root.setAttribute("aria-label", title.textContent);
      const { lane } = view.lanes[view.lead] ?? {};
      const trace = round && knows(view, "times") ? (lane?.trace ?? null) : null;
      const usual = trace && round && !lane.untimed ? usualInstead(trace, round.index) : null;
      setText(
        phases,
        !trace || !round ? "" : lane.untimed ? T.untimed : phaseText(trace, round.index, usual),
      );
      phases.title = T.phasesAre + (usual === null ? "" : `. ${T.heldUp}`);
      tree.show(view);
    },
    /** Scroll as requested while drawing. */
    settle: () => tree.settle(),
    /** Give the keyboard to the chip of `node`, if it is here. */
    focus: (/** @type {number} */ node) => tree.focus(node),
    /** Whether the keyboard is on one of the nodes. */
    has: (/** @type {Element|null} */ element) => tree.has(element),
  };
}

/** @param {Trace} trace @param {number} index @param {number|null} usual seconds of the target's pass, where this one was held up */
function phaseText(trace, index, usual) {
  const row = list(trace.rounds)[index];
  /** @param {keyof Phases} name */
  const part = (name) => number(row?.[name]) ?? 0;
  const idle = !row?.draft_passes && !list(row?.nodes?.token).length; // what came before such a check was no drafting
  const other = part("judge_s") + part("commit_s") + (idle ? part("draft_s") : 0);
  return row ? T.phases(idle ? 0 : part("draft_s"), part("verify_s"), other, part("ahead_s"), usual) : "";
}
