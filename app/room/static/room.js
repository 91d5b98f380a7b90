// What every page of a room is made with: its words, elements, requests, and the stream that it follows.

const held = document.getElementById("data");
export const data = held ? JSON.parse(held.textContent ?? "{}") : { words: {} };
const path = globalThis.location?.pathname ?? "/r";
/** The address of the rooms, without the app's own root in front of it. */
export const root = path.replace(/\/r(\/.*)?$/, "/r");
const named = path.slice(root.length + 1).split("/")[0] ?? "";
/** The code in the address, or "". */
export const code = plainly(named).toUpperCase();
/** The same as part of an address. */
export const here = encodeURIComponent(code);
export const RETRY_MS = 1000;
/** What makes a server listen to other computers. */
export const HOST = "HOST=0.0.0.0 make run";

/** @param {string} part of an address: whatever somebody typed */
function plainly(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** A number as the page's language writes it. @param {number} value */
export const number = (value) => new Intl.NumberFormat(data.language ?? "en", { maximumFractionDigits: 6, useGrouping: false }).format(value);

/** A share as the page's language writes it: 50%. @param {number} value */
export const percent = (value) => new Intl.NumberFormat(data.language ?? "en", { style: "percent" }).format(value);

/** @param {string} key @param {Record<string, any>} [values] */
export function say(key, values = {}) {
  return fill(data.words[key] ?? key, values);
}

/** @param {string} text @param {Record<string, any>} values */
export function fill(text, values) {
  const shown = (/** @type {any} */ value) => (typeof value === "number" ? number(value) : String(value));
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? shown(values[name]) : whole));
}

/**
 * An element. Properties: `class`, `html` (already safe markup from the server), `on…` listeners, attributes.
 * @param {string} tag @param {Record<string, any>} [given] @param {...(Node | string | null | undefined | false)} inside
 * @returns {any}
 */
export function el(tag, given = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "html") made.innerHTML = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...inside.filter((each) => each !== null && each !== undefined && each !== false));
  return made;
}

/** A refusal of the server's in the page's language. @param {string | undefined} error */
const refusal = (error) => data.refused?.[error ?? ""] ?? error;

/** @param {string} where below the room's address @param {any} [body] */
export async function post(where, body = {}) {
  const answer = await fetch(`${root}/${where}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await answer.text();
  const found = text.startsWith("{") ? JSON.parse(text) : {};
  return { ok: answer.ok, status: answer.status, ...found, error: refusal(found.error) };
}

/**
 * The parts of an event stream that are whole, and the rest.
 * @param {string} text
 * @returns {[{ event: string, data: string }[], string]}
 */
export function events(text) {
  const parts = text.split("\n\n");
  const rest = parts.pop() ?? "";
  const found = [];
  for (const part of parts) {
    const lines = part.split("\n").filter((line) => !line.startsWith(":"));
    /** @param {string} name */
    const of = (name) => lines.filter((line) => line.startsWith(`${name}: `)).map((line) => line.slice(name.length + 2));
    if (lines.length) found.push({ event: of("event")[0] ?? "message", data: of("data").join("\n") });
  }
  return [found, rest];
}

/**
 * Follow a stream of views; it comes back by itself after an interruption.
 * `seen` gets each view; `refused` a status and its sentence, after which nothing is tried again; `away` whether the
 * connection is interrupted; `gone` that the room was deleted.
 * @param {string} where
 * @param {{ seen: (view: any) => void, refused: (status: number, answer: any) => void, away: (is: boolean) => void,
 *   gone: () => void }} to
 */
export async function follow(where, to) {
  for (;;) {
    try {
      const answer = await fetch(`${root}/${where}`, { headers: { accept: "text/event-stream" } });
      if (answer.ok && answer.body && answer.headers.get("content-type")?.startsWith("text/event-stream")) {
        to.away(false);
        const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
        for (let rest = ""; ; ) {
          const { value, done } = await reader.read();
          if (done) break;
          const [found, left] = events(rest + value);
          rest = left;
          for (const each of found) {
            if (each.event === "gone") return to.gone();
            if (each.event === "join") return to.refused(401, JSON.parse(each.data));
            to.seen(JSON.parse(each.data));
          }
        }
      } else if (answer.status < 500 && answer.status !== 429) {
        const found = await answer.json().catch(() => ({}));
        return to.refused(answer.status, { ...found, error: refusal(found.error) ?? say("refused_unknown") });
      }
    } catch {
      // The network, or the server while it restarts; what follows tries again.
    }
    to.away(true);
    await new Promise((done) => setTimeout(done, RETRY_MS * (0.7 + Math.random())));
  }
}

/** The course's languages, each named in itself; nothing while there is one. */
export function inItself() {
  if (data.languages.length < 2) return null;
  return el("p", {}, ...data.languages.map((/** @type {string} */ name) => el("a", { href: `?lang=${name}`, lang: name, class: "language",
    "aria-current": name === data.language && "true" }, new Intl.DisplayNames([name], { type: "language" }).of(name) ?? name)));
}

/** What the server sent, as a list of pairs. @param {any} found @returns {[any, any][]} */
export const pairs = (found) => found;

/** Say that the line is down, or, with nothing, that it is back; the pages of hosts and projectors say it as well. @param {string} text */
export function line(text) {
  document.body.classList.toggle("away", Boolean(text));
  if (text && !document.querySelector(".reconnect")) document.body.append(el("p", { class: "reconnect", "aria-hidden": "true" }, say("reconnecting_plain")));
  if (text) announce(text);
}

/** The page's one place that is read aloud. @param {string} text */
export function announce(text) {
  const place = document.getElementById("status");
  if (place && place.textContent !== text) place.textContent = text;
}

/** The clock of a page that is drawn anew while it runs: it is set when a step has begun, or has got more time. */
export class Clock {
  of = "";
  end = 0;
  turns = 0; // how often it was set
  /** @type {any} */
  node = el("span");

  /** @param {any} view */
  set(view) {
    const left = view.left ?? null, end = left === null ? 0 : performance.now() + left * 1000;
    const of = `${view.step} ${view.state} ${left === null}`;
    if (of === this.of && Math.abs(end - this.end) < 2000) return;
    [this.of, this.end, this.node] = [of, end, el("span", { class: "clock" })];
    this.turns += 1;
    countdown(this.node, left, view.run && "");
  }
}

/**
 * A clock that counts down from what the server said.
 * @param {any} place an element @param {number | null | undefined} left seconds @param {string} [up] what it says then
 */
export function countdown(place, left, up = say("time_up")) {
  const end = performance.now() + (left ?? 0) * 1000;
  const show = () => {
    if (!place.isConnected && place.dataset.shown) return;
    place.dataset.shown = "1";
    const now = Math.ceil((end - performance.now()) / 1000);
    place.textContent = now > 0 ? say("seconds", { left: now }) : up;
    if (now > 0) setTimeout(show, 250);
  };
  if (left !== null && left !== undefined) show();
}
