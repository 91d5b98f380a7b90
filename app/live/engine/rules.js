/**
 * The acceptance rules: how far each goes down a tree, and what the next token is drawn from.
 *
 * @import { Verdict } from "../../player/types.js"
 * @import { TokenTree } from "./tree.js"
 * @typedef {{path: number[], verdicts: Verdict[], thresholds: (number|null)[]}} Decision
 * @typedef {{tree: TokenTree, coins: number[], p: Float32Array[], q: Float32Array[]|null}} Given `p` at each position, `q`
 *   that each node was drawn from, none where the proposal was deterministic
 * @typedef {Decision & {final: Float32Array}} Judgement
 * @typedef {{title: string, lossless: boolean, own: boolean, judge: (given: Given) => Judgement,
 *   greedy: ((tree: TokenTree, best: number[], coins: number[]) => Decision)|null}} Rule `own`: at temperature 0 it sees the
 *   models' own probabilities; `greedy`: judges by the target's most likely token at each position
 */

import { entropy, residual } from "./sampling.js";

const EPSILON = 0.09; // the highest threshold of typical acceptance
const DELTA = 0.3; // of the exponential of the negative entropy

/**
 * Down to the first child that passes, until none does.
 * @param {TokenTree} tree
 * @param {number[]} coins
 * @param {(child: number, failed: number[]) => number} ratio
 * @returns {Decision}
 */
function walk(tree, coins, ratio) {
  /** @type {Decision} */
  const made = { path: [], verdicts: tree.tokens.map(() => "unreached"), thresholds: tree.tokens.map(() => null) };
  for (let position = 0; ; ) {
    /** @type {number[]} */
    const failed = [];
    const passed = tree.children[position].find((child) => {
      const threshold = Math.min(1, ratio(child, failed));
      made.thresholds[child] = threshold;
      made.verdicts[child] = coins[child] < threshold ? "accepted" : "rejected";
      if (coins[child] < threshold) return true;
      failed.push(child);
      return false;
    });
    if (passed === undefined) return made;
    made.path.push(passed);
    position = passed + 1;
  }
}

/** p/q of a token; one with q = 0 does not pass. @param {number} mass @param {number} drawn */
export const over = (mass, drawn) => (drawn > 0 ? mass / drawn : 0);

/** Recursive rejection (Leviathan et al. 2023, Algorithm 1; on trees SpecInfer's). @param {Given} given @returns {Judgement} */
function recursive({ tree, coins, p, q }) {
  let left = p[0];
  const reject = (/** @type {number} */ child) => {
    left = residual(left, q ? q[child] : tree.tokens[child]);
  };
  const decision = walk(tree, coins, (child, failed) => {
    const failure = failed.at(-1);
    if (failure === undefined) left = p[tree.parents[child] + 1];
    else reject(failure);
    return over(left[tree.tokens[child]], q ? q[child][tree.tokens[child]] : 1);
  });
  const end = ending(decision);
  const last = tree.children[end].at(-1);
  if (last === undefined) left = p[end];
  else reject(last);
  return { ...decision, final: left };
}

/** The position that the next token follows. @param {Decision} decision */
export const ending = ({ path }) => (path.at(-1) ?? -1) + 1;

/** @param {TokenTree} tree @param {number[]} best @param {number[]} coins */
const matching = (tree, best, coins) =>
  walk(tree, coins, (child) => Number(tree.tokens[child] === best[tree.parents[child] + 1]));

/** Medusa's rule (Cai et al. 2024): the longest path of tokens above min(ε, δ exp(−H)). @param {Given} given @returns {Judgement} */
function typical({ tree, p }) {
  /** @type {Map<number, number>} */
  const scores = new Map([[-1, 0]]); // of the paths to the nodes that pass
  /** @type {(number|null)[]} */
  const thresholds = tree.tokens.map(() => null);
  const spread = p.map((row, position) => (tree.children[position].length ? entropy(row) : 0));
  for (const [node, parent] of tree.parents.entries()) {
    const score = scores.get(parent);
    if (score === undefined) continue;
    const mass = p[parent + 1][tree.tokens[node]];
    const passes = mass > Math.min(DELTA * Math.exp(-spread[parent + 1]), EPSILON);
    thresholds[node] = Number(passes);
    if (passes) scores.set(node, score + Math.log(mass));
  }
  const depth = (/** @type {number} */ node) => (node < 0 ? 0 : tree.depths[node]);
  let end = -1;
  for (const [node, score] of scores) {
    const further = depth(node) - depth(end) || score - /** @type {number} */ (scores.get(end));
    if (further > 0) end = node;
  }
  const path = tree.path(end);
  /** @type {Verdict[]} */
  const verdicts = tree.parents.map((parent, node) => {
    if (path.includes(node)) return "accepted";
    return thresholds[node] === 0 && (parent < 0 || path.includes(parent)) ? "rejected" : "unreached";
  });
  return { path, verdicts, thresholds, final: p[end + 1] };
}

/** @type {Record<string, Rule>} */
export const RULES = {
  "speculative-sampling": {
    title: "Speculative sampling",
    lossless: true,
    own: false,
    judge: recursive,
    greedy: matching,
  },
  "token-matching": {
    title: "Token matching",
    lossless: true,
    own: false,
    judge: (given) => recursive({ ...given, q: null }),
    greedy: matching,
  },
  "exact-match": { title: "Exact match", lossless: true, own: false, judge: recursive, greedy: matching },
  typical: { title: "Typical acceptance", lossless: false, own: true, judge: typical, greedy: null },
};
