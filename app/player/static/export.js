/**
 * The player in a page of its own, opened from disk or in a notebook: the page contains the traces, nothing is fetched.
 * app/export/ makes such pages; in the app this module is not used.
 */

/** @import { Data } from "./feed/source.js" */

import { el, setText } from "./dom/dom.js";
import { mount } from "./player.js";
import { nonNull } from "./dom/non_null.js";
import { PAGE } from "./text/text.js";

const WHOLE = /^-?\d{1,6}$/;
const LAST = 999_999; // a page that may be printed opens at the end of the text
const WORD = /^[a-z]{1,12}$/;

/** Draw the traces in this page, and keep the cursor in its address. */
export async function openPage() {
  const host = nonNull(document.getElementById("player"));
  const shadow = host.attachShadow({ mode: "open" });
  const root = el("div", {});
  const style = el("style");
  style.textContent = nonNull(document.getElementById("player-style")).textContent;
  shadow.append(style, root);
  const notice = nonNull(document.getElementById("notice"));
  /** @type {string[]} */
  let texts;
  /** @type {Data} */
  let data;
  try {
    texts = await Promise.all(
      [.../** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".trace"))].map(textOf),
    );
    const { labels, ...settings } = JSON.parse(nonNull(document.getElementById("settings")).textContent);
    data = { ...settings, traces: texts.map((text, at) => ({ label: labels[at], trace: JSON.parse(text) })) };
  } catch {
    setText(
      notice,
      document.querySelector("[data-packed]") && !window.DecompressionStream ? PAGE.old : PAGE.damaged,
    );
    return;
  }
  notice.remove();

  let ownHash = "";
  const at = () => ({
    ...data,
    cursor: { ...data.cursor, round: data.cursor?.round ?? LAST, ...cursorIn(location.hash) },
  });
  const player = mount(root, at(), {
    setStateValue(name, value) {
      if (name !== "cursor") return;
      ownHash = hashOf(value);
      try {
        history.replaceState(null, "", ownHash);
      } catch {
        // a frame without an address of its own
      }
      player.update(at()); // handed back, as a page does, so that a link to an earlier place works
    },
    setTriggerValue() {},
  });
  addEventListener("hashchange", () => location.hash !== ownHash && player.update(at()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => player.update(at()));
  addSaving(
    data.traces.map((ref) => ref.label),
    texts,
  );
  addPrinting(shadow, () => player.update(at()));
}

/**
 * A trace's JSON as written, unpacked if it was packed.
 * @param {HTMLElement} element
 */
async function textOf(element) {
  if (!element.dataset.packed) return element.textContent;
  const bytes = Uint8Array.from(atob(JSON.parse(element.textContent)), (sign) => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

/**
 * Parse `#round=3&view=mask`: whole numbers and words; the player ignores what it does not know.
 * @param {string} hash
 */
function cursorIn(hash) {
  const given = [...new URLSearchParams(hash.slice(1))].filter(
    ([, text]) => WHOLE.test(text) || WORD.test(text),
  );
  return Object.fromEntries(given.map(([name, text]) => [name, WHOLE.test(text) ? Number(text) : text]));
}

/** @param {object} cursor */
function hashOf(cursor) {
  const parts = Object.entries(cursor).filter(
    ([, value]) => value !== null && (WHOLE.test(value) || WORD.test(value)),
  );
  return `#${new URLSearchParams(parts.map(([name, value]) => [name, String(value)]))}`;
}

/** @param {string[]} labels @param {string[]} texts */
function addSaving(labels, texts) {
  const box = nonNull(document.getElementById("saving"));
  labels.forEach((label, at) => {
    const button = el("button", { type: "button" }, PAGE.save(label));
    button.onclick = () => {
      const link = el("a", {
        href: URL.createObjectURL(new Blob([texts[at]], { type: "application/json" })),
        download: `specdec-trace-${at + 1}.json`,
      });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
    };
    box.append(button);
  });
}

/**
 * For printing everything is unfolded, and light.
 * @param {ShadowRoot} shadow
 * @param {() => void} redraw
 */
function addPrinting(shadow, redraw) {
  /** @type {HTMLDetailsElement[]} */
  const folded = [];
  addEventListener("beforeprint", () => {
    shadow.querySelector(".player")?.setAttribute("data-theme", "light");
    for (const details of /** @type {NodeListOf<HTMLDetailsElement>} */ (
      document.querySelectorAll("details:not([open])")
    )) {
      details.open = true;
      folded.push(details);
    }
  });
  addEventListener("afterprint", () => {
    for (const details of folded.splice(0)) details.open = false;
    redraw();
  });
}
