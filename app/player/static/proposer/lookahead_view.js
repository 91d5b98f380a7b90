/** Lookahead's window and its pool of phrases: what was guessed, what was tried, what was found. */

/**
 * @import { RoundRecord, Trace } from "../../types.js"
 * @import { Round } from "../model/model.js"
 * @import { Scene } from "./proposer_view.js"
 */

import { el, present } from "../dom/dom.js";
import { list, number, tokenText } from "../model/model.js";
import { knows } from "../model/moments.js";
import { rootText } from "../model/slots.js";
import { flat, MARK, quote, VERDICT } from "../text/text.js";
import { W } from "../text/text_proposer.js";

const MOST = 64; // limits on the drawn columns and phrases of a kind; the proposer's options stay below

/** @param {Scene} scene */
export function drawLookahead(scene) {
  const { view, lane, round, row, note } = scene;
  const trace = lane.trace;
  const levels = grid(note.window);
  if (!levels) return [el("p", { class: "hint" }, W.noWindow)];
  const extra = number(row.riders) ?? 0;
  const newest = knows(view, "p") && extra ? (grid(note.newest)?.[0] ?? null) : null;
  const over = knows(view, "positions");
  const harvested = over && note.newest !== undefined ? phrases(note.harvested) : null; // older records noted the previous round's finds
  const tried = phrases(note.guesses);
  const recent = phrases(note.recent);
  return present([
    el("p", { class: "window-line" }, extra ? W.rides(extra) : W.home),
    picture(trace, levels, list(note.generated), newest),
    el("p", { class: "note" }, W.windowIs, newest ? ` ${W.newestIs}` : ""),
    el("h3", {}, W.pool(number(note.pool) ?? 0)),
    el(
      "p",
      { class: "window-line" },
      tried.length
        ? W.tried(tried.length, quote(rootText(lane, round.index)))
        : W.untried(quote(rootText(lane, round.index))),
    ),
    tried.length
      ? phraseList(
          W.triedName,
          tried.map((gram) => triedPhrase(trace, gram, round, row)),
          { "data-round": round.index, "data-lane": view.lead },
        )
      : null,
    recent.length ? el("p", { class: "note" }, W.recent) : null,
    recent.length
      ? phraseList(
          W.recent,
          recent.map((gram) => plainPhrase(trace, gram)),
        )
      : null,
    harvested ? el("h3", {}, W.harvested(harvested.length)) : null,
    harvested?.length
      ? phraseList(
          W.harvested(harvested.length),
          harvested.map((gram) => plainPhrase(trace, gram)),
          { class: "phrases found" },
        )
      : null,
  ]);
}

/**
 * A note's lists of token ids, all of one length; null if it has none.
 * @param {number[][]|undefined} given
 */
function grid(given) {
  const rows = list(given).map(list);
  const fits = rows.length > 0 && rows.length <= MOST && rows[0].length > 0 && rows[0].length <= MOST;
  return fits && rows.every((row) => row.length === rows[0].length && row.every(Number.isInteger))
    ? rows
    : null;
}

/** @param {number[][]|undefined} given */
function phrases(given) {
  return list(given)
    .slice(0, MOST)
    .map(list)
    .filter((gram) => gram.length && gram.length <= MOST && gram.every(Number.isInteger));
}

/**
 * The window: one row for each level, shifted so that guesses of the same position share a column.
 * @param {Trace|null} trace
 * @param {number[][]} levels
 * @param {number[]} generated
 * @param {number[]|null} newest
 */
function picture(trace, levels, generated, newest) {
  const width = levels[0].length;
  const heads = el(
    "div",
    { class: "window-row heads", role: "row" },
    el("span", { class: "window-name", role: "columnheader" }, W.position),
  );
  for (let at = 0; at < width + levels.length - (newest ? 0 : 1); at += 1)
    heads.append(el("span", { class: "window-head", role: "columnheader" }, at ? `+${at}` : W.root));
  const rows = levels.map((level, number) =>
    line(
      W.level(number),
      number,
      level.map((id, column) => {
        const written =
          number >= levels.length - (Number.isInteger(generated[column]) ? generated[column] : 0);
        return cell(
          trace,
          id,
          number || column ? (written ? "written" : "initial") : "root",
          number + column,
        );
      }),
    ),
  );
  if (newest?.length === width)
    rows.push(
      line(
        W.newest,
        levels.length,
        newest.map((id, column) => cell(trace, id, "newest", levels.length + column)),
      ),
    );
  const table = el(
    "div",
    { class: "window-grid", role: "table", "aria-label": W.windowName(width, levels.length) },
    heads,
    ...rows,
  );
  return el(
    "div",
    { class: "window-box", role: "group", tabindex: 0, "aria-label": W.windowName(width, levels.length) },
    table,
  );
}

/** @param {string} name @param {number} shift @param {HTMLElement[]} cells */
function line(name, shift, cells) {
  const gap = el("span", { class: "window-gap", role: "presentation" });
  gap.style.setProperty("--shift", String(shift));
  return el(
    "div",
    { class: "window-row", role: "row" },
    el("span", { class: "window-name", role: "rowheader" }, name),
    shift ? gap : null,
    ...cells,
  );
}

/** @param {Trace|null} trace @param {number} id @param {keyof typeof W.cellMark} kind @param {number} position */
function cell(trace, id, kind, position) {
  const text = tokenText(trace, id);
  return el(
    "span",
    { class: `window-cell ${kind}`, role: "cell", "data-id": id, title: W.cell(quote(text), position, kind) },
    el("span", { class: "cell-mark", "aria-hidden": "true" }, W.cellMark[kind]),
    el("span", { class: "cell-text" }, flat(text)),
    el("span", { class: "unseen" }, ` ${W.cellKind[kind]}`),
  );
}

/** @param {string} name @param {HTMLElement[]} items @param {Record<string, string|number>} [attributes] */
function phraseList(name, items, attributes = {}) {
  return el("ul", { class: "phrases", "aria-label": name, ...attributes }, ...items);
}

/** @param {Trace|null} trace @param {number[]} gram */
function plainPhrase(trace, gram) {
  return el(
    "li",
    { class: "phrase", "data-gram": gram.join(" ") },
    ...gram.map((id) => el("span", { class: "phrase-token" }, flat(tokenText(trace, id)))),
  );
}

/**
 * A phrase that was tried: after its first token, the root, come the nodes it became.
 * @param {Trace|null} trace
 * @param {number[]} gram
 * @param {Round} round
 * @param {RoundRecord} row
 */
function triedPhrase(trace, gram, round, row) {
  const ids = list(row.nodes?.token);
  /** @type {number|null} */
  let above = -1;
  const rest = gram.slice(1).map((id) => {
    const item =
      above === null ? null : round.proposals.find((each) => each.parent === above && ids[each.node] === id);
    above = item ? item.node : null; // a phrase ends at the remaining depth or memory
    const verdict = item?.verdict;
    return el(
      "span",
      {
        class: `phrase-token ${item ? verdict : "left"}`,
        "data-node": item?.node,
        title: item ? `${quote(item.text)}: ${VERDICT[item.verdict] ?? verdict}` : W.leftOut,
      },
      verdict && MARK[verdict] ? el("span", { class: "mark", "aria-hidden": "true" }, MARK[verdict]) : null,
      flat(tokenText(trace, id)),
    );
  });
  return el(
    "li",
    { class: "phrase tried", "data-gram": gram.join(" ") },
    el("span", { class: "phrase-token root" }, flat(tokenText(trace, gram[0]))),
    ...rest,
  );
}
