/**
 * The cursor in the page's own address. The page would write it there as well, a moment later, but as a step of the
 * browser's history: the way back would lead through every move of the viewer's before it led to another page.
 */

/** @import { Told } from "./tell.js" */

/** @type {(keyof Told)[]} */
const NAMES = ["round", "step", "node", "lead", "view"]; // in the page's order (`CURSOR`), or it would write them anew

/**
 * An address's query with this cursor in it; what else it says stays as it is written.
 * @param {string} query with or without the question mark in front
 * @param {Partial<Told>} cursor
 */
export function withCursor(query, cursor) {
  const parts = query.replace(/^\?/, "").split("&").filter(Boolean);
  for (const name of NAMES) {
    const at = parts.findIndex((part) => part.split("=")[0] === name);
    const value = cursor[name] ?? null;
    if (value !== null) parts.splice(at < 0 ? parts.length : at, 1, `${name}=${encodeURIComponent(value)}`);
    else if (at >= 0) parts.splice(at, 1);
  }
  return parts.length ? `?${parts.join("&")}` : "";
}

/**
 * Put the cursor into the address of the page that the player stands on.
 * @param {Partial<Told>} cursor
 */
export function keepInAddress(cursor) {
  try {
    history.replaceState(history.state, "", `${location.pathname}${withCursor(location.search, cursor)}${location.hash}`);
  } catch {
    // A browser takes so many a minute and no more; the page writes it then.
  }
}
