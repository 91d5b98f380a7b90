/** What the panel of the odds starts from: the token in focus, its round's columns, and what is known at the moment. */

/**
 * @import { Measure, Position, Trace } from "../../types.js"
 * @import { Proposal } from "../model/model.js"
 * @import { View } from "../model/state.js"
 */

import { list, number } from "../model/model.js";
import { knows } from "../model/moments.js";
import { roundOf } from "../model/state.js";
import { certain } from "./odds_rows.js";

const DRAFTED = new Set(["q", "model_q", "penalised_q"]); // known before the target has run

/** @typedef {NonNullable<ReturnType<typeof caseOf>>} Case */

/** @param {View} view */
export function caseOf(view) {
  const found = tokenOf(view);
  if (!found) return null;
  const { selection, lane, trace, row, round, node, proposal, ownAt } = found;
  const current = selection.lane === view.lead && selection.round === view.current?.index;
  /** @param {Parameters<typeof knows>[1]} what @param {number} [about] */
  const may = (what, about) => !current || knows(view, what, about);
  const [knowsP, over] = [may("p"), may("positions")];
  // The recorded places reveal what was accepted: before the commit only those whose parent is known to be.
  const reached =
    over || !proposal || proposal.parent < 0 || round.proposals[proposal.parent]?.verdict === "accepted";
  const positions = list(row.positions);
  const at = proposal?.parent;
  const place =
    at === undefined ? positions[ownAt] : reached ? positions.find((item) => item?.at === at) : null;
  const position = place ? gated(place, knowsP, over) : null;
  const nodes = row.nodes ?? {};
  /** One number of the round's columns. @param {Measure} name @param {number} of */
  const entry = (name, of) => number(list(nodes[name])[of]);
  /** The token's own. @param {Measure} name */
  const own = (name) => (proposal && (knowsP || DRAFTED.has(name)) ? entry(name, node) : null);
  /** @param {Proposal} item whether the target saw it */
  const seen = (item) =>
    !["pruned", "discarded"].includes(lane.rounds[selection.round].proposals[item.node]?.verdict);
  const parent = proposal ? proposal.parent : place?.at;
  const siblings = round.proposals.filter((item) => item.parent === parent && seen(item));
  /** @param {(node: number) => boolean} test */
  const every = (test) => siblings.length > 0 && siblings.every((item) => test(item.node));
  const ids = siblings.map((item) => list(nodes.token)[item.node]);
  const drawn = lane.draws && !round.copied;
  const sureQ = !drawn && every((of) => entry("q", of) === 1); // at temperature 0 also what a model drafted
  const settings = trace.header?.settings ?? {};
  const greedy = lane.temperature === 0 && !trace.header?.own_probabilities;
  return {
    ...found,
    current,
    may,
    knowsP,
    over,
    positions,
    place,
    before: place ? tokensBefore(trace, selection.round) + positions.indexOf(place) : null, // tokens of the text
    position,
    entry,
    at: own,
    siblings,
    ids, // of the siblings' tokens
    dropped: proposal !== null && !seen(proposal), // the rule never compared it
    elder: proposal ? siblings.filter((item) => item.node < node) : [],
    sureQ,
    q: position?.q ?? (position && sureQ ? certain(ids) : null),
    modelless: sureQ && every((of) => entry("model_q", of) === null),
    id: proposal ? list(nodes.token)[node] : list(row.committed?.token)[ownAt],
    settings,
    rule: String(settings.rule ?? ""),
    greedy,
    compares: greedy && !lane.lossy, // two tokens; no coin decides
  };
}

/** @param {Trace} trace @param {number} round */
const tokensBefore = (trace, round) =>
  list(trace.rounds)
    .slice(0, round)
    .reduce((sum, row) => sum + list(row.committed?.token).length, 0);

/**
 * The token in focus and what was recorded of its round; null where there is none.
 * @param {View} view
 */
function tokenOf(view) {
  const selection = view.focus;
  const lane = selection && view.lanes[selection.lane]?.lane;
  const trace = lane?.trace;
  if (!selection || !lane || !trace) return null;
  const row = list(trace.rounds)[selection.round];
  const round = roundOf(view, selection);
  if (!row || !round) return null;
  const { node } = selection;
  const proposal = (node >= 0 && round.proposals[node]) || null;
  const written = proposal ? undefined : round.tokens.find((token) => token.node < 0);
  if (!proposal && !written) return null;
  const ownAt = written ? round.tokens.indexOf(written) : -1;
  return { selection, lane, trace, row, round, node, proposal, written, ownAt };
}

/**
 * A position without what is not known yet at the moment.
 * @param {Position} place
 * @param {boolean} knowsP
 * @param {boolean} over
 */
function gated(place, knowsP, over) {
  return {
    p: knowsP ? place.p : null,
    model_p: knowsP ? place.model_p : null,
    q: place.q,
    model_q: place.model_q,
    penalised_p: knowsP ? place.penalised_p : null,
    penalised_q: place.penalised_q,
    overlap: knowsP ? place.overlap : null,
    residual: over ? place.residual : null,
  };
}
