/** The KV cache around one pass as a strip of slots, in cells below the mask. */

/**
 * @import { Phase } from "../model/moments.js"
 * @import { Pass } from "../model/slots.js"
 */

import { el, setText, svg } from "../dom/dom.js";
import { setClass } from "../dom/patch.js";
import { quote } from "../text/text.js";
import { W } from "../text/text_tree.js";

/** @typedef {{pass: Pass, phase: Phase, size: number, prefix: number, round: number, lane: number}} Drawn what the strip is drawn from */

const LANE = 22; // px, a lane's height as in mask.css; the arrows between the two lanes have twice that

/** How many rows of a pass are drawn; the widest proposers send fewer. */
export const MOST_ROWS = 320;

/**
 * The strip: the slots as the pass writes them, and below, once committed, the result; both in cells of `size`
 * px after a folded prefix of `prefix` px.
 */
export class SlotStrip {
  say = el("p", { class: "slots-say" });
  above = el("div", { class: "slots-lane" });
  below = el("div", { class: "slots-lane after" });
  arrows = svg("svg", { class: "slots-arrows", "aria-hidden": "true" });
  root = el("div", { class: "slots", "aria-hidden": "true" }, this.above, this.arrows, this.below); // `say` describes it in words
  /** @type {Partial<Drawn>} */
  drawn = {};

  /**
   * The lane as the pass wrote it.
   * @param {Pass} pass
   * @param {number} count
   * @param {Drawn} given
   */
  written(pass, count, { size, prefix, round, lane }) {
    const slots = [block(0, prefix, "prefix")];
    for (let row = 0; row < count; row += 1) {
      const { kind, node } = pass.rows[row];
      const slot = block(prefix + row * size, size, "");
      if (kind === "node")
        for (const [name, value] of Object.entries({ node, round, lane })) slot.dataset[name] = String(value);
      slots.push(slot);
    }
    this.above.replaceChildren(...slots);
  }

  /**
   * The lane as the commit left it, with an arrow from each row's old place to its new one.
   * @param {Pass} pass
   * @param {number} count
   * @param {Drawn} given
   */
  gathered(pass, count, { size, prefix }) {
    const kept = pass.kept.filter((row) => row < count);
    const places = kept.map((_, at) => block(prefix + at * size, size, "kept"));
    const freed = Math.max(0, count - kept.length - 1);
    const rest = freed ? [block(prefix + (kept.length + 1) * size, freed * size, "free")] : [];
    for (const slot of rest) slot.title = W.freeSlot;
    const pending = block(prefix + kept.length * size, size, "pending");
    pending.title = W.pendingSlot(quote(pass.pending));
    this.below.replaceChildren(block(0, prefix, "prefix"), ...places, pending, ...rest);
    /** @param {number} at */
    const middle = (at) => prefix + (at + 0.5) * size;
    const lines = kept.map((row, at) => arrow(middle(row), middle(at)));
    this.arrows.replaceChildren(...lines);
    return places.map((place, at) => ({ place, from: (kept[at] - at) * size }));
  }

  /** @param {Pass} pass @param {Phase} phase @param {number} size @param {number} prefix @param {{round: number, lane: number}} owner @param {string} source */
  show(pass, phase, size, prefix, owner, source) {
    const next = { pass, phase, size, prefix, ...owner };
    /** @param {...(keyof Drawn)} names */
    const same = (...names) => names.every((name) => this.drawn[name] === next[name]);
    const stepped =
      same("pass", "size", "round", "lane") && this.drawn.phase !== "committed" && phase === "committed";
    const count = Math.min(pass.rows.length, MOST_ROWS);
    if (!same("pass", "size", "prefix", "round", "lane")) {
      this.root.style.inlineSize = `${prefix + (count + 1) * size}px`;
      this.written(pass, count, next);
    }
    if (!same("pass", "size", "prefix", "round", "lane", "phase")) {
      const kept = new Set(pass.kept);
      /** @param {number} row */
      const state = (row) =>
        /** @type {"reserved"|"written"|"kept"|"freed"} */ (
          phase === "proposed"
            ? "reserved"
            : phase !== "committed"
              ? "written"
              : kept.has(row)
                ? "kept"
                : "freed"
        );
      for (let row = 0; row < count; row += 1) {
        const slot = /** @type {HTMLElement} */ (this.above.children[row + 1]);
        setClass(slot, `slot ${state(row)}`);
        slot.title = W.slotOf(
          pass.before === null ? null : pass.before + row,
          quote(pass.rows[row].text),
          state(row),
        );
      }
      const moved = phase === "committed" ? this.gathered(pass, count, next) : clear(this.below, this.arrows);
      if (stepped) glide(moved);
      setText(this.say, sentence(pass, phase, source));
    }
    this.drawn = next;
  }
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
    place.animate([{ transform: `translate(${from}px, ${-3 * LANE}px)` }, { transform: "none" }], {
      duration: 450,
      easing: "cubic-bezier(0.3, 0, 0.2, 1)",
    });
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
  return W.kvKept(
    before,
    after,
    width,
    pass.kept.map((row) => before + row),
    moved,
    quote(pass.pending),
    source,
    pass.ends,
  );
}
