// Starting a room: which lessons, and whether students may give a nickname.

import { data, el, post, root, say } from "./room.js";

const page = /** @type {any} */ (document.getElementById("page"));
const boxes = Object.entries(data.titles).map(([key, title]) => {
  const input = el("input", { type: "checkbox", value: key });
  return { key, input, label: el("label", { class: "option" }, input, el("span", {}, title)) };
});
const own = el("div", { hidden: true }, ...boxes.map(({ label }) => label));
const said = el("p", { class: "wrong", role: "alert" });
const names = el("input", { type: "checkbox", id: "named" });
const presets = ["short", "double", "all"].map((name) => {
  const input = el("input", { type: "radio", name: "order", value: name, id: `order-${name}`, onchange: () => choose(name) });
  return el("label", { class: "option" }, input, el("span", {}, say(`start_${name}`)));
});

/** @param {string} name */
function choose(name) {
  own.hidden = name !== "all";
  const wanted = name === "all" ? [] : data.presets[name];
  for (const { key, input } of boxes) input.checked = wanted.includes(key);
}

/** @param {Event} event */
async function start(event) {
  event.preventDefault();
  const kept = /** @type {any} */ (document.querySelector("input[name=order]:checked"))?.value ?? "short";
  const ticked = boxes.filter(({ input }) => input.checked).map(({ key }) => key);
  const lessons = kept === "all" ? ticked : data.presets[kept];
  const answer = await post("start", { lessons, language: data.language, named: names.checked }).catch(() => ({ ok: false, error: say("reconnecting_plain") }));
  if (!answer.ok) said.textContent = answer.error;
  else location.assign(`${root}/${answer.code}/host?lang=${data.language}#host=${answer.host}`);
}

page.replaceChildren(el("form", { class: "card", onsubmit: start },
  el("h1", {}, say("start")), el("p", {}, say("start_about")),
  el("fieldset", {}, el("legend", {}, say("start_order")), ...presets, own),
  el("label", { class: "option" }, names, el("span", {}, say("start_names"))),
  said, el("button", { class: "main" }, say("start_go"))));
/** @type {any} */ (document.getElementById("order-short")).checked = true;
choose("short");
