/** The pane of a lane's text: it follows the text's end until the viewer scrolls away, and begins with a whole row. */

import { el } from "../dom/dom.js";

const NEAR_END = 32; // pixels; if closer to the end than this, the pane follows the text
const ABOVE = 1; // pixels between the pane's edge and the first visible row

/**
 * @param {HTMLElement} text
 * @param {() => Element[]} parts of the text, the last one first
 */
export function createPane(text, parts) {
  const below = el("div", { "aria-hidden": "true", style: "block-size: 0px;" }); // padding that allows scrolling to a whole row
  const root = el("div", { class: "pane", tabindex: 0, role: "group" }, text, below);
  let following = true;
  let due = false; // whether the end of the text has moved
  let laid = ""; // the sizes for which the pane was last scrolled
  let padding = 0; // px of `below`
  root.addEventListener(
    "scroll",
    () => {
      if (due || sizes() !== laid) return; // the text moved, not the viewer: it is scrolled back to its end
      following = root.scrollHeight - root.scrollTop - root.clientHeight < NEAR_END;
    },
    { passive: true },
  );
  const observer = new ResizeObserver(() => {
    if (sizes() === laid) return;
    due = true;
    settle()();
  });
  for (const part of [root, text]) observer.observe(part);

  function sizes() {
    return `${root.clientWidth} ${root.clientHeight} ${text.offsetHeight}`;
  }

  /**
   * Where the pane shows only whole rows when scrolled at least to `low`. If no row begins later, as where a line has just
   * ended in a pane of one line, the last row if it is near, else `low` itself.
   * @param {number} low
   */
  function wholeRow(low) {
    const from = root.getBoundingClientRect().top + root.clientTop - root.scrollTop;
    let [first, last] = [Infinity, -Infinity];
    for (const part of parts()) {
      const words = part.matches(".round, .draft") ? [...part.querySelectorAll(".tok, .guess")] : [part];
      const tops = words
        .flatMap((word) => [...word.getClientRects()])
        .filter((box) => box.width > 0)
        .map((box) => box.top - from - ABOVE);
      first = Math.min(first, ...tops.filter((top) => top >= low));
      last = Math.max(last, ...tops);
      if (tops.some((top) => top < low)) break; // everything before it is higher
    }
    if (first < Infinity) return first;
    return last > low - NEAR_END ? last : low; // from farther away it would count as scrolled by the viewer
  }

  /**
   * Where to scroll as requested while drawing. Reading makes the browser lay out what was drawn, so that every lane is
   * read before one is changed.
   * @returns {() => void} scrolls there
   */
  function settle() {
    if (!due) return () => {};
    due = false;
    laid = sizes();
    if (!following || !root.clientHeight) return () => {};
    const low = root.scrollHeight - padding - root.clientHeight;
    const top = low > 0 ? wholeRow(low) : 0;
    return () => {
      const wanted = low > 0 && top > low ? Math.ceil(top - low) + 1 : 0;
      if (wanted !== padding) below.style.blockSize = `${wanted}px`;
      padding = wanted;
      root.scrollTop = top;
    };
  }

  return {
    root,
    settle,
    /** The end of the text has moved. */
    moved() {
      due = true;
    },
    /** Follow the end of the text again, e.g. because the viewer stepped. */
    follow() {
      following = due = true;
    },
    /** Bring a token into the pane, without moving the page. @param {Element} token */
    reveal(token) {
      const place = token.getBoundingClientRect();
      const frame = root.getBoundingClientRect();
      if (place.top < frame.top) root.scrollTop -= frame.top - place.top + ABOVE;
      else if (place.bottom > frame.bottom)
        root.scrollTop = wholeRow(root.scrollTop + place.bottom - frame.bottom + ABOVE);
    },
  };
}
