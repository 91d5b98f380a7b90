/** The question of a run in which the visitor drafts: the text so far, and a line for the next words. */

/** @import { Question } from "../../types.js" */

import { el, setText } from "../dom/dom.js";
import { Q } from "../text/text.js";

const SPACED =
  /^(?!\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Thai}|\p{Script=Lao}|\p{Script=Khmer}|\p{Script=Myanmar})[\p{L}\p{N}]/u;

/**
 * Whether new words would usually follow the text after a space that neither has. Pure.
 * @param {string} text
 * @param {string} words
 */
export function wantsSpace(text, words) {
  if (!SPACED.test(words)) return false;
  return /[\p{L}\p{N},;:!?)\]}"”’%…]$/u.test(text) || (text.endsWith(".") && /^[\p{Lu}\p{N}]/u.test(words));
}

/**
 * @param {(question: number, words: string) => Promise<string|null>} send submits the answer; resolves to a
 *   sentence if it was not taken
 * @returns the question's view: `root`, `show(message)`
 */
export function createAsk(send) {
  const text = el("p", { class: "ask-text" });
  const input = el("input", {
    type: "text",
    class: "ask-words",
    "aria-label": Q.title,
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
  });
  const button = el("button", { type: "submit", class: "ask-send" }, Q.send);
  const hint = el("p", { class: "hint", "aria-live": "polite" });
  const space = el("button", { type: "button", class: "ask-space", hidden: true }, "␣");
  const line = el("div", { class: "ask-line" }, space, input, button);
  const root = el(
    "form",
    { class: "ask", hidden: true, "aria-label": Q.title },
    el("h2", {}, Q.title),
    text,
    line,
    hint,
  );
  /** @type {Question|null} */
  let asked = null;

  let joins = false; // whether the words continue the last one

  /** What is sent: with the space that is usually forgotten. */
  const words = () =>
    !joins && wantsSpace(asked?.text ?? "", input.value) ? ` ${input.value}` : input.value;

  function advise() {
    space.hidden = !wantsSpace(asked?.text ?? "", input.value);
    space.setAttribute("aria-pressed", String(!joins));
    space.setAttribute("aria-label", joins ? Q.noSpace : Q.space);
    space.title = joins ? Q.noSpace : Q.space;
    setText(hint, input.value ? Q.sent(words()) : Q.hint);
  }

  space.onclick = () => {
    joins = !joins;
    advise();
    input.focus({ preventScroll: true });
  };

  input.oninput = advise;
  root.onsubmit = async (event) => {
    event.preventDefault();
    if (!asked) return;
    const { question } = asked;
    button.disabled = true;
    const refused = await send(question, words());
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
      setText(
        text,
        (said.length > 200 ? `…${said.slice(-200)}` : said).replace(/ +$/, (run) => "␣".repeat(run.length)),
      );
      input.maxLength = Number(message.most) || 500;
      input.value = "";
      joins = false;
      button.disabled = false;
      advise();
      input.focus({ preventScroll: true });
      root.scrollIntoView({ block: "nearest" });
    },
  };
}
