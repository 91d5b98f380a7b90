/** Numbers that fall on a ruler: a coin against its threshold, and the number that draws a token. */

/** @import { Drawable } from "./odds_rows.js" */

import { el } from "../dom/dom.js";
import { flat, MARK, prob, quote } from "../text/text.js";
import { O } from "../text/text_odds.js";

const WIDE = 0.14; // of the ruler; narrower zones have no label
const SIGN = 0.05; // or no sign

/** @param {number} value */
function percent(value) {
  return `${(100 * Math.min(Math.max(value, 0), 1)).toFixed(4)}%`;
}

/**
 * The needle itself: the value of the number.
 * @param {number} u
 * @param {string} name
 */
function needle(u, name) {
  const mark = el("span", { class: "needle" }, name ? el("span", { class: "needle-word" }, name) : null);
  mark.style.insetInlineStart = percent(u);
  return mark;
}

/**
 * A coin on the ruler from 0 to 1: below the threshold the token stays.
 * @param {number} u
 * @param {number} threshold
 * @returns {HTMLElement}
 */
export function coinRuler(u, threshold) {
  const stays = Math.min(Math.max(threshold, 0), 1);
  const said = u < stays ? stays : 1 - stays; // a word or sign of the other zone alone would be read as the verdict
  const named = said >= WIDE;
  /** @param {string} name @param {number} size @param {string} mark @param {string} word @param {number} from */
  const zone = (name, size, mark, word, from) => {
    const words = [mark, named ? el("span", { class: "zone-name" }, ` ${word}`) : null];
    const part = el(
      "span",
      { class: name },
      said >= SIGN && size >= (named ? WIDE : SIGN) ? el("span", { class: "zone-word" }, ...words) : null,
    );
    part.style.inlineSize = percent(size);
    const middle = from + size / 2;
    if (Math.abs(u - middle) < WIDE) part.style.textAlign = u < middle ? "end" : "start"; // beside the needle, not over it
    return part;
  };
  return el(
    "div",
    { class: "axis", "aria-hidden": "true" },
    zone("pass", stays, MARK.accepted, O.stays, 0),
    zone("fail", 1 - stays, MARK.rejected, O.goes, stays),
    needle(u, "u"),
  );
}

/**
 * The positions of a distribution's tokens on the ruler from 0 to 1, in the order of the vocabulary, around the one
 * that was drawn. The tokens that the record does not name lie between them; the drawn one contains `u`, which bounds
 * how many of them come before it.
 * @param {Drawable[]} distribution
 * @param {number} u
 * @param {number} vocabulary
 * @returns {{id: number|null, text: string|null, from: number, size: number, drawn: boolean}[]|null} null where the record does
 *   not name the drawn token
 */
export function segmentsOf(distribution, u, vocabulary) {
  const drawn = distribution.find((token) => token.committed);
  if (!drawn) return null;
  const named = [...distribution].sort((one, other) => one.id - other.id);
  /** @param {Drawable[]} tokens */
  const mass = (tokens) => tokens.reduce((sum, token) => sum + token.prob, 0);
  const before = named.filter((token) => token.id < drawn.id);
  const [ahead, tail] = [mass(before), Math.max(0, 1 - mass(named))];
  const spread = ahead + tail * (vocabulary > 0 ? Math.min(1, drawn.id / vocabulary) : 0.5);
  const [least, most] = [Math.max(ahead, u - drawn.prob), Math.min(ahead + tail, u)];
  const start = Math.max(Math.min(spread, most), Math.min(least, most));
  const parts = [
    ...before,
    { id: null, text: null, prob: Math.max(0, start - ahead) },
    drawn,
    { id: null, text: null, prob: Math.max(0, ahead + tail - start) },
    ...named.filter((token) => token.id > drawn.id),
  ];
  let from = 0;
  return parts
    .filter((part) => part.prob > 0)
    .map(({ id, text, prob }) => {
      const part = { id, text, from, size: prob, drawn: id === drawn.id };
      from += prob;
      return part;
    });
}

/**
 * The number that drew a token, on its distribution's cumulative bar: the bar, and its ends with the drawn token's name.
 * @param {Drawable[]} distribution
 * @param {number} u
 * @param {number} vocabulary
 * @returns {HTMLElement[]} none where the record does not name the token
 */
export function drawRuler(distribution, u, vocabulary) {
  const segments = segmentsOf(distribution, u, vocabulary) ?? [];
  const parts = segments.map(({ id, text, from, size, drawn }) => {
    const title = text === null ? O.everything : `${quote(text)} ${prob(size)}`;
    const part = el("span", {
      class: `segment${drawn ? " drawn" : ""}${id === null ? " rest" : ""}`,
      "data-token": id ?? "rest",
      title,
    });
    part.style.insetInlineStart = percent(from);
    part.style.inlineSize = percent(size);
    return part;
  });
  const own = segments.find(({ drawn }) => drawn);
  if (!own) return [];
  return [
    el("div", { class: "cumulative", "aria-hidden": "true" }, ...parts, needle(u, "")),
    rulerEnds(own.text ?? "", own.from + own.size / 2),
  ];
}

/**
 * The ends of a ruler, and the name of what is meant on it.
 * @param {string} name
 * @param {number} at its middle, from 0 to 1
 */
export function rulerEnds(name = "", at = 0) {
  const word = name ? el("span", { class: "drawn-name" }, flat(name)) : null;
  if (word) word.style.cssText = `inset-inline-start:${percent(at)};translate:-${percent(at)} 0`; // within the ruler, over its place
  return el(
    "div",
    { class: "axis-ends", "aria-hidden": "true" },
    el("span", {}, "0"),
    word,
    el("span", {}, "1"),
  );
}
