/**
 * What reaches the player from outside: a trace (specdec_core/record/trace.py), and the messages of a run that goes on.
 *
 * A record may be damaged or of an older version, so everything in it is optional: `list` and `number` (model.js) read it.
 */

/** Of a proposal. */
export type Verdict = "accepted" | "rejected" | "unreached" | "pruned" | "cut" | "discarded";

/** Of a proposal as it is seen before its round is over, too. */
export type Seen = Verdict | "waiting" | "absent";

/** Where a committed token comes from. */
export type Source = "accepted" | "corrected" | "bonus" | "plain" | "unknown";

type Column<Value> = (Value | null)[] | null;

/** One entry for each node of the round's tree. */
export interface Nodes {
  parent?: number[];
  token?: number[];
  verdict?: Verdict[];
  coin?: Column<number>;
  threshold?: Column<number>;
  p?: Column<number>;
  q?: Column<number>;
  model_p?: Column<number>;
  model_q?: Column<number>;
  penalised_p?: Column<number>;
  penalised_q?: Column<number>;
  tree_q?: Column<number>;
  rank?: Column<number>;
  entropy?: Column<number>;
  p_entropy?: Column<number>;
}

/** The columns of `Nodes` that hold numbers that may be absent. */
export type Measure = Exclude<keyof Nodes, "parent" | "token" | "verdict">;

/** A distribution: its likeliest tokens, and the mass of all others. */
export interface Candidates {
  id?: number[];
  prob?: number[];
  tail?: number;
}

/** One place at which a token was judged or written; `at` is the node it follows, −1 the root. */
export interface Position {
  at?: number;
  token?: number;
  source?: Source;
  p?: Candidates | null;
  model_p?: Candidates | null;
  q?: Candidates | null;
  model_q?: Candidates | null;
  penalised_p?: Candidates | null;
  penalised_q?: Candidates | null;
  residual?: Candidates | null;
  overlap?: number | null;
  draw?: number | null;
}

/** How long a round's phases took, in seconds of the lane's clock. */
export interface Phases {
  start_s?: number;
  draft_s?: number;
  verify_s?: number;
  judge_s?: number;
  commit_s?: number;
  ahead_s?: number;
}

/** What a proposer noted of a round; each writes what it has. */
export interface Note {
  by?: string;
  ahead?: number;
  ahead_levels?: number;
  heads?: number;
  levels?: number;
  candidates?: number;
  slots?: number;
  tree_temperature?: number;
  exit_layer?: number;
  earlier?: number;
  draft_ids?: number[];
  draft_text?: string;
  draft_ends?: number[];
  draft_read?: number;
  masks?: number;
  known?: number;
  renewed?: number;
  window?: number[][];
  newest?: number[][];
  generated?: number[];
  guesses?: number[][];
  recent?: number[][];
  harvested?: number[][];
  pool?: number;
  match_start?: number | null;
  match_length?: number;
  copied?: number;
  matches?: number;
  votes?: number;
}

export interface RoundRecord extends Phases {
  cache_before?: number;
  cache_after?: number;
  nodes?: Nodes;
  committed?: { token?: number[]; source?: Source[] };
  positions?: Position[];
  note?: Note;
  draft_passes?: number;
  ahead_passes?: number;
  riders?: number;
}

export interface Settings {
  max_new_tokens?: number;
  proposer?: string;
  rule?: string;
  temperature?: number;
  top_k?: number;
  min_p?: number | null;
  repetition_penalty?: number | null;
  no_repeat_ngram_size?: number | null;
  overlap?: boolean;
  options?: Record<string, unknown>;
  rule_options?: Record<string, unknown>;
}

export interface Trace {
  header?: {
    id?: string;
    created?: string;
    settings?: Settings;
    prompt?: string;
    prompt_ids?: number[];
    prompt_texts?: string[];
    vocabulary?: number;
    judging?: "each" | "longest";
    own_probabilities?: boolean;
    decoder_start?: number[];
    chat?: boolean;
    branch?: { trace: string; at: number; token: number } | null;
  };
  rounds?: RoundRecord[];
  output?: { ids?: number[]; texts?: string[] };
  end?: string;
  texts?: Record<string, string>;
}

/** One round of a lane as it arrives. */
export interface Step extends Phases {
  type: "step";
  lane?: number;
  clock_s?: number;
  texts?: string[];
  tokens?: number[];
  sources?: Source[];
  parent?: number[];
  node_texts?: string[];
  names?: string[];
  verdict?: Verdict[];
  candidates?: number | null;
  by?: string | null;
}

/** The visitor who drafts is asked to go on with `text` in at most `most` characters. */
export interface Question {
  type: "ask";
  lane?: number;
  question: number;
  text?: string;
  most?: number;
}

/** What the event stream of a run says. */
export type Message =
  | Step
  | Question
  | { type: "queued"; lane?: number; place?: number; wait_s?: number }
  | { type: "error"; lane?: number; message?: string }
  | { type: "started"; lane?: number; label?: string; proposer?: string; rule?: string; root?: string }
  | { type: "answered"; lane?: number }
  | { type: "finished"; lane?: number; end?: string; trace?: string; label?: string; record?: Trace }
  | { type: "done"; lane?: number };

/** The acceptance rules by name. */
export type Rules = Record<string, { title: string; lossless: boolean }>;
