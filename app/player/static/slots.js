/**
 * The target's KV cache around one pass: which slot each token's row is written to, which rows a commit keeps, where
 * it moves them. `passOf` computes this from the record alone; `createSlots` draws it as a strip of slots.
 *
 * A pass writes the root's row to the first slot after the committed prefix and the tree's nodes after it, in
 * order; extra tokens come last. The commit gathers the rows of the committed path at the front and drops the
 * others. The newest committed token has no row yet: it is the next round's root.
 */

/**
 * @import { RoundRecord, Seen, Trace } from "../types.js"
 * @import { Lane, Proposal, Round } from "./model.js"
 * @import { Phase } from "./moments.js"
 */

import { el, setText, svg } from "./dom.js";
import { list, number, tokenText } from "./model.js";
import { setClass } from "./patch.js";
import { sure } from "./sure.js";
import { quote } from "./text.js";
import { W } from "./text_tree.js";
import { ROOT } from "./tree.js";

/**
 * @typedef {{kind: "root"|"node"|"rider", node: number, above: number, depth: number, text: string}} PassRow `above` is the
 *   row of the parent (−1 at the root), `depth` the distance from the root; `node` is −1 where it is none
 * @typedef {{rows: PassRow[], rowOf: Map<number, number>, before: number|null, after: number|null, branches: boolean, kept: number[],
 *   loose: number, pending: string, committed: number|null, agrees: boolean, byDistance: boolean, ends: boolean}} Pass `branches`: it is no
 *   chain; `kept` are the rows that stay, `loose` counts extra tokens that the record does not name, `pending` is the last committed token, which has
 *   no row yet, `committed` the length of the text after the round, prompt included; `agrees`: the record is consistent;
 *   `byDistance`: the model has no position ids
 */

/** @type {Set<Seen>} */
const UNSEEN = new Set(["pruned", "discarded", "absent"]);

/** @type {WeakMap<Round, Pass>} */
const passes = new WeakMap();

/**
 * Whether the target read a proposal, or is about to.
 * @param {Proposal} item
 */
export function wasRead(item) {
  return !UNSEEN.has(item.verdict);
}

/**
 * The rows of a round's target pass.
 * @param {Lane} lane
 * @param {number} index of the round
 * @returns {Pass}
 */
export function passOf(lane, index) {
  const round = lane.rounds[index];
  const pass = passes.get(round) ?? read(lane, round, index);
  passes.set(round, pass);
  return pass;
}

/** @param {Lane} lane @param {Round} round @param {number} index */
function read(lane, round, index) {
  const record = list(lane.trace?.rounds)[index];
  /** @type {PassRow[]} */
  const rows = [{ kind: "root", node: ROOT, above: -1, depth: 0, text: rootText(lane, index) }];
  const rowOf = new Map([[ROOT, 0]]);
  for (const item of round.proposals) {
    if (!wasRead(item)) continue;
    const above = rowOf.get(item.parent) ?? 0;
    rowOf.set(item.node, rows.length);
    rows.push({ kind: "node", node: item.node, above, depth: rows[above].depth + 1, text: item.text });
  }
  const riding = Math.max(0, number(record?.riders) ?? 0);
  const window = windowOf(lane.trace, record, riding, rows.length);
  rows.push(...window);
  const path = round.proposals.filter((item) => item.verdict === "accepted" && rowOf.has(item.node));
  const kept = [0, ...path.slice(0, Math.max(0, round.tokens.length - 1)).map((item) => sure(rowOf.get(item.node)))];
  const [before, after] = [number(record?.cache_before), number(record?.cache_after)];
  const start = list(lane.trace?.header?.decoder_start).length || list(lane.trace?.header?.prompt_ids).length;
  const committed = lane.trace && start ? start + round.total : null;
  const agrees = before === null || (after === before + kept.length && (committed === null || after === committed - 1));
  return {
    rows, rowOf, before, after, branches: rows.some((row, at) => row.above !== at - 1), kept, loose: window.length ? 0 : riding, pending: round.tokens.at(-1)?.name ?? "", committed, agrees,
    byDistance: list(lane.trace?.header?.decoder_start).length > 0,
    ends: lane.end !== null && lane.end !== "cancelled" && index === lane.rounds.length - 1,
  };
}

/**
 * The text of the last token that was committed before a round.
 * @param {Lane} lane
 * @param {number} index
 */
export function rootText(lane, index) {
  if (index > 0) return lane.rounds[index - 1].tokens.at(-1)?.name ?? "";
  const started = list(lane.trace?.header?.decoder_start);
  if (started.length) return tokenText(lane.trace, started[started.length - 1]);
  const text = list(lane.trace?.header?.prompt_texts).at(-1);
  return typeof text === "string" ? text : lane.root || `…${lane.prompt.slice(-8)}`; // an older run that goes on does not name it
}

/**
 * Lookahead's window as rows: its levels one after the other without the first token, which is the root. The first level
 * is a chain below the root; every other token hangs below the level before it in its column.
 * @param {Trace|null} trace
 * @param {RoundRecord|undefined} record
 * @param {number} riding
 * @param {number} first
 */
function windowOf(trace, record, riding, first) {
  const levels = list(record?.note?.window).map((level) => list(level));
  const width = levels[0]?.length ?? 0;
  if (!riding || levels.some((level) => level.length !== width) || levels.length * width - 1 !== riding) return [];
  const ids = levels.flat().slice(1);
  /** @type {PassRow[]} */
  const rows = [];
  ids.forEach((id, at) => {
    const up = at < width - 1 ? at - 1 : at - width;
    const depth = up < 0 ? 1 : rows[up].depth + 1;
    rows.push({ kind: "rider", node: ROOT, above: up < 0 ? 0 : first + up, depth, text: tokenText(trace, id) });
  });
  return rows;
}

/**
 * The rows that a row attends to within the pass, itself included, from the root down; it also sees the whole prefix.
 * @param {PassRow[]} rows
 * @param {number} row
 */
export function sees(rows, row) {
  const seen = [];
  for (let at = row; at >= 0; at = rows[at].above) seen.push(at);
  return seen.reverse();
}

/** @typedef {{pass: Pass, phase: Phase, size: number, prefix: number, round: number, lane: number}} Drawn what the strip is drawn from */

const LANE = 22; // px, a lane's height as in mask.css; the arrows between the two lanes have twice that

/** How many rows of a pass are drawn; the widest proposers send fewer. */
export const MOST_ROWS = 320;

/**
 * The strip: the slots as the pass writes them, and below, once committed, the result; both in cells of `size`
 * px after a folded prefix of `prefix` px.
 * @returns {{root: HTMLElement, say: HTMLElement, show: (pass: Pass, phase: Phase, size: number, prefix: number, owner: {round: number, lane: number}, source: string) => void}}
 */
export function createSlots() {
  const say = el("p", { class: "slots-say" });
  const above = el("div", { class: "slots-lane" });
  const below = el("div", { class: "slots-lane after" });
  const arrows = svg("svg", { class: "slots-arrows", "aria-hidden": "true" });
  const root = el("div", { class: "slots", "aria-hidden": "true" }, above, arrows, below); // `say` describes it in words
  /** @type {Partial<Drawn>} */
  let drawn = {};

  /**
   * The lane as the pass wrote it.
   * @param {Pass} pass
   * @param {number} count
   * @param {Drawn} given
   */
  function written(pass, count, { size, prefix, round, lane }) {
    const slots = [block(0, prefix, "prefix")];
    for (let row = 0; row < count; row += 1) {
      const { kind, node } = pass.rows[row];
      const slot = block(prefix + row * size, size, "");
      if (kind === "node") for (const [name, value] of Object.entries({ node, round, lane })) slot.dataset[name] = String(value);
      slots.push(slot);
    }
    above.replaceChildren(...slots);
  }

  /**
   * The lane as the commit left it, with an arrow from each row's old place to its new one.
   * @param {Pass} pass
   * @param {number} count
   * @param {Drawn} given
   */
  function gathered(pass, count, { size, prefix }) {
    const kept = pass.kept.filter((row) => row < count);
    const places = kept.map((_, at) => block(prefix + at * size, size, "kept"));
    const freed = Math.max(0, count - kept.length - 1);
    const rest = freed ? [block(prefix + (kept.length + 1) * size, freed * size, "free")] : [];
    for (const slot of rest) slot.title = W.freeSlot;
    const pending = block(prefix + kept.length * size, size, "pending");
    pending.title = W.pendingSlot(quote(pass.pending));
    below.replaceChildren(block(0, prefix, "prefix"), ...places, pending, ...rest);
    /** @param {number} at */
    const middle = (at) => prefix + (at + 0.5) * size;
    const lines = kept.map((row, at) => arrow(middle(row), middle(at)));
    arrows.replaceChildren(...lines);
    return places.map((place, at) => ({ place, from: (kept[at] - at) * size }));
  }

  return {
    root,
    say,
    show(pass, phase, size, prefix, owner, source) {
      const next = { pass, phase, size, prefix, ...owner };
      /** @param {...(keyof Drawn)} names */
      const same = (...names) => names.every((name) => drawn[name] === next[name]);
      const stepped = same("pass", "size", "round", "lane") && drawn.phase !== "committed" && phase === "committed";
      const count = Math.min(pass.rows.length, MOST_ROWS);
      if (!same("pass", "size", "prefix", "round", "lane")) {
        root.style.inlineSize = `${prefix + (count + 1) * size}px`;
        written(pass, count, next);
      }
      if (!same("pass", "size", "prefix", "round", "lane", "phase")) {
        const kept = new Set(pass.kept);
        /** @param {number} row */
        const state = (row) => /** @type {"reserved"|"written"|"kept"|"freed"} */ (phase === "proposed" ? "reserved" : phase !== "committed" ? "written" : kept.has(row) ? "kept" : "freed");
        for (let row = 0; row < count; row += 1) {
          const slot = /** @type {HTMLElement} */ (above.children[row + 1]);
          setClass(slot, `slot ${state(row)}`);
          slot.title = W.slotOf(pass.before === null ? null : pass.before + row, quote(pass.rows[row].text), state(row));
        }
        const moved = phase === "committed" ? gathered(pass, count, next) : clear(below, arrows);
        if (stepped) glide(moved);
        setText(say, sentence(pass, phase, source));
      }
      drawn = next;
    },
  };
}

/** @param {number} start @param {number} width @param {string} state */
function block(start, width, state) {
  const made = el("i", { class: `slot ${state}` });
  made.style.insetInlineStart = `${start}px`;
  made.style.inlineSize = `${Math.max(0, width - 1)}px`;
  return made;
}

/** @param {number} from @param {number} to */
function arrow(from, to) {
  const end = 2 * LANE - 2;
  const way = `M${from} 2C${from} ${LANE} ${to} ${LANE} ${to} ${end - 5}V${end}M${to - 4} ${end - 5}L${to} ${end}L${to + 4} ${end - 5}`;
  return svg("path", { class: from === to ? "stays" : "moves", d: way });
}

/** @param {...Element} parts */
function clear(...parts) {
  for (const part of parts) part.replaceChildren();
  return [];
}

/**
 * The rows on their way; with reduced motion only the arrows are shown.
 * @param {{place: HTMLElement, from: number}[]} moved
 */
function glide(moved) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  for (const { place, from } of moved) {
    place.animate([{ transform: `translate(${from}px, ${-3 * LANE}px)` }, { transform: "none" }], { duration: 450, easing: "cubic-bezier(0.3, 0, 0.2, 1)" });
  }
}

/** @param {Pass} pass @param {Phase} phase @param {string} source */
function sentence(pass, phase, source) {
  const { before, after } = pass;
  if (before === null) return W.kvUnknown;
  const width = pass.rows.length + pass.loose;
  if (phase === "proposed") return W.kvReserved(before, width);
  if (phase !== "committed") return W.kvWritten(before, width);
  if (!pass.agrees || after === null) return W.kvOdd(before, after, pass.kept.length, pass.committed);
  const moved = pass.kept.some((row, at) => row !== at);
  return W.kvKept(before, after, width, pass.kept.map((row) => before + row), moved, quote(pass.pending), source, pass.ends);
}
