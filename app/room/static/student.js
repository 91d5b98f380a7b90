// A student's page: joins with a code, then shows what the room's state allows.

import { announce, Clock, code, data, el, follow, here, inItself, line, number, pairs, post, root, say } from "./room.js";
import { any, download, parsed, plain, results } from "./answers.js";
import { LETTERS, letter, lettered } from "./bars.js";
import * as component from "./component.js";
import { own as ownRun } from "./own.js";
import { asked, drawn, verdict } from "./run.js";
import * as still from "./still.js";

const page = /** @type {any} */ (document.getElementById("page"));
const top = root.replace(/\/r$/, "");
/** @type {any} */
let view = null;
/** What is chosen and not locked in yet, of a number as it is typed, and for which vote. @type {{ of: string, given: any }} */
let chosen = { of: "", given: null };
/** @type {{ of: string, moves: any[] }} */
let own = { of: "", moves: [] };
let problem = "";
let lostOn = -1; // the step at which “I’m lost” was pressed
let sending = false;
const clock = new Clock();

function stay() {
  follow(`${here}/events?lang=${data.language}`, {
    seen: (found) => show(found),
    refused: (status, answer) => {
      page.replaceChildren(joining(answer.named ?? false, answer.error ?? "", status === 401));
      document.getElementById("name")?.focus();
    },
    away: (is) => line(is ? say(view?.mine?.[view.vote] ? "reconnecting" : "reconnecting_plain") : ""),
    gone: () => page.replaceChildren(el("h1", {}, say("gone"))),
  });
}

/** @param {boolean} named @param {string} wrong @param {boolean} [known] whether there is a room with this code */
function joining(named, wrong, known = false) {
  const typed = el("input", { id: "code", maxlength: 9, autocomplete: "off", autocapitalize: "characters", spellcheck: "false",
    value: code, "aria-describedby": "about" });
  const name = el("input", { id: "name", maxlength: 24, autocomplete: "off" });
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const wanted = typed.value.replace(/[\s-]/g, "").toUpperCase();
    if (!/^[A-Z0-9]{6}$/.test(wanted)) return tell(say("short"));
    if (wanted !== code) return location.assign(`${root}/${encodeURIComponent(wanted)}${location.search}`);
    const answer = await post(`${here}/join`, { name: name.value }).catch(() => ({ ok: false, error: say("reconnecting_plain") }));
    if (answer.ok) stay();
    else tell(answer.error);
  };
  const said = el("p", { class: "wrong", role: "alert" }, wrong);
  const typing = el("div", { hidden: known }, el("label", {}, say("code"), typed), el("p", { class: "small", id: "about" }, say("code_help")));
  const tell = (/** @type {string} */ text) => { said.textContent = text; typing.hidden = false; };
  return el("form", { onsubmit: send, class: "card" },
    el("h1", {}, say(known ? "join_room" : "join", { code })),
    typing,
    named && el("label", {}, say("nickname"), name),
    said, el("button", { class: "main" }, say("enter")), el("p", { class: "small" }, say(named ? "no_account_named" : "no_account")),
    inItself());
}

/** @param {any} found */
function show(found) {
  const before = view;
  view = found;
  const of = `${view.step}`;
  if (chosen.of !== of) {
    const last = view.mine?.[2]?.given ?? view.mine?.[1]?.given ?? null;
    chosen = { of, given: typeof last === "number" ? number(last) : last };
    problem = "";
  }
  if (own.of !== of) own = { of, moves: [] };
  clock.set(view);
  if (!before || before.step !== view.step || Boolean(before.run?.asking) !== Boolean(view.run?.asking)) announce(saying());
  redraw();
}

function saying() {
  const states = { open: "open_now", check: "open_now", locked: "locked", discuss: "discuss", follow: "follow", play: "play",
    ended: "ended_none", waiting: "waiting", run: "run" };
  if (view.run?.asking) return say("run_asked");
  if (view.run?.verdict) return verdict(view.run);
  if (["open", "check"].includes(view.state) && view.mine?.[view.vote]) return say("saved");
  return view.state === "reveal" ? `${say("it_was", { was: plain(view.outcome) })}`
    : say(states[/** @type {keyof typeof states} */ (view.state)]);
}

/** The page anew; the picture stays while it is the same one. */
function redraw() {
  const focus = document.activeElement?.id;
  const picture = document.getElementById("picture");
  const fresh = el("div", { class: "student" }, view.title && el("h1", { class: "title" }, view.title), ...PARTS[view.state]());
  const slot = fresh.querySelector("#picture");
  if (slot && picture && picture.dataset.of === slot.dataset.of) {
    picture.dataset.want = slot.dataset.want;
    slot.replaceWith(picture);
  }
  component.inPlace(slot && picture, () => page.replaceChildren(fresh));
  if (view.away) page.prepend(el("p", { class: "note" }, say("away"), " ", el("a", { href: `${top}/course` }, say("course"))));
  if (focus) document.getElementById(focus)?.focus();
  fetchPicture();
}

async function fetchPicture() {
  const slot = /** @type {any} */ (document.getElementById("picture"));
  if (!slot) return;
  const follow = () => view.state === "follow" && component.follow(slot, view.moved);
  if (slot.dataset.done === slot.dataset.want) return follow();
  const want = slot.dataset.want;
  slot.dataset.done = want;
  const mine = view.state === "play";
  const step = slot.dataset.step;
  const nodes = await still.load(`${here}/still/${step}?at=${view.step}`, mine && own.moves.length ? own.moves : null);
  // A later request may have been answered before this one.
  if (nodes && slot.dataset.done === want) still.draw(slot, nodes, mine ? act : null, mine);
  component.follow(slot, view.moved); // also a copy begins where the teacher's picture is
  follow();
}

/** @param {string} id @param {any} value */
function act(id, value) {
  const last = own.moves.at(-1);
  // The last of a control's values counts; every press does, and what is done to a tree.
  if (last && last[0] === id && value !== null && (Array.isArray(value) || typeof value !== "object")) own.moves.pop();
  own.moves.push([id, value]);
  redraw();
}

/** @param {string} step @param {string} want changes when the picture does */
function pictured(step, want) {
  return el("div", { id: "picture", class: "picture", "data-step": step, "data-of": `${step} ${view.title} ${view.state === "play"}`, "data-want": want });
}

const mine = () => [1, 2].filter((vote) => view.mine?.[vote]).map((vote) => {
  const { said, right } = view.mine[vote];
  const key = vote === 1 && view.mine[2] ? "you_said_then" : "you_said";
  return el("p", { class: "mine", html: say(key, { said: `<b>${said}</b>` }) + (right === undefined ? "" : ` ${say(right ? "right" : "wrong")}`) });
});

function lost() {
  const told = lostOn === view.step;
  return el("div", { class: "lost" }, el("button", { id: "lost", type: "button", disabled: told, onclick: async (/** @type {any} */ event) => {
    const step = view.step;
    event.target.disabled = true;
    const answer = await post(`${here}/lost`, { step }).catch(() => ({ ok: false }));
    if (answer.ok) {
      lostOn = step;
      announce(say("lost_sent"));
    }
    redraw();
  } }, say("lost")), told && el("p", { class: "small" }, say("lost_sent")));
}

const question = () => [view.hook && el("p", { class: "hook", html: view.hook }), view.still && pictured("predict", `${view.title}`),
  el("div", { class: "prose", html: view.prose })];

function asking() {
  const done = view.mine?.[view.vote];
  return [
    ...question(),
    view.vote === 2 && !done && view.mine?.[1] && el("p", {}, say("again")),
    ...mine(),
    ...(done ? [lettered(view), el("p", { class: "note" }, say("saved"))] : [form()]),
    view.left !== null && el("p", { class: "small" }, clock.node),
    lost(),
  ];
}

function form() {
  const several = view.kind === "several";
  const numeric = view.kind === "number";
  const ready = () => (several ? chosen.given?.length : chosen.given !== null && chosen.given !== "");
  const button = el("button", { class: "main", id: "lock", disabled: !ready() || sending }, say(sending ? "sending" : "lock"));
  /** @param {any} given */
  const choose = (given) => { chosen.given = given; button.disabled = !ready(); };
  const options = pairs(view.options).map(([key, text], at) => {
    const input = el("input", { id: `option-${at}`, type: several ? "checkbox" : "radio", name: "option", onchange: () => {
      if (!several) return choose(key);
      const others = (chosen.given ?? []).filter((/** @type {string} */ each) => each !== key);
      choose(input.checked ? [...others, key] : others);
    } });
    input.checked = several ? chosen.given?.includes(key) : chosen.given === key;
    return el("label", { class: "option" }, input, letter(text, at) && el("b", {}, letter(text, at)), el("span", { html: text }));
  });
  const field = numeric && el("input", { id: "number", inputmode: "decimal", autocomplete: "off", maxlength: 20, value: chosen.given ?? "",
    oninput: () => choose(field.value.trim()) });
  return el("form", { id: "answer", onsubmit: lock },
    el("fieldset", {}, el("legend", {}, say(view.part === "check" ? "check" : "question")),
      several && el("p", { class: "small" }, say("several")),
      numeric ? el("label", {}, say("number", view.scale), field) : null, ...options),
    el("p", { class: "wrong", role: "alert" }, problem), button,
    !numeric && el("p", { class: "small keys" }, say("keys", { count: options.length, last: LETTERS[options.length - 1] })));
}

/** @param {Event} event */
function lock(event) {
  event.preventDefault();
  const vote = view.vote, given = view.kind === "number" && chosen.given ? inScale(chosen.given) : chosen.given;
  if (given === undefined) {
    problem = say("no_number", view.scale);
    return redraw();
  }
  problem = "";
  if (given !== null) send(given, () => { view.mine = { ...view.mine, [vote]: { said: words(given), given } }; });
}

/** A typed number; undefined if it is none that the question takes. @param {string} text */
function inScale(text) {
  const found = parsed(text), { low, high } = view.scale;
  return found === null || found < low || found > high ? undefined : found;
}

/** @param {any} given @param {() => void} stored what to note once the server has it */
async function send(given, stored) {
  const step = view.step;
  if (sending) return;
  sending = true;
  redraw();
  for (;;) {
    try {
      const answer = await post(`${here}/vote`, { step, given });
      if (step !== view.step) break;
      if (answer.ok) {
        stored();
        announce(say("saved"));
      } else if (answer.status < 500) {
        problem = answer.error ?? say("late");
      }
      if (answer.ok || answer.status < 500) break;
    } catch {
      // The line is down; the answer is sent again until the server has it.
    }
    line(say("reconnecting_plain"));
    await new Promise((done) => setTimeout(done, 1000));
    if (step !== view.step) break;
  }
  sending = false;
  line("");
  redraw();
}

/** @param {any} given */
function words(given) {
  if (typeof given === "number") return number(given);
  const names = Object.fromEntries(view.options);
  return [given].flat().map((key) => names[key]).join(", ");
}

const outcome = () => [...mine(), !view.mine?.[1] && !view.mine?.[2] && el("p", {}, say("no_answer")),
  el("p", { html: say("it_was", { was: `<b>${view.outcome}</b>` }) }), view.why && el("div", { class: "card", html: view.why })];

/** The class's run, and the vote on its next guess. */
function together() {
  const { run } = view;
  /** @param {string} given @param {number} at */
  const answer = (given, at) => el("button", { id: `option-${at}`, type: "button", disabled: Boolean(run.mine) || sending, "aria-pressed": run.mine === given ? "true" : "false",
    onclick: () => send(given, () => { view.run = { ...view.run, mine: given }; }) }, say(`run_${given}`));
  return [el("h1", { class: "title" }, say("run")), ...drawn(run),
    run.asking && el("div", { class: "note", id: "vote" }, el("p", {}, el("b", {}, asked(run))),
      el("div", { class: "buttons" }, ...["accepted", "rejected"].map(answer)),
      run.mine ? el("p", {}, say("saved")) : null, el("p", { class: "wrong", role: "alert" }, problem), el("p", { class: "small" }, clock.node)),
    !run.asking && run.last && el("p", {}, say("you_said", { said: say(`run_${run.last.given}`) }), " ", say(run.last.right ? "right" : "wrong")), lost()];
}

/** @type {Record<string, () => any[]>} */
const PARTS = {
  waiting: () => [el("p", { class: "small" }, say("in_room", { code })), el("h1", {}, say(view.step ? "waiting_next" : "waiting"))],
  open: asking,
  check: asking,
  locked: () => [el("h2", {}, say("locked")), ...question(), lettered(view), ...mine(), !view.mine?.[view.vote] && el("p", {}, say("no_answer")), lost()],
  discuss: () => [el("h2", {}, say("discuss")), ...question(), lettered(view), ...mine(),
    view.left !== null && el("p", { class: "small" }, clock.node), lost()],
  reveal: () => [...outcome(), lost()],
  follow: () => [el("h2", {}, say("follow")), el("div", { html: view.text }),
    pictured(view.picture, JSON.stringify(component.drawing(view.moved)) + view.picture), ...mine(), lost()],
  play: () => [el("h2", {}, say("play")), el("div", { html: view.text }),
    pictured(view.picture, JSON.stringify(own.moves) + view.picture),
    el("button", { type: "button", id: "back", onclick: () => { own.moves = []; redraw(); } }, say("back_to_teacher")), ownRun(view), lost()],
  run: together,
  ended: () => [el("h1", {}, say(any(view) ? "ended" : "ended_none")), ...results(view),
    any(view) && el("button", { type: "button", onclick: () => download(view) }, say("download")),
    el("p", {}, el("a", { href: `${top}/course?inventory=after` }, say("after")))],
};

document.addEventListener("keydown", (event) => {
  const where = /** @type {any} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || (where.matches?.("input") && !["radio", "checkbox"].includes(where.type))) return;
  const at = event.key.length === 1 ? Math.max(LETTERS.indexOf(event.key.toUpperCase()), "123456789".indexOf(event.key)) : -1;
  const option = document.getElementById(`option-${at}`);
  if (option) {
    option.focus();
    option.click();
    event.preventDefault();
  } else if (event.key === "Enter" && !where.matches?.("button, a, summary")) {
    /** @type {any} */ (document.getElementById("answer"))?.requestSubmit();
    event.preventDefault();
  }
});

if (code) stay();
else page.replaceChildren(joining(false, ""));
