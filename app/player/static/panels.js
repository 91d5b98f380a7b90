/** The views of the current round side by side, as many as fit; on a narrow screen one at a time, behind tabs. */

import { el } from "./dom.js";
import { T } from "./text.js";

/** @type {("tree"|"mask"|"odds"|"window")[]} */
export const NAMES = ["tree", "mask", "odds", "window"]; // as named in the page's address

/**
 * @param {Record<string, {root: HTMLElement}>} views by name; one whose root is hidden takes no space
 * @param {(name: string) => void} opened the viewer chose a tab
 * @returns `root`, `open(name)`, `next()`, `current()` (null: the first), `show()` after the views were drawn
 */
export function createPanels(views, opened) {
  const tabs = el("div", { class: "panel-tabs", role: "group", "aria-label": T.views });
  const grid = el("div", { class: "panels" });
  const root = el("div", { class: "panel-box" }, tabs, grid);
  const names = NAMES.filter((name) => views[name]);
  /** @type {Record<string, HTMLButtonElement>} */
  const buttons = {};
  /** @type {string|null} */
  let wanted = null;
  for (const name of names) {
    const button = el("button", { type: "button", class: "panel-tab" }, T.view[name]);
    button.onclick = () => {
      open(name);
      opened(name);
    };
    buttons[name] = button;
    tabs.append(button);
    views[name].root.classList.add("panel");
    grid.append(views[name].root);
  }

  function show() {
    const there = names.filter((name) => !views[name].root.hidden);
    const current = there.find((name) => name === wanted) ?? there[0];
    for (const name of names) {
      buttons[name].hidden = !there.includes(name);
      buttons[name].setAttribute("aria-pressed", String(name === current));
      views[name].root.classList.toggle("open", name === current);
    }
    tabs.hidden = there.length < 2;
  }

  /** @param {string|null} name */
  function open(name) {
    wanted = names.find((each) => each === name) ?? null;
    show();
  }

  /** Open the view after the open one. */
  function next() {
    const there = names.filter((name) => !views[name].root.hidden);
    const at = there.findIndex((name) => views[name].root.classList.contains("open"));
    open(there[(at + 1) % there.length]);
  }

  show();
  return { root, open, next, show, current: () => wanted };
}
