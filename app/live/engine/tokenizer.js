/**
 * Byte-level BPE with single digits, as the models' tokenizer.json describes it, and the text of each token.
 *
 * @typedef {{tokens: string[], merges: [string, string][], special: string}} Vocabulary `special`: the one added token
 */

/** A digit is a word of its own, and white space before one stays whole, as at the text's end. */
const PARTS =
  /\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?=\p{N}|$)|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;
const BROKEN = "\ufffd"; // for bytes that are no whole character
const CONTEXT = 6; // tokens before a piece that its text may depend on

/** Of byte-level BPE: the visible character of every byte. */
function characters() {
  const visible = (/** @type {number} */ byte) => (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad);
  let hidden = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(visible(byte) ? byte : hidden++));
}

export class Tokenizer {
  #decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  #encoder = new TextEncoder();
  #characters = characters();
  /** @type {Map<string, number[]>} */
  #words = new Map();

  /** @param {Vocabulary} vocabulary */
  constructor({ tokens, merges, special }) {
    this.special = tokens.indexOf(special);
    this.name = special;
    /** @type {Map<string, number>} */
    this.ids = new Map(tokens.map((token, id) => [token, id]));
    this.ranks = new Map(merges.map(([left, right], rank) => [`${left} ${right}`, rank]));
    const byte = new Map(this.#characters.map((sign, value) => [sign, value]));
    /** The bytes that each token writes. */
    this.bytes = tokens.map((token, id) =>
      id === this.special ? new Uint8Array() : Uint8Array.from(token, (sign) => byte.get(sign) ?? 0),
    );
  }

  /** @param {string} text well-formed @returns {number[]} */
  encode(text) {
    const ids = [];
    for (const [at, part] of text.split(this.name).entries()) {
      if (at) ids.push(this.special);
      for (const [word] of part.matchAll(PARTS)) ids.push(...this.#word(word));
    }
    return ids;
  }

  /** @param {string} word */
  #word(word) {
    const known = this.#words.get(word);
    if (known) return known;
    let parts = Array.from(this.#encoder.encode(word), (byte) => this.#characters[byte]);
    for (;;) {
      let least = Number.POSITIVE_INFINITY;
      for (let at = 1; at < parts.length; at++)
        least = Math.min(least, this.ranks.get(`${parts[at - 1]} ${parts[at]}`) ?? least);
      if (least === Number.POSITIVE_INFINITY) break;
      /** @type {string[]} */
      const merged = [];
      for (let at = 0; at < parts.length; at++) {
        const pair = at + 1 < parts.length && this.ranks.get(`${parts[at]} ${parts[at + 1]}`) === least;
        merged.push(pair ? parts[at] + parts[++at] : parts[at]);
      }
      parts = merged;
    }
    const ids = parts.map((part) => this.ids.get(part) ?? this.special);
    if (this.#words.size < 100_000 && word.length < 64) this.#words.set(word, ids);
    return ids;
  }

  /** @param {number[]} ids @returns {string} their text, the special token left out */
  decode(ids) {
    const bytes = new Uint8Array(ids.reduce((sum, id) => sum + this.bytes[id].length, 0));
    let at = 0;
    for (const id of ids) {
      bytes.set(this.bytes[id], at);
      at += this.bytes[id].length;
    }
    return this.#decoder.decode(bytes);
  }

  /** @param {number[]} ids @returns {string[]} each token on its own, for display; bytes as ⟨0xE2⟩ */
  names(ids) {
    return ids.map((id) => {
      if (id === this.special) return this.name;
      const text = this.decode([id]);
      const hex = (/** @type {number} */ byte) => `⟨0x${byte.toString(16).toUpperCase().padStart(2, "0")}⟩`;
      return text.includes(BROKEN) ? Array.from(this.bytes[id], hex).join("") : text;
    });
  }

  /** Ids that append what was typed to the text of `tokens`, exactly where that is possible. @param {number[]} tokens @param {string} typed */
  continuation(tokens, typed) {
    for (const before of [this.decode(tokens), "\n"]) {
      const head = this.encode(before);
      const whole = this.encode(before + typed);
      if (head.every((id, at) => id === whole[at])) return whole.slice(head.length);
    }
    return this.encode(typed);
  }
}

/** The text that each token adds; bytes of a split character wait. */
export class Pieces {
  start = 0;

  /** @param {Tokenizer} tokenizer @param {number[]} prompt */
  constructor(tokenizer, prompt) {
    this.tokenizer = tokenizer;
    this.ids = prompt.slice(-CONTEXT);
    this.read = this.ids.length;
    this.before = tokenizer.decode(this.ids);
  }

  /** @param {number} token */
  push(token) {
    this.ids.push(token);
    const text = this.tokenizer.decode(this.ids.slice(this.start));
    if (text.endsWith(BROKEN) && this.ids.length - this.read < CONTEXT) return "";
    const piece = text.slice(this.before.length);
    const start = this.read;
    this.read = this.ids.length;
    const later = this.tokenizer.decode(this.ids.slice(start));
    if (later) [this.start, this.before] = [start, later];
    else this.before = text;
    return piece;
  }

  /** Marks for bytes that never became a character. */
  rest() {
    return this.tokenizer.decode(this.ids.slice(this.start)).slice(this.before.length);
  }
}
