/**
 * The page's end of the worker: runs as streams of messages, as the player follows those of a server.
 *
 * @import { Curve } from "../engine/curve.js"
 * @import { Request } from "./worker.js"
 * @import { Message } from "../../player/types.js"
 * @import { Stream } from "../../player/static/feed/feed.js"
 */

/** What the player listens to, in place of a server's stream. */
class RunStream {
  readyState = 1;
  /** @type {EventSource["onopen"]} */
  onopen = null;
  /** @type {EventSource["onmessage"]} */
  onmessage = null;
  /** @type {EventSource["onerror"]} */
  onerror = null;
  number = 0;

  addEventListener() {} // of what only a server says: how long it still takes

  close() {
    this.readyState = 2;
  }

  /** @param {string} data */
  take(data) {
    if (this.readyState === 2) return;
    const event = new MessageEvent("message", { data, lastEventId: String(this.number++) });
    this.onmessage?.call(/** @type {EventSource} */ (/** @type {unknown} */ (this)), event);
  }
}

/** @typedef {Message & {type: string} | {type: "loaded", fused: boolean} | {type: "curve", curve: Curve} | {type: "failed", message: string}} Said */

export class EngineClient {
  /** @type {RunStream|null} */
  #stream = null;
  /** @type {string[]} messages of a run that nobody follows yet */
  #early = [];
  #running = false;

  /**
   * @param {string} code of the worker
   * @param {(said: Said) => void} heard all that the worker says
   */
  constructor(code, heard) {
    const address = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
    this.worker = new Worker(address);
    this.worker.onmessage = ({ data }) => {
      const said = JSON.parse(data);
      if (this.#running) this.#pass(data);
      if (said.type === "done" || said.type === "failed") this.#running = false;
      heard(said);
    };
    this.worker.onerror = (event) =>
      heard({ type: "failed", message: event.message || "The engine did not start." });
  }

  /** @param {string} data */
  #pass(data) {
    if (this.#stream) this.#stream.take(data);
    else this.#early.push(data);
  }

  /** @param {Request} request @param {Transferable[]} [given] */
  send(request, given = []) {
    if (request.type === "run") {
      this.#stream?.close();
      this.#stream = null;
      this.#early = [];
      this.#running = true;
    }
    this.worker.postMessage(request, given);
  }

  get running() {
    return this.#running;
  }

  /** The messages of the latest run, from its first. @returns {Stream} */
  follow() {
    const stream = new RunStream();
    const early = this.#early;
    this.#stream = stream;
    this.#early = [];
    queueMicrotask(() => {
      for (const data of early) stream.take(data);
    });
    return /** @type {Stream} */ (/** @type {unknown} */ (stream));
  }
}
