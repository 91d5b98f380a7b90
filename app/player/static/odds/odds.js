/** The odds of a selected token, as numbers: computed from the record alone, as far as known at the cursor's moment. */

/**
 * @import { Candidates, Measure, Position, Seen, Settings, Source, Trace } from "../../types.js"
 * @import { Lane, Proposal, Round } from "../model/model.js"
 * @import { Bars, Drawable } from "./odds_rows.js"
 * @import { View } from "../model/state.js"
 */

import { list, number, tokenText } from "../model/model.js";
import { knows } from "../model/moments.js";
import { barsOf, certain, CLOSE, headOf, residualOf } from "./odds_rows.js";
import { roundOf } from "../model/state.js";
import { nonNull } from "../dom/non_null.js";

const LISTED = 2; // tokens of what is left of p after a rejection that are named above as well
const COVERS = new Set(["speculative-sampling", "exact-match"]); // of fixed guesses one passes, with Σ p over them
const TRIES = new Set(["ensemble", "kseq"]); // as does one of several rivals tried in turn, each by its threshold
/** @type {("p"|"q"|"model_p"|"model_q"|"penalised_p"|"penalised_q"|"rank"|"entropy")[]} */
export const FACTS = ["p", "q", "model_p", "model_q", "penalised_p", "penalised_q", "rank", "entropy"];
const DRAFTED = new Set(["q", "model_q", "penalised_q"]); // known before the target has run

/**
 * @typedef {{rule: "typical"|"confidence", options: Record<string, unknown>, p: number|null, entropy: number|null, asIs: boolean}} Criterion of a rule without a coin
 * @typedef {{node: number, text: string, verdict: Seen, u: number, threshold: number}} Coin
 * @typedef {Partial<Record<typeof FACTS[number], number|null>>} Facts
 * @typedef {(name: Measure, of: number) => number|null} Entry one number of the round's columns
 * @typedef {{text: string, verdict: Seen|null, verdicts: Map<number, Seen>, source: Source|null, committed: Source|null, lane: number, round: number, node: number, label: string, elsewhere: boolean,
 *   greedy: boolean, moved: boolean, without: string|null, penalised: boolean, own: boolean, atZero: boolean, shared: boolean, covers: boolean, chance: number|null, matching: boolean,
 *   lossy: boolean, rule: string, longest: boolean, unreached: Unreached|null,
 *   criterion: Criterion|null, siblings: number, fixed: Set<number|null>|null, failed: number, elder: {q: number|null, sameQ: boolean, waiting: number}|null,
 *   target: {text: string, rank: number|null}|null, judged: Bars|null, models: Bars|null, overlap: number|null,
 *   residual: {rows: Drawable[], rest: number}|null, distribution: Drawable[]|null, draw: number|null, vocabulary: number,
 *   coin: {u: number, threshold: number, later: boolean}|null, choice: string|null, coins: Coin[]|null, coinless: {threshold: number|null}|null,
 *   facts: Facts|null, missing: "record"|"place"|null, knowsP: boolean, sureQ: boolean, pointed: boolean, modelless: boolean, undrafted: boolean, before: {p: boolean, q: boolean, alike: boolean}}} Odds
 *   `sureQ`: for the rule q is 1 on each guess; `pointed`: so above temperature 0, as none was drawn; `modelless`: and they do not come from a model; `undrafted`: nothing was proposed;
 *   `before`: of `models`, which are from before a penalty, if there is one, and whether both are `alike`; `choice`: at temperature 0, in place of a coin, the target's first choice; `covers`: of fixed guesses one passes, with Σ p over them; `chance`: the same from thresholds, where known
 * @typedef {{by: "longest"|"longer"|"branch"|"rejected"|"rival"|"rivalAbove"|"end"|"other", other?: string, stem?: string}} Unreached
 *   why there is no verdict: `other` is the guess that was rejected or accepted, `stem` the one in whose place it was
 */

/**
 * Everything the panel shows about the token in focus.
 * @param {View} view
 * @returns {Odds|null}
 */
export function oddsOf(view) {
  const selection = view.focus;
  const lane = selection && view.lanes[selection.lane]?.lane;
  const trace = lane?.trace;
  if (!selection || !lane || !trace) return null;
  const row = list(trace.rounds)[selection.round];
  const round = roundOf(view, selection);
  if (!row || !round) return null;
  const { node } = selection;
  const proposal = (node >= 0 && round.proposals[node]) || null;
  const own = proposal ? undefined : round.tokens.find((token) => token.node < 0);
  if (!proposal && !own) return null;
  const ownAt = own ? round.tokens.indexOf(own) : -1;

  const current = selection.lane === view.lead && selection.round === view.current?.index;
  /** @param {Parameters<typeof knows>[1]} what @param {number} [about] */
  const may = (what, about) => !current || knows(view, what, about);
  const knowsP = may("p");
  const over = may("positions");
  // The recorded places reveal what was accepted: before the commit only those whose parent is known to be.
  const reached =
    over || !proposal || proposal.parent < 0 || round.proposals[proposal.parent]?.verdict === "accepted";
  const positions = list(row.positions);
  const place = !proposal
    ? positions[ownAt]
    : reached
      ? positions.find((item) => item?.at === proposal.parent)
      : null;
  const position = place ? gated(place, knowsP, over) : null;

  const nodes = row.nodes ?? {};
  /** @param {Measure} name @param {number} of */
  const entry = (name, of) => number(list(nodes[name])[of]);
  /** @param {Measure} name */
  const at = (name) => (proposal && (knowsP || DRAFTED.has(name)) ? entry(name, node) : null);
  const facts = proposal ? Object.fromEntries(FACTS.map((name) => [name, at(name)])) : null;
  const id = proposal ? list(nodes.token)[node] : list(row.committed?.token)[ownAt];
  const settings = trace.header?.settings ?? {};
  const known = facts && Object.values(facts).some((value) => value !== null);
  const parent = proposal ? proposal.parent : place?.at;
  /** @param {Proposal} item */
  const seen = (item) =>
    !["pruned", "discarded"].includes(lane.rounds[selection.round].proposals[item.node]?.verdict);
  const siblings = round.proposals.filter((item) => item.parent === parent && seen(item)); // of what the target saw
  const dropped = proposal !== null && !seen(proposal); // the rule never compared it
  const elder = proposal ? siblings.filter((item) => item.node < node) : [];
  /** @param {(node: number) => boolean} test */
  const every = (test) => siblings.length > 0 && siblings.every((item) => test(item.node));
  const pointed = !lane.draws && every((at) => entry("q", at) === 1); // at temperature 0 also what a model drafted
  const q =
    position?.q ??
    (position && pointed ? certain(siblings.map((item) => list(nodes.token)[item.node])) : null);
  const modelless = pointed && every((at) => entry("model_q", at) === null);
  const rule = String(settings.rule ?? "");
  const thresholds = siblings.map((item) => (may("coin", item.node) ? entry("threshold", item.node) : null));
  const limited = rule === "typical" || rule === "confidence" ? rule : null; // it compares a probability with a threshold: no coin decides
  const greedy = lane.temperature === 0 && !trace.header?.own_probabilities;
  const compares = greedy && !lane.lossy; // two tokens; no coin decides
  const met = may("coin", node) && judgedVerdict(proposal);
  const target = knowsP && proposal ? targetOf(trace, position, greedy, at("rank")) : null;
  const criterion =
    limited && decisive(proposal, entry) ? criterionOf(limited, settings, at, over ? position : null) : null;

  /**
   * What the columns know of a place's tokens: p of every guess, q of the first (its distribution is the recorded one).
   * @param {Measure} p
   * @param {Measure} q
   */
  const exact = (p, q) =>
    new Map(
      siblings.map((item) => [
        list(nodes.token)[item.node],
        {
          node: item.node,
          p: knowsP ? entry(p, item.node) : null,
          q: item === siblings[0] ? entry(q, item.node) : null,
        },
      ]),
    );
  /** @param {Candidates|null|undefined} p @param {Candidates|null|undefined} q @param {[Measure, Measure]} names */
  const bars = (p, q, names) =>
    barsOf(
      trace,
      p,
      q,
      exact(...names),
      id,
      over ? place?.token : null,
      compares ? [] : list(position?.residual?.id).slice(0, LISTED),
    );

  /** @type {[Measure, Measure]} the models' own, after penalties where the record has them */
  const columns = [
    place?.penalised_p ? "penalised_p" : "model_p",
    place?.penalised_q ? "penalised_q" : "model_q",
  ];
  const shifted = lane.temperature === 0 && moved(position, at("rank"), at("model_p"));

  return {
    text: proposal?.text ?? nonNull(own).name,
    verdict: proposal?.verdict ?? null,
    verdicts: new Map(siblings.map((item) => [item.node, item.verdict])),
    source: own?.source ?? null,
    committed: over ? (place?.source ?? null) : null,
    lane: selection.lane,
    round: selection.round,
    node,
    label: lane.label,
    elsewhere: !current,
    greedy,
    moved: shifted,
    without:
      shifted && position?.penalised_p ? tokenText(trace, nonNull(list(position.model_p?.id)[0])) : null,
    penalised: (number(settings.repetition_penalty) ?? 1) !== 1,
    own: Boolean(trace.header?.own_probabilities),
    atZero: lane.temperature === 0,
    longest: lane.judging === "longest",
    criterion,
    siblings: siblings.length,
    fixed:
      !position?.q && siblings.length ? new Set(siblings.map((item) => list(nodes.token)[item.node])) : null,
    failed: siblings.filter((item) => item.verdict === "rejected").length,
    elder: elder.length && position?.q && !pointed ? elderOf(elder, at("q"), position.q, id) : null,
    target,
    shared: rule !== "speculative-sampling",
    covers: COVERS.has(rule),
    chance: TRIES.has(rule) ? chanceOf(thresholds) : null,
    matching: rule === "token-matching",
    lossy: Boolean(lane.lossy),
    rule,
    judged:
      position && (position.p || q) && !(dropped && position.model_q)
        ? bars(position.p, q, ["p", "q"])
        : null,
    models:
      position && (position.model_p || position.model_q)
        ? bars(position.penalised_p ?? position.model_p, position.penalised_q ?? position.model_q, columns)
        : null,
    before: {
      p: columns[0] === "model_p",
      q: columns[1] === "model_q",
      alike: !position?.model_q || (columns[0] === "model_p") === (columns[1] === "model_q"),
    },
    overlap: number(position?.overlap),
    residual: position?.residual && !compares ? residualOf(trace, position.residual, place?.token) : null,
    distribution:
      over && place && number(place.draw) !== null
        ? headOf(trace, place.residual ?? place.p, place.token)
        : null,
    draw: over ? number(place?.draw) : null,
    vocabulary: number(trace.header?.vocabulary) ?? 0,
    unreached:
      proposal?.verdict === "unreached" ? unreachedOf(lane, round, proposal, entry("threshold", node)) : null,
    choice: compares && !criterion && met ? (target?.text ?? null) : null,
    coin: !criterion && !compares && met ? coinOf(proposal, entry, elder.length > 0) : null,
    coinless:
      !criterion && !compares && met && proposal && entry("coin", node) === null
        ? { threshold: entry("threshold", node) }
        : null,
    coins:
      lane.judging === "longest" && !compares && proposal && (!current || view.moment?.judged.size)
        ? coinsOf(round, entry)
        : null,
    facts: known ? facts : null,
    missing:
      position?.p || (position && !knowsP && (q || position.model_q))
        ? null
        : positions.length || known
          ? "place"
          : "record",
    knowsP,
    sureQ: pointed,
    pointed: pointed && lane.temperature > 0,
    modelless,
    undrafted: !siblings.length,
  };
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

/** @param {Proposal|null} item */
function judgedVerdict(item) {
  return item?.verdict === "accepted" || item?.verdict === "rejected";
}

/**
 * Whether a node's threshold leaves nothing to a coin.
 * @param {Proposal|null} proposal
 * @param {Entry} entry
 */
function decisive(proposal, entry) {
  const threshold = proposal ? entry("threshold", proposal.node) : null;
  return threshold === null || threshold === 0 || threshold === 1;
}

/**
 * The probability that one of a place's guesses passes; null if a threshold is not known.
 * @param {(number|null)[]} thresholds
 */
function chanceOf(thresholds) {
  const given = thresholds.filter((threshold) => threshold !== null);
  if (!given.length || given.length < thresholds.length) return null;
  return 1 - given.reduce((none, threshold) => none * (1 - threshold), 1);
}

/**
 * @param {Lane} lane
 * @param {Round} round
 * @param {Proposal} proposal
 * @param {number|null} threshold
 * @returns {Unreached}
 */
function unreachedOf(lane, round, proposal, threshold) {
  if (lane.judging === "longest") return { by: "longest" };
  if (lane.rule === "typical") return { by: threshold === 1 ? "longer" : "branch" };
  let first = proposal; // above it something was judged
  while (round.proposals[first.parent]?.verdict === "unreached") first = round.proposals[first.parent];
  const above = round.proposals[first.parent];
  if (above?.verdict === "rejected") return { by: "rejected", other: above.text };
  const rivals = round.proposals.filter((item) => item.parent === first.parent && item.node < first.node);
  const taken = rivals.find((item) => item.verdict === "accepted");
  if (taken) return { by: first === proposal ? "rival" : "rivalAbove", other: taken.text, stem: first.text };
  return { by: [above, ...rivals].some((item) => item?.verdict === "cut") ? "end" : "other" };
}

/** @param {Proposal|null} proposal @param {Entry} entry @param {boolean} later */
function coinOf(proposal, entry, later) {
  if (!proposal) return null;
  const u = entry("coin", proposal.node);
  const threshold = entry("threshold", proposal.node);
  return u === null || threshold === null ? null : { u, threshold, later };
}

/**
 * Every coin of a chain that is judged as one.
 * @param {Round} round
 * @param {Entry} entry
 */
function coinsOf(round, entry) {
  return round.proposals
    .map(({ node, text, verdict }) => ({
      node,
      text,
      verdict,
      u: entry("coin", node),
      threshold: entry("threshold", node),
    }))
    .filter(/** @returns {coin is Coin} */ (coin) => coin.u !== null && coin.threshold !== null);
}

/**
 * @param {Criterion["rule"]} rule
 * @param {Settings} settings
 * @param {(name: Measure) => number|null} at
 * @param {Position|null} position
 * @returns {Criterion}
 */
function criterionOf(rule, settings, at, position) {
  return {
    rule,
    options: settings.rule_options ?? {},
    p: at("p"),
    entropy: at("p_entropy") ?? at("entropy"),
    asIs: same(position?.residual, position?.p),
  };
}

/**
 * A later guess of a place: its own q, and whether that is still the recorded distribution (drawn with replacement).
 * @param {Proposal[]} elder
 * @param {number|null} q
 * @param {Candidates} distribution
 * @param {number} id
 */
function elderOf(elder, q, distribution, id) {
  const place = list(distribution.id).indexOf(id);
  const recorded = place < 0 ? null : number(list(distribution.prob)[place]);
  const sameQ = q !== null && recorded !== null && Math.abs(q - recorded) < CLOSE;
  return { q, sameQ, waiting: elder.filter((item) => item.verdict !== "rejected").length };
}

/**
 * The target's most likely token at this place; at temperature 0 the one that was judged, penalties included.
 * @param {Trace} trace
 * @param {Position|null} position
 * @param {boolean} greedy
 * @param {number|null} rank
 */
function targetOf(trace, position, greedy, rank) {
  const [own, judged] = [list(position?.model_p?.id)[0], list(position?.p?.id)[0]];
  const best = greedy ? (judged ?? own) : (own ?? judged);
  return Number.isInteger(best) ? { text: tokenText(trace, best), rank } : null;
}

/**
 * Whether penalties changed what the sentence names: the most likely token, or the guess's rank, which is after them.
 * @param {Position|null} position
 * @param {number|null} rank
 * @param {number|null} p the model's own, before penalties
 */
function moved(position, rank, p) {
  const [own, judged] = [list(position?.model_p?.id)[0], list(position?.p?.id)[0]];
  if (Number.isInteger(own) && Number.isInteger(judged) && own !== judged) return true;
  if (rank === null || p === null || position?.penalised_p) return false; // where the chart shows p after them
  const probs = list(position?.model_p?.prob).map(Number);
  const above = probs.filter((prob) => prob > p).length;
  const level = probs.filter((prob) => prob === p).length; // none where the list ends above the guess
  return rank <= above || (level > 0 && rank > above + level);
}

/** @param {Candidates|null|undefined} one @param {Candidates|null|undefined} other */
function same(one, other) {
  if (!one || !other) return false;
  return JSON.stringify([one.id, one.prob]) === JSON.stringify([other.id, other.prob]);
}
