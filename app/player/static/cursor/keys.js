/** The player's keys. They work while the focus is inside it, and never where the viewer types or chooses. */

/** @import { Moves } from "./controls.js" */

import { elementOf } from "../dom/dom.js";

/**
 * @param {{ready: () => boolean, moves: Omit<Moves, "scrub"|"speed"|"help">, node: (by: 1|-1) => void, lead: (lane: number) => void,
 *   view: () => void, drop: () => void, choose: (chip: HTMLElement) => void, help: () => void}} on
 * @returns {(event: KeyboardEvent) => void}
 */
export function createKeys(on) {
  const { moves } = on;
  /** @type {Record<string, () => void>} */
  const actions = {
    ArrowRight: moves.step,
    ArrowLeft: moves.back,
    ArrowDown: moves.next,
    ArrowUp: moves.previous,
    ".": () => on.node(1),
    ",": () => on.node(-1),
    v: on.view,
    Home: moves.first,
    End: moves.last,
    Escape: on.drop,
    " ": moves.play,
    "?": on.help,
  };
  for (let lane = 0; lane < 9; lane += 1) actions[String(lane + 1)] = () => on.lead(lane);
  return (event) => {
    const target = elementOf(event);
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (target.closest("dialog, select, textarea, [contenteditable]")) return;
    if (target instanceof HTMLInputElement && target.type !== "range") return;
    if (target.matches("button, summary") && event.key === " ") return; // the button's own key
    if (target.matches("span[role=button]") && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      on.choose(target);
      return;
    }
    const action = Object.hasOwn(actions, event.key) ? actions[event.key] : null;
    if (!action || !on.ready()) return;
    if (event.key === "Escape") {
      on.drop(); // left to the page as well, where it may stop a run
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    action();
    // A ring would stay around a token that is no longer looked at.
    if (target.matches("span[role=button]"))
      /** @type {HTMLElement|null} */ (target.closest(".player"))?.focus({ preventScroll: true });
  };
}

const CHOICE =
  "[role=tablist], [role=radiogroup], [role=toolbar], [role=menu], [role=listbox], [role=dialog], [role=grid], [role=tree], dialog";

const LENT = new Set(["ArrowRight", "ArrowLeft", "Home", "End", " ", "?"]);

/**
 * Stepping, the ends, playing and the help, wherever the page does not need these keys: without focus, or, but for the space bar that
 * presses it, on a plain button. Not ↑ and ↓, which scroll, and no letters.
 * @param {HTMLElement} box the player
 * @param {(event: KeyboardEvent) => void} keys the player's own
 * @param {() => void} before called first
 * @returns {{destroy: () => void}}
 */
export function forwardKeys(box, keys, before) {
  const page = box.ownerDocument;
  /** @param {KeyboardEvent} event */
  function lend(event) {
    if (!LENT.has(event.key)) return;
    const target = elementOf(event);
    const ground = target.matches("body, main") && target.scrollWidth <= target.clientWidth; // otherwise they scroll it
    const button =
      event.key !== " " &&
      target.matches("button:not([role], [aria-haspopup]), button:not([role])[aria-haspopup=dialog]") &&
      !target.closest(CHOICE);
    if (
      !(ground || button) ||
      (event.shiftKey && event.key !== "?") ||
      page.querySelector("dialog[open], [role=dialog]")
    )
      return;
    const { top, bottom, height } = box.getBoundingClientRect();
    if (height <= 0 || bottom <= 0 || top >= innerHeight) return; // do not move what is out of sight
    before();
    keys(event);
  }
  page.addEventListener("keydown", lend);
  return { destroy: () => page.removeEventListener("keydown", lend) };
}
