/**
 * What is chosen on the page: the form's fields, and the same in the address after the #, so that a link is a run.
 *
 * @import { Wanted } from "../engine/lane.js"
 * @typedef {Omit<Wanted, "draft_length"|"max_new_tokens"> & {prompt: string, gamma: number, tokens: number, plain: boolean}} Choices
 */

import { say } from "./words.js";

const NAMES = /** @type {const} */ (["prompt", "proposer", "rule", "temperature", "gamma", "seed", "tokens"]);
const HALF = /\p{Surrogate}/gu; // of a character
const MOST_PROMPT = 4_000; // characters

/** @param {HTMLFormElement} form @param {string} name */
const field = (form, name) => /** @type {HTMLInputElement|HTMLSelectElement} */ (form.elements.namedItem(name));

/** A number of a field, kept in its range. @param {HTMLFormElement} form @param {string} name */
function number(form, name) {
  const input = /** @type {HTMLInputElement} */ (field(form, name));
  const given = input.value.trim() === "" ? Number.NaN : Number(input.value);
  const usual = Number(input.defaultValue);
  const whole = input.step === "1" ? Math.round(given) : given;
  return Number.isFinite(whole) ? Math.min(Number(input.max), Math.max(Number(input.min), whole)) : usual;
}

/** @param {HTMLFormElement} form @returns {Choices} */
export function chosen(form) {
  const temperature = number(form, "temperature");
  return {
    prompt: field(form, "prompt").value.slice(0, MOST_PROMPT).replace(HALF, ""),
    proposer: field(form, "proposer").value,
    rule: field(form, "rule").value,
    temperature: temperature > 0 ? Math.max(0.01, temperature) : 0,
    gamma: number(form, "gamma"),
    seed: number(form, "seed"),
    tokens: number(form, "tokens"),
    plain: /** @type {HTMLInputElement} */ (field(form, "plain")).checked,
  };
}

/** @param {Choices} choices @returns {Wanted[]} the lanes, plain decoding first */
export function lanes({ proposer, rule, temperature, gamma, seed, tokens, plain }) {
  const same = { rule, draft_length: gamma, max_new_tokens: tokens, temperature, seed };
  const one = (/** @type {string} */ who) => ({ proposer: who, ...same });
  return plain && proposer !== "none" ? [one("none"), one(proposer)] : [one(proposer)];
}

/** Why these cannot be run, as a sentence. @param {Choices} choices @returns {string|null} */
export function refused({ rule, temperature, proposer }) {
  if (rule === "exact-match" && temperature > 0 && proposer !== "none")
    return say(
      "Exact match keeps only the model's most likely token, so it needs temperature 0, and the temperature is {temperature}. Set it to 0 or choose speculative sampling.",
      { temperature },
    );
  return null;
}

/** @param {Choices} choices @returns {string} what goes after the # */
export function linked(choices) {
  const parts = new URLSearchParams();
  for (const name of NAMES) parts.set(name, String(choices[name]));
  if (!choices.plain) parts.set("plain", "0");
  return `#${parts}`;
}

/** Put what a link says into the form; what it does not know or understand stays. @param {HTMLFormElement} form @param {string} hash */
export function fill(form, hash) {
  const parts = new URLSearchParams(hash.slice(1));
  for (const name of NAMES) {
    const given = parts.get(name);
    if (given === null) continue;
    const input = field(form, name);
    if (input instanceof HTMLSelectElement) {
      if ([...input.options].some(({ value }) => value === given)) input.value = given;
    } else input.value = given.slice(0, MOST_PROMPT);
    if (input.type === "number") input.value = String(number(form, name));
  }
  if (parts.get("plain") === "0") /** @type {HTMLInputElement} */ (field(form, "plain")).checked = false;
  return parts.has("prompt");
}
