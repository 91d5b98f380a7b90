/** Prompt lookup: the earlier place that matches the end of the text, and an arrow from what followed it there. */

/**
 * @import { Note, Settings } from "../../types.js"
 * @import { Lane, Round } from "../model/model.js"
 * @import { Scene } from "./proposer_view.js"
 * @import { View } from "../model/state.js"
 */

import { appendToken, el, present, svg } from "../dom/dom.js";
import { list, number, tokenText } from "../model/model.js";
import { flat, MARK, quote, VERDICT } from "../text/text.js";
import { W } from "../text/text_proposer.js";

const AROUND = 24; // tokens shown on either side of a match, and before the end of the text
const WHOLE = 120; // a text of at most so many tokens is shown whole
const COPIES = 64; // guesses that are drawn

/** @param {Scene} scene */
export function drawLookup({ view, lane, round, note, settings }) {
  if (!Object.hasOwn(note, "match_start")) return [el("p", { class: "hint" }, W.noMatchNote)];
  const { texts, prompt } = textsBefore(lane, round.index);
  const size = texts.length;
  const [given, long, copied] = [number(note.match_start), number(note.match_length), number(note.copied)];
  const [start, length] = [given ?? -1, long ?? -1];
  const found = start >= 0 && length > 0 && start + length <= size;
  const count = found ? Math.min(Math.max(copied ?? 0, 0), size - start - length) : 0;
  /** @param {number} at @param {number} from @param {number} to */
  const within = (at, from, to) => found && at >= from && at < to;
  const kinds = texts.map((_, at) =>
    [
      at < prompt ? "given" : "",
      within(at, start, start + length) ? "matched" : "",
      within(at, start + length, start + length + count) ? "copied" : "",
      within(at, size - length, size) ? "suffix" : "",
    ]
      .filter(Boolean)
      .join(" "),
  );
  const box = el("div", { class: "lookup-text" });
  let next = 0;
  for (const [from, to] of shown(size, found ? start : size, found ? start + length + count : size)) {
    if (from > next) box.append(gap(from - next));
    for (let at = from; at < to; ) {
      const part = el("span", { class: `piece ${kinds[at]}` });
      const kind = kinds[at];
      while (at < to && kinds[at] === kind) appendToken(part, texts[at++]);
      box.append(part);
    }
    next = to;
  }
  box.append(pendingGuesses(view, round));
  return present([
    el(
      "p",
      { class: "window-line" },
      ...(found
        ? [W.match(length, count, place(start, length, prompt)), " ", chosen(settings, note)]
        : [W.miss]),
    ),
    found ? el("ul", { class: "lookup-key", "aria-hidden": "true" }, key("matched"), key("copied")) : null,
    box,
  ]);
}

/**
 * The pieces of the searched text, and how many of them are the prompt.
 * @param {Lane} lane
 * @param {number} index
 */
function textsBefore(lane, index) {
  const trace = lane.trace;
  const given = list(trace?.header?.prompt_texts).map(String);
  const starting = list(trace?.header?.decoder_start).map((id) => tokenText(trace, id)); // after an encoder's source
  const written = lane.rounds.slice(0, index).flatMap((round) => round.tokens.map((token) => token.text));
  return { texts: [...given, ...starting, ...written], prompt: given.length };
}

/**
 * The displayed stretches of the text, as pairs of ends: around the place that was found, and the end.
 * @param {number} size
 * @param {number} from
 * @param {number} to
 */
function shown(size, from, to) {
  if (size <= WHOLE) return [[0, size]];
  const [start, end] = [Math.max(0, from - AROUND), Math.min(size, to + AROUND)];
  const tail = Math.max(0, size - AROUND);
  return from >= size || tail <= end
    ? [[Math.min(start, tail), size]]
    : [
        [start, end],
        [tail, size],
      ];
}

/** @param {number} tokens */
function gap(tokens) {
  return el("span", { class: "lookup-gap" }, W.gap(tokens));
}

/** @param {keyof typeof W.lookupKey} kind */
function key(kind) {
  return el("li", {}, el("span", { class: `piece ${kind}` }, W.lookupKey[kind]));
}

/** @param {Settings} settings @param {Note} note */
function chosen(settings, note) {
  return W.choice(String(settings.options?.match ?? "longest"), number(note.matches), number(note.votes));
}

/** @param {number} start @param {number} length @param {number} prompt */
function place(start, length, prompt) {
  return start + length <= prompt ? W.inPrompt : W.inAnswer;
}

/**
 * The copies after the text, as they are judged.
 * @param {View} view
 * @param {Round} round
 */
function pendingGuesses(view, round) {
  const chips = round.proposals
    .slice(0, COPIES)
    .map(({ node, text, verdict }) =>
      el(
        "span",
        {
          class: `ghost ${verdict}`,
          "data-node": node,
          title: `${quote(text)}: ${VERDICT[verdict] ?? verdict}`,
        },
        MARK[verdict] ? el("span", { class: "mark", "aria-hidden": "true" }, MARK[verdict]) : null,
        flat(text),
      ),
    );
  return el(
    "span",
    { class: "ghosts", "data-round": round.index, "data-lane": view.lead },
    ...chips,
    round.proposals.length > COPIES ? gap(round.proposals.length - COPIES) : null,
  );
}

/**
 * The arrow over the text in `root`, redrawn when its size changes.
 * @param {HTMLElement} root
 */
export function createArrow(root) {
  const draw = () => {
    const box = root.querySelector(".lookup-text");
    box?.querySelector(".arrow")?.remove();
    const from = box?.querySelector(".copied");
    const to = box?.querySelector(".ghost");
    if (box && from && to && box.clientWidth)
      box.append(arrow(box.getBoundingClientRect(), from.getClientRects()[0], to.getClientRects()[0]));
  };
  let width = 0;
  const watcher = new ResizeObserver(() => {
    if (root.clientWidth === width) return;
    width = root.clientWidth;
    draw();
  });
  watcher.observe(root);
  return { draw };
}

/**
 * From below the copied tokens to above the first copy; below both if they share a line.
 * @param {DOMRect} box
 * @param {DOMRect} from
 * @param {DOMRect} to
 */
function arrow(box, from, to) {
  const [x1, y1] = [(from.left + from.right) / 2 - box.left, from.bottom - box.top];
  const level = Math.abs(from.top - to.top) < from.height;
  const [x2, y2] = [to.left - box.left + Math.min(10, to.width / 2), (level ? to.bottom : to.top) - box.top];
  const bend = level ? 16 : Math.max(10, (y2 - y1) / 2);
  const end = level ? y2 + bend : y2 - bend;
  const tip = level ? -5 : 5;
  /** @param {...number} numbers */
  const at = (...numbers) => numbers.map((value) => value.toFixed(1)).join(" ");
  const path = svg("path", {
    d: `M${at(x1, y1)} C${at(x1, y1 + bend, x2, end, x2, y2)} M${at(x2 - 4, y2 - tip)} L${at(x2, y2)} L${at(x2 + 4, y2 - tip)}`,
  });
  return svg("svg", { class: "arrow", "aria-hidden": "true" }, path);
}
