/** Lights a node in every view while the pointer or the keyboard is on it in one of them. */

/**
 * What a node's element stands for; null for anything else.
 * @param {Element} element
 * @returns {import("./state.js").Selection|null}
 */
export function nodeOf(element) {
  const chip = element?.closest?.("[data-node]");
  const owner = chip?.closest("[data-round][data-lane]");
  if (!owner) return null;
  return { lane: Number(owner.dataset.lane), round: Number(owner.dataset.round), node: Number(chip.dataset.node) };
}

/**
 * @param {HTMLElement} box everything that can be lit
 * @returns `refresh()` for elements that were drawn anew
 */
export function createLighting(box) {
  let hovered = null;
  let focused = null;
  let lit = [];

  function light() {
    for (const element of lit) element.classList.remove("lit");
    const at = hovered ?? focused;
    lit = at ? elementsOf(box, at) : [];
    for (const element of lit) element.classList.add("lit");
  }

  function hover(node) {
    if (same(node, hovered)) return;
    hovered = node;
    light();
  }

  box.addEventListener("pointerover", (event) => hover(nodeOf(event.target)));
  box.addEventListener("pointerleave", () => hover(null));
  box.addEventListener("focusin", (event) => {
    focused = nodeOf(event.target);
    light();
  });
  box.addEventListener("focusout", () => {
    focused = null;
    light();
  });
  return {
    refresh() {
      if (hovered ?? focused) light();
    },
  };
}

/** Elements name their lane and round themselves, or stand in one that does. */
function elementsOf(box, { lane, round, node }) {
  const owner = `[data-lane="${lane}"][data-round="${round}"]`;
  const chip = `[data-node="${node}"]`;
  return [...box.querySelectorAll(`${owner}${chip}, ${owner} ${chip}`)].filter((element) => same(nodeOf(element), { lane, round, node }));
}

function same(one, other) {
  return one === other || (one !== null && other !== null && one.lane === other.lane && one.round === other.round && one.node === other.node);
}
