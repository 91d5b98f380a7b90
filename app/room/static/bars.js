// Votes as bars in a table, and numbers as dots over a scale; both votes side by side.

import { el, number, pairs, percent, say } from "./room.js";

const WIDTH = 600, HEIGHT = 130, SIDE = 24, DOT = 5;
export const LETTERS = "ABCDEFGHIJKL";

/** An option's letter; "" where the option is that letter itself. @param {string} text @param {number} at */
export const letter = (text, at) => (text === LETTERS[at] ? "" : LETTERS[at] ?? "");

/** The options to be read, with their letters; of a number there are none. @param {any} view */
export const lettered = (view) => view.kind !== "number" && el("ol", { class: "letters" }, ...pairs(view.options).map(([_key, text], at) =>
  el("li", {}, el("b", {}, LETTERS[at]), letter(text, at) && el("span", { html: text }))));

/**
 * @param {any} view with `tallies` of both votes, `options`, `right`, `kind`
 * @param {{ marked: boolean, beliefs?: Record<string, string> }} how whether right ones are marked
 */
export function tallies(view, how) {
  const votes = view.tallies.filter((/** @type {any} */ found, /** @type {number} */ at) => at === 0 || found.answered);
  if (view.kind === "number") return el("div", { class: "dots" }, ...votes.map((/** @type {any} */ found, /** @type {number} */ at) => dots(view, found, at, how)));
  // On a phone an option's text has a line of its own; the roles keep the table one for those who hear it.
  const heads = votes.map((/** @type {any} */ _, /** @type {number} */ at) => el("th", { scope: "col", role: "columnheader" }, say(at ? "second_vote" : "first_vote")));
  const rows = pairs(view.options).map(([key, text], at) => {
    const right = view.right.includes(key);
    const mark = how.marked ? (right ? "✓ " : "✗ ") : "";
    const cells = votes.map((/** @type {any} */ found) => bar(found.options[key], found.answered, how.marked && right));
    return el("tr", { role: "row", class: how.marked && right ? "right" : "" },
      el("th", { scope: "row", role: "rowheader" }, `${mark}${letter(text, at) && `${LETTERS[at]} · `}`, el("span", { html: text }),
        how.beliefs?.[key] ? el("div", { class: "small", html: say("believes", { belief: how.beliefs[key] }) }) : null),
      ...cells);
  });
  const sums = votes.map((/** @type {any} */ found) =>
    el("td", { role: "cell" }, say(view.kind === "several" ? "all_right" : "share_right", found)));
  return el("table", { class: "bars", role: "table" },
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, el("th", { scope: "col", role: "columnheader" }, say("option")), ...heads)),
    el("tbody", { role: "rowgroup" }, ...rows),
    how.marked ? el("tfoot", { role: "rowgroup" }, el("tr", { role: "row" }, el("td", { role: "cell" }), ...sums)) : null);
}

/** @param {number} count @param {number} all @param {boolean} right */
function bar(count, all, right) {
  const share = all ? count / all : 0;
  const fill = el("i", { class: right ? "solid" : "hatched" });
  fill.style.width = `${share * 100}%`;
  return el("td", { role: "cell" }, el("span", { class: "bar" }, fill), el("b", {}, `${count} · ${percent(share)}`));
}

/**
 * Where each dot stands: those at (nearly) the same place are stacked.
 * @param {[number, number][]} found values and counts @param {number} low @param {number} high
 */
export function stacked(found, low, high) {
  /** @type {Map<number, number>} */
  const heights = new Map();
  const placed = [];
  for (const [value, count] of found) {
    const x = SIDE + ((value - low) / (high - low || 1)) * (WIDTH - 2 * SIDE);
    const column = Math.round(x / (2 * DOT));
    for (let each = 0; each < count; each++) {
      const level = heights.get(column) ?? 0;
      heights.set(column, level + 1);
      placed.push({ value, x, level });
    }
  }
  return placed;
}

/** @param {any} view @param {any} found @param {number} at @param {{ marked: boolean }} how */
function dots(view, found, at, how) {
  const { low, high } = view.scale;
  const placed = stacked(found.dots, low, high);
  const most = Math.max(1, ...placed.map(({ level }) => level + 1));
  const rise = Math.min(2 * DOT, (HEIGHT - 34) / most);
  /** @param {number} value */
  const x = (value) => SIDE + ((value - low) / (high - low || 1)) * (WIDTH - 2 * SIDE);
  const said = how.marked
    ? say("dots", { low, high, answer: view.outcome })
    : `${number(low)} – ${number(high)}`;
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": said });
  if (how.marked) {
    const from = Math.max(low, view.answer - view.band), to = Math.min(high, view.answer + view.band);
    drawing.append(
      svg("rect", { class: "band", x: x(from), y: 4, width: Math.max(2, x(to) - x(from)), height: HEIGHT - 26 }),
      svg("line", { class: "answer", x1: x(view.answer), x2: x(view.answer), y1: 4, y2: HEIGHT - 22 }));
  }
  drawing.append(svg("line", { class: "axis", x1: SIDE, x2: WIDTH - SIDE, y1: HEIGHT - 22, y2: HEIGHT - 22 }));
  for (const [value, side] of [[low, "start"], [high, "end"]]) {
    const text = svg("text", { x: x(value), y: HEIGHT - 6, "text-anchor": side });
    text.textContent = number(value);
    drawing.append(text);
  }
  for (const dot of placed) drawing.append(svg("circle", { cx: dot.x, cy: HEIGHT - 28 - dot.level * rise, r: DOT - 0.5 }));
  const rows = pairs(found.dots).map(([value, count]) => el("tr", {}, el("td", {}, number(value)), el("td", {}, String(count))));
  return el("figure", {}, el("figcaption", {}, `${say(at ? "second_vote" : "first_vote")} · `,
    how.marked ? `${say("share_right", found)} · ${said}` : ""), drawing,
  el("details", {}, el("summary", {}, say("chart_table")), el("table", {},
    el("thead", {}, el("tr", {}, el("th", {}, say("value")), el("th", {}, say("count")))), el("tbody", {}, ...rows))));
}

/** @param {string} tag @param {Record<string, any>} given @returns {any} */
function svg(tag, given) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(given)) made.setAttribute(name, String(value));
  return made;
}
