/** The measured speedup in large type, with its definition and the number's source. */

/**
 * @import { Lane, Round } from "../model/model.js"
 * @import { Data } from "../feed/source.js"
 * @import { View } from "../model/state.js"
 */

import { el, keepOnScreen, setText } from "../dom/dom.js";
import { isSignificant } from "../model/significance.js";
import { sameText } from "../model/fork.js";
import { wasHeldUp } from "../model/held_up.js";
import { nonNull } from "../dom/non_null.js";
import { LEGEND, MARK, T } from "../text/text.js";

/** @type {Set<string>} */
const RARE = new Set(["pruned", "discarded", "cut", "parted", "again"]); // explained next to the others only if they occur
const UNTIMED = new Set(["oracle", "you"]); // whose drafting is off the clock
const NOISE = 1.005; // as in sweep/totals.py: a speedup further above the tokens per pass was disturbed
/** @type {WeakMap<Round, string[]>} the rare verdicts in it */
const occurring = new WeakMap();

/** @returns the head's view: `root`, `whole(ratio)`, `show(view, lanes, data)` */
export function createScore() {
  const value = el("span", { class: "speedup-value" });
  const words = el("span", { class: "speedup-words" });
  const figure = el("span", { class: "speedup-figure" });
  const whole = el("span", { class: "speedup-whole", hidden: true }, figure, " ", el("span")); // larger than the figure so far, which would be taken for it
  /** @type {(number|null)[]} of each lane over its whole run; empty where none is named */
  let ends = [];
  let named = -1; // the lane whose figure is shown
  let finished = false; // the figure is the whole run's
  /** @type {[Round[], Round[]]} the rounds of the lanes that are compared */
  let pair = [[], []];
  let limit = Infinity; // tokens per pass of the whole run, which no speedup exceeds
  const [name, beside] = [el("span"), el("span")];
  const title = el("span", { class: "speedup-title" }, name, beside);
  const origin = el("span", { class: "provenance" });
  const slowed = el("span", { class: "provenance slowed", title: T.heldUpRunMeans });
  const definition = el("p", {}, T.definition);
  const details = el("details", { class: "how" }, el("summary", {}, T.how), definition);
  const random = el("p", { class: "note random", hidden: true });
  const lossy = el(
    "p",
    { class: "note lossy", hidden: true },
    el("b", { class: "lossy-mark" }, T.lossyMark),
    el("span"),
  );
  const speedup = el(
    "div",
    { class: "speedup", title: T.definition },
    title,
    el("span", { class: "speedup-line" }, value, words, whole),
  );
  const legend = el("ul", { class: "legend", "aria-label": T.marksTitle });
  for (const [verdict, meaning] of LEGEND) {
    legend.append(
      el(
        "li",
        { title: meaning, "data-verdict": verdict, hidden: RARE.has(verdict) },
        el("span", { class: `sample ${verdict}`, "aria-hidden": "true" }, MARK[verdict]),
        meaning.split(":")[0],
      ),
    );
  }
  const root = el(
    "header",
    { class: "score" },
    speedup,
    el("div", { class: "origin" }, origin, slowed, details),
    el("div", { class: "signs" }, legend, random),
    lossy,
  );
  const how = details.querySelector("summary");
  details.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !details.open) return;
    event.stopPropagation();
    details.open = false;
    how?.focus();
  });
  details.addEventListener("toggle", () => {
    if (details.open) keepOnScreen(definition);
  });
  details.addEventListener("focusout", () => {
    details.open = false;
  });
  const nameWhole = () => {
    const ratio = finished ? null : (ends[named] ?? null);
    const noisy = ratio !== null && ratio > NOISE * limit;
    const unclear = ratio !== null && !isSignificant(ratio, ...pair);
    whole.title = noisy ? T.tooFast(`${T.times(ratio)} ${T.inAll("")}`, limit) : unclear ? T.unclear : "";
    whole.hidden = ratio === null;
    setText(figure, ratio === null ? "" : T.times(ratio));
    setText(nonNull(whole.lastChild), T.inAll(noisy ? "noise" : unclear ? "unclear" : ""));
  };
  return {
    root,
    /**
     * What the whole run gave each lane, beside the figure so far.
     * @param {(number|null)[]} ratios
     */
    whole(ratios) {
      ends = ratios;
      nameWhole();
    },
    /**
     * @param {Pick<View, "lanes"|"speedup"|"compared"|"baseline"|"current">|null} view null: nothing yet
     * @param {Lane[]} lanes
     * @param {Data} data
     */
    show(view, lanes, data) {
      const head = view ? lanes[view.compared] : undefined;
      const compared = head !== undefined;
      const ratio = view?.speedup ?? null;
      speedup.hidden = details.hidden = !compared;
      const over = Boolean(view?.lanes.every((lane) => lane.end !== null)); // else the figures follow the cursor
      finished = over;
      limit = head
        ? head.rounds.reduce((sum, round) => sum + round.tokens.length, 0) / Math.max(head.rounds.length, 1)
        : Infinity;
      named = view?.compared ?? -1;
      pair = view && head ? [lanes[view.baseline]?.rounds ?? [], head.rounds] : [[], []];
      setText(name, lanes.length > 2 && head ? T.speedupOf(head.label) : T.speedup);
      setText(value, ratio === null ? T.none : T.times(ratio));
      value.classList.toggle("none", ratio === null);
      const short = lanes.every((lane) => lane.trace) && lanes.some((lane) => lane.total < (data.least ?? 1));
      const missing = over || short ? T.never : T.notyet;
      const plain = view?.lanes[view.baseline];
      setText(beside, over || !plain ? "" : T.against(plain.lane.label));
      const said =
        ratio === null || !view || !plain
          ? missing(data.least ?? 1)
          : !over
            ? T.soFar
            : T.faster(
                ratio,
                plain.lane.label,
                isSignificant(ratio, plain.rounds, view.lanes[view.compared].rounds),
              );
      const shown = view?.lanes[view.compared];
      const most = shown ? shown.tokens / Math.max(shown.rounds.length, 1) : Infinity;
      const bounded =
        head && ratio !== null && UNTIMED.has(head.proposer)
          ? T.bound(said)
          : over && ratio !== null && ratio > NOISE * most
            ? T.tooFast(said, most)
            : said;
      const { repeated, tokens } = shown ?? { repeated: 0, tokens: 0 };
      setText(words, ratio !== null && repeated ? T.repeating(bounded, repeated, tokens) : bounded);
      nameWhole();
      const equal = over && sameText(lanes) ? T.sameText : "";
      const held = data.provenance === "measured" ? lanes.filter(wasHeldUp).map(({ label }) => label) : [];
      setText(slowed, held.length ? T.heldUpRun(held) : "");
      origin.title = equal && T.sameTextMeans;
      setText(
        origin,
        [T.provenance[data.provenance], data.provenance_note, equal].filter(Boolean).join(" · "),
      );
      legend.hidden = lanes.length > 0 && lanes.every((lane) => lane.proposer === "none"); // nothing is judged
      const rare = rareIn([
        ...(view?.lanes ?? []).flatMap((lane) => lane.rounds),
        ...(view?.current ? [view.current] : []),
      ]);
      if (view?.lanes.some((lane) => lane.repeated)) rare.add("again");
      if (view?.lanes.some((lane) => lane.fork)) rare.add("parted");
      for (const item of /** @type {HTMLCollectionOf<HTMLElement>} */ (legend.children)) {
        const verdict = String(item.dataset.verdict);
        if (RARE.has(verdict)) item.hidden = !rare.has(verdict);
      }
      const bent = [...new Set(lanes.filter((lane) => lane.lossy).map((lane) => lane.rule))];
      lossy.hidden = !bent.length;
      if (bent.length)
        setText(nonNull(lossy.lastChild), T.lossy(bent.map((rule) => data.rules?.[rule]?.title ?? rule)));
      const temperature = Math.max(0, ...lanes.map((lane) => (lane.onlyBest ? 0 : lane.temperature)));
      random.hidden = !(compared && temperature > 0 && !bent.length);
      if (!random.hidden) setText(random, T.random(temperature));
      random.title = random.textContent ?? ""; // where signs leave it too little room
    },
  };
}

/**
 * The rare verdicts in the displayed rounds; rounds never change, so each is checked once.
 * @param {Round[]} rounds
 */
function rareIn(rounds) {
  /** @type {Set<string>} */
  const found = new Set();
  for (const round of rounds) {
    const rare =
      occurring.get(round) ??
      round.proposals.map((item) => item.verdict).filter((verdict) => RARE.has(verdict));
    occurring.set(round, rare);
    for (const verdict of rare) found.add(verdict);
  }
  return found;
}
