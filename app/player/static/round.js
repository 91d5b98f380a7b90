/** The current round in large: what was proposed, what became of it, and what the target wrote. */

import { el, setText } from "./dom.js";
import { list, number } from "./model.js";
import { flat, MARK, prob, T, VERDICT } from "./text.js";

/** @returns the strip's view: `root`, `show(view)` */
export function createRound() {
  const title = el("h2", { class: "round-title" });
  const phases = el("span", { class: "phases" });
  const chips = el("div", { class: "chips", role: "group" });
  const root = el("section", { class: "strip" }, el("div", { class: "strip-head" }, title, phases), chips);
  let drawn; // undefined: nothing yet; null: the prompt

  return {
    root,
    /** @param {import("./state.js").View} view */
    show(view) {
      const round = view.current;
      const lane = view.lanes.length - 1;
      if (round !== drawn) {
        drawn = round;
        chips.replaceChildren();
        setText(title, round ? T.roundTitle(round.index + 1) : T.prompt);
        setText(phases, round ? phaseText(view.lanes[lane].lane.trace, round.index) : "");
        chips.setAttribute("aria-label", title.textContent);
        if (round) chips.append(...draw(view.lanes[lane].lane.trace, round, lane));
      }
      for (const chip of chips.querySelectorAll("[data-node]")) {
        const here = view.focus && view.focus.lane === lane && view.focus.round === round.index && chip.dataset.node === String(view.focus.node);
        chip.classList.toggle("selected", Boolean(here) && view.chosen);
        chip.classList.toggle("focused", Boolean(here) && !view.chosen);
        chip.setAttribute("aria-pressed", String(Boolean(here)));
      }
    },
    /** Give the keyboard to the chip of `node`, if it is here. */
    focus(node) {
      chips.querySelector(`[data-node="${node}"]`)?.focus({ preventScroll: true });
    },
    /** Whether the keyboard is on one of the chips. */
    has: (element) => chips.contains(element),
  };
}

function phaseText(trace, index) {
  const row = list(trace?.rounds)[index];
  const part = (name) => number(row?.[name]) ?? 0;
  return row ? T.phases(part("draft_s"), part("verify_s"), part("judge_s") + part("commit_s")) : "";
}

function draw(trace, round, lane) {
  const nodes = list(trace?.rounds)[round.index]?.nodes ?? {};
  const branching = round.proposals.some((item) => item.parent !== item.node - 1);
  const parts = [];
  if (round.proposals.length) parts.push(el("span", { class: "chips-word" }, T.proposed));
  // At temperature 0 the judge's p and q are only 0 and 1, and the models' own say more; above it the judge's decide.
  const own = trace?.header?.settings?.temperature === 0;
  for (const item of round.proposals) {
    const drafted = number(list(nodes.model_q)[item.node]);
    const p = (own ? number(list(nodes.model_p)[item.node]) : null) ?? number(list(nodes.p)[item.node]);
    const q = own || drafted === null ? drafted : number(list(nodes.q)[item.node]);
    const facts = [p === null ? null : `p ${prob(p)}`, q === null ? null : `q ${prob(q)}`, branching ? `depth ${item.depth}` : null];
    parts.push(chip(item.text, item.verdict, item.node, round.index, lane, facts.filter(Boolean)));
  }
  const written = round.tokens.find((token) => token.node < 0);
  if (!round.proposals.length) parts.push(el("span", { class: "chips-word" }, T.nothing));
  if (written) parts.push(el("span", { class: "chips-word" }, T.wrote), chip(written.name, written.source, -1, round.index, lane, []));
  return parts;
}

function chip(text, verdict, node, round, lane, facts) {
  const word = el("span", { class: "chip-text" }, flat(text));
  const button = el(
    "button",
    { type: "button", class: `chip ${verdict}`, "data-node": node, "data-round": round, "data-lane": lane, "aria-label": T.chip(text, VERDICT[verdict], round + 1) },
    el("span", { class: "chip-top" }, el("span", { class: "mark", "aria-hidden": "true" }, MARK[verdict]), word),
  );
  if (facts.length) button.append(el("span", { class: "chip-facts" }, ...facts.map((fact) => el("span", {}, fact))));
  return button;
}
