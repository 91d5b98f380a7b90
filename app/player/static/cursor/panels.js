/** The views of the current round behind tabs, one at a time; where there is room, the tree's tab has the odds below it. */

import { el, setText } from "../dom/dom.js";
import { T } from "../text/text.js";

/** @type {("tree"|"mask"|"odds"|"window")[]} */
export const NAMES = ["tree", "mask", "odds", "window"]; // as named in the page's address

/**
 * @param {Record<string, {root: HTMLElement, wake?: (is: boolean) => void}>} views by name; one whose root is hidden takes no space
 * @param {(name: string) => void} opened the viewer chose a tab
 * @returns `root`, `open(name)`, `next()`, `current()` (null: the first), `live(is)`, `show()` after the views were drawn
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
  let live = false; // a run that goes on has no record yet: only its last round is shown
  let paired = false; // whether the style sheet shows tree and odds together
  new ResizeObserver(() => {
    const now = getComputedStyle(grid).getPropertyValue("--paired").trim() === "yes";
    if (now === paired) return;
    paired = now;
    show();
  }).observe(root);
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

  /** The views that have a tab now. */
  const tabbed = () => (live ? names.slice(0, 1) : names.filter((name) => !views[name].root.hidden));

  function show() {
    const there = tabbed();
    const current = there.find((name) => name === wanted) ?? there[0];
    const focused = /** @type {Document|ShadowRoot} */ (root.getRootNode()).activeElement;
    for (const name of names) {
      buttons[name].hidden = !there.includes(name);
      if (name === "tree") setText(buttons.tree, paired ? T.roundAndOdds : T.view.tree);
      buttons[name].setAttribute("aria-pressed", String(name === current));
      views[name].root.classList.toggle("open", name === current);
      views[name].wake?.(name === current);
    }
    grid.classList.toggle("rounds", current === "tree");
    root.parentElement?.classList.toggle("closer", current !== "tree"); // not by :has(), which costs as much as a whole step
    tabs.hidden = there.length < 2 && !live;
    tabs.inert = live;
    // What had the focus is hidden with its view: without this the keys would be the page's.
    if (focused && current && grid.contains(focused) && !focused.checkVisibility())
      buttons[current].focus({ preventScroll: true });
  }

  /** @param {string|null} name */
  function open(name) {
    wanted = names.find((each) => each === name) ?? null;
    show();
    grid.scrollTop = 0; // another view is read from its beginning
  }

  /** Open the view after the open one. */
  function next() {
    const there = tabbed();
    const at = there.findIndex((name) => views[name].root.classList.contains("open"));
    open(there[(at + 1) % there.length]);
  }

  /** On paper all views follow each other. */
  function toPaper() {
    if (root.isConnected) for (const name of names) views[name].wake?.(true);
    else removeEventListener("beforeprint", toPaper);
  }
  function fromPaper() {
    if (root.isConnected) show();
    else removeEventListener("afterprint", fromPaper);
  }
  addEventListener("beforeprint", toPaper);
  addEventListener("afterprint", fromPaper);

  show();
  return {
    root,
    open,
    next,
    show,
    current: () => wanted,
    /** @param {boolean} is */
    live(is) {
      live = is;
      show();
    },
  };
}
