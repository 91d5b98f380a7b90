// Starting a room: which lessons, in which language, and whether students may give a nickname.

import { data, el, HOST, inItself, post, root, say } from "./room.js";

const page = /** @type {any} */ (document.getElementById("page"));
/** The lessons of one's own choice, in the order in which they were ticked. @type {string[]} */
let ticked = [];
const boxes = Object.entries(data.titles).map(([key, title]) => {
  const place = el("b", {});
  const input = el("input", { type: "checkbox", value: key, onchange: () => {
    ticked = input.checked ? [...ticked, key] : ticked.filter((each) => each !== key);
    for (const box of boxes) box.place.textContent = ticked.includes(box.key) ? `${ticked.indexOf(box.key) + 1}.` : "";
  } });
  return { key, place, label: el("label", { class: "option" }, input, place, el("span", {}, title)) };
});
const own = el("div", { hidden: true }, el("p", { class: "small" }, say("start_own")), ...boxes.map(({ label }) => label));
const said = el("p", { class: "wrong", role: "alert" });
const names = el("input", { type: "checkbox", id: "named" });
const presets = ["brief", "short", "double", "all"].map((name) => {
  const input = el("input", { type: "radio", name: "order", value: name, id: `order-${name}`, onchange: () => { own.hidden = name !== "all"; } });
  const lessons = name === "all" ? "" : data.presets[name].map((/** @type {string} */ key) => data.titles[key]).join(", ");
  return el("label", { class: "option" }, input, el("span", {}, say(`start_${name}`), lessons && el("span", { class: "small" }, lessons)));
});

/** @param {Event} event */
async function start(event) {
  event.preventDefault();
  const kept = /** @type {any} */ (document.querySelector("input[name=order]:checked"))?.value ?? "short";
  const lessons = kept === "all" ? ticked : data.presets[kept];
  const answer = await post("start", { lessons, language: data.language, named: names.checked }).catch(() => ({ ok: false, error: say("reconnecting_plain") }));
  if (!answer.ok) said.textContent = answer.error;
  else location.assign(`${root}/${answer.code}/host?lang=${data.language}#host=${answer.host}`);
}

page.replaceChildren(el("form", { class: "card", onsubmit: start },
  el("h1", {}, say("start")), !data.address && el("p", { class: "note", id: "only-here" }, say("only_here", { host: HOST })), el("p", {}, say("start_about")),
  ...data.rooms.map((/** @type {string} */ code) => el("p", {}, el("a", { href: `${root}/${code}/host?lang=${data.language}` }, say("start_back", { code })))), inItself(),
  el("fieldset", {}, el("legend", {}, say("start_order")), ...presets, own),
  el("label", { class: "option" }, names, el("span", {}, say("start_names"), el("span", { class: "small" }, say("start_names_about")))),
  said, el("button", { class: "main" }, say("start_go"))));
/** @type {any} */ (document.getElementById("order-short")).checked = true;
