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
import { createLegend, drawCells, makeRow, PREFIX } from "./mask_row.js";
import { attribute, setClass, insertAt, write } from "../dom/patch.js";
import { passOf, sees } from "../model/slots.js";
import { nonNull } from "../dom/non_null.js";
import { flat, MARK, quote, VERDICT } from "../text/text.js";
import { W } from "../text/text_tree.js";
import { createZoom } from "../tree/zoom.js";
import { createSlots, MOST_ROWS } from "./slots_view.js";

const CELLS = { few: 24, many: 18, least: 3, largest: 40 }; // px; `few` up to as many rows as fit a screen
const FEW = 20;
const FIT = 470; // px of height for all rows together, as the box in mask.css leaves them
const LABELLED = 15; // px, from which a row's words fit

/** @returns {{root: HTMLElement, show: (view: View) => void, wake: (is: boolean) => void}} */
export function createMask() {
  const guide = el("p", { class: "guide" });
  const say = el("p", { class: "mask-say" });
  const heads = el("div", { class: "mask-heads" });
  const slotsHead = el("div", { class: "mask-slots" }, el("span", { class: "mask-column prefix" }));
  const cells = svg("svg", { class: "mask-cells", "aria-hidden": "true" });
  const slots = createSlots();
  const corner = el(
    "div",
    { class: "mask-corner" },
    ...W.maskHeads.map((head, at) => el("span", { title: W.maskHeadsAre[at] }, head)),
  );
  const moves = el("span", {}, W.slotsMove);
  const lanes = el(
    "div",
    { class: "mask-lanes" },
    el("span", {}, W.slotsBefore),
    moves,
    el("span", { class: "after" }, W.slotsAfter),
  );
  const field = el(
    "div",
    { class: "mask-field" },
    corner,
    slotsHead,
    heads,
    el("div", { class: "mask-body" }, cells),
    lanes,
    slots.root,
  );
  const box = el("div", { class: "mask-box", role: "group" }, field);
  const zoom = createZoom(box, {
    by: (factor) => resize(size() * factor),
    to: (zoomMode) => resize(zoomMode === "fit" ? "fit" : null),
  });
  const notes = el("p", { class: "hint mask-notes" });
  const legend = createLegend();
  const toCome = el("p", { class: "hint" }, W.maskToCome);
  const root = el("section", { class: "mask" });
  const parts = [
    el("div", { class: "mask-head" }, el("h2", {}, W.maskTitle), zoom.root),
    guide,
    say,
    box,
    legend.root,
    notes,
    el(
      "div",
      { class: "mask-memory" },
      el("h3", {}, W.slotsTitle),
      slots.say,
      el("p", { class: "hint" }, W.slotsFrom),
    ),
  ];

  /** @type {Pass|null} */
  let pass = null;
  let owner = { round: -1, lane: -1 };
  /** @type {Drawn[]} */
  const rows = [];
  /** @type {number|"fit"|null} */
  let zoomMode = null; // px of a cell, "fit", or null for the usual size
  let width = 0; // px that the view has
  /** @type {[number, number]} */
  let room = [Infinity, Infinity]; // px that its rows can have in width and height before the box scrolls
  let scale = 1; // how much larger than usual the page's type is, e.g. on a projector
  /** @type {Parameters<typeof write>[0]} */
  const drawn = { known: {} }; // sizes as last written
  /** @type {{phase: Phase, source: string}} */
  let state = { phase: "committed", source: "" };
  let looked = ""; // the row that was last selected
  /** @type {number|null} */
  let pointed = null; // the row under the pointer or the focus
  let awake = false; // whether it is on screen or on paper
  /** @type {View|null} */
  let shown = null; // the last view

  const observer = new ResizeObserver(() => {
    const before = `${zoomMode === "fit" ? width : ""} ${scale} ${room}`;
    width = root.clientWidth;
    scale = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16 || 1;
    room = [
      width - corner.offsetWidth - 2,
      parseFloat(getComputedStyle(box).maxBlockSize) - slotsHead.offsetHeight - slots.root.offsetHeight - 2 ||
        Infinity,
    ];
    if (pass && before !== `${zoomMode === "fit" ? width : ""} ${scale} ${room}`) resize(zoomMode);
  });
  observer.observe(root);
  box.addEventListener("keydown", onKey);
  for (const name of ["pointerover", "focusin"])
    field.addEventListener(name, (event) => point(rowAt(elementOf(event))));
  for (const name of ["pointerleave", "focusout"]) field.addEventListener(name, () => point(null));

  /** @param {View} view */
  function show(view) {
    shown = view;
    const round = view.current;
    root.hidden = !view.lanes[view.lead]?.lane.rounds.length;
    if (!round || !awake) {
      if (pass || (awake ? !toCome.parentNode : root.firstChild))
        root.replaceChildren(...(awake ? [toCome] : [])); // nothing of the old round stays in the page
      pass = null;
      looked = "";
      return;
    }
    if (!parts[0].parentNode) {
      root.replaceChildren(...parts);
      observer.observe(root.parentElement ?? root);
    }
    const lane = view.lanes[view.lead].lane;
    const wanted = passOf(lane, round.index);
    if (wanted !== pass || owner.lane !== view.lead) {
      pass = wanted;
      owner = { round: round.index, lane: view.lead };
      build(wanted);
    }
    const phase = view.moment?.phase ?? "committed";
    const here =
      view.focus && view.focus.lane === owner.lane && view.focus.round === owner.round
        ? (wanted.rowOf.get(view.focus.node) ?? null)
        : null;
    paint(wanted, round, phase, view.focus && view.focus.node < 0 ? null : here, view.chosen);
    const own = round.tokens.at(-1);
    moves.hidden = phase !== "committed";
    setText(guide, W.maskGuide(phase, wanted.rows.length, wanted.branches));
    legend.show(
      phase,
      wanted.rows.some((row) => row.kind === "rider"),
    );
    state = { phase, source: own ? VERDICT[own.source] : "" };
    slots.show(wanted, phase, size(), folded() * size(), owner, state.source);
    describe();
    const name = view.chosen && here !== null ? `${owner.lane} ${owner.round} ${here}` : "";
    if (name && name !== looked) reveal(nonNull(here));
    looked = name;
  }

  /**
   * Scroll the box, and nothing else, to a row that was selected.
   * @param {number} at
   */
  function reveal(at) {
    const cell = size();
    const room = box.clientHeight - slotsHead.offsetHeight - slots.root.offsetHeight;
    if (room <= 0 || (at * cell >= box.scrollTop && (at + 1) * cell <= box.scrollTop + room)) return;
    box.scrollTop = (at + 0.5) * cell - room / 2;
  }

  /**
   * Another pass: its rows and columns.
   * @param {Pass} pass
   */
  function build(pass) {
    const shown = Math.min(pass.rows.length, MOST_ROWS);
    while (rows.length > shown) {
      const row = nonNull(rows.pop());
      row.head.remove();
      row.line.remove();
      row.column.remove();
    }
    pointed = null;
    for (let at = 0; at < shown; at += 1) {
      const row = (rows[at] ??= makeRow());
      insertAt(heads, row.head, at);
      insertAt(cells, row.line, at);
      insertAt(slotsHead, row.column, at + 1);
      fill(pass, row, at);
    }
    box.setAttribute("aria-label", W.maskName(shown));
    const left = pass.rows.length - shown;
    const said = [
      left ? W.maskMore(left) : "",
      pass.loose ? W.maskLoose(pass.loose) : "",
      pass.byDistance ? W.maskDistance : "",
    ];
    setNote(notes, said.filter(Boolean).join(" "));
    measure();
  }

  /**
   * The parts of a row that are the same at every moment.
   * @param {Pass} pass
   * @param {Drawn} row
   * @param {number} at
   */
  function fill(pass, row, at) {
    const { kind, node, text, depth } = pass.rows[at];
    const seen = sees(pass.rows, at);
    const [position, slot] = pass.before === null ? [null, null] : [pass.before + depth, pass.before + at];
    const name = {
      root: W.rowNamed(quote(text), "root"),
      node: quote(text),
      rider: `${quote(text)} (${W.rider})`,
    }[kind];
    setText(row.word, flat(text));
    setText(row.position, position === null ? `+${depth}` : String(position));
    setText(row.slot, slot === null ? `+${at}` : String(slot));
    setText(row.column, slot === null ? `+${at}` : String(slot));
    attribute(row.head, "aria-label", W.maskRow(name, position, slot, seen.length));
    attribute(row.head, "aria-disabled", kind !== "node"); // the others remain readable
    for (const element of [row.head, row.line]) {
      attribute(element, "data-row", at);
      for (const [key, value] of Object.entries({ node, ...owner }))
        attribute(element, `data-${key}`, kind === "node" ? value : null);
    }
    drawCells(row, at, seen, pass.rows.length);
  }

  /**
   * The parts of each row that depend on the moment: the verdict, and whether the pass has run.
   * @param {Pass} pass
   * @param {Round} round
   * @param {Phase} phase
   * @param {number|null} here
   * @param {boolean} chosen
   */
  function paint(pass, round, phase, here, chosen) {
    if (cells.dataset.phase !== phase) cells.dataset.phase = phase;
    const kept = phase === "committed" ? new Set(pass.kept) : null;
    rows.forEach((row, at) => {
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
  function describe() {
    const at = pointed ?? rows.findIndex((row) => row.head.tabIndex === 0);
    const row = pass?.rows[at];
    if (!pass || !row) return;
    const { rows: all, before } = pass;
    const path = sees(all, at).slice(0, -1);
    const named = path.map((each) => (each ? quote(all[each].text) : W.theRoot(quote(all[0].text))));
    const others = !named.length
      ? null
      : named.length > 5
        ? `${named.slice(0, 2).join(", ")}, ${W.moreRows(named.length - 3)}, ${named.at(-1)}`
        : named.join(", ");
    const own = W.rowNamed(quote(row.text), row.kind);
    setText(
      say,
      W.maskSees(own, before, others, before === null ? null : before + row.depth, (before ?? 0) + at),
    );
  }

  function size() {
    const shown = Math.min(pass?.rows.length ?? 1, MOST_ROWS);
    if (zoomMode === "fit") {
      const [across, down] = [((width || 600) - 96) / (shown + PREFIX.few + 1), FIT / shown];
      return Math.min(Math.max(Math.min(across, down), CELLS.least), CELLS.few);
    }
    const usual = scale * (shown <= FEW ? CELLS.few : CELLS.many);
    const fitting = Math.floor(Math.min(room[0] / (shown + 1 + PREFIX.many), room[1] / shown)); // 1: the slot that is pending
    return zoomMode ?? (fitting < scale * LABELLED ? usual : Math.min(usual, fitting)); // seen as a whole where words still fit
  }

  function folded() {
    return size() < scale * CELLS.few && size() >= scale * LABELLED ? PREFIX.many : PREFIX.few;
  }

  function measure() {
    const cell = size();
    const prefix = folded();
    write(drawn, "cell", `${cell}px`, (value) => field.style.setProperty("--cell", value));
    write(drawn, "prefix", String(prefix), (value) => field.style.setProperty("--prefix", value));
    box.dataset.detail = cell >= scale * LABELLED ? "labelled" : "bare";
    cells.setAttribute("viewBox", `${-prefix} 0 ${prefix + rows.length} ${rows.length}`);
    cells.style.inlineSize = `${(prefix + rows.length) * cell}px`;
    cells.style.blockSize = `${rows.length * cell}px`;
    setText(nonNull(slotsHead.firstChild), pass?.before === null ? "…" : W.maskPrefix(pass?.before ?? 0));
  }

  /** @param {number|"fit"|null} to */
  function resize(to) {
    zoomMode = typeof to === "number" ? Math.min(Math.max(to, CELLS.least), CELLS.largest) : to;
    measure();
    if (pass) slots.show(pass, state.phase, size(), folded() * size(), owner, state.source);
  }

  /** @param {number|null} at */
  function point(at) {
    if (at === pointed) return;
    pointed = at;
    cells.querySelector(".pointed")?.classList.remove("pointed");
    if (at !== null) rows[at].line.classList.add("pointed");
    describe();
  }

  /** @param {Element} target */
  function rowAt(target) {
    /** @type {HTMLElement|null|undefined} */
    const line = target.closest?.("[data-row]");
    return line ? Number(line.dataset.row) : null;
  }

  /** @param {KeyboardEvent} event */
  function onKey(event) {
    let took = zoom.key(event);
    const at = rowAt(elementOf(event));
    const next = at === null || event.ctrlKey || event.metaKey || event.altKey ? null : stepOf(event.key, at);
    if (next !== null) {
      took = true;
      const head = rows[next]?.head;
      if (head?.dataset.node !== undefined) head.click(); // the player handles selecting
      head?.focus();
    }
    if (!took) return;
    event.preventDefault();
    event.stopPropagation();
  }

  return {
    root,
    show,
    /**
     * Hundreds of rows that nobody sees are not drawn, and not left as they were: asleep, the view is empty.
     * @param {boolean} is
     */
    wake(is) {
      if (is === awake) return;
      awake = is;
      if (shown) show(shown);
    },
  };
}

/**
 * The row above or below, for its key.
 * @param {string} key
 * @param {number} at
 */
function stepOf(key, at) {
  return key === "ArrowUp" ? at - 1 : key === "ArrowDown" ? at + 1 : null;
}
