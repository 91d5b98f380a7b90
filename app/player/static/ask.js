/** The question of a run in which the visitor drafts: the text so far, and a line for the next words. */

/** @import { Question } from "../types.js" */

import { el, setText } from "./dom.js";
import { Q } from "./text.js";

/**
 * @param {(question: number, words: string) => Promise<string|null>} send submits the answer; resolves to a
 *   sentence if it was not taken
 * @returns the question's view: `root`, `show(message)`
 */
export function createAsk(send) {
  const text = el("p", { class: "ask-text" });
  const input = el("input", { type: "text", class: "ask-words", "aria-label": Q.title, autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
  const button = el("button", { type: "submit", class: "ask-send" }, Q.send);
  const hint = el("p", { class: "hint", "aria-live": "polite" });
  const line = el("div", { class: "ask-line" }, input, button);
  const root = el("form", { class: "ask", hidden: true, "aria-label": Q.title }, el("h2", {}, Q.title), text, line, hint);
  /** @type {Question|null} */
  let asked = null;

  function advise() {
    const grows = /[\p{L}\p{N}]$/u.test(asked?.text ?? "") && /^[\p{L}\p{N}]/u.test(input.value);
    setText(hint, grows ? Q.grows : Q.hint);
  }

  input.oninput = advise;
  root.onsubmit = async (event) => {
    event.preventDefault();
    if (!asked) return;
    const { question } = asked;
    button.disabled = true;
    const refused = await send(question, input.value);
    if (asked?.question !== question) return; // the next question has already arrived
    button.disabled = false;
    if (refused) setText(hint, refused);
    else input.value = "";
  };

  return {
    root,
    /** @param {Question|null} message null: no question is open */
    show(message) {
      asked = message;
      root.hidden = !message;
      root.closest(".player")?.classList.toggle("is-asking", message !== null); // covers what other lanes write
      if (!message) return;
      const said = String(message.text ?? "");
      setText(text, said.length > 200 ? `…${said.slice(-200)}` : said);
      input.maxLength = Number(message.most) || 500;
      input.value = "";
      button.disabled = false;
      advise();
      input.focus({ preventScroll: true });
      root.scrollIntoView({ block: "nearest" });
    },
  };
}
