/**
 * The layout of a round's tree: columns are depths (the root is column 0), with as few rows as the order of
 * the siblings allows. It ignores verdicts: a tree must not move while they are given.
 */

/** @import { Proposal } from "./model.js" */

import { nonNull } from "../dom/non_null.js";

/**
 * @typedef {number|"own"} Key a node's number, or the token that the target adds at the end
 * @typedef {{node: Key, parent: number}} Item `parent` −1 is the root
 * @typedef {"ArrowLeft"|"ArrowRight"|"ArrowUp"|"ArrowDown"} Arrow
 * @typedef {{column: number, row: number, wide?: number}} Place `wide` in columns, 1 without it
 * @typedef {{places: Map<Key, Place>, columns: number, rows: number, lines?: boolean}} Layout `columns` and `rows` count the root's
 *   too; `lines`: it goes on line by line, like text
 */

export const OWN = "own";
export const ROOT = -1;
const MOST_ENDS = 32; // in a larger tree a row is of little account, and costs all others height

/**
 * Whether the proposals are more than a chain.
 * @param {Proposal[]} proposals
 */
export function branches(proposals) {
  return proposals.some((item) => item.parent !== item.node - 1);
}

/**
 * The children of every node, the root's under `ROOT`, in the given order.
 * @param {Item[]} items
 * @returns {Map<Key, Item[]>}
 */
export function childrenOf(items) {
  /** @type {Map<Key, Item[]>} */
  const children = new Map();
  for (const item of items) {
    const beside = children.get(item.parent) ?? [];
    children.set(item.parent, beside);
    beside.push(item);
  }
  return children;
}

/**
 * Level by level each node takes its parent's row or the first free one below it, so lines never cross, first children
 * run straight on, and there are never more rows than leaves.
 * @param {Item[]} items in topological order
 * @returns {Layout}
 */
export function layoutOf(items) {
  const children = childrenOf(items);
  /** @type {Map<Key, Place>} */
  const places = new Map([[ROOT, { column: 0, row: 0 }]]);
  /** @type {{node: Key}[][]} */
  const levels = [[{ node: ROOT }]];
  let rows = 1;
  for (let column = 1; levels[column - 1].length; column += 1) {
    const level = levels[column - 1].flatMap(({ node }) => children.get(node) ?? []);
    let free = 0;
    for (const { node, parent } of level) {
      const row = Math.max(free, nonNull(places.get(parent)).row);
      places.set(node, { column, row });
      free = row + 1;
    }
    rows = Math.max(rows, free);
    levels.push(level);
  }
  levels.pop();
  straighten(levels, places, children, rows);
  return { places, columns: levels.length, rows };
}

/**
 * A layout with room for the token that the target adds, wherever it will be: its place is not known before the round's
 * end, and a tree must not shrink then.
 * @param {Item[]} items
 * @returns {Layout & {least: number, deep: number[]|null}} `least` rows are taken now; `deep`: how many each column may need, null
 *   in a large tree
 */
export function roomyLayout(items) {
  const guesses = items.filter(({ node }) => node !== OWN);
  const [now, bare] = [layoutOf(items), layoutOf(guesses)];
  const ends = guesses.length > MOST_ENDS ? [] : [ROOT, ...guesses.map(({ node }) => Number(node))];
  const all = [now, ...ends.map((parent) => layoutOf([...guesses, { node: OWN, parent }]))];
  const deep = Array(bare.columns + 1).fill(1);
  for (const { places } of all)
    for (const { column, row } of places.values()) deep[column] = Math.max(deep[column], row + 1);
  return {
    ...now,
    columns: bare.columns + 1,
    rows: Math.max(...all.map(({ rows }) => rows)),
    least: now.rows,
    deep: ends.length ? deep : null,
  };
}

/**
 * Whether the guesses are a chain; the target's own token, the last item, may follow any of them.
 * @param {Item[]} items
 */
export function isChain(items) {
  return items.every((item, at) => item.node === OWN || item.parent === (items[at - 1]?.node ?? ROOT));
}

/**
 * A long chain in lines, read like text: the root, then `across` guesses to a line. The target's own token is below the
 * guess that it replaces, where the next line makes room for it.
 * @param {Item[]} items a chain
 * @param {number} across
 * @returns {Layout} of as many rows with the target's own token as without it
 */
export function folded(items, across) {
  /** @type {Layout["places"]} */
  const places = new Map([[ROOT, { column: 0, row: 0 }]]);
  /** @param {number} at */
  const line = (at) => Math.floor(at / across);
  const own = items.findIndex((item) => item.node === OWN);
  const guesses = own < 0 ? items.length : own;
  const replaced = own < 0 ? own : items.findIndex((item) => item.parent === items[own].parent);
  const below = replaced < own ? replaced : Infinity;
  items.forEach(({ node }, at) => {
    const row = line(at) + (line(at) > line(below) ? 1 : 0);
    places.set(
      node,
      at === own && below < Infinity
        ? { column: 1 + (below % across), row: line(below) + 1 }
        : { column: 1 + (at % across), row },
    );
  });
  return { places, columns: across + 1, rows: line(guesses - 1) + 2, lines: guesses > across };
}

/**
 * A tree in lines: the root, then `across` columns to a line, each line below the one before.
 * @param {ReturnType<typeof roomyLayout>} layout
 * @param {number} across
 * @param {number} apart rows between two lines
 * @returns {Layout|null} of as many rows wherever the target's own token comes; null for a large tree
 */
export function inLines({ places, columns, deep }, across, apart) {
  if (!deep) return null;
  /** @param {number} column */
  const line = (column) => (column ? Math.floor((column - 1) / across) : 0);
  const [starts, last] = [[0], line(columns - 1)];
  for (let at = 0; at <= last; at += 1)
    starts.push(
      starts[at] + Math.max(...deep.filter((_, column) => line(column) === at)) + (at < last ? apart : 0),
    );
  const moved = [...places].map(
    /** @returns {[Key, Place]} */ ([node, { column, row }]) => [
      node,
      { column: column ? 1 + ((column - 1) % across) : 0, row: starts[line(column)] + row },
    ],
  );
  return {
    places: new Map(moved),
    columns: across + 1,
    rows: starts[starts.length - 1],
    lines: [...places.values()].some(({ column }) => line(column) > 0),
  };
}

/**
 * Within the existing rows, move parents down to their first child, and their later siblings along with them.
 * @param {{node: Key}[][]} levels
 * @param {Map<Key, Place>} places
 * @param {Map<Key, Item[]>} children
 * @param {number} rows
 */
function straighten(levels, places, children, rows) {
  for (const level of [...levels].reverse()) {
    let free = 0;
    for (const { node } of level) {
      const place = nonNull(places.get(node));
      const first = children.get(node)?.[0];
      place.row = Math.max(free, place.row, first && node !== ROOT ? nonNull(places.get(first.node)).row : 0);
      free = place.row + 1;
    }
    let last = rows;
    for (const { node } of [...level].reverse()) {
      const place = nonNull(places.get(node));
      place.row = Math.min(place.row, last - 1);
      last = place.row;
    }
  }
}

/**
 * The neighbour of a node in a direction of the layout.
 * @param {Layout} layout
 * @param {Item[]} items
 * @param {Key} node
 * @param {Arrow} key to the parent, the first child, the one above, below
 * @returns {Key|null} null where there is none; never the root
 */
export function beside(layout, items, node, key) {
  const here = layout.places.get(node);
  if (!here) return null;
  if (key === "ArrowLeft") {
    const parent = items.find((item) => item.node === node)?.parent ?? ROOT;
    return parent === ROOT ? null : parent;
  }
  if (key === "ArrowRight") return items.find((item) => item.parent === node)?.node ?? null;
  const column = items.filter((item) => nonNull(layout.places.get(item.node)).column === here.column);
  column.sort(
    (one, other) => nonNull(layout.places.get(one.node)).row - nonNull(layout.places.get(other.node)).row,
  );
  const at = column.findIndex((item) => item.node === node) + (key === "ArrowDown" ? 1 : -1);
  return column[at]?.node ?? null;
}

/**
 * A node as the tree names it; a selection says −1 of the target's own token.
 * @param {number} node
 * @returns {Key}
 */
export function keyOf(node) {
  return node < 0 ? OWN : node;
}
