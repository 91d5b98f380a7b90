/**
 * The geometry of p against q at one place: what both share, q's excess over p, and p's over q.
 *
 * The record names the ten most likely tokens of each distribution and the mass of all others. A token that only one of
 * them names is known exactly on that side and at most as likely as the least named token on the other. What such
 * tokens and the others share is the recorded total less what the named ones share. Everything here is pure.
 *
 * @typedef {{id: number|null, p: number|null, q: number|null, pBound?: number|null, qBound?: number|null}} Given a null
 *   probability is only known to be at most its bound; the row without an id is all others
 */

/**
 * @template {Given} [Of=Given]
 * @typedef {Of & {shared: number, over: number, under: number, most: number}} Row in probabilities: min(p, q), q above
 *   p, p above q; `most` bounds what is shared where one side is not known, else 0
 */

/**
 * @template {Given} [Of=Given]
 * @typedef {{rows: Row<Of>[], top: number, totals: {shared: number, over: number, under: number}|null}} Areas `top` is what
 *   the width stands for; totals are null where neither the record nor the rows tell them
 */

const NONE = 1e-9;

/**
 * @template {Given} Of
 * @param {Of[]} rows the last one may be all others
 * @param {number|null} total recorded Σ min(p, q), or Σ p over the guesses where they are fixed
 * @param {Set<number|null>|null} [fixed] the fixed guesses of a place without a q: each takes its own p
 * @returns {Areas<Of>}
 */
export function areasOf(rows, total, fixed = null) {
  /** @type {Row<Of>[]} */
  const drawn = rows.map((row) => ({
    ...row,
    over: 0,
    under: 0,
    ...(fixed ? taken(row, fixed) : compared(row)),
  }));
  if (total !== null) settle(drawn, total, fixed);
  const top = 1; // one scale for every place
  // What a token has of a side that does not name it is part of all others on that side, and is drawn once.
  /** @param {"p"|"q"} side */
  const shownElsewhere = (side) =>
    drawn.reduce((sum, row) => (row[side] === null ? sum + row.shared : sum), 0);
  /** @param {Row} row @param {"p"|"q"} side */
  const left = (row, side) =>
    row[side] === null
      ? 0
      : Math.max(0, row[side] - row.shared - (row.id === null && !fixed ? shownElsewhere(side) : 0));
  for (const row of drawn) {
    row.over = fixed ? 0 : left(row, "q");
    row.under = left(row, "p");
  }
  const loose = drawn.some(
    (row) => row.most > NONE || (row.id === null && !fixed && Math.min(row.p ?? 0, row.q ?? 0) > NONE),
  );
  const shared = total ?? (loose ? null : drawn.reduce((sum, row) => sum + row.shared, 0));
  const apart = shared === null ? 0 : Math.max(0, 1 - shared);
  return {
    rows: drawn,
    top,
    totals: shared === null ? null : { shared, over: fixed ? 0 : apart, under: apart },
  };
}

/** @param {Given} row @param {Set<number|null>} fixed */
function taken(row, fixed) {
  return { shared: fixed.has(row.id) ? (row.p ?? 0) : 0, most: 0 };
}

/** @param {Given} row */
function compared(row) {
  if (row.id === null) return { shared: 0, most: 0 }; // settled by the recorded total
  if (row.p !== null && row.q !== null) return { shared: Math.min(row.p, row.q), most: 0 };
  const known = row.p ?? row.q ?? 0;
  return { shared: 0, most: Math.min(known, (row.p === null ? row.pBound : row.qBound) ?? 0) }; // without a bound there is no such side
}

/**
 * Give what the recorded total leaves to all others. What they cannot hold belongs to tokens that only one side names:
 * where the others' p is used up, to those whose p is named and whose q is among the others', or the other way round.
 * @param {Row[]} rows
 * @param {number} total
 * @param {Set<number|null>|null} fixed
 */
function settle(rows, total, fixed) {
  const others = rows.find((row) => row.id === null);
  if (!others) return;
  const [p, q] = [others.p ?? 0, fixed ? 1 : (others.q ?? 0)]; // fixed guesses may be among the others
  const left = Math.max(0, total - rows.reduce((sum, row) => sum + row.shared, 0));
  others.shared = Math.min(left, p, q);
  const loose = rows.filter((row) => row[p < q ? "q" : "p"] === null);
  const room = loose.reduce((sum, row) => sum + row.most, 0);
  const part = room > NONE ? Math.min(1, (left - others.shared) / room) : 0;
  for (const row of loose) row.shared += part * row.most;
}

/**
 * A stepped band between two columns of numbers as the points of a polygon, x and y in 0 … 1, one row below the other.
 * @param {number[]} from
 * @param {number[]} to
 * @param {number} top
 * @returns {[number, number][]}
 */
export function band(from, to, top) {
  const step = 1 / Math.max(1, to.length);
  /** @param {number[]} column @returns {[number, number][]} */
  const edge = (column) =>
    column.flatMap((value, at) => [
      [value / top, at * step],
      [value / top, (at + 1) * step],
    ]);
  return [...edge(to), ...edge(from).reverse()];
}

/**
 * The polygons of what is to be seen: the three parts, or where only one side or no comparison is known the masses.
 * @param {Areas} areas
 * @param {boolean} parts
 * @returns {{name: string, points: [number, number][]}[]}
 */
export function polygons(areas, parts) {
  const { rows, top } = areas;
  const zero = rows.map(() => 0);
  /** @param {"p"|"q"|"shared"} name */
  const column = (name) => rows.map((row) => row[name] ?? 0);
  /** @param {"over"|"under"} name */
  const to = (name) => rows.map((row) => row.shared + row[name]);
  /** @type {[string, number[], number[]][]} */
  const bands = parts
    ? [
        ["shared", zero, column("shared")],
        ["over", column("shared"), to("over")],
        ["under", column("shared"), to("under")],
      ]
    : [
        ["p", zero, column("p")],
        ["q", zero, column("q")],
      ];
  return bands
    .filter(([, from, end]) => end.some((value, at) => value - from[at] > NONE))
    .map(([name, from, end]) => ({ name, points: band(from, end, top) }));
}

/**
 * Round numbers within 0 … `top` for an axis, at most four.
 * @param {number} top
 */
export function ticks(top) {
  const step =
    [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5].find((size) => top / size < 4) ?? top;
  return Array.from({ length: Math.floor(top / step + 0.005) + 1 }, (_, at) =>
    Number((at * step).toFixed(3)),
  );
}
