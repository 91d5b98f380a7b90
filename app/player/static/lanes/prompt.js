/** The prompt before a lane's text, at least its end. Of a run that goes on from another one, its last token was forced. */

/** @import { Lane } from "../model/model.js" */

import { el, setText } from "../dom/dom.js";
import { list } from "../model/model.js";
import { quote, T } from "../text/text.js";

const SHOWN = 160; // characters of a long prompt's end

export function createPrompt() {
  const text = el("span");
  const forced = el("span", { class: "forced", role: "note" });
  return {
    root: el("span", { class: "prompt" }, text, forced),
    /** @param {Pick<Lane, "prompt"|"trace">} lane */
    show({ prompt, trace }) {
      const { branch, prompt_texts } = trace?.header ?? {};
      const token = branch ? String(list(prompt_texts).at(-1) ?? "") : "";
      const ends = token && prompt.endsWith(token) ? -token.length : prompt.length; // it may be a part of a character
      const before = prompt.slice(0, ends);
      setText(text, before.length > SHOWN ? `…${before.slice(-SHOWN)}` : before);
      setText(forced, prompt.slice(before.length));
      forced.hidden = !token;
      if (!token) return;
      const words = T.forced(quote(token), branch?.at ?? 0);
      forced.setAttribute("aria-label", words);
      forced.setAttribute("title", words);
    },
  };
}
