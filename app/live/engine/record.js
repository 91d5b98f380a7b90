/**
 * A round in the columns of the record (specdec_core/record/schema.py has their meanings), off the lane's clock.
 *
 * @import { Candidates, Source, Verdict } from "../../player/types.js"
 * @import { Reader } from "./model.js"
 * @import { Proposal } from "./tree.js"
 * @import { Decision } from "./rules.js"
 * @typedef {{index: number, start: number, seconds: number[], cache: [number, number], proposal: Proposal, coins: number[],
 *   decision: Decision & {final?: Float32Array}, p: Float32Array[]|null, q: Float32Array[]|null, draw: number|null,
 *   verdicts: Verdict[], tokens: number[], sources: Source[], temperature: number}} Seen a round as the loop saw it; `p`: none
 *   where it is one-hot
 */

import { over } from "./rules.js";
import { residual } from "./sampling.js";

const TOP = 10; // candidates that are kept by name

const short = (/** @type {number} */ value) => Math.round(value * 1e9) / 1e9;

/** A row of logits in numbers: the model's own probabilities (temperature 1). */
class Row {
  /** @param {Reader} reader @param {number} row */
  constructor(reader, row) {
    this.logits = reader.logits(row).slice();
    this.probs = reader.probabilities(row, 1);
    this.best = reader.best(row);
    this.spread = spread(this.probs, this.logits, this.best, 1);
  }

  /** @param {number} token its rank; of tokens tied for first place, one is the argmax */
  rank(token) {
    let rank = 1;
    for (const logit of this.logits) if (logit > this.logits[token]) rank += 1;
    return rank === 1 && token !== this.best ? 2 : rank;
  }
}

/**
 * Entropy and largest probability of softmax(logits / temperature).
 * @param {Float32Array} probs
 * @param {Float32Array} logits
 * @param {number} best
 * @param {number} temperature
 */
function spread(probs, logits, best, temperature) {
  let mean = 0;
  for (let token = 0; token < probs.length; token++) mean += probs[token] * (logits[token] - logits[best]);
  return { entropy: short(Math.max(0, -mean / temperature - Math.log(probs[best]))), largest: short(probs[best]) };
}

/** @param {Float32Array} probs @returns {Candidates} */
function candidates(probs) {
  /** @type {number[]} */
  const id = [];
  let least = 0;
  for (let token = 0; token < probs.length; token++) {
    if (probs[token] <= least) continue;
    let at = id.length;
    while (at && probs[id[at - 1]] < probs[token]) at -= 1;
    id.splice(at, 0, token);
    if (id.length > TOP) id.pop();
    if (id.length === TOP) least = probs[id[TOP - 1]];
  }
  const prob = id.map((token) => probs[token]);
  const rest = 1 - prob.reduce((sum, value) => sum + value, 0);
  return { id, prob, tail: id.length === TOP ? Math.min(1, Math.max(0, rest)) : 0 };
}

/** @param {number} token @returns {Candidates} */
const point = (token) => ({ id: [token], prob: [1], tail: 0 });

/** @param {Seen} seen @param {Reader} target whose logits of the round are still there, row i at position i @param {Reader} draft the same */
export function recorded(seen, target, draft) {
  const { tree, dropped, passes, note, rows: of } = seen.proposal;
  /** @type {Record<number, Row>} */
  const made = {};
  const rows = (/** @type {number} */ position) => (made[position] ??= new Row(target, position));
  /** @type {Record<number, Row>} */
  const guessing = {};
  const drafted = (/** @type {number} */ position) => {
    const row = !seen.proposal.draft ? -1 : of ? of[position] : position < tree.size ? position : -1;
    if (row >= 0) guessing[position] ??= new Row(draft, row);
    return guessing[position] ?? null;
  };
  const [draft_s, verify_s, judge_s, commit_s] = seen.seconds;
  return {
    index: seen.index,
    start_s: seen.start,
    draft_s,
    verify_s,
    judge_s,
    commit_s,
    cache_before: seen.cache[0],
    cache_after: seen.cache[1],
    draft_passes: passes,
    nodes: nodes(seen, rows, drafted),
    committed: { token: seen.tokens, source: seen.sources },
    positions: positions(seen, rows, drafted),
    block_mass: tree.chain ? [...masses(seen, atNodes(seen, rows)), ...dropped.map(() => 0)] : null,
    note,
    ahead_s: 0,
    ahead_passes: 0,
    riders: 0,
  };
}

/** p and q of every node's token at its parent; q is 1 where it is a point mass. @param {Seen} seen @param {(position: number) => Row} rows */
function atNodes({ p, q, proposal: { tree } }, rows) {
  return {
    p: tree.tokens.map((token, node) => {
      const position = tree.parents[node] + 1;
      return p ? p[position][token] : Number(rows(position).best === token);
    }),
    q: tree.tokens.map((token, node) => (q ? q[node][token] : 1)),
  };
}

/** @param {Seen} seen @param {(position: number) => Row} rows @param {(position: number) => Row|null} drafted */
function nodes(seen, rows, drafted) {
  const { tree, dropped } = seen.proposal;
  const unseen = dropped.map(() => null);
  const above = tree.parents.map((parent) => parent + 1);
  const at = atNodes(seen, rows);
  const own = (/** @type {(row: Row, token: number) => number} */ value) => [
    ...above.map((position, node) => value(rows(position), tree.tokens[node])),
    ...unseen,
  ];
  const warped = seen.p && seen.temperature > 0 && seen.temperature !== 1 ? seen.p : null;
  const wide = (/** @type {number} */ position) =>
    warped
      ? spread(warped[position], rows(position).logits, rows(position).best, seen.temperature)
      : rows(position).spread;
  const depths = [...tree.depths];
  for (const { parent } of dropped) depths.push(parent < 0 ? 1 : depths[parent] + 1);
  return {
    parent: [...tree.parents, ...dropped.map(({ parent }) => parent)],
    depth: depths,
    token: [...tree.tokens, ...dropped.map(({ token }) => token)],
    verdict: [...seen.verdicts, ...dropped.map(({ verdict }) => verdict)],
    coin: [...seen.coins, ...unseen],
    threshold: [...seen.decision.thresholds, ...unseen],
    p: [...at.p, ...unseen],
    q: [...at.q, ...unseen],
    model_p: own((row, token) => row.probs[token]),
    model_q: [
      ...above.map((position, node) => drafted(position)?.probs[tree.tokens[node]] ?? null),
      ...dropped.map(({ model_q }) => model_q),
    ],
    rank: own((row, token) => row.rank(token)),
    entropy: own((row) => row.spread.entropy),
    p_max: [...above.map((position) => wide(position).largest), ...unseen],
    p_entropy: warped ? [...above.map((position) => wide(position).entropy), ...unseen] : null,
    recursive: !tree.chain && seen.p && seen.q && seen.temperature > 0 ? [...thresholds(seen), ...unseen] : null,
    penalised_p: null,
    penalised_q: null,
    tree_q: null,
  };
}

/** The threshold at every node, had all its earlier siblings failed. @param {Seen} seen */
function thresholds({ p, q, proposal: { tree } }) {
  const found = tree.tokens.map(() => 0);
  if (!p || !q) return found;
  for (const [position, children] of tree.children.entries()) {
    let left = p[position];
    for (const [order, child] of children.entries()) {
      if (order) left = residual(left, q[children[order - 1]]);
      found[child] = Math.min(1, over(left[tree.tokens[child]], q[child][tree.tokens[child]]));
    }
  }
  return found;
}

/** What block verification needs of a chain (Sun et al. 2024). @param {Seen} seen @param {{p: number[], q: number[]}} at */
function masses({ p, q, proposal: { tree } }, at) {
  let claim = 1;
  return tree.tokens.map((_, node) => {
    const row = p?.[node];
    const [mass, drawn] = [at.p[node], at.q[node]];
    let spare = claim * (1 - Math.min(1, mass));
    if (row && q) {
      spare = 0;
      for (let other = 0; other < row.length; other++) spare += Math.max(0, claim * row[other] - q[node][other]);
    }
    claim = drawn > 0 ? Math.min(1, (claim * mass) / drawn) : 0;
    return spare;
  });
}

/** The distributions at every committed token. @param {Seen} seen @param {(position: number) => Row} rows @param {(position: number) => Row|null} drafted */
function positions(seen, rows, drafted) {
  const after = [-1, ...seen.decision.path].slice(0, seen.tokens.length);
  return after.map((at, place) => {
    const row = rows(at + 1);
    const own = drafted(at + 1);
    const p = seen.p ? candidates(seen.p[at + 1]) : point(row.best);
    const corrected = seen.sources[place] === "corrected" && place === after.length - 1;
    const last = place === after.length - 1 && seen.sources[place] !== "accepted";
    const from = seen.p && seen.decision.final ? candidates(seen.decision.final) : point(seen.tokens[place]);
    return {
      at,
      token: seen.tokens[place],
      source: seen.sources[place],
      p,
      model_p: candidates(row.probs),
      ...guessed(seen, at + 1, row.best),
      model_q: own && candidates(own.probs),
      residual: corrected ? from : null,
      entropy_p: row.spread.entropy,
      entropy_q: own ? own.spread.entropy : null,
      draw: last ? seen.draw : null,
      penalised_p: null,
      penalised_q: null,
    };
  });
}

/** What the first child at a position was drawn from, and how likely one passes. @param {Seen} seen @param {number} position @param {number} best */
function guessed({ p, q, proposal: { tree } }, position, best) {
  const children = tree.children[position];
  if (!children.length) return { q: null, overlap: null };
  const tokens = [...new Set(children.map((child) => tree.tokens[child]))];
  const row = p?.[position];
  if (row && q) {
    const from = q[children[0]];
    let overlap = 0;
    for (let token = 0; token < row.length; token++) overlap += Math.min(row[token], from[token]);
    return { q: candidates(from), overlap };
  }
  const mass = row ? tokens.reduce((sum, token) => sum + row[token], 0) : Number(tokens.includes(best));
  return { q: tokens.length === 1 ? point(tokens[0]) : null, overlap: Math.min(1, mass) };
}
