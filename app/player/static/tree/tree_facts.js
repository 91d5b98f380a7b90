/** What a round's tree shows: which nodes, and what is known of their probabilities. Everything here is pure. */

/**
 * @import { RoundRecord } from "../../types.js"
 * @import { Lane, Proposal, Round } from "../model/model.js"
 * @import { View } from "../model/state.js"
 * @import { Item, Key } from "../model/tree.js"
 */

import { nonNull } from "../dom/non_null.js";
import { copying, list, number } from "../model/model.js";
import { wasRead } from "../model/slots.js";
import { keyOf, OWN, ROOT } from "../model/tree.js";

export const FOLDED_FROM = 9; // if there are this many pruned guesses, they are behind a button
const MOST = 512; // nodes in the picture; proposers send fewer, but a hostile record may not

/**
 * What determines the layout; `open`: pruned guesses are shown even where they are many.
 * @typedef {{whole: Round, lane: Lane, at: number, done: boolean, open: boolean, guessed: boolean, rivals: boolean}} Shape
 */

/**
 * @param {View} view
 * @param {Round} round the part of the leading lane's round that is known
 * @param {Round|null} unfolded the round whose pruned guesses were requested
 * @returns {Shape}
 */
export function shapeOf({ lanes, lead, moment, chosen, focus }, round, unfolded) {
  const { lane } = lanes[lead];
  const whole = lane.rounds[round.index];
  const wanted = chosen && focus?.lane === lead && focus.round === round.index ? focus.node : null;
  const seen = whole.proposals.filter(wasRead);
  return {
    whole,
    lane,
    at: lead,
    done: !moment || moment.phase === "committed",
    open: unfolded === whole || (wanted !== null && whole.proposals[wanted]?.verdict === "pruned"),
    guessed: seen.length > 0,
    rivals: new Set(seen.map((item) => item.parent)).size < seen.length,
  };
}

/**
 * A node's token: a guess, or what the target wrote itself.
 * @param {Key} key
 * @param {Round} round
 */
export function writtenOf(key, round) {
  if (key !== OWN)
    return { text: round.proposals[key].text, verdict: round.proposals[key].verdict, isOwn: false };
  const { name, source } = nonNull(round.tokens.find((token) => token.node < 0));
  return { text: name, verdict: source, isOwn: true };
}

/**
 * What is drawn of a round: what was guessed, as far as it is known; once the round is over also the target's own token.
 * @param {Round} whole
 * @param {boolean} done
 * @param {boolean} open whether pruned guesses are shown even where they are many
 */
export function itemsOf(whole, done, open) {
  const pruned = whole.proposals.filter((item) => item.verdict === "pruned").length;
  const folded = pruned >= FOLDED_FROM && !open;
  const read = whole.proposals.filter(wasRead);
  const unread = whole.proposals.filter((item) =>
    item.verdict === "pruned" ? !folded : done && !wasRead(item),
  );
  const all = [...read, ...unread];
  /** @type {(Item & {item: Proposal|null})[]} the token that the target adds is no proposal */
  const items = [];
  const drawn = new Set([ROOT]);
  for (const item of all) {
    if (items.length >= MOST || !drawn.has(item.parent)) continue; // a damaged record may have a node under an unseen one
    drawn.add(item.node);
    items.push({ node: item.node, parent: item.parent, item });
  }
  if (done && whole.tokens.some((token) => token.node < 0)) {
    const last = whole.proposals.findLast((item) => item.verdict === "accepted" && drawn.has(item.node));
    items.push({ node: OWN, parent: last?.node ?? ROOT, item: null });
  }
  const lost = all.length - (drawn.size - 1);
  return { items, pruned, lost };
}

/**
 * The probabilities of a round's nodes: which are known, and which of them the lines are drawn by.
 * @param {Lane} lane
 * @param {RoundRecord|undefined} round of the trace
 * @param {boolean} target whether the target's pass has run
 * @param {boolean} done whether the round is over
 */
export function factsOf(lane, round, target, done) {
  const record = round?.nodes ?? {};
  // At temperature 0 the judge's p and q are only 0 and 1, and the models' own say more; above it the judge's decide.
  const own = lane.temperature === 0;
  const columns = {
    p: list(record.p),
    q: list(record.q),
    mp: list(record.penalised_p ?? record.model_p),
    mq: list(record.penalised_q ?? record.model_q),
    rank: list(record.rank),
  };
  const drawn = lane.draws && !copying(round?.note?.by);
  const fixed = !drawn && columns.q.every((value) => number(value) === null || value === 1); // for the judge; its own q is what the draft had
  /** @param {number} node */
  const qOf = (node) =>
    own || fixed || number(columns.mq[node]) === null ? number(columns.mq[node]) : number(columns.q[node]);
  /** @param {number} node */
  const pOf = (node) =>
    target ? ((own ? number(columns.mp[node]) : null) ?? number(columns.p[node])) : null;
  const drafted = columns.mq.some((value) => number(value) !== null);
  /** @type {"q"|"p"|"none"|"live"} */
  const by = drafted
    ? "q"
    : target && columns.p.some((value) => number(value) !== null)
      ? "p"
      : lane.trace
        ? "none"
        : "live";
  const width = { q: qOf, p: pOf, none: () => null, live: () => null }[by];
  const written = done ? list(round?.positions).find((place) => place?.source !== "accepted") : null;
  const best = number(list(written?.p?.id)[0]); // after penalties, as ranks are
  const first = best !== null && best === written?.token;
  const head = (own ? (written?.penalised_p ?? written?.model_p) : null) ?? written?.p;
  const ownP = number(list(head?.prob)[list(head?.id).indexOf(written?.token ?? -1)]); // only the likeliest are recorded
  /** @param {number|null} value */
  const bound = (value) => (value === null ? null : Math.min(Math.max(value, 0), 1));
  return {
    by,
    ranked: target && (columns.rank.length > 0 || first),
    drafted,
    judged: target && columns.p.length > 0,
    /** @param {Key} key */
    of: (key) =>
      key === OWN
        ? { p: ownP, q: null, ownQ: false, rank: first ? 1 : null, width: null }
        : {
            p: pOf(key),
            q: qOf(key),
            ownQ: fixed && !own,
            rank: target ? number(columns.rank[key]) : null,
            width: bound(width(key)),
          },
  };
}

/**
 * The node to look at: the chosen one, the one being judged, or the one that was decided last.
 * @param {View} view
 * @param {number} lane
 * @param {number} round
 * @param {Item[]} items
 */
export function sightOf({ moment, focus, chosen }, lane, round, items) {
  const own = focus?.lane === lane && focus.round === round ? keyOf(focus.node) : null;
  const wanted = [chosen ? own : null, moment?.node ?? null, own];
  return wanted.find((key) => items.some(({ node }) => node === key)) ?? items[0].node;
}
