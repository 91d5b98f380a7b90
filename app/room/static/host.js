// The host's page: what to do next, the live bars, the lessons and what the class believes.

import { Clock, code, data, el, follow, here, line, pairs, post, root, say } from "./room.js";
import { LETTERS, tallies } from "./bars.js";
import * as component from "./component.js";
import { drawn } from "./run.js";
import * as still from "./still.js";

const page = /** @type {any} */ (document.getElementById("page"));
/** @type {any} */
let view = null;
let problem = ""; // why the last press did nothing
let asked = ""; // which of “End the room” and “Delete this room” was pressed once
const clock = new Clock();
const GONE = `gone-${code}`; // a note of this tab: the room has been deleted
const ACTIONS = { close: "close", discuss: "start_discussion", again: "vote_again", reveal: "reveal", play: "let_play",
  verdict: "run_verdict", ask: "run_ask_next", on: "run_on", check: "ask_check", wait: "wait" };
const STAYS = ["verdict", "longer"]; // during a vote on a run
const starter = runStarter(); // kept while the page is drawn anew, so that what is typed stays

enter();
addEventListener("hashchange", () => location.reload()); // the host's link, opened where its page already is

async function enter() {
  const secret = new URLSearchParams(location.hash.slice(1)).get("host") ?? "";
  const answer = await post(`${here}/host`, { secret }).catch(() => null);
  if (!answer || answer.status >= 500) {
    line(say("reconnecting_plain"));
    return setTimeout(enter, 1500);
  }
  line("");
  if (!answer.ok) return page.replaceChildren(el("h1", {}, sessionStorage.getItem(GONE) ? say("deleted") : answer.error ?? say("no_host")));
  // Out of the address, so that nobody reads it from a projected window.
  if (secret) {
    sessionStorage.setItem(`host-${code}`, secret);
    history.replaceState(null, "", location.pathname + location.search);
  }
  follow(`${here}/host/events`, {
    seen: (found) => {
      const on = view && view.step !== found.step;
      if (on) [problem, asked] = ["", ""];
      view = found;
      clock.set(view);
      redraw();
      if (on) scrollTo({ top: 0 }); // what to do next, and what the class sees, is above
    },
    refused: (_status, refused) => page.replaceChildren(el("h1", {}, refused.error ?? say("no_host"))),
    away: (is) => line(is ? say("reconnecting_plain") : ""),
    gone,
  });
}

function gone() {
  sessionStorage.setItem(GONE, "1");
  page.replaceChildren(el("h1", {}, say("deleted")));
}

/** @param {string} move @param {any} [more] */
async function drive(move, more = {}) {
  const answer = await post(`${here}/host/drive`, { move, step: view.step, ...more }).catch(() => ({ ok: false, error: say("reconnecting_plain") }));
  const said = answer.ok ? "" : answer.error ?? "";
  if (said !== problem) { problem = said; redraw(); }
  return answer.ok;
}

/**
 * A button that leads on. During a vote on a run it would leave that, so it is asked twice.
 * @param {string} id @param {string} text @param {string} move @param {any} [more] @param {string} [look]
 */
function leading(id, text, move, more = {}, look = "") {
  const leaves = view.run?.asking && !STAYS.includes(move), sure = asked === id;
  return el("button", { id, type: "button", class: look, onclick: () => (leaves && !sure ? flip(id) : drive(move, more)) },
    leaves && sure ? say("leave_vote", { to: text }) : text);
}

/** @param {string} to what was pressed once */
const flip = (to) => { asked = to; redraw(); };

/** The usual next step. */
function usual() {
  const after = { explain: "discuss", discuss: "discuss", reveal: "reveal" };
  const [first] = view.pictures ?? [];
  const turn = view.pictures?.includes("change") && view.picture !== "change" ? "change" : "play";
  return { open: "close", check: "close", locked: after[/** @type {"explain"} */ (view.advice ?? "reveal")], discuss: "again",
    reveal: view.part === "check" ? "open" : first ?? "check", follow: turn, play: "check",
    run: view.run?.asking ? "verdict" : view.moves.includes("ask") ? "ask" : "open" }[/** @type {"open"} */ (view.state)] ?? "open";
}

/** What the host can do next, the usual step first. */
function next() {
  const chosen = unasked();
  const may = (/** @type {string} */ move) => view.moves.includes(move);
  const best = usual();
  /** @type {[string, string, string, any?][]} */
  const found = Object.entries(ACTIONS).filter(([move]) => may(move) && !(move === "check" && view.part === "check" && view.state === "reveal"))
    .map(([move, key]) => [move, say(key), move]);
  for (const picture of may("follow") ? view.pictures ?? [] : []) {
    const key = view.state === "play" && picture === view.picture ? "call_back" : picture === "watch" ? "show_picture" : "show_change";
    found.push([picture, say(key), "follow", { picture }]);
  }
  if (may("open") && chosen) found.push(["open", `${say("open_question")} · ${chosen.title}`, "open", { lesson: chosen.lesson }]);
  if (["open", "check", "discuss"].includes(view.state) || view.run?.asking) found.push(["longer", say("longer"), "longer"]);
  found.sort(([one], [other]) => Number(other === best) - Number(one === best));
  /** @param {typeof found} some @param {string} [look] */
  const row = (some, look = "buttons") => el("div", { class: look }, ...some.map(([name, text, move, more]) => leading(`do-${name}`, text, move, more, name === best ? "main" : "")));
  // What belongs to a vote on a run comes first, and what leaves it stands apart.
  const apart = view.run?.asking ? found.filter(([, , move]) => !STAYS.includes(move)) : [];
  return [row(found.filter((each) => !apart.includes(each))), apart.length && row(apart, "buttons apart")];
}

/** The first lesson whose question has not been asked. */
const unasked = () => view.lessons.find((/** @type {any} */ each) => !each.parts.length);

function runStarter() {
  /** The families that can run: name, short name, a prompt that suits it. @type {string[][]} */
  const models = data.models ?? [["", "", ""]];
  const prompts = models.map(([, , text]) => text);
  const prompt = el("input", { id: "prompt", maxlength: 500, autocomplete: "off", value: prompts[0] });
  const model = el("select", { id: "model", onchange: () => {
    if (prompts.includes(prompt.value)) prompt.value = prompts[model.selectedIndex];
  } }, ...models.map(([name, short]) => el("option", { value: name }, short)));
  const go = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (view.run?.asking && asked !== "do-run") return flip("do-run");
    if (await drive("run", { prompt: prompt.value, model: model.value })) made.open = false;
  };
  const made = el("details", { id: "starter" }, el("summary", {}, say("run_title")), el("p", { class: "small" }, say("run_about")),
    el("form", { onsubmit: go }, models.length > 1 && el("label", {}, say("run_models"), el("div", {}, model)), el("label", {}, say("run_prompt"), prompt), el("p", {}, el("button", { id: "do-run" }, say("run_start")))));
  return made;
}

function running() {
  const { run, counted } = view;
  return [...drawn(run, "run_ready_host"), run.asking && el("p", { id: "counted" }, say("run_counted", counted))];
}

function live() {
  if (view.run) return running();
  if (!view.tallies || view.state === "waiting") return [];
  return [el("div", { class: "prose", html: view.prose }), tallies(view, { marked: true, beliefs: view.beliefs }),
    view.challenge && el("p", { id: "ran" }, say("ran", view.challenge))];
}

/** The picture that the class follows. */
function followed() {
  if (!["follow", "play"].includes(view.state)) return [];
  return [el("div", { id: "picture", class: "picture", "data-step": view.picture, role: "group", "aria-label": say("picture") })];
}

function cards() {
  if (view.kind !== "choice" || !["open", "check", "locked"].includes(view.state)) return [];
  const fields = pairs(view.options).map(([key], at) => /** @type {[string, any]} */ ([key, el("input", { id: `cards-${at}`, type: "number", min: 0, max: 999, value: 0 })]));
  const keep = () => drive("cards", { counts: Object.fromEntries(fields.map(([key, field]) => [key, Math.max(0, Math.round(Number(field.value)))])) });
  return [el("details", { id: "cards" }, el("summary", {}, say("cards")),
    el("div", { class: "buttons" }, ...fields.map(([_key, field], at) => el("label", {}, `${LETTERS[at]} `, field)),
      el("button", { type: "button", onclick: keep }, say("cards_keep"))),
    el("div", { class: "buttons" }, el("a", { href: `${root}/cards?lang=${data.language}`, target: "_blank" }, say("print_cards"))))];
}

function dashboard() {
  const rows = view.lessons.map((/** @type {any} */ each) => el("li", {},
    el("b", {}, each.title), each.lesson === view.lesson ? " ●" : "",
    view.moves.includes("open") && leading(`open-${each.lesson}`, say(each.parts.length ? "open_again" : "open_question"), "open", { lesson: each.lesson }),
    ...(each.parts.length ? each.parts.map(part) : [el("p", { class: "small" }, say("not_asked"))])));
  return [el("h2", {}, say("dashboard")), el("ul", { class: "lessons" }, ...rows)];
}

function others() {
  const pick = el("select", { id: "insert", "aria-label": say("insert_other"), onchange: () => pick.value && drive("insert", { lesson: pick.value }) },
    el("option", { value: "" }, say("insert_other")), ...pairs(view.others).map(([key, title]) => el("option", { value: key }, title)));
  return [pick];
}

const projector = () => el("a", { href: `${root}/${here}/screen?lang=${data.language}`, target: "_blank" }, say("projector"));

/** The host's link for a phone; it is drawn only when it is wanted, as the window may be projected. */
function phone() {
  const secret = sessionStorage.getItem(`host-${code}`);
  const made = el("details", { id: "phone", ontoggle: () => {
    if (made.open && !made.querySelector("img")) made.append(el("img", { src: `${root}/${here}/host/qr.svg?lang=${data.language}`, alt: say("host_link"), width: 240, height: 240 }));
  } }, el("summary", {}, say("phone")), el("p", {}, say("phone_about")),
  secret && el("div", { class: "buttons" }, el("a", { href: `${root}/${here}/host?lang=${data.language}#host=${secret}` }, say("host_link"))));
  return [made];
}

/** @param {any} each */
function part(each) {
  return el("div", { class: "small" },
    el("p", {}, `${say(each.part === "check" ? "check" : "prediction")}: ${say(each.again ? "row" : "row_first", each)}`),
    each.belief && el("p", { html: say("mistake", { belief: each.belief }) }),
    each.helps && view.state !== "ended" && el("button", { id: `helps-${each.helps[0]}`, type: "button", onclick: () => drive("insert", { lesson: each.helps[0] }) }, say("insert", { title: each.helps[1] })));
}

/** What ends the lesson for everybody is asked twice. */
function always() {
  const go = async () => {
    const answer = await post(`${here}/host/delete`).catch(() => ({ ok: false }));
    if (answer.ok) gone();
  };
  /** @param {string} what @param {string} look @param {() => any} onclick */
  const twice = (what, look, onclick) => el("button", { id: `do-${what}`, type: "button", class: look,
    onclick: asked === what ? onclick : () => flip(what) }, say(asked === what ? `${what}_sure` : what));
  return [view.moves.includes("end") && asked !== "delete" && twice("end", asked === "end" ? "danger" : "", () => drive("end")),
    asked !== "end" && twice("delete", "danger", go),
    ["end", "delete"].includes(asked) && el("button", { id: "keep", type: "button", onclick: () => flip("") }, say("keep"))];
}

/** The page's parts: what each depends on, and how it is made. Votes arrive while the host types or chooses elsewhere.
 * @type {Record<string, [() => any, () => any[]]>} */
const PARTS = {
  strip: [() => [view.state, view.answered, view.of, view.here, view.lost, clock.turns], () => [el("p", { class: "strip" },
    el("h1", { class: "title" }, `${say("host")} · ${code}`), el("span", { id: "state" }, say(`state_${view.state}`)),
    el("span", { id: "count" }, view.answered !== undefined ? say("answered", view) : say("here", view)),
    el("span", {}, say("lost_count", view)), clock.node)]],
  notes: [() => [view.step === 0, view.state === "ended", view.advice, problem], () => [
    view.step === 0 && el("div", { class: "note" }, say("host_first"), el("div", { class: "buttons" }, projector())),
    view.state === "ended" && el("p", { class: "note" }, say("host_ended")),
    view.advice && el("p", { class: "note", id: "advice" }, say(`advice_${view.advice}`)),
    el("p", { class: "wrong", role: "alert" }, problem)]],
  next: [() => [view.moves, view.state, view.part, view.picture, view.pictures, view.advice, unasked()?.lesson, view.run?.asking, asked], next],
  followed: [() => [view.state, view.lesson, view.picture], followed],
  live: [() => [view.state, view.lesson, view.part, view.tallies, view.run, view.counted, view.challenge], live],
  cards: [() => [view.kind, view.state, view.step], cards],
  starter: [() => [view.moves.includes("run"), view.run?.asking && asked === "do-run"], () => {
    const go = starter.querySelector("#do-run");
    if (go) go.textContent = view.run?.asking && asked === "do-run" ? say("leave_vote", { to: say("run_start") }) : say("run_start");
    return [view.moves.includes("run") && starter];
  }],
  dashboard: [() => [view.lessons, view.lesson, view.moves.includes("open"), view.state === "ended", view.run?.asking, asked], dashboard],
  others: [() => [view.others, view.state === "ended"], () => (view.state === "ended" ? [] : others())],
  phone: [() => 0, phone],
  files: [() => view.state === "ended", () => [el("div", { class: "buttons" }, view.state !== "ended" && projector(),
    el("a", { href: `${root}/${here}/host/votes.csv` }, say("export_csv")), el("a", { href: `${root}/${here}/host/votes.json` }, say("export_json")))]],
  always: [() => [asked, view.moves.includes("end")], () => [el("div", { class: "buttons always" }, ...always())]],
};
/** What each part was last made from. @type {Map<string, string>} */
const made = new Map();

function redraw() {
  if (!page.querySelector(".host")) {
    made.clear();
    page.replaceChildren(el("div", { class: "host" }, ...Object.keys(PARTS).map((name) => el("div", { id: `part-${name}`, tabindex: -1 }))));
  }
  const focus = document.activeElement?.id, within = document.activeElement?.closest("[id^=part-]")?.id;
  for (const [name, [depends, make]] of Object.entries(PARTS)) {
    const key = JSON.stringify(depends());
    if (made.get(name) === key) continue;
    made.set(name, key);
    document.getElementById(`part-${name}`)?.replaceChildren(...make().filter(Boolean));
  }
  // A button that led on has been removed: from its place the next Tab reaches the usual next step.
  if (focus && document.activeElement?.id !== focus) (document.getElementById(focus) ?? document.getElementById(within ?? ""))?.focus();
  picture();
}

async function picture() {
  const slot = /** @type {any} */ (document.getElementById("picture"));
  if (!slot) return;
  const want = `${view.picture} ${JSON.stringify(component.drawing(view.moved))} ${view.lesson}`;
  const follow = () => component.follow(slot, view.moved);
  if (slot.dataset.done === want) return follow();
  slot.dataset.done = want;
  const nodes = await still.load(`${here}/still/${slot.dataset.step}?at=${view.step}`);
  if (nodes && slot.dataset.done === want) still.draw(slot, nodes, view.state === "follow" ? (control, value) => drive("control", { control, value }) : null);
  follow();
}
