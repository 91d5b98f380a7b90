/**
 * The proposal tree in large: the root, every guess, and what the target wrote itself, joined by lines as wide as a
 * guess was likely. It scrolls, zooms and pans within itself; as it shrinks, nodes show less, never in smaller type.
 */

/**
 * @import { Round } from "../model/model.js"
 * @import { View } from "../model/state.js"
 * @import { Arrow, Key, Layout } from "../model/tree.js"
 * @import { Shape } from "./tree_facts.js"
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
import { factsOf, FOLDED_FROM, itemsOf, shapeOf, sightOf, writtenOf } from "./tree_facts.js";
import { Lines } from "./tree_lines.js";
import { createLegend, makeNode, paintNode } from "./tree_node.js";
import { createNote } from "./tree_note.js";
import { createOverlay } from "./tree_overlay.js";
import { createScroll } from "./tree_scroll.js";
import { boxOf, detailOf, drawn as drawnIn, GAP, isNarrow, roomOf, sizeOf, zoomed } from "./tree_size.js";
import { createZoom } from "./zoom.js";

/** `root`, `show(view)`, `settle()`, `focus(node)`, `has(element)`. */
export class TreeView {
  /** @type {Map<Key, ReturnType<typeof makeNode>>} what is drawn of each; kept from round to round */
  nodes = new Map();
  lines = new Lines();
  overlay = createOverlay();
  stemMark = el("span", { class: "stem-mark" }, W.rootMark);
  rootLabel = el("span", { class: "stem" }, this.stemMark, el("span", { class: "chip-text" }));
  note = createNote();
  layers = [this.lines.root, this.rootLabel, this.note.root, this.overlay.root];
  field = el("div", { class: "tree-field" }, ...this.layers);
  box = el("div", { class: "tree", role: "group" }, this.field);
  about = el("span", { class: "tree-about" });
  guide = el("span");
  scroll = createScroll(this.box);
  /** @type {Parameters<typeof write>[0]} */
  drawn = { known: {} }; // sizes as last written
  zoom = createZoom(this.box, {
    by: (factor, at) => this.resize(zoomed(this.current(), this.room.scale, factor), at),
    to: (view) => this.toggle(view === "fit" ? "fit" : 1),
  });
  toggle = (/** @type {"fit"|1} */ view) => this.resize(this.zoomMode === view ? "auto" : view, null); // pressed again, back to how it began
  cue = el("p", { class: "hint tree-cue", hidden: true });
  fold = el("button", { type: "button", class: "more-rows", hidden: true });
  lost = el("p", { class: "hint", hidden: true });
  legend = createLegend();
  tapped = el("p", { class: "hint tapped", hidden: true }); // on a phone, whose nodes have no room for numbers
  parts = [
    el("div", { class: "tree-bar" }, el("p", { class: "guide" }, this.about, this.guide), this.zoom.root),
    this.box,
    this.tapped,
    this.cue,
    this.fold,
    this.lost,
    this.legend.root,
  ];
  root = el("div", { class: "chips", role: "group" });
  shape = /** @type {Shape|null} */ (null);
  /** @type {ReturnType<typeof itemsOf>["items"]} */
  items = [];
  /** @type {Map<Key, Known>} as last painted */
  painted = new Map();
  straight = roomyLayout([]); // as the tree is
  layout = /** @type {Layout} */ (this.straight); // as it is drawn: a long chain in lines
  unfolded = /** @type {Round|null} */ (null); // the round whose pruned guesses were requested
  zoomMode = /** @type {ZoomMode} */ ("auto");
  room = /** @type {Room} */ ({ width: 0, height: 0, scale: 1 });
  /** @type {View|null} */
  shown = null; // the last view
  observer = new ResizeObserver(() => {
    const before = JSON.stringify(this.room);
    if (!this.box.clientWidth) {
      this.scroll.forget();
      return;
    }
    this.room = roomOf(this.box);
    if (this.scroll.opened() && JSON.stringify(this.room) === before) return;
    if (this.shape) this.refit();
    this.reveal(true);
  });

  constructor() {
    for (const part of [this.box, this.root]) this.observer.observe(part);
    this.box.addEventListener("keydown", (event) => this.onKey(event));
    for (const name of ["pointerover", "focusin"])
      this.field.addEventListener(name, (event) => this.showTrail(elementOf(event)));
    for (const name of ["pointerleave", "focusout"])
      this.field.addEventListener(name, () => this.showTrail(null));
    this.fold.onclick = () => {
      if (!this.shape || !this.shown) return;
      this.unfolded = this.unfolded === this.shape.whole ? null : this.shape.whole;
      this.show(this.shown);
      this.reveal(false);
    };
  }

  /** @param {View} view */
  show(view) {
    this.shown = view;
    const round = view.current;
    if (!round) {
      this.shape = null;
      this.root.replaceChildren(el("p", { class: "hint" }, W.treeToCome)); // nothing of the old round stays in the page
      return;
    }
    if (!this.shape) this.root.replaceChildren(...this.parts);
    if (!this.room.width) this.room = roomOf(this.box);
    const shape = shapeOf(view, round, this.unfolded);
    const { whole, done, open } = this.shape ?? {};
    if (whole !== shape.whole || done !== shape.done || open !== shape.open) {
      this.shape = shape;
      this.reshape(shape);
    }
    this.paint(this.shape ?? shape, view, round);
  }

  /**
   * Another set of nodes: lay them out, and move elements to their places.
   * @param {Shape} wanted
   */
  reshape({ whole, lane, done, open, at }) {
    const found = itemsOf(whole, done, open);
    this.items = found.items;
    this.straight = roomyLayout(this.items);
    const kept = new Set(this.items.map((item) => item.node));
    for (const [key, node] of this.nodes) {
      if (kept.has(key)) continue;
      node.slot.remove();
      this.nodes.delete(key);
    }
    this.items.forEach((item, order) => {
      const node = this.nodes.get(item.node) ?? makeNode(item.node);
      this.nodes.set(item.node, node);
      // In order; what is already in place is not moved, since that would lose its focus.
      insertAt(this.field, node.slot, order + 3);
    });
    Object.assign(this.field.dataset, { round: whole.index, lane: at }); // whose its nodes are
    const text = rootText(lane, whole.index);
    setText(nonNull(this.rootLabel.lastChild), flat(text));
    this.rootLabel.title = W.root(quote(text), whole.index);
    const seen = whole.proposals.filter(wasRead);
    const levels = Math.max(0, ...seen.map((item) => item.depth));
    setText(this.about, W.treeIs(seen.length, levels));
    this.box.setAttribute("aria-label", W.treeName(seen.length, levels));
    const folding = done && found.pruned >= FOLDED_FROM;
    setNote(this.fold, folding ? (open ? W.foldPruned(found.pruned) : W.showPruned(found.pruned)) : "");
    setNote(this.lost, found.lost ? W.notDrawn(found.lost) : "");
    this.measure();
  }

  /** Lay the nodes out in the room there is. */
  arrange() {
    const own = this.shape?.whole.tokens.find((token) => token.node < 0)?.name ?? "";
    /** @type {[Key, string][]} */
    const words = this.items.map(({ node, item }) => [node, flat(item?.text ?? own)]);
    words.unshift([ROOT, this.rootLabel.lastChild?.textContent ?? ""]);
    this.layout = drawnIn(this.zoomMode, this.room, this.items, this.straight, words);
    this.lines.fit(this.layout, this.items);
  }

  /**
   * The parts of each node that depend on the moment.
   * @param {Shape} as
   * @param {View} view
   * @param {Round} round
   */
  paint({ whole, lane, done, at, rivals, guessed }, view, round) {
    const facts = factsOf(lane, list(lane.trace?.rounds)[whole.index], knows(view, "p"), done);
    const { moment, focus } = view;
    setText(this.guide, W.treeGuide(moment?.phase ?? "committed", rivals, guessed));
    const here = focus?.lane === at && focus.round === whole.index ? keyOf(focus.node) : null;
    const stop = here !== null && this.nodes.has(here) ? here : this.items[0]?.node;
    const detail = this.box.dataset.detail ?? "";
    this.painted.clear();
    for (const { node: key, parent } of this.items) {
      const known = {
        ...writtenOf(key, round),
        ...facts.of(key),
        above: parent === ROOT ? rootText(lane, whole.index) : whole.proposals[parent].text,
        depth: nonNull(this.straight.places.get(key)).column,
        judging: moment?.phase === "judged" && moment.node === key,
        focus: /** @type {Known["focus"]} */ (key !== here ? "" : view.chosen ? "selected" : "focused"),
        stop: key === stop,
        detail,
      };
      paintNode(nonNull(this.nodes.get(key)), known);
      this.painted.set(key, known);
    }
    this.strike();
    const touched = view.chosen && here !== null && isNarrow(this.room) ? this.nodes.get(here) : null;
    setNote(this.tapped, touched?.chip.title ?? "");
    const drawsGuesses = this.items.length > 0 && this.items[0].node !== OWN;
    this.legend.show(drawsGuesses ? facts.by : "", this.showRoute(round), facts);
  }

  /**
   * The accepted path.
   * @param {Round} round
   * @returns whether there is one
   */
  showRoute(round) {
    const { proposals } = round;
    const accepted = this.items.filter(({ node }) => node !== OWN && proposals[node].verdict === "accepted");
    this.lines.accept(accepted);
    return accepted.length > 0;
  }

  /** Give everything its place and size: not by variables, which all within would inherit and be styled anew for. */
  measure() {
    this.arrange();
    if (this.shown?.current) this.showRoute(this.shown.current);
    const { column, row } = this.current();
    const detail = detailOf({ column, row }, this.room.scale);
    const placeOf = (/** @type {Key} */ key) =>
      boxOf(nonNull(this.layout.places.get(key)), { column, row }, detail);
    const sized = (/** @type {{width: number, height: number}} */ { width, height }) =>
      `inline-size: ${width}px; block-size: ${height}px`;
    write(this.drawn, "detail", detail, (value) => {
      this.box.dataset.detail = value;
      if (this.shape && this.shown?.current) this.paint(this.shape, this.shown, this.shown.current);
    });
    write(this.drawn, "stem", sized(placeOf(ROOT)), (value) => (this.rootLabel.style.cssText = value));
    this.rootLabel.classList.toggle("noted", this.note.fit(this.layout, { column, row }, this.room.scale));
    for (const item of this.items) {
      const [node, place] = [nonNull(this.nodes.get(item.node)), placeOf(item.node)];
      const css = `left: ${place.left}px; top: ${place.top}px; ${sized(place)}`;
      write(node, "place", css, (value) => (node.slot.style.cssText = value));
    }
    const [wide, high] = [this.layout.columns * column, this.layout.rows * row];
    const css = sized({ width: wide - GAP * column, height: high });
    write(this.drawn, "field", css, (value) => (this.field.style.cssText = value));
    write(this.drawn, "lines", `${wide}px`, (value) => (this.lines.root.style.inlineSize = value));
    const over = wide > this.room.width + 12 || high > this.room.height;
    setNote(this.cue, this.shape && over && this.room.width ? W.treeCue : "");
  }

  refit() {
    this.measure();
    this.strike();
  }

  /** What is drawn between the nodes and over them, as they were painted and where they are now. */
  strike() {
    this.lines.draw(this.painted);
    this.overlay.draw(this.painted, this.layout, this.current(), this.box.dataset.detail ?? "");
  }

  current() {
    return sizeOf(this.zoomMode, this.room, this.layout);
  }

  /**
   * Zoom; the point `at`, or the middle, stays in place.
   * @param {number|"fit"|"auto"} to
   * @param {{x: number, y: number}|null} at
   */
  resize(to, at) {
    const [before, folded] = [this.current(), this.layout.lines];
    const point = at ?? {
      x: this.room.width / 2,
      y: Math.min(this.room.height, this.layout.rows * before.row) / 2,
    };
    this.zoomMode = typeof to === "number" ? Math.min(Math.max(to, 0.3), 2.5) : to;
    this.refit();
    if (folded !== this.layout.lines)
      this.reveal(true); // another picture
    else this.scroll.keep(point, before, this.current());
  }

  /**
   * Scroll the box, and nothing else, to the node in focus, to the one being judged, or to the one that was decided last.
   * @param {boolean} again
   */
  reveal(again) {
    if (!this.shown?.current || !this.shape || !this.items.length) return;
    const round = this.shown.current.index;
    this.scroll.to(
      `${this.shape.at} ${round}`,
      sightOf(this.shown, this.shape.at, round, this.items),
      this.layout,
      this.current(),
      this.room,
      again,
    );
  }

  /**
   * The path from the root to the node under the pointer.
   * @param {Element|null} target
   */
  showTrail(target) {
    /** @type {HTMLElement|null|undefined} */
    const chip = target?.closest?.(".chip");
    this.lines.point(this.items, chip ? keyOf(Number(chip.dataset.node)) : ROOT);
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    /** @type {HTMLElement|null} */
    const chip = elementOf(event).closest(".chip");
    let took = this.zoom.key(event);
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey && !event.shiftKey;
    if (!took && chip && plain && /^Arrow/.test(event.key)) {
      const from = keyOf(Number(chip.dataset.node));
      const next = beside(this.layout, this.items, from, /** @type {Arrow} */ (event.key));
      took = next !== null || event.key === "ArrowUp" || event.key === "ArrowDown";
      if (next !== null) {
        this.nodes.get(next)?.chip.click(); // the player handles selecting
        this.nodes.get(next)?.chip.focus({ preventScroll: true });
      }
    }
    if (!took) return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Scroll as requested; last of all, since it makes the browser lay out what was drawn. */
  settle() {
    return this.reveal(false);
  }

  /**
   * Give the keyboard to the chip of `node`, if it is here.
   * @param {number} node
   */
  focus(node) {
    this.nodes.get(keyOf(node))?.chip.focus({ preventScroll: true });
  }

  /** Whether the keyboard is on one of the nodes. */
  has(/** @type {Element|null} */ element) {
    return this.box.contains(element);
  }
}
