/**
 * Token trees: the one shape of every proposal. Node indices run from 0, −1 is the root, the last committed token.
 * Positions number what a pass returns: 0 is the root, i + 1 is node i.
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
