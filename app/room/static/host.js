// The host's page: what to do next, the live bars, the lessons and what the class believes.

import { announce, code, countdown, data, el, follow, pairs, post, root, say } from "./room.js";
import { LETTERS, tallies } from "./bars.js";
import { drawn } from "./run.js";
import * as still from "./still.js";

const page = /** @type {any} */ (document.getElementById("page"));
/** @type {any} */
let view = null;
let problem = ""; // why the last press did nothing
let asked = false; // whether “Delete this room” was pressed once
/** @type {{ of: string, node: any, left: number | null }} */
let clock = { of: "", node: el("span"), left: null };
const ACTIONS = { close: "close", discuss: "start_discussion", again: "vote_again", reveal: "reveal", play: "let_play",
  verdict: "run_verdict", ask: "run_ask_next", on: "run_on", check: "ask_check", wait: "wait", end: "end" };
const starter = runStarter(); // kept while the page is drawn anew, so that what is typed stays

enter();

async function enter() {
  const secret = new URLSearchParams(location.hash.slice(1)).get("host") ?? "";
  const answer = await post(`${code}/host`, { secret }).catch(() => null);
  if (!answer) return setTimeout(enter, 1500);
  if (!answer.ok) return page.replaceChildren(el("h1", {}, answer.error ?? say("no_host")));
  // Out of the address, so that nobody reads it from a projected window.
  if (secret) {
    sessionStorage.setItem(`host-${code}`, secret);
    history.replaceState(null, "", location.pathname + location.search);
  }
  follow(`${code}/host/events`, {
    seen: (found) => { if (view?.step !== found.step) problem = ""; view = found; redraw(); },
    refused: (_status, refused) => page.replaceChildren(el("h1", {}, refused.error ?? say("no_host"))),
    away: (is) => { document.body.classList.toggle("away", is); if (is) announce(say("reconnecting_plain")); },
    gone: () => page.replaceChildren(el("h1", {}, say("deleted"))),
  });
}

/** @param {string} move @param {any} [more] */
async function drive(move, more = {}) {
  const answer = await post(`${code}/host/drive`, { move, step: view.step, ...more }).catch(() => ({ ok: false, error: say("reconnecting_plain") }));
  const said = answer.ok ? "" : answer.error ?? "";
  if (said !== problem) { problem = said; redraw(); }
  return answer.ok;
}

/** What the host does next, the usual step first in sight. */
function next() {
  const rest = view.lessons.filter((/** @type {any} */ each) => !each.parts.length);
  const chosen = rest[0];
  const may = (/** @type {string} */ move) => view.moves.includes(move);
  const buttons = [];
  const best = { open: "close", check: "close", locked: { explain: "discuss", discuss: "discuss", reveal: "reveal" }[/** @type {"explain"} */ (view.advice ?? "reveal")],
    discuss: "again", run: view.run?.asking ? "verdict" : "ask" }[/** @type {"open"} */ (view.state)];
  for (const [move, key] of Object.entries(ACTIONS)) {
    if (!may(move) || move === "end" || (move === "check" && !(view.state !== "waiting"))) continue;
    if (move === "check" && view.part === "check" && view.state === "reveal") continue;
    buttons.push(el("button", { id: `do-${move}`, type: "button", class: move === best ? "main" : "", onclick: () => drive(move) }, say(key)));
  }
  if (may("follow")) {
    for (const picture of view.pictures ?? []) {
      const key = view.state === "play" && picture === view.picture ? "call_back" : picture === "watch" ? "show_picture" : "show_change";
      buttons.push(el("button", { id: `do-${picture}`, type: "button", onclick: () => drive("follow", { picture }) }, say(key)));
    }
  }
  if (may("open") && chosen) {
    buttons.push(el("button", { id: "do-open", type: "button", class: best ? "" : "main", onclick: () => drive("open", { lesson: chosen.lesson }) },
      `${say("open_question")} · ${chosen.title}`));
  }
  if (["open", "check", "discuss"].includes(view.state) || view.run?.asking) {
    buttons.push(el("button", { id: "do-longer", type: "button", onclick: () => drive("longer") }, say("longer")));
  }
  return el("div", { class: "buttons" }, ...buttons);
}

function runStarter() {
  const prompt = el("input", { id: "prompt", maxlength: 500, autocomplete: "off", value: data.prompt ?? "" });
  const go = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (await drive("run", { prompt: prompt.value })) made.open = false;
  };
  const made = el("details", { id: "starter" }, el("summary", {}, say("run_title")), el("p", { class: "small" }, say("run_about")),
    el("form", { onsubmit: go }, el("label", {}, say("run_prompt"), prompt), el("p", {}, el("button", { id: "do-run" }, say("run_start")))));
  return made;
}

function running() {
  const { run, counted } = view;
  return [...drawn(run), run.asking && el("p", { id: "counted" }, say("run_counted", counted))];
}

function live() {
  if (view.run) return running();
  if (!view.tallies || view.state === "waiting") return [];
  return [el("div", { class: "prose", html: view.prose }), tallies(view, { marked: true, beliefs: view.beliefs }),
    ["follow", "play"].includes(view.state) && el("div", { id: "picture", class: "picture", "data-want": `${view.picture} ${JSON.stringify(view.moved)} ${view.lesson}`, "data-step": view.picture }),
    view.state === "follow" && el("p", { class: "small" }, say("point"))];
}

function cards() {
  if (view.kind !== "choice" || !["open", "check", "locked"].includes(view.state)) return null;
  const fields = pairs(view.options).map(([key], at) => /** @type {[string, any]} */ ([key, el("input", { id: `cards-${at}`, type: "number", min: 0, max: 999, value: 0 })]));
  const keep = () => drive("cards", { counts: Object.fromEntries(fields.map(([key, field]) => [key, Math.max(0, Math.round(Number(field.value)))])) });
  return el("details", { id: "cards" }, el("summary", {}, say("cards")),
    el("div", { class: "buttons" }, ...fields.map(([_key, field], at) => el("label", {}, `${LETTERS[at]} `, field)),
      el("button", { type: "button", onclick: keep }, say("cards_keep"))),
    el("p", {}, el("a", { href: `${root}/cards`, target: "_blank" }, say("print_cards"))));
}

function dashboard() {
  const rows = view.lessons.map((/** @type {any} */ each) => el("li", {},
    el("b", {}, each.title), each.lesson === view.lesson ? " ●" : "",
    view.moves.includes("open") && el("button", { type: "button", onclick: () => drive("open", { lesson: each.lesson }) }, say("open_question")),
    ...(each.parts.length ? each.parts.map(part) : [el("p", { class: "small" }, say("not_asked"))])));
  const pick = el("select", { id: "insert", "aria-label": say("insert_other"), onchange: () => pick.value && drive("insert", { lesson: pick.value }) },
    el("option", { value: "" }, say("insert_other")), ...pairs(view.others).map(([key, title]) => el("option", { value: key }, title)));
  return el("section", {}, el("h2", {}, say("dashboard")), el("ul", { class: "lessons" }, ...rows), pick);
}

/** @param {any} each */
function part(each) {
  return el("div", { class: "small" },
    el("p", {}, `${say(each.part === "check" ? "check" : "question")}: ${say(each.again ? "row" : "row_first", each)}`),
    each.belief && el("p", { html: say("mistake", { belief: each.belief }) }),
    each.helps && el("button", { type: "button", onclick: () => drive("insert", { lesson: each.helps[0] }) }, say("insert", { title: each.helps[1] })));
}

function remove() {
  const go = async () => {
    const answer = await post(`${code}/host/delete`).catch(() => ({ ok: false }));
    if (answer.ok) page.replaceChildren(el("h1", {}, say("deleted")));
  };
  const flip = (/** @type {boolean} */ is) => { asked = is; redraw(); };
  return asked
    ? [el("button", { id: "do-delete", type: "button", class: "danger", onclick: go }, say("delete_sure")), el("button", { type: "button", onclick: () => flip(false) }, say("keep"))]
    : [el("button", { id: "do-delete", type: "button", class: "danger", onclick: () => flip(true) }, say("delete"))];
}

function redraw() {
  const of = `${view.step} ${view.state} ${(view.left ?? null) === null}`;
  if (clock.of !== of || view.left > (clock.left ?? 0) + 5) {
    const node = el("span", { class: "clock" });
    clock = { of, node, left: view.left };
    setTimeout(() => countdown(node, view.left, view.run && ""));
  }
  clock.left = view.left;
  const focus = document.activeElement?.id;
  const kept = document.getElementById("picture");
  const open = Boolean(document.querySelector("#cards[open]"));
  const typing = open && kept === null && document.activeElement?.id.startsWith("cards-") && document.getElementById("cards");
  const secret = sessionStorage.getItem(`host-${code}`);
  const fresh = el("div", { class: "host" },
    el("p", { class: "strip" }, el("h1", { class: "title" }, `${say("host")} · ${code}`), el("span", { id: "state" }, say(`state_${view.state}`)),
      el("span", { id: "count" }, view.answered !== undefined ? say("answered", view) : say("here", view)),
      el("span", {}, say("lost_count", view)), clock.node),
    view.step === 0 && el("p", { class: "note" }, say("host_first")),
    view.advice && el("p", { class: "note", id: "advice" }, say(`advice_${view.advice}`)),
    el("p", { class: "wrong", role: "alert" }, problem), next(), ...live(), typing || cards(), view.challenge && el("p", { id: "ran" }, say("ran", view.challenge)),
    view.moves.includes("run") && starter, dashboard(),
    el("div", { class: "buttons always" },
      el("a", { href: `${root}/${code}/screen`, target: "_blank" }, say("projector")),
      secret && el("a", { href: `${root}/${code}/host#host=${secret}` }, say("host_link")),
      el("a", { href: `${root}/${code}/host/votes.csv` }, say("export_csv")), el("a", { href: `${root}/${code}/host/votes.json` }, say("export_json")),
      view.moves.includes("end") && el("button", { id: "do-end", type: "button", onclick: () => drive("end") }, say("end")), ...remove()));
  const slot = fresh.querySelector("#picture");
  if (slot && kept && kept.dataset.step === slot.dataset.step) {
    kept.dataset.want = slot.dataset.want;
    slot.replaceWith(kept);
  }
  page.replaceChildren(fresh);
  if (focus) document.getElementById(focus)?.focus();
  picture();
}

async function picture() {
  const slot = /** @type {any} */ (document.getElementById("picture"));
  if (!slot) return;
  if (slot.dataset.done === slot.dataset.want) return still.point(slot, view.pointer);
  const want = slot.dataset.want;
  slot.dataset.done = want;
  const nodes = await still.load(`${code}/still/${slot.dataset.step}?at=${view.step}`).catch(() => null);
  if (nodes && slot.dataset.done === want) still.draw(slot, nodes, view.state === "follow" ? (control, value) => drive("control", { control, value }) : null);
  slot.onclick = (/** @type {any} */ event) => {
    const where = view.state === "follow" ? still.pressed(slot, event) : null;
    if (where) drive("point", { where });
  };
  still.point(slot, view.pointer);
}
