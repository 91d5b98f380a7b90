/** The help: keys and marks, in a modal dialog that closes with Escape. */

import { el } from "../dom/dom.js";
import { LEGEND, MARK, T } from "../text/text.js";

/** @returns `root`, `open()` */
export function createHelp() {
  const close = el(
    "button",
    { type: "button", class: "control close", "aria-label": T.close, title: T.close },
    "×",
  );
  const keys = el("dl", { class: "keys" });
  for (const [key, words] of T.keys)
    keys.append(el("dt", {}, ...key.split(" ").map((name) => el("kbd", {}, name))), el("dd", {}, words));
  const marks = el("ul", { class: "marks" });
  for (const [verdict, words] of LEGEND) {
    marks.append(
      el("li", {}, el("span", { class: `sample ${verdict}`, "aria-hidden": "true" }, MARK[verdict]), words),
    );
  }
  /** @param {readonly (readonly string[])[]} pairs @param {"i"|"code"} as */
  const glossary = (pairs, as) =>
    el(
      "dl",
      { class: "keys" },
      ...pairs.flatMap(([sign, meaning]) => [el("dt", {}, el(as, {}, sign)), el("dd", {}, meaning)]),
    );
  const root = el(
    "dialog",
    { class: "help-box", "aria-label": T.help },
    close,
    el("section", {}, el("h2", {}, T.marksTitle), marks),
    el("section", {}, el("h2", {}, T.wordsTitle), glossary(T.words, "i")),
    el("section", {}, el("h2", {}, T.signsTitle), glossary(T.signs, "code")),
    el("section", {}, el("h2", {}, T.keysTitle), keys, el("p", { class: "note" }, T.pace)),
  );
  close.onclick = () => root.close();
  root.onclick = (event) => {
    if (event.target === root) root.close();
  };
  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape") event.stopPropagation(); // it closes the help and nothing of the page behind it
  });
  function open() {
    if (root.open) return;
    root.showModal();
    root.scrollTop = 0;
  }
  return { root, open };
}
