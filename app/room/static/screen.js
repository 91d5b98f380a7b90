// The projector's page: the code to join with, the question and how many have answered, bars once they are revealed.

import { announce, Clock, data, el, follow, here as place, HOST, line, root, say } from "./room.js";
import { lettered, tallies } from "./bars.js";
import { fit } from "./fit.js";
import * as component from "./component.js";
import { asked, drawn } from "./run.js";
import * as still from "./still.js";

const page = /** @type {any} */ (document.getElementById("page"));
/** @type {any} */
let view = null;
const clock = new Clock();
let before = "";
fit(page);

follow(`${place}/screen/events`, {
  seen: (found) => { view = found; redraw(); },
  refused: (_status, answer) => page.replaceChildren(el("h1", {}, answer.error ?? "")),
  away: (is) => line(is ? say("reconnecting_plain") : ""),
  gone: () => page.replaceChildren(el("h1", {}, say("gone"))),
});

const here = () => (view.here === 1 ? say("here_one") : say("here", view));

function joining() {
  return el("div", { class: "joining" },
    el("div", {}, el("h1", { class: "title" }, say("go_to")), el("p", { class: "address" }, (data.address ?? `${location.origin}${root}`).replace(/^https?:\/\//, "")),
      el("p", {}, say("and_type")), el("p", { class: "code" }, view.code), el("p", { id: "here" }, here()),
      !data.address && el("p", { class: "note" }, say("only_here", { host: HOST }))),
    data.address && el("img", { src: `${root}/${place}/qr.svg`, alt: say("qr"), width: 320, height: 320 }));
}

function strip() {
  return el("p", { class: "strip" }, el("b", {}, view.code), el("h1", { class: "title" }, view.title ?? say("run")), el("span", { id: "count" },
    ["open", "check", "locked"].includes(view.state) || view.run?.asking ? say("answered", view) : here()), clock.node);
}

function question() {
  return [
    view.hook && el("p", { class: "hook", html: view.hook }),
    el("div", { class: "prose", html: view.prose }),
    el("div", { class: "asked" }, view.still && pictured("predict", `${view.title}`),
      el("div", {}, view.kind === "several" && el("p", {}, say("several")), lettered(view))),
  ];
}

/** @param {string} step @param {string} want */
const pictured = (step, want) => el("div", { id: "picture", class: "picture", "data-step": step, "data-want": `${step} ${want}` });

const followed = () => pictured(view.picture, JSON.stringify(component.drawing(view.moved)) + view.title);

/** The students' trees, once one has been run: before, nothing of it is on the big screen. */
function challenge() {
  const { best, ran } = view.challenge;
  return ran > 0 && el("section", { id: "challenge" }, el("h2", {}, say("challenge", view.challenge)), el("p", { class: "small" }, say("ran", view.challenge)),
    el("ol", {}, ...best.map((/** @type {any} */ each) =>
      el("li", {}, say("challenge_line", { ...each, speed: Math.round(each.speed), per_pass: Number(each.per_pass.toFixed(2)) })))));
}

/** @type {Record<string, () => any[]>} */
const PARTS = {
  waiting: () => [joining()],
  open: question,
  check: question,
  locked: () => [el("h2", {}, say("closed")), ...question()],
  discuss: () => [el("h2", {}, say("discuss_screen")), ...question()],
  reveal: () => [el("div", { class: "prose", html: view.prose }), tallies(view, { marked: true }),
    el("p", { html: say("it_was", { was: `<b>${view.outcome}</b>` }) }), el("div", { class: "why", html: view.why })],
  follow: () => [el("div", { class: "prose", html: view.text }), followed()],
  play: () => [el("h2", {}, say("playing")), challenge(), followed()],
  run: () => [...drawn(view.run), view.run.asking && el("p", { class: "note" }, asked(view.run))],
  ended: () => [el("h1", {}, say("thanks"))],
};

function redraw() {
  clock.set(view);
  if (before !== view.state) announce(say(`state_${view.state}`));
  before = view.state;
  const kept = document.getElementById("picture");
  const fresh = el("div", {}, view.state === "waiting" || view.state === "ended" ? null : strip(), ...PARTS[view.state]());
  const slot = fresh.querySelector("#picture");
  if (slot && kept && kept.dataset.step === slot.dataset.step && kept.dataset.title === view.title) {
    kept.dataset.want = slot.dataset.want;
    slot.replaceWith(kept);
  }
  component.inPlace(slot && kept, () => page.replaceChildren(fresh));
  picture();
}

async function picture() {
  const slot = /** @type {any} */ (document.getElementById("picture"));
  if (!slot) return;
  slot.dataset.title = view.title;
  if (slot.dataset.done !== slot.dataset.want) {
    const want = slot.dataset.want;
    slot.dataset.done = want;
    const nodes = await still.load(`${place}/still/${slot.dataset.step}?at=${view.step}`);
    if (nodes && slot.dataset.done === want) still.draw(slot, nodes, null);
  }
  component.follow(slot, view.moved);
}
