/** The exports of kernels.c; numbers are addresses where they are no counts. */
export interface Kernels {
  memory: WebAssembly.Memory;
  mark(): number;
  release(to: number): void;
  allocate(bytes: number): number;
  model(...sizes: [layers: number, d: number, heads: number, shared: number, width: number, hidden: number, vocabulary: number, positions: number, eps: number]): number;
  part(model: number, layer: number, which: number): number;
  widen(from: number, to: number, count: number): void;
  pack(from: number, to: number, first: number, out: number, inputs: number): void;
  cache(model: number, capacity: number): number;
  pass(model: number, cache: number, base: number, known: number, n: number, tokens: number, parents: number, first: number, out: number): void;
  keep(model: number, cache: number, base: number, rows: number, n: number): void;
  best(row: number, count: number): number;
  softmax(row: number, out: number, count: number, temperature: number): void;
}
