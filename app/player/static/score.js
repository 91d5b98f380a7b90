/** The measured speedup in large, with its definition and where the number comes from. */

import { el, setText } from "./dom.js";
import { LEGEND, MARK, T } from "./text.js";

/** @returns the head's view: `root`, `show(speedup, plainLabel, provenance, note, temperature)` */
export function createScore() {
  const value = el("span", { class: "speedup-value" });
  const words = el("span", { class: "speedup-words" });
  const origin = el("span", { class: "provenance" });
  const details = el("details", { class: "how" }, el("summary", {}, T.how), el("p", {}, T.definition));
  const random = el("p", { class: "note random", hidden: true });
  const speedup = el(
    "div", { class: "speedup", title: T.definition },
    el("span", { class: "speedup-title" }, T.speedup), el("span", { class: "speedup-line" }, value, words),
  );
  const legend = el("ul", { class: "legend", "aria-label": T.marksTitle });
  for (const [verdict, meaning] of LEGEND) {
    legend.append(el("li", { title: meaning }, el("span", { class: `sample ${verdict}`, "aria-hidden": "true" }, MARK[verdict]), meaning.split(":")[0]));
  }
  const root = el("header", { class: "score" }, speedup, el("div", { class: "origin" }, origin, details), legend, random);
  return {
    root,
    /**
     * @param {number|null} ratio
     * @param {import("./model.js").Lane[]} lanes
     * @param {{provenance: string, provenance_note: string}} data
     */
    show(ratio, lanes, data) {
      const compared = lanes.length > 1;
      speedup.hidden = details.hidden = !compared;
      setText(value, ratio === null ? T.none : T.times(ratio));
      setText(words, ratio === null ? T.notyet : T.faster(ratio, lanes[0]?.label ?? ""));
      setText(origin, [data.provenance, data.provenance_note].filter(Boolean).join(" · "));
      const temperature = Math.max(0, ...lanes.map((lane) => lane.temperature));
      random.hidden = !(compared && temperature > 0);
      if (!random.hidden) setText(random, T.random(temperature));
    },
  };
}
