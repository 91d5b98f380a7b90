/**
 * Token trees: the one shape of every proposal. Node indices run from 0, −1 is the root, the last committed token.
 * Positions number what a pass returns: 0 is the root, i + 1 is node i.
 *
 * @import { Note } from "../../player/types.js"
 * @typedef {{token: number, parent: number, verdict: "pruned", model_q: number}} Dropped
 * @typedef {{tree: TokenTree, q: Float32Array[]|null, draft: boolean, rows: number[]|null, passes: number, waited: number,
 *   dropped: Dropped[], note: Note & Record<string, unknown>}} Proposal `q`: what each node was drawn from; `draft`: whether
 *   the draft's logits are behind it; `rows`: of them the row at each position, −1 for none; left out, each at its own
 */

export class TokenTree {
  /** @param {number[]} [tokens] @param {number[]} [parents] a chain if left out */
  constructor(tokens = [], parents = tokens.map((_, at) => at - 1)) {
    this.tokens = tokens;
    this.parents = parents;
    this.size = tokens.length;
    this.chain = parents.every((parent, at) => parent === at - 1);
    /** @type {number[]} */
    this.depths = [];
    for (const parent of parents) this.depths.push(parent < 0 ? 1 : this.depths[parent] + 1);
    /** @type {number[][]} */
    this.children = Array.from({ length: this.size + 1 }, () => []);
    for (const [node, parent] of parents.entries()) this.children[parent + 1].push(node);
  }

  /** @param {number} node @returns {number[]} the nodes from the first level down to it */
  path(node) {
    return node < 0 ? [] : [...this.path(this.parents[node]), node];
  }
}

/** @param {Partial<Proposal>} [changes] @returns {Proposal} */
export const nothing = (changes = {}) => ({
  tree: new TokenTree(),
  q: null,
  draft: false,
  rows: null,
  passes: 0,
  waited: 0,
  dropped: [],
  note: {},
  ...changes,
});
