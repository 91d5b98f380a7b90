/** The odds of a selected token, as numbers: computed from the record alone, as far as known at the cursor's moment. */

/**
 * @import { Candidates, Measure, Position, Seen, Settings, Trace } from "../../types.js"
 * @import { Case } from "./case.js"
 * @import { Lane, Proposal, Round } from "../model/model.js"
 * @import { View } from "../model/state.js"
 */

import { list, number, tokenText } from "../model/model.js";
import { nonNull } from "../dom/non_null.js";
import { caseOf } from "./case.js";
import { barsOf, CLOSE, headOf, residualOf } from "./odds_rows.js";

const LISTED = 2; // tokens of what is left of p after a rejection that are named above as well
const COVERS = new Set(["speculative-sampling", "exact-match"]); // of fixed guesses one passes, with Σ p over them
const TRIES = new Set(["ensemble", "kseq"]); // as does one of several rivals tried in turn, each by its threshold
/** @type {("p"|"q"|"model_p"|"model_q"|"penalised_p"|"penalised_q"|"rank"|"entropy")[]} */
export const FACTS = ["p", "q", "model_p", "model_q", "penalised_p", "penalised_q", "rank", "entropy"];

/**
 * @typedef {NonNullable<ReturnType<typeof oddsOf>>} Odds
 * @typedef {{node: number, text: string, verdict: Seen, u: number, threshold: number}} Coin
 * @typedef {Partial<Record<typeof FACTS[number], number|null>>} Facts
 * @typedef {Case["entry"]} Entry
 * @typedef {{by: "longest"|"longer"|"branch"|"rejected"|"rival"|"rivalAbove"|"end"|"other", other?: string, stem?: string}} Unreached
 *   why there is no verdict: `other` is the guess that was rejected or accepted, `stem` the one in whose place it was
 * @typedef {{kind: "criterion", rule: "typical"|"confidence", options: Record<string, unknown>, p: number|null,
 *   entropy: number|null, asIs: boolean}} Criterion of a rule that compares a probability with a threshold
 * @typedef {Criterion|{kind: "choice", best: string}|{kind: "coin", u: number, threshold: number, later: boolean}
 *   |{kind: "unknown", threshold: number|null}} Decision by what a guess was decided: a criterion, at temperature 0 the target's
 *   first choice, a coin, or a coin that nobody recorded
 */

/**
 * Everything the panel shows about the token in focus.
 * @param {View} view
 */
export function oddsOf(view) {
  const given = caseOf(view);
  if (!given) return null;
  const { lane, round, node, proposal, positions, position, knowsP, q, entry } = given;
  const facts = proposal ? Object.fromEntries(FACTS.map((name) => [name, given.at(name)])) : null;
  const known = facts && Object.values(facts).some((value) => value !== null);
  return {
    ...namesOf(given),
    ...ruleOf(given),
    ...distributionsOf(given),
    decision: decisionOf(given),
    /** @type {Unreached|null} */
    unreached:
      proposal?.verdict === "unreached" ? unreachedOf(lane, round, proposal, entry("threshold", node)) : null,
    coins:
      lane.judging === "longest" &&
      !given.compares &&
      proposal &&
      (!given.current || view.moment?.judged.size)
        ? coinsOf(round, entry)
        : null,
    /** @type {Facts|null} */
    facts: known ? facts : null,
    /** @type {"record"|"place"|null} */
    missing:
      position?.p || (position && !knowsP && (q || position.model_q))
        ? null
        : positions.length || known
          ? "place"
          : "record",
  };
}

/**
 * Whose odds they are.
 * @param {Case} given
 */
function namesOf({ proposal, written, siblings, over, place, selection, node, lane, current, before }) {
  return {
    text: proposal?.text ?? nonNull(written).name,
    verdict: proposal?.verdict ?? null,
    verdicts: new Map(siblings.map((item) => [item.node, item.verdict])),
    source: written?.source ?? null,
    committed: over ? (place?.source ?? null) : null,
    lane: selection.lane,
    round: selection.round,
    node,
    at: list(lane.trace?.header?.decoder_start).length ? null : before, // an encoder's prompt is not continued
    label: lane.label,
    elsewhere: !current,
  };
}

/**
 * The settings and the rule, as far as they matter for the token.
 * @param {Case} given
 */
function ruleOf(given) {
  const { lane, trace, position, siblings, elder, entry, at, settings, rule, sureQ } = given;
  const shifted = lane.temperature === 0 && moved(position, at("rank"), at("model_p"));
  const thresholds = siblings.map((item) =>
    given.may("coin", item.node) ? entry("threshold", item.node) : null,
  );
  return {
    greedy: given.greedy,
    atZero: lane.temperature === 0,
    /** Whether penalties changed what the sentence names; `without`: the target's first choice without them. */
    moved: shifted,
    without:
      shifted && position?.penalised_p ? tokenText(trace, nonNull(list(position.model_p?.id)[0])) : null,
    penalised: (number(settings.repetition_penalty) ?? 1) !== 1,
    own: Boolean(trace.header?.own_probabilities),
    rule,
    lossy: Boolean(lane.lossy),
    longest: lane.judging === "longest",
    matching: rule === "token-matching",
    shared: rule !== "speculative-sampling",
    /** Of fixed guesses one passes with Σ p over them; `chance`: the same from thresholds, where known. */
    covers: COVERS.has(rule),
    chance: TRIES.has(rule) ? chanceOf(thresholds) : null,
    siblings: siblings.length,
    undrafted: !siblings.length,
    failed: siblings.filter((item) => item.verdict === "rejected").length,
    elder: elder.length && position?.q && !sureQ ? elderOf(elder, at("q"), position.q, given.id) : null,
    target: targetIn(given),
    knowsP: given.knowsP,
    /** For the rule q is 1 on each guess; `pointed`: so above temperature 0, as none was drawn. */
    sureQ,
    pointed: sureQ && lane.temperature > 0,
    modelless: given.modelless,
    /** @type {Set<number|null>|null} */
    fixed: !position?.q && siblings.length ? new Set(given.ids) : null,
  };
}

/**
 * The probabilities of the place: what the rule compared, and the models' own.
 * @param {Case} given
 */
function distributionsOf(given) {
  const { trace, place, position, over, siblings, ids, compares, knowsP, entry, q } = given;
  /**
   * What the columns know of a place's tokens: p of every guess, q of the first (its distribution is the recorded one).
   * @param {Candidates|null|undefined} p
   * @param {Candidates|null|undefined} q
   * @param {[Measure, Measure]} names
   */
  const bars = (p, q, [nameP, nameQ]) => {
    const exact = siblings.map(
      (item, at) =>
        /** @type {const} */ ([
          ids[at],
          {
            node: item.node,
            p: knowsP ? entry(nameP, item.node) : null,
            q: at === 0 ? entry(nameQ, item.node) : null,
          },
        ]),
    );
    const listed = compares ? [] : list(position?.residual?.id).slice(0, LISTED);
    return barsOf(trace, p, q, new Map(exact), given.id, over ? place?.token : null, listed);
  };
  const ownP = place?.penalised_p ? "penalised_p" : "model_p"; // after penalties where the record has them
  const ownQ = place?.penalised_q ? "penalised_q" : "model_q";
  return {
    judged:
      position && (position.p || q) && !(given.dropped && position.model_q)
        ? bars(position.p, q, ["p", "q"])
        : null,
    models:
      position && (position.model_p || position.model_q)
        ? bars(position[ownP], position[ownQ], [ownP, ownQ])
        : null,
    /** Of `models`: which are from before a penalty, if there is one, and whether both are alike. */
    before: {
      p: ownP === "model_p",
      q: ownQ === "model_q",
      alike: !position?.model_q || (ownP === "model_p") === (ownQ === "model_q"),
    },
    overlap: number(position?.overlap),
    residual: position?.residual && !compares ? residualOf(trace, position.residual, place?.token) : null,
    distribution:
      over && place && number(place.draw) !== null
        ? headOf(trace, place.residual ?? place.p, place.token)
        : null,
    draw: over ? number(place?.draw) : null,
    vocabulary: number(trace.header?.vocabulary) ?? 0,
  };
}

/**
 * @param {Case} given
 * @returns {Decision|null} null where nothing is decided yet
 */
function decisionOf(given) {
  const { rule, proposal, entry, settings, at, over, position, node, elder } = given;
  const limited = rule === "typical" || rule === "confidence" ? rule : null;
  if (limited && decisive(proposal, entry)) return criterionOf(limited, settings, at, over ? position : null);
  if (!proposal || !given.may("coin", node) || !isJudged(proposal)) return null;
  if (given.compares) {
    const best = targetIn(given)?.text;
    return best === undefined ? null : { kind: "choice", best };
  }
  const [u, threshold] = [entry("coin", node), entry("threshold", node)];
  if (u === null) return { kind: "unknown", threshold };
  return threshold === null ? null : { kind: "coin", u, threshold, later: elder.length > 0 };
}

/** @param {Case} given */
function targetIn({ knowsP, proposal, trace, position, greedy, at }) {
  return knowsP && proposal ? targetOf(trace, position, greedy, at("rank")) : null;
}

/** @param {Proposal} item */
function isJudged(item) {
  return item.verdict === "accepted" || item.verdict === "rejected";
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
    kind: "criterion",
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
