/**
 * From the record to what is drawn: one lane model for finished traces and for rounds as they arrive.
 *
 * Everything here tolerates a damaged record: missing columns read as null, odd values as absent.
 */

/**
 * @import { Phases, Rules, Seen, Source, Step, Trace, Verdict } from "../../types.js"
 * @import { Repeats } from "./repeats.js"
 */

import { createRepeats } from "./repeats.js";

/**
 * @typedef {{node: number, text: string, verdict: Seen, depth: number, parent: number}} Proposal
 * @typedef {{text: string, name: string, source: Source, node: number}} Token a committed token: its piece of the text, its
 *   name where that piece is empty; `node` is −1 where the target wrote it
 * @typedef {{at: number, nodes: Proposal[]}} Hang proposals that were rejected at committed token `at`
 * @typedef {{start: number, drafted: number, verified: number, end: number, ahead: number}} Times the lane's clock in seconds
 *   when the round began, when its draft was there, when the target's pass was over, and at its commit; `ahead` is how long
 *   drafting for the next round ran beside the pass
 * @typedef {{index: number, end: number, total: number, times: Times, tokens: Token[], proposals: Proposal[], hangs: Hang[],
 *   candidates: number|null, copied: boolean}} Round `candidates`: of how many the proposals are the best, where not all are
 *   named; `copied`: the guesses are a look-up's, in a lane in which a model guesses too
 * @typedef {{label: string, prompt: string, rounds: Round[], rest: string, total: number, temperature: number, judging: "each"|"longest",
 *   end: string|null, proposer: string, rule: string, trace: Trace|null, repeats: Repeats, lossy?: boolean, about?: string, apart?: boolean, untimed?: boolean,
 *   draws?: boolean, onlyBest?: boolean, root?: string}} Lane
 *   `onlyBest`: whatever the temperature, only the most likely token can be drawn; `draws`: guesses are drawn at random, from a q that may at times be 1 on one token; `root`: of a run that goes on, the text of its prompt's last token; `untimed`: no time is recorded, so its rounds take one unit each, which is shown nowhere
 */

const DRAWING = new Set([
  "draft-model",
  "early-exit",
  "shared-tokens",
  "parallel-draft",
  "branching",
  "oracle",
  "blind",
  "block",
]); // above temperature 0
const FIXED = new Set(["likeliest", "most-likely", "repeat-last"]); // but not with these options

/** @type {Verdict[]} */
export const VERDICTS = ["accepted", "rejected", "unreached", "pruned", "cut", "discarded"];
/** @type {Source[]} */
const SOURCES = ["accepted", "corrected", "bonus", "plain", "unknown"];

/**
 * @template Value
 * @param {readonly Value[]|null|undefined} value in a damaged record anything
 * @returns {Value[]} `value` where it is an array, otherwise an empty one
 */
export function list(value) {
  return Array.isArray(value) ? value : [];
}

/**
 * @param {unknown} value
 * @returns {number|null} `value` where it is a finite number
 */
export function number(value) {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/**
 * @template {string} Word
 * @param {unknown} value
 * @param {Word[]} words
 * @param {Word} otherwise
 * @returns {Word}
 */
function known(value, words, otherwise) {
  return words.find((word) => word === value) ?? otherwise;
}

/**
 * The text of a token id, as the trace names it.
 * @param {Trace|null} trace
 * @param {number} id
 */
export function tokenText(trace, id) {
  const text = trace?.texts?.[String(id)];
  return typeof text === "string" ? text : `⟨${id}⟩`;
}

/**
 * One round from plain columns; shared by traces and by `step` messages.
 * @param {number} index
 * @param {Times} times
 * @param {number} total
 * @param {string[]} texts
 * @param {string[]} names
 * @param {unknown[]} sources
 * @param {unknown[]} parents
 * @param {string[]} nodeTexts
 * @param {unknown[]} verdicts
 * @param {unknown} candidates
 * @param {unknown} by
 */
function makeRound(index, times, total, texts, names, sources, parents, nodeTexts, verdicts, candidates, by) {
  /** @type {Proposal[]} */
  const proposals = nodeTexts.map((text, node) => {
    const given = number(parents[node]) ?? node - 1;
    const parent = given >= -1 && given < node ? given : -1;
    return {
      node,
      text: String(text),
      verdict: known(verdicts[node], VERDICTS, "unreached"),
      depth: 1,
      parent,
    };
  });
  for (const item of proposals) {
    if (item.parent < 0) continue;
    item.depth = proposals[item.parent].depth + 1;
    if (item.verdict === "unreached" && proposals[item.parent].verdict === "cut") item.verdict = "cut"; // it lies beyond the end as well
  }
  const path = proposals.filter((item) => item.verdict === "accepted");
  const tokens = texts.map((text, at) => {
    const source = known(sources[at], SOURCES, "plain");
    return {
      text: String(text ?? ""),
      name: String(text || names[at] || ""),
      source,
      node: source === "accepted" && path[at] ? path[at].node : -1,
    };
  });
  /** @type {Map<number, Hang>} */
  const hangs = new Map();
  for (const item of proposals) {
    if (item.verdict !== "rejected") continue; // the tree shows all others
    let above = item.parent;
    while (above >= 0 && proposals[above].verdict !== "accepted") above = proposals[above].parent;
    const at = above < 0 ? 0 : proposals[above].depth;
    const hang = hangs.get(at) ?? { at, nodes: [] };
    hangs.set(at, hang);
    hang.nodes.push(item);
  }
  return {
    index,
    end: times.end,
    total,
    times,
    tokens,
    proposals,
    hangs: [...hangs.values()],
    candidates: number(candidates),
    copied: copying(by),
  };
}

/**
 * Whether guesses of this part of a combined lane were looked up.
 * @param {unknown} by
 */
export function copying(by) {
  return by === "prompt-lookup" || by === "suffix";
}

/**
 * When a row's phases ended, on the lane's clock, which never runs backwards. Plain decoding drafts nothing.
 * @param {Phases|null|undefined} row
 * @param {number} before
 * @param {boolean} plain
 */
function timesOf(row, before, plain) {
  /** @param {keyof Phases} name */
  const part = (name) => Math.max(0, number(row?.[name]) ?? 0);
  const start = Math.max(before, part("start_s"));
  const drafted = start + (plain ? 0 : part("draft_s"));
  const verified = drafted + (plain ? part("draft_s") : 0) + part("verify_s");
  return {
    start,
    drafted,
    verified,
    end: verified + part("judge_s") + part("commit_s"),
    ahead: part("ahead_s"),
  };
}

/**
 * A lane from a whole trace.
 * @param {Trace} trace a trace of version 1, as parsed JSON
 * @param {string} label
 * @returns {Lane}
 */
export function laneOf(trace, label) {
  const pieces = list(trace?.output?.texts);
  const settings = trace?.header?.settings ?? {};
  const prompt = String(trace?.header?.prompt ?? "");
  const repeats = createRepeats(prompt);
  let total = 0;
  let clock = 0;
  const rounds = list(trace?.rounds).map((row, index) => {
    const nodes = row?.nodes ?? {};
    const ids = list(row?.committed?.token);
    const texts = ids.map((id, at) =>
      typeof pieces[total + at] === "string" ? pieces[total + at] : tokenText(trace, id),
    );
    total += ids.length;
    ids.forEach((id, at) => repeats.add(id, texts[at]));
    const times = timesOf(row, clock, settings.proposer === "none");
    clock = times.end;
    const nodeTexts = list(nodes.token).map((id) => tokenText(trace, id));
    const names = ids.map((id) => tokenText(trace, id));
    return makeRound(
      index,
      times,
      total,
      texts,
      names,
      list(row?.committed?.source),
      list(nodes.parent),
      nodeTexts,
      list(nodes.verdict),
      row?.note?.candidates,
      row?.note?.by,
    );
  });
  const untimed = rounds.length > 0 && clock === 0;
  if (untimed) {
    rounds.forEach((round, at) => {
      round.times = { start: at, drafted: at, verified: at, end: at + 1, ahead: 0 };
      round.end = at + 1;
    });
  }
  list(trace?.output?.ids)
    .slice(total)
    .forEach((id, at) => repeats.add(id, String(pieces[total + at] ?? "")));
  const proposer = String(settings.proposer ?? "none");
  return {
    label: label || proposer,
    prompt: trace?.header?.chat === true ? `${prompt}\n\n` : prompt, // an answer starts a new paragraph
    rounds,
    rest: pieces.slice(total).join(""), // a run recorded without rounds has only its text
    total: Math.max(total, pieces.length),
    temperature: number(settings.temperature) ?? 0,
    judging: trace?.header?.judging === "longest" ? "longest" : "each",
    end: typeof trace?.end === "string" ? trace.end : null,
    proposer,
    rule: String(settings.rule ?? ""),
    trace,
    repeats,
    untimed,
    onlyBest: number(settings.top_k) === 1 || number(settings.min_p) === 1,
    draws:
      (number(settings.temperature) ?? 0) > 0 &&
      DRAWING.has(proposer === "combined" ? String(settings.options?.model ?? "draft-model") : proposer) &&
      !(proposer === "block" && number(settings.options?.nodes)) && // its trees are not drawn
      !FIXED.has(String(settings.options?.draw ?? settings.options?.guess)),
  };
}

/**
 * An empty lane, to be filled with steps.
 * @param {string} label
 * @param {string} prompt
 * @param {string} proposer
 * @returns {Lane}
 */
export function emptyLane(label, prompt, proposer) {
  return {
    label,
    prompt,
    rounds: [],
    rest: "",
    total: 0,
    temperature: 0,
    judging: "each",
    end: null,
    proposer,
    rule: "",
    trace: null,
    repeats: createRepeats(prompt),
  };
}

/**
 * Whether a lane's rule lets the text depart from the target's distribution. `rules` maps names to {title, lossless}.
 * @param {Lane} lane
 * @param {Rules|undefined} rules
 */
export function lossy(lane, rules) {
  return lane.proposer !== "none" && rules?.[lane.rule]?.lossless === false;
}

/**
 * Add one `step` message to its lane.
 * @param {Lane} lane
 * @param {Step} step
 */
export function addStep(lane, step) {
  const texts = list(step.texts);
  const ids = list(step.tokens);
  lane.total += texts.length;
  texts.forEach((text, at) => lane.repeats.add(ids[at], String(text ?? "")));
  const times = timesOf(step, lane.rounds.at(-1)?.end ?? 0, lane.proposer === "none");
  times.end = Math.max(times.end, number(step.clock_s) ?? 0);
  lane.rounds.push(
    makeRound(
      lane.rounds.length,
      times,
      lane.total,
      texts,
      list(step.names),
      list(step.sources),
      list(step.parent),
      list(step.node_texts),
      list(step.verdict),
      step.candidates,
      step.by,
    ),
  );
}

/**
 * How many guesses in a row the length limit leaves room for, where a round guessed so many and another of the lane more;
 * else null.
 * @param {Lane} lane
 * @param {Round} round
 */
export function roomIn(lane, round) {
  const most = number(lane.trace?.header?.settings?.max_new_tokens) ?? Infinity;
  const room = most - (round.total - round.tokens.length) - 1;
  return room > 0 && deepest(round) === room && lane.rounds.some((other) => deepest(other) > room)
    ? room
    : null;
}

/** @param {Round} round */
function deepest(round) {
  return Math.max(0, ...round.proposals.map((item) => item.depth));
}
