/** Zooming and panning a scroll box: four buttons, keys, the wheel with ctrl, and dragging the empty background. */

import { el, elementOf, icon } from "../dom/dom.js";
import { W } from "../text/text_tree.js";

const STEP = 1.25;
const DRAGGED = 4; // px, from which a press on the background is a drag

/**
 * @param {HTMLElement} box what scrolls
 * @param {{by: (factor: number, at: {x: number, y: number}|null) => void, to: (zoomMode: "fit"|"full") => void}} on `at` is the
 *   place within the box that stays where it is
 * @returns {{root: HTMLElement, key: (event: KeyboardEvent) => boolean}} the buttons; `key` returns whether it handled the key
 */
export function createZoom(box, on) {
  /** @param {string} name @param {string} label @param {Node|string} face @param {() => void} press */
  const button = (name, label, face, press) => {
    const made = el(
      "button",
      { type: "button", class: `zoom-button ${name}`, "aria-label": label, title: label },
      face,
    );
    made.onclick = press;
    return made;
  };
  const out = () => on.by(1 / STEP, null);
  const closer = () => on.by(STEP, null);
  const root = el(
    "div",
    { class: "zoom", role: "group", "aria-label": W.zoom },
    button("smaller", W.zoomOut, icon("M3 7h10v2H3z"), out),
    button("larger", W.zoomIn, icon("M7 3h2v4h4v2H9v4H7V9H3V7h4z"), closer),
    button("fit", W.zoomFit, W.zoomFitWord, () => on.to("fit")),
    button("full", W.zoomFull, W.zoomFullWord, () => on.to("full")),
  );
  box.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const frame = box.getBoundingClientRect();
      on.by(event.deltaY < 0 ? STEP : 1 / STEP, {
        x: event.clientX - frame.left,
        y: event.clientY - frame.top,
      });
    },
    { passive: false },
  );
  pan(box);
  /** @type {Record<string, () => void>} */
  const keys = {
    "+": closer,
    "=": closer,
    "-": out,
    "−": out,
    f: () => on.to("fit"),
    0: () => on.to("full"),
  };
  return {
    root,
    key(event) {
      const action = event.ctrlKey || event.metaKey || event.altKey ? null : keys[event.key];
      action?.();
      return Boolean(action);
    },
  };
}

/**
 * Drag the background with the mouse; a finger scrolls by itself.
 * @param {HTMLElement} box
 */
function pan(box) {
  /** @type {{x: number, y: number, left: number, top: number, moving: boolean}|null} */
  let from = null;
  box.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse" || event.button !== 0 || elementOf(event).closest("button")) return;
    from = { x: event.clientX, y: event.clientY, left: box.scrollLeft, top: box.scrollTop, moving: false };
  });
  box.addEventListener("pointermove", (event) => {
    if (!from) return;
    const [x, y] = [event.clientX - from.x, event.clientY - from.y];
    if (!from.moving && Math.hypot(x, y) < DRAGGED) return;
    if (!from.moving) box.setPointerCapture(event.pointerId);
    from.moving = true;
    box.scrollTo(from.left - x, from.top - y);
  });
  const drop = () => (from = null);
  for (const name of ["pointerup", "pointercancel", "lostpointercapture"]) box.addEventListener(name, drop);
}
