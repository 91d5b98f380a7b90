// A student's answers: a number as it is typed, and all of them beside the right ones once the room has ended.

import { code, el, say } from "./room.js";

/** A number with a comma or a point; null if it is none. @param {string} text */
export function parsed(text) {
  const plain = text.trim().replace("−", "-").replace(",", ".");
  return /^-?(\d+\.?\d*|\.\d+)$/.test(plain) ? Number(plain) : null;
}

/** @param {string} html */
export const plain = (html) => el("div", { html }).textContent;

/** How an answer is introduced, the first of two as such, and judged. @param {any} row @param {number} at @param {string} said */
const judged = (row, at, said) =>
  `${say(at + 1 < row.said.length ? "you_said_then" : "you_said", { said })} ${say(row.said[at].right ? "right" : "wrong")}`;

/** The votes on runs, if there are any. @param {any} view */
const runs = (view) => (view.hits[1] ? say("run_hits", { right: view.hits[0], of: view.hits[1] }) : "");

/** Whether there is anything to look back on. @param {any} view */
export const any = (view) => view.results.length > 0 || view.hits[1] > 0;

/** @param {any} view */
export function results(view) {
  return [...view.results.map((/** @type {any} */ row) => el("section", { class: "card" },
    el("p", { class: "small" }, row.title), el("div", { html: row.question }),
    ...row.said.map((/** @type {any} */ said, /** @type {number} */ at) => el("p", { html: judged(row, at, `<b>${said.said}</b>`) })),
    !row.said.length && el("p", {}, say("no_answer")),
    el("p", { html: say("it_was", { was: `<b>${row.outcome}</b>` }) }))), runs(view) && el("p", { class: "card", id: "hits" }, runs(view))];
}

/** @param {any} view */
export function download(view) {
  const rows = view.results.map((/** @type {any} */ row) => [row.title, plain(row.question).trim(),
    ...row.said.map((/** @type {any} */ said, /** @type {number} */ at) => judged(row, at, plain(said.said))), ...(row.said.length ? [] : [say("no_answer")]),
    say("it_was", { was: plain(row.outcome) })].join("\n"));
  const text = [...rows, runs(view)].filter(Boolean).join("\n\n");
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type: "text/plain" })), download: `room-${code}.txt` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
