/** Everything the player draws: the layout, and how one view (state.js) reaches all of it. */

/**
 * @import { Moves } from "../cursor/controls.js"
 * @import { Lane } from "../model/model.js"
 * @import { Data } from "../feed/source.js"
 * @import { View } from "../model/state.js"
 */

import { Ask } from "../feed/ask.js";
import { Controls } from "../cursor/controls.js";
import { bringIntoView, el, isDark, setNote } from "../dom/dom.js";
import { createHelp } from "./help.js";
import { createHighlight } from "./highlight.js";
import { MaskView } from "../mask/mask.js";
import { OddsView } from "../odds/odds_view.js";
import { Panels } from "../cursor/panels.js";
import { createWindow } from "../proposer/proposer_view.js";
import { Ribbon } from "../lanes/ribbon.js";
import { createRound } from "../tree/round.js";
import { Score } from "../lanes/score.js";
import { T } from "../text/text.js";
import { Timeline } from "../lanes/timeline.js";
import { sentenceAt } from "./sentences.js";
import { createTouchTitles } from "./touch_titles.js";
import { createTrail } from "./trail.js";
import { createTranscript } from "../lanes/transcript.js";
import { meanRound, ROUND_MS } from "../model/walk.js";

const LARGE_MS = 200; // between two drawings of a live run's numbers and round

/** All views, in their places. */
export class Screen {
  notice = el("p", { class: "notice", role: "status", hidden: true });
  score = new Score();
  laneBox = el("div", { class: "lanes" });
  help = createHelp();
  transcript = createTranscript();
  views = { tree: createRound(), mask: new MaskView(), odds: new OddsView(), window: createWindow() };
  /** @type {Ribbon[]} */
  ribbons = [];
  frame = 0;
  brought = false; // whether the player was brought into view
  left = new AbortController(); // aborted once the viewer has done anything on the page since the run began
  drawn = 0; // when a live run's numbers and tree were last drawn
  late = 0; // the timer that draws them once no more messages come

  /**
   * @param {{controls: Moves, clock: (seconds: number, lane: number|null) => void, lead: (lane: number) => void, opened: () => void,
   *   answer: (question: number, words: string) => Promise<string|null>, back: (run: string) => void}} on the viewer's gestures
   */
  constructor(on) {
    this.on = on;
    this.question = new Ask(on.answer);
    this.trail = createTrail(on.back);
    this.timeline = new Timeline(on.clock);
    this.controls = new Controls({ ...on.controls, help: this.help.open });
    this.panels = new Panels(this.views, on.opened);
    this.story = el("div", { class: "story" }, this.laneBox, this.question.root, this.transcript.root);
    this.stage = el(
      "div",
      { class: "stage", hidden: true },
      this.score.root,
      this.story,
      this.controls.root,
      this.panels.root,
      this.timeline.root,
    );
    this.box = el(
      "div",
      { class: "player", tabindex: 0, role: "group", "aria-label": T.player },
      this.notice,
      this.trail.root,
      this.stage,
      this.help.root,
    );
    this.box.append(createTouchTitles(this.box));
    this.highlight = createHighlight(this.box);
  }

  /** @param {number} at */
  lead(at) {
    this.ribbons.forEach((each, lane) => each.lead(lane === at, this.ribbons.length > 1));
  }

  /** @param {View} view @param {Lane[]} lanes @param {boolean} [only] the text, not the numbers */
  showLanes(view, lanes, only = false) {
    const { focus, chosen, current, begun } = view;
    const baseline = lanes[view.baseline]?.label;
    view.lanes.forEach((lane, at) => {
      const [own, drafting] =
        at === view.lead ? [current?.index ?? null, begun?.round ?? null] : [null, null];
      this.ribbons[at].show(lane, {
        focus,
        chosen,
        current: own,
        baseline,
        drafting,
        checked: begun?.moment.phase !== "proposed",
        only,
      });
    });
  }

  /** Scroll as requested while drawing: once per frame, since it makes the browser lay out what was drawn. */
  settle() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.ribbons.map((each) => each.settle()).forEach((scroll) => scroll());
    this.views.tree.settle();
  }

  /**
   * Draw a live run: its text with every frame, numbers and its last round in large no more often than can be read.
   * @param {View|null} seen
   * @param {Lane[]} lanes
   * @param {Data} data
   */
  progress(seen, lanes, data) {
    clearTimeout(this.late);
    const due = !seen || seen.event !== null || performance.now() - this.drawn > LARGE_MS;
    if (due) this.score.show(seen, lanes, data);
    else this.late = setTimeout(() => this.progress(seen, lanes, data), LARGE_MS + 1);
    if (seen) this.showLanes(seen, lanes, !due);
    if (seen && due) {
      this.drawn = performance.now();
      this.timeline.show({ ...seen, clock: null });
      this.transcript.show(sentenceAt(seen), true);
      this.views.tree.show(seen);
      this.highlight.refresh();
    }
    this.settle(); // its messages come once per frame
  }

  reveal(/** @type {number} */ lane) {
    this.settle();
    this.ribbons[lane]?.reveal();
  }

  /** The panes follow the ends of their texts again. */
  follow() {
    for (const each of this.ribbons) each.follow();
  }

  /** @param {string|null} text a sentence above everything; null removes it */
  say(text) {
    setNote(this.notice, text ?? "");
  }

  /**
   * Make room for the lanes, keeping the views that are there.
   * @param {Lane[]} lanes
   * @param {number} leading
   */
  setLanes(lanes, leading) {
    this.score.whole([]);
    while (this.ribbons.length > lanes.length) this.ribbons.pop()?.root.remove();
    while (this.ribbons.length < lanes.length) {
      const made = new Ribbon(this.ribbons.length, this.on.lead);
      this.ribbons.push(made);
      this.laneBox.append(made.root);
    }
    this.laneBox.classList.toggle("many", lanes.length > 2);
    this.timeline.setLanes(lanes);
    this.lead(leading);
    this.stage.hidden = !lanes.length;
  }

  /**
   * Live or replayed: a live run cannot be stepped through.
   * @param {boolean} is
   */
  setLive(is) {
    this.box.classList.toggle("is-live", is);
    this.panels.live(is);
    this.trail.root.inert = is;
    this.brought = false;
    clearTimeout(this.late);
    if (!is) return;
    this.views.odds.wait();
    this.left.abort();
    this.left = new AbortController();
    for (const name of ["pointerdown", "wheel", "touchmove", "keydown"]) {
      document.addEventListener(name, () => this.left.abort(), {
        capture: true,
        passive: true,
        signal: this.left.signal,
      });
    }
  }

  /** Bring the run into view, unless its viewer is busy elsewhere, as in a menu of the page, which would scroll away. */
  toStart() {
    if (!this.left.signal.aborted) bringIntoView(this.box);
  }

  /** The viewer steps: show the whole screen, once. */
  toOneScreen() {
    if (this.brought) return;
    this.brought = true;
    bringIntoView(this.box);
  }

  /** @param {Data} data what the page says of it all @param {boolean} able whether it can go on from a candidate */
  dress(data, able) {
    this.setTheme();
    this.setPresenting(Boolean(data.present));
    this.box.classList.toggle("views-first", Boolean(data.view_first));
    this.trail.show(data);
    this.views.odds.branches = able && Boolean(data.branches);
  }

  setTheme() {
    this.box.dataset.theme = isDark(this.box) ? "dark" : "light";
  }

  /**
   * For an audience: one lane and one view, in large type (presenter.css).
   * @param {boolean} is
   */
  setPresenting(is) {
    if (is === this.box.classList.contains("presents")) return;
    this.box.classList.toggle("presents", is);
    if (is) this.box.focus({ preventScroll: true }); // the keys work at once
  }

  /**
   * Draw everything as it is at the cursor.
   * @param {View} view
   * @param {Lane[]} lanes
   * @param {Data} data
   * @param {boolean} quiet whether events are too fast to be read out
   */
  show(view, lanes, data, quiet) {
    const page = /** @type {Document|ShadowRoot} */ (this.box.getRootNode());
    const focused = this.box.contains(page.activeElement);
    this.lead(view.lead);
    this.showLanes(view, lanes);
    this.score.show(view, lanes, data);
    this.timeline.show(view);
    this.controls.show(
      view,
      lanes[view.lead]?.rounds.length ?? 0,
      lanes.some((lane) => lane.end === "cancelled"),
    );
    this.transcript.show(sentenceAt(view), quiet);
    for (const each of Object.values(this.views)) each.show(view, data.rules ?? {});
    this.panels.show();
    this.highlight.refresh();
    if (focused && !this.box.contains(page.activeElement)) this.box.focus({ preventScroll: true }); // what had it was drawn anew
    this.frame ||= requestAnimationFrame(() => this.settle()); // before the page is painted
  }

  /**
   * @param {boolean} is whether it plays
   * @param {number} speed
   * @param {Lane|undefined} lane the leading one
   */
  playing(is, speed, lane) {
    const mean = meanRound(lane);
    this.controls.playing(
      is,
      speed,
      is && mean > 0 && !lane?.untimed ? T.slow(ROUND_MS / 1000 / speed / mean, ROUND_MS / 1000 / speed) : "",
    );
  }
}
