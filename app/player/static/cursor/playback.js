/** Playing: a timer that requests the next step and its delay. Knows neither lanes nor buttons. */

import { SPEEDS } from "../model/walk.js";

/**
 * @param {{next: (speed: number) => {ms: number, go: () => void}|null, rewind: () => void, changed: () => void}} on `next` is
 *   null at the end, from where `rewind` starts anew; `changed` reports playing and pausing
 */
export function createPlayback(on) {
  let speed = 1;
  let chosen = false; // by the viewer
  let timer = 0;

  function schedule() {
    const next = on.next(speed);
    if (!next) {
      pause();
      return;
    }
    timer = setTimeout(() => {
      next.go();
      schedule();
    }, next.ms);
  }

  function play() {
    if (timer) return;
    if (!on.next(speed)) on.rewind();
    if (!on.next(speed)) return; // nothing to play
    schedule();
    on.changed();
  }

  function pause() {
    if (!timer) return;
    clearTimeout(timer);
    timer = 0;
    on.changed();
  }

  return {
    play,
    pause,
    toggle: () => (timer ? pause() : play()),
    isPlaying: () => timer !== 0,
    speed: () => speed,
    /** @param {number} value one of SPEEDS, for a run whose viewer has chosen none */
    suggest(value) {
      if (!chosen) speed = value;
    },
    /** @param {number} value one of SPEEDS */
    setSpeed(value) {
      chosen = true;
      speed = SPEEDS.includes(value) ? value : 1;
      if (!timer) return;
      clearTimeout(timer);
      schedule();
    },
    destroy: () => clearTimeout(timer),
  };
}
