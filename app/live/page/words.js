/** What the page says, in its language: English sentences are here in the code, others by their English (de.toml). */

import { textOf } from "./embedded.js";

/** @type {Record<string, string>} */
const WORDS = JSON.parse(textOf("about")).words;

/** @param {string} text @param {Record<string, string|number>} [values] of its names in braces */
export const say = (text, values = {}) =>
  (WORDS[text] ?? text).replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
