/**
 * The proposal tree in large: the root, every guess, and what the target wrote itself, joined by lines as wide as a
 * guess was likely. It scrolls, zooms and pans within itself; as it shrinks, nodes show less, never in smaller type.
 */

/**
 * @import { Lane, Round } from "../model/model.js"
 * @import { View } from "../model/state.js"
 * @import { Arrow, Key, Layout } from "../model/tree.js"
 * @import { Known } from "./tree_node.js"
 * @import { Room, ZoomMode } from "./tree_size.js"
 */

import { el, elementOf, setNote, setText } from "../dom/dom.js";
import { list } from "../model/model.js";
import { knows } from "../model/moments.js";
import { insertAt, write } from "../dom/patch.js";
import { rootText, wasRead } from "../model/slots.js";
import { nonNull } from "../dom/non_null.js";
import { flat, quote } from "../text/text.js";
import { W } from "../text/text_tree.js";
import { beside, keyOf, OWN, ROOT, roomyLayout } from "../model/tree.js";
import { factsOf, FOLDED_FROM, itemsOf, sightOf } from "./tree_facts.js";
import { createLines } from "./tree_lines.js";
import { createLegend, makeNode, paintNode } from "./tree_node.js";
import { createNote } from "./tree_note.js";
import { createOverlay } from "./tree_overlay.js";
import { createScroll } from "./tree_scroll.js";
import { boxOf, detailOf, drawn as drawnIn, GAP, isNarrow, roomOf, sizeOf, zoomed } from "./tree_size.js";
import { createZoom } from "./zoom.js";

/** @typedef {{whole: Round, lane: Lane, at: number, done: boolean, open: boolean, guessed: boolean, rivals: boolean}} Shape what determines the layout */

/** @returns the view: `root`, `show(view)`, `settle()`, `focus(node)`, `has(element)` */
export function createTree() {
  /** @type {Map<Key, ReturnType<typeof makeNode>>} what is drawn of each; kept from round to round */
  const nodes = new Map();
  const lines = createLines();
  const overlay = createOverlay();
  const rootLabel = el(
    "span",
    { class: "stem" },
    el("span", { class: "stem-mark" }, W.rootMark),
    el("span", { class: "chip-text" }),
  );
  const note = createNote();
  const field = el("div", { class: "tree-field" }, lines.root, rootLabel, note.root, overlay.root);
  const box = el("div", { class: "tree", role: "group" }, field);
  const about = el("span", { class: "tree-about" });
  const guide = el("span");
  const scroll = createScroll(box);
  /** @type {Parameters<typeof write>[0]} */
  const drawn = { known: {} }; // sizes as last written
  const zoom = createZoom(box, {
    by: (factor, at) => resize(zoomed(current(), room.scale, factor), at),
    to: (view) => toggle(view === "fit" ? "fit" : 1),
  });
  const toggle = (/** @type {"fit"|1} */ view) => resize(zoomMode === view ? "auto" : view, null); // pressed again, back to how it began
  const cue = el("p", { class: "hint tree-cue", hidden: true });
  const fold = el("button", { type: "button", class: "more-rows", hidden: true });
  const lost = el("p", { class: "hint", hidden: true });
  const legend = createLegend();
  const tapped = el("p", { class: "hint tapped", hidden: true }); // on a phone, whose nodes have no room for numbers
  const parts = [
    el("div", { class: "tree-bar" }, el("p", { class: "guide" }, about, guide), zoom.root),
    box,
    tapped,
    cue,
    fold,
    lost,
    legend.root,
  ];
  const root = el("div", { class: "chips", role: "group" });

  let shape = /** @type {Shape|null} */ (null);
  /** @type {ReturnType<typeof itemsOf>["items"]} */
  let items = [];
  /** @type {Map<Key, Known>} as last painted */
  const painted = new Map();
  let straight = roomyLayout([]); // as the tree is
  let layout = /** @type {Layout} */ (straight); // as it is drawn: a long chain in lines
  let unfolded = /** @type {Round|null} */ (null); // the round whose pruned guesses were requested
  let zoomMode = /** @type {ZoomMode} */ ("auto");
  let room = /** @type {Room} */ ({ width: 0, height: 0, scale: 1 });
  /** @type {View|null} */
  let shown = null; // the last view

  const observer = new ResizeObserver(() => {
    const before = room;
    if (!box.clientWidth) {
      scroll.forget();
      return;
    }
    room = roomOf(box);
    if (
      scroll.opened() &&
      room.width === before.width &&
      room.height === before.height &&
      room.scale === before.scale
    )
      return;
    if (shape) refit();
    reveal(true);
  });
  for (const part of [box, root]) observer.observe(part);
  box.addEventListener("keydown", onKey);
  for (const name of ["pointerover", "focusin"])
    field.addEventListener(name, (event) => showTrail(elementOf(event)));
  for (const name of ["pointerleave", "focusout"]) field.addEventListener(name, () => showTrail(null));
  fold.onclick = () => {
    if (!shape || !shown) return;
    unfolded = unfolded === shape.whole ? null : shape.whole;
    show(shown);
    reveal(false);
  };

  /** @param {View} view */
  function show(view) {
    shown = view;
    const round = view.current;
    if (!round) {
      shape = null;
      root.replaceChildren(el("p", { class: "hint" }, W.treeToCome)); // nothing of the old round stays in the page
      return;
    }
    if (!shape) root.replaceChildren(...parts);
    if (!room.width) room = roomOf(box);
    const lane = view.lanes[view.lead].lane;
    const whole = lane.rounds[round.index];
    const done = !view.moment || view.moment.phase === "committed";
    const wanted =
      view.chosen && view.focus?.lane === view.lead && view.focus.round === round.index
        ? view.focus.node
        : null;
    const open = unfolded === whole || (wanted !== null && whole.proposals[wanted]?.verdict === "pruned");
    if (!shape || shape.whole !== whole || shape.done !== done || shape.open !== open) {
      const seen = whole.proposals.filter(wasRead);
      const rivals = new Set(seen.map((item) => item.parent)).size < seen.length;
      shape = { whole, lane, done, open, at: view.lead, guessed: seen.length > 0, rivals };
      reshape(shape);
    }
    paint(shape, view, round);
  }

  /**
   * Another set of nodes: lay them out, and move elements to their places.
   * @param {Shape} wanted
   */
  function reshape({ whole, lane, done, open, at }) {
    const found = itemsOf(whole, done, open);
    items = found.items;
    straight = roomyLayout(items);
    const kept = new Set(items.map((item) => item.node));
    for (const [key, node] of nodes) {
      if (kept.has(key)) continue;
      node.slot.remove();
      nodes.delete(key);
    }
    items.forEach((item, order) => {
      let node = nodes.get(item.node);
      if (!node) nodes.set(item.node, (node = makeNode(item.node)));
      // In order; what is already in place is not moved, since that would lose its focus.
      insertAt(field, node.slot, order + 3);
    });
    Object.assign(field.dataset, { round: whole.index, lane: at }); // whose its nodes are
    const text = rootText(lane, whole.index);
    setText(nonNull(rootLabel.lastChild), flat(text));
    rootLabel.title = W.root(quote(text), whole.index);
    const seen = whole.proposals.filter(wasRead);
    const levels = Math.max(0, ...seen.map((item) => item.depth));
    setText(about, W.treeIs(seen.length, levels));
    box.setAttribute("aria-label", W.treeName(seen.length, levels));
    const folding = done && found.pruned >= FOLDED_FROM;
    setNote(fold, folding ? (open ? W.foldPruned(found.pruned) : W.showPruned(found.pruned)) : "");
    setNote(lost, found.lost ? W.notDrawn(found.lost) : "");
    measure();
  }

  /** Lay the nodes out in the room there is. */
  function arrange() {
    const own = shape?.whole.tokens.find((token) => token.node < 0)?.name ?? "";
    /** @type {[Key, string][]} */
    const words = items.map(({ node, item }) => [node, flat(item?.text ?? own)]);
    layout = drawnIn(zoomMode, room, items, straight, [
      [ROOT, rootLabel.lastChild?.textContent ?? ""],
      ...words,
    ]);
    lines.fit(layout, items);
  }

  /**
   * The parts of each node that depend on the moment.
   * @param {Shape} as
   * @param {View} view
   * @param {Round} round
   */
  function paint({ whole, lane, done, at, rivals, guessed }, view, round) {
    const facts = factsOf(lane, list(lane.trace?.rounds)[whole.index], knows(view, "p"), done);
    const { moment, focus } = view;
    setText(guide, W.treeGuide(moment?.phase ?? "committed", rivals, guessed));
    const here = focus?.lane === at && focus.round === whole.index ? keyOf(focus.node) : null;
    const own = round.tokens.find((token) => token.node < 0);
    const stop = here !== null && nodes.has(here) ? here : items[0]?.node;
    painted.clear();
    for (const { node: key, parent, item } of items) {
      const isOwn = key === OWN;
      const written = nonNull(own);
      /** @type {Known} */
      const known = {
        text: isOwn ? written.name : nonNull(item).text,
        verdict: isOwn ? written.source : round.proposals[key].verdict,
        above: parent === ROOT ? rootText(lane, whole.index) : whole.proposals[parent].text,
        depth: nonNull(straight.places.get(key)).column,
        ...facts.of(key),
        judging: moment?.phase === "judged" && moment.node === key,
        focus: key !== here ? "" : view.chosen ? "selected" : "focused",
        stop: key === stop,
        isOwn,
        detail: box.dataset.detail ?? "",
      };
      paintNode(nonNull(nodes.get(key)), known);
      painted.set(key, known);
    }
    strike();
    setNote(
      tapped,
      view.chosen && here !== null && isNarrow(room) ? (nodes.get(here)?.chip.title ?? "") : "",
    );
    legend.show(items.length > 0 && items[0].node !== OWN ? facts.by : "", showRoute(round), facts);
  }

  /**
   * The accepted path.
   * @param {Round} round
   * @returns whether there is one
   */
  function showRoute(round) {
    const accepted = items.filter(({ node }) => node !== OWN && round.proposals[node].verdict === "accepted");
    lines.accept(accepted);
    return accepted.length > 0;
  }

  /** Give everything its place and size: not by variables, which all within would inherit and be styled anew for. */
  function measure() {
    arrange();
    if (shown?.current) showRoute(shown.current);
    const { column, row } = current();
    const detail = detailOf({ column, row }, room.scale);
    const placeOf = (/** @type {Key} */ key) =>
      boxOf(nonNull(layout.places.get(key)), { column, row }, detail);
    const sized = (/** @type {{width: number, height: number}} */ { width, height }) =>
      `inline-size: ${width}px; block-size: ${height}px`;
    write(drawn, "detail", detail, (value) => {
      box.dataset.detail = value;
      if (shape && shown?.current) paint(shape, shown, shown.current);
    });
    write(drawn, "stem", sized(placeOf(ROOT)), (value) => (rootLabel.style.cssText = value));
    rootLabel.classList.toggle("noted", note.fit(layout, { column, row }, room.scale));
    for (const item of items) {
      const [node, place] = [nonNull(nodes.get(item.node)), placeOf(item.node)];
      write(
        node,
        "place",
        `left: ${place.left}px; top: ${place.top}px; ${sized(place)}`,
        (value) => (node.slot.style.cssText = value),
      );
    }
    const [wide, high] = [layout.columns * column, layout.rows * row];
    write(
      drawn,
      "field",
      `inline-size: ${wide - GAP * column}px; block-size: ${high}px`,
      (value) => (field.style.cssText = value),
    );
    write(drawn, "lines", `${wide}px`, (value) => (lines.root.style.inlineSize = value));
    const over = wide > room.width + 12 || high > room.height;
    setNote(cue, shape && over && room.width ? W.treeCue : "");
  }

  function refit() {
    measure();
    strike();
  }

  /** What is drawn between the nodes and over them, as they were painted and where they are now. */
  function strike() {
    lines.draw(painted);
    overlay.draw(painted, layout, current(), box.dataset.detail ?? "");
  }

  function current() {
    return sizeOf(zoomMode, room, layout);
  }

  /**
   * Zoom; the point `at`, or the middle, stays in place.
   * @param {number|"fit"|"auto"} to
   * @param {{x: number, y: number}|null} at
   */
  function resize(to, at) {
    const [before, folded] = [current(), layout.lines];
    const point = at ?? { x: room.width / 2, y: Math.min(room.height, layout.rows * before.row) / 2 };
    zoomMode = typeof to === "number" ? Math.min(Math.max(to, 0.3), 2.5) : to;
    refit();
    if (folded !== layout.lines)
      reveal(true); // another picture
    else scroll.keep(point, before, current());
  }

  /**
   * Scroll the box, and nothing else, to the node in focus, to the one being judged, or to the one that was decided last.
   * @param {boolean} again
   */
  function reveal(again) {
    if (!shown?.current || !shape || !items.length) return;
    const round = shown.current.index;
    scroll.to(`${shape.at} ${round}`, sightOf(shown, shape.at, round, items), layout, current(), room, again);
  }

  /**
   * The path from the root to the node under the pointer.
   * @param {Element|null} target
   */
  function showTrail(target) {
    /** @type {HTMLElement|null|undefined} */
    const chip = target?.closest?.(".chip");
    lines.point(items, chip ? keyOf(Number(chip.dataset.node)) : ROOT);
  }

  /** @param {KeyboardEvent} event */
  function onKey(event) {
    /** @type {HTMLElement|null} */
    const chip = elementOf(event).closest(".chip");
    let took = zoom.key(event);
    if (
      !took &&
      chip &&
      /^Arrow/.test(event.key) &&
      !event.ctrlKey &&
      !event.metaKey &&
      !event.altKey &&
      !event.shiftKey
    ) {
      const next = beside(layout, items, keyOf(Number(chip.dataset.node)), /** @type {Arrow} */ (event.key));
      took = next !== null || event.key === "ArrowUp" || event.key === "ArrowDown";
      if (next !== null) {
        nodes.get(next)?.chip.click(); // the player handles selecting
        nodes.get(next)?.chip.focus({ preventScroll: true });
      }
    }
    if (!took) return;
    event.preventDefault();
    event.stopPropagation();
  }

  return {
    root,
    show,
    /** Scroll as requested; last of all, since it makes the browser lay out what was drawn. */
    settle: () => reveal(false),
    /**
     * Give the keyboard to the chip of `node`, if it is here.
     * @param {number} node
     */
    focus(node) {
      nodes.get(keyOf(node))?.chip.focus({ preventScroll: true });
    },
    /** Whether the keyboard is on one of the nodes. */
    has: (/** @type {Element|null} */ element) => box.contains(element),
  };
}
