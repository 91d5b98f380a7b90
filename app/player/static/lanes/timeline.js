/**
 * The shared time axis: each lane's rounds as blocks on its own recorded clock, and the cursor's time as a line through
 * all of them. Blocks are only ever added or removed at the end, so stepping costs what changed.
 */

/**
 * @import { Lane, Round } from "../model/model.js"
 * @import { View } from "../model/state.js"
 */

import { el, setText } from "../dom/dom.js";
import { shownStop } from "../model/walk.js";
import { usualInstead } from "../model/held_up.js";
import { seconds, T } from "../text/text.js";

const WIDE = 6; // px of a lane's mean round, from which its blocks are parted
const DRAG = 4; // px; a press that moves less opens the round it is on

/** @typedef {{element: HTMLElement, drawn: Round[]}} Line `drawn` are the drawn rounds, in step with the element's children */

/** `root`, `setLanes(lanes)`, `show(view)`. */
export class Timeline {
  names = el("div", { class: "time-names" });
  field = el("div", { class: "time-field", title: T.timeline });
  line = el("span", { class: "time-now" });
  start = el("span", {}, "0");
  end = el("span", {});
  gap = el("span", {}, el("i", { class: "gap" }), T.gap);
  parts = Object.entries(T.timelineKey).map(([name, words]) => {
    const title = (name === "held" ? T.heldUp : T.timelineKeyMeans[name]) ?? "";
    return el("span", { title }, el("i", { class: name }), words);
  });
  key = el("span", { class: "time-key" }, ...this.parts, this.gap);
  rare = { held: this.parts[3], drafted: this.parts[4], gone: this.parts[5] }; // shown if they occur
  axis = el("div", { class: "time-axis" }, this.start, this.key, this.end);
  root = el(
    "div",
    { class: "timeline", role: "img", "aria-label": T.timeline },
    this.names,
    this.field,
    this.axis,
  );
  /** @type {Line[]} one for each lane */
  rows = [];
  from = 0; // px, where it was pressed
  whole = 0; // seconds that the axis spans
  width = 0; // px of the field
  /** @type {Lane[]} */
  present = [];
  /** @param {Lane[]} lanes */
  clocks = (lanes) => Math.max(0, ...lanes.map((lane) => lane.rounds.at(-1)?.end ?? 0));

  /**
   * @param {(clock: number, lane: number|null) => void} go the viewer pointed at a time of the clock, in seconds: at a round
   *   of `lane`, or, moving on, at any (null)
   */
  constructor(go) {
    this.go = go;
    new ResizeObserver(() => {
      this.width = this.field.clientWidth;
      this.part();
    }).observe(this.field);
    this.field.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.field.setPointerCapture(event.pointerId);
      this.from = event.clientX;
      if (event.pointerType === "mouse") this.pointed(event, true);
    });
    // A finger's press ends in a click on whatever is under it by then: before that, nothing may move.
    this.field.addEventListener("click", (event) => {
      if (/** @type {PointerEvent} */ (event).pointerType !== "mouse" && this.from >= 0)
        this.pointed(/** @type {PointerEvent} */ (event), true);
    });
    this.field.addEventListener("pointermove", (event) => {
      if (!this.field.hasPointerCapture(event.pointerId) || Math.abs(event.clientX - this.from) < DRAG)
        return;
      this.from = -Infinity; // from here on it is dragged
      this.pointed(event, false);
    });
  }

  /** @param {PointerEvent} event @param {boolean} pressed */
  pointed(event, pressed) {
    const frame = this.field.getBoundingClientRect();
    if (!(this.whole > 0 && frame.width > 0)) return;
    const row = this.rows.findIndex(({ element }) => event.clientY < element.getBoundingClientRect().bottom);
    const lane = row < 0 ? this.rows.length - 1 : row;
    this.go(
      this.whole * Math.min(Math.max((event.clientX - frame.left) / frame.width, 0), 1),
      pressed ? lane : null,
    );
  }

  /** Gaps between the blocks where all lanes have the room, and nowhere otherwise. */
  part() {
    const timed = this.present.filter(({ rounds }) => rounds.length);
    const wide =
      timed.length > 0 &&
      timed.every(
        ({ rounds }) => (this.width * (rounds.at(-1)?.end ?? 0)) / rounds.length >= WIDE * this.whole,
      );
    this.field.classList.toggle("parted", wide);
    this.gap.hidden = !wide;
  }

  /**
   * The axis spans the whole record; for a live run it grows in steps, so that its blocks seldom move.
   * @param {Lane[]} lanes
   * @param {boolean} growing
   */
  stretch(lanes, growing) {
    const longest = this.clocks(lanes);
    const next = growing ? (longest > this.whole ? longest * 1.5 : this.whole) : longest;
    if (next === this.whole) return;
    this.whole = next;
    setText(this.end, this.whole > 0 && !growing ? seconds(this.whole) : ""); // of a run that goes on it would be an estimate
    for (const row of this.rows) row.element.style.setProperty("--whole", String(this.whole || 1));
  }

  /** @param {Line} row @param {Round[]} rounds @param {Lane} lane */
  fill(row, rounds, lane) {
    let same = 0;
    while (same < row.drawn.length && same < rounds.length && row.drawn[same] === rounds[same]) same += 1;
    while (row.element.children.length > same) row.element.lastChild?.remove();
    if (rounds.length > same)
      row.element.append(...rounds.slice(same).map((round) => block(round, heldUp(lane, round))));
    row.drawn = rounds.slice(); // a growing lane keeps its list
  }

  /** @param {Lane[]} lanes */
  setLanes(lanes) {
    this.root.hidden = !lanes.length || lanes.some((lane) => lane.untimed);
    if (!lanes.length) {
      this.whole = 0;
      setText(this.end, "");
    }
    while (this.rows.length > lanes.length) this.rows.pop()?.element.remove();
    while (this.rows.length < lanes.length) {
      /** @type {Line} */
      const row = { element: el("div", { class: "time-row" }), drawn: [] };
      row.element.style.setProperty("--whole", String(this.whole || 1));
      this.rows.push(row);
      this.field.append(row.element);
    }
    this.field.append(this.line);
    this.names.replaceChildren(...lanes.map((lane) => el("span", { class: "time-name" }, lane.label)));
    this.parts[0].hidden = lanes.every((lane) => lane.proposer === "none"); // nothing is drafted
    for (const part of Object.values(this.rare)) part.hidden = true;
  }

  /** @param {View|(Omit<View, "clock"> & {clock: null})} view its `clock` is null while a run is live */
  show(view) {
    const lanes = view.lanes.map((each) => each.lane);
    const growing = view.clock === null;
    this.stretch(lanes, growing);
    view.lanes.forEach((each, at) => {
      const begun = at === view.lead ? view.begun : null; // within the cursor's round, as much of it as has passed
      this.fill(this.rows[at], begun ? [...each.rounds, begun.round] : each.rounds, each.lane);
      this.rows[at].element.classList.toggle("leads", at === view.lead);
    });
    this.present = lanes;
    this.part();
    const beside = view.lanes.flatMap((each) => each.rounds.filter((round) => round.times.ahead > 0)); // up to the cursor
    this.rare.drafted.hidden = !beside.length;
    this.rare.gone.hidden = !beside.some(inVain);
    this.rare.held.hidden = !this.field.querySelector(".held");
    this.line.hidden = growing || this.whole === 0;
    if (this.line.hidden) return;
    const back = shownStop(view) < view.stop ? view.current?.end : undefined;
    const now = back ?? ("atEnd" in view && view.atEnd ? this.clocks(lanes) : (view.clock ?? 0));
    this.line.style.insetInlineStart = `${(100 * now) / this.whole}%`;
  }
}

/**
 * Whether the drafting during the pass was wasted.
 * @param {Round} round
 */
function inVain(round) {
  return round.proposals.some((item) => item.verdict === "discarded");
}

/**
 * Whether something else held its pass up, as far as the record says.
 * @param {Lane} lane
 * @param {Round} round
 */
function heldUp(lane, round) {
  const passed = round.times.verified > round.times.drafted; // of the cursor's round it may be still to come
  return passed && lane.trace !== null && !lane.untimed && usualInstead(lane.trace, round.index) !== null;
}

/**
 * One round; its lengths are in seconds, the style sheet scales them. What was drafted during the pass is hatched,
 * and crossed out if it was wasted; a pass that was held up is barred.
 * @param {Round} round
 * @param {boolean} held
 */
function block(round, held) {
  const { start, drafted, verified, end, ahead } = round.times;
  const made = el("i", { class: held ? "time-round held" : "time-round" });
  /** @param {number} from @param {number} to */
  const share = (from, to) =>
    `${end > start ? (100 * Math.min(Math.max((to - from) / (end - start), 0), 1)).toFixed(2) : 0}%`;
  made.style.cssText = `--at:${start.toFixed(6)};--for:${(end - start).toFixed(6)};--draft:${share(start, drafted)};--verify:${share(start, verified)}`;
  if (ahead > 0) {
    const gone = inVain(round);
    const beside = el("b", {
      class: gone ? "time-ahead gone" : "time-ahead",
      title: gone ? T.aheadGone : T.aheadKept,
    });
    beside.style.cssText = `inset-inline-start:${share(start, drafted)};inline-size:${share(0, Math.min(ahead, verified - drafted))}`;
    made.append(beside);
  }
  return made;
}
