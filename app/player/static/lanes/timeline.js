/**
 * The shared time axis: each lane's rounds as blocks on its own recorded clock, and the cursor's time as a line through
 * all of them. Blocks are only ever added or removed at the end, so stepping costs what changed.
 */

/**
 * @import { Lane, Round } from "../model/model.js"
 * @import { View } from "../model/state.js"
 */

import { el, setText } from "../dom/dom.js";
import { usualInstead } from "../model/held_up.js";
import { seconds, T } from "../text/text.js";

const WIDE = 6; // px of a lane's mean round, from which its blocks are parted
const DRAG = 4; // px; a press that moves less opens the round it is on

/** @typedef {{element: HTMLElement, drawn: Round[]}} Line `drawn` are the drawn rounds, in step with the element's children */

/**
 * @param {(clock: number, lane: number|null) => void} go the viewer pointed at a time of the clock, in seconds: at a round
 *   of `lane`, or, moving on, at any (null)
 * @returns `root`, `setLanes(lanes)`, `show(view)`
 */
export function createTimeline(go) {
  const names = el("div", { class: "time-names" });
  const field = el("div", { class: "time-field", title: T.timeline });
  const line = el("span", { class: "time-now" });
  const start = el("span", {}, "0");
  const end = el("span", {});
  const key = el("span", { class: "time-key" });
  for (const [name, words] of Object.entries(T.timelineKey))
    key.append(
      el(
        "span",
        { title: (name === "held" ? T.heldUp : T.timelineKeyMeans[name]) ?? "" },
        el("i", { class: name }),
        words,
      ),
    );
  const gap = el("span", {}, el("i", { class: "gap" }), T.gap);
  key.append(gap);
  const parts = [.../** @type {HTMLCollectionOf<HTMLElement>} */ (key.children)];
  const [held, drafted, gone] = parts.slice(3, 6); // shown if they occur
  const axis = el("div", { class: "time-axis" }, start, key, end);
  const root = el("div", { class: "timeline", role: "img", "aria-label": T.timeline }, names, field, axis);
  /** @type {Line[]} one for each lane */
  const rows = [];
  let from = 0; // px, where it was pressed
  let whole = 0; // seconds that the axis spans
  let width = 0; // px of the field
  /** @type {Lane[]} */
  let present = [];
  new ResizeObserver(() => {
    width = field.clientWidth;
    part();
  }).observe(field);

  /** @param {PointerEvent} event @param {boolean} pressed */
  function pointed(event, pressed) {
    const frame = field.getBoundingClientRect();
    if (!(whole > 0 && frame.width > 0)) return;
    const row = rows.findIndex(({ element }) => event.clientY < element.getBoundingClientRect().bottom);
    const lane = row < 0 ? rows.length - 1 : row;
    go(whole * Math.min(Math.max((event.clientX - frame.left) / frame.width, 0), 1), pressed ? lane : null);
  }
  field.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    field.setPointerCapture(event.pointerId);
    from = event.clientX;
    if (event.pointerType === "mouse") pointed(event, true);
  });
  // A finger's press ends in a click on whatever is under it by then: before that, nothing may move.
  field.addEventListener("click", (event) => {
    if (/** @type {PointerEvent} */ (event).pointerType !== "mouse" && from >= 0)
      pointed(/** @type {PointerEvent} */ (event), true);
  });
  field.addEventListener("pointermove", (event) => {
    if (!field.hasPointerCapture(event.pointerId) || Math.abs(event.clientX - from) < DRAG) return;
    from = -Infinity; // from here on it is dragged
    pointed(event, false);
  });

  /** Gaps between the blocks where all lanes have the room, and nowhere otherwise. */
  function part() {
    const timed = present.filter(({ rounds }) => rounds.length);
    const wide =
      timed.length > 0 &&
      timed.every(({ rounds }) => (width * (rounds.at(-1)?.end ?? 0)) / rounds.length >= WIDE * whole);
    field.classList.toggle("parted", wide);
    gap.hidden = !wide;
  }

  /** @param {Lane[]} lanes */
  const clocks = (lanes) => Math.max(0, ...lanes.map((lane) => lane.rounds.at(-1)?.end ?? 0));

  /**
   * The axis spans the whole record; for a live run it grows in steps, so that its blocks seldom move.
   * @param {Lane[]} lanes
   * @param {boolean} growing
   */
  function stretch(lanes, growing) {
    const longest = clocks(lanes);
    const next = growing ? (longest > whole ? longest * 1.5 : whole) : longest;
    if (next === whole) return;
    whole = next;
    setText(end, whole > 0 && !growing ? seconds(whole) : ""); // of a run that goes on it would be an estimate
    for (const row of rows) row.element.style.setProperty("--whole", String(whole || 1));
  }

  /** @param {Line} row @param {Round[]} rounds @param {Lane} lane */
  function fill(row, rounds, lane) {
    let same = 0;
    while (same < row.drawn.length && same < rounds.length && row.drawn[same] === rounds[same]) same += 1;
    while (row.element.children.length > same) row.element.lastChild?.remove();
    if (rounds.length > same)
      row.element.append(...rounds.slice(same).map((round) => block(round, heldUp(lane, round))));
    row.drawn = rounds.slice(); // a growing lane keeps its list
  }

  return {
    root,
    /** @param {Lane[]} lanes */
    setLanes(lanes) {
      root.hidden = !lanes.length || lanes.some((lane) => lane.untimed);
      if (!lanes.length) {
        whole = 0;
        setText(end, "");
      }
      while (rows.length > lanes.length) rows.pop()?.element.remove();
      while (rows.length < lanes.length) {
        /** @type {Line} */
        const row = { element: el("div", { class: "time-row" }), drawn: [] };
        row.element.style.setProperty("--whole", String(whole || 1));
        rows.push(row);
        field.append(row.element);
      }
      field.append(line);
      names.replaceChildren(...lanes.map((lane) => el("span", { class: "time-name" }, lane.label)));
      parts[0].hidden = lanes.every((lane) => lane.proposer === "none"); // nothing is drafted
      for (const part of [held, drafted, gone]) part.hidden = true;
    },
    /** @param {View|(Omit<View, "clock"> & {clock: null})} view its `clock` is null while a run is live */
    show(view) {
      const lanes = view.lanes.map((each) => each.lane);
      const growing = view.clock === null;
      stretch(lanes, growing);
      view.lanes.forEach((each, at) => {
        const begun = at === view.lead ? view.begun : null; // within the cursor's round, as much of it as has passed
        fill(rows[at], begun ? [...each.rounds, begun.round] : each.rounds, each.lane);
        rows[at].element.classList.toggle("leads", at === view.lead);
      });
      present = lanes;
      part();
      const beside = view.lanes.flatMap((each) => each.rounds.filter((round) => round.times.ahead > 0)); // up to the cursor
      drafted.hidden = !beside.length;
      gone.hidden = !beside.some(inVain);
      held.hidden = !field.querySelector(".held");
      line.hidden = growing || whole === 0;
      if (line.hidden) return;
      const now = "atEnd" in view && view.atEnd ? clocks(lanes) : (view.clock ?? 0);
      line.style.insetInlineStart = `${(100 * now) / whole}%`;
    },
  };
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
