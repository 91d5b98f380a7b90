/**
 * One lane: its numbers, and its ribbon, i.e. the committed text with the rejected proposals below their places.
 *
 * Rounds are only ever added or removed at the end, so stepping costs what changed. The text content of the committed
 * tokens, in order, is exactly the committed text: marks are drawn by the style sheet.
 */

/**
 * @import { Fork } from "../model/fork.js"
 * @import { Hang, Round } from "../model/model.js"
 * @import { Repeats } from "../model/repeats.js"
 * @import { LaneView, Selection } from "../model/state.js"
 */

import { appendToken, el, elementOf, setText } from "../dom/dom.js";
import { createPendingGuesses } from "./pending_guesses.js";
import { createPrompt } from "./prompt.js";
import { createHead } from "./lane_head.js";
import { Pane } from "./pane.js";
import { flat, quote, T, VERDICT } from "../text/text.js";

const NAMED = 6; // further ones that are named under the pointer
const UNBOUNDED = 99; // characters: more than the style sheet allows
const [LETTER, SIGNS, CHARACTER] = [0.45, 1.05, 0.525]; // rem, as in lanes.css: of a rejected word and its signs, of the text
const MARGIN = 2.8; // rem: a token's mark and the pane's edge
const WORDS_WIDE = 6; // characters of a rejected word that always have room

/** `root`, `show(view, marks)`, `lead(leads, several)`, `settle()`, `follow()`, `reveal()`. */
export class Ribbon {
  forkMark = el("span", { class: "fork", role: "note" }, T.differs);
  prompt = createPrompt();
  body = el("span", { class: "committed" });
  rest = el("span", { class: "rest" });
  /** @type {Round[]} */
  shown = []; // the drawn rounds' models, in step with body's children
  /** @type {Repeats|null} */
  repeats = null; // of the lane that is drawn, and the length of its text when its repeats were marked
  length = 0;
  /** @type {Element|null} */
  marked = null;
  /** @type {Element|null} */
  now = null;

  /**
   * @param {number} at the lane's number
   * @param {(lane: number) => void} onLead called when the viewer wants this lane to lead
   */
  constructor(at, onLead) {
    this.at = at;
    this.onLead = onLead;
    this.head = createHead(this.at, this.onLead);
    this.pending = createPendingGuesses(this.at);
    this.text = el("div", { class: "pane-text" }, this.prompt.root, this.body, this.pending.root, this.rest);
    this.pane = new Pane(this.text, () => [
      this.rest,
      this.pending.root,
      ...[...this.body.children].reverse(),
      this.prompt.root,
    ]);
    this.root = el("section", { class: "lane", "data-lane": this.at }, this.head.root, this.pane.root);
    this.pane.root.addEventListener("pointerover", (event) => {
      // thousands of tokens: only one at a time is asked about
      const token = elementOf(event).closest(".tok:not([title])");
      token?.setAttribute("title", token.getAttribute("aria-label") ?? "");
    });
  }

  /**
   * Mark the repeats in the drawn text. Only tokens that are new or whose mark changes are visited.
   * @param {Repeats} found
   * @param {number} same how many rounds are drawn as before
   */
  setRepeats(found, same) {
    const now = this.shown.at(-1)?.total ?? 0;
    const from =
      found === this.repeats ? Math.min(found.first(this.length, now), this.shown[same - 1]?.total ?? 0) : 0;
    this.repeats = found;
    this.length = now;
    for (let index = this.shown.length - 1; index >= 0 && this.shown[index].total > from; index -= 1) {
      const box = this.body.children[index];
      box.querySelectorAll(".loop").forEach((note) => note.remove());
      const begin = this.shown[index].total - this.shown[index].tokens.length;
      box.querySelectorAll(".tok").forEach((chip, at) => {
        const again = found.marked(begin + at, now);
        chip.classList.toggle("again", again);
        if (!again || found.marked(begin + at - 1, now)) return;
        const unit = unitOf(chip);
        unit.before(
          el("span", { class: "loop", role: "note", "aria-label": T.againFrom, title: T.againFrom }, T.again),
        );
      });
    }
  }

  /** @param {Round[]} rounds @param {string} given @param {Repeats} found */
  setRounds(rounds, given, found) {
    let same = 0; // usually the same objects; those of a finished record are compared, so that none is drawn twice
    while (same < this.shown.length && same < rounds.length && alike(this.shown[same], rounds[same]))
      same += 1;
    while (this.body.children.length > same) this.body.lastChild?.remove();
    if (rounds.length > same) {
      const added = document.createDocumentFragment();
      for (let index = same; index < rounds.length; index += 1)
        added.append(drawRound(this.at, rounds[index], rounds[index - 1]?.tokens.at(-1)?.text ?? given));
      this.body.append(added);
    }
    if (same < rounds.length || same < this.shown.length)
      this.spread(
        rounds,
        Math.max(
          0,
          rounds.findLastIndex((round, index) => index < same && round.hangs.length > 0),
        ),
      );
    const changed = this.shown.length !== rounds.length || same < rounds.length;
    this.shown = rounds.slice();
    this.setRepeats(found, same);
    return changed;
  }

  /**
   * Tell rejected words how much room they have below the text: up to the next ones, in characters. Where a word fits below
   * the text that follows, and beside the pane's edge if the line ends here, its own token need not be wider.
   * @param {Round[]} rounds
   * @param {number} from
   */
  spread(rounds, from) {
    /** @type {{below: HTMLElement, at: number, own: number}[]} */
    const places = [];
    let start = 0;
    for (let index = from; index < rounds.length; index += 1) {
      const { tokens, hangs } = rounds[index];
      const drawn = /** @type {NodeListOf<HTMLElement>} */ (
        this.body.children[index].querySelectorAll(".hang")
      );
      const order = hangs.map(({ at }) => at).sort((one, other) => one - other);
      drawn.forEach((below, nth) =>
        places.push({
          below,
          at: start + lengthOf(tokens.slice(0, order[nth])),
          own: tokens[order[nth]]?.text.length ?? 0,
        }),
      );
      start += lengthOf(tokens);
    }
    places.forEach(({ below, at, own }, nth) => {
      const room = Math.max(2, (places[nth + 1]?.at ?? at + UNBOUNDED) - at);
      const place = below.parentElement;
      const least = LETTER * Number(place?.style.getPropertyValue("--words")) + SIGNS;
      below.style.setProperty("--room", String(room));
      place?.classList.toggle("roomy", CHARACTER * room >= least && CHARACTER * own + MARGIN >= least);
    });
  }

  /** @param {Selection|null} selection @param {boolean} chosen @param {number|null} current */
  mark(selection, chosen, current) {
    this.marked?.classList.remove("selected", "focused");
    this.marked?.removeAttribute("aria-current");
    this.now?.classList.remove("now");
    this.now = current === null ? null : (this.body.children[current] ?? null);
    this.now?.classList.add("now");
    this.marked =
      selection && selection.lane === this.at
        ? (this.body.children[selection.round] ?? this.pending.root).querySelector(
            `[data-node="${selection.node}"]`,
          )
        : null;
    this.marked?.classList.add(chosen ? "selected" : "focused");
    if (chosen) this.marked?.setAttribute("aria-current", "true");
  }

  /**
   * Mark the token at which the text departs from the baseline's.
   * @param {Fork|null} fork
   * @param {string} baseline
   */
  part(fork, baseline) {
    const token = fork && this.body.children[fork.round]?.querySelectorAll(".tok")[fork.at];
    const before = token && unitOf(token);
    if (!before) this.forkMark.remove();
    else if (this.forkMark.nextSibling !== before) {
      const words = T.fork(baseline);
      this.forkMark.setAttribute("aria-label", words);
      this.forkMark.setAttribute("title", words);
      before.before(this.forkMark);
    }
  }

  /**
   * @param {boolean} leads
   * @param {boolean} several whether there are other lanes, so that leading can be chosen
   */
  lead(leads, several) {
    this.root.classList.toggle("leads", leads && several);
    this.head.lead(leads, several);
  }

  /**
   * @param {LaneView} view
   * @param {{focus?: Selection|null, chosen?: boolean, current?: number|null, baseline?: string,
   *   drafting?: Round|null, checked?: boolean, only?: boolean}} [marks] `baseline` is the label of the baseline lane for
   *   speed and text; `drafting` is the round in progress, `checked` whether the target has read its guesses; `only` the
   *   text is drawn, as often as it grows
   */
  show(view, marks = {}) {
    if (!marks.only) {
      this.head.show(view, marks.baseline ?? "");
      this.pane.root.setAttribute("aria-label", T.lane(view.lane.label));
    }
    const given = view.lane.prompt;
    this.prompt.show(view.lane);
    if (this.setRounds(view.rounds, given, view.lane.repeats)) this.pane.moved();
    if (this.pending.show(marks.drafting ?? null, marks.checked ?? false)) this.pane.moved();
    setText(this.rest, view.rest);
    this.mark(marks.focus ?? null, marks.chosen ?? false, marks.current ?? null);
    this.part(view.fork, marks.baseline ?? "");
  }

  /** See `Pane.settle`. */
  settle() {
    return this.pane.settle();
  }

  follow() {
    this.pane.follow();
  }

  /** Bring the marked token into the pane. */
  reveal() {
    if (this.marked) this.pane.reveal(this.marked);
  }
}

/** @param {{text: string}[]} tokens */
function lengthOf(tokens) {
  return tokens.reduce((sum, { text }) => sum + text.length, 0);
}

/**
 * Whether two rounds are drawn alike.
 * @param {Round} one
 * @param {Round} other
 */
function alike(one, other) {
  return one === other || signature(one) === signature(other);
}

/** @param {Round} round */
function signature(round) {
  return JSON.stringify([round.tokens, round.proposals]);
}

/**
 * @param {number} lane
 * @param {Round} round
 * @param {string} before the text before it, at least its end
 */
function drawRound(lane, round, before) {
  const box = el("span", {
    class: round.tokens.every(({ source }) => source === "plain") ? "round plain" : "round",
    "data-round": round.index,
    "data-lane": lane,
  });
  const hangs = new Map(round.hangs.map((hang) => [hang.at, hang]));
  round.tokens.forEach((token, at) => {
    // One mark represents a run of equal verdicts. It follows the text, so that no line begins or ends between them.
    const last = round.tokens[at + 1]?.source !== token.source;
    const copied = round.copied && token.node >= 0;
    const chip = el("span", {
      class: `tok ${token.source}${copied ? " copied" : ""}${last ? " closing" : ""}${token.text.length === 1 && token.text.trim() ? " single" : ""}`,
      "data-node": token.node,
      role: "button",
      tabindex: -1,
      "aria-label": T.chip(token.name, VERDICT[token.source], round.index + 1, copied),
    });
    // A piece is empty for a part of a character, whose last part contains the text, and for the end of the text.
    if (token.text === "") chip.dataset.sign = token.name === "" || token.name.includes("0x") ? "◌" : "∎";
    // The space before a word stays colourless where the line ends in it; after a line break it is kept unchanged.
    const above = at > 0 ? round.tokens[at - 1].text : before;
    if (!above.endsWith("\n") && /^ \S+$/.test(token.text)) chip.classList.add("word");
    appendToken(chip, token.text);
    const hang = hangs.get(at);
    const breaks = /^[^\n]*(\n+)$/.exec(token.text)?.[1].length ?? 0; // at its end, and nowhere else
    if (breaks) chip.classList.add("ends");
    if (!hang) box.append(chip);
    else if (!breaks && token.text.includes("\n")) box.append(spot(hang, round, null), chip);
    else box.append(spot(hang, round, chip));
    box.append(...Array.from({ length: breaks }, () => el("br")));
  });
  for (const hang of round.hangs) {
    if (hang.at >= round.tokens.length) box.append(spot(hang, round, null));
  }
  return box;
}

/**
 * The element that contains a token: its own, or if something is shown below it, that of both.
 * @param {Element} chip
 */
function unitOf(chip) {
  const around = chip.parentElement;
  return around?.classList.contains("spot") ? around : chip;
}

/**
 * A token with what was rejected in its place below it. A line break cannot be in the upper row; it follows instead.
 * @param {Hang} hang
 * @param {Round} round
 * @param {HTMLElement|null} upper
 */
function spot(hang, round, upper) {
  const below = el("span", { class: "hang", role: "group", "aria-label": T.proposals });
  const [first, ...others] = hang.nodes; // one, so that it can be read: trees may have dozens
  const words = T.chip(first.text, VERDICT.rejected, round.index + 1, false);
  const word = flat(first.text).trim() || "◌";
  below.append(
    el(
      "span",
      {
        class: "prop rejected",
        "data-node": first.node,
        role: "button",
        tabindex: -1,
        "aria-label": words,
        title: words,
      },
      el("span", { class: "gone" }, word),
    ),
  );
  const named = others
    .slice(0, NAMED)
    .map(({ text }) => quote(text))
    .join(", ");
  if (others.length)
    below.append(
      el("span", { class: "more", title: T.unshown(others.length, named) }, T.more(others.length)),
    );
  const whole = el(
    "span",
    { class: upper ? "spot" : "spot bare" },
    upper ?? el("span", { class: "post" }),
    below,
  );
  whole.style.setProperty("--words", String(Math.min(WORDS_WIDE, word.length + 1) + (others.length ? 3 : 0)));
  return whole;
}
