// Where the host points. Pages place the same things elsewhere, so a place is a share of the smallest thing that is there,
// and the way to that thing: which child of which, from a part of the picture on.

import { el } from "./room.js";

/**
 * The number of a part, two shares of a width and a height, and the way from the part. It may end in a name: "text", then
 * the first share is one of the letters; "plot" and a number, then they are a chart's coordinates; "legend" and a number.
 * @typedef {[number, number, number, (number | string)[]?]} Place
 */

const CONTROL = "button, input, select, label, summary, a";
const LONG = 40; // letters of a text that may be wrapped elsewhere
const AGAIN_MS = 250; // how often the ring is placed anew: a page scrolls, and a component draws later
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const STRIDE = 0.06; // of a part's width or height

/** In the order in which they were drawn: charts may be side by side. @param {any} slot @returns {any[]} */
const parts = (slot) => [...slot.querySelectorAll(":scope > :not(.pointer, .beside), :scope > .beside > * > *")];

/** @param {any} thing */
const children = (thing) => (thing.shadowRoot ?? thing).children;

/** @param {any} thing */
const shown = (thing) => thing.getClientRects().length > 0;

/** @param {any} box @param {number} x @param {number} y */
const within = (box, x, y) => x >= box.left && x <= box.right && y >= box.top && y <= box.bottom;

/** Where somebody pressed; null on a control, also one in a shadow root. @param {any} slot @param {any} event @returns {Place | null} */
export function pressed(slot, event) {
  const path = event.composedPath();
  const over = path.slice(0, path.indexOf(slot));
  const at = parts(slot).findIndex((part) => over.includes(part));
  if (at < 0 || over.some((/** @type {any} */ each) => each.matches?.(CONTROL))) return null;
  return place(slot, at, over[0], event.clientX, event.clientY);
}

/** A place of the window, over that thing in that part. @param {any} slot @param {number} at @param {any} thing @param {number} x @param {number} y @returns {Place} */
function place(slot, at, thing, x, y) {
  const part = parts(slot)[at];
  const onChart = part.matches(".chart") && ofChart(part, x, y);
  if (onChart) return [at, onChart[0], onChart[1], onChart[2]];
  let over = thing;
  while (over !== part && !shown(over)) over = above(over);
  const way = [];
  for (let each = over; each !== part; each = above(each)) way.unshift([...children(above(each))].indexOf(each));
  const letters = letter(over, x, y);
  if (letters !== null) return [at, letters, 0, [...way, "text"]];
  const box = over.getBoundingClientRect();
  return [at, (x - box.left) / box.width, (y - box.top) / box.height, way];
}

/** @param {any} thing @returns {any} */
const above = (thing) => thing.parentElement ?? thing.parentNode.host;

/** The share of a long text's letters that are before this place; null if it is on none. @param {any} thing @param {number} x @param {number} y */
function letter(thing, x, y) {
  const all = thing.textContent.length;
  const caret = all > LONG ? /** @type {any} */ (document).caretPositionFromPoint?.(x, y, { shadowRoots: [thing.getRootNode()].filter((each) => each !== document) }) : null;
  if (caret?.offsetNode.nodeType !== 3 || !thing.contains(caret.offsetNode)) return null;
  let before = 0;
  for (const node of texts(thing)) {
    if (node === caret.offsetNode) break;
    before += node.data.length;
  }
  const share = (before + caret.offset) / all, box = letterBox(thing, share);
  return box && Math.hypot(x - box.left, y - (box.top + box.bottom) / 2) < 2 * box.height ? share : null;
}

/** @param {any} thing @returns {Generator<any>} */
function* texts(thing) {
  const walker = document.createTreeWalker(thing, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) yield walker.currentNode;
}

/** @param {any} thing @param {number} share */
function letterBox(thing, share) {
  let left = Math.min(Math.floor(share * thing.textContent.length), thing.textContent.length - 1);
  for (const node of texts(thing)) {
    if (left >= node.data.length) {
      left -= node.data.length;
      continue;
    }
    const range = document.createRange();
    range.setStart(node, left);
    range.setEnd(node, left + 1);
    return range.getBoundingClientRect();
  }
  return null;
}

/** The plots of a chart: their axes, which know where their numbers are. @param {any} chart @returns {any[]} */
const plots = (chart) => Object.values(chart._fullLayout?._plots ?? {});

/** @param {any} chart @param {number} x @param {number} y @returns {[number, number, (number | string)[]] | null} */
function ofChart(chart, x, y) {
  const legend = [...chart.querySelectorAll(".legend .traces")];
  const at = legend.findIndex((each) => within(each.getBoundingClientRect(), x, y));
  if (at >= 0) return [0.5, 0.5, ["legend", at]];
  const box = chart.getBoundingClientRect();
  /** @param {any} axis @param {number} from */
  const off = (axis, from) => Math.max(axis._offset - from, from - axis._offset - axis._length, 0);
  const far = plots(chart).map(({ xaxis, yaxis }) => off(xaxis, x - box.left) + off(yaxis, y - box.top));
  const near = far.indexOf(Math.min(...far)), found = plots(chart)[near];
  if (!found) return null;
  return [found.xaxis.p2l(x - box.left - found.xaxis._offset), found.yaxis.p2l(y - box.top - found.yaxis._offset), ["plot", near]];
}

/** Where a place is in this page's window: a point, or the box of what it is somewhere in. @param {any} slot @param {Place} where */
function found(slot, [at, across, down, way = []]) {
  const part = parts(slot)[at];
  if (!part || !shown(part)) return null;
  const box = part.getBoundingClientRect();
  if (way[0] === "plot") {
    const plot = plots(part)[Number(way[1])];
    return plot && { x: box.left + plot.xaxis._offset + plot.xaxis.l2p(across), y: box.top + plot.yaxis._offset + plot.yaxis.l2p(down), of: part };
  }
  if (way[0] === "legend") return inside(part.querySelectorAll(".legend .traces")[Number(way[1])] ?? part, 0.5, 0.5);
  let thing = part;
  for (const step of way) {
    if (step === "text") {
      const letters = letterBox(thing, across);
      return letters ? { x: letters.left, y: (letters.top + letters.bottom) / 2, of: thing } : inside(thing, 0.5, 0.5);
    }
    const next = children(thing)[Number(step)];
    if (!next || !(shown(next) || children(next).length)) return around(thing);
    thing = next;
  }
  return shown(thing) ? inside(thing, across, down) : around(thing);
}

/** @param {any} thing @param {number} across @param {number} down */
function inside(thing, across, down) {
  const box = thing.getBoundingClientRect();
  /** @param {number} share */
  const held = (share) => Math.min(1, Math.max(0, share));
  return { x: box.left + held(across) * box.width, y: box.top + held(down) * box.height, of: thing };
}

/** What this page shows of it is a thing that has it. @param {any} thing */
function around(thing) {
  let over = thing;
  while (!shown(over)) over = above(over);
  return { box: over.getBoundingClientRect(), of: over };
}

/**
 * Where an arrow key moves the pointer: within a part of the picture, and on to the next one above or below.
 * @param {any} slot @param {Place | null | undefined} where @param {string} key @returns {Place | null}
 */
export function moved(slot, where, key) {
  const arrow = ARROWS[/** @type {"ArrowUp"} */ (key)];
  const all = parts(slot);
  if (!arrow || !all.length) return null;
  const first = all.findIndex((part) => part.offsetHeight);
  const spot = where && found(slot, where);
  if (!where || !spot) return on(slot, first, 0.5, 0.5);
  const box = all[where[0]].getBoundingClientRect();
  const x = "x" in spot ? spot.x : (spot.box.left + spot.box.right) / 2, y = "x" in spot ? spot.y : (spot.box.top + spot.box.bottom) / 2;
  const [by, low] = [(x - box.left) / box.width + arrow[0] * STRIDE, (y - box.top) / box.height + arrow[1] * STRIDE];
  /** @param {number} step */
  const beyond = (step) => {
    let at = where[0] + step;
    while (all[at] && !all[at].offsetHeight) at += step;
    return all[at] ? at : -1;
  };
  const other = low > 1 ? beyond(1) : low < 0 ? beyond(-1) : -1;
  if (other >= 0) return on(slot, other, by, low > 1 ? 0 : 1);
  return on(slot, where[0], by, low);
}

/** The place at these shares of a part, of the smallest thing that is there. @param {any} slot @param {number} at @param {number} across @param {number} down */
function on(slot, at, across, down) {
  const { x, y, of } = inside(parts(slot)[at], across, down);
  let thing = of;
  for (let next = of; next; next = [...children(thing)].findLast((each) => within(each.getBoundingClientRect(), x, y) && getComputedStyle(each).pointerEvents !== "none")) thing = next;
  return place(slot, at, thing, x, y);
}

/** @type {any} */
let timer;

/** Show where the host points, and go on doing so while the picture moves. @param {any} slot @param {Place | null | undefined} where */
export function point(slot, where) {
  clearInterval(timer);
  const old = slot.querySelector(":scope > .pointer"), same = old?.dataset.at === JSON.stringify(where);
  if (!where) return old?.remove();
  const ring = old ?? el("div", { class: "pointer", "aria-hidden": "true" });
  ring.dataset.at = JSON.stringify(where);
  let seen = same;
  const put = () => {
    let spot = slot.isConnected ? found(slot, where) : null;
    if (!slot.isConnected) clearInterval(timer);
    ring.hidden = !spot;
    if (!spot) return;
    if (!seen && !("box" in spot)) {
      bring(spot, slot);
      spot = found(slot, where);
    }
    seen ||= !("box" in spot);
    const frame = slot.getBoundingClientRect(), left = slot.scrollLeft - frame.left, top = slot.scrollTop - frame.top;
    ring.classList.toggle("around", "box" in spot);
    Object.assign(ring.style, "box" in spot
      ? { left: `${spot.box.left + left}px`, top: `${spot.box.top + top}px`, width: `${spot.box.width}px`, height: `${spot.box.height}px` }
      : { left: `${spot.x + left}px`, top: `${spot.y + top}px`, width: "", height: "" });
  };
  if (!old) slot.append(ring);
  put();
  timer = setInterval(put, AGAIN_MS);
}

/** Scroll what scrolls within the picture to the place; the page itself stays. @param {any} spot @param {any} slot */
function bring(spot, slot) {
  for (let over = above(spot.of); over && over !== slot.parentElement; over = above(over)) {
    const box = over.getBoundingClientRect();
    if (over.scrollHeight > over.clientHeight && getComputedStyle(over).overflowY !== "visible" && (spot.y < box.top || spot.y > box.bottom)) over.scrollTop += spot.y - (box.top + box.bottom) / 2;
    if (over.scrollWidth > over.clientWidth && getComputedStyle(over).overflowX !== "visible" && (spot.x < box.left || spot.x > box.right)) over.scrollLeft += spot.x - (box.left + box.right) / 2;
  }
}
