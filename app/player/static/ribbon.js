/**
 * One lane: its numbers, and its ribbon, i.e. the committed text with the rejected proposals below their places.
 *
 * Rounds are only ever added or removed at the end, so stepping costs what changed. The text content of the committed
 * tokens, in order, is exactly the committed text: marks are drawn by the style sheet.
 */

/**
 * @import { Fork } from "./fork.js"
 * @import { Round } from "./model.js"
 * @import { Repeats } from "./repeats.js"
 * @import { LaneView, Selection } from "./state.js"
 */

import { el, setText } from "./dom.js";
import { createGhosts } from "./ghosts.js";
import { alike, drawRound, spread, unitOf } from "./ribbon_round.js";
import { sure } from "./sure.js";
import { T } from "./text.js";

const PROMPT_SHOWN = 160; // characters of a long prompt's end
const NEAR_END = 32; // pixels; if closer to the end than this, the pane follows the text
const ABOVE = 1; // pixels between the pane's edge and the first visible row

/**
 * @param {number} at the lane's number
 * @param {(lane: number) => void} lead called when the viewer wants this lane to lead
 * @returns a lane's view: `root`, `show(view, marks)`, `lead(leads, several)`, `settle()`, `follow()`, `reveal()`
 */
export function createLane(at, lead) {
  const name = el("span", { class: "lane-words" });
  const button = el("button", { type: "button", class: "lane-lead" });
  button.onclick = () => lead(at);
  const label = el("h2", { class: "lane-label" }, name);
  const ended = el("span", { class: "ended" });
  const numbers = {
    rate: el("b"), tokens: el("b"), clock: el("b"), unit: el("span"), ratio: el("b"),
  };
  const ratio = el("span", { class: "number ratio", title: "" }, numbers.ratio, " ", el("span"));
  const repeated = el("span", { class: "repeated", title: T.repeatsMean });
  const forkMark = el("span", { class: "fork", role: "note" }, T.differs);
  const head = el(
    "div", { class: "lane-head" },
    el("div", { class: "lane-name" }, label, ended, repeated),
    el(
      "div", { class: "numbers" },
      ratio,
      el("span", { class: "number" }, numbers.rate, ` ${T.rate}`),
      el("span", { class: "number" }, numbers.tokens, " ", numbers.unit),
      el("span", { class: "number", title: T.clock }, numbers.clock, " s"),
    ),
  );
  const prompt = el("span", { class: "prompt" });
  const body = el("span", { class: "committed" });
  const rest = el("span", { class: "rest" });
  const ghosts = createGhosts(at);
  const text = el("div", { class: "pane-text" }, prompt, body, ghosts.root, rest);
  const below = el("div", { "aria-hidden": "true", style: "block-size: 0px;" }); // padding that allows scrolling to a whole row
  const pane = el("div", { class: "pane", tabindex: 0, role: "group" }, text, below);
  const root = el("section", { class: "lane", "data-lane": at }, head, pane);

  /** @type {Round[]} */
  let shown = []; // the drawn rounds' models, in step with body's children
  /** @type {Repeats|null} */
  let repeats = null; // of the lane that is drawn, and the length of its text when its repeats were marked
  let length = 0;
  let following = true;
  let due = false; // whether the end of the text has moved
  let laid = ""; // the sizes for which the pane was last scrolled
  let padding = 0; // px of `below`
  /** @type {Element|null} */
  let lit = null;
  /** @type {Element|null} */
  let now = null;
  pane.addEventListener("scroll", () => {
    if (sizes() !== laid) return; // the text moved, not the viewer: the observer scrolls back to its end
    following = pane.scrollHeight - pane.scrollTop - pane.clientHeight < NEAR_END;
  }, { passive: true });
  const observer = new ResizeObserver(() => {
    if (sizes() === laid) return;
    due = true;
    settle()();
  });
  for (const part of [pane, text]) observer.observe(part);

  function sizes() {
    return `${pane.clientWidth} ${pane.clientHeight} ${text.offsetHeight}`;
  }

  /**
   * Where the pane shows only whole rows when scrolled at least to `low`; `low` itself if no row begins later.
   * @param {number} low
   */
  function wholeRow(low) {
    const from = pane.getBoundingClientRect().top + pane.clientTop - pane.scrollTop;
    const rounds = [...body.children];
    let first = Infinity;
    for (const part of [rest, ghosts.root, ...rounds.reverse(), prompt]) {
      const words = part.matches(".round, .draft") ? [...part.querySelectorAll(".tok, .guess")] : [part];
      const tops = words.flatMap((word) => [...word.getClientRects()]).filter((box) => box.width > 0).map((box) => box.top - from - ABOVE);
      first = Math.min(first, ...tops.filter((top) => top >= low));
      if (tops.some((top) => top < low)) break; // everything before it is higher
    }
    return first === Infinity ? low : first;
  }

  /**
   * Where to scroll as requested while drawing. Reading makes the browser lay out what was drawn, so that every lane is
   * read before one is changed.
   * @returns {() => void} scrolls there
   */
  function settle() {
    if (!due) return () => {};
    due = false;
    laid = sizes();
    if (!following || !pane.clientHeight) return () => {};
    const low = pane.scrollHeight - padding - pane.clientHeight;
    const top = low > 0 ? wholeRow(low) : 0;
    return () => {
      const wanted = low > 0 && top > low ? Math.ceil(top - low) + 1 : 0;
      if (wanted !== padding) below.style.blockSize = `${wanted}px`;
      padding = wanted;
      pane.scrollTop = top;
    };
  }

  /**
   * Mark the repeats in the drawn text. Only tokens that are new or whose mark changes are visited.
   * @param {Repeats} found
   * @param {number} same how many rounds are drawn as before
   */
  function setRepeats(found, same) {
    const now = shown.at(-1)?.total ?? 0;
    const from = found === repeats ? Math.min(found.first(length, now), shown[same - 1]?.total ?? 0) : 0;
    repeats = found;
    length = now;
    for (let index = shown.length - 1; index >= 0 && shown[index].total > from; index -= 1) {
      const box = body.children[index];
      box.querySelectorAll(".loop").forEach((note) => note.remove());
      const begin = shown[index].total - shown[index].tokens.length;
      box.querySelectorAll(".tok").forEach((chip, at) => {
        const again = found.marked(begin + at, now);
        chip.classList.toggle("again", again);
        if (!again || found.marked(begin + at - 1, now)) return;
        const unit = unitOf(chip);
        unit.before(el("span", { class: "loop", role: "note", "aria-label": T.againFrom, title: T.againFrom }, T.again));
      });
    }
  }

  /** @param {Round[]} rounds @param {string} given @param {Repeats} found */
  function setRounds(rounds, given, found) {
    let same = 0; // usually the same objects; those of a finished record are compared, so that none is drawn twice
    while (same < shown.length && same < rounds.length && alike(shown[same], rounds[same])) same += 1;
    while (body.children.length > same) body.lastChild?.remove();
    if (rounds.length > same) {
      const added = document.createDocumentFragment();
      for (let index = same; index < rounds.length; index += 1) added.append(drawRound(at, rounds[index], rounds[index - 1]?.tokens.at(-1)?.text ?? given));
      body.append(added);
    }
    for (let index = Math.max(0, same - 1); index < rounds.length; index += 1) spread(body.children[index], rounds[index], rounds[index + 1]);
    const changed = shown.length !== rounds.length || same < rounds.length;
    shown = rounds.slice();
    setRepeats(found, same);
    return changed;
  }

  /** @param {Selection|null} selection @param {boolean} chosen @param {number|null} current */
  function light(selection, chosen, current) {
    lit?.classList.remove("selected", "focused");
    lit?.removeAttribute("aria-current");
    now?.classList.remove("now");
    now = current === null ? null : (body.children[current] ?? null);
    now?.classList.add("now");
    lit = selection && selection.lane === at
      ? ((body.children[selection.round] ?? ghosts.root).querySelector(`[data-node="${selection.node}"]`))
      : null;
    lit?.classList.add(chosen ? "selected" : "focused");
    if (chosen) lit?.setAttribute("aria-current", "true");
  }

  /**
   * Mark the token at which the text departs from the baseline's.
   * @param {Fork|null} fork
   * @param {string} baseline
   */
  function part(fork, baseline) {
    const token = fork && body.children[fork.round]?.querySelectorAll(".tok")[fork.at];
    const before = token && unitOf(token);
    if (!before) forkMark.remove();
    else if (forkMark.nextSibling !== before) {
      const words = T.fork(baseline);
      forkMark.setAttribute("aria-label", words);
      forkMark.setAttribute("title", words);
      before.before(forkMark);
    }
  }

  /** @param {LaneView} view @param {{baseline?: string}} marks */
  function showHead(view, { baseline = "" }) {
    setText(name, view.lane.label);
    button.setAttribute("title", T.lead(view.lane.label, at + 1));
    setText(numbers.ratio, view.speedup === null ? "" : T.ratio(view.speedup));
    ratio.hidden = view.speedup === null;
    setText(sure(ratio.lastChild), ratio.hidden ? "" : baseline);
    ratio.setAttribute("title", T.ratioOf(baseline));
    pane.setAttribute("aria-label", T.lane(view.lane.label));
    setText(ended, view.end ? (T.ends[view.end] ?? "") : view.tokens ? T.soFar : "");
    setText(numbers.rate, view.rate === null ? T.none : T.rateOf(view.rate));
    setText(numbers.tokens, String(view.tokens));
    setText(numbers.unit, T.tokens(view.tokens));
    setText(numbers.clock, view.lane.untimed ? T.none : T.clockOf(view.clock));
    setText(repeated, view.repeated ? T.repeats(view.repeated, view.tokens) : "");
  }

  return {
    root,
    /**
     * @param {boolean} leads
     * @param {boolean} several whether there are other lanes, so that leading can be chosen
     */
    lead(leads, several) {
      root.classList.toggle("leads", leads && several);
      button.setAttribute("aria-pressed", String(leads));
      if (several === (name.parentNode === button)) return;
      if (several) button.append(name);
      label.replaceChildren(several ? button : name);
    },
    /**
     * @param {LaneView} view
     * @param {{focus?: Selection|null, chosen?: boolean, current?: number|null, baseline?: string,
     *   drafting?: Round|null, checked?: boolean, only?: boolean}} [marks] `baseline` is the label of the baseline lane for
     *   speed and text; `drafting` is the round in progress, `checked` whether the target has read its guesses; `only` the
     *   text is drawn, as often as it grows
     */
    show(view, marks = {}) {
      if (!marks.only) showHead(view, marks);
      const given = view.lane.prompt;
      setText(prompt, given.length > PROMPT_SHOWN ? `…${given.slice(-PROMPT_SHOWN)}` : given);
      if (setRounds(view.rounds, given, view.lane.repeats)) due = true;
      if (ghosts.show(marks.drafting ?? null, marks.checked ?? false)) due = true;
      setText(rest, view.rest);
      light(marks.focus ?? null, marks.chosen ?? false, marks.current ?? null);
      part(view.fork, marks.baseline ?? "");
    },
    settle,
    /** Follow the end of the text again, e.g. because the viewer stepped. */
    follow() {
      following = due = true;
    },
    /** Bring the lit token into the pane, without moving the page. */
    reveal() {
      if (!lit) return;
      const token = lit.getBoundingClientRect();
      const frame = pane.getBoundingClientRect();
      if (token.top < frame.top) pane.scrollTop -= frame.top - token.top + ABOVE;
      else if (token.bottom > frame.bottom) pane.scrollTop = wholeRow(pane.scrollTop + token.bottom - frame.bottom + ABOVE);
    },
  };
}
