// A picture's components, each in a shadow root: the tree builder, and the player, which follows the host's.

import { el, root } from "./room.js";

/** @typedef {((id: string, value: any) => void) | null} Move */

const AGAIN_MS = 2000; // by then a player has read its traces
const LENT = ["ArrowRight", "ArrowLeft", "Home", "End", " "]; // keys that a player takes from the whole page
const PRESSES = ["pointerdown", "mousedown", "click", "keydown", "input", "change"];

/**
 * Without `move` it is only shown; `own` is one that no class follows.
 * @param {any} node @param {Move} move @param {boolean} own
 */
export function component(node, move, own) {
  const host = el("div", { class: "drawn", "data-id": node.id });
  const shadow = host.attachShadow({ mode: "open" });
  const style = el("style");
  style.textContent = node.css;
  const inner = el("div", { class: node.module === "player" ? "specdec-player" : "builder" });
  const outer = el("div", {}, inner);
  shadow.append(style, outer);
  if (node.module === "player") playing(host, inner, node, move, own);
  else building(host, outer, node, move);
  return host;
}

/** @param {any} host @param {any} outer @param {any} node @param {Move} move */
function building(host, outer, node, move) {
  host.again = (/** @type {any} */ { data: tree }, /** @type {Move} */ act) => {
    const setTriggerValue = (/** @type {string} */ _name, /** @type {any} */ done) => act?.(node.id, { do: done.do, path: done.path });
    return import(`${root}/tree_builder.js`).then((found) => found.default({ data: tree, parentElement: outer, setTriggerValue }));
  };
  host.again(node, move);
}

/**
 * With `move` it leads, and says where it stands; without, it goes where it is told, and takes no press. It stays the same
 * one while the picture is drawn anew.
 * @param {any} host @param {any} inner @param {any} node @param {Move} move @param {boolean} own
 */
function playing(host, inner, node, move, own) {
  /** @type {any} */
  let player = null;
  let data = { ...node.data, autoplay: own && node.data.autoplay }, act = move;
  /** @type {any} */
  let later;
  const update = (/** @type {any} */ next) => { data = next; player?.update(data); };
  host.dataset.role = own ? "own" : move ? "leads" : "follows";
  host.again = (/** @type {any} */ next, /** @type {Move} */ now) => {
    act = now;
    update({ ...next.data, autoplay: data.autoplay, cursor: next.data.of === data.of ? data.cursor : next.data.cursor });
  };
  host.follow = (/** @type {any} */ cursor) => {
    const same = JSON.stringify(cursor) === JSON.stringify(data.cursor);
    if (same || cursor.of !== data.of) return;
    update({ ...data, cursor });
    clearTimeout(later);
    // What arrives while it still reads its traces is lost on it.
    if (!act) later = setTimeout(() => { player?.update({ ...data, cursor: null }); player?.update(data); }, AGAIN_MS);
  };
  for (const name of PRESSES) host.addEventListener(name, (/** @type {Event} */ event) => {
    const near = event.composedPath().some((each) => /** @type {any} */ (each).matches?.(".zoom")); // to see it larger moves nothing
    if (act || near || /** @type {any} */ (event).key === "Tab") return;
    event.stopPropagation();
    event.preventDefault();
  }, { capture: true });
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (!host.isConnected) return document.removeEventListener("keydown", keys, { capture: true });
    if (!LENT.includes(event.key)) return;
    if (!act || event.key === " " && !event.composedPath().some((each) => /** @type {any} */ (each).matches?.("button, summary, input"))) {
      if (act || !event.composedPath().includes(host)) event.stopImmediatePropagation(); // the page still scrolls
    } else inner.firstElementChild?.dispatchEvent(new Event("pointerdown")); // the player reports only a viewer's moves
  };
  if (!own) document.addEventListener("keydown", keys, { capture: true });
  const calls = {
    setStateValue: (/** @type {string} */ _name, /** @type {any} */ cursor) => {
      data = { ...data, cursor };
      if (!own) act?.(node.id, { cursor });
    },
    setTriggerValue: () => {},
  };
  import(`${root.replace(/\/r$/, "")}/${node.data.code}`).then(({ mount }) => { player = mount(inner, data, calls); });
}

/** The moves that change the drawing: of a player's cursor the pages set their own. @param {any} moves @returns {any[]} */
export const drawing = (moves) => (moves || []).filter((/** @type {any} */ [, value]) => !value?.cursor);

/** Set a picture's players to where the host stands. @param {any} slot @param {any} moves */
export function follow(slot, moves) {
  for (const part of slot.children) {
    const found = part.follow && (moves || []).findLast((/** @type {any} */ [id, value]) => id === part.dataset.id && value?.cursor);
    if (found) part.follow(found[1].cursor);
  }
}

/**
 * What scrolls within a picture stays where it was while the page around it is made anew.
 * @param {any} picture @param {() => void} change
 */
export function inPlace(picture, change) {
  /** @type {[any, number, number][]} */
  const kept = [];
  const look = (/** @type {any} */ within) => {
    for (const each of within?.querySelectorAll("*") ?? []) {
      if (each.scrollTop || each.scrollLeft) kept.push([each, each.scrollTop, each.scrollLeft]);
      if (each.shadowRoot) look(each.shadowRoot);
    }
  };
  look(picture);
  change();
  for (const [each, top, left] of kept) [each.scrollTop, each.scrollLeft] = [top, left];
}
