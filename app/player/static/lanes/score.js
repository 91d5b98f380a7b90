/** The measured speedup in large type, with its definition and the number's source. */

/**
 * @import { Lane, Round } from "../model/model.js"
 * @import { Data } from "../feed/source.js"
 * @import { View } from "../model/state.js"
 */

import { el, keepOnScreen, setText } from "../dom/dom.js";
import { number } from "../model/model.js";
import { isSignificant } from "../model/significance.js";
import { sameText } from "../model/fork.js";
import { branches } from "../model/tree.js";
import { wasHeldUp } from "../model/held_up.js";
import { nonNull } from "../dom/non_null.js";
import { LEGEND, MARK, T } from "../text/text.js";

/** @typedef {Pick<View, "lanes"|"speedup"|"compared"|"baseline"|"current">} Shown */

/** @type {Set<string>} */
const RARE = new Set(["waiting", "unreached", "pruned", "discarded", "cut", "parted", "again", "unknown"]); // explained next to the others only if they occur, the first two only in trees
const UNTIMED = new Set(["oracle", "you"]); // whose drafting is off the clock
const NOISE = 1.005; // as in sweep/totals.py: a speedup further above the tokens per pass was disturbed
/** @type {WeakMap<Round, string[]>} the rare verdicts in it */
const occurring = new WeakMap();

/** `root`, `whole(ratio)`, `show(view, lanes, data)`. */
export class Score {
  value = el("span", { class: "speedup-value" });
  words = el("span", { class: "speedup-words" });
  figure = el("span", { class: "speedup-figure" });
  overall = el("span", { class: "speedup-whole", hidden: true }, this.figure, " ", el("span")); // larger than the figure so far, which would be taken for it
  /** @type {(number|null)[]} of each lane over its whole run; empty where none is named */
  ends = [];
  named = -1; // the lane whose figure is shown
  finished = false; // the figure is the whole run's
  /** @type {[Round[], Round[]]} the rounds of the lanes that are compared */
  pair = [[], []];
  limit = Infinity; // tokens per pass of the whole run, which no speedup exceeds
  name = el("span");
  beside = el("span");
  title = el("span", { class: "speedup-title" }, this.name, this.beside);
  origin = el("span", { class: "provenance" });
  slowed = el("span", { class: "provenance slowed", title: T.heldUpRunMeans });
  definition = el("p", {}, T.definition);
  details = el("details", { class: "how" }, el("summary", {}, T.how), this.definition);
  random = el("p", { class: "note random", hidden: true });
  lossy = el(
    "p",
    { class: "note lossy", hidden: true },
    el("b", { class: "lossy-mark" }, T.lossyMark),
    el("span"),
  );
  speedup = el(
    "div",
    { class: "speedup", title: T.definition },
    this.title,
    el("span", { class: "speedup-line" }, this.value, this.words, this.overall),
  );
  legend = el("ul", { class: "legend", "aria-label": T.marksTitle });
  root = el(
    "header",
    { class: "score" },
    this.speedup,
    el("div", { class: "origin" }, this.origin, this.slowed, this.details),
    el("div", { class: "signs" }, this.legend, this.random),
    this.lossy,
  );
  how = this.details.querySelector("summary");
  nameWhole = () => {
    const ratio = this.finished ? null : (this.ends[this.named] ?? null);
    const noisy = ratio !== null && ratio > NOISE * this.limit;
    const unclear = ratio !== null && !isSignificant(ratio, ...this.pair);
    this.overall.title = noisy
      ? T.tooFast(`${T.times(ratio)} ${T.inAll("")}`, this.limit)
      : unclear
        ? T.unclear
        : "";
    this.overall.hidden = ratio === null;
    setText(this.figure, ratio === null ? "" : T.times(ratio));
    setText(nonNull(this.overall.lastChild), T.inAll(noisy ? "noise" : unclear ? "unclear" : ""));
  };

  constructor() {
    for (const [verdict, meaning] of LEGEND) {
      this.legend.append(
        el(
          "li",
          { title: meaning, "data-verdict": verdict, hidden: RARE.has(verdict) },
          el("span", { class: `sample ${verdict}`, "aria-hidden": "true" }, MARK[verdict]),
          meaning.split(":")[0],
        ),
      );
    }
    this.details.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.details.open) return;
      event.stopPropagation();
      this.details.open = false;
      this.how?.focus();
    });
    this.details.addEventListener("toggle", () => {
      if (this.details.open) keepOnScreen(this.definition);
    });
    this.details.addEventListener("focusout", () => {
      this.details.open = false;
    });
  }

  /**
   * What the whole run gave each lane, beside the figure so far.
   * @param {(number|null)[]} ratios
   */
  whole(ratios) {
    this.ends = ratios;
    this.nameWhole();
  }

  /**
   * @param {Shown|null} view null: nothing yet
   * @param {Lane[]} lanes
   * @param {Data} data
   */
  show(view, lanes, data) {
    const head = view ? lanes[view.compared] : undefined;
    const compared = head !== undefined;
    const ratio = view?.speedup ?? null;
    this.speedup.hidden = this.details.hidden = !compared;
    const over = Boolean(view?.lanes.every((lane) => lane.end !== null)); // else the figures follow the cursor
    this.finished = over;
    this.limit = head
      ? head.rounds.reduce((sum, round) => sum + round.tokens.length, 0) / Math.max(head.rounds.length, 1)
      : Infinity;
    this.named = view?.compared ?? -1;
    this.pair = view && head ? [lanes[view.baseline]?.rounds ?? [], head.rounds] : [[], []];
    setText(this.name, lanes.length > 2 && head ? T.speedupOf(head.label) : T.speedup);
    setText(this.value, ratio === null ? T.none : T.times(ratio));
    this.value.classList.toggle("none", ratio === null);
    const plain = view?.lanes[view.baseline];
    setText(this.beside, over || !plain ? "" : T.against(plain.lane.label));
    setText(this.words, this.verdictOn(view, lanes, data.least ?? 1));
    this.nameWhole();
    const equal = over && sameText(lanes) ? T.sameText : "";
    const held = data.provenance === "measured" ? lanes.filter(wasHeldUp).map(({ label }) => label) : [];
    setText(this.slowed, held.length ? T.heldUpRun(held) : "");
    this.origin.title = equal && T.sameTextMeans;
    setText(
      this.origin,
      [T.provenance[data.provenance], data.provenance_note, equal].filter(Boolean).join(" · "),
    );
    this.showLegend(view, lanes);
    const bent = [...new Set(lanes.filter((lane) => lane.lossy).map((lane) => lane.rule))];
    this.lossy.hidden = !bent.length;
    if (bent.length)
      setText(nonNull(this.lossy.lastChild), T.lossy(bent.map((rule) => data.rules?.[rule]?.title ?? rule)));
    const temperature = Math.max(0, ...lanes.map((lane) => (lane.onlyBest ? 0 : lane.temperature)));
    this.random.hidden = !(compared && temperature > 0 && !bent.length);
    if (!this.random.hidden) setText(this.random, T.random(temperature));
    this.random.title = this.random.textContent ?? ""; // where signs leave it too little room
  }

  /**
   * What the speedup's number says.
   * @param {Shown|null} view
   * @param {Lane[]} lanes
   * @param {number} least how many tokens a speedup needs
   */
  verdictOn(view, lanes, least) {
    const ratio = view?.speedup ?? null;
    const plain = view?.lanes[view.baseline];
    if (ratio === null || !view || !plain) {
      const short = lanes.every((lane) => lane.trace) && lanes.some((lane) => lane.total < least);
      return (this.finished || short ? T.never : T.notyet)(least);
    }
    const shown = view.lanes[view.compared];
    const said = this.finished
      ? T.faster(ratio, plain.lane.label, isSignificant(ratio, plain.rounds, shown.rounds))
      : T.soFar;
    const most = shown.tokens / Math.max(shown.rounds.length, 1);
    const bounded = UNTIMED.has(shown.lane.proposer)
      ? T.bound(said)
      : this.finished && ratio > NOISE * most
        ? T.tooFast(said, most)
        : said;
    const penalty = number(shown.lane.trace?.header?.settings?.repetition_penalty);
    const under = penalty !== null && penalty !== 1 ? T.penalised(bounded, penalty) : bounded;
    return shown.repeated ? T.repeating(under, shown.repeated, shown.tokens) : under;
  }

  /** @param {Shown|null} view @param {Lane[]} lanes */
  showLegend(view, lanes) {
    this.legend.hidden = lanes.length > 0 && lanes.every((lane) => lane.proposer === "none"); // nothing is judged
    const rare = rareIn([
      ...(view?.lanes ?? []).flatMap((lane) => lane.rounds),
      ...(view?.current ? [view.current] : []),
    ]);
    if (view?.lanes.some((lane) => lane.repeated)) rare.add("again");
    if (view?.lanes.some((lane) => lane.fork)) rare.add("parted");
    for (const item of /** @type {HTMLCollectionOf<HTMLElement>} */ (this.legend.children)) {
      const verdict = String(item.dataset.verdict);
      if (RARE.has(verdict)) item.hidden = !rare.has(verdict);
    }
  }
}

/**
 * The rare verdicts in the displayed rounds; rounds never change, so each is checked once.
 * @param {Round[]} rounds
 */
function rareIn(rounds) {
  /** @type {Set<string>} */
  const found = new Set();
  for (const round of rounds) {
    const tree = branches(round.proposals);
    const rare =
      occurring.get(round) ??
      [...round.proposals.map((item) => item.verdict), ...round.tokens.map((token) => token.source)].filter(
        (verdict) => RARE.has(verdict) && (tree || (verdict !== "waiting" && verdict !== "unreached")),
      );
    occurring.set(round, rare);
    for (const verdict of rare) found.add(verdict);
  }
  return found;
}
