// The projector's page in one window, since nobody scrolls it: pictures and bars shrink first, then the text; a player last.

const SMALL = 600; // on narrower windows the page is scrolled, as any page on a phone
const STEP = 0.05;

/** From one share to another. @param {number} from @param {number} to */
const down = (from, to) => Array.from({ length: Math.round((from - to) / STEP) + 1 }, (_, at) => from - at * STEP);

/** What is tried in turn, as shares of the pictures' and the text's size: what is still legible of both, then less. */
const SHARES = [...down(1, 0.75).map((picture) => [picture, 1]), ...down(0.95, 0.8).map((text) => [0.75, text]),
  ...down(0.7, 0.5).map((picture) => [picture, 0.8]), ...down(0.75, 0.65).map((text) => [0.5, text]),
  ...down(0.5, 0.35).map((picture) => [picture, 0.6])];

/** Beside a player: nobody can scroll its views there, so they are cut last. */
const BESIDE_PLAYER = [...down(1, 0.65).map((text) => [1, text]), ...down(0.95, 0.5).map((picture) => [picture, 0.65])];

/** Keep a page within its window, whatever changes on it. @param {any} page */
export function fit(page) {
  const root = document.documentElement;
  let last = "";
  const fits = (/** @type {number[]} */ [picture, text]) => {
    root.style.setProperty("--picture-share", picture.toFixed(2));
    root.style.setProperty("--text-share", text.toFixed(2));
    return root.scrollHeight <= innerHeight;
  };
  const look = () => {
    if (innerWidth < SMALL) fits([1, 1]);
    else (page.querySelector("[data-role]") ? BESIDE_PLAYER : SHARES).some(fits);
    if (last === root.style.cssText) return;
    last = root.style.cssText;
    dispatchEvent(new Event("resize")); // charts fill their place anew
  };
  new ResizeObserver(look).observe(page);
  addEventListener("resize", look);
}
