/** Where is the tree's box scrolled to? For a node nothing else in the page scrolls. */

/**
 * @import { Key, Layout } from "../model/tree.js"
 * @import { Room, Size } from "./tree_size.js"
 */

/**
 * @param {HTMLElement} box
 * @returns `opened()`, `forget()`, `keep(point, before, after)`, `to(picture, key, layout, size, room, again)`
 */
export function createScroll(box) {
  let at = { left: 0, top: 0 };
  let looked = ""; // the last target
  let opened = ""; // the picture that it was scrolled for
  box.addEventListener("scroll", () => (at = { left: box.scrollLeft, top: box.scrollTop }), {
    passive: true,
  });

  return {
    /** Whether it was scrolled for a picture. */
    opened: () => opened !== "",
    /** It is hidden, and so back at its beginning. */
    forget() {
      opened = "";
    },
    /**
     * A point of the box stays where it is while columns and rows change.
     * @param {{x: number, y: number}} point
     * @param {Size} before
     * @param {Size} after
     */
    keep({ x, y }, before, after) {
      box.scrollTo(
        ((at.left + x) / before.column) * after.column - x,
        ((at.top + y) / before.row) * after.row - y,
      );
      at = { left: box.scrollLeft, top: box.scrollTop }; // at once, for the next key of a quick hand
    },
    /**
     * To a node, unless it was the last target.
     * @param {string} picture its name
     * @param {Key} key
     * @param {Layout} layout
     * @param {Size} size
     * @param {Room} room
     * @param {boolean} again even so
     */
    to(picture, key, layout, size, room, again) {
      const place = layout.places.get(key);
      const target = `${picture} ${key} ${layout.rows}`;
      if (!place || (!again && looked === target)) return;
      if (!box.clientWidth || !room.width) return; // not laid out, or hidden: the observer tries again
      const fresh = opened !== picture;
      opened = picture;
      looked = target;
      const left = into(
        place.column * size.column,
        (place.wide ?? 1) * size.column,
        at.left,
        room.width,
        fresh,
      );
      const top = into(
        place.row * size.row,
        size.row,
        at.top,
        Math.min(room.height, layout.rows * size.row),
        fresh,
      );
      if (!fresh && left === at.left && top === at.top) return;
      box.scrollTo(left, top);
      at = { left: Math.max(0, left), top: Math.max(0, top) };
    },
  };
}

/**
 * Where to scroll so that a part is seen: nowhere if it is, otherwise into the middle; in a new tree no further from the root
 * than needed.
 * @param {number} start
 * @param {number} length
 * @param {number} from what is seen begins here
 * @param {number} space how much is seen
 * @param {boolean} fresh whether the tree is new
 */
function into(start, length, from, space, fresh) {
  if (fresh) return Math.max(0, start + length - space);
  return start >= from && start + length <= from + space ? from : start - (space - length) / 2;
}
