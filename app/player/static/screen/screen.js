/** Everything the player draws: the layout, and how one view (state.js) reaches all of it. */

/**
 * @import { Moves } from "../cursor/controls.js"
 * @import { Lane } from "../model/model.js"
 * @import { Data } from "../feed/source.js"
 * @import { View } from "../model/state.js"
 */

import { createAsk } from "../feed/ask.js";
import { createControls } from "../cursor/controls.js";
import { bringIntoView, el, isDark, setNote } from "../dom/dom.js";
import { createHelp } from "./help.js";
import { createHighlight } from "./highlight.js";
import { createMask } from "../mask/mask.js";
import { createOdds } from "../odds/odds_view.js";
import { createPanels } from "../cursor/panels.js";
import { createWindow } from "../proposer/proposer_view.js";
import { createLane } from "../lanes/ribbon.js";
import { createRound } from "../tree/round.js";
import { createScore } from "../lanes/score.js";
import { T } from "../text/text.js";
import { createTimeline } from "../lanes/timeline.js";
import { sentenceAt } from "./sentences.js";
import { createTouchTitles } from "./touch_titles.js";
import { createTranscript } from "../lanes/transcript.js";
import { meanRound, ROUND_MS } from "../model/walk.js";

const PHONE = 544; // px, the 34rem of screen.css
const LARGE_MS = 200; // between two drawings of a live run's numbers and round

/**
 * @param {{controls: Moves, clock: (seconds: number, lane: number|null) => void, lead: (lane: number) => void, opened: () => void,
 *   answer: (question: number, words: string) => Promise<string|null>}} on the viewer's gestures
 */
export function createScreen(on) {
  const notice = el("p", { class: "notice", role: "status", hidden: true });
  const score = createScore();
  const laneBox = el("div", { class: "lanes" });
  const question = createAsk(on.answer);
  const timeline = createTimeline(on.clock);
  const help = createHelp();
  const controls = createControls({ ...on.controls, help: help.open });
  const transcript = createTranscript();
  const views = { tree: createRound(), mask: createMask(), odds: createOdds(), window: createWindow() };
  const panels = createPanels(views, on.opened);
  const story = el("div", { class: "story" }, laneBox, question.root, transcript.root);
  const stage = el(
    "div",
    { class: "stage", hidden: true },
    score.root,
    story,
    controls.root,
    panels.root,
    timeline.root,
  );
  const box = el(
    "div",
    { class: "player", tabindex: 0, role: "group", "aria-label": T.player },
    notice,
    stage,
    help.root,
  );
  box.append(createTouchTitles(box));
  const highlight = createHighlight(box);
  /** @type {ReturnType<typeof createLane>[]} */
  const ribbons = [];
  let frame = 0;
  let brought = false; // whether the player was brought into view
  let brief = false; // whether it stands below a form
  let left = new AbortController(); // aborted once the viewer has done anything on the page since the run began
  let drawn = 0; // when a live run's numbers and tree were last drawn
  let late = 0; // the timer that draws them once no more messages come

  /** Lower below a form, until the viewer steps; on a phone it is as high below the form as elsewhere. */
  function settleHeight() {
    box.classList.toggle("is-brief", brief && !(brought && box.clientWidth > PHONE));
  }

  /** @param {number} at */
  function lead(at) {
    ribbons.forEach((each, lane) => each.lead(lane === at, ribbons.length > 1));
  }

  /** @param {View} view @param {Lane[]} lanes @param {boolean} [only] the text, not the numbers */
  function showLanes(view, lanes, only = false) {
    const { focus, chosen, current, begun } = view;
    const baseline = lanes[view.baseline]?.label;
    view.lanes.forEach((lane, at) => {
      const [own, drafting] =
        at === view.lead ? [current?.index ?? null, begun?.round ?? null] : [null, null];
      ribbons[at].show(lane, {
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
  function settle() {
    cancelAnimationFrame(frame);
    frame = 0;
    ribbons.map((each) => each.settle()).forEach((scroll) => scroll());
    views.tree.settle();
  }

  /**
   * Draw a live run: its text with every frame, numbers and its last round in large no more often than can be read.
   * @param {View|null} seen
   * @param {Lane[]} lanes
   * @param {Data} data
   */
  function progress(seen, lanes, data) {
    clearTimeout(late);
    const due = !seen || seen.event !== null || performance.now() - drawn > LARGE_MS;
    if (due) score.show(seen, lanes, data);
    else late = setTimeout(() => progress(seen, lanes, data), LARGE_MS + 1);
    if (seen) showLanes(seen, lanes, !due);
    if (seen && due) {
      drawn = performance.now();
      timeline.show({ ...seen, clock: null });
      transcript.show(sentenceAt(seen), true);
      views.tree.show(seen);
      highlight.refresh();
    }
    settle(); // its messages come once per frame
  }

  return {
    box,
    panels,
    tree: views.tree,
    ask: question.show,
    help: help.open,
    lead,
    reveal(/** @type {number} */ lane) {
      settle();
      ribbons[lane]?.reveal();
    },
    /** The panes follow the ends of their texts again. */
    follow: () => ribbons.forEach((each) => each.follow()),
    /** @param {string|null} text a sentence above everything; null removes it */
    say(text) {
      setNote(notice, text ?? "");
    },
    /**
     * Make room for the lanes, keeping the views that are there.
     * @param {Lane[]} lanes
     * @param {number} leading
     */
    setLanes(lanes, leading) {
      score.whole([]);
      while (ribbons.length > lanes.length) ribbons.pop()?.root.remove();
      while (ribbons.length < lanes.length) {
        const made = createLane(ribbons.length, on.lead);
        ribbons.push(made);
        laneBox.append(made.root);
      }
      laneBox.classList.toggle("many", lanes.length > 2);
      timeline.setLanes(lanes);
      lead(leading);
      stage.hidden = !lanes.length;
    },
    /**
     * Live or replayed: a live run cannot be stepped through.
     * @param {boolean} is
     */
    setLive(is) {
      box.classList.toggle("is-live", is);
      panels.live(is);
      brought = false;
      settleHeight();
      clearTimeout(late);
      if (!is) return;
      views.odds.wait();
      left.abort();
      left = new AbortController();
      for (const name of ["pointerdown", "wheel", "touchmove", "keydown"]) {
        document.addEventListener(name, () => left.abort(), {
          capture: true,
          passive: true,
          signal: left.signal,
        });
      }
    },
    /** Bring the run into view, unless its viewer is busy elsewhere, as in a menu of the page, which would scroll away. */
    toStart() {
      if (!left.signal.aborted) bringIntoView(box);
    },
    /** The viewer steps: show the whole screen, once. */
    toOneScreen() {
      if (brought) return;
      brought = true;
      settleHeight();
      bringIntoView(box);
    },
    /** @param {boolean} is whether it stands below a form */
    setBrief(is) {
      brief = is;
      settleHeight();
    },
    /** @param {string} text why the cursor is where it is, until it moves */
    hint: controls.hint,
    whole: score.whole,
    setTheme() {
      box.dataset.theme = isDark(box) ? "dark" : "light";
    },
    /**
     * For an audience: one lane and one view, in large type (presenter.css).
     * @param {boolean} is
     */
    setPresenting(is) {
      if (is === box.classList.contains("presents")) return;
      box.classList.toggle("presents", is);
      if (is) box.focus({ preventScroll: true }); // the keys work at once
    },
    /**
     * Draw everything as it is at the cursor.
     * @param {View} view
     * @param {Lane[]} lanes
     * @param {Data} data
     * @param {boolean} quiet whether events are too fast to be read out
     */
    show(view, lanes, data, quiet) {
      const page = /** @type {Document|ShadowRoot} */ (box.getRootNode());
      const focused = box.contains(page.activeElement);
      lead(view.lead);
      showLanes(view, lanes);
      score.show(view, lanes, data);
      timeline.show(view);
      controls.show(
        view,
        lanes[view.lead]?.rounds.length ?? 0,
        lanes.some((lane) => lane.end === "cancelled"),
      );
      transcript.show(sentenceAt(view), quiet);
      for (const each of Object.values(views)) each.show(view, data.rules ?? {});
      panels.show();
      highlight.refresh();
      if (focused && !box.contains(page.activeElement)) box.focus({ preventScroll: true }); // what had it was drawn anew
      frame ||= requestAnimationFrame(settle); // before the page is painted
    },
    progress,
    /**
     * @param {boolean} is whether it plays
     * @param {number} speed
     * @param {Lane|undefined} lane the leading one
     */
    playing(is, speed, lane) {
      const mean = meanRound(lane);
      controls.playing(
        is,
        speed,
        is && mean > 0 && !lane?.untimed
          ? T.slow(ROUND_MS / 1000 / speed / mean, ROUND_MS / 1000 / speed)
          : "",
      );
    },
  };
}
