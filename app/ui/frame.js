/** What Streamlit's page does not do by itself; `app/ui/frame.py` says when. The page has this once, on every page. */

// A part, and its player, may still be loading: it is followed while it grows, until the viewer moves on.
const PATIENCE_MS = 10_000;
const MOVES_ON = ["pointerdown", "keydown", "wheel", "touchmove"];
const root = document.documentElement;
/** What was asked for last, to know what is new; the page may have been there before.
 * @type {{ turn?: number, scheme?: string, report?: (scheme: string) => void, observer?: MutationObserver }} */
const last = {};

/**
 * @typedef {object} Frame
 * @property {string} page the page's name
 * @property {string | null} top what the page shows, where a change begins at its top
 * @property {string} language
 * @property {[string, number]} reveal a part's key, and how many were asked for so far
 * @property {{ app: string, main: string, menu: string }} selectors of Streamlit's own parts
 */

/** @param {{ data: Frame, setTriggerValue: (name: string, value: string) => void }} given */
export default function ({ data, setTriggerValue }) {
  const { page, top, language, reveal, selectors } = data;
  last.report = (scheme) => setTriggerValue("scheme", scheme);
  root.lang = language;
  keepHistory();
  followScheme(selectors.app);
  closeMenu(page, selectors.menu);
  if (top !== null) toTop(top, selectors.main);
  fitWindow(selectors.main);
  const [part, turn] = reveal, before = last.turn;
  last.turn = turn;
  if (part && before !== undefined && before !== turn) bring(part, turn);
}

/**
 * The browser's back button leads to the page before, as it was left. Streamlit makes a place of the history of all that
 * it writes into a page's address, and of the empty address that a page has for a moment as it is left. Here what is
 * written replaces what the address was, and the page that follows takes the place of the empty one.
 */
function keepHistory() {
  if (root.dataset.history) return; // done
  root.dataset.history = "kept";
  const [push, replace] = [history.pushState, history.replaceState];
  let emptied = false; // whether this place began as the empty address of a page that is being left
  addEventListener("popstate", () => (emptied = false));
  history.pushState = function (state, title, url) {
    const next = new URL(url ?? location.href, location.href);
    const same = next.pathname === location.pathname;
    const empties = same && !next.search && location.search !== "";
    const takes = same ? !empties : emptied;
    emptied = empties || (same && emptied); // the next page may write before its name is there
    (takes ? replace : push).call(history, state, title, url);
  };
}

/** The document has the theme's colour scheme, and the server hears of a change. @param {string} selector */
function followScheme(selector) {
  const app = document.querySelector(selector);
  if (!app) return;
  const follow = () => {
    const scheme = getComputedStyle(app).colorScheme, before = last.scheme;
    root.style.colorScheme = last.scheme = scheme;
    if (before && scheme !== before) last.report?.(scheme);
  };
  last.observer?.disconnect();
  last.observer = new MutationObserver(follow);
  last.observer.observe(app, { attributes: true, attributeFilter: ["class", "style"] });
  follow();
}

/** The menu that lies over the page on a phone closes once it has led to another page. @param {string} page @param {string} selector */
function closeMenu(page, selector) {
  const before = root.dataset.page;
  root.dataset.page = page;
  if (before === undefined || before === page || !matchMedia("(max-width: 768px)").matches) return;
  const button = document.querySelector(selector);
  if (button instanceof HTMLElement) button.click();
}

const NARROW = 600; // px: there a presentation is scrolled like any page
/** What is tried in turn, as shares of the size of the text and of pictures. */
const SHARES = [1, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55].flatMap((text) => [[text, 1], [text, text]]);

/** A step of a presented lesson, which nobody scrolls, is in one window whatever changes on it. @param {string} selector */
function fitWindow(selector) {
  const main = document.querySelector(selector);
  const page = main?.firstElementChild;
  if (!(main instanceof HTMLElement) || !page || main.dataset.fits) return;
  main.dataset.fits = "looked after";
  const fits = (/** @type {number[]} */ shares) => {
    ["--text-share", "--drawn-share"].forEach((name, at) => root.style.setProperty(name, String(shares[at])));
    return main.scrollHeight <= main.clientHeight + 1;
  };
  let last = "";
  const look = () => {
    const presented = document.querySelector(".st-key-leave") && document.querySelector(".st-key-course-bar");
    if (!presented || innerWidth < NARROW) fits([1, 1]);
    else SHARES.some(fits);
    if (last === root.style.cssText) return;
    last = root.style.cssText;
    dispatchEvent(new Event("resize")); // charts fill their place anew
  };
  new ResizeObserver(look).observe(page);
  addEventListener("resize", look);
}

/** What is new is shown from its top, and Tab and the arrow keys begin there. @param {string} top @param {string} selector */
function toTop(top, selector) {
  const main = document.querySelector(selector);
  if (!(main instanceof HTMLElement) || main.dataset.top === top) return;
  const before = main.dataset.top;
  main.dataset.top = top;
  if (before === undefined) return;
  main.scrollTop = 0;
  main.focus({ preventScroll: true, focusVisible: false });
}

/** Scroll a part of the page into view, and give the keyboard to the player in it. @param {string} key @param {number} turn */
function bring(key, turn) {
  const until = performance.now() + PATIENCE_MS;
  let over = false;
  let height = 0; // of the part as it was shown last
  const end = () => {
    over = true;
    for (const name of MOVES_ON) window.removeEventListener(name, end, true);
  };
  for (const name of MOVES_ON) window.addEventListener(name, end, true);
  const look = () => {
    if (over || last.turn !== turn || performance.now() > until) return end();
    const part = document.querySelector(`.st-key-${key}`);
    if (part && part.clientHeight !== height) {
      height = part.clientHeight;
      const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
      const { scrollMarginTop, scrollMarginBottom } = getComputedStyle(part);
      const fits = height + parseFloat(scrollMarginTop) + parseFloat(scrollMarginBottom) <= innerHeight;
      part.scrollIntoView({ block: fits ? "nearest" : "start", behavior: calm ? "auto" : "smooth" });
    }
    const player = part && playerIn(part);
    if (player) {
      player.focus({ preventScroll: true });
      return end();
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}

/** A component's player, in the shadow root in which Streamlit draws it. @param {Element} part */
function playerIn(part) {
  for (const each of part.querySelectorAll("*")) {
    const found = each.shadowRoot?.querySelector(".player");
    if (found instanceof HTMLElement) return found;
  }
  return null;
}
