/** Die Texte des Baums, der Maske und des KV-Caches. */

import { count } from "./text.js";

/** @param {number} n */
const guesses = (n) => count(n, "Vorschlag", "Vorschläge");
/** @param {number} n */
const levels = (n) => count(n, "Ebene", "Ebenen");
/** @param {number} n */
const rows = (n) => count(n, "Zeile", "Zeilen");

/**
 * "Slots 22–30": die Slots, die ein Durchlauf von `width` Zeilen nach `before` behaltenen schreibt.
 * @param {number} before
 * @param {number} width
 */
function slots(before, width) {
  return width > 1 ? `Slots ${before}–${before + width - 1}` : `Slot ${before}`;
}

export const W = {
  treeToCome: "Die Vorschläge jeder Runde erscheinen hier als Baum.",
  treeIs: (nodes, deep) => (nodes ? `${guesses(nodes)} gesendet${deep > 1 ? `, ${levels(deep)} tief` : ""}. ` : ""),
  treeName: (nodes, deep) => `Der Vorschlag: ${guesses(nodes)} an das Zielmodell gesendet, ${levels(deep)} tief. Pfeiltasten führen zu Elternknoten, Kind und Nachbarn.`,
  root: (text, round) => `Die Wurzel ${text}: das zuletzt übernommene Token${round > 0 ? `, aus Runde ${round}` : ", das Ende des Prompts"}.`,
  treeGuide: (phase, rivals, guessed) => {
    if (!guessed) return phase === "committed" ? "Nichts wurde geraten: Das Zielmodell las nur die Wurzel und schrieb das Token danach." : "Nichts wurde geraten: Das Zielmodell liest nur die Wurzel.";
    const layout = `Jedes Kästchen rät, was auf das links von ihm folgt${rivals ? "; Kästchen nach demselben sind Geschwister" : ""}. `;
    const now = {
      proposed: "Noch ist nichts beurteilt.",
      verified: "Das Zielmodell hat alle in einem Durchlauf gelesen; nun werden sie beurteilt.",
      judged: "✓\u00a0angenommen; ✗\u00a0abgelehnt; ·\u00a0nicht erreicht; ○\u00a0offen.",
      committed: "Vorschläge mit\u00a0✓ sind jetzt Text; das eigene Token des Zielmodells, falls es eins schrieb, folgt ihnen.",
    };
    return layout + now[phase];
  },
  rootMark: "letztes Token",
  rootIs: "bisher letztes Token",
  inLines: "Weiter in der Zeile darunter.",
  node: (text, verdict, depth, parent, facts) => `${text}, ${verdict}, Ebene ${depth} nach ${parent}${facts ? `; ${facts}` : ""}`,
  ownNode: (text, source, parent, facts) => `${text}, ${source}, nach ${parent}${facts ? `; ${facts}` : ""}`,
  ranked: (rank) => (rank === 1 ? "die erste Wahl des Zielmodells, gegeben die Tokens links davon" : `hier Rang ${rank} beim Zielmodell`),
  widthBy: {
    q: "Linienbreite: q des Verfahrens",
    p: "Linienbreite: p des Zielmodells (hier ohne q)",
    none: "Linien gleich breit, da noch keine Wahrscheinlichkeit bekannt ist",
    live: "Linien gleich breit: Die Wahrscheinlichkeiten kommen, wenn der Lauf zu Ende ist",
  },
  bars: (p, q) => `Balken: ${[p && "p des Zielmodells", q && (p ? "q, gestreift" : "q des Verfahrens, gestreift")].filter(Boolean).join("; ")}`,
  onPath: "angenommener Pfad",
  firstChoice: "erste Wahl des Zielmodells",
  foldPruned: (n) => `${count(n, "gestutzten Vorschlag", "gestutzte Vorschläge")} ausblenden`,
  notDrawn: (n) => `${count(n, "weiterer Vorschlag", "weitere Vorschläge")} nicht gezeichnet: Der Baum ist zu groß für ein Bild.`,
  qIs: (q, own) => `${own ? "eigenes q" : "q"} ${q}`,
  ownQ: "eigenes q: wie wahrscheinlich der Vorschlag für das Verfahren selbst war, bei Temperatur 1 und vor allen Grenzen. Der Vorschlag wurde nicht damit gezogen, die Regel rechnet also mit q = 1. p gilt nach Temperatur und Abzügen; „Wie sicher die Modelle waren“ zeigt das p davor.",
  zoom: "Größe",
  zoomOut: "Kleiner (− im Baum)",
  zoomIn: "Größer (+ im Baum)",
  zoomFit: "Alles: den ganzen Baum in seinen Kasten einpassen (f im Baum)",
  zoomFitWord: "Alles",
  zoomFull: "1:1: volle Größe (0 im Baum)",
  zoomFullWord: "1:1",
  treeCue: "Der Baum ist größer als sein Kasten: Scrollen Sie darin oder verkleinern Sie.",
  showPruned: (n) => `Auch ${count(n, "gestutzten Vorschlag", "gestutzte Vorschläge")} zeigen`,

  maskToCome: "Ein Schritt vorwärts zeigt, was ein Durchlauf des Zielmodells liest.",
  maskTitle: "Was ein Durchlauf des Zielmodells liest",
  maskGuide: (phase, width, branches) => {
    const reads = phase === "proposed" ? "gleich lesen wird" : "gelesen hat";
    if (width === 1) return `Eine Zeile wie beim gewöhnlichen Decoding: nur die Wurzel, die das Zielmodell ${reads}. Sie sieht alles vor ihr und sich selbst.`;
    return `Jede Zeile ist ein Token, das das Zielmodell ${reads}; gefüllte Felder sind, was es sieht: den Text davor, ${branches ? "seinen eigenen Zweig" : "die Vorschläge vor ihm"} und sich selbst. `
      + (branches ? "So enthält ein Durchlauf viele Zweige, und keiner sieht einen anderen." : "So prüft ein Durchlauf alle Vorschläge auf einmal.");
  },
  maskName: (width) => `Attention-Maske mit ${rows(width)}. Auf und ab führen durch die Zeilen.`,
  maskHeads: ["Token", "Position", "Slot"],
  maskHeadsAre: ["die Tokens dieses Durchlaufs", "der Platz des Tokens im Text, von 0 an gezählt; Vorschläge für denselben Platz teilen ihn", "sein Slot im KV-Cache"],
  maskPrefix: (n) => `${n} davor`,
  maskSees: (text, prefix, others, position, slot) =>
    `${text} sieht ${prefix === null ? "den ganzen Text vor der Wurzel" : `alle ${rows(prefix)} vor der Wurzel`}`
    + `${others === null ? "" : `, ${others}`} und sich selbst; sonst nichts in diesem Durchlauf.`
    + `${position === null ? "" : ` Position ${position}, KV-Slot ${slot}.`}`,
  maskRow: (text, position, slot, ancestors) => `${text}${position === null ? "" : `, Position ${position}, Slot ${slot}`}, sieht den Text davor und ${rows(ancestors)} des Durchlaufs`,
  maskMore: (n) => `${count(n, "weitere Zeile", "weitere Zeilen")} des Durchlaufs nicht gezeichnet.`,
  maskLoose: (n) => `Der Durchlauf enthielt ${count(n, "zusätzliches Token", "zusätzliche Tokens")}; die Aufzeichnung nennt sie nicht.`,
  maskLegend: { prefix: "der übernommene Text, seine Spalten als eine gezeichnet", sees: "sieht", self: "sich selbst", verdicts: "bei angenommenem, abgelehntem, nicht erreichtem Vorschlag; sich selbst in voller Farbe", reserved: "Slot reserviert", written: "Slot beschrieben", kept: "Slot bleibt", freed: "Slot wird frei", free: "frei für den nächsten Durchlauf", rider: "~ zusätzliches Token, kein Vorschlag" },
  maskDistance: "Dieses Modell hat keine Positionsnummern: Die Maske korrigiert seinen gelernten Abstandsbias, und Positionen zählen wie gezeigt.",
  rider: "zusätzliches Token",
  theRoot: (text) => `die Wurzel ${text}`,
  rowNamed: (text, kind) => (kind === "root" ? `Die Wurzel ${text}` : kind === "rider" ? `${text} (zusätzliches Token)` : text),
  moreRows: (n) => count(n, "weitere Zeile", "weitere Zeilen"),
  slotsTitle: "KV-Cache",
  slotsBefore: "im Durchlauf",
  slotsMove: "was bleibt",
  slotsAfter: "nach der Übernahme",
  slotOf: (slot, text, state) =>
    `${slot === null ? "" : `Slot ${slot}, `}${text}: ${{ reserved: "reserviert, noch nicht beschrieben", written: "beschrieben", kept: "bleibt", freed: "wird frei" }[state]}`,
  freeSlot: "wieder frei: Der nächste Durchlauf schreibt hierher",
  pendingSlot: (text) => `${text}, das neueste Token: Es hat noch keinen Slot; der nächste Durchlauf schreibt es hierher.`,
  slotsFrom: "Aufgezeichnet ist nur die Länge des Caches; die Slots folgen daraus.",
  kvUnknown: "Die Aufzeichnung dieses Laufs enthält noch keine Cache-Längen.",
  kvReserved: (before, width) => `Der Cache enthält ${count(before, "Token", "Tokens")}. Für den Durchlauf reserviert, noch nicht beschrieben: ${slots(before, width)}.`,
  kvWritten: (before, width) => `Der Durchlauf hat geschrieben: ${slots(before, width)}; die Urteile entscheiden, was bleibt.`,
  kvKept: (before, after, width, kept, moved, pending, source, ends) =>
    `Von ${count(width, "Slot", "Slots")} ${kept.length === 1 ? "bleibt" : "bleiben"} ${kept.length}: ${kept.length > 12 ? "der Pfad" : kept.join(", ")}`
    + `${moved ? `, zusammengerückt auf ${before}–${after - 1}` : ", schon an ihrem Platz"}. Länge des Caches ${before} → ${after}. `
    + `${pending} (${source}) hat ${ends ? "keinen Slot, daher das „?“, und braucht keinen: Mit ihm endet der Text" : `noch keinen Slot, daher das „?“: Es ist die nächste Wurzel, die der nächste Durchlauf in Slot ${after} schreibt`}. Der Cache ist also um eins kürzer als der übernommene Text, den Prompt mitgezählt: ${after}\u00a0=\u00a0${after + 1}\u00a0−\u00a01.`,
  kvOdd: (before, after, kept, committed) =>
    `Die Aufzeichnung widerspricht sich: Der Cache ging von ${before} auf ${after ?? "keine"} Tokens, ihre Urteile behalten ${kept}${committed === null ? "" : `, und ${committed} Tokens brauchen ${committed - 1}`}.`,
};
