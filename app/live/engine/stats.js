/**
 * The numbers of a run, added up round by round; specdec_core/record/schema.py says what each of them is.
 *
 * @import { Verdict } from "../../player/types.js"
 * @import { TokenTree } from "./tree.js"
 */

export class Tally {
  passes = 0;
  tokens = 0;
  draftPasses = 0;
  draft = 0;
  verify = 0;
  other = 0;
  branched = false;
  /** @type {Record<Verdict, number>} */
  verdicts = { accepted: 0, rejected: 0, unreached: 0, cut: 0, pruned: 0, discarded: 0 };
  /** @type {number[]} by depth, the places at which something was judged, and those at which something was accepted */
  judged = [];
  /** @type {number[]} */
  passed = [];

  get clock() {
    return this.draft + this.verify + this.other;
  }

  /** @param {TokenTree} tree @param {Verdict[]} verdicts @param {number} tokens @param {number} passes of the draft @param {number[]} seconds */
  add(tree, verdicts, tokens, passes, [draft, verify, judge, commit]) {
    for (const verdict of verdicts) this.verdicts[verdict] += 1;
    const accepted = verdicts.filter((verdict) => verdict === "accepted").length;
    const deepest = Math.max(0, ...tree.depths.filter((_, node) => verdicts[node] === "rejected"));
    for (let depth = 1; depth <= accepted + Number(deepest > accepted); depth++) {
      this.judged[depth - 1] = (this.judged[depth - 1] ?? 0) + 1;
      this.passed[depth - 1] = (this.passed[depth - 1] ?? 0) + Number(depth <= accepted);
    }
    this.branched ||= !tree.chain;
    this.passes += 1;
    this.tokens += tokens;
    this.draftPasses += passes;
    this.draft += draft;
    this.verify += verify;
    this.other += judge + commit;
  }

  /** @param {number} prefill @param {number} record seconds of each */
  stats(prefill, record) {
    const { verdicts, tokens, passes, clock } = this;
    const judged = verdicts.accepted + verdicts.rejected;
    return {
      tokens,
      target_passes: passes,
      proposed: Object.values(verdicts).reduce((sum, count) => sum + count, 0),
      ...verdicts,
      acceptance_rate: judged && !this.branched ? verdicts.accepted / judged : null,
      acceptance_by_depth: this.judged.map((count, at) => this.passed[at] / count),
      tokens_per_pass: passes ? tokens / passes : null,
      tokens_per_second: clock > 0 ? tokens / clock : null,
      prefill_s: prefill,
      draft_s: this.draft,
      verify_s: this.verify,
      other_s: this.other,
      record_s: record,
      draft_passes: this.draftPasses,
    };
  }
}
