/**
 * Who guesses. Each proposes a tree for a round and then sees what became of it.
 *
 * @import { Reader } from "./model.js"
 * @import { Proposal } from "./tree.js"
 * @import { Tokenizer } from "./tokenizer.js"
 * @typedef {{tokens: number[], temperature: number, seed: number, round: number, length: number, limit: number}} Context
 *   `tokens`: prompt and committed ones, the last of which is the root; `length`: levels to draft; `limit`: the deepest useful one
 * @typedef {{draft: Reader, tokenizer: Tokenizer, ask: (text: string) => Promise<string>}} Resources
 * @typedef {{start: (tokens: number[]) => void, propose: (context: Context) => Proposal|Promise<Proposal>,
 *   observe: (context: Context, path: number[], tokens: number[]) => void}} Proposer
 */

import { branching } from "./branching.js";
import { DRAFTING, uniforms } from "./philox.js";
import { draw } from "./sampling.js";
import { nothing, TokenTree } from "./tree.js";

const MAX_NGRAM = 3; // of prompt lookup
const MAX_TYPED = 64; // tokens of an answer
const MAX_CHARACTERS = 2_000;

/** Plain decoding. @returns {Proposer} */
const none = () => ({ start() {}, propose: () => nothing(), observe() {} });

/** A small model writes a chain (Leviathan et al. 2023). @param {Resources} resources @returns {Proposer} */
function draftModel({ draft }) {
  let read = 0; // rows of the draft after drafting
  return {
    start: (tokens) => draft.step(tokens.slice(0, -1)),
    propose({ tokens, length, temperature, seed, round }) {
      const numbers = temperature ? uniforms(seed, DRAFTING, round, length) : [];
      /** @type {number[]} */
      const chain = [];
      /** @type {Float32Array[]} */
      const q = [];
      let unread = tokens.slice(draft.length);
      for (let at = 0; at < length; at++) {
        draft.step(unread, at);
        if (temperature) q.push(draft.probabilities(at, temperature));
        chain.push(temperature ? draw(q[at], numbers[at]) : draft.best(at));
        unread = chain.slice(-1);
      }
      read = draft.length;
      if (!length) return nothing();
      return nothing({ tree: new TokenTree(chain), q: temperature ? q : null, draft: true, passes: length });
    },
    observe: ({ tokens }, path, added) =>
      draft.rewind(Math.min(draft.length, read, tokens.length - added.length + path.length)),
  };
}

/** What followed the last few tokens earlier in the text (Saxena 2023). @returns {Proposer} */
function promptLookup() {
  /** @type {number[]} */
  const text = [];
  /** @type {Map<string, number[]>} */
  const followers = new Map();
  /** @param {number[]} added */
  function index(added) {
    const begin = text.length;
    text.push(...added);
    for (let at = Math.max(1, begin); at < text.length; at++) {
      for (let size = 1; size <= Math.min(MAX_NGRAM, at); size++) {
        const key = String(text.slice(at - size, at));
        const places = followers.get(key);
        if (places) places.push(at);
        else followers.set(key, [at]);
      }
    }
  }
  return {
    start: (tokens) => index(tokens),
    propose({ length }) {
      for (let size = Math.min(MAX_NGRAM, text.length - 1); size > 0; size--) {
        const places = followers.get(String(text.slice(-size)));
        const start = places?.at(-1);
        if (!places || start === undefined) continue;
        const copied = text.slice(start, start + length);
        if (copied.length < Math.min(1, length)) break;
        const note = { match_start: start - size, match_length: size, copied: copied.length, matches: places.length };
        return nothing({ tree: new TokenTree(copied), note });
      }
      return nothing({ note: { match_start: null } });
    },
    observe: (_, __, added) => index(added),
  };
}

/** A person types the next words. @param {Resources} resources @returns {Proposer} */
function you({ tokenizer, ask }) {
  return {
    start() {},
    async propose({ tokens, limit }) {
      const most = Math.min(MAX_TYPED, limit);
      if (most <= 0) return nothing();
      const began = performance.now();
      const answer = await ask(tokenizer.decode(tokens));
      const waited = (performance.now() - began) / 1000;
      const typed = answer.slice(0, MAX_CHARACTERS).replace(/\p{Surrogate}/gu, "");
      const ids = typed ? tokenizer.continuation(tokens, typed) : [];
      const note = { typed: typed.slice(0, 500), left_out: Math.max(0, ids.length - most) };
      return nothing({ tree: new TokenTree(ids.slice(0, most)), waited, note });
    },
    observe() {},
  };
}

/** @type {Record<string, (resources: Resources) => Proposer>} */
export const PROPOSERS = { none, "draft-model": draftModel, "prompt-lookup": promptLookup, branching, you };
