/** A lane's head: its name, which lets it lead, and its numbers. */

/** @import { LaneView } from "../model/state.js" */

import { el, setText } from "../dom/dom.js";
import { nonNull } from "../dom/non_null.js";
import { T } from "../text/text.js";

/**
 * @param {number} at the lane's number
 * @param {(lane: number) => void} lead called when the viewer wants this lane to lead
 */
export function createHead(at, lead) {
  const name = el("span", { class: "lane-words" });
  const button = el("button", { type: "button", class: "lane-lead" });
  button.onclick = () => lead(at);
  const label = el("h2", { class: "lane-label" }, name);
  const ended = el("span", { class: "ended" });
  const numbers = { rate: el("b"), tokens: el("b"), clock: el("b"), unit: el("span"), ratio: el("b") };
  const ratio = el("span", { class: "number ratio", title: "" }, numbers.ratio, el("span"));
  const repeated = el("span", { class: "repeated", title: T.repeatsMean });
  const root = el(
    "div",
    { class: "lane-head" },
    el("div", { class: "lane-name" }, label, ended, repeated),
    el(
      "div",
      { class: "numbers" },
      ratio,
      el("span", { class: "number rate" }, numbers.rate, ` ${T.rate}`),
      el("span", { class: "number" }, numbers.tokens, " ", numbers.unit),
      el("span", { class: "number clock", title: T.clock }, numbers.clock, " s"),
    ),
  );

  return {
    root,
    /**
     * @param {boolean} leads
     * @param {boolean} several whether there are other lanes, so that leading can be chosen
     */
    lead(leads, several) {
      button.setAttribute("aria-pressed", String(leads));
      if (several === (name.parentNode === button)) return;
      if (several) button.append(name);
      label.replaceChildren(several ? button : name);
    },
    /** @param {LaneView} view @param {string} baseline the label of the baseline lane for speed */
    show(view, baseline) {
      setText(name, view.lane.label);
      label.setAttribute("title", view.lane.about ?? "");
      button.setAttribute(
        "title",
        [view.lane.about, T.lead(view.lane.label, at + 1)].filter(Boolean).join("\n\n"),
      );
      setText(numbers.ratio, view.speedup === null ? "" : T.times(view.speedup));
      ratio.hidden = view.speedup === null;
      setText(nonNull(ratio.lastChild), ratio.hidden ? "" : T.against(baseline));
      ratio.setAttribute("title", T.ratioOf(baseline));
      setText(ended, view.end ? (T.ends[view.end] ?? "") : view.tokens ? T.soFar : "");
      ended.title = (view.end && T.endsMean[view.end]) ?? "";
      setText(numbers.rate, view.rate === null ? T.none : T.rateOf(view.rate));
      setText(numbers.tokens, String(view.tokens));
      setText(numbers.unit, T.tokens(view.tokens));
      setText(numbers.clock, view.lane.untimed ? T.none : T.clockOf(view.clock));
      setText(repeated, view.repeated ? T.repeats(view.repeated, view.tokens) : "");
    },
  };
}
