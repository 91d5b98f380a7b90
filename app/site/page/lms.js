/**
 * The page around the course in a SCORM 1.2 package. To the platform's API, if there is one, it reports what is locked in
 * the pages inside it, and keeps it there; without one it only shows them.
 *
 * @import { Keeper } from "./kept.js"
 * @typedef {Record<"LMSInitialize"|"LMSCommit"|"LMSFinish", (nothing: "") => unknown> & {
 *   LMSGetValue: (name: string) => string, LMSSetValue: (name: string, value: string) => unknown}} Api
 * @typedef {Window & {API?: Api, specdecKeeper?: Keeper}} Around
 */

import { nonNull } from "../../player/static/dom/non_null.js";
import { read } from "./kept.js";

/** The API of the nearest page around this one or the one that opened it. @returns {Api|undefined} */
function find() {
  for (const start of [window, window.opener]) {
    for (let at = /** @type {Around|null} */ (start); at; at = at.parent === at ? null : at.parent) {
      try {
        if (at.API) return at.API;
      } catch {
        break; // another site's page
      }
    }
  }
  return undefined;
}

/** @param {Api} api @param {number} lessons */
function report(api, lessons) {
  let text = api.LMSGetValue("cmi.suspend_data") || "{}";
  const tell = () => {
    const checks = Object.values(read(text)).flatMap((lesson) => lesson?.check ?? []);
    const right = checks.filter((check) => check.right).length;
    const values = {
      suspend_data: text,
      "core.lesson_status": checks.length < lessons ? "incomplete" : "completed",
      "core.score.min": "0",
      "core.score.max": "100",
      "core.score.raw": String(Math.round((100 * right) / lessons)),
      "core.exit": "suspend", // so that the platform gives back what it keeps
    };
    for (const [name, value] of Object.entries(values)) api.LMSSetValue(`cmi.${name}`, value);
    api.LMSCommit("");
  };
  const keeper = {
    getItem: () => text,
    setItem: (/** @type {string} */ _, /** @type {string} */ now) => {
      text = now;
      tell();
    },
  };
  /** @type {Around} */ (window).specdecKeeper = keeper;
  tell();
  window.addEventListener("pagehide", () => api.LMSFinish(""), { once: true });
}

export function open() {
  const frame = nonNull(document.querySelector("iframe"));
  const api = find();
  if (api && String(api.LMSInitialize("")) === "true") report(api, Number(frame.dataset.lessons));
  frame.src = nonNull(frame.dataset.course);
}
