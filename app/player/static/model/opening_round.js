/** Where a run opens that nobody has walked through yet: its most informative round. Pure. */

/**
 * @import { Lane, Round } from "./model.js"
 */

import { branches } from "./tree.js";

const READABLE = /[\p{L}\p{N}]/u;

/**
 * The stop of the round that says most about a lane: of chains a rejection after the most acceptances; of trees, and where
 * nothing was rejected, the round with the most tokens. Of equals one that is late enough for a speedup beside it, with a
 * rejection, with words among its tokens (line breaks and brackets say little), and the last, as more of the text is there.
 * Of a lane that lost, it is a round with a rejection that brought about as many tokens as its rounds did on average.
 * @param {Pick<Lane, "rounds">|undefined} lane
 * @param {number} [least] how many tokens a speedup needs in both lanes; the other may be three times slower
 * @param {boolean} [lost] whether the lane was slower than plain decoding
 * @returns {number|null} null where no round has a guess that was judged
 */
export function openingRound(lane, least = 1, lost = false) {
  const rounds = lane?.rounds ?? [];
  const mean = rounds.reduce((sum, round) => sum + round.tokens.length, 0) / rounds.length;
  const typical = lost
    ? best(rounds, 3 * least, (round) =>
        has(round, "rejected") ? 9 / (1 + Math.abs(round.tokens.length - mean)) : 0,
      )
    : null;
  const trees = rounds.some((round) => branches(round.proposals));
  const rejecting = trees
    ? null
    : best(rounds, 3 * least, (round) =>
        has(round, "rejected") && accepted(round) > 0 ? accepted(round) : 0,
      );
  const found =
    typical ??
    rejecting ??
    best(rounds, 3 * least, (round) => (accepted(round) > 0 ? round.tokens.length : 0)) ??
    best(rounds, 3 * least, (round) => (has(round, "rejected") ? 1 : 0));
  return found === null ? null : found + 1;
}

/**
 * The last round of those with the highest score above 0; one that the end of the text cut short only if there is no other.
 * @param {Round[]} rounds
 * @param {number} early a round that ends with fewer tokens counts a little less
 * @param {(round: Round) => number} score
 */
function best(rounds, early, score) {
  let [found, most] = [-1, 0];
  rounds.forEach((round, at) => {
    const readable =
      round.tokens.filter((token) => READABLE.test(token.name)).length / (round.tokens.length + 1);
    const told = (has(round, "rejected") ? 0.3 : 0) + readable * 0.3 - (round.total < early ? 0.35 : 0); // all together less than one acceptance
    const value = score(round) && (score(round) + told) / (has(round, "cut") ? 1000 : 1);
    if (value >= most && value > 0) [found, most] = [at, value];
  });
  return found < 0 ? null : found;
}

/**
 * What is to be seen in the round at which a run opens: of a chain with a rejection how many guesses were kept before it,
 * else how many tokens it wrote.
 * @param {Round} round
 * @returns {{kept: number|null, tokens: number, guesses: number, accepted: number}}
 */
export function shownBy(round) {
  const chain = has(round, "rejected") && !branches(round.proposals);
  const guesses = round.proposals.filter((item) => item.verdict !== "pruned").length;
  return {
    kept: chain ? accepted(round) : null,
    tokens: round.tokens.length,
    guesses,
    accepted: accepted(round),
  };
}

/** @param {Round} round @param {string} verdict */
function has(round, verdict) {
  return round.proposals.some((item) => item.verdict === verdict);
}

/** @param {Round} round */
function accepted(round) {
  return round.proposals.filter((item) => item.verdict === "accepted").length;
}
