// Cards A to D to print, cut and fold, for a class without devices.

import { el, say } from "./room.js";

/** @type {any} */ (document.getElementById("page")).replaceChildren(
  el("h1", {}, say("cards_title")), el("p", {}, say("cards_about")),
  el("div", { class: "folds" }, ..."ABCD".split("").map((letter) => el("div", { class: `fold ${letter}` }, letter))));
