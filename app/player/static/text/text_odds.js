/** The words of the odds. */

/**
 * @import { Seen, Source } from "../../types.js"
 * @import { Criterion } from "../odds/odds.js"
 */

import { apart, prob, VERDICT } from "./text.js";

/**
 * "u = 0.250", or "u < 0.001" if three decimals are not enough.
 * @param {string} name
 * @param {number} value
 * @param {number} [beside] a number that is not to look like it
 */
function named(name, value, beside) {
  const text = beside === undefined ? prob(value) : apart(value, beside);
  return /^[<>]/.test(text) ? `${name} ${text}` : `${name} = ${text}`;
}

/**
 * The recorded value of a threshold; if there is none, the rule's default.
 * @param {unknown} value
 */
function thresholdAt(value) {
  return typeof value === "number" ? `the threshold ${prob(value)}` : "its default threshold";
}

/**
 * The threshold of typical acceptance; its value where the record has all of it.
 * @param {Criterion} criterion
 */
function thresholdName({ options: { epsilon, delta }, entropy }) {
  /** @param {unknown} value @param {string} sign */
  const given = (value, sign) => (typeof value === "number" ? prob(value) : sign); // a record omits defaults
  const name = `min(${given(epsilon, "ε")}, ${given(delta, "δ")}·exp(−H))`;
  return entropy === null || typeof epsilon !== "number" || typeof delta !== "number"
    ? name
    : `${name} = ${prob(Math.min(epsilon, delta * Math.exp(-entropy)))}`;
}

/**
 * A threshold beside the number that it is compared with; one that rounds to zero has digits of its own.
 * @param {number} threshold
 * @param {number} u
 */
function limit(threshold, u) {
  const text = apart(threshold, u);
  return text.startsWith("<") ? threshold.toPrecision(2) : text;
}

/**
 * The ending of a number that counts a place: 1st, 2nd, 11th.
 * @param {number} n
 */
function ordinal(n) {
  return (n % 100 > 10 && n % 100 < 14 ? "" : ["", "st", "nd", "rd"][n % 10]) || "th";
}

/**
 * The text of that name; undefined where there is none.
 * @param {unknown} name
 * @param {Record<string, string>} texts
 * @returns {string|undefined}
 */
function chosen(name, texts) {
  return texts[String(name)];
}

export const O = {
  title: "Odds",
  judged: (/** @type {string} */ text, /** @type {string} */ verdict) =>
    `Proposed ${text} — ${verdict === VERDICT.waiting ? "not judged yet" : verdict}`,
  own: (/** @type {string} */ text, /** @type {Source|null} */ source) =>
    chosen(source, {
      corrected: `The target wrote ${text} instead`,
      bonus: `The target added ${text} as a bonus`,
    }) ?? `The target wrote ${text}`,
  where: (/** @type {number} */ round, /** @type {string} */ label) => `Round ${round} · ${label}`,
  live: "The odds of each decision are shown as soon as the run has ended.",
  empty: "Step forward, or select a token, to see its odds.",
  sure: "How sure the models were",
  judge: "What was compared",
  judgeNext: "What will be compared",
  used: "What was used", // where there was no guess to compare
  sureMeans: (/** @type {boolean} */ penalised, /** @type {boolean} */ before) =>
    `The models' own probabilities, at temperature 1${penalised ? `, ${before ? "before" : "after"} the repetition penalty` : ""}`,
  judgeMeans: "What the rule saw: the probabilities after temperature, penalties and cut-offs",
  views: "Which probabilities",
  target: "target's p",
  draft: "proposer's q",
  certain: "q, 1 for a fixed guess",
  token: "token",
  sharedBy: (/** @type {number} */ value) => `shared ${prob(value)}`,
  sharedAtMost: (/** @type {number} */ value) => `shared at most ${prob(value).replace("< ", "")}`,
  parts: {
    strict: {
      shared: "in both: the chance of acceptance, whichever token the proposer draws",
      over: "q above p: that of rejection",
      under: "p above q: the residual",
    },
    certain: {
      shared: "in both: the chance of acceptance",
      over: "q above p: that of rejection",
      under: "p above q: the residual",
    },
    loose: { shared: "in both", over: "q above p", under: "p above q" },
    fixed: { shared: "p of the guesses: one is accepted", over: "", under: "p of all others: none is" },
    held: { shared: "p of the guesses", over: "", under: "p of all other tokens" },
  },
  sums: { p: "p", q: "q" },
  guide: (/** @type {boolean} */ p, /** @type {boolean} */ q, /** @type {boolean} */ certain) => {
    if (p && q)
      return `Each row is a token: the selected one first, then the rest by the larger of p and q. Solid line p: the target's; dashed line q: ${certain ? "1 for a fixed guess" : "the proposer's"}.`;
    return p
      ? "Each row is a token; its bar is the target's probability p."
      : "Each row is a token; its striped bar is the proposer's probability q.";
  },
  // What the rule compares, in one sentence.
  before: "q is what the proposer drew from. The target has not run yet, so there is no p.",
  beforeGreedy: (/** @type {boolean} */ unpenalised) =>
    `q is the proposer's probability of each token${unpenalised ? ", before the repetition penalty" : ""}. The target has not run yet, so there is no p.`,
  beforeModelless:
    "The guess came without a model, so it has no q; the rule takes it for certain. The target has not run yet, so there is no p.",
  beforeFixed: (/** @type {boolean} */ drafted) =>
    `The guesses are fixed, not drawn at random: for the rule q is 1 on each${drafted ? ", whatever the proposer's own q" : ""}. The target has not run yet, so there is no p.`,
  // {shared}, {over}: the area that is meant, drawn after the word.
  compares: "What p and q share{shared} is accepted; where q is above p{over}, the guess may be rejected.",
  comparesFixed: (/** @type {number} */ n) =>
    n > 1
      ? "The guesses were fixed, not drawn at random: the rule tries one after another, and each is accepted with its share of what is left of p."
      : "The guess was fixed, not drawn at random: the rule accepts it with the target's own probability p{shared}.",
  comparesGreedy: (/** @type {string} */ guess, /** @type {number|null} */ rank) =>
    `At temperature 0 a guess is accepted only if it is the target's first choice${rank === null || rank === 1 ? "" : `; the target ranked ${guess} ${rank}${ordinal(rank)}`}.`,
  comparesPenalised: (
    /** @type {string} */ guess,
    /** @type {number|null} */ rank,
    /** @type {string} */ shown,
  ) => `${O.comparesGreedy(guess, rank)} That is after the repetition penalty${O.beforeIt(shown)}.`,
  without: (/** @type {string} */ other) =>
    ` Without the repetition penalty the target's first choice would be ${other}.`,
  beforeIt: (/** @type {string} */ shown) =>
    shown ? `; the chart shows ${shown.length > 1 ? "p and q" : shown} from before it` : "",
  comparesChain:
    "The rule judges the chain as a whole: it multiplies p/q along it, never above 1, and keeps the longest prefix whose last coin passes.",
  comparesElder: (
    /** @type {number|null} */ q,
    /** @type {boolean} */ sameQ,
    /** @type {number} */ waiting,
  ) =>
    `This guess is tried after ${waiting ? "its earlier siblings, if they are rejected" : "its earlier siblings were rejected"}, against what they leave of p. The areas are those of the first guess; ` +
    (sameQ
      ? "this one was drawn from the same q."
      : `its own distribution is q without the earlier siblings, where it has ${q === null ? "a q of its own" : named("q", q)}.`),
  comparesOwn:
    "At temperature 0 this rule judges the models' own probabilities; the token after the path is still the most likely one.",
  comparesMatching: (/** @type {number} */ n) =>
    n > 1
      ? "Token matching does not look at q: the guesses here are tried one after another, and each is accepted with its share of what is left of p."
      : "Token matching does not look at q: a guess is accepted with probability p.",
  comparesCriterion: {
    typical: "No coin decides: of the guesses whose p is above a threshold, the longest path is kept.",
    confidence: "No coin decides: guesses stay while a model is confident enough in them.",
  },
  comparesBy: {
    ensemble: () =>
      "The rule compares a mixture of p and q with q, so a guess is accepted at least as often as with p alone.",
    kseq: (/** @type {number} */ n) =>
      n > 1
        ? "The rule tries the guesses here one after another, each against the same p, scaled down where together they could take too much of it."
        : "Under this rule, a guess without siblings is accepted with probability min(1, p/q).",
  },
  comparesRule: (/** @type {string} */ title) =>
    `The rule “${title}” has its own threshold; the areas show how far p and q agree.`,
  writes: "Nothing was proposed at this position: the target draws from p.",
  writesGreedy: "At temperature 0 the target writes its most likely token.",
  writesPenalised: (/** @type {string} */ shown) =>
    `At temperature 0 the target writes its most likely token, here after the repetition penalty${O.beforeIt(shown)}.`,
  overlapIs: (/** @type {number} */ value, /** @type {number} */ siblings) =>
    `${named("Overlap Σ min(p, q)", value)}: how likely ${siblings > 1 ? "the first" : "a"} guess here is to be accepted.`,
  sharedIs: (/** @type {number} */ value) =>
    `${named("Overlap Σ min(p, q)", value)}: how much the two distributions share.`,
  coveredIs: (/** @type {number} */ value, /** @type {number} */ siblings) =>
    `${named(`Σ p over the ${siblings > 1 ? `${siblings} guesses` : "guess"}`, value)}: how likely ${siblings > 1 ? "one of them" : "it"} is to be accepted.`,
  heldIs: (/** @type {number} */ value, /** @type {number} */ siblings) =>
    `${named(`Σ p over the ${siblings > 1 ? `${siblings} guesses` : "guess"}`, value)}: how much of p ${siblings > 1 ? "they cover" : "it covers"}.`,
  chanceIs: (/** @type {number} */ value, /** @type {number} */ siblings) =>
    siblings > 1
      ? `How likely one of the ${siblings} is to be accepted follows from their thresholds: 1 − Π(1 − threshold) = ${prob(value)}.`
      : `It is accepted with the probability of its threshold, ${prob(value)}.`,
  othersIs:
    "Σ min(p, q) was recorded over the whole vocabulary. What the tokens listed above leave of it is drawn as shared by “all others”.",
  atMost:
    "“<” and a faded bar: the record has only a bound for this probability, and that part may be shared or not.",
  oneHot: (/** @type {boolean} */ guessed, /** @type {boolean} */ sure) =>
    `At temperature 0 the rule sees p = 1 for the target's most likely token${guessed ? ", and q = 1 for a guess" : ""}.${sure ? " “How sure the models were” shows their own." : ""}`,
  modelsOnly: (
    /** @type {string} */ judge,
    /** @type {boolean} */ penalised,
    /** @type {boolean} */ before,
  ) =>
    `These are the models' own probabilities (temperature 1${penalised ? `, ${before ? "before" : "after"} the repetition penalty` : ""}). ${judge === O.used ? "What the target chooses from" : "What the rule compares"} is under “${judge}”.`,
  judgedValues: "That is of the p and q that were compared.",
  modelless: "This guess came without a model, so there is no q to show.",
  everything: "all others",
  everythingIs: "All tokens without a number of their own in that column, together.",
  /** @param {number} id */
  tokenId: (id) => `#${id}`,
  looksAlike: "The token's number in the vocabulary: its text looks like another one's here.",
  among: "among the others",
  bounded:
    "The record names the most likely tokens only. This one is among the others, so only an upper bound is known.",
  boundedAre:
    "Grey “<”: the record names the ten most likely tokens of each distribution. Any other is at most as likely as the last of them.",
  order: "The chosen token first, then by the larger of p and q",
  showAll: (/** @type {number} */ n) => `Show all ${n} tokens`,
  showFewer: "Show fewer",
  residual: "After a rejection: where p exceeds q",
  residualIs:
    "The target draws from max(0, p − q), scaled to sum to 1: with what is accepted, that makes exactly p.",
  residualFormula: "This is max(0, p − q), scaled to sum to 1.",
  siblingsLeft: (/** @type {number} */ failed) => `After ${failed} rejections: what is left of p`,
  siblingsLeftIs:
    "Each rejected guess took its share of p in turn: first max(0, p − q), scaled to sum to 1, then the same with what was left and the next guess's own q.",
  asIs: "After a rejection: p unchanged",
  asIsIs: "The rule takes nothing away from p.",
  greedily: "At temperature 0 the most likely token of this is taken.",
  left: "After a rejection: what the rule left",
  leftIs: "The target draws its own token from this.",
  matchResidual: (/** @type {number} */ failed) =>
    `After ${failed > 1 ? `${failed} rejections: p without the rejected tokens` : "a rejection: p without the rejected token"}`,
  matchResidualIs: "The target draws from what is left of p.",
  draw: "The draw",
  drawn: (/** @type {number} */ u) => `It was drawn with the random number ${prob(u)}.`,
  drawnIs:
    "It comes from the seed and the round's number, so rounds of the same number have the same one in all lanes of a race.",
  unnamedDraw:
    "It counts through the tokens in the order of the vocabulary, not of the list. The drawn token is among all others there: the record names only the most likely ones.",
  ruler: (/** @type {boolean} */ others) =>
    `The tokens are in the order of the vocabulary, each as wide as it is likely; below is the one that was drawn, and pointing at another names it.${others ? " The striped parts are all others, whose places are not recorded." : ""}`,
  coin: "The coin",
  choice: "The decision",
  firstChoice: "target's first choice",
  theGuess: "guess",
  decides: (/** @type {boolean} */ same, /** @type {string} */ verdict) =>
    `${same ? "The same token" : "Another token"}: ${verdict}. At temperature 0 no coin is tossed.`,
  stays: "accepted",
  goes: "rejected",
  coins: "The coins of the chain",
  tossed: (/** @type {number} */ u, /** @type {number} */ threshold, /** @type {Seen} */ verdict) =>
    `The random number ${named("u", u, threshold)} is ${u < threshold ? "" : "not "}below the threshold ${limit(threshold, u)}${u < threshold === (verdict === "accepted") ? "" : "; nevertheless"}: ${VERDICT[verdict]}.`,
  carried: (/** @type {number} */ u, /** @type {number} */ threshold) =>
    `The random number ${named("u", u, threshold)} is not below the threshold ${limit(threshold, u)}, but a later token passed, and this one is kept with it: accepted.`,
  longest: "The rule keeps the longest prefix whose last coin passes, so coins before that one may fail.",
  decided: "What decided",
  coinUnknown: (/** @type {number|null} */ threshold) =>
    `Not in this record.${threshold === null ? "" : ` Below ${prob(threshold)}, it keeps the guess.`}`,
  noCoin: "The threshold is then 0 or 1, so no coin decided.",
  criteria: {
    typical: (/** @type {Criterion} */ criterion) =>
      `A token stays if its p is above ${thresholdName(criterion)}, where H is the entropy of p here${criterion.p === null ? "" : `; ${named("p", criterion.p)}`}.`,
    confidence: (/** @type {Criterion} */ { p, options }) =>
      chosen(options.reading, {
        "mean-of-largest": `All drafted tokens stay if the target's largest probability, averaged over them, is at least ${thresholdAt(options.threshold)}, else none.`,
        draft: `All drafted tokens stay if the draft's probability of them, averaged, is at least ${thresholdAt(options.threshold)}, else none.`,
        target: `A token stays if the target's probability p of it is at least ${thresholdAt(options.threshold)}${p === null ? "" : `; ${named("p", p)}`}.`,
      }) ??
      `The rule compares a probability with ${thresholdAt(options.threshold)}${p === null ? "" : `; ${named("p", p)}`}.`,
  },
  ratio: (/** @type {string} */ here) =>
    `The threshold is min(1, p/q)${here ? `, here ${here}` : ""}: how much of the guess's own bar of q lies under p.`,
  ratioFixed: "The threshold is p: the guess was fixed, not drawn, so for the rule its q is 1.",
  ratioFixedLater:
    "The threshold is the guess's share of what is left of p after the guesses rejected before it at this position: it was fixed, so its q is 1.",
  ratioLater:
    "The threshold is min(1, r/q), where r is what is left of p after the guesses rejected before it at this position.",
  ratioBy: {
    ensemble: () =>
      "The threshold is min(1, 1 − w + w·r/q): w is the rule's weight, one of its options; r is p, or what is left of it after the guesses rejected before this one at this position.",
    kseq: () =>
      "The threshold is min(1, p/(ρ·q)): ρ, at least 1, scales p down where several guesses could together take too much of it.",
  },
  matchRatio: "The threshold is p: the token stays if the target draws the same one.",
  matchRatioLater:
    "The threshold is its share of what is left of p after the tokens rejected before it at this position: the token stays if the target draws the same one.",
  ruled: (/** @type {string} */ title) => `The threshold is set by the rule “${title}”.`,
  waiting:
    "Whether this position is reached is not decided yet; its full distributions are shown once it is.",
  unreached: {
    rejected: (/** @type {string} */ other) =>
      `It was never judged: it follows ${other}, which was rejected.`,
    rival: (/** @type {string} */ other) => `It was never judged: ${other} was accepted in its place.`,
    rivalAbove: (/** @type {string} */ other, /** @type {string} */ stem) =>
      `It was never judged: it follows ${stem}, in whose place ${other} was accepted.`,
    end: () => "It was never judged, and the text ended before it.",
    longest: () => "Its coin failed, and so did every later one; the tokens that were kept end before it.",
    longer: () =>
      "It is above the threshold, but another path was kept: the longest, or the most likely of the longest.",
    branch: () => "It follows a guess that was not kept.",
    other: () => "It received no verdict.",
  },
  pruned:
    "It was never judged: it was taken out of the tree before the check, as its whole path was less likely than those that were checked.",
  cut: "It does not count: the text ended before it.",
  discarded: "It was never judged: it was drafted ahead for an outcome that did not happen.",
  recorded: "What was recorded of it",
  nothing:
    "This record holds only the tokens, without probabilities. Run it again with full recording to see the odds.",
  sibling: "The distributions of this position were not recorded, because no token was committed here.",
  facts: {
    p: "p, after penalties and temperature",
    q: "q, after penalties and temperature",
    model_p: "target's own p",
    model_q: "proposer's own q",
    penalised_p: "target's own p, after penalties",
    penalised_q: "proposer's own q, after penalties",
    rank: "rank for the target, after penalties",
    entropy: "how undecided the target was: entropy of its own p (nats)",
  },
};
