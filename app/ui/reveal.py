"""Bring a part of the page into view, once: after a press whose answer stands elsewhere on the page.

The keyboard goes along to the player in that part, if there is one. Mount it where it keeps its place, above the part.
"""

from __future__ import annotations

import streamlit as st

# An element that is mounted only now has missed nothing: what was asked before is over.
_JS = """
const PATIENCE_MS = 10_000; // a part may still be on its way, and its player with it
const OTHERWISE = ["pointerdown", "keydown", "wheel", "touchmove"]; // the viewer has gone on
const turns = new WeakMap();

export default function ({ data, parentElement }) {
  const known = turns.has(parentElement);
  if (known && turns.get(parentElement) === data.turn) return;
  turns.set(parentElement, data.turn);
  if (!known) return;
  const until = performance.now() + PATIENCE_MS;
  let over = false;
  let shown = false;
  const end = () => {
    over = true;
    for (const name of OTHERWISE) window.removeEventListener(name, end, true);
  };
  for (const name of OTHERWISE) window.addEventListener(name, end, true);
  const look = () => {
    if (over || turns.get(parentElement) !== data.turn || performance.now() > until) return end();
    const part = document.querySelector(`.st-key-${data.part}`);
    if (part && !shown) {
      const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
      part.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
      shown = true;
    }
    const player = part && playerIn(part);
    if (player) {
      player.focus({ preventScroll: true });
      return end();
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}

function playerIn(part) {
  for (const each of part.querySelectorAll("*")) {
    const found = each.shadowRoot?.querySelector(".player");
    if (found) return found;
  }
  return null;
}
"""
_component = st.components.v2.component("specdec_reveal", js=_JS)
ASKED = "to_reveal"  # what the session's last press asked for: a part's key, and which press it was
# The page's own head lies over what is scrolled to the very top.
STYLE = """<style>
.st-key-reveal { display: none; }
.st-key-open, .st-key-player { scroll-margin-top: 4.5rem; }
</style>"""


def ask(part: str) -> None:
    """Show the part of that key after this run of the script; call it where something was pressed."""
    st.session_state[ASKED] = (part, st.session_state.get(ASKED, ("", 0))[1] + 1)


def draw() -> None:
    """Do what was asked for."""
    part, turn = st.session_state.get(ASKED, ("", 0))
    st.html(STYLE)
    _component(key="reveal", data={"part": part, "turn": turn})
