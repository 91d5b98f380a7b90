/** The texts of the tree, the mask and the KV cache. */

import { texts } from "./format.js";
import { MESSAGES } from "./messages.js";

const tree = texts(MESSAGES.tree);

export const W = {
  ...tree,
  /** The slots that a pass of `width` rows writes after `before` kept ones. @param {number} before @param {number} width */
  kvReserved: (before, width) => tree.kvReserved(before, width, before + width - 1),
  /** @param {number} before @param {number} width */
  kvWritten: (before, width) => tree.kvWritten(before, width, before + width - 1),
  /**
   * @param {number} before
   * @param {number} after
   * @param {number} width
   * @param {number[]} kept
   * @param {boolean} moved
   * @param {string} pending
   * @param {string} source
   * @param {boolean} ends
   */
  kvKept: (before, after, width, kept, moved, pending, source, ends) => {
    const path = kept.length > 12 ? null : kept.join(", ");
    const last = after - 1;
    return tree.kvKept(
      before,
      last,
      after,
      after + 1,
      width,
      kept.length,
      path,
      moved,
      pending,
      source,
      ends,
    );
  },
  /** @param {number} before @param {number|null} after @param {number} kept @param {number|null} committed */
  kvOdd: (before, after, kept, committed) =>
    tree.kvOdd(before, after, kept, committed, committed === null ? null : committed - 1),
};
