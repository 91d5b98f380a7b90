/** Every sentence and word the viewer sees. Functions where a text depends on something. */

/**
 * @import { Seen, Source } from "../../types.js"
 * @import { Moment } from "../model/moments.js"
 */

import { apart, below, flat, MARK, prob, roughly } from "./signs.js";

export { apart, below, flat, MARK, prob };

/**
 * "1 token", "2 tokens".
 * @param {number} n
 * @param {string} word
 */
export function count(n, word) {
  return `${n} ${word}${n === 1 ? "" : /(s|x|ch|sh)$/.test(word) ? "es" : "s"}`;
}

/**
 * A token's text in quotation marks, with its line breaks and tabs named; long ones are shortened.
 * @param {string} text
 */
export function quote(text) {
  if (text === "") return "a part of a character";
  const named = flat(text);
  const short = (named.length > 40 ? `${named.slice(0, 38)}…` : named).replace(/^ /, "\u00a0");
  return /^[.,:;\u0022\u0027\u0060]+$/.test(short) ? `‘\u200a${short}\u200a’` : `‘${short}’`; // apart from the marks that look like it
}

/**
 * Milliseconds below a second, else seconds, at a readable length.
 * @param {number} value
 */
export function seconds(value) {
  return value < 0.9995 ? `${(value * 1000).toFixed(value < 0.0995 ? 1 : 0)} ms` : `${value.toFixed(2)} s`;
}

/** @type {Record<Exclude<Seen, "absent">|Source, string> & {absent?: string}} */
export const VERDICT = {
  accepted: "accepted",
  rejected: "rejected",
  waiting: "waiting to be judged",
  unreached: "not reached",
  pruned: "pruned before the check",
  cut: "left out, as the text ended before it",
  discarded: "discarded with the draft made ahead",
  corrected: "the target's correction",
  bonus: "the target's bonus token",
  plain: "written by the target",
};

/** @type {[keyof typeof MARK, string][]} */
export const LEGEND = [
  ["accepted", "accepted: proposed and kept"],
  ["rejected", "rejected: proposed and thrown away; below the token that took its place"],
  ["waiting", "waiting: not judged yet"],
  ["unreached", "not reached: never judged, as it follows a rejected guess or a sibling was accepted"],
  ["corrected", "correction: written by the target in place of a rejected guess"],
  ["bonus", "bonus: the target's extra token, after a path of guesses that was accepted to its end"],
  ["pruned", "pruned: drafted, but its whole path was less likely than those that were checked"],
  ["discarded", "discarded: drafted ahead for an outcome that did not happen"],
  ["cut", "left out: the text ended before it"],
  ["parted", "differs: from here on, the text is not that of plain decoding"],
  ["again", "repeats: word for word what the text said before, which is easy to guess"],
];

/** The question to a visitor who drafts. */
export const Q = {
  title: "What comes next?",
  send: "Guess",
  hint: "Type a few words, exactly as the text would continue. Leave empty for one target token.",
  space: "A space goes before your words. Press to continue the last word instead.",
  noSpace: "Your words continue the last word. Press to put a space before them.",
  sent: (/** @type {string} */ words) => `Your guess: ${words.replace(/ /g, "␣")}`,
};

const OPENS =
  "for a chain, the round with the most guesses kept before a rejection; otherwise the round with the most tokens; of equals preferably one with a rejection, with words, and with enough text for a speedup";

export const T = {
  player: "Player: speculative decoding, round by round. Press ? for its keys.",
  lane: (/** @type {string} */ label) => `Text of ${label}`,
  clock: "lane clock, up to the last committed token",
  tokens: (/** @type {number} */ n) => (n === 1 ? "token" : "tokens"),
  rate: "tokens/s",
  prompt: "Prompt",
  proposals: "Guesses that were not kept",
  guesses: "Guesses of this round, not text yet",
  moreGuesses: (/** @type {number} */ n) => `${count(n, "more guess")} in the tree`,
  chip: (/** @type {string} */ text, /** @type {string} */ verdict, /** @type {number} */ round) =>
    `${quote(text)}, ${verdict}, round ${round}`,
  more: (/** @type {number} */ n) => `+${n}`,
  unshown: (/** @type {number} */ n, /** @type {string} */ words) =>
    `${n === 1 ? "Another guess" : `${n} other guesses`} for this place, rejected too: ${words}`,
  /** @type {Record<string, string|undefined>} */
  ends: { length: "length limit", eos: "end of text", stop: "stop text", cancelled: "stopped" },
  endsMean: /** @type {Record<string, string|undefined>} */ ({
    length: "It has as many new tokens as were asked for.",
    eos: "The target wrote its end token.",
    stop: "A stop text was reached.",
    cancelled: "The run was stopped.",
  }),
  waiting: "waiting for the first token",

  speedup: "Measured speedup",
  speedupOf: (/** @type {string} */ label) => `Measured speedup of ${label}`,
  soFar: "so far",
  none: "—",
  times: (/** @type {number} */ value) => `${value < 9.995 ? value.toFixed(2) : value.toFixed(1)}×`,
  faster: (/** @type {number} */ value, /** @type {string} */ label, /** @type {boolean} */ firm) =>
    value > 1.005
      ? `the speed of ${label}${firm ? "" : ": not clearly faster"}`
      : value < 0.995
        ? `the speed of ${label}: ${firm ? "" : "not clearly "}slower`
        : `as fast as ${label}`,
  tooFast: (/** @type {string} */ words, /** @type {number} */ most) =>
    `${words}, above its ${most.toFixed(2)} tokens per pass, so timing noise`,
  against: (/** @type {string} */ label) => ` against ${label}`,
  bound: (/** @type {string} */ words) => `${words}; a bound, as its drafting is not on the clock`,
  notyet: (/** @type {number} */ least) => `shown after ${count(least, "token")} in each lane`,
  never: (/** @type {number} */ least) => `none: fewer than ${count(least, "token")} in a lane`,
  how: "What is this number?",
  definition:
    "Tokens per second of this lane divided by tokens per second of plain decoding: “so far” up to the moment shown, “overall” over the whole run. Each lane has its own clock, " +
    "which runs only while that lane computes, up to its latest token; reading the prompt and writing down what is shown here are left out. " +
    "Early values vary a lot, because a few rounds say little: “not clearly”, or “unclear”, means that the scatter of the rounds' times alone could explain the difference.",
  random: (/** @type {number} */ temperature) =>
    `Temperature ${temperature}: tokens are drawn at random, so lanes may write different texts.`,

  lossyMark: "lossy",
  lossy: (/** @type {string[]} */ titles) =>
    ` The ${titles.length > 1 ? "rules" : "rule"} ${titles.map((title) => `“${title}”`).join(", ")} ${titles.length > 1 ? "change" : "changes"} the target's distribution: under ${titles.length > 1 ? "them" : "it"}, the text is no longer the one that the target alone would write.`,

  heldUpRun: (/** @type {string[]} */ labels) =>
    `${labels.length > 1 ? `${labels.length} lanes` : labels[0].length > 16 ? "a lane" : labels[0]} held up`,
  heldUpRunMeans:
    "Passes of the target that something else held up took a twentieth of a lane's time or more: they are barred in the time bar, and the speeds include them.",
  /** @type {Record<string, string|undefined>} */
  provenance: { measured: "measured", recorded: "recorded" },

  slider: "Round",
  roundOf: (/** @type {number} */ n, /** @type {number} */ last) => `Round ${n} of ${last}`,
  atPrompt: "The prompt, before round 1",
  opened: (/** @type {{kept: number|null, tokens: number}} */ { kept, tokens }) => {
    const seen =
      kept === null
        ? `${count(tokens, "token")} at once`
        : kept
          ? `${kept} kept, then a rejection`
          : "a rejection";
    return `A good example: ${seen}. The end shows all.`;
  },
  openedWhy: `Where a replay opens: ${OPENS}.`,
  sameText: "same text",
  sameTextMeans: "All lanes wrote the same tokens.",
  inAll: (/** @type {""|"noise"|"unclear"} */ doubt) => `overall${doubt && `: ${doubt}`}`,
  unclear:
    "Not clearly faster or slower: the scatter of the rounds' times alone could explain the difference.",
  atEnd: "The end: every lane has finished",
  stoppedEnd: "The end: the run was stopped",
  first: "To the prompt (Home)",
  previous: "Previous round (↑ in the player)",
  back: "Previous step (←)",
  play: "Play (space)",
  pause: "Pause (space)",
  step: "Next step (→)",
  next: "Next round (↓ in the player)",
  last: "To the end (End)",
  speed: "Playback speed",
  pace:
    "Playing stretches the lane's recorded clock: at 1×, drafting and checking an average round takes one second, and each " +
    "verdict is shown long enough to be seen. Up to 1× it goes step by step; faster, round by round.",
  phase: (/** @type {Moment} */ moment, /** @type {number} */ read) =>
    ({
      proposed: "proposed",
      verified: "read by the target",
      judged: `${moment.judged.size} of ${read} judged`,
      committed: "committed",
    })[moment.phase],
  help: "Keys and marks (?)",
  byKeys: "Space: play · ← →: step",
  close: "Close",
  keysTitle: "Keys",
  wordsTitle: "Figures",
  words: [
    [
      "p",
      "the target's probability of a token at its place: at temperature 0 the model's own (after a repetition penalty), otherwise after temperature, penalties and cut-offs (top-k, top-p, min-p)",
    ],
    [
      "q",
      "the proposer's probability of its guess: the one it drew with, if it drew; otherwise its own, at temperature 1 (after a repetition penalty)",
    ],
    [
      "own q",
      "shown for a fixed guess above temperature 0: the proposer's own probability, at temperature 1 and before cut-offs; the rule counts q as 1. “How sure the models were” shows the target's p likewise",
    ],
    ["γ", "how many tokens are guessed in a round"],
    [
      "fixed",
      "of a guess that was not drawn at random with its q: the proposer took its likeliest tokens, as EAGLE's trees do, or copied; the rule then counts its q as 1",
    ],
    [
      "rows of the odds",
      "the chosen token first, then by the larger of p and q; at first the four likeliest of p and of q",
    ],
    ["a good example", `where a run opens: ${OPENS}`],
  ],
  signsTitle: "Signs in the text",
  signs: [
    [
      "␣ ⏎ ⇥",
      "a space (drawn where it would be overlooked, or is all that tells two tokens apart), a line break, a tab",
    ],
    ["⟨0xF0⟩ ◌", "a byte, a part of a character"],
    [
      "∎",
      "the end of the text: the target's end token; as a guess and in the tree it has its name, such as <|im_end|>",
    ],
    ["✓", "marks the last of several accepted guesses in a row; each is underlined in blue"],
    [
      "+1 +2",
      "that many more guesses: in the text, also rejected at this place; in the current round, elsewhere in its tree",
    ],
    ["▾", "at a view's lower edge: it goes on, scroll inside it"],
    ["shaded", "the tokens of the round that is shown"],
    ["framed", "the token whose odds are shown"],
    ["ringed", "the token under the pointer, in every view; in the tree a dotted line shows the path to it"],
  ],
  marksTitle: "Marks",
  keys: [
    [
      "→ ←",
      "next, previous step of a round: proposed, read, judged, committed; also while nothing else uses these keys",
    ],
    ["↓ ↑", "next, previous round; only while the player has the focus, as they scroll the page"],
    [". ,", "next, previous token"],
    ["Space", "play, pause; on a button that has the focus, press it"],
    ["Home End", "to the prompt, to the end; also while nothing else uses them, as Space"],
    ["1 … 6", "step through that lane"],
    ["V", "next view, where one is shown at a time"],
    ["Esc", "clear the selection"],
    ["?", "this help; also while nothing else uses it. Other letters and signs need the focus in the player"],
  ],
  slow: (/** @type {number} */ factor, /** @type {number} */ round) =>
    `${round < 1 ? `about ${Math.round(1 / round)} rounds a second` : `a round in about ${seconds(round)}`}: ${factor >= 1.5 ? `${factor < 10 ? factor.toFixed(1) : Math.round(factor)} × slower than it ran` : "about as fast as it ran"}`,

  views: "Views of this round",
  view: { tree: "Round", mask: "Mask and KV cache", odds: "Odds", window: "How it guessed" },
  roundAndOdds: "Round and odds",
  lead: (/** @type {string} */ label, /** @type {number} */ key) =>
    `Press to step through the rounds of ${label} (key ${key})`,
  leads: "leads",
  again: "repeats",
  againFrom: "From here on, the text repeats itself word for word. That is easy to guess.",
  repeats: (/** @type {number} */ n, /** @type {number} */ of) => `${n} of ${of} repeat`,
  repeatsMean:
    "These tokens repeat earlier text word for word. That is easy to guess, which can flatter a proposer.",
  repeating: (/** @type {string} */ words, /** @type {number} */ n, /** @type {number} */ of) =>
    `${words}; ${n} of ${count(of, "token")} repeat (↺)`,
  differs: "differs",
  fork: (/** @type {string} */ label) => `From here on, the text differs from that of ${label}.`,
  rateOf: (/** @type {number} */ value) => value.toFixed(1),
  clockOf: (/** @type {number} */ value) => value.toFixed(value < 10 ? 3 : 2),
  ratio: (/** @type {number} */ value) => `${value < 9.995 ? value.toFixed(2) : value.toFixed(1)}×`,
  ratioOf: (/** @type {string} */ label) => `measured speed over that of ${label}`,
  timeline:
    "The rounds of every lane on the recorded clocks: drafting striped, the target's pass blue, other work (judging, committing) grey. Barred passes were held up by something else. Rounds too short to be drawn apart follow each other without gaps. The slider and the keys below move through the same rounds.",
  aheadKept: "Drafted during the target's pass; none of it is recorded as thrown away.",
  aheadGone: "Drafted during the target's pass and thrown away: the verdict was different.",
  gap: "gaps: between rounds",
  timelineKeyMeans: /** @type {Record<string, string|undefined>} */ ({
    draft: "The proposer's time",
    verify: "The target reads the root and the guesses",
    other: "Judging and committing",
  }),
  timelineKey: {
    draft: "draft",
    verify: "target pass",
    other: "other work",
    held: "held up by something else",
    ahead: "drafted during the pass",
    gone: "and thrown away",
  },

  roundTitle: (/** @type {number} */ n) => `Round ${n}`,
  untimed: "its times are not in this record",
  phasesAre: "draft: the proposer's time, even where it proposed nothing; other: judging and committing",
  heldUp:
    "This pass of the target took at least twice the median of this lane's passes over as many tokens: another program was using the processor, or the models had just been loaded. The speeds include it. “Held up” is written beside the speedup only where such passes took a twentieth of a lane's time or more",
  phases: (
    /** @type {number} */ draft,
    /** @type {number} */ verify,
    /** @type {number} */ other,
    /** @type {number} */ ahead,
    /** @type {number|null} */ usual,
  ) =>
    `${draft > 0 ? `draft ${seconds(draft)} · ` : ""}target pass ${seconds(verify)}${usual === null ? "" : ` (usually ${seconds(usual)})`} · other ${seconds(other)}${ahead > 0 ? ` · ahead ${seconds(ahead)}` : ""}`,

  queued: (/** @type {number} */ ahead, /** @type {number|null} */ wait) =>
    `Waiting: ${count(ahead, "run")} ahead of yours${wait === null ? "" : `, about ${roughly(wait)} s`}. It starts automatically.`,
  connecting: "Waiting for the run to start.",
  reconnecting: "The connection was lost; trying again.",
  lost: "The run can no longer be reached. Start it again.",
  loading: "Loading the record of the run.",
  noRecord: "The record of this run could not be read.",
  empty: "Nothing to show yet. A run appears here as soon as it starts.",
};

/** A page that contains its own record. */
export const PAGE = {
  old: "This browser cannot unpack the record in this page. Open it in a browser from 2023 or later.",
  damaged: "The record in this page is damaged. Ask for the file again.",
  save: (/** @type {string} */ label) => `Save “${label}” as JSON`,
};
