// A student's own run: a tree of a chosen shape, streamed and measured by the server.

import { announce, el, here, post, root, say } from "./room.js";
import { pieces } from "./run.js";

const top = root.replace(/\/r$/, "");
/** What one student's page keeps while the picture around it is drawn anew. @type {any} */
let kept = { step: -1, node: null, close: () => {} };

/** The form and the run below it. @param {any} view */
export function own(view) {
  if (kept.step === view.step) return kept.node;
  kept.close();
  kept = { step: view.step, node: el("details", { class: "card", id: "own" }, el("summary", {}, say("own_title", view.own)), ...form(view)), close: () => {} };
  return kept.node;
}

/** @param {any} view */
function form(view) {
  /** @param {string} name @param {number} most @param {number} first */
  const choice = (name, most, first) => el("select", { id: name }, ...Array.from({ length: most }, (_, at) => el("option", { selected: at + 1 === first }, String(at + 1))));
  const width = choice("width", view.own.widest, 2), depth = choice("depth", view.own.deepest, 4);
  const prompt = el("input", { id: "own-prompt", maxlength: 500, autocomplete: "off" });
  const out = el("div", { id: "own-run" });
  const best = el("p", { class: "small" }, view.own.best ? say("own_best", shown(view.own.best)) : "");
  const go = async (/** @type {Event} */ event) => {
    event.preventDefault();
    kept.close();
    out.replaceChildren(el("p", {}, say("sending")));
    const body = { step: view.step, prompt: prompt.value, width: Number(width.value), depth: Number(depth.value) };
    const answer = await post(`${here}/run`, body).catch(() => ({ ok: false, error: say("reconnecting_plain") }));
    if (answer.ok) kept.close = stream(`${top}/${answer.events}`, out);
    else out.replaceChildren(el("p", { class: "wrong", role: "alert" }, answer.error));
  };
  return [el("p", {}, say("own_about", view.own)), best,
    el("form", { onsubmit: go }, el("div", { class: "buttons" }, el("label", {}, say("own_width"), width), el("label", {}, say("own_depth"), depth)),
      el("label", {}, say("own_prompt"), prompt), el("p", {}, el("button", { class: "main", id: "own-go" }, say("own_go")))), out];
}

/** @param {any} best */
const shown = (best) => ({ ...best, speed: Math.round(best.speed), per_pass: Number(best.per_pass.toFixed(2)) });

/** Show a run as it happens; returns what ends that. @param {string} where @param {any} out */
function stream(where, out) {
  const line = el("p", { class: "small", role: "status" }), text = el("p", { class: "run" });
  out.replaceChildren(line, text);
  const source = new EventSource(where);
  source.onmessage = (event) => {
    const said = JSON.parse(event.data);
    if (said.type === "queued") line.textContent = say("run_place", said);
    else if (said.type === "started") line.textContent = "";
    else if (said.type === "step") text.append(...pieces(marked(said)));
    else if (said.type === "error") line.textContent = said.message;
    else if (said.type === "finished" && said.end !== "cancelled" && said.stats.tokens_per_second) {
      line.textContent = say("own_measured", shown({ speed: said.stats.tokens_per_second, per_pass: said.stats.tokens_per_pass }));
      announce(line.textContent);
    } else if (said.type === "done") source.close();
  };
  return () => source.close();
}

/** A round's pieces with their marks. @param {any} step @returns {[string, string][]} */
const marked = (step) => step.texts.map((/** @type {string} */ text, /** @type {number} */ at) => [text, step.sources[at]]);
