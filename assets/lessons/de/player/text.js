/** Jeder Satz und jedes Wort, das man im Player sieht; Namen und Werte wie im englischen Modul. */

import { apart as plainApart, below as plainBelow, flat, MARK, prob as plainProb, roughly } from "./signs.js";

export { apart, below, flat, MARK, prob };

/**
 * Eine Zahl mit Dezimalkomma.
 * @param {number} value
 * @param {number} places
 */
function fixed(value, places) {
  return value.toFixed(places).replace(".", ",");
}

/**
 * Eine Wahrscheinlichkeit mit drei Nachkommastellen.
 * @param {number|null|undefined} value
 */
function prob(value) {
  return plainProb(value).replace(".", ",");
}

/**
 * Eine Wahrscheinlichkeit neben einer anderen: mit mehr Stellen, wo beide gleich aussähen.
 * @param {number} value
 * @param {number} other
 */
function apart(value, other) {
  return plainApart(value, other).replace(".", ",");
}

/**
 * Worunter eine Wahrscheinlichkeit liegt, für die nur eine Schranke bekannt ist.
 * @param {number} bound
 */
function below(bound) {
  return plainBelow(bound).replace(".", ",");
}

const FORMS = new Intl.PluralRules("de");

/**
 * "1 Token", "2 Tokens": die Form wählt die Pluralregel der Sprache.
 * @param {number} n
 * @param {string} one
 * @param {string} other
 */
export function count(n, one, other) {
  return `${n} ${FORMS.select(n) === "one" ? one : other}`;
}


/**
 * Der Text eines Tokens in Anführungszeichen, Zeilenumbrüche und Tabulatoren als Zeichen; lange werden gekürzt.
 * @param {string} text
 */
export function quote(text) {
  if (text === "") return "ein Teil eines Zeichens";
  const named = flat(text);
  const short = (named.length > 40 ? `${named.slice(0, 38)}…` : named).replace(/^ /, "\u00a0");
  return `„${short}“`;
}

/**
 * Sekunden oder Millisekunden, lesbar lang.
 * @param {number} value
 */
export function seconds(value) {
  return value < 0.9995 ? `${fixed(value * 1000, value < 0.0995 ? 1 : 0)} ms` : `${fixed(value, 2)} s`;
}

export const VERDICT = {
  accepted: "angenommen",
  rejected: "abgelehnt",
  waiting: "noch nicht beurteilt",
  unreached: "nicht erreicht",
  pruned: "vor der Prüfung gestutzt",
  cut: "weggelassen, weil der Text davor endete",
  discarded: "mit dem vorausgearbeiteten Draft verworfen",
  corrected: "vom Zielmodell korrigiert",
  bonus: "Bonus-Token des Zielmodells",
  plain: "vom Zielmodell geschrieben",
};

export const LEGEND = [
  ["accepted", "angenommen: vorgeschlagen und behalten"],
  ["rejected", "abgelehnt: vorgeschlagen und nicht behalten; unter dem Token, das seinen Platz einnahm"],
  ["waiting", "offen: noch nicht beurteilt"],
  ["unreached", "nicht erreicht: nach einer Ablehnung, oder ein anderer Vorschlag wurde stattdessen angenommen"],
  ["corrected", "korrigiert: vom Zielmodell anstelle eines abgelehnten Vorschlags geschrieben"],
  ["bonus", "Bonus: vom Zielmodell nach dem letzten Vorschlag eines angenommenen Pfads hinzugefügt"],
  ["pruned", "gestutzt: vorgeschlagen, aber sein ganzer Pfad war weniger wahrscheinlich als die geprüften"],
  ["discarded", "verworfen: vorausgearbeitet für einen Fall, der nicht eintrat"],
  ["cut", "weggelassen: Der Text endete davor"],
  ["parted", "weicht ab: Von hier an ist der Text ein anderer als beim gewöhnlichen Decoding"],
  ["again", "wiederholt: Wort für Wort, was schon im Text stand, und daher leicht zu raten"],
];

/** Die Frage an Besucher, die selbst raten. */
export const Q = {
  title: "Was kommt als Nächstes?",
  send: "Raten",
  hint: "Schreiben Sie einige Wörter, genau so, wie der Text weiterginge. Leer lassen für ein Token des Zielmodells.",
  space: "Vor Ihre Wörter kommt ein Leerzeichen. Drücken, um stattdessen das letzte Wort fortzusetzen.",
  noSpace: "Ihre Wörter setzen das letzte Wort fort. Drücken, um ein Leerzeichen davorzusetzen.",
  sent: (words) => `Ihr Vorschlag: ${words.replace(/ /g, "␣")}`,
};

const OPENS = "bei Ketten bei der Runde mit den meisten behaltenen Vorschlägen vor einer Ablehnung, sonst bei der mit den meisten Tokens; unter gleichen möglichst bei einer mit Ablehnung, mit Wörtern und mit genug Text für einen Speedup";

export const T = {
  player: "Player: spekulatives Decoding, Runde für Runde. Mit ? erscheinen die Tasten.",
  lane: (label) => `Text von ${label}`,
  clock: "Uhr der Spur, bis zum letzten übernommenen Token",
  tokens: (n) => (n === 1 ? "Token" : "Tokens"),
  rate: "Tokens/s",
  prompt: "Prompt",
  proposals: "Vorschläge, die nicht behalten wurden",
  guesses: "Vorschläge dieser Runde, noch kein Text",
  moreGuesses: (n) => `${count(n, "weiterer Vorschlag", "weitere Vorschläge")} im Baum`,
  unshown: (n, words) => `${count(n, "weiterer Vorschlag", "weitere Vorschläge")} für diese Stelle, auch verworfen: ${words}`,
  chip: (text, verdict, round) => `${quote(text)}, ${verdict}, Runde ${round}`,
  more: (n) => `+${n}`,
  ends: { length: "Längengrenze", eos: "Textende", stop: "Stopptext", cancelled: "angehalten" },
  endsMean: { length: "So viele neue Tokens, wie verlangt waren.", eos: "Das Zielmodell hat sein Endtoken geschrieben.", stop: "Ein Stopptext ist erreicht.", cancelled: "Der Lauf wurde angehalten." },
  waiting: "wartet auf das erste Token",

  speedup: "Gemessener Speedup",
  speedupOf: (label) => `Gemessener Speedup von ${label}`,
  soFar: "bisher",
  none: "—",
  times: (value) => `${fixed(value, value < 9.995 ? 2 : 1)}×`,
  faster: (value, label, firm) =>
    value > 1.005 ? `so schnell wie ${label}${firm ? "" : ": nicht eindeutig schneller"}` : value < 0.995 ? `so schnell wie ${label}: ${firm ? "" : "nicht eindeutig "}langsamer` : `gleich schnell wie ${label}`,
  tooFast: (words, most) => `${words}, mehr, als ${fixed(most, 2)} Tokens je Durchlauf zulassen: Zeitrauschen`,
  against: (label) => ` gegenüber ${label}`,
  bound: (words) => `${words}; eine Schranke, denn das Raten läuft hier außerhalb der Uhr`,
  notyet: (least) => `erscheint nach ${count(least, "Token", "Tokens")} je Spur`,
  never: (least) => `keine: in einer Spur weniger als ${count(least, "Token", "Tokens")}`,
  how: "Was ist das für eine Zahl?",
  definition:
    "Tokens pro Sekunde dieser Spur geteilt durch die des gewöhnlichen Decodings: „bisher“ bis zum gezeigten Moment, „insgesamt“ über den ganzen Lauf. Jede Spur hat ihre eigene Uhr, "
    + "die nur läuft, während diese Spur rechnet, bis zu ihrem neuesten Token; das Lesen des Prompts und das Notieren dessen, was hier gezeigt wird, zählen nicht. "
    + "Frühe Werte schwanken stark, denn wenige Runden sagen wenig: „nicht eindeutig“ oder „unklar“ heißt, dass schon die Streuung der Rundenzeiten den Unterschied erklären könnte.",
  random: (temperature) => `Temperatur ${temperature}: Tokens werden zufällig gezogen, Spuren können also verschiedene Texte schreiben.`,

  lossyMark: "verlustbehaftet",
  lossy: (titles) => ` Die ${titles.length > 1 ? "Regeln" : "Regel"} ${titles.map((title) => `„${title}“`).join(", ")} ${titles.length > 1 ? "ändern" : "ändert"} die Verteilung des Zielmodells: Unter ${titles.length > 1 ? "ihnen" : "ihr"} ist der Text nicht mehr der, den das Zielmodell allein schriebe.`,

  heldUpRun: (labels) => `${labels.length > 1 ? `${labels.length} Spuren` : labels[0].length > 16 ? "eine Spur" : labels[0]} aufgehalten`,
  heldUpRunMeans: "Aufgehaltene Durchläufe des Zielmodells nahmen ein Zwanzigstel der Zeit einer Spur oder mehr: In der Zeitleiste sind sie schraffiert, und die Geschwindigkeiten enthalten sie.",
  provenance: { measured: "gemessen", recorded: "aufgezeichnet" },

  slider: "Runde",
  roundOf: (n, last) => `Runde ${n} von ${last}`,
  atPrompt: "Der Prompt, vor Runde 1",
  opened: ({ kept, tokens }) => {
    const seen = kept === null ? count(tokens, "Token", "Tokens") : kept ? `${kept} übernommen, dann eine Ablehnung` : "eine Ablehnung";
    return `Eine aufschlussreiche Runde: ${seen}. Das Ende zeigt alles.`;
  },
  openedWhy: `Wo eine Wiedergabe beginnt: ${OPENS}.`,
  sameText: "gleicher Text",
  sameTextMeans: "Alle Spuren haben dieselben Tokens geschrieben.",
  inAll: (doubt) => `insgesamt${doubt && (doubt === "noise" ? ": Rauschen" : ": unklar")}`,
  unclear: "Nicht eindeutig schneller oder langsamer: Schon die Streuung der Rundenzeiten könnte den Unterschied erklären.",
  atEnd: "Das Ende: Alle Spuren sind fertig",
  stoppedEnd: "Das Ende: Der Lauf wurde angehalten",
  first: "Zum Prompt (Pos1)",
  previous: "Vorige Runde (↑ im Player)",
  back: "Voriger Schritt (←)",
  play: "Abspielen (Leertaste)",
  pause: "Pause (Leertaste)",
  step: "Nächster Schritt (→)",
  next: "Nächste Runde (↓ im Player)",
  last: "Zum Ende (Ende)",
  speed: "Abspielgeschwindigkeit",
  pace:
    "Beim Abspielen wird die aufgezeichnete Uhr der Spur gedehnt: Bei 1× dauern Raten und Prüfen einer durchschnittlichen Runde eine Sekunde, und jedes "
    + "Urteil ist lange genug zu sehen. Bis 1× geht es Schritt für Schritt, darüber Runde für Runde.",
  phase: (moment, read) =>
    ({ proposed: "vorgeschlagen", verified: "vom Zielmodell geprüft", judged: `${moment.judged.size} von ${read} beurteilt`, committed: "übernommen" })[moment.phase],
  help: "Tasten und Zeichen (?)",
  byKeys: "Leertaste: abspielen · ← →: Schritt",
  close: "Schließen",
  keysTitle: "Tasten",
  wordsTitle: "Größen",
  words: [
    ["p", "wie wahrscheinlich ein Token an seiner Stelle für das Zielmodell ist: bei Temperatur 0 so, wie das Modell selbst es angibt (nach dem Abzug für Wiederholungen), sonst nach Temperatur, Abzügen und Grenzen (top-k, top-p, min-p)"],
    ["q", "wie wahrscheinlich der Vorschlag für das Verfahren war: die Wahrscheinlichkeit, mit der es ihn zog, wenn es zog; sonst seine eigene, bei Temperatur 1 (nach dem Abzug für Wiederholungen)"],
    ["eigenes q", "bei einem festen Vorschlag über Temperatur 0: wie wahrscheinlich er für das Verfahren selbst war, bei Temperatur 1 und vor allen Grenzen; die Regel rechnet mit q = 1. „Wie sicher die Modelle waren“ zeigt das p des Zielmodells ebenso"],
    ["γ", "wie viele Tokens in einer Runde geraten werden"],
    ["fest", "von einem Vorschlag, der nicht mit seinem q gezogen wurde: die wahrscheinlichsten Tokens, wie in EAGLEs Bäumen, oder eine Kopie; die Regel rechnet dann mit q = 1"],
    ["Zeilen", "der Wahrscheinlichkeiten: zuerst das gewählte Token, dann nach dem größeren von p und q; anfangs die vier wahrscheinlichsten von p und von q"],
    ["eine aufschlussreiche Runde", `wo ein Lauf beginnt: ${OPENS}`],
  ],
  signsTitle: "Zeichen im Text",
  signs: [
    ["␣ ⏎ ⇥", "ein Leerzeichen (gezeichnet, wo man es übersähe oder nur es zwei Tokens unterscheidet), ein Zeilenumbruch, ein Tabulator"],
    ["⟨0xF0⟩ ◌", "ein Byte, ein Teil eines Schriftzeichens"],
    ["∎", "das Ende des Textes: das Endtoken des Zielmodells; als Vorschlag und im Baum mit seinem Namen, etwa <|im_end|>"],
    ["✓", "steht beim letzten von mehreren angenommenen Vorschlägen hintereinander; jeder hat die blaue Linie"],
    ["+1 +2", "so viele weitere Vorschläge: im Text für die Stelle ebenfalls verworfen, in der laufenden Runde anderswo in ihrem Baum"],
    ["▾", "am unteren Rand einer Ansicht: Sie geht weiter, man kann darin scrollen"],
    ["getönt", "die Tokens der gezeigten Runde"],
    ["umrahmt", "das Token, dessen Wahrscheinlichkeiten gezeigt sind"],
    ["umringt", "das Token unter dem Zeiger, in jeder Ansicht; im Baum zeigt eine gepunktete Linie den Weg dorthin"],
  ],
  marksTitle: "Zeichen",
  keys: [
    ["→ ←", "nächster, voriger Schritt einer Runde: vorgeschlagen, geprüft, beurteilt, übernommen; auch, solange nichts anderes diese Tasten braucht"],
    ["↓ ↑", "nächste, vorige Runde; nur mit dem Fokus im Player, da sie die Seite verschieben"],
    [". ,", "nächstes, voriges Token"],
    ["Leertaste", "abspielen, anhalten; auf einem Knopf, der den Fokus hat, ihn drücken"],
    ["Pos1 Ende", "zum Prompt, zum Ende; wie die Leertaste auch, solange nichts anderes sie braucht"],
    ["1 … 6", "durch diese Spur gehen"],
    ["V", "nächste Ansicht, wo nur eine zu sehen ist"],
    ["Esc", "Auswahl aufheben"],
    ["?", "diese Hilfe; auch, solange nichts anderes die Taste braucht. Andere Buchstaben und Zeichen brauchen den Fokus im Player"],
  ],
  slow: (factor, round) => `${round < 1 ? `etwa ${Math.round(1 / round)} Runden pro Sekunde` : `eine Runde in etwa ${seconds(round)}`}: ${factor >= 1.5 ? `${factor < 10 ? fixed(factor, 1) : Math.round(factor)}-mal langsamer, als sie lief` : "etwa so schnell, wie sie lief"}`,

  views: "Ansichten dieser Runde",
  view: { tree: "Runde", mask: "Maske und KV-Cache", odds: "Wahrscheinlichkeiten", window: "So wurde geraten" },
  roundAndOdds: "Runde und Wahrscheinlichkeiten",
  lead: (label, key) => `Durch die Runden von ${label} gehen (${key})`,
  leads: "führt",
  again: "wiederholt sich",
  againFrom: "Von hier an wiederholt sich der Text Wort für Wort. Das ist leicht zu raten.",
  repeats: (n, of) => `${n} von ${of} wiederholt`,
  repeatsMean: "Diese Tokens wiederholen früheren Text Wort für Wort. Das ist leicht zu raten und kann die Zahlen der Spur schönen.",
  repeating: (words, n, of) => `${words}; ${n} von ${count(of, "Token", "Tokens")} wiederholt (↺)`,
  differs: "weicht ab",
  fork: (label) => `Von hier an weicht der Text von dem von ${label} ab.`,
  rateOf: (value) => fixed(value, 1),
  clockOf: (value) => fixed(value, value < 10 ? 3 : 2),
  ratio: (value) => `${fixed(value, value < 9.995 ? 2 : 1)}×`,
  ratioOf: (label) => `gemessenes Tempo gegenüber ${label}`,
  timeline: "Die Runden aller Spuren auf den aufgezeichneten Uhren: gestreift der Draft, blau der Durchlauf des Zielmodells, grau das Übrige (beurteilen, übernehmen). Schraffierte Durchläufe hielt etwas anderes auf. Zu kurze Runden folgen ohne Lücken aufeinander. Der Regler und die Tasten darunter gehen durch dieselben Runden.",
  aheadKept: "Während des Durchlaufs des Zielmodells vorausgearbeitet; nichts davon ist als verworfen aufgezeichnet.",
  aheadGone: "Während des Durchlaufs des Zielmodells vorausgearbeitet und verworfen: Das Urteil fiel anders aus.",
  gap: "Lücken: zwischen den Runden",
  timelineKeyMeans: { draft: "Die Zeit des Vorschlagens", verify: "Das Zielmodell liest die Wurzel und die Vorschläge", other: "Beurteilen und Übernehmen" },
  timelineKey: { draft: "Draft", verify: "Durchlauf des Zielmodells", other: "sonstige Arbeit", held: "von etwas anderem aufgehalten", ahead: "währenddessen vorausgearbeitet", gone: "und verworfen" },

  roundTitle: (n) => `Runde ${n}`,
  untimed: "ihre Zeiten stehen nicht in dieser Aufzeichnung",
  phasesAre: "Draft: die Zeit des Vorschlagens, auch wo es nichts vorschlug; sonstiges: Beurteilen und Übernehmen",
  heldUp: "Dieser Durchlauf dauerte mindestens doppelt so lange wie der Median der Durchläufe dieser Spur über ebenso viele Tokens: Ein anderes Programm nutzte den Prozessor, oder die Modelle waren gerade erst geladen. Er zählt in den Geschwindigkeiten mit. Neben dem Speedup steht „aufgehalten“ erst, wenn solche Durchläufe ein Zwanzigstel der Zeit einer Spur oder mehr nahmen",
  phases: (draft, verify, other, ahead, usual) =>
    `${draft > 0 ? `Draft ${seconds(draft)} · ` : ""}Zielmodell ${seconds(verify)}${usual === null ? "" : ` (sonst ${seconds(usual)})`} · sonstiges ${seconds(other)}${ahead > 0 ? ` · voraus ${seconds(ahead)}` : ""}`,

  queued: (ahead, wait) => `Warten: ${count(ahead, "Lauf", "Läufe")} vor Ihrem${wait === null ? "" : `, etwa ${roughly(wait)} s`}. Er beginnt von selbst.`,
  connecting: "Warten auf den Beginn des Laufs.",
  reconnecting: "Die Verbindung ist abgebrochen; neuer Versuch.",
  lost: "Der Lauf ist nicht mehr erreichbar. Starten Sie ihn noch einmal.",
  loading: "Die Aufzeichnung des Laufs wird geladen.",
  noRecord: "Die Aufzeichnung dieses Laufs konnte nicht gelesen werden.",
  empty: "Noch nichts zu sehen. Ein Lauf erscheint hier, sobald er beginnt.",
};

/** Eine Seite, die ihre eigene Aufzeichnung enthält. */
export const PAGE = {
  old: "Dieser Browser kann die Aufzeichnung in dieser Seite nicht entpacken. Öffnen Sie sie in einem Browser ab 2023.",
  damaged: "Die Aufzeichnung in dieser Seite ist beschädigt. Bitten Sie noch einmal um die Datei.",
  save: (label) => `„${label}“ als JSON speichern`,
};
