/** A finger cannot hover: a tap on what has a title, and does nothing else, shows the title beside it. That of a node stands below its tree. */

import { el, elementOf, setNote } from "../dom/dom.js";

const PRESSED = "button, a, select, input, label, summary, [role=button], [data-node]";
const EDGE = 8; // px between the words and the player's edges

/**
 * @param {HTMLElement} box the player
 * @returns {HTMLElement} what shows the words; a part of the player
 */
export function createTouchTitles(box) {
  const words = el("div", { class: "touch-title", role: "status", hidden: true });
  box.addEventListener("click", (event) => {
    const target = elementOf(event);
    const touched = matchMedia("(hover: none)").matches;
    if (touched && target.closest("[data-node]"))
      requestAnimationFrame(() => box.querySelector(".tapped")?.scrollIntoView({ block: "nearest" }));
    const titled = touched && !target.closest(PRESSED) ? target.closest("[title]") : null;
    const title = titled && box.contains(titled) ? titled.getAttribute("title") : "";
    setNote(words, title === words.textContent ? "" : (title ?? "")); // tapped again, they go
    if (!titled || words.hidden) return;
    const [place, frame] = [titled.getBoundingClientRect(), box.getBoundingClientRect()];
    words.style.insetInlineStart = "0px"; // measured where it has room
    const above = place.bottom + words.offsetHeight + EDGE > innerHeight;
    words.style.insetBlockStart = `${above ? place.top - frame.top - words.offsetHeight - EDGE / 2 : place.bottom - frame.top + EDGE / 2}px`;
    const left = Math.min(place.left - frame.left, frame.width - words.offsetWidth - EDGE);
    words.style.insetInlineStart = `${Math.max(EDGE, left)}px`;
  });
  addEventListener("scroll", hide, { capture: true, passive: true });
  function hide() {
    if (!box.isConnected) removeEventListener("scroll", hide, { capture: true });
    else setNote(words, "");
  }
  return words;
}
