/**
 * The loop: propose → verify → judge → commit, one lane with its clock and its record.
 *
 * @import { Message, Settings, Source, Step, Verdict } from "../../player/types.js"
 * @import { Model } from "./model.js"
 * @import { Proposal, TokenTree } from "./tree.js"
 * @import { Context } from "./proposers.js"
 * @import { Seen } from "./record.js"
 * @import { Decision } from "./rules.js"
 * @import { Tokenizer } from "./tokenizer.js"
 * @typedef {{target: Model, draft: Model, tokenizer: Tokenizer, machine: string, version: string, usual: Settings,
 *   titles: Record<string, string>}} Models `usual`: the settings that nobody chooses here
 * @typedef {Settings & {proposer: string, rule: string, draft_length: number, max_new_tokens: number, temperature: number,
 *   seed: number}} Wanted
 * @typedef {{branch: {trace: string, at: number, token: number}|null, prompt: string, ids: number[]}} Start `branch`: the run
 *   that this one continues, after how many of its tokens, and with which token in place of its own
 * @typedef {Decision & {tokens: number[], source: Source, final?: Float32Array, draw: number|null, coins: number[],
 *   p: Float32Array[]|null, q: Float32Array[]|null}} Judged
 */

import { Reader } from "./model.js";
import { COINS, CORRECTION, uniforms } from "./philox.js";
import { PROPOSERS } from "./proposers.js";
import { recorded } from "./record.js";
import { ending, RULES } from "./rules.js";
import { best, draw } from "./sampling.js";
import { Tally } from "./stats.js";
import { Pieces } from "./tokenizer.js";

const WIDEST = 65; // rows of a pass whose logits are wanted: the root and the longest answer of a person
const DRAFTED = ["draft-model", "branching"];
const now = () => performance.now() / 1000;

export class Lane {
  clock = 0; // seconds in its rounds
  prefill = 0;
  record = 0;
  /** @type {string|null} */
  end = null;
  /** @type {ReturnType<typeof recorded>[]} */
  rounds = [];
  /** @type {{ids: number[], texts: string[], offsets: number[], text: string}} */
  output = { ids: [], texts: [], offsets: [], text: "" };
  tally = new Tally();

  /** @param {Models} models @param {Start} start @param {Wanted} settings @param {number} number @param {(text: string) => Promise<string>} ask */
  constructor(models, start, settings, number, ask) {
    this.models = models;
    this.start = start;
    this.settings = settings;
    this.number = number;
    this.rule = RULES[settings.rule];
    this.tokens = start.ids.slice();
    this.pieces = new Pieces(models.tokenizer, start.ids);
    this.drafts = DRAFTED.includes(settings.proposer);
    const capacity = start.ids.length + settings.max_new_tokens + WIDEST;
    this.target = new Reader(models.target, capacity, WIDEST);
    this.draft = this.drafts ? new Reader(models.draft, capacity, WIDEST) : this.target;
    this.proposer = PROPOSERS[settings.proposer]({ draft: this.draft, tokenizer: models.tokenizer, ask });
  }

  /** Read the prompt without its last token, which is the first root. @returns {Message} */
  begin() {
    const began = now();
    this.target.step(this.tokens.slice(0, -1));
    this.proposer.start(this.tokens);
    this.prefill = now() - began;
    const { proposer, rule } = this.settings;
    const [root] = this.models.tokenizer.names(this.tokens.slice(-1));
    return { type: "started", lane: this.number, label: this.label(), proposer, rule, root };
  }

  label() {
    return this.settings.proposer === "none" ? "Plain" : this.models.titles[this.settings.proposer];
  }

  /** @returns {Context} */
  context() {
    const { settings, tokens, tally } = this;
    const left = settings.max_new_tokens - this.output.ids.length - 1;
    const limit = this.drafts ? Math.min(left, Math.max(0, this.models.draft.positions - tokens.length + 1)) : left;
    const length = Math.max(0, Math.min(settings.draft_length, limit));
    return { tokens, temperature: settings.temperature, seed: settings.seed, round: tally.passes, length, limit };
  }

  /** One round; none if it was cancelled while somebody was asked. @param {() => boolean} cancelled @returns {Promise<Step|null>} */
  async round(cancelled) {
    const { target, tokens } = this;
    const context = this.context();
    const before = target.length;
    let since = now();
    const proposal = await this.proposer.propose(context);
    if (cancelled()) return null;
    const seconds = [now() - since - proposal.waited];
    const lap = () => {
      const at = now();
      seconds.push(Math.max(0, at - since));
      since = at;
    };
    since = now();
    const { tree } = proposal;
    target.read([tokens[tokens.length - 1], ...tree.tokens], [-1, ...tree.parents.map((parent) => parent + 1)], 0);
    lap();
    const judged = this.judge(context, proposal);
    lap();
    const kept = this.add(judged.tokens.slice(0, context.limit + 1));
    since = now();
    const added = judged.tokens.slice(0, kept);
    const path = judged.path.slice(0, kept);
    target.keep([0, ...path.slice(0, kept - 1).map((node) => node + 1)]);
    tokens.push(...added);
    this.proposer.observe(context, path, added);
    lap();
    seconds[0] = Math.max(0, seconds[0]);
    return this.write(before, proposal, judged, added, path, seconds);
  }

  /** @param {Context} context @param {Proposal} proposal @returns {Judged} */
  judge({ seed, round, temperature }, { tree, q, draft, rows }) {
    const { rule, target } = this;
    const coins = uniforms(seed, COINS, round, tree.size);
    const places = Array.from({ length: tree.size + 1 }, (_, position) => position);
    const source = (/** @type {Decision} */ made) => (tree.children[ending(made)].length ? "corrected" : "bonus");
    if (!temperature && rule.greedy) {
      const most = places.map((position) => target.best(position));
      const made = rule.greedy(tree, most, coins);
      const tokens = [...made.path.map((node) => tree.tokens[node]), most[ending(made)]];
      return { ...made, coins, tokens, source: source(made), draw: null, p: null, q: null };
    }
    const p = places.map((position) => target.probabilities(position, temperature || 1));
    let from = q;
    if (!temperature && draft && tree.size) {
      from = tree.parents.map((parent) => this.draft.probabilities(rows ? rows[parent + 1] : parent + 1, 1));
    }
    const made = rule.judge({ tree, coins, p, q: from });
    const number = temperature ? uniforms(seed, CORRECTION, round, 1)[0] : null;
    const last = number === null ? best(made.final) : draw(made.final, number);
    const tokens = [...made.path.map((node) => tree.tokens[node]), last];
    return { ...made, coins, tokens, source: source(made), draw: number, p, q: from };
  }

  /** Add tokens to the text up to its end. @param {number[]} tokens @returns {number} how many */
  add(tokens) {
    const { output, settings } = this;
    for (const [at, token] of tokens.entries()) {
      const piece = this.pieces.push(token);
      output.ids.push(token);
      output.texts.push(piece);
      output.offsets.push(Array.from(output.text).length);
      output.text += piece;
      if (token === this.models.tokenizer.special) this.end = "eos";
      else if (output.ids.length === settings.max_new_tokens) this.end = "length";
      if (this.end) return at + 1;
    }
    return tokens.length;
  }

  /** Write the round down. @param {number} before @param {Proposal} proposal @param {Judged} judged @param {number[]} added @param {number[]} path @param {number[]} seconds @returns {Step} */
  write(before, proposal, judged, added, path, seconds) {
    const began = now();
    const { tree } = proposal;
    const sources = added.map((_, at) => (at < path.length ? "accepted" : tree.size ? judged.source : "plain"));
    /** @type {Seen} */
    const seen = {
      ...judged,
      decision: judged,
      index: this.tally.passes,
      start: this.clock,
      seconds,
      cache: [before, this.target.length],
      proposal,
      verdicts: cut(tree, judged, added.length),
      tokens: added,
      sources: /** @type {Source[]} */ (sources),
      temperature: this.settings.temperature,
    };
    const row = recorded(seen, this.target, this.draft);
    this.rounds.push(row);
    this.tally.add(tree, row.nodes.verdict, added.length, proposal.passes, seconds);
    this.clock = this.tally.clock;
    this.record += now() - began;
    const { tokenizer } = this.models;
    const { start_s, draft_s, verify_s, judge_s, commit_s } = row;
    return {
      type: "step",
      lane: this.number,
      clock_s: this.clock,
      tokens: added,
      texts: this.output.texts.slice(-added.length),
      sources: row.committed.source,
      parent: row.nodes.parent,
      node_texts: tokenizer.names(row.nodes.token),
      names: tokenizer.names(added),
      verdict: row.nodes.verdict,
      ...{ start_s, draft_s, verify_s, judge_s, commit_s },
    };
  }

  /** The whole record. @param {{id: string, lane: number, lanes: number}|null} race */
  trace(race) {
    const { models, output, settings, start, rounds } = this;
    const { tokenizer } = models;
    const rest = this.pieces.rest();
    if (rest && output.texts.length) output.texts[output.texts.length - 1] += rest;
    output.text = output.texts.join("");
    const about = (/** @type {Model} */ { name, parameters }) => {
      return { name, parameters, architecture: "llama", read: parameters, output_rows: null };
    };
    return {
      header: {
        id: identity(),
        created: `${new Date().toISOString().slice(0, 19)}+00:00`,
        packages: { specdec_core: models.version },
        device: "browser, one thread of WebAssembly",
        dtype: "float32",
        machine: models.machine,
        target: about(models.target),
        draft: this.drafts ? about(models.draft) : null,
        settings: { ...models.usual, ...settings },
        prompt: start.prompt,
        prompt_ids: start.ids,
        prompt_texts: tokenizer.names(start.ids),
        vocabulary: models.target.vocabulary,
        judging: /** @type {const} */ ("each"),
        own_probabilities: !settings.temperature && this.rule.own,
        heads: [],
        decoder_start: [],
        chat: false,
        system: "",
        race,
        branch: start.branch,
      },
      rounds,
      output,
      end: this.end ?? "cancelled",
      stats: this.tally.stats(this.prefill, this.record),
      texts: this.names(),
      format: "specdec-trace",
      version: 1,
    };
  }

  /** The texts of all tokens in the record. @returns {Record<string, string>} */
  names() {
    const ids = new Set(this.output.ids);
    for (const { nodes, positions } of this.rounds) {
      for (const token of nodes.token) ids.add(token);
      for (const { p, q, model_p, model_q, residual } of positions)
        for (const head of [p, q, model_p, model_q, residual]) for (const token of head?.id ?? []) ids.add(token);
    }
    const sorted = [...ids].sort((one, other) => one - other);
    const names = this.models.tokenizer.names(sorted);
    return Object.fromEntries(sorted.map((token, at) => [token, names[at]]));
  }
}

export const identity = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => (byte % 36).toString(36)).join("");

/** The verdicts, with `cut` for what was judged beyond the last committed token. @param {TokenTree} tree @param {Decision} decision @param {number} kept @returns {Verdict[]} */
function cut(tree, { path, verdicts }, kept) {
  if (kept > path.length) return verdicts;
  const alive = [-1, ...path.slice(0, kept - 1)];
  return verdicts.map((verdict, node) =>
    (verdict === "accepted" || verdict === "rejected") && !alive.includes(tree.parents[node]) ? "cut" : verdict,
  );
}
