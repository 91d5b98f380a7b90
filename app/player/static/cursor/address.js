/**
 * The cursor in the page's own address. The page would write it there as well, a moment later, but as a step of the
 * browser's history: the back button would go through every move of the viewer's before leaving the page.
 */

/** @import { PageCursor } from "./reporter.js" */

/** @type {(keyof PageCursor)[]} */
const NAMES = ["round", "step", "node", "lead", "view"]; // in the page's order (`CURSOR`), or it would write them again

/**
 * An address's query with this cursor in it; other keys stay unchanged.
 * @param {string} query with or without the question mark in front
 * @param {Partial<PageCursor>} cursor
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
 * Put the cursor into the address of the player's page.
 * @param {Partial<PageCursor>} cursor
 */
export function keepInAddress(cursor) {
  try {
    history.replaceState(
      history.state,
      "",
      `${location.pathname}${withCursor(location.search, cursor)}${location.hash}`,
    );
  } catch {
    // Browsers limit how often this may be called; the page writes it then.
  }
}
