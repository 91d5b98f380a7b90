/** The runs that go on from each other, each with a token that the viewer forced: one can go back to each of them. */

/** @import { Data } from "../feed/source.js" */

import { el } from "../dom/dom.js";
import { quote, T } from "../text/text.js";

/** @param {(run: string) => void} back called with the run that the viewer wants to see again */
export function createTrail(back) {
  const root = el("div", { class: "runs", role: "group", "aria-label": T.trail, hidden: true });
  let drawn = "";
  return {
    root,
    /** @param {Pick<Data, "trail">} data */
    show({ trail = [] }) {
      const wanted = JSON.stringify(trail);
      if (wanted === drawn) return;
      drawn = wanted;
      root.hidden = trail.length < 2;
      const buttons = trail.map(({ run, text, shown }) => {
        const name = text === null ? T.firstRun : `⤷ ${quote(text)}`;
        const button = el("button", { type: "button", class: "tab", "aria-pressed": String(shown) }, name);
        button.onclick = () => shown || back(run);
        return button;
      });
      root.replaceChildren(...buttons);
    },
  };
}
