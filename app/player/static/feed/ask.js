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

/** `root`, `show(message)`. */
export class Ask {
  text = el("p", { class: "ask-text" });
  input = el("input", {
    type: "text",
    class: "ask-words",
    "aria-label": Q.title,
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
  });
  hint = el("p", { class: "hint", "aria-live": "polite" });
  space = el("button", { type: "button", class: "ask-space", hidden: true }, "␣");
  /** @type {Question|null} */
  asked = null;
  joins = false; // whether the words continue the last one
  /** What is sent: with the space that is usually forgotten. */
  words = () =>
    !this.joins && wantsSpace(this.asked?.text ?? "", this.input.value)
      ? ` ${this.input.value}`
      : this.input.value;

  /**
   * @param {(question: number, words: string) => Promise<string|null>} send submits the answer; resolves to a
   *   sentence if it was not taken
   */
  constructor(send) {
    this.send = send;
    this.button = el("button", { type: "submit", class: "ask-send" }, Q.send);
    this.line = el("div", { class: "ask-line" }, this.space, this.input, this.button);
    this.root = el(
      "form",
      { class: "ask", hidden: true, "aria-label": Q.title },
      el("h2", {}, Q.title),
      this.text,
      this.line,
      this.hint,
    );
    this.space.onclick = () => {
      this.joins = !this.joins;
      this.advise();
      this.input.focus({ preventScroll: true });
    };
    this.input.oninput = () => this.advise();
    this.root.onsubmit = async (event) => {
      event.preventDefault();
      if (!this.asked) return;
      const { question } = this.asked;
      this.button.disabled = true;
      const refused = await this.send(question, this.words());
      if (this.asked?.question !== question) return; // the next question has already arrived
      this.button.disabled = false;
      if (refused) setText(this.hint, refused);
      else this.input.value = "";
    };
  }

  advise() {
    this.space.hidden = !wantsSpace(this.asked?.text ?? "", this.input.value);
    this.space.setAttribute("aria-pressed", String(!this.joins));
    this.space.setAttribute("aria-label", this.joins ? Q.noSpace : Q.space);
    this.space.title = this.joins ? Q.noSpace : Q.space;
    setText(this.hint, this.input.value ? Q.sent(this.words()) : Q.hint);
  }

  /** @param {Question|null} message null: no question is open */
  show(message) {
    this.asked = message;
    this.root.hidden = !message;
    this.root.closest(".player")?.classList.toggle("is-asking", message !== null); // covers what other lanes write
    if (!message) return;
    const said = String(message.text ?? "");
    setText(
      this.text,
      (said.length > 200 ? `…${said.slice(-200)}` : said).replace(/ +$/, (run) => "␣".repeat(run.length)),
    );
    this.input.maxLength = Number(message.most) || 500;
    this.input.value = "";
    this.joins = false;
    this.button.disabled = false;
    this.advise();
    this.input.focus({ preventScroll: true });
    this.root.scrollIntoView({ block: "nearest" });
  }
}
