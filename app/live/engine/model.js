/**
 * The two models in the memory of the kernels: weights, KV caches, passes. kernels.c says how they lie there.
 *
 * @import { Kernels } from "./types.js"
 */

const SIMD = [0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0, 1, 5, 1, 0x60, 0, 1, 0x7b, 3, 2, 1, 0];
/** A function that only relaxed SIMD has: `f32x4.relaxed_madd` of three zeros. */
// biome-ignore format: bytes
const RELAXED = new Uint8Array([...SIMD, 10, 16, 1, 14, 0, 0x41, 0, 0xfd, 0x0f, 0x41, 0, 0xfd, 0x0f, 0x41, 0, 0xfd, 0x0f, 0xfd, 0x85, 2, 0x0b]);
export const MOST_ROWS = 128; // of a pass

/** Whether this machine runs the build with fused sums. */
export function relaxed() {
  RELAXED[20] = RELAXED.length - 21;
  RELAXED[22] = RELAXED.length - 23;
  return WebAssembly.validate(RELAXED);
}

/** @param {BufferSource} code a build of kernels.c @returns {Promise<Kernels>} */
export async function kernels(code) {
  const { instance } = await WebAssembly.instantiate(code);
  return /** @type {Kernels} */ (/** @type {unknown} */ (instance.exports));
}

/** One of the two models. */
export class Model {
  /**
   * @param {Kernels} code
   * @param {string} name
   * @param {Record<string, number>} config as Hugging Face writes it
   * @param {Uint8Array} file safetensors of float16
   */
  constructor(code, name, config, file) {
    this.code = code;
    this.name = name;
    this.vocabulary = config.vocab_size;
    this.positions = config.max_position_embeddings;
    this.d = config.hidden_size;
    this.parameters = 0;
    const { num_hidden_layers: layers, num_attention_heads: heads, num_key_value_heads: shared } = config;
    const { head_dim: width, intermediate_size: hidden, rms_norm_eps: eps } = config;
    // biome-ignore format: the order of the kernel's arguments
    this.at = code.model(layers, this.d, heads, shared, width, hidden, this.vocabulary, this.positions, eps);
    if (!this.at) throw new Error("There is not enough memory for the models.");
    this.#angles(width, config.rope_theta);
    const put = this.#reader(file);
    put("model.norm.weight", this.#part(-1, 0), [this.d]);
    put("model.embed_tokens.weight", this.#part(-1, 1), [this.vocabulary, this.d]);
    for (let layer = 0; layer < layers; layer++) {
      const at = `model.layers.${layer}.`;
      const part = (/** @type {number} */ which) => this.#part(layer, which);
      put(`${at}input_layernorm.weight`, part(0), [this.d]);
      put(`${at}post_attention_layernorm.weight`, part(1), [this.d]);
      put(`${at}self_attn.q_proj.weight`, part(2), [heads * width, this.d]);
      put(`${at}self_attn.k_proj.weight`, part(2), [shared * width, this.d], heads * width);
      put(`${at}self_attn.v_proj.weight`, part(2), [shared * width, this.d], (heads + shared) * width);
      put(`${at}self_attn.o_proj.weight`, part(3), [this.d, heads * width]);
      put(`${at}mlp.gate_proj.weight`, part(4), [hidden, this.d]);
      put(`${at}mlp.up_proj.weight`, part(4), [hidden, this.d], hidden);
      put(`${at}mlp.down_proj.weight`, part(5), [this.d, hidden]);
    }
  }

  /** @param {number} layer @param {number} which */
  #part(layer, which) {
    return this.code.part(this.at, layer, which);
  }

  /** @param {number} width @param {number} theta the angles of the positions, rounded where torch rounds them */
  #angles(width, theta) {
    const half = width / 2;
    const size = this.positions * half;
    const { buffer } = this.code.memory;
    const cos = new Float32Array(buffer, this.#part(-1, 2), size);
    const sin = new Float32Array(buffer, this.#part(-1, 3), size);
    for (let k = 0; k < half; k++) {
      const frequency = Math.fround(1 / Math.fround(theta ** Math.fround((2 * k) / width)));
      for (let place = 0; place < this.positions; place++) {
        const angle = Math.fround(place * frequency);
        cos[place * half + k] = Math.cos(angle);
        sin[place * half + k] = Math.sin(angle);
      }
    }
  }

  /** A function that puts a tensor of the file at its place; it refuses any but float16 of the shape that is expected. @param {Uint8Array} file */
  #reader(file) {
    const { code } = this;
    const size = Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true));
    const header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + size)));
    /** @param {string} name @param {number} to @param {number[]} shape @param {number} [first] */
    return (name, to, shape, first = 0) => {
      const found = header[name];
      if (found?.dtype !== "F16" || String(found.shape) !== String(shape))
        throw new Error(`The weights of ${this.name} have no float16 tensor ${name} of shape ${shape}.`);
      const bytes = file.subarray(8 + size + found.data_offsets[0], 8 + size + found.data_offsets[1]);
      const mark = code.mark();
      const scratch = code.allocate(bytes.length);
      new Uint8Array(code.memory.buffer, scratch, bytes.length).set(bytes);
      if (shape.length === 1) code.widen(scratch, to, shape[0]);
      else code.pack(scratch, to, first, shape[0], shape[1]);
      code.release(mark);
      this.parameters += shape.reduce((product, count) => product * count);
    };
  }
}

/** A model with a KV cache: reads tokens after a text, or as rows of a tree after it. */
export class Reader {
  length = 0; // tokens read and kept
  /** @type {number[]} */
  parents = []; // of the rows of the tree that were read after them

  /** @param {Model} model @param {number} capacity tokens and rows together @param {number} rows the most rows whose logits are wanted at once */
  constructor(model, capacity, rows) {
    this.model = model;
    this.code = model.code;
    this.cache = this.code.cache(model.at, capacity + MOST_ROWS);
    this.out = this.code.allocate(4 * rows * model.vocabulary);
    this.given = this.code.allocate(4 * (MOST_ROWS + capacity + MOST_ROWS));
    if (!this.cache || !this.out || !this.given) throw new Error("There is not enough memory for this run.");
  }

  /**
   * Read tokens as further rows of the tree after the text.
   * @param {number[]} tokens
   * @param {number[]} parents rows of the tree read before or here, −1 below the text
   * @param {number} first of these rows, the first of which logits are wanted
   * @param {number} [row] the row of the logits to write from
   */
  read(tokens, parents, first, row = 0) {
    const { code, model, given } = this;
    const known = this.parents.length;
    this.parents.push(...parents);
    new Int32Array(code.memory.buffer, given, tokens.length).set(tokens);
    new Int32Array(code.memory.buffer, given + 4 * MOST_ROWS, this.parents.length).set(this.parents);
    const out = this.out + 4 * row * model.vocabulary;
    code.pass(model.at, this.cache, this.length, known, tokens.length, given, given + 4 * MOST_ROWS, first, out);
  }

  /** Of the rows of the tree only these stay, ascending; they become text. @param {number[]} rows */
  keep(rows) {
    new Int32Array(this.code.memory.buffer, this.given, rows.length).set(rows);
    this.code.keep(this.model.at, this.cache, this.length, this.given, rows.length);
    this.length += rows.length;
    this.parents = [];
  }

  /** Read and keep tokens; logits of the last one, if any are wanted, go to a row. @param {number[]} tokens @param {number|null} [row] */
  step(tokens, row = null) {
    for (let start = 0; start < tokens.length; start += MOST_ROWS) {
      const some = tokens.slice(start, start + MOST_ROWS);
      const last = row !== null && start + some.length === tokens.length;
      this.read(
        some,
        some.map((_, at) => at - 1),
        last ? some.length - 1 : some.length,
        row ?? 0,
      );
      this.length += some.length;
      this.parents = [];
    }
  }

  /** @param {number} length drop all but the first tokens */
  rewind(length) {
    this.length = length;
    this.parents = [];
  }

  /** @param {number} row where its logits are */
  place(row) {
    return this.out + 4 * row * this.model.vocabulary;
  }

  /** @param {number} row its logits: a view that the next pass may overwrite */
  logits(row) {
    return new Float32Array(this.code.memory.buffer, this.place(row), this.model.vocabulary);
  }

  /** @param {number} row the first of the largest logits */
  best(row) {
    return this.code.best(this.place(row), this.model.vocabulary);
  }

  /** @param {number} row @param {number} temperature above 0 @returns {Float32Array} what is sampled there; a copy */
  probabilities(row, temperature) {
    const { code, model } = this;
    const mark = code.mark();
    const to = code.allocate(4 * model.vocabulary);
    code.softmax(this.place(row), to, model.vocabulary, temperature);
    const found = new Float32Array(code.memory.buffer, to, model.vocabulary).slice();
    code.release(mark);
    return found;
  }
}
