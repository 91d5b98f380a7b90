/**
 * The viewer's position, and what may be shown there. All functions are pure; the cursor is the only state.
 *
 * A stop is a place of the cursor: 0 is the prompt alone, n the leading lane's round n. If another lane was still
 * busy then, one more stop shows all at the end. Within a round the cursor can be at one of its events.
 *
 * @typedef {{lane: number, round: number, node: number}} Selection `round` counts from 0; node −1: the target's own token
 * @typedef {{stop: number, event: number|null, selection: Selection|null, lead: number|null}} Cursor `event` is an index into
 *   `momentsOf` of the round `stop`, null the whole round; `lead` is the leading lane, null the last one
 * @typedef {Cursor & {lead: number}} Placed a cursor within its bounds
 * @typedef {{lane: Lane, rounds: Round[], tokens: number, repeated: number, clock: number,
 *   rate: number|null, rest: string, end: string|null, speedup: number|null, fork: Fork|null}} LaneView
 * @typedef {{lanes: LaneView[], lead: number, baseline: number, stop: number, last: number, event: number|null, clock: number,
 *   atEnd: boolean, focus: Selection|null, chosen: boolean, speedup: number|null, compared: number}
 *   & {begun: {round: Round, moment: Moment}|null}
 *   & ({current: Round, moment: Moment} | {current: null, moment: null})} View `clock` is the leading lane's; `begun` is
 *   the cursor's round while it is in progress, `current` the selected one or else the cursor's;
 *   `compared` is the lane whose speedup over the baseline `speedup` is
 */

/**
 * @import { Fork } from "./fork.js"
 * @import { Lane, Round } from "./model.js"
 * @import { Moment } from "./moments.js"
 */

import { forkOf } from "./fork.js";
import { momentAt, momentsOf, roundAt } from "./moments.js";
import { nonNull } from "../dom/non_null.js";

const SAME = 1e-9; // seconds; sums of equal phases differ by less

/**
 * A whole number within bounds; anything odd is the lower bound.
 * @param {number|null} value
 * @param {number} low
 * @param {number} high
 */
function within(value, low, high) {
  return Math.min(Math.max(Math.round(value ?? 0) || 0, low), high);
}

/**
 * The lane whose rounds the cursor walks through: the one that was chosen, else the last.
 * @param {Lane[]} lanes
 * @param {number|null} [lead]
 */
export function leader(lanes, lead = null) {
  const last = Math.max(0, lanes.length - 1);
  return lead === null || lead === undefined ? last : within(lead, 0, last);
}

/**
 * The baseline of the speedups: the first lane that decodes plainly; −1 if there is none.
 * @param {Lane[]} lanes
 */
function baselineOf(lanes) {
  return lanes.findIndex((lane) => lane.proposer === "none");
}

/**
 * The lane that opens: of several that guess the one that wrote most tokens per second, the first of equals.
 * @param {Pick<Lane, "proposer"|"rounds">[]} lanes
 * @returns {number|null} null with fewer than two that wrote anything
 */
export function fastest(lanes) {
  const rates = lanes.map((lane) => {
    const tokens = lane.rounds.reduce((sum, round) => sum + round.tokens.length, 0);
    return lane.proposer === "none" ? 0 : tokens / (lane.rounds.at(-1)?.end || Infinity);
  });
  const guessing = rates.filter((rate) => rate > 0).length;
  return guessing < 2 ? null : rates.indexOf(Math.max(...rates));
}

/** @param {Lane|undefined} lane */
function clockOf(lane) {
  return lane?.rounds.at(-1)?.end ?? 0;
}

/**
 * The highest stop.
 * @param {Lane[]} lanes
 * @param {number|null} [lead]
 */
export function lastStop(lanes, lead = null) {
  if (!lanes.length) return 0;
  const leading = lanes[leader(lanes, lead)];
  const unfinished = lanes.some((lane) => lane.rest !== "" || clockOf(lane) > clockOf(leading) + SAME);
  return leading.rounds.length + (unfinished ? 1 : 0);
}

/**
 * How many of `rounds` had ended at `clock`; ends never fall.
 * @param {Round[]} rounds
 * @param {number} clock
 */
export function endedBy(rounds, clock) {
  let low = 0;
  let high = rounds.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (rounds[middle].end <= clock + SAME) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The cursor with everything clamped to its bounds, and one form for each place.
 * @param {Lane[]} lanes
 * @param {{stop: number|null, event: number|null, selection?: Selection|null, lead: number|null}} cursor
 * @returns {Placed}
 */
export function placed(lanes, cursor) {
  const lead = leader(lanes, cursor.lead);
  const stop = within(cursor.stop, 0, lastStop(lanes, lead));
  const round = stop > 0 ? lanes[lead]?.rounds[stop - 1] : undefined;
  const steps = round ? momentsOf(lanes[lead], round).length : 0;
  const { event } = cursor;
  const inside = round !== undefined && typeof event === "number" && event < steps - 1;
  return {
    stop,
    event: inside ? within(event, 0, steps - 2) : null,
    selection: cursor.selection ?? null,
    lead,
  };
}

/**
 * Everything that may be on the page at `cursor`, and nothing later.
 * @param {Lane[]} lanes
 * @param {Cursor} cursor
 * @param {number} [least] how many tokens a speedup needs in both lanes
 * @returns {View}
 */
export function visible(lanes, cursor, least = 1) {
  const { stop, event, selection, lead } = placed(lanes, cursor);
  const leading = lanes[lead];
  const last = lastStop(lanes, lead);
  const shown = Math.min(stop, leading?.rounds.length ?? 0);
  const atEnd = stop === last;
  const seen = shown ? roundAt(leading, leading.rounds[shown - 1], event) : null; // the cursor's round
  const clock = seen?.end ?? 0;
  const views = lanes.map((lane, at) => {
    const ended = atEnd && event === null ? lane.rounds.length : stop ? endedBy(lane.rounds, clock) : 0;
    const count = at === lead ? shown - (event === null ? 0 : 1) : ended;
    const finished = (atEnd && event === null) || (stop > 0 && count === lane.rounds.length);
    return laneView(lane, count, finished && (stop > 0 || last === 0));
  });
  const baseline = baselineOf(lanes);
  compare(views, baseline, least);
  const here = { lanes: views, lead, current: seen };
  const chosen = selection !== null && allowed(here, selection);
  const current = chosen && selection.lane === lead ? nonNull(roundOf(here, selection)) : seen; // a selection determines its round
  const moment = current && momentAt(leading, leading.rounds[current.index], current === seen ? event : null);
  const begun =
    seen && event !== null
      ? { round: seen, moment: momentAt(leading, leading.rounds[seen.index], event) }
      : null;
  const node = current && moment && mostInformative(current, moment);
  const focus = chosen
    ? selection
    : current && node !== null
      ? { lane: lead, round: current.index, node }
      : null;
  const compared = comparedOf(views, baseline, lead);
  const speedup = views[compared]?.speedup ?? null;
  const there = current && moment ? { current, moment } : { current: null, moment: null };
  return {
    lanes: views,
    lead,
    baseline,
    stop,
    last,
    event,
    clock,
    atEnd: atEnd && event === null,
    begun,
    ...there,
    focus,
    chosen,
    speedup,
    compared,
  };
}

/**
 * A lane's first `count` rounds with its numbers at that moment.
 * @param {Lane} lane
 * @param {number} count
 * @param {boolean} finished
 * @returns {LaneView}
 */
export function laneView(lane, count, finished) {
  const rounds = count === lane.rounds.length ? lane.rounds : lane.rounds.slice(0, count);
  const last = rounds.at(-1);
  const rest = finished ? lane.rest : "";
  const tokens = rest ? lane.total : (last?.total ?? 0);
  return {
    lane,
    rounds,
    tokens,
    repeated: lane.repeats.count(tokens),
    clock: last?.end ?? 0,
    rate: last && last.end > 0 && !lane.untimed ? last.total / last.end : null,
    rest,
    end: finished ? lane.end : null,
    speedup: null,
    fork: null,
  };
}

/**
 * A live run so far, at the last round of its leading lane; each lane has its own clock, so there is no common one.
 * @param {Lane[]} lanes
 * @param {number|null} lead
 * @param {number} [least]
 * @returns {View}
 */
export function ongoing(lanes, lead, least = 1) {
  const views = lanes.map((lane) => laneView(lane, lane.rounds.length, lane.end !== null));
  const baseline = baselineOf(lanes);
  compare(views, baseline, least);
  const leading = leader(lanes, lead);
  const compared = comparedOf(views, baseline, leading);
  const current = lanes[leading]?.rounds.at(-1);
  const there = current
    ? { current, moment: momentAt(lanes[leading], current, null) }
    : { current: null, moment: null };
  const stop = lanes[leading]?.rounds.length ?? 0;
  return {
    lanes: views,
    lead: leading,
    baseline,
    compared,
    speedup: views[compared]?.speedup ?? null,
    ...there,
    stop,
    last: stop,
    event: null,
    clock: 0,
    atEnd: false,
    begun: null,
    focus: null,
    chosen: false,
  };
}

/**
 * Give each lane its speedup and its fork. A speedup is tokens per second over the baseline's, both by their own clocks;
 * null until both have written `least` tokens, since fewer say nothing.
 * @param {LaneView[]} views
 * @param {number} baseline
 * @param {number} [least]
 */
function compare(views, baseline, least = 1) {
  const plain = views[baseline];
  if (!plain) return;
  for (const view of views) {
    if (view === plain) continue;
    const enough = view.tokens >= least && plain.tokens >= least && !view.lane.apart;
    view.speedup = enough && plain.rate && view.rate ? view.rate / plain.rate : null;
    view.fork = forkOf(view, plain);
  }
}

/**
 * The lane whose speedup is shown in large: the leading one, or the last if the baseline leads.
 * @param {LaneView[]} views
 * @param {number} baseline
 * @param {number} lead
 */
function comparedOf(views, baseline, lead) {
  if (baseline < 0 || views.length < 2 || views.some(({ lane }) => lane.apart || lane.untimed)) return -1;
  if (lead !== baseline) return lead;
  return baseline === views.length - 1 ? baseline - 1 : views.length - 1;
}

/**
 * The round of a selection as far as it is visible; undefined where it is not.
 * @param {Pick<View, "lanes"|"lead"|"current">} view
 * @param {Selection} selection
 */
export function roundOf(view, selection) {
  const done = view.lanes[selection.lane]?.rounds[selection.round];
  return (
    done ??
    (selection.lane === view.lead && view.current?.index === selection.round ? view.current : undefined)
  );
}

/** @param {Pick<View, "lanes"|"lead"|"current">} view @param {Selection} selection */
function allowed(view, selection) {
  const round = roundOf(view, selection);
  if (!round) return false;
  return selection.node < 0
    ? ownToken(round) !== null
    : (round.proposals[selection.node]?.verdict ?? "absent") !== "absent";
}

/** @param {Round} round */
function ownToken(round) {
  return round.tokens.find((token) => token.node < 0) ?? null;
}

/**
 * The most informative node: the one being judged; of a whole round the first one rejected at the place where the target
 * wrote its own token, else any rejected one, else what the target added.
 * @param {Round} round
 * @param {Moment} moment
 */
function mostInformative(round, moment) {
  if (moment.node !== null) return moment.node;
  if (moment.phase !== "committed") return nodesOf(round)[0] ?? null;
  const rejected = round.proposals.filter((item) => item.verdict === "rejected");
  const last = round.proposals.findLast((item) => item.verdict === "accepted")?.node ?? -1; // of the path
  const told = rejected.find((item) => item.parent === last) ?? rejected[0];
  if (told) return told.node;
  return ownToken(round) ? -1 : (round.proposals[0]?.node ?? -1);
}

/**
 * The selection one step before or after another, in reading order within the lane; null past either end.
 * @param {View} view
 * @param {Selection} from
 * @param {1|-1} direction
 * @returns {Selection|null}
 */
export function neighbour(view, from, direction) {
  const order = nodesOf(nonNull(roundOf(view, from)));
  const at = order.indexOf(from.node) + direction;
  if (at >= 0 && at < order.length) return { ...from, node: order[at] };
  const round = roundOf(view, { ...from, round: from.round + direction });
  if (!round) return null;
  const next = nodesOf(round);
  if (!next.length) return null;
  return { ...from, round: round.index, node: direction > 0 ? next[0] : next[next.length - 1] };
}

/**
 * What can be selected in a round: its proposals, then the target's own token.
 * @param {Round} round
 */
export function nodesOf(round) {
  const nodes = round.proposals.filter((item) => item.verdict !== "absent").map((item) => item.node);
  return ownToken(round) ? [...nodes, -1] : nodes;
}
