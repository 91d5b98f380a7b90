/**
 * The attention mask of the target's pass: a row for each token it reads, a column for each KV slot that the row may
 * attend to. All attend to the committed text, which is folded into one column; within the pass a token sees only the
 * path above it. Below the columns is the KV cache, slot under slot.
 */

/**
 * @import { Drawn } from "./mask_row.js"
 * @import { Round } from "../model/model.js"
 * @import { Phase } from "../model/moments.js"
 * @import { Pass } from "../model/slots.js"
 * @import { View } from "../model/state.js"
 */

import { el, elementOf, setNote, setText, svg } from "../dom/dom.js";
import { createLegend, fillRow, makeRow, PREFIX, sentenceOf } from "./mask_row.js";
import { setClass, insertAt, write } from "../dom/patch.js";
import { passOf } from "../model/slots.js";
import { nonNull } from "../dom/non_null.js";
import { MARK, VERDICT } from "../text/text.js";
import { W } from "../text/text_tree.js";
import { createZoom } from "../tree/zoom.js";
import { SlotStrip, MOST_ROWS } from "./slots_view.js";

const CELLS = { few: 24, many: 18, least: 3, largest: 40 }; // px; `few` up to as many rows as fit a screen
const FEW = 20;
const FIT = 470; // px of height for all rows together, as the box in mask.css leaves them
const LABELLED = 15; // px, from which a row's words fit

export class MaskView {
  guide = el("p", { class: "guide" });
  say = el("p", { class: "mask-say" });
  heads = el("div", { class: "mask-heads" });
  slotsHead = el("div", { class: "mask-slots" }, el("span", { class: "mask-column prefix" }));
  cells = svg("svg", { class: "mask-cells", "aria-hidden": "true" });
  slots = new SlotStrip();
  corner = el(
    "div",
    { class: "mask-corner" },
    ...W.maskHeads.map((head, at) => el("span", { title: W.maskHeadsAre[at] }, head)),
  );
  moves = el("span", {}, W.slotsMove);
  lanes = el(
    "div",
    { class: "mask-lanes" },
    el("span", {}, W.slotsBefore),
    this.moves,
    el("span", { class: "after" }, W.slotsAfter),
  );
  field = el(
    "div",
    { class: "mask-field" },
    this.corner,
    this.slotsHead,
    this.heads,
    el("div", { class: "mask-body" }, this.cells),
    this.lanes,
    this.slots.root,
  );
  box = el("div", { class: "mask-box", role: "group" }, this.field);
  zoom = createZoom(this.box, {
    by: (factor) => this.resize(this.size() * factor),
    to: (zoomMode) => this.resize(zoomMode === "fit" ? "fit" : null),
  });
  notes = el("p", { class: "hint mask-notes" });
  legend = createLegend();
  toCome = el("p", { class: "hint" }, W.maskToCome);
  root = el("section", { class: "mask" });
  parts = [
    el("div", { class: "mask-head" }, el("h2", {}, W.maskTitle), this.zoom.root),
    this.guide,
    this.say,
    this.box,
    this.legend.root,
    this.notes,
    el(
      "div",
      { class: "mask-memory" },
      el("h3", {}, W.slotsTitle),
      this.slots.say,
      el("p", { class: "hint" }, W.slotsFrom),
    ),
  ];
  /** @type {Pass|null} */
  pass = null;
  owner = { round: -1, lane: -1 };
  /** @type {Drawn[]} */
  rows = [];
  /** @type {number|"fit"|null} */
  zoomMode = null; // px of a cell, "fit", or null for the usual size
  width = 0; // px that the view has
  /** @type {[number, number]} */
  room = [Infinity, Infinity]; // px that its rows can have in width and height before the box scrolls
  scale = 1; // how much larger than usual the page's type is, e.g. on a projector
  /** @type {Parameters<typeof write>[0]} */
  drawn = { known: {} }; // sizes as last written
  /** @type {{phase: Phase, source: string}} */
  state = { phase: "committed", source: "" };
  looked = ""; // the row that was last selected
  /** @type {number|null} */
  pointed = null; // the row under the pointer or the focus
  awake = false; // whether it is on screen or on paper
  /** @type {View|null} */
  shown = null; // the last view
  observer = new ResizeObserver(() => {
    const before = `${this.zoomMode === "fit" ? this.width : ""} ${this.scale} ${this.room}`;
    this.width = this.root.clientWidth;
    this.scale = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16 || 1;
    this.room = [
      this.width - this.corner.offsetWidth - 2,
      parseFloat(getComputedStyle(this.box).maxBlockSize) -
        this.slotsHead.offsetHeight -
        this.slots.root.offsetHeight -
        2 || Infinity,
    ];
    if (this.pass && before !== `${this.zoomMode === "fit" ? this.width : ""} ${this.scale} ${this.room}`)
      this.resize(this.zoomMode);
  });

  constructor() {
    this.observer.observe(this.root);
    this.box.addEventListener("keydown", (event) => this.onKey(event));
    for (const name of ["pointerover", "focusin"])
      this.field.addEventListener(name, (event) => this.point(this.rowAt(elementOf(event))));
    for (const name of ["pointerleave", "focusout"])
      this.field.addEventListener(name, () => this.point(null));
  }

  /** @param {View} view */
  show(view) {
    this.shown = view;
    const round = view.current;
    this.root.hidden = !view.lanes[view.lead]?.lane.rounds.length;
    if (!round || !this.awake) {
      if (this.pass || (this.awake ? !this.toCome.parentNode : this.root.firstChild))
        this.root.replaceChildren(...(this.awake ? [this.toCome] : [])); // nothing of the old round stays in the page
      this.pass = null;
      this.looked = "";
      return;
    }
    if (!this.parts[0].parentNode) {
      this.root.replaceChildren(...this.parts);
      this.observer.observe(this.root.parentElement ?? this.root);
    }
    const lane = view.lanes[view.lead].lane;
    const wanted = passOf(lane, round.index);
    if (wanted !== this.pass || this.owner.lane !== view.lead) {
      this.pass = wanted;
      this.owner = { round: round.index, lane: view.lead };
      this.build(wanted);
    }
    const phase = view.moment?.phase ?? "committed";
    const here =
      view.focus && view.focus.lane === this.owner.lane && view.focus.round === this.owner.round
        ? (wanted.rowOf.get(view.focus.node) ?? null)
        : null;
    this.paint(wanted, round, phase, view.focus && view.focus.node < 0 ? null : here, view.chosen);
    const own = round.tokens.at(-1);
    this.moves.hidden = phase !== "committed";
    setText(this.guide, W.maskGuide(phase, wanted.rows.length, wanted.branches));
    this.legend.show(
      phase,
      wanted.rows.some((row) => row.kind === "rider"),
    );
    this.state = { phase, source: own ? VERDICT[own.source] : "" };
    this.slots.show(wanted, phase, this.size(), this.folded() * this.size(), this.owner, this.state.source);
    this.describe();
    const name = view.chosen && here !== null ? `${this.owner.lane} ${this.owner.round} ${here}` : "";
    if (name && name !== this.looked) this.reveal(nonNull(here));
    this.looked = name;
  }

  /**
   * Scroll the box, and nothing else, to a row that was selected.
   * @param {number} at
   */
  reveal(at) {
    const cell = this.size();
    const room = this.box.clientHeight - this.slotsHead.offsetHeight - this.slots.root.offsetHeight;
    if (room <= 0 || (at * cell >= this.box.scrollTop && (at + 1) * cell <= this.box.scrollTop + room))
      return;
    this.box.scrollTop = (at + 0.5) * cell - room / 2;
  }

  /**
   * Another pass: its rows and columns.
   * @param {Pass} pass
   */
  build(pass) {
    const shown = Math.min(pass.rows.length, MOST_ROWS);
    while (this.rows.length > shown) {
      const row = nonNull(this.rows.pop());
      row.head.remove();
      row.line.remove();
      row.column.remove();
    }
    this.pointed = null;
    for (let at = 0; at < shown; at += 1) {
      this.rows[at] ??= makeRow();
      const row = this.rows[at];
      insertAt(this.heads, row.head, at);
      insertAt(this.cells, row.line, at);
      insertAt(this.slotsHead, row.column, at + 1);
      fillRow(row, pass, at, this.owner);
    }
    this.box.setAttribute("aria-label", W.maskName(shown));
    const left = pass.rows.length - shown;
    const said = [
      left ? W.maskMore(left) : "",
      pass.loose ? W.maskLoose(pass.loose) : "",
      pass.byDistance ? W.maskDistance : "",
    ];
    setNote(this.notes, said.filter(Boolean).join(" "));
    this.measure();
  }

  /**
   * The parts of each row that depend on the moment: the verdict, and whether the pass has run.
   * @param {Pass} pass
   * @param {Round} round
   * @param {Phase} phase
   * @param {number|null} here
   * @param {boolean} chosen
   */
  paint(pass, round, phase, here, chosen) {
    if (this.cells.dataset.phase !== phase) this.cells.dataset.phase = phase;
    const kept = phase === "committed" ? new Set(pass.kept) : null;
    this.rows.forEach((row, at) => {
      const { kind, node } = pass.rows[at];
      const verdict = kind === "node" ? round.proposals[node].verdict : null;
      const name = `${verdict ?? kind}${kept?.has(at) ? " kept" : ""}${at === here ? (chosen ? " selected" : " focused") : ""}`;
      setClass(row.head, `mask-row ${name}`);
      setClass(row.line, `mask-line ${name}`);
      setText(row.mark, kind === "rider" ? "~" : ((verdict && MARK[verdict]) ?? ""));
      write(row, "stop", at === (here ?? 0) ? 0 : -1, (value) => (row.head.tabIndex = value));
    });
  }

  /** The sentence about the row under the pointer, else the one in focus, else the root. */
  describe() {
    const at = this.pointed ?? this.rows.findIndex((row) => row.head.tabIndex === 0);
    if (this.pass?.rows[at]) setText(this.say, sentenceOf(this.pass, at));
  }

  size() {
    const shown = Math.min(this.pass?.rows.length ?? 1, MOST_ROWS);
    if (this.zoomMode === "fit") {
      const [across, down] = [((this.width || 600) - 96) / (shown + PREFIX.few + 1), FIT / shown];
      return Math.min(Math.max(Math.min(across, down), CELLS.least), CELLS.few);
    }
    const usual = this.scale * (shown <= FEW ? CELLS.few : CELLS.many);
    const fitting = Math.floor(Math.min(this.room[0] / (shown + 1 + PREFIX.many), this.room[1] / shown)); // 1: the slot that is pending
    return this.zoomMode ?? (fitting < this.scale * LABELLED ? usual : Math.min(usual, fitting)); // seen as a whole where words still fit
  }

  folded() {
    return this.size() < this.scale * CELLS.few && this.size() >= this.scale * LABELLED
      ? PREFIX.many
      : PREFIX.few;
  }

  measure() {
    const cell = this.size();
    const prefix = this.folded();
    write(this.drawn, "cell", `${cell}px`, (value) => this.field.style.setProperty("--cell", value));
    write(this.drawn, "prefix", String(prefix), (value) => this.field.style.setProperty("--prefix", value));
    this.box.dataset.detail = cell >= this.scale * LABELLED ? "labelled" : "bare";
    this.cells.setAttribute("viewBox", `${-prefix} 0 ${prefix + this.rows.length} ${this.rows.length}`);
    this.cells.style.inlineSize = `${(prefix + this.rows.length) * cell}px`;
    this.cells.style.blockSize = `${this.rows.length * cell}px`;
    setText(
      nonNull(this.slotsHead.firstChild),
      this.pass?.before === null ? "…" : W.maskPrefix(this.pass?.before ?? 0),
    );
  }

  /** @param {number|"fit"|null} to */
  resize(to) {
    this.zoomMode = typeof to === "number" ? Math.min(Math.max(to, CELLS.least), CELLS.largest) : to;
    this.measure();
    if (this.pass)
      this.slots.show(
        this.pass,
        this.state.phase,
        this.size(),
        this.folded() * this.size(),
        this.owner,
        this.state.source,
      );
  }

  /** @param {number|null} at */
  point(at) {
    if (at === this.pointed) return;
    this.pointed = at;
    this.cells.querySelector(".pointed")?.classList.remove("pointed");
    if (at !== null) this.rows[at].line.classList.add("pointed");
    this.describe();
  }

  /** @param {Element} target */
  rowAt(target) {
    /** @type {HTMLElement|null|undefined} */
    const line = target.closest?.("[data-row]");
    return line ? Number(line.dataset.row) : null;
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    let took = this.zoom.key(event);
    const at = this.rowAt(elementOf(event));
    const next = at === null || event.ctrlKey || event.metaKey || event.altKey ? null : stepOf(event.key, at);
    if (next !== null) {
      took = true;
      const head = this.rows[next]?.head;
      if (head?.dataset.node !== undefined) head.click(); // the player handles selecting
      head?.focus();
    }
    if (!took) return;
    event.preventDefault();
    event.stopPropagation();
  }

  /**
   * Hundreds of rows that nobody sees are not drawn, and not left as they were: asleep, the view is empty.
   * @param {boolean} is
   */
  wake(is) {
    if (is === this.awake) return;
    this.awake = is;
    if (this.shown) this.show(this.shown);
  }
}

/**
 * The row above or below, for its key.
 * @param {string} key
 * @param {number} at
 */
function stepOf(key, at) {
  return key === "ArrowUp" ? at - 1 : key === "ArrowDown" ? at + 1 : null;
}
