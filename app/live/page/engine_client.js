/**
 * The page's end of the worker: runs as streams of messages, as the player follows those of a server.
 *
 * @import { Curve } from "../engine/curve.js"
 * @import { Request } from "./worker.js"
 * @import { Message } from "../../player/types.js"
 * @import { Stream } from "../../player/static/feed/feed.js"
 */

import { say } from "./words.js";

/** @typedef {Message & {type: string} | {type: "loaded", fused: boolean} | {type: "curve", curve: Curve} | {type: "failed", message: string}} Said */

export class EngineClient {
  /** @type {Stream|null} */
  #stream = null;
  #number = 0;
  running = false;

  /** @param {string} code of the worker @param {(said: Said) => void} heard all that the worker says */
  constructor(code, heard) {
    this.worker = new Worker(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
    this.worker.onmessage = ({ data }) => {
      const said = JSON.parse(data);
      if (said.type === "error") said.message = say(said.message, said.values);
      if (this.running) this.#pass(said.type === "error" ? JSON.stringify(said) : data);
      if (said.type === "done" || said.type === "failed") this.running = false;
      heard(said);
    };
    this.worker.onerror = ({ message }) =>
      heard({ type: "failed", message: message || say("The engine did not start.") });
  }

  /** @param {string} data */
  #pass(data) {
    const event = new MessageEvent("message", { data, lastEventId: String(this.#number++) });
    this.#stream?.onmessage?.call(/** @type {EventSource} */ (this.#stream), event);
  }

  /** @param {Request} request @param {Transferable[]} [given] */
  send(request, given = []) {
    if (request.type === "run") this.running = true;
    this.worker.postMessage(request, given);
  }

  /** The messages of the run that was just begun. @returns {Stream} */
  follow() {
    const close = () => {
      if (this.#stream === stream) this.#stream = null;
    };
    const stream = { readyState: 1, onopen: null, onmessage: null, onerror: null, addEventListener() {}, close };
    this.#stream = stream;
    return stream;
  }
}
