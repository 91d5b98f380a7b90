/**
 * The player: one page element that draws a run live and walks through it afterwards.
 *
 * What is on screen (screen.js) follows from the lanes (model.js) and the cursor (state.js) alone; here gestures, playing
 * and the page move the cursor.
 *
 * @import { Traces } from "./feed/feed.js"
 * @import { Lane } from "./model/model.js"
 * @import { Data } from "./feed/source.js"
 * @import { Cursor, Selection, View } from "./model/state.js"
 * @import { PageCursor, Wanted } from "./cursor/reporter.js"
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
import { createScreen } from "./screen/screen.js";
import { answer, nameOf } from "./feed/source.js";
import { fastest, lastStop, leader, ongoing, placed, visible } from "./model/state.js";
import { createReporter, cursorOf, published } from "./cursor/reporter.js";
import { T } from "./text/text.js";
import { atClock, byNode, roundOfClock, speedFor } from "./model/walk.js";

/**
 * Draw the player into `root`.
 * @param {HTMLElement} root an empty element that belongs to the player
 * @param {Data} first
 * @param {{setStateValue?: (name: string, value: PageCursor & {of?: string}) => void, setTriggerValue?: (name: string, value: string) => void}} [api]
 *   receives the cursor and the end of a run
 * @returns {{update: (data: Data) => void, destroy: () => void}}
 */
export function mount(root, first, api = {}) {
  let data = first;
  let source = ""; // what is drawn: the address of a run or of traces
  let ended = ""; // the run that was followed to its end: the page may still call it live for a moment
  let asked = ""; // the cursor that the page last named
  /** @type {Lane[]} */
  let lanes = [];
  /** @type {Cursor} */
  let cursor = { stop: 0, event: null, selection: null, lead: null };
  /** @type {View|null} */
  let view = null;
  let replaying = false;

  const playback = createPlayback({
    next: (speed) => {
      const next = opening.next(speed);
      return next && { ms: next.ms, go: () => move(next.cursor) };
    },
    rewind: () => move(whole(cursor, 0)),
    changed: () => {
      if (!playback.isPlaying()) opening.paused();
      drawPlaying();
      draw();
      reporter.soon();
    },
  });
  const moves = {
    ...createMoves(() => [lanes, cursor], go),
    play: playback.toggle,
    speed: (/** @type {number} */ value) => {
      playback.setSpeed(value);
      drawPlaying();
    },
  };
  const leading = createLeading();
  const screen = createScreen({
    controls: moves,
    clock: (seconds, lane) => {
      if (replaying && view)
        go(lane === null ? atClock(lanes, view.lead, seconds) : roundOfClock(lanes, lane, seconds));
    },
    lead: selectLane,
    opened: () => reporter.soon(),
    answer: (number, words) => answer(String(data.events), number, words),
  });
  const { box } = screen;
  const opening = createOpening({
    now: () => ({ lanes, cursor, least: data.least }),
    move,
    hint: screen.hint,
    whole: screen.whole,
  });
  root.replaceChildren(box);
  const feed = createFeed({
    say: screen.say,
    ask: screen.ask,
    lanes(given) {
      const fresh = !lanes.length;
      setLanes(given);
      if (fresh) screen.toStart();
    },
    progress() {
      firstRound.begin();
      if (!firstRound.isRunning()) drawLive();
    },
    recordOf: (at) => data.traces?.[at]?.url,
    /** The run is over: turn into its replay. */
    async recorded(refs, traces, failed) {
      ended = source;
      source = nameOf({ mode: "replay", traces: refs });
      replay(
        traces,
        { stop: null, event: null, node: null, lead: cursor.lead, view: screen.panels.current() },
        false,
      );
      screen.toStart();
      if (failed) screen.say(failed);
    },
    idle: () => firstRound.over(), // the page may name a record while its run's first round is still shown
    unrecorded: () => screen.say(lanes.length ? T.noRecord : T.lost),
    done: (run) => api.setTriggerValue?.("done", run),
  });

  const firstRound = createFirstRound({
    now: () => [lanes, cursor.lead],
    show: (at) => screen.progress(visible(lanes, at, data.least), lanes, data),
    over: () => drawLive(),
  });

  const reporter = createReporter(box, {
    value: () =>
      replaying && view && !playback.isPlaying() ? published(view, screen.panels.current()) : null,
    named: () => [data.of, asked],
    say: (value) => {
      if (data.addressed) keepInAddress(value);
      api.setStateValue?.("cursor", data.of === undefined ? value : { ...value, of: data.of });
    },
  });

  box.addEventListener("click", (event) => {
    const node = replaying ? nodeOf(elementOf(event)) : null;
    if (!node) return;
    playback.pause();
    select(node);
  });
  const keys = createKeys({
    ready: () => replaying,
    moves,
    node: stepNode,
    lead: selectLane,
    view: () => {
      screen.panels.next();
      reporter.soon();
    },
    drop: () => {
      if (view?.chosen) select(null);
    },
    choose: (target) => target.click(),
    help: screen.help,
  });
  box.addEventListener("keydown", keys);
  for (const name of ["pointerdown", "keydown"]) box.addEventListener(name, opening.stay);
  const forwarded = forwardKeys(box, keys, reporter.touch);

  // --- the cursor -----------------------------------------------------------------------------------------------

  /**
   * Redraw at another place; the panes follow the ends of their texts again.
   * @param {Cursor} next
   */
  function move(next) {
    cursor = placed(lanes, next);
    screen.follow();
    draw();
  }

  /** @param {Cursor} next */
  function go(next) {
    if (!replaying) return;
    playback.pause();
    move(next);
    screen.toOneScreen();
    reporter.soon();
  }

  /** @param {number} lane */
  function selectLane(lane) {
    if (lane >= lanes.length) return;
    if (replaying && view) return go(leading(lanes, cursor, view, lane));
    cursor = { ...cursor, lead: lane };
    screen.lead(leader(lanes, lane));
  }

  /** @param {Selection|null} selection */
  function select(selection) {
    cursor = { ...cursor, selection };
    draw();
    if (selection) screen.reveal(selection.lane);
    else screen.follow();
    reporter.soon();
  }

  /**
   * To the next or previous token. The focus stays in the tree if it was there.
   * @param {1|-1} by
   */
  function stepNode(by) {
    if (!view?.focus) return;
    const inTree = screen.tree.has(/** @type {Document|ShadowRoot} */ (box.getRootNode()).activeElement);
    const next = byNode(lanes, cursor, view, by);
    playback.pause();
    if (!next) return;
    cursor = next;
    select(next.selection);
    if (inTree) screen.tree.focus(next.selection.node);
  }

  function draw() {
    if (!replaying) return;
    view = visible(lanes, cursor, data.least);
    screen.show(view, lanes, data, playback.isPlaying() && playback.speed() > 0.5);
  }

  /** A live run up to now. */
  function drawLive() {
    if (!replaying && lanes.length) screen.progress(ongoing(lanes, cursor.lead, data.least), lanes, data);
  }

  function drawPlaying() {
    screen.playing(playback.isPlaying(), playback.speed(), lanes[leader(lanes, cursor.lead)]);
  }

  /** @param {Lane[]} next */
  function setLanes(next) {
    lanes = next;
    for (const lane of lanes)
      Object.assign(lane, {
        lossy: lossy(lane, data.rules),
        about: data.proposers?.[lane.proposer] ?? "",
        apart: data.compared === false,
      });
    screen.setLanes(lanes, leader(lanes, cursor.lead));
  }

  // --- replay ---------------------------------------------------------------------------------------------------

  /** @param {Traces} traces @param {Wanted} wanted @param {boolean} autoplay */
  function replay(traces, wanted, autoplay) {
    setLanes(traces.map(({ trace, label }) => laneOf(trace, label)));
    replaying = true;
    screen.ask(null);
    screen.say(lanes.length ? null : T.empty);
    screen.setLive(false);
    const moving =
      autoplay && wanted.stop === null && !matchMedia("(prefers-reduced-motion: reduce)").matches;
    screen.panels.open(wanted.view);
    const lead = wanted.lead ?? (wanted.stop === null ? fastest(lanes) : null);
    move(wantedAt(lanes, { ...wanted, lead, stop: wanted.stop ?? 0 }));
    playback.suggest(moving ? speedFor(lastStop(lanes, cursor.lead)) : 1);
    drawPlaying();
    opening.begin(moving, wanted.stop === null, data.provenance === "measured");
    reporter.forget();
    if (moving) playback.play();
  }

  /** @param {string} events */
  function follow(events) {
    playback.pause();
    firstRound.reset();
    replaying = false;
    setLanes([]);
    screen.ask(null);
    screen.setLive(true);
    box.focus({ preventScroll: true }); // after Run the keys are the player's, and no longer the prompt's
    screen.progress(null, [], data);
    feed.follow(events, {
      prompt: String(data.prompt ?? ""),
      labels: (data.traces ?? []).map((ref) => ref.label),
    });
  }

  // --- requests by the page ---------------------------------------------------------------------------------------

  function open() {
    feed.close();
    const wanted = cursorOf(reporter.resumed() ?? data.cursor);
    cursor = { stop: 0, event: null, selection: null, lead: data.mode === "live" ? null : wanted.lead }; // a new run forgets who led
    if (data.mode === "live" && data.events) {
      follow(data.events);
    } else if (data.traces?.length) {
      if (!lanes.length) screen.say(T.loading);
      feed.read(data.traces, (traces) => replay(traces, wanted, Boolean(data.autoplay)));
    } else {
      replaying = false;
      setLanes([]);
      screen.say(T.empty);
    }
  }

  /** @param {Data} next */
  function update(next) {
    data = next;
    screen.setTheme();
    screen.setPresenting(Boolean(data.present));
    screen.box.classList.toggle("views-first", Boolean(data.view_first));
    screen.setBrief(Boolean(data.brief)); // before a run is scrolled into view
    const name = nameOf(data);
    const requested = JSON.stringify(data.cursor ?? null);
    if (name !== source && name !== ended) {
      source = name;
      asked = requested;
      open();
      return;
    }
    // The page hands back what it received; only a cursor that is new in both senses moves the player.
    const wanted = cursorOf(data.cursor);
    if (replaying && requested !== asked && !reporter.reported(wanted) && wanted.stop !== null) {
      playback.pause();
      screen.panels.open(wanted.view);
      move(wantedAt(lanes, wanted));
      reporter.forget();
    }
    asked = requested;
    if (replaying) draw();
  }

  update(first);
  return {
    update,
    destroy() {
      feed.destroy();
      playback.destroy();
      opening.destroy();
      reporter.destroy();
      forwarded.destroy();
      firstRound.reset();
      root.replaceChildren();
    },
  };
}
