/** Die Texte der Ansicht des Vorschlagsverfahrens. */

import { count } from "./text.js";

/** @param {number} n */
const tokens = (n) => count(n, "Token", "Tokens");
/** @param {number} n */
const phrases = (n) => count(n, "Wortfolge", "Wortfolgen");

/** @param {string[]} texts */
const pieces = (texts) => texts.map((text) => `‚${text}‘`).join(" ");

/**
 * Welche Kandidaten der Baum außer den geschickten zeigt.
 * @param {string} who
 * @param {boolean} shown ob es solche gibt
 */
const rest = (who, shown, others) => (shown ? ` Von den anderen sind die, nach denen ${who} weiterriet${who === "sie" ? "en" : ""}, als gestutzt gezeichnet; die übrigen sind nicht gezeichnet.` : others ? ` Nach keinem der anderen riet${who === "sie" ? "en" : ""} ${who} weiter, darum sind sie nicht gezeichnet.` : "");

/** @param {number|null} found @param {number} nodes */
const sent = (found, nodes) => (nodes === 0 ? "an das Zielmodell ging keiner." : found === nodes ? "alle gingen an das Zielmodell." : nodes === 1 ? "der wahrscheinlichste ging an das Zielmodell." : `die ${nodes} auf den wahrscheinlichsten Pfaden gingen an das Zielmodell.`);

export const W = {
  titles: {
    lookahead: "Fenster und Pool", "prompt-lookup": "Woher die Vorschläge abgeschrieben sind",
    "parallel-draft": "Was der Draft las",
    "draft-model": "Raten, während das Zielmodell prüft", branching: "Raten, während das Zielmodell prüft",
    "text-draft": "Was der Draft schrieb", "shared-tokens": "Was der Draft schrieb",
    medusa: "Die Köpfe", eagle: "Der Kopf", eagle3: "Der Kopf", mtp: "Die Module", "early-exit": "Der Ausstieg",
    suffix: "Wo der Text schon einmal so lautete", recycling: "Was das Zielmodell zuvor wahrscheinlich fand",
  },
  start: "Gehen Sie einen Schritt weiter, um zu sehen, was das Verfahren sich ansah.",
  medusa: (heads, nodes) => !nodes ? "Die Köpfe schlugen in dieser Runde nichts vor." : `${heads === null ? "Die Köpfe" : count(heads, "Kopf", "Köpfe")} ${heads === 1 ? "las" : "lasen"} den letzten Zustand des Zielmodells, und jeder riet eine Position weiter. Aus ihren Listen ${nodes === 1 ? "ging ein Vorschlag" : `gingen ${nodes} Vorschläge`} an das Zielmodell.`,
  eagle: (levels, found, nodes, shown) => levels === null && !nodes ? "In dieser Runde riet der Kopf nichts." : `${levels === null ? "Der Kopf schrieb" : `In ${count(levels, "Ebene", "Ebenen")} schrieb der Kopf`} ${found === null ? "seine Kandidaten" : count(found, "Kandidaten", "Kandidaten")}; ${sent(found, nodes)}${rest("er", shown, (found ?? 0) > nodes)}`,
  mtp: (levels, found, nodes, shown) => levels === null && !nodes ? "In dieser Runde rieten die Module nichts." : `${levels === null ? "Die Module schrieben" : `In ${count(levels, "Ebene", "Ebenen")} schrieben die Module`} ${found === null ? "ihre Kandidaten" : count(found, "Kandidaten", "Kandidaten")}; ${sent(found, nodes)}${rest("sie", shown, (found ?? 0) > nodes)}`,
  pathsBy: (temperature) => `Vorschläge nach dem Produkt der q${temperature === null ? "" : ` bei Temperatur ${String(temperature).replace(".", ",")}`} auf ihrem Pfad`,
  pathsUnsent: "Nicht an das Zielmodell gesendet:",
  parallel: (read, masks, nodes) => {
    if (!nodes) return "Der Draft schlug nichts vor.";
    const what = read === null || masks === null ? "" : ` über ${tokens(read - masks)} des Textes und ${count(masks, "Masken-Token", "Masken-Tokens")}`;
    return `Ein Durchlauf des Drafts${what} ergab ${nodes === 1 ? "diesen Vorschlag" : `diese ${nodes} Vorschläge; keiner entstand aus einem anderen`}.`;
  },
  byText: (own, nodes) => own.length ? `In seinen eigenen Tokens schrieb der Draft ${pieces(own)}; neu zerlegt ${nodes === 1 ? "ist das ein Token" : `sind das ${nodes} Tokens`} des Zielmodells.` : "Der Draft schrieb nichts.",
  byTokens: (own, nodes) => own.length ? `In seinen eigenen Tokens schrieb der Draft ${pieces(own)}; ${nodes === 1 ? "auch das Zielmodell hat dieses Token" : "auch das Zielmodell hat diese Tokens alle"}.` : "Der Draft schrieb nichts.",
  exit: (layer, nodes) => !nodes ? "Die ersten Schichten schlugen in dieser Runde nichts vor." : `${layer === null ? "Die ersten Schichten" : `Allein die ersten ${count(layer, "Schicht", "Schichten")}`} des Zielmodells schrieben ${nodes === 1 ? "diesen Vorschlag" : `diese ${nodes} Vorschläge`}; seine übrigen Schichten prüfen.`,
  suffix: (length, places, earlier, nodes) => {
    if (!length || !places) return "Keine frühere Stelle ergab einen Vorschlag.";
    const where = earlier ? `, ${earlier === places ? (places === 1 ? "in einem früheren Text" : "alle in früheren Texten") : `${earlier} davon in früheren Texten`}` : "";
    return `${length === 1 ? "Das letzte Token kommt" : `Die letzten ${length} Tokens kommen`} an ${count(places, "früheren Stelle", "früheren Stellen")} vor${where}; aus dem, was dort am häufigsten folgte, wurden vorgeschlagen: ${tokens(nodes)}.`;
  },
  recycling: (known, renewed, nodes) => `Bekannt waren Nachfolger von ${known === null ? "den bisher gelesenen Tokens" : tokens(known)}${renewed ? `, ${renewed} davon aus dem Durchlauf zuvor` : ""}; daraus wurden ohne Durchlauf vorgeschlagen: ${count(nodes, "Knoten", "Knoten")}.`,

  noWindow: "Die Aufzeichnung dieser Runde enthält das Fenster nicht.",
  rides: (n) => `Der Durchlauf des Zielmodells enthält das Fenster: ${count(n, "zusätzliches Token", "zusätzliche Tokens")}, wovon nichts von selbst in den Text gelangen kann.`,
  home: "Das Fenster fehlt in diesem Durchlauf: Es war zu wenig Text oder Speicher dafür übrig.",
  windowName: (width, levels) => `Fenster aus ${count(width, "Spalte", "Spalten")} und ${count(levels, "Ebene", "Ebenen")}`,
  windowIs: "Jede Spalte ist eine entstehende Wortfolge; Vorschläge für dieselbe Position des Textes stehen übereinander.",
  newestIs: "Die unterste Zeile ist das, was dieser Durchlauf nach jeder Spalte am wahrscheinlichsten fand; sie wird zur letzten Ebene.",
  position: "Position",
  root: "Wurzel",
  level: (n) => `Ebene ${n}`,
  newest: "jetzt gefunden",
  cellMark: { root: "●", written: "", initial: "·", newest: "▸" },
  cellKind: { root: "(Wurzel)", written: "(vom Zielmodell geschrieben)", initial: "(Anfangstoken, noch nicht geraten)", newest: "(in diesem Durchlauf gefunden)" },
  cell: (text, position, kind) => `${text}, ${position === 0 ? "die Wurzel" : `Position +${position}`}${kind === "written" ? ", vom Zielmodell in einem früheren Durchlauf geschrieben" : kind === "initial" ? ", ein Anfangstoken, noch nicht geraten" : kind === "newest" ? ", in diesem Durchlauf gefunden" : ""}`,
  pool: (n) => `Pool mit ${phrases(n)}`,
  tried: (n, root) => `${phrases(n)} ${n === 1 ? "beginnt" : "beginnen"} mit der Wurzel ${root}; was ihr folgt, wurde zum Vorschlag:`,
  untried: (root) => `Keine beginnt mit der Wurzel ${root}, daher wurde nichts vorgeschlagen.`,
  triedName: "Wortfolgen, die zum Vorschlag wurden",
  leftOut: "jenseits der Tiefe oder des Speichers, die übrig waren",
  recent: "Andere, zuletzt verwendete zuerst:",
  harvested: (n) => (n ? `Durch diesen Durchlauf neu im Pool: ${phrases(n)}` : "Dieser Durchlauf brachte nichts Neues in den Pool"),

  noMatchNote: "Die Aufzeichnung dieser Runde sagt nicht, wo die Fundstelle war.",
  match: (length, copied, where) => `${length === 1 ? "Das letzte Token kommt" : `Die letzten ${length} Tokens kommen`} auch früher vor, ${where}; ${copied === 1 ? "das Token danach wurde" : `die ${copied} Tokens danach wurden`} abgeschrieben.`,
  inPrompt: "im Prompt",
  inAnswer: "in der Antwort",
  miss: "Das letzte Token kommt früher nicht mit etwas dahinter vor, also wurde nichts vorgeschlagen.",
  choice: (match, places, votes) => {
    if (places === null) return "";
    if (places === 1) return "Es gab eine solche Stelle.";
    if (votes !== null) return `Es gab ${places} solche Stellen; bei ${votes} davon folgt dasselbe Token, und die neueste davon wurde genommen.`;
    return `Es gab ${places} solche Stellen; die ${match === "first" ? "früheste" : "neueste"} wurde genommen${match === "last" ? ", und die Übereinstimmung ist so lang, wie die beiden Stellen gleich lauten" : ""}.`;
  },
  lookupKey: { matched: "wie der Text endet und wo das schon vorkam", copied: "was dort folgte, abgeschrieben" },
  gap: (n) => ` … ${tokens(n)} … `,

  ahead: (n) => `${count(n, "Vorschlag", "Vorschläge")} dieser Runde ${n === 1 ? "entstand" : "entstanden"}, während das Zielmodell die Runde davor prüfte.`,
  aheadLevels: (n) => `${count(n, "Ebene", "Ebenen")} dieses Baums ${n === 1 ? "entstand" : "entstanden"}, während das Zielmodell die Runde davor prüfte.`,
  aheadLater: "Was während der Prüfung vorausgearbeitet wurde, erscheint, sobald die Runde übernommen ist.",
  draftedAhead: (passes, time) => `Während der Prüfung machte der Draft ${count(passes, "Durchlauf", "Durchläufe")} in ${time}, als würde alles Geratene angenommen.`,
  clockIs: "Beide Balken haben eine gemeinsame Uhr: Was unter dem Balken des Zielmodells liegt, entstand gleichzeitig.",
  nothingAhead: "Während dieser Prüfung wurde nichts vorausgearbeitet.",
  aheadEnded: (lost) => (lost ? `Vergeblich vorausgearbeitet: ${tokens(lost)}.` : "Die Voraussetzung traf zu, und die nächste Runde macht dort weiter."),
  lost: "Verworfen",
  further: (n) => `und ${count(n, "weiteres", "weitere")}`,
  targetTrack: "Zielmodell",
  draftTrack: "Draft",
  verifying: (time) => `Zielmodell ${time}`,
  drafting: (draft, ahead, lost) => `raten ${draft} · voraus ${ahead}${lost ? ", verworfen" : ""}`,
};
