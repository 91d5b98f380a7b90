/** The pane of a lane's text: it follows the text's end until the viewer scrolls away, and begins with a whole row. */

import { el } from "../dom/dom.js";

const NEAR_END = 32; // pixels; if closer to the end than this, the pane follows the text
const ABOVE = 1; // pixels between the pane's edge and the first visible row

export class Pane {
  below = el("div", { "aria-hidden": "true", style: "block-size: 0px;" }); // padding that allows scrolling to a whole row
  following = true;
  due = false; // whether the end of the text has moved
  laid = ""; // the sizes for which the pane was last scrolled
  padding = 0; // px of `below`
  observer = new ResizeObserver(() => {
    if (this.sizes() === this.laid) return;
    this.due = true;
    this.settle()();
  });

  /**
   * @param {HTMLElement} text
   * @param {() => Element[]} parts of the text, the last one first
   */
  constructor(text, parts) {
    this.text = text;
    this.parts = parts;
    this.root = el("div", { class: "pane", tabindex: 0, role: "group" }, this.text, this.below);
    this.root.addEventListener(
      "scroll",
      () => {
        if (this.due || this.sizes() !== this.laid) return; // the text moved, not the viewer: it is scrolled back to its end
        this.following = this.root.scrollHeight - this.root.scrollTop - this.root.clientHeight < NEAR_END;
      },
      { passive: true },
    );
    for (const part of [this.root, this.text]) this.observer.observe(part);
  }

  sizes() {
    return `${this.root.clientWidth} ${this.root.clientHeight} ${this.text.offsetHeight}`;
  }

  /**
   * Where the pane shows only whole rows when scrolled at least to `low`. If no row begins later, as where a line has just
   * ended in a pane of one line, the last row if it is near, else `low` itself.
   * @param {number} low
   */
  wholeRow(low) {
    const from = this.root.getBoundingClientRect().top + this.root.clientTop - this.root.scrollTop;
    let [first, last] = [Infinity, -Infinity];
    for (const part of this.parts()) {
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
  settle() {
    if (!this.due) return () => {};
    this.due = false;
    this.laid = this.sizes();
    if (!this.following || !this.root.clientHeight) return () => {};
    const low = this.root.scrollHeight - this.padding - this.root.clientHeight;
    const top = low > 0 ? this.wholeRow(low) : 0;
    return () => {
      const wanted = low > 0 && top > low ? Math.ceil(top - low) + 1 : 0;
      if (wanted !== this.padding) this.below.style.blockSize = `${wanted}px`;
      this.padding = wanted;
      this.root.scrollTop = top;
    };
  }

  /** The end of the text has moved. */
  moved() {
    this.due = true;
  }

  /** Follow the end of the text again, e.g. because the viewer stepped. */
  follow() {
    this.following = this.due = true;
  }

  /** Bring a token into the pane, without moving the page. @param {Element} token */
  reveal(token) {
    const place = token.getBoundingClientRect();
    const frame = this.root.getBoundingClientRect();
    if (place.top < frame.top) this.root.scrollTop -= frame.top - place.top + ABOVE;
    else if (place.bottom > frame.bottom)
      this.root.scrollTop = this.wholeRow(this.root.scrollTop + place.bottom - frame.bottom + ABOVE);
  }
}
