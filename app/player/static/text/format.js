/** Messages as texts: their values, how these are written, and the form that the language has for them. */

import { MESSAGES } from "./messages.js";
import { apart as plainApart, below as plainBelow, flat, prob as plainProb } from "./signs.js";

/** @typedef {string|number|boolean|null|undefined} Value */
/**
 * @template {string} S
 * @typedef {S extends `${string}, ${infer Rest}` ? [Value, ...Args<Rest>] : [Value]} Args
 */
/**
 * Of messages: a text by its name, or a function of the values that its key has in brackets.
 * @template M
 * @typedef {M extends string ? string : M extends readonly unknown[] ? M : {
 *   [K in keyof M & string as K extends `${infer Name}(${string}` ? Name : K]:
 *     K extends `${string}(${infer S})` ? (...given: Args<S>) => string : Texts<M[K]> }} Texts
 */

const PLURAL = new Intl.PluralRules(MESSAGES.language);
const ORDINAL = new Intl.PluralRules(MESSAGES.language, { type: "ordinal" });

/**
 * A number's text with the language's decimal mark.
 * @param {string} text
 */
export function decimal(text) {
  return text.replace(".", MESSAGES.decimal);
}

/** @param {number|null|undefined} value see signs.js, as the next two */
export function prob(value) {
  return decimal(plainProb(value));
}

/** @param {number} value @param {number} other */
export function apart(value, other) {
  return decimal(plainApart(value, other));
}

/** @param {number} bound */
export function below(bound) {
  return decimal(plainBelow(bound));
}

/**
 * Milliseconds below a second, else seconds, at a readable length.
 * @param {number} value
 */
export function seconds(value) {
  if (value >= 0.9995) return `${decimal(value.toFixed(2))} s`;
  return `${decimal((value * 1000).toFixed(value < 0.0995 ? 1 : 0))} ms`;
}

/**
 * A token's text in quotation marks, with its line breaks and tabs named; long ones are shortened.
 * @param {string} text
 */
export function quote(text) {
  if (text === "") return MESSAGES.partial;
  const named = flat(text);
  const short = (named.length > 40 ? `${named.slice(0, 38)}…` : named).replace(/^ /, "\u00a0");
  const alike = /^[.,:;\u0022\u0027\u0060]+$/.test(short); // apart from the marks that look like it
  return (alike ? MESSAGES.quotedMark : MESSAGES.quoted).replace("{text}", () => short);
}

/**
 * "= 0.250", or "< 0.001" if three decimals are not enough.
 * @param {string} text
 */
export function equals(text) {
  return /^[<>]/.test(text) ? text : `= ${text}`;
}

/** @type {Record<string, (value: any) => string>} */
const FORMATS = {
  prob,
  seconds,
  quote,
  equals: (value) => equals(prob(value)),
  decimal: (value) => decimal(String(value)),
  fixed1: (value) => decimal(value.toFixed(1)),
  fixed2: (value) => decimal(value.toFixed(2)),
  times: (value) => decimal(value.toFixed(value < 9.995 ? 2 : 1)),
  clock: (value) => decimal(value.toFixed(value < 10 ? 3 : 2)),
  ordinal: (value) =>
    `${value}${/** @type {Record<string, string>} */ (MESSAGES.ordinal)[ORDINAL.select(value)]}`,
};

/** @typedef {(given: Record<string, Value>) => string} Written */

/**
 * A message as a function of its values; its grammar is in messages.js.
 * @param {string} text
 * @returns {Written}
 */
function compile(text) {
  let at = 0;
  /** @param {RegExp} pattern sticky */
  const take = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (!found)
      throw new Error(
        `A message of the player is not readable from “${text.slice(at, at + 20)}” on: ${text}`,
      );
    at += found[0].length;
    return found;
  };

  /** Up to its end, or to the bracket that closes it. @returns {Written} */
  function message() {
    /** @type {(string|Written)[]} */
    const parts = [];
    while (at < text.length && text[at] !== "}") parts.push(text[at] === "{" ? value() : take(/[^{}]+/y)[0]);
    return (given) => parts.map((part) => (typeof part === "string" ? part : part(given))).join("");
  }

  /** @returns {Written} */
  function value() {
    const [, name, format] = take(/\{(\w+)(?::(\w+))?/y);
    if (text[at] === "}") {
      at += 1;
      return (given) => (format ? FORMATS[format](given[name]) : String(given[name] ?? ""));
    }
    /** @type {Map<string, Written>} */
    const cases = new Map();
    take(/,/y);
    while (text[at] !== "}") {
      const [, key] = take(/ ([\w=-]+) \{/y);
      cases.set(key, message());
      take(/\}/y);
    }
    at += 1;
    return (given) => caseOf(cases, given[name])?.(given) ?? "";
  }

  return message();
}

/**
 * @param {Map<string, Written>} cases
 * @param {Value} value
 */
function caseOf(cases, value) {
  if (cases.has("yes")) return cases.get(value ? "yes" : "no");
  const keys =
    value === null || value === undefined || value === ""
      ? ["none"]
      : typeof value === "number"
        ? [`=${value}`, PLURAL.select(value)]
        : [String(value)];
  const key = [...keys, "other"].find((each) => cases.has(each));
  return key === undefined ? undefined : cases.get(key);
}

/**
 * @template {object} M
 * @param {M} messages
 * @returns {Texts<M>}
 */
export function texts(messages) {
  const made = Object.entries(messages).map(([key, message]) => {
    const [name, given] = key.split("(");
    if (typeof message !== "string") return [name, Array.isArray(message) ? message : texts(message)];
    if (given === undefined) return [name, message];
    const names = given.slice(0, -1).split(", ");
    const write = compile(message);
    /** @param {Value[]} values */
    const written = (...values) => write(Object.fromEntries(names.map((each, at) => [each, values[at]])));
    return [name, written];
  });
  return Object.fromEntries(made);
}
