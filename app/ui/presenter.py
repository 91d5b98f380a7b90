"""The presentation: `?present=1` shows the player alone, in large type.

Hidden controls stay on the page and are hidden by CSS only, so that their values are kept and a run still works.
"""

from __future__ import annotations

from functools import cache

import streamlit as st

from app.theme import CSS

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
.st-key-notice { min-block-size: 0; }
html { --stage: calc(100dvh - 1.8rem); } /* what the way out and the page's edge leave to the player */
"""

# The form of the lab and the comparison is one line; on a phone the prompt has a line of its own, above its Run.
DESK = """
.st-key-desk > .st-key-prompt { flex: 1 1 16rem; }
:--app .st-key-desk kbd { display: none; }
/* Nothing moves as they are filled, or have nothing more to say. */
.st-key-desk { min-block-size: 6.375rem; }
:--layout:has(> .st-key-presenter):not(:has(button)) { position: absolute; }
.st-key-notice { min-block-size: 1.5rem; }
.st-key-notice > :--element:first-child:not(:has(p)) { position: absolute; } /* holds its place, see lab.py */
/* As of a wide page, which Streamlit makes it only after its first part. */
:--page { max-width: none; }
@media (min-width: 864px) { :--page { padding-inline: 5rem; } }
.st-key-stage:has(.st-key-look-for) { --stage: calc(100dvh - 17rem); --stage-least: 24rem; } /* below the form */
@media (max-width: 640px) {
  .st-key-desk { min-block-size: 10.25rem; }
  .st-key-desk { gap: 0.5rem; }
  .st-key-desk > .st-key-prompt { flex-basis: 100%; }
  .st-key-desk button { padding-inline: 0.5rem; }
}
"""
# Run beside Stop, also where a browser rounds letters' widths. While a run is watched, Run is out of sight: Stop then
# stands where the player's controls will be; on a screen with room for one column, where they come after what does not
# fit, in the page's head.
RUN = f"""
.st-key-run {{ flex-wrap: nowrap; }}
.st-key-stop_run:has(button:disabled) {{ display: none; }}
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


@cache
def look() -> str:
    """The style of every page: colours, type, fixes to Streamlit's own look."""
    return quirks.style(CSS + quirks.FIXES + quirks.SIGNS + DESK + RUN)


def nothing_to_show() -> None:
    """In a presentation, say that there is nothing to show; otherwise do nothing."""
    if presenting():
        st.info("There is no run to present. Leave (Escape), and start or open one.", icon=":material/info:")


def dress() -> None:
    """In a presentation, large type, and nothing but the player. Call first."""
    css = f"{TYPE}\n{CHROME}\n{AWAY} {{ display: none !important; }}" if presenting() else ""
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
