/** Highlights a node in every view while the pointer or the focus is on it in one of them. */

/** @import { Selection } from "../model/state.js" */

import { elementOf } from "../dom/dom.js";

/**
 * The node that an element represents; null for anything else.
 * @param {Element|null} element
 * @returns {Selection|null}
 */
export function nodeOf(element) {
  /** @type {HTMLElement|null|undefined} */
  const chip = element?.closest?.("[data-node]");
  /** @type {HTMLElement|null|undefined} */
  const owner = chip?.closest("[data-round][data-lane]");
  if (!chip || !owner) return null;
  return {
    lane: Number(owner.dataset.lane),
    round: Number(owner.dataset.round),
    node: Number(chip.dataset.node),
  };
}

/**
 * @param {HTMLElement} box everything that can be highlighted
 * @returns `refresh()` for redrawn elements
 */
export function createHighlight(box) {
  /** @type {Element|null} what the pointer rests on; another run's round may be drawn into it */
  let under = null;
  /** @type {Selection|null} */
  let hovered = null;
  /** @type {Selection|null} */
  let focused = null;
  /** @type {Element[]} */
  let lit = [];

  function highlight() {
    for (const element of lit) element.classList.remove("lit");
    const at = hovered ?? focused;
    lit = at ? elementsOf(box, at) : [];
    for (const element of lit) element.classList.add("lit");
  }

  /** @param {Selection|null} node */
  function hover(node) {
    if (same(node, hovered)) return;
    hovered = node;
    highlight();
  }

  // Not "pointerover": what is drawn below a pointer at rest, as where Run was pressed, was not pointed at.
  box.addEventListener("pointermove", (event) => {
    if (!event.movementX && !event.movementY) return;
    under = elementOf(event);
    hover(nodeOf(under));
  });
  box.addEventListener("pointerleave", () => {
    under = null;
    hover(null);
  });
  box.addEventListener("focusin", (event) => {
    const target = elementOf(event);
    focused = target.matches(":focus-visible") ? nodeOf(target) : null; // a press has the pointer's ring
    highlight();
  });
  box.addEventListener("focusout", () => {
    focused = null;
    highlight();
  });
  return {
    refresh() {
      hovered = under?.isConnected ? nodeOf(under) : null;
      if (hovered ?? focused) highlight();
    },
  };
}

/**
 * Elements name their lane and round themselves, or are inside one that does.
 * @param {HTMLElement} box
 * @param {Selection} at
 */
function elementsOf(box, { lane, round, node }) {
  const owner = `[data-lane="${lane}"][data-round="${round}"]`;
  const chip = `[data-node="${node}"]`;
  return [...box.querySelectorAll(`${owner}${chip}, ${owner} ${chip}`)].filter((element) =>
    same(nodeOf(element), { lane, round, node }),
  );
}

/** @param {Selection|null} one @param {Selection|null} other */
function same(one, other) {
  return (
    one === other ||
    (one !== null &&
      other !== null &&
      one.lane === other.lane &&
      one.round === other.round &&
      one.node === other.node)
  );
}
