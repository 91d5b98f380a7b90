/**
 * The guesses of the round in progress, in the lane: ghost text where it would continue the text, until each guess is
 * ticked or struck. Of a tree one line is shown: what was accepted, and the guess that is judged next with what follows it.
 *
 * @typedef {{node: number, text: string, state: "waiting"|"accepted"|"rejected"|"dropped"}} Guess `dropped`: it follows a
 *   rejected one, so that it cannot be accepted any more
 */

/** @import { Proposal, Round } from "../model/model.js" */

import { appendToken, el, setText } from "../dom/dom.js";
import { wasRead } from "../model/slots.js";
import { T, VERDICT } from "../text/text.js";

/**
 * The line of guesses of an unfinished round, and how many others wait beside it. Pure.
 * @param {Pick<Round, "proposals">} round as it was at a moment
 * @returns {{line: Guess[], others: number}}
 */
export function lineOf(round) {
  const read = round.proposals.filter(wasRead);
  /** @type {Guess[]} */
  const line = [];
  /** @param {Proposal} item @param {Guess["state"]} state */
  const add = (item, state) => line.push({ node: item.node, text: item.text, state });
  let parent = -1;
  let dropped = false;
  for (;;) {
    const siblings = read.filter((item) => item.parent === parent);
    const accepted = siblings.find((item) => item.verdict === "accepted");
    const rejected = siblings.filter((item) => item.verdict === "rejected");
    const waiting = siblings.find((item) => item.verdict === "waiting" || item.verdict === "unreached");
    if (accepted) add(accepted, "accepted");
    else {
      for (const item of rejected) add(item, "rejected");
      if (waiting) add(waiting, dropped ? "dropped" : "waiting");
    }
    const next = accepted ?? waiting ?? rejected.at(-1);
    if (!next) break;
    dropped ||= next.verdict === "rejected";
    parent = next.node;
  }
  const shown = new Set(line.map((item) => item.node));
  return {
    line,
    others: dropped ? 0 : read.filter((item) => item.verdict === "waiting" && !shown.has(item.node)).length,
  };
}

/**
 * @param {number} lane
 * @returns the line's view: `root`, `show(round, checked)`, which returns whether it changed
 */
export function createPendingGuesses(lane) {
  const root = el("span", { class: "draft", role: "group", "aria-label": T.guesses });
  const more = el("span", { class: "more" });
  /** @type {HTMLElement[]} */
  let chips = [];
  let drawn = "";

  /** @param {Guess} guess @param {number} round */
  function chipOf({ node, text }, round) {
    const chip = el("span", {
      class: "guess",
      "data-node": node,
      "data-lane": lane,
      "data-round": round,
      role: "button",
      tabindex: -1,
    });
    if (text === "") chip.dataset.sign = "◌";
    if (/^ \S{1,20}$/.test(text)) chip.dataset.word = "";
    else if (/^\S{1,20}$/.test(text)) chip.dataset.part = "";
    if (!/[\p{L}\p{N}]{2}/u.test(text)) chip.dataset.short = ""; // its mark says enough: a struck colon is another sign
    appendToken(chip, text);
    return chip;
  }

  return {
    root,
    /**
     * @param {Round|null} round the round in progress, as it was at its moment; null: none is
     * @param {boolean} checked whether the target has read the guesses
     */
    show(round, checked) {
      const { line, others } = round ? lineOf(round) : { line: [], others: 0 };
      const name = round ? `${round.index} ${line.map((guess) => guess.node)}` : "";
      const changed = name !== drawn;
      drawn = name;
      if (changed) {
        chips = round ? line.map((guess) => chipOf(guess, round.index)) : [];
        root.replaceChildren(...chips.flatMap((chip) => [chip, el("wbr")])); // a line may end between two
      }
      line.forEach(({ text, state }, at) => {
        const verdict = state === "dropped" ? "waiting" : state;
        chips[at].className = `guess ${state}${chips[at].classList.contains("blank") ? " blank" : ""}`;
        chips[at].setAttribute("aria-label", T.chip(text, VERDICT[verdict], (round?.index ?? 0) + 1, false));
      });
      root.classList.toggle("checked", checked && line.length > 0);
      if (others) {
        setText(more, T.more(others));
        more.title = T.moreGuesses(others);
        root.append(more);
      } else more.remove();
      return changed;
    },
  };
}
