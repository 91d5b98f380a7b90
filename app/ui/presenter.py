"""The presentation: `?present=1` shows the player alone, in large type.

Hidden controls stay on the page and are hidden by CSS only, so that their values are kept and a run still works.
"""

from __future__ import annotations

import streamlit as st

from . import address, quirks

LARGE_REM = 27  # pixels: the player's smallest type is 0.75rem, and 20 pixels are legible from the last row
# Of a wide screen that is a share of its height, 1080 lines at least: one with fewer draws larger pixels on the wall.
TYPE = f"""html {{ font-size: {LARGE_REM}px !important; }}
@media (min-aspect-ratio: 5/3) {{ html {{ font-size: min({LARGE_REM}px, 2.8dvh) !important; }} }}"""

# Containers of a page besides the player.
AWAY = (
    ".st-key-title, .st-key-desk, .st-key-lanes, .st-key-search, :--horizontal:has(> :--column .st-key-title)"
)

CHROME = """
:--header, :--sidebar, :--toolbar, :--status { display: none !important; }
:--page { padding: 0 0.6rem 0.3rem !important; max-width: none !important; }
:--page :--vertical { gap: 0 !important; }
.st-key-presenter { height: 1.5rem; align-items: flex-end; }
.st-key-leave button { min-height: 0; padding: 0 0.4rem; }
.st-key-look-for { display: none; } /* the player alone, so that it has the whole window */
html { --stage: calc(100dvh - 1.8rem); } /* what the way out and the page's edge leave to the player */
"""

# The lab's recorded race is to be in sight below the choices: what is above it takes little room. On a phone the race
# comes before the choices, and Run stays at the bottom of the screen; a run of the visitor's own is shown below them.
LAB = """
/* "More" stands at the end of the label's line: nothing moves when it comes or goes */
.st-key-start-from { position: relative; }
.st-key-start-from > :has(button[kind="tertiary"]) {
  position: absolute; inset-block-start: -0.25rem; inset-inline-end: 0; width: auto;
}
.st-key-start-from button[kind="tertiary"] { min-height: 1.75rem; }
.st-key-start-from [data-variant="pills"] { padding-inline: 0.45rem; } /* in one row at 1280 pixels */
.st-key-look-for { margin-block: -0.5rem; }
@media (min-width: 1101px) { /* one line: the player does not move when its second half comes or goes */
  .st-key-look-for { flex-wrap: nowrap; }
  .st-key-look-for > :nth-child(2) { flex: 1 1 20rem; min-width: 20rem; }
  .st-key-look-for :--caption p { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
}
@media (max-width: 640px) {
  :--page > :--vertical:has(.st-key-look-for) > :has(.st-key-title) { order: -2; }
  :--page > :--vertical:has(.st-key-look-for) > :is(:has(> .st-key-look-for), :has(> .st-key-stage)) { order: -1; }
  :--page:has(.st-key-look-for) { padding-block-end: 5rem; }
  :--main:has(.st-key-look-for) { scroll-padding-block-end: 5rem; } /* what has the focus is not under it */
  :--page:has(.st-key-look-for) .st-key-run {
    position: fixed; inset-inline: 0; inset-block-end: 0; z-index: 20; box-sizing: border-box; width: 100%;
    padding: 0.6rem 1rem max(0.6rem, env(safe-area-inset-bottom));
    background: var(--page); border-top: 1px solid color-mix(in srgb, currentColor 20%, transparent);
  }
  :--page:has(.st-key-look-for) .st-key-run > :first-child { flex: 1; }
  :--page:has(.st-key-look-for) .st-key-run > :first-child button { width: 100%; }
}
"""
# In the line of the prompt's label, beside its help.
READING = """
:--layout:has(> .st-key-reading) { block-size: 0; z-index: 1; pointer-events: none; } /* the label's help lies below */
.st-key-reading > * { align-self: flex-end; inline-size: fit-content; margin-inline-end: 2rem; }
@media print { .st-key-reading { display: none; } } /* nothing opens on paper, where it lies over the label */
.st-key-reading button { min-block-size: 1.5rem; padding-block: 0; pointer-events: auto; }
"""
# Run beside Stop, also where a browser rounds letters' widths. While a run is watched, Run is out of sight: Stop then
# stands where the player's controls will be; on a screen with room for one column, where they come after what does not
# fit, in the page's head.
RUN = f"""
.st-key-run {{ flex-wrap: nowrap; }}
.st-key-stop_run:has(button:enabled) {{
  position: fixed; inset-inline: 0; inset-block-end: 0.9rem; z-index: 20; inline-size: fit-content; margin-inline: auto;
}}
@media (max-width: 1100px) {{
  .st-key-stop_run:has(button:enabled) {{ inset: 0.65rem 1rem auto auto; z-index: {quirks.HEAD_LAYER}; }}
}}
"""


def presenting() -> bool:
    """Whether the address requests the player alone."""
    return st.query_params.get("present") == "1"


def look() -> str:
    """Fixes to Streamlit's own look on every page."""
    return quirks.SIGNS + READING + RUN


def nothing_to_show() -> None:
    """In a presentation, say that there is nothing to show; otherwise do nothing."""
    if presenting():
        st.info("There is no run to present. Leave (Escape), and start or open one.", icon=":material/info:")


def dress(page: str = "") -> None:
    """The page's own style; in a presentation without everything but the player, Streamlit's frame too. Call first."""
    css = look() + (LAB if page == "lab" else "")
    if presenting():
        css += f"{TYPE}\n{CHROME}\n{AWAY} {{ display: none !important; }}"
    # Always in the layout, even when empty: Streamlit would otherwise redraw everything after it.
    with st.container(key="presenter"):
        st.html(quirks.style(css))
        if presenting():
            st.button(
                "Leave",
                key="leave",
                icon=":material/close_fullscreen:",
                shortcut="Escape",
                on_click=leave,
                type="tertiary",
                help="Back to the whole page (Escape).",
            )


def enter() -> None:
    """Show the player alone."""
    address.put("present", "1")


def leave() -> None:
    """Show the whole page again."""
    address.put("present", None)
