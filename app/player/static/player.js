/**
 * The player: one page element that draws a run live and walks through it afterwards.
 *
 * What is on screen (screen.js) follows from the lanes (model.js) and the cursor (state.js) alone; here gestures, playing
 * and the page move the cursor.
 *
 * @import { Traces } from "./feed/feed.js"
 * @import { Lane } from "./model/model.js"
 * @import { Api, Data } from "./feed/source.js"
 * @import { Cursor, Selection, View } from "./model/state.js"
 * @import { Wanted } from "./cursor/reporter.js"
 */

import { keepInAddress } from "./cursor/address.js";
import { elementOf } from "./dom/dom.js";
import { createFeed } from "./feed/feed.js";
import { createFirstRound } from "./cursor/first_round.js";
import { createKeys, forwardKeys } from "./cursor/keys.js";
import { nodeOf } from "./screen/highlight.js";
import { laneOf, lossy } from "./model/model.js";
import { createLeading, createMoves, wantedAt, whole } from "./cursor/moves.js";
import { createOpening } from "./cursor/opening.js";
import { createPlayback } from "./cursor/playback.js";
import { Screen } from "./screen/screen.js";
import { address, answer, nameOf } from "./feed/source.js";
import { fastest, lastStop, leader, ongoing, placed, visible } from "./model/state.js";
import { createReporter, cursorOf, published } from "./cursor/reporter.js";
import { T } from "./text/text.js";
import { atClock, byNode, roundOfClock, speedFor } from "./model/walk.js";

/**
 * Draw the player into `root`.
 * @param {HTMLElement} root an empty element that belongs to the player
 * @param {Data} data
 * @param {Api} [api]
 * @returns {{update: (data: Data) => void, destroy: () => void}}
 */
export function mount(root, data, api = {}) {
  return new Player(root, data, api);
}

class Player {
  source = ""; // what is drawn: the address of a run or of traces
  ended = ""; // the run that was followed to its end: the page may still call it live for a moment
  asked = ""; // the cursor that the page last named
  /** @type {Lane[]} */
  lanes = [];
  /** @type {Cursor} */
  cursor = { stop: 0, event: null, selection: null, lead: null };
  /** @type {View|null} */
  view = null;
  replaying = false;
  playback = createPlayback({
    next: (speed) => {
      const next = this.opening.next(speed);
      return next && { ms: next.ms, go: () => this.move(next.cursor) };
    },
    rewind: () => this.move(whole(this.cursor, 0)),
    changed: () => {
      this.drawPlaying();
      this.draw();
      this.reporter.soon();
    },
  });
  moves = {
    ...createMoves(this),
    play: this.playback.toggle,
    speed: (/** @type {number} */ value) => {
      this.playback.setSpeed(value);
      this.drawPlaying();
    },
  };
  leading = createLeading();
  screen = new Screen({
    controls: this.moves,
    clock: (seconds, lane) => this.toTime(seconds, lane),
    lead: (lane) => this.selectLane(lane),
    opened: () => this.reporter.soon(),
    answer: (number, words) =>
      this.api.answer ? this.api.answer(number, words) : answer(String(this.data.events), number, words),
    back: (run) => this.api.back?.(run),
  });
  box = this.screen.box;
  opening = createOpening({
    now: () => ({ lanes: this.lanes, cursor: this.cursor, least: this.data.least }),
    move: (next) => this.move(next),
    hint: (text, why) => this.screen.controls.hint(text, why),
    whole: (ratios) => this.screen.score.whole(ratios),
  });
  feed = createFeed({
    open: (events) => this.api.open?.() ?? new EventSource(address(events)),
    say: (text) => this.screen.say(text),
    ask: (question) => this.screen.question.show(question),
    lanes: (given) => {
      const fresh = !this.lanes.length;
      this.setLanes(given);
      if (fresh) this.screen.toStart();
    },
    progress: () => {
      this.firstRound.begin();
      if (!this.firstRound.isRunning()) this.drawLive();
    },
    recordOf: (at) => this.data.traces?.[at]?.url,
    /** The run is over: turn into its replay. */
    recorded: async (refs, traces, failed) => {
      this.ended = this.source;
      this.source = nameOf({ mode: "replay", traces: refs });
      const view = this.screen.panels.current();
      this.replay(traces, { stop: null, event: null, node: null, lead: this.cursor.lead, view }, false);
      this.screen.toStart();
      if (failed) this.screen.say(failed);
    },
    idle: () => this.firstRound.over(), // the page may name a record while its run's first round is still shown
    unrecorded: () => this.screen.say(this.lanes.length ? T.noRecord : T.lost),
    done: (run) => this.api.setTriggerValue?.("done", run),
  });
  firstRound = createFirstRound({
    now: () => [this.lanes, this.cursor.lead],
    show: (at) => this.screen.progress(visible(this.lanes, at, this.data.least), this.lanes, this.data),
    over: () => this.drawLive(),
  });
  reporter = createReporter(this.box, {
    value: () =>
      this.replaying && this.view && !this.playback.isPlaying()
        ? published(this.view, this.screen.panels.current())
        : null,
    named: () => [this.data.of, this.asked],
    say: (value) => {
      if (this.data.addressed) keepInAddress(value);
      this.api.setStateValue?.("cursor", this.data.of === undefined ? value : { ...value, of: this.data.of });
    },
  });
  keys = createKeys({
    ready: () => this.replaying,
    moves: this.moves,
    node: (by) => this.stepNode(by),
    lead: (lane) => this.selectLane(lane),
    view: () => {
      this.screen.panels.next();
      this.reporter.soon();
    },
    drop: () => {
      if (this.view?.chosen) this.select(null);
    },
    choose: (target) => target.click(),
    help: () => this.screen.help.open(),
  });
  forwarded = forwardKeys(this.box, this.keys, this.reporter.touch);

  /** @param {HTMLElement} root @param {Data} first @param {Api} api */
  constructor(root, first, api) {
    this.root = root;
    this.api = api;
    this.data = first;
    this.root.replaceChildren(this.box);
    this.box.addEventListener("click", (event) => {
      const from = /** @type {HTMLElement|null} */ (elementOf(event).closest(".from-here"))?.dataset;
      const { trace } = this.lanes[this.view?.focus?.lane ?? -1] ?? {};
      if (from && trace) return this.api.branch?.(trace, Number(from.at), Number(from.id));
      const node = this.replaying ? nodeOf(elementOf(event)) : null;
      if (!node) return;
      this.playback.pause();
      this.select(node);
    });
    this.box.addEventListener("keydown", this.keys);
    this.update(first);
  }

  // --- the cursor -----------------------------------------------------------------------------------------------

  /**
   * Redraw at another place; the panes follow the ends of their texts again.
   * @param {Cursor} next
   */
  move(next) {
    this.cursor = placed(this.lanes, next);
    this.screen.follow();
    this.draw();
  }

  /** @param {Cursor} next */
  go(next) {
    if (!this.replaying) return;
    this.playback.pause();
    this.move(next);
    this.screen.toOneScreen();
    this.reporter.soon();
  }

  /** @param {number} seconds @param {number|null} lane to its round then; null: to that moment */
  toTime(seconds, lane) {
    const { lanes, view } = this;
    if (this.replaying && view)
      this.go(lane === null ? atClock(lanes, view.lead, seconds) : roundOfClock(lanes, lane, seconds));
  }

  /** @param {number} lane */
  selectLane(lane) {
    if (lane >= this.lanes.length) return;
    if (this.replaying && this.view) return this.go(this.leading(this.lanes, this.cursor, this.view, lane));
    this.cursor = { ...this.cursor, lead: lane };
    this.screen.lead(leader(this.lanes, lane));
  }

  /** @param {Selection|null} selection */
  select(selection) {
    this.cursor = { ...this.cursor, selection };
    this.draw();
    if (selection) this.screen.reveal(selection.lane);
    else this.screen.follow();
    this.reporter.soon();
  }

  /**
   * To the next or previous token. The focus stays in the tree if it was there.
   * @param {1|-1} by
   */
  stepNode(by) {
    if (!this.view?.focus) return;
    const inTree = this.screen.views.tree.has(
      /** @type {Document|ShadowRoot} */ (this.box.getRootNode()).activeElement,
    );
    const next = byNode(this.lanes, this.cursor, this.view, by);
    this.playback.pause();
    if (!next) return;
    this.cursor = next;
    this.select(next.selection);
    if (inTree) this.screen.views.tree.focus(next.selection.node);
  }

  draw() {
    if (!this.replaying) return;
    this.view = visible(this.lanes, this.cursor, this.data.least);
    const quiet = this.playback.isPlaying() && this.playback.speed() > 0.5;
    this.screen.show(this.view, this.lanes, this.data, quiet);
  }

  /** A live run up to now. */
  drawLive() {
    if (!this.replaying && this.lanes.length)
      this.screen.progress(ongoing(this.lanes, this.cursor.lead, this.data.least), this.lanes, this.data);
  }

  drawPlaying() {
    const { lanes, playback } = this;
    this.screen.playing(playback.isPlaying(), playback.speed(), lanes[leader(lanes, this.cursor.lead)]);
  }

  /** @param {Lane[]} next */
  setLanes(next) {
    this.lanes = next;
    for (const lane of this.lanes) lane.about = this.data.proposers?.[lane.proposer] ?? "";
    for (const lane of this.lanes) lane.lossy = lossy(lane, this.data.rules);
    for (const lane of this.lanes) lane.apart = this.data.compared === false;
    this.screen.setLanes(this.lanes, leader(this.lanes, this.cursor.lead));
  }

  // --- replay ---------------------------------------------------------------------------------------------------

  /** @param {Traces} traces @param {Wanted} wanted @param {boolean} autoplay */
  replay(traces, wanted, autoplay) {
    this.setLanes(traces.map(({ trace, label }) => laneOf(trace, label)));
    this.replaying = true;
    this.screen.question.show(null);
    this.screen.say(this.lanes.length ? null : T.empty);
    this.screen.setLive(false);
    const moving =
      autoplay && wanted.stop === null && !matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.screen.panels.open(wanted.view);
    const lead = wanted.lead ?? (wanted.stop === null ? fastest(this.lanes) : null);
    this.move(wantedAt(this.lanes, { ...wanted, lead, stop: wanted.stop ?? 0 }));
    this.playback.suggest(moving ? speedFor(lastStop(this.lanes, this.cursor.lead)) : 1);
    this.drawPlaying();
    this.opening.begin(moving, wanted.stop === null, this.data.provenance === "measured");
    this.reporter.forget();
    if (moving) this.playback.play();
  }

  /** @param {string} events */
  follow(events) {
    this.playback.pause();
    this.firstRound.reset();
    this.replaying = false;
    this.setLanes([]);
    this.screen.question.show(null);
    this.screen.setLive(true);
    this.box.focus({ preventScroll: true }); // after Run the keys are the player's, and no longer the prompt's
    this.screen.progress(null, [], this.data);
    this.feed.follow(events, {
      prompt: String(this.data.prompt ?? ""),
      labels: (this.data.traces ?? []).map((ref) => ref.label),
    });
  }

  // --- requests by the page ---------------------------------------------------------------------------------------

  open() {
    this.feed.close();
    const wanted = cursorOf(this.reporter.resumed() ?? this.data.cursor);
    const lead = this.data.mode === "live" ? null : wanted.lead; // a new run forgets who led
    this.cursor = { stop: 0, event: null, selection: null, lead };
    if (this.data.mode === "live" && this.data.events) {
      this.follow(this.data.events);
    } else if (this.data.traces?.length) {
      if (!this.lanes.length) this.screen.say(T.loading);
      this.feed.read(this.data.traces, (traces) => this.replay(traces, wanted, Boolean(this.data.autoplay)));
    } else {
      this.replaying = false;
      this.setLanes([]);
      this.screen.say(T.empty);
    }
  }

  /** @param {Data} next */
  update(next) {
    this.data = next;
    this.screen.dress(next, Boolean(this.api.branch));
    const name = nameOf(this.data);
    const requested = JSON.stringify(this.data.cursor ?? null);
    if (name !== this.source && name !== this.ended) {
      this.source = name;
      this.asked = requested;
      this.open();
      return;
    }
    // The page hands back what it received; only a cursor that is new in both senses moves the player.
    const wanted = cursorOf(this.data.cursor);
    const fresh = requested !== this.asked && !this.reporter.reported(wanted);
    if (this.replaying && fresh && wanted.stop !== null) {
      this.playback.pause();
      this.screen.panels.open(wanted.view);
      this.move(wantedAt(this.lanes, wanted));
      this.reporter.forget();
    }
    this.asked = requested;
    if (this.replaying) this.draw();
  }

  destroy() {
    this.feed.destroy();
    this.playback.destroy();
    this.reporter.destroy();
    this.forwarded.destroy();
    this.firstRound.reset();
    this.root.replaceChildren();
  }
}
