/** Die Worte der Ansicht „Wahrscheinlichkeiten“. */

import { apart, prob, VERDICT } from "./text.js";

/**
 * "u = 0.250", oder "u < 0.001", wenn drei Stellen nicht genügen.
 * @param {string} name
 * @param {number} value
 * @param {number} [beside] a number that is not to look like it
 */
function named(name, value, beside) {
  const text = beside === undefined ? prob(value) : apart(value, beside);
  return /^[<>]/.test(text) ? `${name} ${text}` : `${name} = ${text}`;
}

/**
 * Der aufgezeichnete Wert einer Schwelle; ohne ihn der übliche der Regel. Dativ, wie nach „bei“.
 * @param {unknown} value
 */
function thresholdAt(value) {
  return typeof value === "number" ? `der Schwelle ${prob(value)}` : "ihrer üblichen Schwelle";
}

/** Die Schwelle von Typical Acceptance; ihr Wert, wo die Aufzeichnung alles dafür enthält. */
function thresholdName({ options: { epsilon, delta }, entropy }) {
  const given = (value, sign) => (typeof value === "number" ? prob(value) : sign); // Vorgaben fehlen in einer Aufzeichnung
  const name = `min(${given(epsilon, "ε")}, ${given(delta, "δ")}·exp(−H))`;
  return entropy === null || typeof epsilon !== "number" || typeof delta !== "number" ? name : `${name} = ${prob(Math.min(epsilon, delta * Math.exp(-entropy)))}`;
}

/**
 * Der Text dieses Namens; undefined, wo es keinen gibt.
 * @param {unknown} name
 * @param {Record<string, string>} texts
 */
function chosen(name, texts) {
  return texts[String(name)];
}

/** @param {number} threshold @param {number} u */
function limit(threshold, u) {
  const text = apart(threshold, u);
  return text.startsWith("<") ? threshold.toPrecision(2) : text;
}

export const O = {
  title: "Wahrscheinlichkeiten",
  judged: (text, verdict) => `Vorgeschlagen: ${text} — ${verdict === VERDICT.waiting ? "offen" : verdict}`,
  own: (text, source) => chosen(source, {
    corrected: `Das Zielmodell schrieb stattdessen ${text}`,
    bonus: `Das Zielmodell fügte als Bonus ${text} hinzu`,
  }) ?? `Das Zielmodell schrieb ${text}`,
  where: (round, label) => `Runde ${round} · ${label}`,
  live: "Die Wahrscheinlichkeiten jeder Entscheidung erscheinen, sobald der Lauf beendet ist.",
  empty: "Gehen Sie einen Schritt weiter oder wählen Sie ein Token, um seine Wahrscheinlichkeiten zu sehen.",
  sure: "Wie sicher die Modelle waren",
  judge: "Was verglichen wurde",
  judgeNext: "Was verglichen wird",
  used: "Was verwendet wurde",
  sureMeans: (penalised, before) => `Die eigenen Wahrscheinlichkeiten der Modelle, bei Temperatur 1${penalised ? `, ${before ? "vor" : "nach"} dem Abzug für Wiederholungen` : ""}`,
  judgeMeans: "Was die Regel sah: die Wahrscheinlichkeiten nach Temperatur, Abzügen und Grenzen",
  views: "Welche Wahrscheinlichkeiten",
  target: "p des Zielmodells",
  draft: "q des Verfahrens",
  certain: "q, 1 für einen festen Vorschlag",
  token: "Token",
  sharedBy: (value) => `gemeinsam ${prob(value)}`,
  sharedAtMost: (value) => `gemeinsam höchstens ${prob(value).replace("< ", "")}`,
  parts: {
    strict: { shared: "in beiden: Wahrscheinlichkeit der Annahme, welches Token das Verfahren auch zieht", over: "q über p: die der Ablehnung", under: "p über q: das Residuum" },
    certain: { shared: "in beiden: die Wahrscheinlichkeit der Annahme", over: "q über p: die der Ablehnung", under: "p über q: das Residuum" },
    loose: { shared: "in beiden", over: "q über p", under: "p über q" },
    fixed: { shared: "p der Vorschläge: einer wird angenommen", over: "", under: "p aller anderen: keiner" },
    held: { shared: "p der Vorschläge", over: "", under: "p aller anderen Tokens" },
  },
  sums: { p: "p", q: "q" },
  guide: (p, q, certain) => {
    if (p && q) return `Jede Zeile ist ein Token: zuerst das gewählte, dann nach dem größeren von p und q. Durchgezogen p: die Wahrscheinlichkeit des Zielmodells; gestrichelt q: ${certain ? "1 für einen festen Vorschlag" : "die des Verfahrens"}.`;
    return p ? "Jede Zeile ist ein Token; ihr Balken ist p, die Wahrscheinlichkeit des Zielmodells." : "Jede Zeile ist ein Token; ihr gestreifter Balken ist q, die Wahrscheinlichkeit des Verfahrens.";
  },
  before: "Aus q hat das Verfahren gezogen. Das Zielmodell ist noch nicht gelaufen, ein p gibt es also noch nicht.",
  beforeGreedy: (unpenalised) => `q ist die Wahrscheinlichkeit, die das Verfahren jedem Token gibt${unpenalised ? ", vor dem Abzug für Wiederholungen" : ""}. Das Zielmodell ist noch nicht gelaufen, ein p gibt es also noch nicht.`,
  beforeModelless: "Der Vorschlag kam ohne Modell zustande und hat kein q; die Regel nimmt ihn als sicher. Das Zielmodell ist noch nicht gelaufen, ein p gibt es also noch nicht.",
  beforeFixed: (drafted) => `Die Vorschläge stehen fest und sind nicht gezogen: Für die Regel ist q bei jedem 1${drafted ? ", gleich welches q das Verfahren selbst hatte" : ""}. Das Zielmodell ist noch nicht gelaufen, ein p gibt es also noch nicht.`,
  compares: "Was p und q gemeinsam ist{shared}, wird angenommen; wo q über p liegt{over}, kann der Vorschlag abgelehnt werden.",
  comparesFixed: (n) => (n > 1
    ? "Die Vorschläge standen fest und waren nicht gezogen: Sie werden nacheinander versucht, und jeder wird mit seinem Anteil an dem angenommen, was von p übrig ist."
    : "Der Vorschlag stand fest und war nicht gezogen: Er wird mit der eigenen Wahrscheinlichkeit p{shared} des Zielmodells angenommen."),
  comparesGreedy: (guess, rank) =>
    `Bei Temperatur 0 wird ein Vorschlag nur angenommen, wenn er die erste Wahl des Zielmodells ist${rank === null || rank === 1 ? "" : `; ${guess} hatte dort Rang ${rank}`}.`,
  comparesPenalised: (guess, rank, shown) => `${O.comparesGreedy(guess, rank)} Das gilt nach dem Abzug für Wiederholungen${O.beforeIt(shown)}.`,
  without: (other) => ` Ohne den Abzug für Wiederholungen wäre die erste Wahl des Zielmodells ${other}.`,
  beforeIt: (shown) => (shown ? `; das Diagramm zeigt ${shown.length > 1 ? "p und q" : shown} vor dem Abzug, wie aufgezeichnet` : ""),
  comparesChain: "Die Regel beurteilt die Kette als Ganzes: Sie multipliziert p/q entlang der Kette, nie über 1, und behält das längste Anfangsstück, dessen letzte Münze besteht.",
  comparesElder: (q, sameQ, waiting) =>
    `Dieser Vorschlag wird ${waiting ? "nach seinen früheren Geschwistern versucht, falls sie abgelehnt werden" : "versucht, nachdem seine früheren Geschwister abgelehnt wurden"}, gegen das, was sie von p übrig lassen. Die Flächen sind die des ersten Vorschlags; `
    + (sameQ ? "dieser wurde aus demselben q gezogen." : `seine eigene Verteilung ist q ohne die früheren Geschwister, mit ${q === null ? "eigenem q" : named("q", q)}.`),
  comparesOwn: "Bei Temperatur 0 beurteilt diese Regel die eigenen Wahrscheinlichkeiten der Modelle; das Token nach dem Pfad ist weiterhin das wahrscheinlichste.",
  comparesMatching: (n) => (n > 1
    ? "Token Matching beachtet q nicht: Die Vorschläge hier werden nacheinander versucht, und jeder wird mit seinem Anteil an dem angenommen, was von p übrig ist."
    : "Token Matching beachtet q nicht: Ein Vorschlag wird mit Wahrscheinlichkeit p angenommen."),
  comparesCriterion: {
    typical: "Keine Münze entscheidet: Von den Vorschlägen, deren p über einer Schwelle liegt, bleibt der längste Pfad.",
    confidence: "Keine Münze entscheidet: Vorschläge bleiben, solange ein Modell ihnen genug zutraut.",
  },
  comparesBy: {
    ensemble: () => "Eine Mischung aus p und q wird mit q verglichen; ein Vorschlag wird also mindestens so oft angenommen wie mit p allein.",
    kseq: (n) => (n > 1
      ? "Die Vorschläge hier werden nacheinander versucht, jeder gegen dasselbe p, verkleinert, wo sie zusammen zu viel davon nehmen könnten."
      : "Unter dieser Regel wird ein Vorschlag ohne Geschwister mit Wahrscheinlichkeit min(1, p/q) angenommen."),
  },
  comparesRule: (title) => `Die Regel „${title}“ hat ihre eigene Schwelle; die Flächen zeigen, wie weit p und q übereinstimmen.`,
  writes: "An dieser Position wurde nichts vorgeschlagen: Das Zielmodell zieht aus p.",
  writesGreedy: "Bei Temperatur 0 schreibt das Zielmodell sein wahrscheinlichstes Token.",
  writesPenalised: (shown) => `Bei Temperatur 0 schreibt das Zielmodell sein wahrscheinlichstes Token, hier nach dem Abzug für Wiederholungen${O.beforeIt(shown)}.`,
  overlapIs: (value, siblings) => `${named("Überlappung Σ min(p, q)", value)}: mit welcher Wahrscheinlichkeit ${siblings > 1 ? "der erste" : "ein"} Vorschlag hier angenommen wird.`,
  sharedIs: (value) => `${named("Überlappung Σ min(p, q)", value)}: wie viel die beiden Verteilungen gemeinsam haben.`,
  coveredIs: (value, siblings) => `${named(`Σ p über ${siblings > 1 ? `die ${siblings} Vorschläge` : "den Vorschlag"}`, value)}: mit welcher Wahrscheinlichkeit ${siblings > 1 ? "einer davon" : "er"} angenommen wird.`,
  heldIs: (value, siblings) => `${named(`Σ p über ${siblings > 1 ? `die ${siblings} Vorschläge` : "den Vorschlag"}`, value)}: wie viel von p ${siblings > 1 ? "sie abdecken" : "er abdeckt"}.`,
  chanceIs: (value, siblings) => (siblings > 1
    ? `Wie wahrscheinlich einer der ${siblings} angenommen wird, folgt aus ihren Schwellen: 1 − Π(1 − Schwelle) = ${prob(value)}.`
    : `Er wird mit der Wahrscheinlichkeit seiner Schwelle angenommen, ${prob(value)}.`),
  othersIs: "Was p und q bei „allen anderen“ gemeinsam haben, ist der Rest: die aufgezeichnete Σ min(p, q) über das ganze Vokabular minus das, was die Tokens darüber gemeinsam haben.",
  atMost: "„<“ und ein blasser Balken: Für diese Wahrscheinlichkeit ist nur eine Schranke aufgezeichnet, und dieser Teil ist vielleicht gemeinsam, vielleicht nicht.",
  oneHot: (guessed, sure) => `Bei Temperatur 0 sieht die Regel p = 1 beim wahrscheinlichsten Token des Zielmodells${guessed ? " und q = 1 bei einem Vorschlag" : ""}.${sure ? " Wie sicher die Modelle waren, zeigt die andere Ansicht." : ""}`,
  modelsOnly: (judge, penalised, before) => `Das sind die eigenen Wahrscheinlichkeiten der Modelle (Temperatur 1${penalised ? `, ${before ? "vor" : "nach"} dem Abzug für Wiederholungen` : ""}). ${judge === O.used ? "Gewählt wird aus den" : "Verglichen werden die"} Verteilungen der anderen Ansicht.`,
  judgedValues: "Gemeint sind p und q, die verglichen wurden: in der anderen Ansicht.",
  modelless: "Dieser Vorschlag kam ohne Modell zustande; ein q gibt es also nicht zu zeigen.",
  everything: "alle anderen",
  everythingIs: "Alle Tokens ohne eigene Zahl in der Spalte, zusammen.",
  tokenId: (id) => `#${id}`,
  looksAlike: "Die Nummer des Tokens im Vokabular: Sein Text sieht hier aus wie der eines anderen.",
  among: "unter den anderen",
  boundedAre: "Graues „<“: Die Aufzeichnung nennt von jeder Verteilung die zehn wahrscheinlichsten Tokens. Jedes andere ist höchstens so wahrscheinlich wie das letzte davon.",
  bounded: "Namentlich sind nur die wahrscheinlichsten Tokens aufgezeichnet. Dieses ist unter den anderen; bekannt ist nur eine obere Grenze.",
  order: "Zuerst das gewählte Token, dann nach dem größeren von p und q",
  showAll: (n) => `Alle ${n} Tokens zeigen`,
  showFewer: "Weniger zeigen",
  residual: "Nach einer Ablehnung: wo p über q liegt",
  residualIs: "Das Zielmodell zieht aus max(0, p − q), auf Summe 1 skaliert: Mit dem, was angenommen wird, ergibt das genau p.",
  residualFormula: "Das ist max(0, p − q), auf Summe 1 skaliert.",
  siblingsLeft: (failed) => `Nach ${failed} Ablehnungen: was von p übrig ist`,
  siblingsLeftIs: "Jeder abgelehnte Vorschlag nahm der Reihe nach seinen Anteil an p: zuerst max(0, p − q), auf Summe 1 skaliert, dann ebenso mit dem Rest und dem eigenen q des nächsten Vorschlags.",
  asIs: "Nach einer Ablehnung: p unverändert",
  asIsIs: "Die Regel nimmt von p nichts weg.",
  greedily: "Bei Temperatur 0 wird daraus das wahrscheinlichste Token genommen.",
  left: "Nach einer Ablehnung: was die Regel übrig ließ",
  leftIs: "Daraus zieht das Zielmodell sein eigenes Token.",
  matchResidual: (failed) => `Nach ${failed > 1 ? `${failed} Ablehnungen: p ohne die abgelehnten Tokens` : "einer Ablehnung: p ohne das abgelehnte Token"}`,
  matchResidualIs: "Das Zielmodell zieht aus dem, was von p übrig ist.",
  draw: "Die Ziehung",
  drawn: (u) => `Gezogen wurde mit der Zufallszahl ${prob(u)}.`,
  drawnIs: "Sie folgt aus dem Seed und der Nummer der Runde: Runden gleicher Nummer haben in allen Spuren eines Rennens dieselbe.",
  unnamedDraw: "Sie zählt die Tokens in der Reihenfolge des Vokabulars ab, nicht der Liste. Das gezogene ist unter allen anderen: Namentlich sind nur die wahrscheinlichsten aufgezeichnet.",
  ruler: (others) => `Die Tokens stehen in der Reihenfolge des Vokabulars, jedes so breit, wie es wahrscheinlich ist; darunter steht das gezogene, die anderen nennt der Zeiger.${others ? " Die gestreiften Teile sind alle anderen, deren Plätze nicht aufgezeichnet sind." : ""}`,
  coin: "Die Münze",
  choice: "Die Entscheidung",
  firstChoice: "erste Wahl des Zielmodells",
  theGuess: "Vorschlag",
  decides: (same, verdict) => `${same ? "Dasselbe Token" : "Ein anderes Token"}: ${verdict}. Bei Temperatur 0 wird keine Münze geworfen.`,
  stays: "angenommen",
  goes: "abgelehnt",
  coins: "Die Münzen der Kette",
  tossed: (u, threshold, verdict) => `Die Zufallszahl ${named("u", u, threshold)} liegt ${u < threshold ? "" : "nicht "}unter der Schwelle ${limit(threshold, u)}${u < threshold === (verdict === "accepted") ? "" : "; dennoch"}: ${VERDICT[verdict]}.`,
  carried: (u, threshold) => `Die Zufallszahl ${named("u", u, threshold)} liegt nicht unter der Schwelle ${limit(threshold, u)}, aber ein späteres Token bestand, und dieses bleibt mit ihm: angenommen.`,
  longest: "Die Regel behält das längste Anfangsstück, dessen letzte Münze besteht; Münzen davor dürfen also scheitern.",
  decided: "Was entschied",
  coinUnknown: (threshold) => `Steht nicht in dieser Aufzeichnung.${threshold === null ? "" : ` Unter ${prob(threshold)} behält sie den Vorschlag.`}`,
  noCoin: "Die Schwelle ist dann 0 oder 1, es entschied also keine Münze.",
  criteria: {
    typical: (criterion) => `Ein Token bleibt, wenn sein p über ${thresholdName(criterion)} liegt; H ist die Entropie von p an dieser Stelle${criterion.p === null ? "" : `; ${named("p", criterion.p)}`}.`,
    confidence: ({ p, options }) => chosen(options.reading, {
      "mean-of-largest": `Alle geratenen Tokens bleiben, wenn die größte Wahrscheinlichkeit des Zielmodells, über sie gemittelt, mindestens bei ${thresholdAt(options.threshold)} liegt, sonst keines.`,
      draft: `Alle geratenen Tokens bleiben, wenn ihre Wahrscheinlichkeit beim Draft im Mittel mindestens bei ${thresholdAt(options.threshold)} liegt, sonst keines.`,
      target: `Ein Token bleibt, wenn seine Wahrscheinlichkeit p beim Zielmodell mindestens bei ${thresholdAt(options.threshold)} liegt${p === null ? "" : `; ${named("p", p)}`}.`,
    }) ?? `Die Regel vergleicht eine Wahrscheinlichkeit mit ${thresholdAt(options.threshold)}${p === null ? "" : `; ${named("p", p)}`}.`,
  },
  ratio: (here) => `Die Schwelle ist min(1, p/q)${here ? `, hier ${here}` : ""}: wie viel vom q-Balken des Vorschlags unter p liegt.`,
  ratioFixed: "Die Schwelle ist p: Der Vorschlag stand fest und wurde nicht gezogen, für die Regel ist sein q also 1.",
  ratioFixedLater: "Die Schwelle ist sein Anteil an dem, was nach den vor ihm an dieser Position abgelehnten Vorschlägen von p übrig ist: Er stand fest, sein q ist also 1.",
  ratioLater: "Die Schwelle ist min(1, r/q); r ist das, was nach den vor ihm an dieser Position abgelehnten Vorschlägen von p übrig ist.",
  ratioBy: {
    ensemble: () => "Die Schwelle ist min(1, 1 − w + w·r/q): w ist das Gewicht der Regel, eine ihrer Einstellungen, r ist p oder das, was nach den vor diesem an dieser Position abgelehnten Vorschlägen davon übrig ist.",
    kseq: () => "Die Schwelle ist min(1, p/(ρ·q)): ρ, mindestens 1, verkleinert p, wo mehrere Vorschläge zusammen zu viel davon nehmen könnten.",
  },
  matchRatio: "Die Schwelle ist p: Das Token bleibt, wenn das Zielmodell dasselbe zieht.",
  matchRatioLater: "Die Schwelle ist sein Anteil an dem, was nach den vor ihm an dieser Position abgelehnten Tokens von p übrig ist: Das Token bleibt, wenn das Zielmodell dasselbe zieht.",
  ruled: (title) => `Die Schwelle bestimmt die Regel „${title}“.`,
  waiting: "Ob diese Position erreicht wird, ist noch nicht entschieden; ihre vollständigen Verteilungen erscheinen, sobald es das ist.",
  unreached: {
    rejected: (other) => `Nie beurteilt: Es folgt auf ${other}, das abgelehnt wurde.`,
    rival: (other) => `Nie beurteilt: ${other} wurde an seiner Stelle angenommen.`,
    rivalAbove: (other, stem) => `Nie beurteilt: Es folgt auf ${stem}, an dessen Stelle ${other} angenommen wurde.`,
    end: () => "Nie beurteilt: Der Text endete vorher.",
    longest: () => "Seine Münze scheiterte und jede spätere auch; die behaltenen Tokens enden vorher.",
    longer: () => "Es liegt über der Schwelle, aber ein anderer Pfad wurde behalten: der längste oder der wahrscheinlichste der längsten.",
    branch: () => "Es folgt auf einen Vorschlag, der nicht behalten wurde.",
    other: () => "Es erhielt kein Urteil.",
  },
  pruned: "Nie beurteilt: Es wurde vor der Prüfung aus dem Baum genommen, da sein ganzer Pfad weniger wahrscheinlich war als die geprüften.",
  cut: "Es zählt nicht: Der Text endete vorher.",
  discarded: "Nie beurteilt: Es war für einen Fall vorausgearbeitet, der nicht eintrat.",
  recorded: "Was davon aufgezeichnet wurde",
  nothing: "Diese Aufzeichnung enthält nur die Tokens, keine Wahrscheinlichkeiten. Wiederholen Sie den Lauf mit vollständiger Aufzeichnung, um sie zu sehen.",
  sibling: "Die Verteilungen dieser Position wurden nicht aufgezeichnet, da hier kein Token übernommen wurde.",
  facts: { p: "p, nach Abzügen und Temperatur", q: "q, nach Abzügen und Temperatur", model_p: "eigenes p des Zielmodells", model_q: "eigenes q des Verfahrens", penalised_p: "eigenes p des Zielmodells, nach Abzügen", penalised_q: "eigenes q des Verfahrens, nach Abzügen", rank: "Rang beim Zielmodell, nach Abzügen", entropy: "wie unentschieden das Zielmodell war: Entropie seines eigenen p (Nat)" },
};
