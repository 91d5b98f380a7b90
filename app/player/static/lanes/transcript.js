/** One sentence per event, in a live region for screen readers. */

import { el, setText } from "../dom/dom.js";

/** @returns the line's view: `root`, `show(text, quiet)` */
export function createTranscript() {
  const root = el("p", { class: "transcript", "aria-live": "polite" });
  return {
    root,
    /**
     * @param {string} text
     * @param {boolean} quiet whether screen readers should not read it out, as during fast playback
     */
    show(text, quiet) {
      const live = quiet ? "off" : "polite";
      if (root.getAttribute("aria-live") !== live) root.setAttribute("aria-live", live);
      setText(root, text);
    },
  };
}
