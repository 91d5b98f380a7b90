/** Sentences about a moment and about a round: what is said is decided here, how is in the messages. */

/**
 * @import { Verdict } from "../../types.js"
 * @import { Lane, Round } from "../model/model.js"
 * @import { View } from "../model/state.js"
 */

import { list, number, roomIn } from "../model/model.js";
import { wasRead } from "../model/slots.js";
import { texts } from "../text/format.js";
import { MESSAGES } from "../text/messages.js";
import { quote, T, VERDICT } from "../text/text.js";

const R = texts(MESSAGES.round);

/**
 * What happened at the cursor, in one sentence, and nothing of what comes after it.
 * @param {View} view
 * @returns {string}
 */
export function sentenceAt(view) {
  const { current, moment } = view;
  if (!current) return T.atPrompt;
  const { lane } = view.lanes[view.lead];
  const at = Math.min(view.stop, lane.rounds.length); // the round at which the cursor is
  if (moment.phase === "committed")
    return (current.index + 1 === at ? "" : R.back(at)) + sentenceOf(lane, current);
  const head = R.head(current.index + 1);
  const { drafted, read } = sizes(current);
  if (moment.phase === "proposed") return head + proposed(lane, current) + roomFor(lane, current);
  if (moment.phase === "verified") return head + R.verified(read, drafted);
  const judged = current.proposals.filter((item) => moment.judged.has(item.node));
  if (lane.judging === "longest")
    return head + R.whole(judged.filter((item) => item.verdict === "accepted").length);
  const now = current.proposals[moment.node ?? -1];
  const passed = numberOf(current, "unreached"); // as far as is known yet
  const out = numberOf(current, "waiting") ? passed : read - judged.length;
  return head + R.judged(quote(now.text), VERDICT[now.verdict], judged.length, read, out);
}

/** @param {Lane} lane @param {Round} round */
function proposed(lane, round) {
  const { drafted, read } = sizes(round);
  const who = whoIn(lane);
  if (round.candidates !== null && read) return R.sent(who, read);
  return R.guessed(who, drafted, copiedFrom(lane, round), drafted === read ? null : read);
}

/**
 * How many tokens were drafted for a round, and how many of them the target received. Of a head's candidates only those
 * that were sent count: the record does not name all others.
 * @param {Round} round
 */
function sizes(round) {
  const read = round.proposals.filter(wasRead).length;
  const drafted = round.candidates === null ? read + numberOf(round, "pruned") : read || round.candidates;
  return { drafted, read };
}

/** @param {Lane} lane */
function whoIn(lane) {
  const known = /** @type {Record<string, string|undefined>} */ (R.who)[lane.proposer];
  return known ?? (lane.label.split(",")[0] || R.other);
}

/** @param {Round} round @param {Verdict|"waiting"} verdict */
function numberOf(round, verdict) {
  return round.proposals.filter((item) => item.verdict === verdict).length;
}

/**
 * What happened in a round, in one sentence.
 * @param {Lane} lane
 * @param {Round} round
 * @returns {string}
 */
export function sentenceOf(lane, round) {
  const { drafted, read } = sizes(round);
  const last = round.tokens.at(-1);
  const said =
    last?.source === "unknown"
      ? R.untold(numberOf(round, "accepted"), quote(last.name))
      : read
        ? checked(lane, round)
        : unchecked(lane, round, drafted);
  return R.head(round.index + 1) + said + R.tail(round.tokens.length) + sideNotes(lane, round);
}

/**
 * A round in which the target read no guess.
 * @param {Lane} lane
 * @param {Round} round
 * @param {number} drafted
 */
function unchecked(lane, round, drafted) {
  const own = round.tokens.find((token) => token.node < 0);
  const nothing = lane.proposer === "none" ? "" : R.nothing(isFull(lane, round));
  return R.alone(drafted ? R.vain(whoIn(lane), drafted) : nothing, own ? quote(own.name) : null);
}

/** @param {Lane} lane @param {Round} round */
function checked(lane, round) {
  const { drafted, read } = sizes(round);
  const accepted = numberOf(round, "accepted");
  const kept = accepted === 0 ? "none" : accepted < read ? "some" : read > 1 ? "all" : "one";
  const heads = round.candidates !== null;
  const copied = copiedFrom(lane, round);
  const parts = [
    R.made(whoIn(lane), heads, drafted === read, drafted, read, copied, kept, accepted),
    ...rejection(round),
    ...unjudged(round),
    ...ending(lane, round),
  ];
  const last = parts.pop() ?? "";
  return parts.length ? R.joined(parts.join(", "), last) : last;
}

/**
 * The target's own token of a round; `alike`: only spaces tell it apart from the one guess that was rejected.
 * @param {Round} round
 */
function ownOf(round) {
  const own = round.tokens.find((token) => token.node < 0);
  const rejected = round.proposals.filter((item) => item.verdict === "rejected");
  const alike = own && rejected.length === 1 && rejected[0].text.trim() === own.name.trim();
  return { own, rejected, alike };
}

/** @param {Round} round */
function rejection(round) {
  const { own, rejected, alike } = ownOf(round);
  if (!rejected.length) return [];
  if (alike && own?.source === "bonus") return [R.rejectedOne]; // a bonus is at another place
  if (rejected.length > 1) return [R.rejectedSome(rejected.length)];
  return [R.rejected(alike ? spaced(rejected[0].text) : quote(rejected[0].text))];
}

/** @param {Round} round */
function unjudged(round) {
  const [cut, unreached] = [numberOf(round, "cut"), numberOf(round, "unreached")];
  if (!cut) return [];
  return unreached ? [R.missed(unreached), R.cut(cut)] : [R.cut(cut)];
}

/** @param {Lane} lane @param {Round} round */
function ending(lane, round) {
  const { own, rejected, alike } = ownOf(round);
  if (!own) {
    const over = lane.end !== null && lane.end !== "cancelled" && round.index === lane.rounds.length - 1;
    return over && numberOf(round, "accepted") && !numberOf(round, "cut") ? [R.ended] : [];
  }
  if (own.source === "bonus") return [R.added(quote(own.name))];
  const end = round.proposals.findLast((item) => item.verdict === "accepted")?.node ?? -1; // which it follows
  const same = rejected.some((item) => item.parent === end && item.text === own.name); // a lossy rule refused it
  const as = same ? "same" : rejected.length ? "instead" : "first";
  return [R.wrote(alike ? spaced(own.name) : quote(own.name), as)];
}

/**
 * Whether a round wrote the last token that the settings allow, and only that one: there was no room for a guess.
 * @param {Lane} lane
 * @param {Round} round
 */
function isFull(lane, round) {
  return round.tokens.length === 1 && round.total === number(lane.trace?.header?.settings?.max_new_tokens);
}

/** @param {Lane} lane @param {Round} round */
function roomFor(lane, round) {
  const room = roomIn(lane, round);
  return room === null ? "" : R.room(room);
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
  const wasted = numberOf(round, "discarded");
  const [extra, pool, ahead] = [number(row.riders), number(note.pool), number(row.ahead_s)];
  const fresh = Array.isArray(note.harvested) ? note.harvested.length : null;
  return [
    roomFor(lane, round),
    wasted ? R.wasted(wasted) : "",
    extra ? R.extra(extra) : "",
    pool !== null && fresh !== null ? R.pool(pool, fresh) : "",
    ahead ? R.ahead(ahead) : "",
  ].join("");
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
  return R.copied(matched.trim() ? quote(matched) : null, start + length <= prompt.length);
}
