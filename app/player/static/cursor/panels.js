/** The views of the current round behind tabs, one at a time; where there is room, the tree's tab has the odds below it. */

import { el, setText } from "../dom/dom.js";
import { T } from "../text/text.js";

/** @type {("tree"|"mask"|"odds"|"window")[]} */
export const NAMES = ["tree", "mask", "odds", "window"]; // as named in the page's address

/** `root`, `open(name)`, `next()`, `current()` (null: the first), `live(is)`, `show()` after the views were drawn. */
export class Panels {
  grid = el("div", { class: "panels" });
  /** @type {Record<string, HTMLButtonElement>} */
  buttons = {};
  /** @type {string|null} */
  wanted = null;
  isLive = false; // a run that goes on has no record yet: only its last round is shown
  paired = false; // whether the style sheet shows tree and odds together
  /** On paper all views follow each other. */
  toPaper = () => {
    if (this.root.isConnected) for (const name of this.names) this.views[name].wake?.(true);
    else removeEventListener("beforeprint", this.toPaper);
  };
  fromPaper = () => {
    if (this.root.isConnected) this.show();
    else removeEventListener("afterprint", this.fromPaper);
  };
  /** The views that have a tab now. */
  tabbed = () =>
    this.isLive ? this.names.slice(0, 1) : this.names.filter((name) => !this.views[name].root.hidden);

  /**
   * @param {Record<string, {root: HTMLElement, wake?: (is: boolean) => void}>} views by name; one whose root is hidden takes no space
   * @param {(name: string) => void} opened the viewer chose a tab
   */
  constructor(views, opened) {
    this.views = views;
    this.opened = opened;
    this.names = NAMES.filter((name) => views[name]);
    this.tabs = el("div", { class: "panel-tabs", role: "group", "aria-label": T.views });
    this.root = el("div", { class: "panel-box" }, this.tabs, this.grid);
    new ResizeObserver(() => {
      const now = getComputedStyle(this.grid).getPropertyValue("--paired").trim() === "yes";
      if (now === this.paired) return;
      this.paired = now;
      this.show();
    }).observe(this.root);
    for (const name of this.names) {
      const button = el("button", { type: "button", class: "panel-tab" }, T.view[name]);
      button.onclick = () => {
        this.open(name);
        this.opened(name);
      };
      this.buttons[name] = button;
      this.tabs.append(button);
      this.views[name].root.classList.add("panel");
      this.grid.append(this.views[name].root);
    }
    addEventListener("beforeprint", this.toPaper);
    addEventListener("afterprint", this.fromPaper);
    this.show();
  }

  show() {
    const there = this.tabbed();
    const current = there.find((name) => name === this.wanted) ?? there[0];
    const focused = /** @type {Document|ShadowRoot} */ (this.root.getRootNode()).activeElement;
    for (const name of this.names) {
      this.buttons[name].hidden = !there.includes(name);
      if (name === "tree") setText(this.buttons.tree, this.paired ? T.roundAndOdds : T.view.tree);
      this.buttons[name].setAttribute("aria-pressed", String(name === current));
      this.views[name].root.classList.toggle("open", name === current);
      this.views[name].wake?.(name === current);
    }
    this.grid.classList.toggle("rounds", current === "tree");
    this.root.parentElement?.classList.toggle("closer", current !== "tree"); // not by :has(), which costs as much as a whole step
    this.tabs.hidden = there.length < 2 && !this.isLive;
    this.tabs.inert = this.isLive;
    // What had the focus is hidden with its view: without this the keys would be the page's.
    if (focused && current && this.grid.contains(focused) && !focused.checkVisibility())
      this.buttons[current].focus({ preventScroll: true });
  }

  /** @param {string|null} name */
  open(name) {
    this.wanted = this.names.find((each) => each === name) ?? null;
    this.show();
    this.grid.scrollTop = 0; // another view is read from its beginning
  }

  /** Open the view after the open one. */
  next() {
    const there = this.tabbed();
    const at = there.findIndex((name) => this.views[name].root.classList.contains("open"));
    this.open(there[(at + 1) % there.length]);
  }

  current() {
    return this.wanted;
  }

  /** @param {boolean} is */
  live(is) {
    this.isLive = is;
    this.show();
  }
}
