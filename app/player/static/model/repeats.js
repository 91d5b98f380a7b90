/**
 * Which tokens of a text repeat, word for word, an earlier part of it: as defined in `specdec_measure/records/repeats.py`.
 *
 * Repeats depend on the text so far alone. So every token is checked once, as it arrives, and the marks at
 * any earlier place of the cursor are known, too.
 */

const RUN = 16; // tokens, as in specdec_measure/records/repeats.py

/**
 * @typedef {{add: (id: unknown, text: string) => void, marked: (at: number, length: number) => boolean, count: (length: number) => number,
 *   first: (one: number, other: number) => number}} Repeats `marked`: whether token `at` repeats in a text of `length` tokens;
 *   `count`: how many do; `first`: the first token on which texts of two lengths may differ
 */

/**
 * @param {string} prompt runs that it has as often are copies of it, and do not count as repeats
 * @returns {Repeats}
 */
export function createRepeats(prompt) {
  /** @type {unknown[]} */
  const ids = [];
  /** @type {string[]} */
  const texts = [];
  /** @type {number[]} by token: the length of the text from which on it repeats; Infinity where it never does */
  const since = [];
  const counts = [0]; // by length: how many tokens repeat
  const found = [Infinity]; // by length: the first token that repeats from that length on
  /** @type {Map<string, {times: number, allowed: number|null}>} a run's ids → how often the text has it, and how often it may */
  const runs = new Map();

  /** Whether the run that ends the text now repeats. */
  function repeats() {
    const key = ids.slice(-RUN).join(" ");
    const run = runs.get(key);
    if (!run) {
      runs.set(key, { times: 1, allowed: null });
      return false;
    }
    run.times += 1;
    run.allowed ??= occurrences(texts.slice(-RUN).join(""), prompt);
    return run.times > run.allowed;
  }

  return {
    add(id, text) {
      ids.push(id);
      texts.push(text);
      since.push(Infinity);
      const length = ids.length;
      let count = counts[length - 1];
      let first = Infinity;
      if (length >= RUN && repeats()) {
        for (let at = length - 1; at >= length - RUN && since[at] === Infinity; at -= 1) {
          since[at] = length;
          first = at;
          count += 1;
        }
      }
      counts.push(count);
      found.push(first);
    },
    marked: (at, length) => since[at] <= length,
    count: (length) => counts[Math.min(length, counts.length - 1)],
    first(one, other) {
      let first = Math.min(one, other);
      for (let length = first + 1; length <= Math.max(one, other); length += 1)
        first = Math.min(first, found[length] ?? Infinity);
      return first;
    },
  };
}

/**
 * How often a text occurs in the prompt, ignoring spaces around it; occurrences may overlap.
 * @param {string} text
 * @param {string} prompt
 */
function occurrences(text, prompt) {
  const bare = text.trim() || text;
  let times = 0;
  for (let at = bare ? prompt.indexOf(bare) : -1; at >= 0; at = prompt.indexOf(bare, at + 1)) times += 1;
  return times;
}
