// A run that a class follows: its text with what was accepted and rejected, the verdict, and how well the class guesses.

import { el, pairs, say } from "./room.js";

const GLYPHS = { accepted: "✓", rejected: "✗", corrected: "↻", bonus: "★", plain: "" };

/** Everything that all pages show of it. @param {any} run */
export function drawn(run) {
  return [
    el("p", { class: "small" }, say("run_model", run)),
    text(run),
    el("p", { class: "small" }, say("run_signs")),
    ...state(run),
    run.rounds > 0 && figures(run),
  ];
}

/** @param {any} run */
function text(run) {
  return el("p", { class: "run", id: "run" }, el("span", { class: "muted" }, run.prompt, " "),
    ...pieces(run.pieces),
    ...run.guesses.map((/** @type {string} */ guess, /** @type {number} */ at) =>
      el("span", { class: `piece guess${at ? "" : " first"}` }, guess, el("i", {}, "?"))));
}

/** Pieces of text, each with its sign. @param {[string, string][]} found */
export function pieces(found) {
  return pairs(found).map(([piece, mark]) => el("span", { class: `piece ${mark}` }, mark === "rejected" ? el("s", {}, piece) : piece,
    el("i", {}, GLYPHS[/** @type {"bonus"} */ (mark)] ?? "")));
}

/** @param {any} run */
function state(run) {
  if (run.lost) return [el("p", { class: "note" }, say("run_lost"))];
  if (run.error) return [el("p", { class: "note" }, run.error)];
  if (run.place) return [el("p", { class: "note" }, say("run_place", run))];
  const said = verdict(run);
  return [said && el("p", { class: "note", id: "verdict" }, said), run.over && el("p", { class: "note" }, say("run_over"))];
}

/** How the last round's first guess was judged, as a sentence; "" if it is not shown now. @param {any} run */
export function verdict(run) {
  const found = run.verdict;
  if (!found?.was) return "";
  const was = say(`run_was_${found.was}`, { guess: found.guess.trim() || "␣" });
  return found.of ? `${was} ${say("run_said_so", found)}` : was;
}

/** The class's hit rate beside the draft's acceptance rate. @param {any} run */
function figures(run) {
  const [accepted, judged] = run.alpha, [right, of] = run.class;
  /** @param {number} some @param {number} all */
  const share = (some, all) => (all ? `${Math.round((100 * some) / all)} %` : "–");
  /** @param {string} name @param {number} some @param {number} all */
  const row = (name, some, all) => el("tr", {}, el("th", { scope: "row" }, say(name)), el("td", {}, say("run_of", { some, all })), el("td", {}, el("b", {}, share(some, all))));
  return el("table", { class: "figures" }, el("tbody", {},
    row("run_alpha", accepted, judged), of > 0 && row("run_class", right, of), run.hits?.[1] > 0 && row("run_you", run.hits[0], run.hits[1])));
}
