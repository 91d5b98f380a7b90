/** The texts about the proposer's own view. */

import { count } from "./text.js";

/** @param {string[]} texts */
const pieces = (texts) => texts.map((text) => `‘${text}’`).join(" ");

/**
 * Which candidates the tree shows besides those that were sent.
 * @param {boolean} shown whether there are any
 * @param {boolean} others whether some were not sent
 */
const rest = (shown, others) =>
  shown
    ? " Of the rest, those that were expanded further are drawn, as pruned; the others are not drawn."
    : others
      ? " None of the rest was expanded further, so they are not drawn."
      : "";

/** @param {number|null} found @param {number} nodes */
const sent = (found, nodes) =>
  nodes === 0
    ? "none was sent to the target."
    : found === nodes
      ? "all were sent to the target."
      : nodes === 1
        ? "the most likely one was sent to the target."
        : `the ${nodes} on the most likely paths were sent to the target.`;

export const W = {
  /** @type {Record<string, string>} */
  titles: {
    lookahead: "Window and pool",
    "prompt-lookup": "Where the guesses were copied from",
    "text-draft": "What the draft wrote",
    "shared-tokens": "What the draft wrote",
    "parallel-draft": "What the draft read",
    "draft-model": "Drafting while the target checks",
    branching: "Drafting while the target checks",
    suffix: "Where the text read like this before",
    recycling: "What the target found likely before",
    medusa: "The heads",
    eagle: "The head",
    eagle3: "The head",
    mtp: "The modules",
    "early-exit": "The exit",
  },
  start: "Step forward to see what the proposer looked at.",
  medusa: (/** @type {number|null} */ heads, /** @type {number} */ nodes) =>
    !nodes
      ? "The heads guessed nothing in this round."
      : `${heads === null ? "The heads" : count(heads, "head")} read the target's last state, each guessing one position further ahead. From their lists ${nodes === 1 ? "one guess was" : `${nodes} guesses were`} sent to the target.`,
  eagle: (
    /** @type {number|null} */ levels,
    /** @type {number|null} */ found,
    /** @type {number} */ nodes,
    /** @type {boolean} */ shown,
  ) =>
    levels === null && !nodes
      ? "The head guessed nothing in this round."
      : `${levels === null ? "The head" : `Over ${count(levels, "level")} the head`} drafted ${found === null ? "its candidates" : count(found, "candidate")}; ${sent(found, nodes)}${rest(shown, (found ?? 0) > nodes)}`,
  mtp: (
    /** @type {number|null} */ levels,
    /** @type {number|null} */ found,
    /** @type {number} */ nodes,
    /** @type {boolean} */ shown,
  ) =>
    levels === null && !nodes
      ? "The modules guessed nothing in this round."
      : `${levels === null ? "The modules" : `Over ${count(levels, "level")} the modules`} drafted ${found === null ? "their candidates" : count(found, "candidate")}; ${sent(found, nodes)}${rest(shown, (found ?? 0) > nodes)}`,
  pathsBy: (/** @type {number|null} */ temperature) =>
    `Guesses by the product of q${temperature === null ? "" : ` at temperature ${temperature}`} along their path`,
  pathsUnsent: "Not sent to the target:",
  parallel: (
    /** @type {number|null} */ read,
    /** @type {number|null} */ masks,
    /** @type {number} */ nodes,
  ) => {
    if (!nodes) return "The draft proposed nothing.";
    const what =
      read === null || masks === null
        ? ""
        : ` over ${count(read - masks, "token")} of the text and ${count(masks, "mask token")}`;
    return `One pass of the draft${what} made ${nodes === 1 ? "this guess" : `these ${nodes} guesses; none of them was made from another`}.`;
  },
  byText: (/** @type {string[]} */ own, /** @type {number} */ nodes) =>
    own.length
      ? `In its own tokens the draft wrote ${pieces(own)}; split anew, ${nodes === 1 ? "this is one token" : `these are ${nodes} tokens`} of the target.`
      : "The draft wrote nothing.",
  byTokens: (/** @type {string[]} */ own, /** @type {number} */ nodes) =>
    own.length
      ? `In its own tokens the draft wrote ${pieces(own)}; ${nodes === 1 ? "it is a token" : "all of them are tokens"} of the target as well.`
      : "The draft wrote nothing.",
  exit: (/** @type {number|null} */ layer, /** @type {number} */ nodes) =>
    !nodes
      ? "The first layers guessed nothing in this round."
      : `The first ${layer === null ? "layers" : count(layer, "layer")} of the target alone wrote ${nodes === 1 ? "this" : `these ${count(nodes, "guess")}`}; its other layers check.`,
  suffix: (
    /** @type {number|null} */ length,
    /** @type {number|null} */ places,
    /** @type {number|null} */ earlier,
    /** @type {number} */ nodes,
  ) => {
    if (!length || !places) return "No earlier place gave anything to propose.";
    const where = earlier
      ? `, ${earlier === places ? (places === 1 ? "in an earlier text" : "all in earlier texts") : `${earlier} of them in earlier texts`}`
      : "";
    return `The last ${length === 1 ? "token occurs" : `${length} tokens occur`} at ${count(places, "earlier place")}${where}; from what most often followed there, ${count(nodes, "token")} ${nodes === 1 ? "was" : "were"} proposed.`;
  },
  recycling: (
    /** @type {number|null} */ known,
    /** @type {number|null} */ renewed,
    /** @type {number} */ nodes,
  ) =>
    `Successors of ${known === null ? "the tokens read so far" : count(known, "token")} were known${renewed ? `, ${renewed} of them from the pass before` : ""}; from these ${count(nodes, "node")} ${nodes === 1 ? "was" : "were"} proposed without a pass.`,

  noWindow: "The record of this round does not hold the window.",
  rides: (/** @type {number} */ n) =>
    `The target's pass includes the window: ${count(n, "extra token")}, none of which can enter the text by itself.`,
  home: "The window was left out of this pass: too little text or memory was left for it.",
  windowName: (/** @type {number} */ width, /** @type {number} */ levels) =>
    `Window of ${count(width, "column")} and ${count(levels, "level")}`,
  windowIs:
    "Each column is a phrase in the making; guesses for the same position of the text are above each other.",
  newestIs:
    "The lowest row is what this pass found most likely after each column; it becomes the last level.",
  position: "position",
  root: "root",
  level: (/** @type {number} */ n) => `level ${n}`,
  newest: "found now",
  cellMark: { root: "●", written: "", initial: "·", newest: "▸" },
  cellKind: {
    root: "(root)",
    written: "(written by the target)",
    initial: "(initial token, not guessed yet)",
    newest: "(found in this pass)",
  },
  cell: (/** @type {string} */ text, /** @type {number} */ position, /** @type {string} */ kind) =>
    `${text}, ${position === 0 ? "the root" : `position +${position}`}${kind === "written" ? ", written by the target in an earlier pass" : kind === "initial" ? ", an initial token, not guessed yet" : kind === "newest" ? ", found in this pass" : ""}`,
  pool: (/** @type {number} */ n) => `Pool of ${count(n, "phrase")}`,
  tried: (/** @type {number} */ n, /** @type {string} */ root) =>
    `${count(n, "phrase")} ${n === 1 ? "begins" : "begin"} with the root ${root}, and what follows it became the proposal:`,
  untried: (/** @type {string} */ root) => `None begins with the root ${root}, so nothing was proposed.`,
  triedName: "Phrases that became the proposal",
  leftOut: "beyond the depth or the memory that was left",
  recent: "Others, most recently used first:",
  harvested: (/** @type {number} */ n) =>
    n ? `New in the pool by this pass: ${count(n, "phrase")}` : "This pass added nothing new to the pool",

  noMatchNote: "The record of this round does not say where the match was.",
  match: (/** @type {number} */ length, /** @type {number} */ copied, /** @type {string} */ where) =>
    `The last ${length === 1 ? "token also occurs" : `${length} tokens also occur`} earlier, ${where}; the ${copied === 1 ? "token" : `${copied} tokens`} after that ${copied === 1 ? "was" : "were"} copied.`,
  inPrompt: "in the prompt",
  inAnswer: "in the answer",
  miss: "The last token does not occur earlier with anything after it, so nothing was proposed.",
  choice: (
    /** @type {string} */ match,
    /** @type {number|null} */ places,
    /** @type {number|null} */ votes,
  ) => {
    if (places === null) return "";
    if (places === 1) return "There was one such place.";
    if (votes !== null)
      return `There were ${places} such places; in ${votes} of them the same token follows, and the newest of those was taken.`;
    return `There were ${places} such places; the ${match === "first" ? "earliest" : "newest"} was taken${match === "last" ? ", and the match is as long as the two passages agree" : ""}.`;
  },
  lookupKey: {
    matched: "how the text ends, and where that occurred before",
    copied: "what followed there, copied",
  },
  gap: (/** @type {number} */ n) => ` … ${count(n, "token")} … `,

  ahead: (/** @type {number} */ n) =>
    `${count(n, "guess")} of this round ${n === 1 ? "was" : "were"} drafted while the target checked the round before.`,
  aheadLevels: (/** @type {number} */ n) =>
    `${count(n, "level")} of this tree ${n === 1 ? "was" : "were"} drafted while the target checked the round before.`,
  aheadLater: "What was drafted during the check is shown once the round is committed.",
  draftedAhead: (/** @type {number} */ passes, /** @type {string} */ time) =>
    `During the check the draft made ${count(passes, "pass")} in ${time}, assuming that its whole guess is accepted.`,
  clockIs: "Both bars share one clock: what is below the target's bar was drafted at the same time.",
  nothingAhead: "Nothing was drafted during this check.",
  aheadEnded: (/** @type {number} */ lost) =>
    lost
      ? `${count(lost, "token")} drafted ahead came to nothing:`
      : "The assumption held, and the next round continues from there.",
  lost: "Discarded",
  further: (/** @type {number} */ n) => `and ${n} more`,
  targetTrack: "target",
  draftTrack: "draft",
  verifying: (/** @type {string} */ time) => `target pass ${time}`,
  drafting: (/** @type {string} */ draft, /** @type {string} */ ahead, /** @type {boolean} */ lost) =>
    `draft ${draft} · ahead ${ahead}${lost ? ", discarded" : ""}`,
};
