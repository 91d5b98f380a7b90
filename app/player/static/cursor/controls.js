/** The bar below the lanes: slider over the rounds, buttons, speed. It reports gestures and shows where the cursor is. */

/** @import { View } from "../model/state.js" */

import { el, icon, setText } from "../dom/dom.js";
import { shownStop, SPEEDS } from "../model/walk.js";
import { wasRead } from "../model/slots.js";
import { T } from "../text/text.js";

const ICONS = {
  first: "M3 3h2v10H3zM13 3v10L6 8z",
  previous: "M8 3v10L2 8zM14 3v10L8 8z",
  back: "M11 3v10L4 8z",
  play: "M4 2.5v11L13.5 8z",
  pause: "M4 3h3v10H4zM9 3h3v10H9z",
  step: "M5 3v10l7-5z",
  next: "M2 3v10l6-5zM8 3v10l6-5z",
  last: "M11 3h2v10h-2zM3 3v10l7-5z",
};
/** @type {Move[]} */
const MOVES = ["first", "previous", "back", "play", "step", "next", "last"];
/** @type {Set<Move>} */
const FORWARD = new Set(["step", "next", "last"]);

/**
 * @typedef {"first"|"previous"|"back"|"play"|"step"|"next"|"last"} Move
 * @typedef {Record<Move, () => void> & {scrub: (stop: number) => void, speed: (value: number) => void}} Moves
 */

/** `root`, `show(view, rounds, early)`, `playing(is, speed, words)`. */
export class Controls {
  buttons = /** @type {Record<Move, HTMLButtonElement>} */ ({});
  row = el("div", { class: "buttons" });
  slider = el("input", {
    type: "range",
    min: 0,
    max: 0,
    step: 1,
    value: 0,
    "aria-label": T.slider,
    class: "slider",
  });
  where = el("span", { class: "where" });
  speed = el("select", { class: "speed", "aria-label": T.speed, title: T.pace });
  helpButton = el(
    "button",
    { type: "button", class: "control help", "aria-label": T.help, title: T.help },
    "?",
  );
  byKeys = el("span", { class: "by-keys" }, T.byKeys);
  pace = el("span", { class: "pace" });
  root = el(
    "div",
    { class: "controls" },
    this.row,
    el("div", { class: "scrub" }, this.slider, el("div", { class: "scrub-words" }, this.where, this.pace)),
    this.speed,
    this.byKeys,
    this.helpButton,
  );
  at = 0; // where it is
  from = 0; // where it was as a finger touched it: if the page is scrolled from there, it goes back
  hinted = ""; // where a hint is shown: the lane and the stop
  here = "";

  /** @param {Moves & {help: () => void}} on */
  constructor(on) {
    this.on = on;
    for (const name of MOVES) {
      const button = el(
        "button",
        { type: "button", class: `control ${name}`, "aria-label": T[name], title: T[name] },
        icon(ICONS[name]),
      );
      button.onclick = () => this.on[name]();
      this.buttons[name] = button;
      this.row.append(button);
    }
    for (const value of SPEEDS)
      this.speed.append(el("option", { value, selected: value === 1 }, `${value}×`));
    this.helpButton.onclick = () => this.on.help();
    this.slider.oninput = () => this.on.scrub(Number(this.slider.value));
    this.slider.addEventListener("pointerdown", () => (this.from = this.at));
    this.slider.addEventListener("pointercancel", () => this.on.scrub(this.from));
    this.speed.onchange = () => this.on.speed(Number(this.speed.value));
  }

  /** @param {string} text where the cursor is, until it moves @param {string} why */
  hint(text, why) {
    setText(this.pace, text);
    this.pace.title = why;
    this.hinted = this.here;
  }

  /**
   * @param {View} view
   * @param {number} rounds the leading lane's
   * @param {boolean} early whether the run was stopped early
   */
  show(view, rounds, early) {
    const { last, begun } = view;
    const stop = shownStop(view);
    this.here = `${view.lead} ${stop}`;
    this.at = stop;
    if (this.hinted && this.hinted !== this.here) {
      setText(this.pace, "");
      this.pace.title = "";
      this.hinted = "";
    }
    if (this.slider.max !== String(last)) this.slider.max = String(last);
    if (this.slider.value !== String(stop)) this.slider.value = String(stop);
    this.slider.style.setProperty("--filled", `${last ? (100 * stop) / last : 0}%`);
    const inside = begun ? `: ${T.phase(begun.moment, begun.round.proposals.filter(wasRead).length)}` : "";
    const over = stop > rounds || (stop === view.stop && view.atEnd && view.lanes.length > 1); // of a lane alone its last round is the end
    const words =
      stop === 0
        ? T.atPrompt
        : over
          ? early
            ? T.stoppedEnd
            : T.atEnd
          : `${T.roundOf(stop, rounds)}${inside}`;
    setText(this.where, words);
    this.slider.setAttribute("aria-valuetext", words);
    for (const name of MOVES) {
      const off = name !== "play" && (FORWARD.has(name) ? view.atEnd : stop === 0);
      this.buttons[name].setAttribute("aria-disabled", String(off)); // stays focusable, to keep the focus in the bar
    }
  }

  /**
   * @param {boolean} is
   * @param {number} at the speed
   * @param {string} words how that compares to the run's own speed
   */
  playing(is, at, words) {
    const name = is ? "pause" : "play";
    this.buttons.play.replaceChildren(icon(ICONS[name]));
    this.buttons.play.setAttribute("aria-label", T[name]);
    this.buttons.play.setAttribute("title", T[name]);
    this.speed.value = String(at);
    setText(this.pace, words);
  }
}
