/**
 * The target's KV cache around one pass: which slot each token's row is written to, which rows a commit keeps, where
 * it moves them: computed from the record alone.
 *
 * A pass writes the root's row to the first slot after the committed prefix and the tree's nodes after it, in
 * order; extra tokens come last. The commit gathers the rows of the committed path at the front and drops the
 * others. The newest committed token has no row yet: it is the next round's root.
 */

/**
 * @import { RoundRecord, Seen, Trace } from "../../types.js"
 * @import { Lane, Proposal, Round } from "./model.js"
 */

import { list, number, tokenText } from "./model.js";
import { nonNull } from "../dom/non_null.js";
import { ROOT } from "./tree.js";

/**
 * @typedef {{kind: "root"|"node"|"rider", node: number, above: number, depth: number, text: string}} PassRow `above` is the
 *   row of the parent (−1 at the root), `depth` the distance from the root; `node` is −1 where it is none
 * @typedef {{rows: PassRow[], rowOf: Map<number, number>, before: number|null, after: number|null, branches: boolean, kept: number[],
 *   loose: number, pending: string, committed: number|null, agrees: boolean, byDistance: boolean, ends: boolean}} Pass `branches`: it is no
 *   chain; `kept` are the rows that stay, `loose` counts extra tokens that the record does not name, `pending` is the last committed token, which has
 *   no row yet, `committed` the length of the text after the round, prompt included; `agrees`: the record is consistent;
 *   `byDistance`: the model has no position ids
 */

/** @type {Set<Seen>} */
const UNSEEN = new Set(["pruned", "discarded", "absent"]);

/** @type {WeakMap<Round, Pass>} */
const passes = new WeakMap();

/**
 * Whether the target read a proposal, or is about to.
 * @param {Proposal} item
 */
export function wasRead(item) {
  return !UNSEEN.has(item.verdict);
}

/**
 * The rows of a round's target pass.
 * @param {Lane} lane
 * @param {number} index of the round
 * @returns {Pass}
 */
export function passOf(lane, index) {
  const round = lane.rounds[index];
  const pass = passes.get(round) ?? read(lane, round, index);
  passes.set(round, pass);
  return pass;
}

/** @param {Lane} lane @param {Round} round @param {number} index */
function read(lane, round, index) {
  const record = list(lane.trace?.rounds)[index];
  /** @type {PassRow[]} */
  const rows = [{ kind: "root", node: ROOT, above: -1, depth: 0, text: rootText(lane, index) }];
  const rowOf = new Map([[ROOT, 0]]);
  for (const item of round.proposals) {
    if (!wasRead(item)) continue;
    const above = rowOf.get(item.parent) ?? 0;
    rowOf.set(item.node, rows.length);
    rows.push({ kind: "node", node: item.node, above, depth: rows[above].depth + 1, text: item.text });
  }
  const riding = Math.max(0, number(record?.riders) ?? 0);
  const window = windowOf(lane.trace, record, riding, rows.length);
  rows.push(...window);
  const path = round.proposals.filter((item) => item.verdict === "accepted" && rowOf.has(item.node));
  const kept = [
    0,
    ...path.slice(0, Math.max(0, round.tokens.length - 1)).map((item) => nonNull(rowOf.get(item.node))),
  ];
  const [before, after] = [number(record?.cache_before), number(record?.cache_after)];
  const start = list(lane.trace?.header?.decoder_start).length || list(lane.trace?.header?.prompt_ids).length;
  const committed = lane.trace && start ? start + round.total : null;
  const agrees =
    before === null || (after === before + kept.length && (committed === null || after === committed - 1));
  return {
    rows,
    rowOf,
    before,
    after,
    branches: rows.some((row, at) => row.above !== at - 1),
    kept,
    loose: window.length ? 0 : riding,
    pending: round.tokens.at(-1)?.name ?? "",
    committed,
    agrees,
    byDistance: list(lane.trace?.header?.decoder_start).length > 0,
    ends: lane.end !== null && lane.end !== "cancelled" && index === lane.rounds.length - 1,
  };
}

/**
 * The text of the last token that was committed before a round.
 * @param {Lane} lane
 * @param {number} index
 */
export function rootText(lane, index) {
  if (index > 0) return lane.rounds[index - 1].tokens.at(-1)?.name ?? "";
  const started = list(lane.trace?.header?.decoder_start);
  if (started.length) return tokenText(lane.trace, started[started.length - 1]);
  const text = list(lane.trace?.header?.prompt_texts).at(-1);
  return typeof text === "string" ? text : lane.root || `…${lane.prompt.slice(-8)}`; // an older run that goes on does not name it
}

/**
 * Lookahead's window as rows: its levels one after the other without the first token, which is the root. The first level
 * is a chain below the root; every other token hangs below the level before it in its column.
 * @param {Trace|null} trace
 * @param {RoundRecord|undefined} record
 * @param {number} riding
 * @param {number} first
 */
function windowOf(trace, record, riding, first) {
  const levels = list(record?.note?.window).map((level) => list(level));
  const width = levels[0]?.length ?? 0;
  if (!riding || levels.some((level) => level.length !== width) || levels.length * width - 1 !== riding)
    return [];
  const ids = levels.flat().slice(1);
  /** @type {PassRow[]} */
  const rows = [];
  ids.forEach((id, at) => {
    const up = at < width - 1 ? at - 1 : at - width;
    const depth = up < 0 ? 1 : rows[up].depth + 1;
    rows.push({
      kind: "rider",
      node: ROOT,
      above: up < 0 ? 0 : first + up,
      depth,
      text: tokenText(trace, id),
    });
  });
  return rows;
}

/**
 * The rows that a row attends to within the pass, itself included, from the root down; it also sees the whole prefix.
 * @param {PassRow[]} rows
 * @param {number} row
 */
export function sees(rows, row) {
  const seen = [];
  for (let at = row; at >= 0; at = rows[at].above) seen.push(at);
  return seen.reverse();
}
