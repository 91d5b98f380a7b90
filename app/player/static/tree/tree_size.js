/** How large a tree is drawn in the room it has: numbers alone. */

/** @import { Item, Key, Layout, Place } from "../model/tree.js" */

import { childrenOf, folded, inLines, isChain, OWN } from "../model/tree.js";

export const CHIP = 0.82; // of a column; the rest is for the lines
export const GAP = 1 - CHIP;
export const LONG = 7; // characters; a longer word is set closer

/**
 * @typedef {"auto"|"fit"|number} ZoomMode the viewer's; a number is a factor
 * @typedef {{width: number, height: number, scale: number}} Room px: the box's width and height limit; how much larger than
 *   usual the page's type is
 * @typedef {{column: number, row: number}} Size px
 */

const FULL = { column: 128, row: 64 }; // px at 100% and a type of 16 px; all sizes grow with the page's type
const EDGES = 12; // px of the box's own height: padding and border
const NUMBERS = 60; // px: a row with room for p and q below the word
const PAIR = { column: 140, row: 44 }; // px: p and q side by side below the word
const LEAST = { column: 34, row: 15 };
const WORD = { column: 104, row: 24 }; // room for a word of seven letters, and for the bars below it
const SHORT = 84; // px: a chain with narrower columns cuts common words and is folded into lines
const PHONE = 480; // px: a box this narrow is scrolled with a finger anyway, so every node keeps its word
const WORDS = { wide: 8, close: 6.9, edge: 35, phone: 30 }; // px: a character, one of a long word, a node's edges and mark
const SHORTEST = 3; // characters that each column has room for where others need it
const NOTED = 6; // characters: the root's column has room for what is said below it
const PAIRED = 3; // rows; a tree with more leaves room for the odds below it
const TALL = 400; // px of height within which a tree is shown with all its numbers
const APART = [0.75, 0.4, 0]; // rows between two lines of a tree: what begins a line is no sibling of what is above it
const FLAT = 26; // px, a row of a tree that is taller

/**
 * The room within the tree's box, and the size of the page's type.
 * @param {HTMLElement} box
 * @returns {Room}
 */
export function roomOf(box) {
  const scale = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16 || 1;
  const limit = parseFloat(getComputedStyle(box).maxHeight); // none while the style sheet is on its way
  return { width: box.clientWidth, height: (Number.isNaN(limit) ? Infinity : limit) - EDGES, scale };
}

/**
 * Whether a finger scrolls the box anyway, as on a phone.
 * @param {Room} room
 */
export function isNarrow({ width, scale }) {
  return width > 0 && width < PHONE * scale;
}

/**
 * The size of a column and a row.
 * @param {ZoomMode} zoomMode
 * @param {Room} room
 * @param {Pick<Layout, "columns"|"rows">} layout
 * @returns {Size}
 */
export function sizeOf(zoomMode, room, layout) {
  const { scale } = room;
  const across = room.width ? (room.width - 10) / layout.columns : FULL.column * scale;
  /** @param {number} value @param {number} low @param {number} high */
  const within = (value, low, high) => Math.min(Math.max(value, low * scale), high * scale);
  const down = (room.height - 6) / layout.rows;
  if (zoomMode === "fit")
    return { column: within(across, LEAST.column, 150), row: within(down, LEAST.row, FULL.row) };
  if (zoomMode === "auto") {
    // Smaller as long as all of it is then seen; a tree that is too large even so is scrolled.
    const least = isNarrow(room) ? WORD : LEAST;
    const [narrow, low] = [across >= least.column * scale, down >= least.row * scale];
    const pair = layout.rows > PAIRED && across >= PAIR.column * scale && down >= PAIR.row * scale;
    const full = !pair && down >= NUMBERS * scale && layout.rows * FULL.row <= TALL;
    return {
      column: within(across, narrow ? least.column : WORD.column, 176),
      row: pair
        ? PAIR.row * scale
        : full
          ? Math.min(down, FULL.row * scale)
          : within(down, low ? least.row : FLAT, FLAT),
    };
  }
  return {
    column: Math.max(FULL.column * zoomMode, LEAST.column) * scale,
    row: Math.max(FULL.row * zoomMode, LEAST.row) * scale,
  };
}

/**
 * The box of a node.
 * @param {Place} place
 * @param {Size} size
 * @param {string} detail how much of it is drawn
 * @returns {{left: number, top: number, width: number, height: number}} px
 */
export function boxOf({ column, row, wide = 1 }, size, detail) {
  return {
    left: column * size.column,
    top: row * size.row + 2,
    width: (wide - GAP) * size.column,
    height: size.row - (detail === "full" ? 5 : 3),
  };
}

/**
 * The zoomMode for a tree that is larger or smaller than it is now, in both directions.
 * @param {Size} size
 * @param {number} scale how much larger than usual the page's type is
 * @param {number} factor
 */
export function zoomed({ column, row }, scale, factor) {
  const now = [column / FULL.column / scale, row / FULL.row / scale];
  return factor * (factor > 1 ? Math.max(...now) : Math.min(...now));
}

/**
 * A layout without the row that is kept for the target's own token, where that row would make the tree too large for
 * the room.
 * @param {Layout & {least: number}} layout
 * @param {Room} room
 * @returns {Layout}
 */
export function fitting(layout, { height, scale }) {
  return (height - 6) / layout.rows >= LEAST.row * scale ? layout : { ...layout, rows: layout.least };
}

/**
 * A layout whose columns are as wide as their words want, as far as there is room; where they want no more than they have,
 * as it is. The target's own token does not count: a tree must not move when it comes.
 * @template {Layout} Of
 * @param {Of} layout
 * @param {[Key, string][]} words of each node, as they are shown
 * @param {number} column px at the page's usual type
 * @param {number} [edge] px of a node that are not its word
 * @returns {Of}
 */
export function widened(layout, words, column, edge = WORDS.edge) {
  /** @type {number[]} */
  const longest = Array(layout.columns).fill(0);
  for (const [node, word] of words) {
    const place = layout.places.get(node);
    if (place && node !== OWN) longest[place.column] = Math.max(longest[place.column], word.length);
  }
  /** @param {number} least characters that each column has room for @param {number} most @param {number} [noted] the root's least */
  const widths = (least, most, noted = NOTED) =>
    longest.map(
      (length, at) => pixels(Math.min(Math.max(length, least, at ? 0 : noted), most), edge) / column,
    );
  /** @param {number[]} given */
  const leftOf = (given) => layout.columns - given.reduce((sum, one) => sum + one + 1 - CHIP, 0);
  if (Math.max(...widths(0, Infinity)) <= CHIP) return layout;
  const shortest = edge === WORDS.edge ? SHORTEST : NOTED; // of a phone's few columns any may get the target's own token
  const whole = [8, 7, 6, 5, 4, 3].filter((least) => least >= shortest).map((least) => [least, Infinity]);
  const tried = [
    ...whole,
    [shortest, Infinity, shortest],
    ...[16, 14, 12, 10, 9, 8, 7].map((most) => [shortest, most]),
  ];
  const wanted = tried
    .map(([least, most, noted]) => widths(least, most, noted))
    .find((each) => leftOf(each) >= 0);
  if (!wanted) return layout;
  const left = leftOf(wanted);
  const wide = wanted.map((one) => one + 1 - CHIP + left / layout.columns);
  const starts = wide.map((_, at) => wide.slice(0, at).reduce((sum, one) => sum + one, 0));
  const places = new Map(
    [...layout.places].map(([node, { column: at, row }]) => [
      node,
      { column: starts[at], row, wide: wide[at] },
    ]),
  );
  return { ...layout, places };
}

/**
 * Leaves whose words are longer than their boxes get the free room to their right, up to the next node or line there.
 * @template {Layout} Of
 * @param {Of} layout
 * @param {Item[]} items
 * @param {Map<Key, string>} words
 * @param {number} column px at the page's usual type
 * @param {number} edge px of a node that are not its word
 * @returns {Of}
 */
export function stretched(layout, items, words, column, edge) {
  const children = childrenOf(items);
  const places = new Map(layout.places);
  /** @param {Place} place */
  const endOf = ({ column: from, wide }) => from + (wide ?? 1);
  for (const { node } of items) {
    const place = places.get(node);
    const need = pixels((words.get(node) ?? "").length, edge) / column + 1 - CHIP;
    if (!place || children.has(node) || need <= (place.wide ?? 1)) continue;
    let end = layout.columns;
    for (const other of items) {
      const [to, from] = [layout.places.get(other.node), layout.places.get(other.parent)];
      if (!to || other.node === node || to.column <= place.column) continue;
      if (to.row === place.row) end = Math.min(end, to.column);
      // A line from above to below, or back, runs before the column of the node that it leads to.
      const passes = from && from.column < to.column && (from.row - place.row) * (to.row - place.row) <= 0;
      if (passes && endOf(from) > place.column + 0.01) end = Math.min(end, endOf(from));
    }
    places.set(node, { ...place, wide: Math.max(place.wide ?? 1, Math.min(need, end - place.column)) });
  }
  return { ...layout, places };
}

/**
 * How a tree is drawn in the room there is: as it is, or, where a phone's screen is too narrow for a word in each box and for
 * a long chain, line by line.
 * @param {ZoomMode} zoomMode
 * @param {Room} room
 * @param {Item[]} items
 * @param {ReturnType<typeof import("../model/tree.js").roomyLayout>} straight
 * @param {[Key, string][]} words of the root and each node, as they are shown
 * @returns {Layout}
 */
export function drawn(zoomMode, room, items, straight, words) {
  const plain = fitting(straight, room);
  const across = isChain(items)
    ? acrossOf(zoomMode, room, items.filter(({ node }) => node !== OWN).length)
    : null;
  const base =
    across === null
      ? isChain(items)
        ? plain
        : (treeInLines(zoomMode, room, straight) ?? plain)
      : folded(items, across);
  const size = sizeOf(zoomMode, room, base);
  if (detailOf(size, room.scale) === "mark") return base; // no word needs room
  const column = size.column / room.scale;
  const edge = isNarrow(room) ? WORDS.phone : WORDS.edge;
  return stretched(widened(base, words, column, edge), items, new Map(words), column, edge);
}

/**
 * A tree line by line, if it is wider than a phone's screen and then no higher than its box.
 * @param {ZoomMode} zoomMode
 * @param {Room} room
 * @param {ReturnType<typeof import("../model/tree.js").roomyLayout>} straight
 */
function treeInLines(zoomMode, room, straight) {
  const { width, height, scale } = room;
  const across = Math.floor((width - 10) / (WORD.column * scale)) - 1;
  if (zoomMode !== "auto" || !isNarrow(room) || across < 2 || straight.columns <= across + 1) return null;
  const tried = APART.map((apart) => inLines(straight, across, apart));
  return tried.find((found) => found && found.rows * WORD.row * scale <= height - 6) ?? null;
}

/**
 * About how many pixels a node needs for a word of so many characters.
 * @param {number} length
 * @param {number} edge px, its edges and mark
 */
function pixels(length, edge) {
  return length * (length > LONG ? WORDS.close : WORDS.wide) + edge;
}

/**
 * How many guesses go to a line of a chain that is too long for the room; null where it needs no lines, or has too many.
 * The target's own token counts from the beginning: the lines must not change with the commit.
 * @param {ZoomMode} zoomMode
 * @param {Room} room
 * @param {number} guesses
 * @returns {number|null}
 */
export function acrossOf(zoomMode, { width, height, scale }, guesses) {
  const across = Math.floor((width - 10) / (WORD.column * scale)) - 1;
  if (zoomMode !== "auto" || across < 2 || (width - 10) / (guesses + 2) >= SHORT * scale) return null;
  return (Math.ceil(guesses / across) + 1) * FLAT * scale <= height - 6 ? across : null;
}

/**
 * How much each node shows: mark, word, bars and numbers, below or beside each other; without the numbers; without the
 * bars; or the mark alone.
 * @param {Size} size
 * @param {number} scale how much larger than usual the page's type is
 */
export function detailOf(size, scale) {
  const [column, row] = [size.column / scale, size.row / scale];
  if (column >= 96 && row >= NUMBERS) return "full";
  if (column >= PAIR.column && row >= PAIR.row) return "pair";
  return column < 62 || row < 17 ? "mark" : row < 24 ? "word" : "text"; // a word alone has no room for bars below it
}
