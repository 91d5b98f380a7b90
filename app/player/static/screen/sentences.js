/** Sentences about a moment and about a round. Part of the catalogue: a language has its own. */

/**
 * @import { Verdict } from "../../types.js"
 * @import { Lane, Round } from "../model/model.js"
 * @import { View } from "../model/state.js"
 */

import { list, number, roomIn } from "../model/model.js";
import { wasRead } from "../model/slots.js";
import { count, quote, seconds, T, VERDICT } from "../text/text.js";

/** @type {Record<string, string|undefined>} */
const WHO = {
  "draft-model": "the draft",
  eagle: "the EAGLE head",
  eagle3: "the EAGLE-3 head",
  medusa: "the Medusa heads",
  mtp: "the MTP modules",
  you: "you",
};

/**
 * What happened at the cursor, in one sentence, and nothing of what comes after it.
 * @param {View} view
 * @returns {string}
 */
export function sentenceAt(view) {
  const { current, moment } = view;
  if (!current) return T.atPrompt;
  const { lane } = view.lanes[view.lead];
  const stood = Math.min(view.stop, lane.rounds.length); // the round at which the cursor is
  if (moment.phase === "committed")
    return `${current.index + 1 === stood ? "" : `Looking back from round ${stood}. `}${sentenceOf(lane, current)}`;
  const head = `Round ${current.index + 1}: `;
  const { drafted, read } = sizes(current);
  if (moment.phase === "proposed") {
    const sent =
      drafted === read ? "" : `; ${read || "none"} of them ${read === 1 ? "is" : "are"} sent to the target`;
    if (current.candidates !== null && read)
      return `${head}${whoIn(lane)} sent ${count(read, "guess")} to the target.${roomFor(lane, current)}`;
    return `${head}${whoIn(lane)} guessed ${count(drafted, "token")}${copiedFrom(lane, current)}${sent}.${roomFor(lane, current)}`;
  }
  if (moment.phase === "verified") {
    return `${head}${read ? `the target has read ${read === 1 ? "the guess" : `all ${read} guesses`} in one pass` : `${drafted ? "" : "nothing was proposed; "}the target made one pass`}.`;
  }
  const fallen = current.proposals.filter((item) => moment.judged.has(item.node));
  const judged = current.proposals[moment.node ?? -1];
  if (lane.judging === "longest") {
    const kept = fallen.filter((item) => item.verdict === "accepted").length;
    return `${head}the guesses are judged as a whole; ${kept ? `the first ${count(kept, "token")} ${kept === 1 ? "is" : "are"} accepted` : "nothing is accepted"}.`;
  }
  const passed = current.proposals.filter((item) => item.verdict === "unreached").length; // as far as is known yet
  const out = current.proposals.some((item) => item.verdict === "waiting") ? passed : read - fallen.length;
  return `${head}${quote(judged.text)} is ${VERDICT[judged.verdict]} (${fallen.length} of ${read} judged${out ? `, ${out} not reached` : ""}).`;
}

/**
 * How many tokens were drafted for a round, and how many of them the target received. Of a head's candidates only those
 * that were sent count: the record does not name all others.
 * @param {Round} round
 */
function sizes(round) {
  const read = round.proposals.filter(wasRead).length;
  const pruned = round.proposals.filter((item) => item.verdict === "pruned").length;
  const { candidates } = round;
  const drafted = candidates === null ? read + pruned : read || candidates;
  return { drafted, read };
}

/** @param {Lane} lane */
function whoIn(lane) {
  return WHO[lane.proposer] ?? (lane.label.split(",")[0] || "the proposer");
}

/**
 * What happened in a round, in one sentence.
 * @param {Lane} lane
 * @param {Round} round
 * @returns {string}
 */
export function sentenceOf(lane, round) {
  const head = `Round ${round.index + 1}: `;
  const own = round.tokens.find((token) => token.node < 0);
  const tail = `: ${count(round.tokens.length, "token")} from one target pass.`;
  const source = copiedFrom(lane, round);
  const { drafted, read } = sizes(round);
  if (!read) {
    const vain = `${whoIn(lane)} guessed ${count(drafted, "token")} and sent none of them to the target; `;
    const why = drafted
      ? vain
      : lane.proposer === "none"
        ? ""
        : `nothing was proposed${full(lane, round) ? ", as only one token was left" : ""}; `;
    return `${head}${why}the target wrote ${own ? quote(own.name) : "nothing"}${tail}${sideNotes(lane, round)}`;
  }
  /** @param {Verdict} verdict */
  const of = (verdict) => round.proposals.filter((item) => item.verdict === verdict);
  const accepted = of("accepted").length;
  const rejected = of("rejected");
  const kept =
    accepted === 0 ? "none" : accepted < read ? accepted : read > 1 ? "all" : drafted > 1 ? "that one" : "it";
  const made =
    round.candidates !== null
      ? `sent ${count(read, "guess")}`
      : drafted === read
        ? `proposed ${count(read, "token")}${source}`
        : `guessed ${count(drafted, "token")}${source}, of which the target read ${read}`;
  const parts = [`${whoIn(lane)} ${made}; ${drafted === read ? "the target" : "it"} accepted ${kept}`];
  if (rejected.length === 1) parts.push(`rejected ${quote(rejected[0].text)}`);
  else if (rejected.length) parts.push(`rejected ${rejected.length} of them`);
  const alike = own && rejected.length === 1 && rejected[0].text.trim() === own.name.trim(); // told apart by spaces alone
  if (alike)
    parts[parts.length - 1] =
      own.source === "bonus" ? "rejected one" : `rejected ${spaced(rejected[0].text)}`; // a bonus stands at another place
  const [cut, unreached] = [of("cut").length, of("unreached").length];
  if (cut && unreached) parts.push(`did not reach ${unreached === 1 ? "one" : unreached}`);
  if (cut)
    parts.push(`left out ${cut === 1 ? "one" : cut}, as the text ended before ${cut === 1 ? "it" : "them"}`);
  const end = of("accepted").at(-1)?.node ?? -1; // which the target's own token follows
  const same = rejected.some((item) => item.parent === end && item.text === own?.name); // a lossy rule refused the target's own choice
  if (own)
    parts.push(
      own.source === "bonus"
        ? `added ${quote(own.name)}`
        : `wrote ${alike ? spaced(own.name) : quote(own.name)}${same ? " all the same" : rejected.length ? " instead" : ""}`,
    );
  else if (
    !cut &&
    accepted &&
    lane.end !== null &&
    lane.end !== "cancelled" &&
    round.index === lane.rounds.length - 1
  )
    parts.push("there the text ended"); // no token of the target's own
  const last = parts.pop();
  return `${head}${parts.length ? `${parts.join(", ")} and ${last}` : last}${tail}${sideNotes(lane, round)}`;
}

/**
 * Whether a round wrote the last token that the settings allow, and only that one: there was no room for a guess.
 * @param {Lane} lane
 * @param {Round} round
 */
function full(lane, round) {
  return round.tokens.length === 1 && round.total === number(lane.trace?.header?.settings?.max_new_tokens);
}

/** @param {Lane} lane @param {Round} round */
function roomFor(lane, round) {
  const room = roomIn(lane, round);
  return room === null ? "" : ` The length limit left room for only ${count(room, "accepted guess")}.`;
}

/**
 * A token in quotation marks, every space visible.
 * @param {string} text
 */
function spaced(text) {
  return quote(text).replace(/[ \u00a0]/g, "␣");
}

/**
 * What happened besides the proposal: wasted drafting ahead, extra tokens in the pass, drafting ahead.
 * @param {Lane} lane
 * @param {Round} round
 */
function sideNotes(lane, round) {
  const row = list(lane.trace?.rounds)[round.index] ?? {};
  const note = row.note ?? {};
  /** @param {Verdict} verdict */
  const of = (verdict) => round.proposals.filter((item) => item.verdict === verdict).length;
  const said = [];
  if (of("discarded")) said.push(`${count(of("discarded"), "token")} drafted ahead came to nothing.`);
  const [extra, pool, ahead] = [number(row.riders), number(note.pool), number(row.ahead_s)];
  if (extra) said.push(`The pass included ${count(extra, "extra token")}.`);
  if (pool !== null && Array.isArray(note.harvested)) {
    said.push(`The pool held ${count(pool, "phrase")}, ${note.harvested.length} of them new.`);
  }
  if (ahead) said.push(`Drafting for the next round ran alongside the check for ${seconds(ahead)}.`);
  return roomFor(lane, round) + said.map((sentence) => ` ${sentence}`).join("");
}

/**
 * Where a lookup proposer found its copy: the note has token positions over prompt and output together.
 * @param {Lane} lane
 * @param {Round} round
 */
function copiedFrom(lane, round) {
  const note = list(lane.trace?.rounds)[round.index]?.note ?? {};
  const start = number(note.match_start);
  const length = number(note.match_length);
  if (start === null || length === null || length < 1 || length > 64) return "";
  const prompt = list(lane.trace?.header?.prompt_texts);
  const output = list(lane.trace?.output?.texts);
  let matched = "";
  for (let at = start; at < start + length; at += 1)
    matched += String((at < prompt.length ? prompt[at] : output[at - prompt.length]) ?? "");
  if (!matched.trim()) return ", copied from earlier text";
  return `, copied from what followed ${quote(matched)} ${start + length <= prompt.length ? "in the prompt" : "in its own text"}`;
}
