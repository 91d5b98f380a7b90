/**
 * What a proposer hands over.
 *
 * @import { Note } from "../../player/types.js"
 * @typedef {{token: number, parent: number, verdict: "pruned", model_q: number}} Dropped
 * @typedef {{tree: TokenTree, q: Float32Array[]|null, draft: boolean, rows: number[]|null, passes: number, waited: number,
 *   dropped: Dropped[], note: Note & Record<string, unknown>}} Proposal `q`: what each node was drawn from; `draft`: whether
 *   the draft's logits are behind it; `rows`: of them the row at each position, −1 for none; left out, each at its own
 */

import { TokenTree } from "./tree.js";

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
