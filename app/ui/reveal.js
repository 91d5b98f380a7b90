/** Scrolls a part of the page into view, once for each `turn`, and gives the keyboard to the player in it, if any. */

// A newly mounted element has missed nothing: earlier requests are over.
const PATIENCE_MS = 10_000; // a part, and its player, may still be loading: it is followed while it grows
const OTHERWISE = ["pointerdown", "keydown", "wheel", "touchmove"]; // the viewer has moved on
/** @type {WeakMap<Element, number>} */
const turns = new WeakMap();

/** @param {{data: {turn: number, part: string}, parentElement: Element}} given */
export default function ({ data, parentElement }) {
  const known = turns.has(parentElement);
  if (known && turns.get(parentElement) === data.turn) return;
  turns.set(parentElement, data.turn);
  if (!known) return;
  const until = performance.now() + PATIENCE_MS;
  let over = false;
  let height = 0; // of the part as it was shown last
  const end = () => {
    over = true;
    for (const name of OTHERWISE) window.removeEventListener(name, end, true);
  };
  for (const name of OTHERWISE) window.addEventListener(name, end, true);
  const look = () => {
    if (over || turns.get(parentElement) !== data.turn || performance.now() > until) return end();
    const part = document.querySelector(`.st-key-${data.part}`);
    if (part && part.clientHeight !== height) {
      height = part.clientHeight;
      const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
      const { scrollMarginTop, scrollMarginBottom } = getComputedStyle(part);
      const fits = height + parseFloat(scrollMarginTop) + parseFloat(scrollMarginBottom) <= innerHeight;
      part.scrollIntoView({ block: fits ? "nearest" : "start", behavior: calm ? "auto" : "smooth" });
    }
    const player = part && playerIn(part);
    if (player) {
      player.focus({ preventScroll: true });
      return end();
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}

/** @param {Element} part */
function playerIn(part) {
  for (const each of part.querySelectorAll("*")) {
    const found = each.shadowRoot?.querySelector(".player");
    if (found instanceof HTMLElement) return found;
  }
  return null;
}
