/** Recorded distributions as rows: the union of two heads, what is only bounded, and what all others have together. */

/** @import { Candidates, Trace } from "../../types.js" */

import { list, number, tokenText } from "../model/model.js";

const SHOWN = 4; // candidates of each distribution that are shown at once
export const CLOSE = 1e-6;

/**
 * @typedef {{id: number|null, text: string|null, p: number|null, q: number|null, pBound?: number|null, qBound?: number|null, node: number|null,
 *   chosen?: boolean, committed?: boolean, minor?: boolean}} Shown a row as it is shown; the one without id and text is all others
 * @typedef {Shown & {id: number, text: string, minor: boolean}} Row a null probability is only known to be at most its bound
 * @typedef {{rows: Row[], pRest: number|null, qRest: number|null, hasP: boolean, hasQ: boolean}} Bars
 * @typedef {{id: number, text: string, prob: number, committed: boolean}} Drawable
 * @typedef {{node: number, p: number|null, q: number|null}} Exact what the columns know of a guess
 */

/**
 * A distribution's named head as id → probability.
 * @param {Candidates|null|undefined} candidates
 */
function head(candidates) {
  const probs = list(candidates?.prob);
  /** @type {[number, number|null][]} */
  const pairs = list(candidates?.id).map((id, at) => [id, number(probs[at])]);
  return new Map(
    pairs.filter(
      /** @returns {pair is [number, number]} */ (pair) => {
        const [id, value] = pair;
        return Number.isInteger(id) && value !== null && value >= 0 && value <= 1 + CLOSE * 10;
      },
    ),
  );
}

/**
 * The q of several fixed guesses, of which the record has none: 1 on each, as on one alone.
 * @param {number[]} guesses
 */
export function certain(guesses) {
  return { id: guesses, prob: guesses.map(() => 1), tail: 0 };
}

/**
 * The union of two heads; what one of them does not name is only bounded by its smallest named or its tail.
 * @param {Trace} trace
 * @param {Candidates|null|undefined} p
 * @param {Candidates|null|undefined} q
 * @param {Map<number, Exact>} exact
 * @param {number} chosen
 * @param {number|null|undefined} committed
 * @param {(number|null|undefined)[]} [listed] tokens that the panel lists elsewhere, so that they are looked for here
 * @returns {Bars}
 */
export function barsOf(trace, p, q, exact, chosen, committed, listed = []) {
  const ps = head(p);
  const qs = head(q);
  const [hasP, hasQ] = [ps.size > 0, qs.size > 0];
  /** @param {Map<number, number>} map */
  const first = (map) => [...map.keys()].slice(0, SHOWN);
  const major = new Set([
    ...first(ps),
    ...first(qs),
    ...[...exact.keys()].slice(0, SHOWN),
    chosen,
    committed,
    ...listed,
  ]);
  const ids = new Set([...ps.keys(), ...qs.keys(), ...exact.keys()]);
  for (const id of [chosen, committed]) if (typeof id === "number" && Number.isInteger(id)) ids.add(id);
  /** @param {Map<number, number>} map @param {Candidates|null|undefined} candidates */
  const bound = (map, candidates) => Math.min(...map.values(), number(candidates?.tail) ?? 1);
  const pBound = hasP ? bound(ps, p) : null;
  const qBound = hasQ ? bound(qs, q) : null;
  /** @param {Map<number, number>} map @param {number|null} limit @param {number} id @param {number|null|undefined} known */
  const value = (map, limit, id, known) => map.get(id) ?? known ?? (limit === 0 ? 0 : null);
  const rows = [...ids].map((id) => ({
    id,
    text: tokenText(trace, id),
    p: hasP ? value(ps, pBound, id, exact.get(id)?.p) : null,
    q: hasQ ? value(qs, qBound, id, exact.get(id)?.q) : null,
    pBound,
    qBound,
    node: exact.get(id)?.node ?? null,
    chosen: id === chosen,
    committed: id === committed,
    minor: !major.has(id),
  }));
  rows.sort(
    (a, b) =>
      Number(b.chosen) - Number(a.chosen) ||
      Math.max(b.p ?? 0, b.q ?? 0) - Math.max(a.p ?? 0, a.q ?? 0) ||
      a.id - b.id,
  );
  return {
    rows,
    pRest: hasP ? restOf(rows, ps, p, "p") : null,
    qRest: hasQ ? restOf(rows, qs, q, "q") : null,
    hasP,
    hasQ,
  };
}

/**
 * The tail's mass without the rows that are known exactly although the head does not name them.
 * @param {Row[]} rows
 * @param {Map<number, number>} map
 * @param {Candidates|null|undefined} candidates
 * @param {"p"|"q"} name
 */
function restOf(rows, map, candidates, name) {
  const tail = number(candidates?.tail);
  if (tail === null) return null;
  return rows.reduce((rest, row) => (map.has(row.id) ? rest : Math.max(0, rest - (row[name] ?? 0))), tail);
}

/**
 * Whether only a bound is known of one of its probabilities.
 * @param {Pick<Shown, "p"|"q"|"pBound"|"qBound">} row
 */
export function isBounded({ p, q, pBound = null, qBound = null }) {
  return (p === null && pBound !== null) || (q === null && qBound !== null);
}

/**
 * The rows that are shown, with all others as the last one.
 * @param {Bars} bars
 * @param {boolean} expanded
 * @returns {Shown[]}
 */
export function shownOf(bars, expanded) {
  const rows = expanded ? bars.rows : bars.rows.filter((row) => !row.minor);
  const hidden = expanded ? [] : bars.rows.filter((row) => row.minor);
  /** @param {number|null} value @param {"p"|"q"} name */
  const rest = (value, name) => {
    const fixed = name === "q" && hidden.some((row) => row.q === 1); // of several fixed guesses each has a q of 1: they have no sum
    return value === null || fixed ? null : hidden.reduce((sum, row) => sum + (row[name] ?? 0), value);
  };
  const others = { id: null, text: null, p: rest(bars.pRest, "p"), q: rest(bars.qRest, "q"), node: null };
  return (others.p ?? 0) > 1e-9 || (others.q ?? 0) > 1e-9 ? [...rows, others] : rows;
}

/**
 * @param {Trace} trace
 * @param {Candidates|null|undefined} candidates
 * @param {number|undefined} committed
 * @returns {Drawable[]} the named tokens of a distribution, in falling order
 */
export function headOf(trace, candidates, committed) {
  return [...head(candidates)].map(([id, prob]) => ({
    id,
    text: tokenText(trace, id),
    prob,
    committed: id === committed,
  }));
}

/** @param {Trace} trace @param {Candidates} residual @param {number|undefined} committed */
export function residualOf(trace, residual, committed) {
  const rows = headOf(trace, residual, committed);
  const kept = rows.filter((row, at) => at < SHOWN || row.committed);
  return { rows: kept, rest: Math.max(0, 1 - kept.reduce((total, row) => total + row.prob, 0)) };
}
