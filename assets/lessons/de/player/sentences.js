/** Sätze über einen Moment und über eine Runde. */

import { list, number, roomIn } from "../model/model.js";
import { wasRead } from "../model/slots.js";
import { count, quote, seconds, T, VERDICT } from "../text/text.js";

const WHO = { "draft-model": "Draft", eagle: "EAGLE-Kopf", eagle3: "EAGLE-3-Kopf", medusa: "Medusa-Köpfe", mtp: "MTP-Module", you: "Sie" };

/** @param {number} n */
const tokens = (n) => count(n, "Token", "Tokens");

/** Was am Cursor geschah, in einem Satz, und nichts von dem, was danach kommt. */
export function sentenceAt(view) {
  const { current, moment } = view;
  if (!current) return T.atPrompt;
  const { lane } = view.lanes[view.lead];
  const stood = Math.min(view.stop, lane.rounds.length); // the round at which the cursor is
  if (moment.phase === "committed") return `${current.index + 1 === stood ? "" : `Rückblick aus Runde ${stood}. `}${sentenceOf(lane, current)}`;
  const head = `Runde ${current.index + 1}: `;
  const { drafted, read } = sizes(current);
  if (moment.phase === "proposed") {
    const sent = drafted === read ? "" : `; an das Zielmodell ${read === 1 ? "geht" : "gehen"} ${read ? `${read} davon` : "keine"}`;
    if (current.candidates !== null && read) return `${head}${count(read, "Vorschlag geht", "Vorschläge gehen")} an das Zielmodell (${whoIn(lane)}).${roomFor(lane, current)}`;
    return `${head}${tokens(drafted)} geraten (${whoIn(lane)})${copiedFrom(lane, current)}${sent}.${roomFor(lane, current)}`;
  }
  if (moment.phase === "verified") {
    return `${head}${read ? `Das Zielmodell hat ${read === 1 ? "den Vorschlag" : `alle ${read} Vorschläge`} in einem Durchlauf gelesen` : `${drafted ? "" : "Nichts wurde vorgeschlagen; "}${drafted ? "Das" : "das"} Zielmodell machte einen Durchlauf`}.`;
  }
  const fallen = current.proposals.filter((item) => moment.judged.has(item.node));
  const judged = current.proposals[moment.node ?? -1];
  if (lane.judging === "longest") {
    const kept = fallen.filter((item) => item.verdict === "accepted").length;
    const first = kept === 1 ? "das erste Token ist" : `die ersten ${kept} Tokens sind`;
    return `${head}Die Vorschläge werden als Ganzes beurteilt; ${kept ? `${first} angenommen` : "nichts wird angenommen"}.`;
  }
  const passed = current.proposals.filter((item) => item.verdict === "unreached").length; // soweit schon bekannt
  const out = current.proposals.some((item) => item.verdict === "waiting") ? passed : read - fallen.length;
  return `${head}${quote(judged.text)} ist ${VERDICT[judged.verdict]} (${fallen.length} von ${read} beurteilt${out ? `, ${out} nicht erreicht` : ""}).`;
}

/**
 * Wie viele Tokens für eine Runde geraten wurden und wie viele davon das Zielmodell erhielt. Von den Kandidaten eines Kopfs
 * zählen nur die gesendeten: Die Aufzeichnung nennt nicht alle anderen.
 */
function sizes(round) {
  const read = round.proposals.filter(wasRead).length;
  const pruned = round.proposals.filter((item) => item.verdict === "pruned").length;
  const { candidates } = round;
  const drafted = candidates === null ? read + pruned : read || candidates;
  return { drafted, read };
}

function whoIn(lane) {
  return WHO[lane.proposer] ?? (lane.label.split(",")[0] || "Verfahren");
}

/** Was in einer Runde geschah, in einem Satz. */
export function sentenceOf(lane, round) {
  const head = `Runde ${round.index + 1}: `;
  const own = round.tokens.find((token) => token.node < 0);
  const tail = `: ${tokens(round.tokens.length)} aus einem Durchlauf des Zielmodells.`;
  const source = copiedFrom(lane, round);
  const { drafted, read } = sizes(round);
  if (!read) {
    const vain = `${tokens(drafted)} geraten (${whoIn(lane)}), nichts davon an das Zielmodell geschickt; `;
    const why = drafted ? vain : lane.proposer === "none" ? "" : `Nichts wurde vorgeschlagen${full(lane, round) ? ", da nur noch Platz für ein Token war" : ""}; `;
    return `${head}${why}${why ? "das" : "Das"} Zielmodell schrieb ${own ? quote(own.name) : "nichts"}${tail}${sideNotes(lane, round)}`;
  }
  const of = (verdict) => round.proposals.filter((item) => item.verdict === verdict);
  const accepted = of("accepted").length;
  const rejected = of("rejected");
  const kept = accepted === 0 ? "nichts" : accepted < read ? `${accepted}` : read > 1 ? "alle" : "es";
  const made = `${round.candidates !== null ? count(read, "Vorschlag", "Vorschläge") : tokens(drafted)}${round.candidates !== null ? "" : drafted === read ? " vorgeschlagen" : " geraten"} (${whoIn(lane)})${source}`;
  const sent = drafted === read ? "" : `, ${read} davon geprüft`;
  const parts = [`${made}${sent}; das Zielmodell nahm ${kept} an`];
  if (rejected.length === 1) parts.push(`lehnte ${quote(rejected[0].text)} ab`);
  else if (rejected.length) parts.push(`lehnte ${rejected.length} ab`);
  const alike = own && rejected.length === 1 && rejected[0].text.trim() === own.name.trim(); // nur Leerzeichen unterscheiden sie
  if (alike) parts[parts.length - 1] = own.source === "bonus" ? "lehnte einen ab" : `lehnte ${spaced(rejected[0].text)} ab`; // ein Bonus steht an anderer Stelle
  const [cut, unreached] = [of("cut").length, of("unreached").length];
  if (cut && unreached) parts.push(`erreichte ${unreached === 1 ? "eins" : unreached} nicht`);
  if (cut) parts.push(`ließ ${cut === 1 ? "eins" : cut} weg, weil der Text davor endete`);
  const end = of("accepted").at(-1)?.node ?? -1; // auf den das eigene Token des Zielmodells folgt
  const same = rejected.some((item) => item.parent === end && item.text === own?.name); // eine verlustbehaftete Regel lehnte dessen Wahl ab
  if (own) parts.push(own.source === "bonus" ? `fügte ${quote(own.name)} hinzu` : `schrieb ${same ? "trotzdem " : rejected.length ? "stattdessen " : ""}${alike ? spaced(own.name) : quote(own.name)}`);
  else if (!cut && accepted && lane.end !== null && lane.end !== "cancelled" && round.index === lane.rounds.length - 1) parts.push("da endete der Text"); // kein eigenes Token des Zielmodells
  const last = parts.pop();
  return `${head}${parts.length ? `${parts.join(", ")} und ${last}` : last}${tail}${sideNotes(lane, round)}`;
}

/** Ob eine Runde das letzte erlaubte Token schrieb und nur dieses: Für Geratenes war kein Platz. */
function full(lane, round) {
  return round.tokens.length === 1 && round.total === number(lane.trace?.header?.settings?.max_new_tokens);
}

function roomFor(lane, round) {
  const room = roomIn(lane, round);
  return room === null ? "" : ` Die Längengrenze ließ nur noch Platz für ${count(room, "angenommenen Vorschlag", "angenommene Vorschläge")}.`;
}

/**
 * Ein Token in Anführungszeichen, jedes Leerzeichen sichtbar.
 * @param {string} text
 */
function spaced(text) {
  return quote(text).replace(/[ \u00a0]/g, "␣");
}

/** Was neben dem Vorschlag geschah: vergeblich Vorausgearbeitetes, zusätzliche Tokens im Durchlauf, Vorausarbeiten. */
function sideNotes(lane, round) {
  const row = list(lane.trace?.rounds)[round.index] ?? {};
  const note = row.note ?? {};
  const of = (verdict) => round.proposals.filter((item) => item.verdict === verdict).length;
  const said = [];
  if (of("discarded")) said.push(`Vergeblich vorausgearbeitet: ${tokens(of("discarded"))}.`);
  const [extra, pool, ahead] = [number(row.riders), number(note.pool), number(row.ahead_s)];
  if (extra) said.push(`Der Durchlauf enthielt ${count(extra, "zusätzliches Token", "zusätzliche Tokens")}.`);
  if (pool !== null && Array.isArray(note.harvested)) {
    said.push(`Im Pool: ${count(pool, "Wortfolge", "Wortfolgen")}, davon neu: ${note.harvested.length}.`);
  }
  if (ahead) said.push(`Neben der Prüfung wurde ${seconds(ahead)} lang für die nächste Runde geraten.`);
  return roomFor(lane, round) + said.map((sentence) => ` ${sentence}`).join("");
}

/** Wo ein Verfahren, das abschreibt, seine Kopie fand: Positionen zählen über Prompt und Ausgabe zusammen. */
function copiedFrom(lane, round) {
  const note = list(lane.trace?.rounds)[round.index]?.note ?? {};
  const start = number(note.match_start);
  const length = number(note.match_length);
  if (start === null || length === null || length < 1 || length > 64) return "";
  const prompt = list(lane.trace?.header?.prompt_texts);
  const output = list(lane.trace?.output?.texts);
  let matched = "";
  for (let at = start; at < start + length; at += 1) matched += String((at < prompt.length ? prompt[at] : output[at - prompt.length]) ?? "");
  if (!matched.trim()) return ", abgeschrieben aus früherem Text";
  return `, abgeschrieben von dem, was ${start + length <= prompt.length ? "im Prompt" : "im eigenen Text"} auf ${quote(matched)} folgte`;
}
