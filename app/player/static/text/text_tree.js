/** The texts of the tree, the mask and the KV cache. */

/**
 * @import { Phase } from "../model/moments.js"
 * @import { PassRow } from "../model/slots.js"
 */

import { count } from "./text.js";

/**
 * "Slots 22–30 are" or "slots 22–30": the slots a pass of `width` rows writes after `before` kept ones.
 * @param {number} before
 * @param {number} width
 * @param {string} [verb]
 */
function slots(before, width, verb = "are") {
  const many = width > 1;
  const range = many ? `${before}–${before + width - 1}` : `${before}`;
  return verb ? `Slot${many ? "s" : ""} ${range} ${many ? "are" : "is"}` : `slot${many ? "s" : ""} ${range}`;
}

export const W = {
  treeToCome: "The guesses of each round appear here as a tree.",
  treeIs: (/** @type {number} */ nodes, /** @type {number} */ levels) =>
    nodes ? `${count(nodes, "guess")} sent${levels > 1 ? `, ${count(levels, "level")} deep` : ""}. ` : "",
  treeName: (/** @type {number} */ nodes, /** @type {number} */ levels) =>
    `The proposal: ${count(nodes, "guess")} sent to the target, ${count(levels, "level")} deep. Arrow keys go to parent, child and neighbours.`,
  root: (/** @type {string} */ text, /** @type {number} */ round) =>
    `The root ${text}: the last committed token${round > 0 ? `, of round ${round}` : ", the end of the prompt"}.`,
  treeGuide: (/** @type {Phase} */ phase, /** @type {boolean} */ rivals, /** @type {boolean} */ guessed) => {
    if (!guessed)
      return phase === "committed"
        ? "Nothing was guessed: the target read the root alone and wrote the token after it."
        : "Nothing was guessed: the target reads the root alone.";
    const layout = `Each box guesses what follows the box to its left${rivals ? "; boxes after the same one are siblings" : ""}. `;
    /** @type {Record<Phase, string>} */
    const now = {
      proposed: "Nothing is judged yet.",
      verified: "The target has read all of them in one pass; now they are judged.",
      judged: "✓\u00a0accepted; ✗\u00a0rejected; ·\u00a0not reached; ○\u00a0waiting.",
      committed: "Guesses marked\u00a0✓ are now text; the target's own token, if it wrote one, follows them.",
    };
    return layout + now[phase];
  },
  rootMark: "root",
  rootIs: "root: last token so far",
  inLines: "Continued on the next line.",
  node: (
    /** @type {string} */ text,
    /** @type {string} */ verdict,
    /** @type {number} */ depth,
    /** @type {string} */ parent,
    /** @type {string} */ facts,
  ) => `${text}, ${verdict}, level ${depth} after ${parent}${facts ? `; ${facts}` : ""}`,
  ownNode: (
    /** @type {string} */ text,
    /** @type {string} */ source,
    /** @type {string} */ parent,
    /** @type {string} */ facts,
  ) => `${text}, ${source}, after ${parent}${facts ? `; ${facts}` : ""}`,
  ranked: (/** @type {number} */ rank) =>
    rank === 1
      ? "the target's first choice, given the tokens to its left"
      : `ranked no. ${rank} by the target here`,
  widthBy: {
    q: "line width: proposer's q",
    p: "line width: target's p (no q here)",
    none: "lines of one width, as no probability is known yet",
    live: "lines of one width: probabilities come when the run has ended",
  },
  bars: (/** @type {boolean} */ p, /** @type {boolean} */ q) =>
    `bars: ${[p && "target's p", q && (p ? "q, striped" : "proposer's q, striped")].filter(Boolean).join("; ")}`,
  onPath: "accepted path",
  firstChoice: "target's first choice",
  foldPruned: (/** @type {number} */ n) => `Hide ${count(n, "pruned guess")}`,
  notDrawn: (/** @type {number} */ n) =>
    `${count(n, "more guess")} not drawn: the tree is too large for a picture.`,
  qIs: (/** @type {string} */ q, /** @type {boolean} */ own) => `${own ? "own q" : "q"} ${q}`, // the rule's q is 1 where the guess was fixed
  ownQ: "own q: the proposer's own probability, at temperature 1 and before cut-offs. The guess was not drawn with it, so the rule counts its q as 1. p is after temperature and penalties; “How sure the models were” shows the p from before them.",
  zoom: "Size",
  zoomOut: "Smaller (− in the tree)",
  zoomIn: "Larger (+ in the tree)",
  zoomFit: "Fit the whole tree into its box (f in the tree)",
  zoomFitWord: "Fit",
  zoomFull: "1:1: full size (0 in the tree)",
  zoomFullWord: "1:1",
  treeCue: "The tree is larger than its box: scroll inside it, or zoom out.",
  showPruned: (/** @type {number} */ n) => `Show ${count(n, "pruned guess")} as well`,

  maskToCome: "Step forward to see what a pass of the target reads.",
  maskTitle: "What one pass of the target reads",
  maskGuide: (/** @type {Phase} */ phase, /** @type {number} */ rows, /** @type {boolean} */ branches) => {
    const reads = phase === "proposed" ? "is about to read" : "has read";
    if (rows === 1)
      return `One row, as in plain decoding: the target ${reads} the root alone. It sees everything before it, and itself.`;
    return (
      `Each row is a token that the target ${reads}; filled squares are what it sees: the text before, ${branches ? "its own branch" : "the guesses before it"} and itself. ` +
      (branches
        ? "So one pass holds many branches, and none sees another."
        : "So one pass checks all guesses at once.")
    );
  },
  maskName: (/** @type {number} */ rows) =>
    `Attention mask of ${count(rows, "row")}. Up and down go through the rows.`,
  maskHeads: ["token", "position", "slot"],
  maskHeadsAre: [
    "the tokens of this pass",
    "the token's place in the text, counted from 0; guesses for the same place share it",
    "its slot in the KV cache",
  ],
  maskPrefix: (/** @type {number} */ n) => `${n} before`,
  maskSees: (
    /** @type {string} */ text,
    /** @type {number|null} */ prefix,
    /** @type {string|null} */ others,
    /** @type {number|null} */ position,
    /** @type {number} */ slot,
  ) =>
    `${text} sees ${prefix === null ? "the whole text before the root" : `all ${count(prefix, "token")} before the root`}` +
    `${others === null ? " and itself" : `, ${others}, and itself`}; it sees nothing else in the pass.` +
    `${position === null ? "" : ` Position ${position}, KV slot ${slot}.`}`,
  maskRow: (
    /** @type {string} */ text,
    /** @type {number|null} */ position,
    /** @type {number|null} */ slot,
    /** @type {number} */ ancestors,
  ) =>
    `${text}${position === null ? "" : `, position ${position}, slot ${slot}`}, sees the prefix and ${count(ancestors, "row")} of the pass`,
  maskMore: (/** @type {number} */ n) => `${count(n, "more row")} of the pass not drawn.`,
  maskLoose: (/** @type {number} */ n) =>
    `The pass included ${count(n, "extra token")}; the record does not name them.`,
  maskLegend: {
    prefix: "the committed text, its columns drawn as one",
    sees: "sees",
    self: "itself",
    verdicts: "same, for an accepted, rejected, not reached guess; full colour: itself",
    reserved: "slot reserved",
    written: "slot written",
    kept: "slot kept",
    freed: "slot freed",
    free: "free for the next pass",
    rider: "~ extra token, not a proposal",
  },
  maskDistance:
    "This model has no position ids: the mask corrects its learned distance bias, and positions count as shown.",
  rider: "extra token",
  theRoot: (/** @type {string} */ text) => `the root ${text}`,
  rowNamed: (/** @type {string} */ text, /** @type {PassRow["kind"]} */ kind) =>
    kind === "root" ? `The root ${text}` : kind === "rider" ? `${text} (extra token)` : text,
  moreRows: (/** @type {number} */ n) => count(n, "more row"),
  slotsTitle: "KV cache",
  slotsBefore: "in the pass",
  slotsMove: "kept",
  slotsAfter: "after the commit",
  slotOf: (
    /** @type {number|null} */ slot,
    /** @type {string} */ text,
    /** @type {"reserved"|"written"|"kept"|"freed"} */ state,
  ) =>
    `${slot === null ? "" : `Slot ${slot}, `}${text}: ${{ reserved: "reserved, not written yet", written: "written", kept: "kept", freed: "freed" }[state]}`,
  freeSlot: "free again: the next pass writes here",
  pendingSlot: (/** @type {string} */ text) =>
    `${text}, the newest token: it has no slot yet; the next pass writes it here.`,
  slotsFrom: "Only the cache's length is recorded; the slots are derived from it.",
  kvUnknown: "The record of this run has no cache lengths yet.",
  kvReserved: (/** @type {number} */ before, /** @type {number} */ width) =>
    `The cache holds ${count(before, "token")}. ${slots(before, width)} reserved for the pass, not written yet.`,
  kvWritten: (/** @type {number} */ before, /** @type {number} */ width) =>
    `The pass has written ${slots(before, width, "")}; the verdicts decide which are kept.`,
  kvKept: (
    /** @type {number} */ before,
    /** @type {number} */ after,
    /** @type {number} */ width,
    /** @type {number[]} */ kept,
    /** @type {boolean} */ moved,
    /** @type {string} */ pending,
    /** @type {string} */ source,
    /** @type {boolean} */ ends,
  ) =>
    `${kept.length} of ${count(width, "slot")} kept: ${kept.length > 12 ? "the path" : kept.join(", ")}` +
    `${moved ? `, compacted to ${before}–${after - 1}` : `, already in place`}. Cache length ${before} → ${after}. ` +
    `${pending} (${source}) has no slot${ends ? ", hence the “?”, and needs none: the text ends with it" : ` yet, hence the “?”: it is the next root, and the next pass writes it to slot ${after}`}. So the cache is one shorter than the committed text, prompt included: ${after}\u00a0=\u00a0${after + 1}\u00a0−\u00a01.`,
  kvOdd: (
    /** @type {number} */ before,
    /** @type {number|null} */ after,
    /** @type {number} */ kept,
    /** @type {number|null} */ committed,
  ) =>
    `The record contradicts itself: the cache went from ${before} to ${after ?? "nothing"} tokens, its verdicts keep ${kept}${committed === null ? "" : `, and ${committed} tokens need ${committed - 1}`}.`,
};
