/** Drafting during the target's pass: how long it took, and how much of it was wasted. */

/**
 * @import { Phases, RoundRecord } from "../../types.js"
 * @import { Scene } from "./proposer_view.js"
 */

import { el } from "../dom/dom.js";
import { number } from "../model/model.js";
import { knows } from "../model/moments.js";
import { flat, MARK, quote, seconds, VERDICT } from "../text/text.js";
import { W } from "../text/text_proposer.js";

const MOST = 64; // dropped tokens that are drawn

/** @param {Scene} scene */
export function drawAhead({ view, round, row, note }) {
  const taken = number(note.ahead) ?? number(note.ahead_levels);
  const made = [];
  if (taken)
    made.push(
      el("p", { class: "window-line" }, note.ahead === undefined ? W.aheadLevels(taken) : W.ahead(taken)),
    );
  if (!knows(view, "times")) return [...made, el("p", { class: "hint" }, W.aheadLater)];
  const lost = round.proposals.filter((item) => item.verdict === "discarded");
  const passes = number(row.ahead_passes) ?? 0;
  made.push(gantt(row, lost.length > 0));
  if (number(row.ahead_s)) made.push(el("p", { class: "note" }, W.clockIs));
  const drafted = passes ? W.draftedAhead(passes, seconds(number(row.ahead_s) ?? 0)) : W.nothingAhead;
  made.push(
    el("p", { class: "window-line" }, drafted, passes || lost.length ? ` ${W.aheadEnded(lost.length)}` : ""),
  );
  if (lost.length) {
    made.push(
      el(
        "ul",
        { class: "lost", "aria-label": W.lost, "data-round": round.index, "data-lane": view.lead },
        ...lost
          .slice(0, MOST)
          .map((item) =>
            el(
              "li",
              {
                class: "lost-token discarded",
                "data-node": item.node,
                title: `${quote(item.text)}: ${VERDICT.discarded}`,
              },
              el("span", { class: "mark", "aria-hidden": "true" }, MARK.discarded),
              flat(item.text),
            ),
          ),
        lost.length > MOST ? el("li", { class: "note" }, W.further(lost.length - MOST)) : null,
      ),
    );
  }
  return made;
}

/**
 * The round's draft and verify phases on one clock, with the drafting ahead below the pass it ran beside.
 * @param {RoundRecord} row
 * @param {boolean} lost
 */
function gantt(row, lost) {
  /** @param {keyof Phases} name */
  const time = (name) => Math.max(0, number(row[name]) ?? 0);
  const [draft, verify, ahead] = [time("draft_s"), time("verify_s"), time("ahead_s")];
  const whole = Math.max(draft + verify, draft + ahead, 1e-9);
  /** @param {string} name @param {number} from @param {number} length @param {string} [mark] */
  const bar = (name, from, length, mark) => {
    const part = el(
      "span",
      { class: `phase ${name}`, "data-seconds": length },
      mark ? el("span", { class: "phase-mark", "aria-hidden": "true" }, mark) : null,
    );
    part.style.insetInlineStart = `${(100 * from) / whole}%`;
    part.style.inlineSize = `${(100 * length) / whole}%`;
    return part;
  };
  const beside = ahead > 0 ? [bar(lost ? "gone" : "ahead", draft, ahead, lost ? MARK.discarded : "")] : [];
  /** @param {string} name @param {string} words @param {...HTMLElement} parts */
  const line = (name, words, ...parts) => [
    el("dt", {}, name),
    el(
      "dd",
      {},
      el("span", { class: "track", "aria-hidden": "true" }, ...parts),
      el("span", { class: "track-words" }, words),
    ),
  ];
  return el(
    "dl",
    { class: "gantt" },
    ...line(W.targetTrack, W.verifying(seconds(verify)), bar("verify", draft, verify)),
    ...line(
      W.draftTrack,
      W.drafting(seconds(draft), seconds(ahead), lost),
      bar("draft", 0, draft),
      ...beside,
    ),
  );
}
