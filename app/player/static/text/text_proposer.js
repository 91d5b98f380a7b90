/** The texts about the proposer's own view. */

import { texts } from "./format.js";
import { MESSAGES } from "./messages.js";

const proposer = texts(MESSAGES.proposer);

/** @param {string[]} own */
const pieces = (own) => own.map(proposer.piece).join(" ");

/**
 * How many candidates a head made, which of them were sent, and which others the tree shows.
 * @param {"eagle"|"mtp"} who
 * @returns {(levels: number|null, found: number|null, nodes: number, shown: boolean) => string}
 */
const drafted = (who) => (levels, found, nodes, shown) =>
  levels === null && !nodes
    ? proposer.none(who)
    : proposer[who](levels, found) +
      proposer.sent(nodes, found === nodes) +
      proposer.rest(who, shown, (found ?? 0) > nodes);

export const W = {
  ...proposer,
  titles: /** @type {Record<string, string>} */ (proposer.titles),
  eagle: drafted("eagle"),
  mtp: drafted("mtp"),
  /** @param {number|null} read @param {number|null} masks @param {number} nodes */
  parallel: (read, masks, nodes) =>
    proposer.parallel(read === null || masks === null ? null : read - masks, masks, nodes),
  /** @param {string[]} own @param {number} nodes */
  byText: (own, nodes) => proposer.byText(pieces(own), nodes),
  /** @param {string[]} own @param {number} nodes */
  byTokens: (own, nodes) => proposer.byTokens(pieces(own), nodes),
  /** @param {number|null} length @param {number|null} places @param {number|null} earlier @param {number} nodes */
  suffix: (length, places, earlier, nodes) => {
    const all = earlier === places ? (places === 1 ? "one-of-one" : "all") : earlier;
    return proposer.suffix(length, length ? places || null : null, earlier ? all : null, nodes);
  },
};
