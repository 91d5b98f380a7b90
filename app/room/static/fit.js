// The projector's page in one window, since nobody scrolls it: the text shrinks first, as everybody has it on a screen of
// their own and it is large; then pictures, as far as their words are legible; then the height of charts; a player last.

const SMALL = 600; // on narrower windows the page is scrolled, as any page on a phone
const STEP = 0.05;

/** From one share to another. @param {number} from @param {number} to */
const down = (from, to) => Array.from({ length: Math.round((from - to) / STEP) + 1 }, (_, at) => from - at * STEP);

/** What is tried in turn, as shares of the size of charts, of the text, and of what is drawn as a page is. */
const SHARES = [...down(1, 0.75).map((text) => [1, text, 1]), ...down(0.95, 0.75).map((picture) => [picture, 0.75, picture]),
  ...down(0.7, 0.5).map((chart) => [chart, 0.75, 0.75]), ...down(0.7, 0.5).map((drawn) => [0.5, 0.7, drawn]),
  ...down(0.65, 0.6).map((text) => [0.5, text, 0.5]), ...down(0.45, 0.35).map((share) => [share, 0.6, share])];

/** Beside a player: nobody can scroll its views there, so they are cut last. */
const BESIDE_PLAYER = [...down(1, 0.65).map((text) => [1, text, 1]), ...down(0.95, 0.5).map((picture) => [picture, 0.65, picture])];

/** Whether a part would have to be scrolled sideways. @param {any} part */
const cut = (part) => part.scrollWidth > part.clientWidth + 1 && getComputedStyle(part).overflowX === "auto";

/** Keep a page within its window, whatever changes on it. @param {any} page */
export function fit(page) {
  const root = document.documentElement;
  let last = "";
  const fits = (/** @type {number[]} */ shares) => {
    ["--picture-share", "--text-share", "--drawn-share"].forEach((name, at) => root.style.setProperty(name, shares[at].toFixed(2)));
    return root.scrollHeight <= innerHeight && ![...page.querySelectorAll(".picture, .drawn > *")].some(cut);
  };
  const look = () => {
    if (innerWidth < SMALL) fits([1, 1, 1]);
    else (page.querySelector("[data-role]") ? BESIDE_PLAYER : SHARES).some(fits);
    if (last === root.style.cssText) return;
    last = root.style.cssText;
    dispatchEvent(new Event("resize")); // charts fill their place anew
  };
  new ResizeObserver(look).observe(page);
  addEventListener("resize", look);
}
