// A run that a class follows: its text with what was accepted and rejected, the verdict, and how well the class guesses.

import { el, pairs, percent, say } from "./room.js";

/** A guess as a word of a sentence: what nobody could see has a sign. @param {string | undefined} guess */
const named = (guess) => signed(guess ?? "").trim() || "␣";

/** A line break as a sign. @param {string} text */
const signed = (text) => text.replace(/\r?\n|\r/g, "⏎");

/** What the class votes on. @param {any} run */
export const asked = (run) => say("run_ask", { guess: named(run.guesses[0]) });

const GLYPHS = { accepted: "✓", rejected: "✗", corrected: "↻", bonus: "★", plain: "" };

/** Everything that all pages show of it; `ready` is what they say before its first round. @param {any} run @param {string} [ready] */
export function drawn(run, ready = "run_ready") {
  return [
    el("p", { class: "small" }, say("run_model", run)),
    text(run),
    el("p", { class: "small" }, say("run_signs")),
    ...state(run, ready),
    run.rounds > 0 && figures(run),
  ];
}

/** @param {any} run */
function text(run) {
  return el("p", { class: "run", id: "run" }, el("span", { class: "muted" }, run.prompt),
    ...pieces(run.pieces),
    ...run.guesses.map((/** @type {string} */ guess, /** @type {number} */ at) =>
      el("span", { class: `piece guess${at ? "" : " first"}` }, signed(guess), el("i", {}, "?"))));
}

/** Pieces of text, each with its sign. @param {[string, string][]} found */
export function pieces(found) {
  return pairs(found).flatMap(([piece, mark]) => [
    el("span", { class: `piece ${mark}` }, mark === "rejected" ? el("s", {}, signed(piece)) : signed(piece), el("i", {}, GLYPHS[/** @type {"bonus"} */ (mark)] ?? "")),
    mark !== "rejected" && piece.includes("\n") ? "\n" : ""]);
}

/** @param {any} run @param {string} ready */
function state(run, ready) {
  if (run.lost) return [el("p", { class: "note" }, say("run_lost"))];
  if (run.error) return [el("p", { class: "note" }, run.error)];
  if (run.place) return [el("p", { class: "note" }, say("run_place", run))];
  if (!run.rounds && !run.asking && !run.over) return [el("p", { class: "note", id: "ready" }, say(ready))];
  const said = verdict(run);
  return [said && el("p", { class: "note", id: "verdict" }, said), run.over && el("p", { class: "note" }, say("run_over"))];
}

/** How the last round's first guess was judged, as a sentence; "" if it is not shown now. @param {any} run */
export function verdict(run) {
  const found = run.verdict;
  if (!found?.was) return "";
  const was = say(`run_was_${found.was}`, { guess: named(found.guess) });
  return found.of ? `${was} ${say("run_said_so", found)}` : was;
}

/** The class's hit rate beside the draft's acceptance rate. @param {any} run */
function figures(run) {
  const [accepted, judged] = run.alpha, [right, of] = run.class;
  /** @param {number} some @param {number} all */
  const share = (some, all) => (all ? percent(some / all) : "–");
  /** @param {string} name @param {number} some @param {number} all */
  const row = (name, some, all) => el("tr", {}, el("th", { scope: "row" }, say(name)), el("td", {}, say("run_of", { some, all })), el("td", {}, el("b", {}, share(some, all))));
  return el("table", { class: "figures" }, el("tbody", {},
    row("run_alpha", accepted, judged), of > 0 && row("run_class", right, of), run.hits?.[1] > 0 && row("run_you", run.hits[0], run.hits[1])));
}
