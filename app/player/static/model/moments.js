/**
 * The events within a round: proposed → verified → judged, node after node → committed. Everything here is pure.
 *
 * A cursor inside a round sees the round as it was at that moment (`roundAt`): verdicts still open
 * are "waiting" (what was pruned is known before the check), wasted drafting ahead is "absent", and nothing is
 * committed before the last moment. Views ask `knows` before they read the trace.
 *
 * @typedef {"proposed"|"verified"|"judged"|"committed"} Phase
 * @typedef {{phase: Phase, node: number|null, nodes: number[], clock: number}} Event
 *   `nodes` are those whose verdict is given, `node` is the one that decides; `clock` is the lane's in seconds: judging
 *   is recorded as one phase, so every verdict is placed at its beginning
 * @typedef {{phase: Phase, step: number, steps: number, judged: Set<number>, node: number|null}} Moment
 */

/**
 * @import { Seen } from "../../types.js"
 * @import { Lane, Proposal, Round } from "./model.js"
 * @import { View } from "./state.js"
 */

const JUDGED = new Set(["accepted", "rejected"]);

/** @type {WeakMap<Round, Event[]>} */
const events = new WeakMap();
/** @type {WeakMap<Round, Round[]>} the rounds as they were at its moments, so that equal cursors give equal objects */
const partial = new WeakMap();
/** @type {WeakMap<Event[], Moment[]>} */
const passed = new WeakMap();

/**
 * A round's events in order.
 * @param {Lane} lane
 * @param {Round} round one of the lane's
 * @returns {Event[]}
 */
export function momentsOf(lane, round) {
  let made = events.get(round);
  if (!made) {
    made = listed(lane, round);
    events.set(round, made);
  }
  return made;
}

/** @param {Lane} lane @param {Round} round */
function listed(lane, round) {
  const { drafted, verified, end } = round.times;
  /** @type {Event[]} */
  const made = round.proposals.length ? [{ phase: "proposed", node: null, nodes: [], clock: drafted }] : [];
  made.push({ phase: "verified", node: null, nodes: [], clock: verified });
  // A rule walks down from the root, along the siblings of each level; on one level the earlier sibling came first.
  const judged = round.proposals.filter((item) => JUDGED.has(item.verdict));
  judged.sort((one, other) => one.depth - other.depth || one.node - other.node);
  if (lane.judging === "longest") {
    const deciding = judged.findLast((item) => item.verdict === "accepted") ?? judged[0];
    if (deciding)
      made.push({
        phase: "judged",
        node: deciding.node,
        nodes: judged.map((item) => item.node),
        clock: verified,
      });
  } else {
    for (const { node } of judged) made.push({ phase: "judged", node, nodes: [node], clock: verified });
  }
  made.push({ phase: "committed", node: null, nodes: [], clock: end });
  return made;
}

/**
 * The moment at which a round is seen.
 * @param {Lane} lane
 * @param {Round} round
 * @param {number|null} event an index into `momentsOf`; null is the last one
 * @returns {Moment}
 */
export function momentAt(lane, round, event) {
  const list = momentsOf(lane, round);
  let made = passed.get(list);
  if (!made) {
    /** @type {number[]} */
    const judged = [];
    made = list.map(({ phase, node, nodes }, step) => {
      judged.push(...nodes);
      return { phase, step, steps: list.length, judged: new Set(judged), node };
    });
    passed.set(list, made);
  }
  return made[event ?? list.length - 1];
}

/**
 * A round as it was at a moment; at the last one it is the round itself.
 * @param {Lane} lane
 * @param {Round} round
 * @param {number|null} event
 * @returns {Round}
 */
export function roundAt(lane, round, event) {
  const list = momentsOf(lane, round);
  if (event === null || event >= list.length - 1) return round;
  const made = partial.get(round) ?? [];
  partial.set(round, made);
  made[event] ??= unfinished(round, momentAt(lane, round, event), list[event].clock);
  return made[event];
}

/**
 * Whether the verdicts given so far leave out a guess: it follows one that was rejected, or another was accepted in its place or
 * in that of one it follows.
 * @param {Proposal} item
 * @param {Round} round
 * @param {Moment} moment
 */
function lost(item, round, moment) {
  /** @param {Proposal} other @param {Seen} verdict */
  const fell = (other, verdict) => moment.judged.has(other.node) && other.verdict === verdict;
  for (let one = item; one; one = round.proposals[one.parent]) {
    if (fell(one, "rejected")) return true;
    if (
      !fell(one, "accepted") &&
      round.proposals.some((other) => other.parent === one.parent && fell(other, "accepted"))
    )
      return true;
  }
  return false;
}

/** @param {Round} round @param {Moment} moment @param {number} clock */
function unfinished(round, moment, clock) {
  // What was drafted ahead and dropped is no proposal of the round: until the commit it does not exist.
  /** @param {Proposal} item @returns {Seen} */
  const verdictOf = (item) => {
    if (item.verdict === "discarded") return "absent";
    return item.verdict === "pruned" || (item.verdict === "unreached" && lost(item, round, moment))
      ? item.verdict
      : "waiting";
  };
  const proposals = round.proposals.map((item) =>
    moment.judged.has(item.node) ? item : { ...item, verdict: verdictOf(item) },
  );
  const times = { ...round.times, verified: Math.min(round.times.verified, clock), end: clock };
  return {
    ...round,
    proposals,
    times,
    end: clock,
    tokens: [],
    hangs: [],
    total: round.total - round.tokens.length,
  };
}

/**
 * Whether something about the round `view.current` may be on the page. Every earlier round is known in full.
 * @param {View} view
 * @param {"q"|"p"|"coin"|"positions"|"times"} what `q`: what the proposer knew; `p`: the target's probabilities of the
 *   proposals; `coin`: coin and threshold of `node`, once it was judged; `positions`: whole distributions, the residual,
 *   the target's own token; `times`: how long the phases took
 * @param {number} [node]
 * @returns {boolean}
 */
export function knows(view, what, node) {
  const { moment } = view;
  if (!moment) return false;
  if (what === "q") return true;
  if (what === "p") return moment.phase !== "proposed";
  if (what === "coin") return node !== undefined && moment.judged.has(node);
  return moment.phase === "committed";
}
