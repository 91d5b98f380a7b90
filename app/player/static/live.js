/** A live run: server-sent events, collected and passed on once per frame. */

/** @import { Message } from "../types.js" */

const LATE_MS = 200; // a hidden tab gets no frames; its lanes are still kept up to date

/**
 * Listen to a run. Messages repeated after a reconnect are passed on once.
 * @param {string} url
 * @param {{batch: (messages: Message[]) => void, connection: (state: "open"|"reconnecting"|"lost") => void}} on
 * @returns {{close: () => void}}
 */
export function listen(url, on) {
  const source = new EventSource(url);
  let seen = -1;
  /** @type {Message[]} */
  let waiting = [];
  let frame = 0;
  let timer = 0;

  function flush() {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
    frame = timer = 0;
    const messages = waiting;
    waiting = [];
    if (messages.length) on.batch(messages);
  }

  /** @param {string} data */
  function take(data) {
    let message = null;
    try {
      message = JSON.parse(data);
    } catch {
      return; // a truncated message of a broken connection; it will be sent again
    }
    if (message === null || typeof message !== "object") return;
    if (message.type === "done") source.close(); // otherwise the browser would reconnect
    waiting.push(message);
    if (!frame) {
      frame = requestAnimationFrame(flush);
      timer = setTimeout(flush, LATE_MS);
    }
  }

  source.onopen = () => on.connection("open");
  source.addEventListener("waiting", (event) => take(event.data)); // without a number: how long it still takes
  source.onmessage = (event) => {
    const id = /^\d+$/.test(event.lastEventId) ? Number(event.lastEventId) : null;
    if (id !== null) {
      if (id <= seen) return;
      seen = id;
    }
    take(event.data);
  };
  source.onerror = () => {
    if (source.readyState === EventSource.CONNECTING) on.connection("reconnecting");
    else on.connection("lost");
  };

  return {
    close() {
      source.close();
      cancelAnimationFrame(frame);
      clearTimeout(timer);
      waiting = [];
    },
  };
}
