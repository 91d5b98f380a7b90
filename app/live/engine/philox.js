/**
 * Random numbers keyed by (seed, stream, round), as the decoder draws them: Philox 4×64 of ten rounds, numpy's. So a seed
 * means the same run here and there.
 */

export const DRAFTING = 0; // draws a proposed token from q
export const COINS = 1; // accepts or rejects a proposed token
export const CORRECTION = 2; // draws the corrected or bonus token

const WORD = (1n << 64n) - 1n;
const FACTORS = [0xd2e7470ee14c6c93n, 0xca5a826395121157n];
const STEPS = [0x9e3779b97f4a7c15n, 0xbb67ae8584caa73bn];

/** @param {bigint[]} counter four words @param {bigint} key the first of two; the second is 0 */
function block(counter, key) {
  let [a, b, c, d] = counter;
  let [first, second] = [key, 0n];
  for (let turn = 0; turn < 10; turn++) {
    const left = FACTORS[0] * a;
    const right = FACTORS[1] * c;
    [a, b, c, d] = [(right >> 64n) ^ b ^ first, right & WORD, (left >> 64n) ^ d ^ second, left & WORD];
    [first, second] = [(first + STEPS[0]) & WORD, (second + STEPS[1]) & WORD];
  }
  return [a, b, c, d];
}

/**
 * The first `count` numbers of a round's stream, in [0, 1); number i belongs to node i.
 * @param {number} seed
 * @param {number} stream
 * @param {number} round
 * @param {number} count
 */
export function uniforms(seed, stream, round, count) {
  /** @type {number[]} */
  const numbers = [];
  for (let at = 1n; numbers.length < count; at++) {
    const words = block([at, BigInt(round), BigInt(stream), 0n], BigInt(seed));
    numbers.push(...words.map((word) => Number(word >> 11n) / 2 ** 53));
  }
  return numbers.slice(0, count);
}
