/**
 * A draft model proposes a tree, one pass of it per level. At temperature 0 the tree holds its most likely tokens and the best
 * nodes are sent; above it siblings are drawn without repetition, and a drawn token is never taken back, since that would
 * change the text's distribution.
 *
 * @import { Dropped, Proposal } from "./tree.js"
 * @import { Context, Proposer, Resources } from "./proposers.js"
 * @typedef {{token: number, parent: number, value: number, own: number}} Node `value`: the product along its path; `own`: the
 *   draft's at temperature 1
 */

import { DRAFTING, uniforms } from "./philox.js";
import { draw } from "./sampling.js";
import { nothing, TokenTree } from "./tree.js";

const WIDTH = 3; // the most guesses below one token
const LEVELS = 4;
const NODES = 16; // sent each round
const BEAM = 4; // tokens of each level that are followed

class Growth {
  /** @type {Node[]} */
  nodes = [];
  /** @type {Float32Array[]} of each node, if drawn */
  q = [];
  /** @type {Map<number, number>} node, −1 the root, → its row of logits, and of the draft's cache */
  logits = new Map();
  /** @type {Map<number, number>} */
  rows = new Map();
  frontier = [-1];
  levels = 0;
  passes = 0;

  /** @param {Resources["draft"]} draft @param {Context} context @param {number} depth */
  constructor(draft, context, depth) {
    this.draft = draft;
    this.unread = context.tokens.slice(draft.length);
    this.temperature = context.temperature;
    this.depth = depth;
    this.numbers = context.temperature ? uniforms(context.seed, DRAFTING, context.round, NODES) : [];
  }

  over() {
    const spent = this.temperature > 0 && this.nodes.length >= NODES;
    return this.levels === this.depth || !this.frontier.length || spent;
  }

  /** Read the frontier in one pass of the draft and grow its children. */
  advance() {
    const { draft, frontier, temperature } = this;
    const first = this.logits.size;
    for (const [place, node] of frontier.entries()) this.logits.set(node, first + place);
    this.read(first);
    this.passes += 1;
    const probs = frontier.map((_, place) => draft.probabilities(first + place, temperature || 1));
    const own =
      temperature && temperature !== 1 ? frontier.map((_, place) => draft.probabilities(first + place, 1)) : probs;
    const above = frontier.map((node) => (node < 0 ? 1 : this.nodes[node].value));
    const best = probs.map(largest);
    const slots = best.map((tokens, place) => tokens.map((token) => Math.fround(above[place] * probs[place][token])));
    const counts = this.counts(slots);
    const start = this.nodes.length;
    for (const [place, count] of counts.entries()) {
      const tokens = temperature ? this.drawn(probs[place], count) : best[place].slice(0, count);
      for (const token of tokens) {
        const value = above[place] * probs[place][token];
        this.nodes.push({ token, parent: frontier[place], value, own: own[place][token] });
      }
    }
    this.levels += 1;
    this.frontier = this.nodes.length > start ? this.next(start) : [];
  }

  /** @param {number} row of the logits, the first that the pass writes */
  read(row) {
    const { draft, frontier, unread } = this;
    const known = draft.parents.length;
    if (frontier[0] < 0) {
      draft.read(
        unread,
        unread.map((_, at) => at - 1),
        unread.length - 1,
        row,
      );
      this.rows.set(-1, unread.length - 1);
      return;
    }
    for (const [place, node] of frontier.entries()) this.rows.set(node, known + place);
    const family = frontier.map((node) => this.nodes[node]);
    draft.read(
      family.map(({ token }) => token),
      family.map(({ parent }) => this.rows.get(parent) ?? -1),
      0,
      row,
    );
  }

  /** How many children each node of the frontier gets, decided before any is drawn. @param {number[][]} slots */
  counts(slots) {
    const possible = slots.flat().filter((value) => value > 0);
    const even = Math.ceil((NODES - this.nodes.length) / (this.depth - this.levels));
    const share = this.temperature ? Math.min(possible.length, even) : possible.length;
    if (!share) return slots.map(() => 0);
    const least = possible.sort((one, other) => other - one)[share - 1];
    const counts = slots.map((row) => row.filter((value) => value > least).length);
    let spare = share - counts.reduce((sum, count) => sum + count, 0);
    for (const [place, row] of slots.entries()) {
      const more = Math.min(spare, row.filter((value) => value === least).length);
      counts[place] += more;
      spare -= more;
    }
    return counts;
  }

  /** @param {Float32Array} probs @param {number} count */
  drawn(probs, count) {
    let q = probs;
    /** @type {number[]} */
    const tokens = [];
    for (let child = 0; child < count; child++) {
      if (child) q = without(q, tokens[child - 1]);
      tokens.push(draw(q, this.numbers[this.q.length]));
      this.q.push(q);
    }
    return tokens;
  }

  /** Which of the new nodes get children. @param {number} start */
  next(start) {
    const able = this.nodes.map((_, node) => node).slice(start);
    able.sort((one, other) => this.nodes[other].value - this.nodes[one].value);
    return able.slice(0, BEAM).sort((one, other) => one - other);
  }
}

/** The most likely tokens, in order. @param {Float32Array} probs */
function largest(probs) {
  /** @type {number[]} */
  const found = [];
  for (let token = 0; token < probs.length; token++) {
    if (found.length === WIDTH && probs[token] <= probs[found[WIDTH - 1]]) continue;
    let at = found.length;
    while (at && probs[found[at - 1]] < probs[token]) at -= 1;
    found.splice(at, 0, token);
    found.length = Math.min(found.length, WIDTH);
  }
  return found;
}

/** @param {Float32Array} q @param {number} token */
function without(q, token) {
  const left = q.slice();
  left[token] = 0;
  let mass = 0;
  for (const value of left) mass += value;
  return left.map((value) => value / mass);
}

/** @param {Resources} resources @returns {Proposer} */
export function branching({ draft }) {
  /** @type {Growth|null} */
  let growth = null;
  /** @type {number[]} */
  let kept = [];
  return {
    start: (tokens) => draft.step(tokens.slice(0, -1)),
    propose(context) {
      const depth = Math.min(LEVELS, context.limit);
      growth = depth > 0 ? new Growth(draft, context, depth) : null;
      if (!growth) return nothing();
      while (!growth.over()) growth.advance();
      const { nodes } = growth;
      const every = nodes.map((_, node) => node);
      const order = context.temperature ? every : every.toSorted((one, other) => nodes[other].value - nodes[one].value);
      kept = order.slice(0, NODES).sort((one, other) => one - other);
      return proposal(
        growth,
        kept,
        every.filter((node) => !kept.includes(node)),
      );
    },
    observe(_, path) {
      const grown = growth;
      if (!grown) return;
      const read = path.map((node) => grown.rows.get(kept[node])).filter((row) => row !== undefined);
      draft.keep([...grown.unread.map((_, at) => at), ...read]);
    },
  };
}

/** @param {Growth} growth @param {number[]} kept @param {number[]} pruned nodes that are not sent @returns {Proposal} */
function proposal({ nodes, logits, q, passes }, kept, pruned) {
  const number = new Map([-1, ...kept, ...pruned].map((node, place) => [node, place - 1]));
  const parent = (/** @type {number} */ node) => number.get(nodes[node].parent) ?? -1;
  /** @type {Dropped[]} */
  const dropped = pruned.map((node) => ({
    token: nodes[node].token,
    parent: parent(node),
    verdict: "pruned",
    model_q: nodes[node].own,
  }));
  return nothing({
    tree: new TokenTree(
      kept.map((node) => nodes[node].token),
      kept.map(parent),
    ),
    q: q.length ? q : null,
    draft: true,
    rows: [-1, ...kept].map((node) => logits.get(node) ?? -1),
    passes,
    dropped,
  });
}
