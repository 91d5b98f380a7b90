/** One round of the ribbon: the tokens it committed, each with what was rejected in its place below it. */

/** @import { Hang, Round } from "./model.js" */

import { appendToken, el } from "./dom.js";
import { flat, MARK, T, VERDICT } from "./text.js";

const HANGING_SHOWN = 3; // rejected proposals named under one position; trees may have dozens
const OVER = 5; // characters that a rejected word may reach beyond its place; the pane's edge leaves room for them
const DOTS_SHOWN = 3; // other proposals drawn one by one; the current round names them all

/**
 * Whether two rounds are drawn alike.
 * @param {Round} one
 * @param {Round} other
 */
export function alike(one, other) {
  return one === other || signature(one) === signature(other);
}

/** @param {Round} round */
function signature(round) {
  return JSON.stringify([round.tokens, round.proposals]);
}

/**
 * @param {number} lane
 * @param {Round} round
 * @param {string} before the text before it, at least its end
 */
export function drawRound(lane, round, before) {
  const box = el("span", { class: "round", "data-round": round.index, "data-lane": lane });
  const hangs = new Map(round.hangs.map((hang) => [hang.at, hang]));
  round.tokens.forEach((token, at) => {
    // One mark represents a run of equal verdicts. It follows the text, so that no line begins or ends between them.
    const last = round.tokens[at + 1]?.source !== token.source;
    const chip = el("span", {
      class: `tok ${token.source}${last ? (token.text.endsWith("\n") ? " mark-before" : " mark-after") : ""}`,
      "data-node": token.node,
      role: "button",
      tabindex: -1,
      "aria-label": T.chip(token.name, VERDICT[token.source], round.index + 1),
    });
    // A piece is empty for a part of a character, whose last part contains the text, and for the end of the text.
    if (token.text === "") chip.dataset.sign = token.name === "" || token.name.includes("0x") ? "◌" : "∎";
    // The space before a word stays colourless where the line ends in it; after a line break it is kept unchanged.
    const above = at > 0 ? round.tokens[at - 1].text : before;
    if (!above.endsWith("\n") && /^ \S+$/.test(token.text)) chip.classList.add("word");
    appendToken(chip, token.text);
    const hang = hangs.get(at);
    if (!hang) box.append(chip);
    else if (token.text.includes("\n")) box.append(spot(hang, round, null), chip);
    else box.append(spot(hang, round, chip));
  });
  for (const hang of round.hangs) {
    if (hang.at >= round.tokens.length) box.append(spot(hang, round, null));
  }
  return box;
}

/**
 * Let rejected words reach below the text after them, as far as nothing else hangs there: the text keeps its spaces.
 * @param {Element} box the drawn round
 * @param {Round} round
 * @param {Round|undefined} next
 */
export function spread(box, round, next) {
  const hangs = [...round.hangs].sort((one, other) => one.at - other.at);
  const tokens = [...round.tokens, ...(next?.tokens ?? [])];
  const taken = [...hangs.map(({ at }) => at), ...(next?.hangs ?? []).map(({ at }) => at + round.tokens.length)];
  box.querySelectorAll(".hang").forEach((below, index) => {
    const { at } = hangs[index];
    const other = Math.min(...taken.filter((place) => place > at));
    const room = tokens.slice(at + 1, other).reduce((sum, { text }) => sum + text.length, 0);
    const free = other === Infinity ? OVER : Math.min(room, OVER);
    /** @type {HTMLElement} */ (below).style.setProperty("--over", String(free));
  });
}

/**
 * The element that contains a token: its own, or if something is shown below it, that of both.
 * @param {Element} chip
 */
export function unitOf(chip) {
  const around = chip.parentElement;
  return around?.classList.contains("spot") ? around : chip;
}

/**
 * A token with what was rejected in its place below it. A line break cannot be in the upper row; it follows instead.
 * @param {Hang} hang
 * @param {Round} round
 * @param {HTMLElement|null} upper
 */
function spot(hang, round, upper) {
  const below = el("span", { class: "hang", role: "group", "aria-label": T.proposals });
  const rejected = hang.nodes.filter((item) => item.verdict === "rejected");
  const named = rejected.slice(0, HANGING_SHOWN);
  const others = hang.nodes.filter((item) => item.verdict !== "rejected");
  const dots = el("span", { class: others.length > DOTS_SHOWN ? "behind counted" : "behind" });
  for (const item of [...named, ...others.slice(0, DOTS_SHOWN)]) {
    const chip = el("span", {
      class: `prop ${item.verdict}`,
      "data-node": item.node,
      role: "button",
      tabindex: -1,
      "aria-label": T.chip(item.text, VERDICT[item.verdict] ?? item.verdict, round.index + 1),
      title: T.chip(item.text, VERDICT[item.verdict] ?? item.verdict, round.index + 1),
    });
    if (named.includes(item)) chip.append(el("span", { class: "gone" }, flat(item.text).trim() || "◌"));
    else chip.append(MARK[item.verdict] ?? "");
    (named.includes(item) ? below : dots).append(chip);
  }
  if (rejected.length > named.length) below.append(el("span", { class: "more", title: T.unshown(rejected.length - named.length) }, T.more(rejected.length - named.length)));
  if (others.length > DOTS_SHOWN) dots.append(el("span", { class: "more", title: T.unshown(others.length - DOTS_SHOWN) }, T.more(others.length - DOTS_SHOWN)));
  if (others.length) below.append(dots);
  return el("span", { class: upper ? "spot" : "spot bare" }, upper ?? el("span", { class: "post" }), below);
}
