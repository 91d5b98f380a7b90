"""Everything that works around Streamlit or relies on undocumented parts of it, and the only place that does.

Each part says what Streamlit does, and tests/app/test_quirks.py or tests/browser/test_quirks.py fails once the
workaround is obsolete, or once the private part it relies on is missing. A part names its issue of Streamlit's where
one was found (#1 is https://github.com/streamlit/streamlit/issues/1). When upgrading Streamlit, check each part and
then raise `VERSION`. One is on a lower floor: `decoding.in_child.forking`, as Streamlit makes the page the main script.
"""

from __future__ import annotations

import logging
import re
import time
from base64 import b64encode
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from functools import wraps
from hashlib import sha256
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import streamlit as st
from starlette.websockets import WebSocketDisconnected
from streamlit.runtime.scriptrunner import get_script_run_ctx

VERSION = "1.67.0"  # the Streamlit version that this describes

P = ParamSpec("P")
R = TypeVar("R")
HERE = Path(__file__).parent

# --- Styles ---
# Applications can style Streamlit's parts only through container keys; its own parts can only be selected by test
# attributes. The app's CSS writes them as custom selectors (`:--main h1`), which `css` resolves.

SELECTORS = {
    "app": '[data-testid="stApp"]',
    "view": '[data-testid="stAppViewContainer"]',
    "header": '[data-testid="stHeader"]',
    "toolbar": '[data-testid="stToolbar"]',
    "status": '[data-testid="stStatusWidget"]',
    "sidebar": '[data-testid="stSidebar"]',
    "collapse": '[data-testid="stSidebarCollapseButton"] button',
    "main": '[data-testid="stMain"]',  # the scrolling element
    "page": '[data-testid="stMainBlockContainer"]',  # the page's column in it
    "vertical": '[data-testid="stVerticalBlock"]',
    "horizontal": '[data-testid="stHorizontalBlock"]',
    "column": '[data-testid="stColumn"]',
    "layout": '[data-testid="stLayoutWrapper"]',  # around each container
    "element": '[data-testid="stElementContainer"]',  # around each element
    "markdown": '[data-testid="stMarkdownContainer"]',
    "caption": '[data-testid="stCaptionContainer"]',
    "code": '[data-testid="stCode"]',
    "tab": '[data-testid="stTabPanel"]',
    "tab-name": '[data-testid="stTab"]',
    "instructions": '[data-testid="InputInstructions"]',  # "Press Ctrl+Enter to apply"
    "slider": '[data-testid="stSlider"] [role="group"]',
    "popover": '[data-testid="stPopoverBody"]',
    "metric": '[data-testid="stMetricValue"]',
    "tip": '[data-testid="stTooltipContent"]',
    "primary": 'button[kind^="primary"]:not(:disabled)',
    "chosen-pill": '[data-variant="pills"][data-selected="true"]',
    "chosen-segment": '[data-variant="segmented_control"][data-selected="true"]',
}


HEAD_LAYER = 999_990  # the z-index of the page's header; a phone's menu is above it


def css(text: str) -> str:
    """The style sheet with each `:--name` replaced from `SELECTORS`.

    Raises:
        KeyError: if there is no such name.
    """
    return re.sub(r":--([a-z-]+)", lambda named: SELECTORS[named[1]], text)


def style(text: str) -> str:
    """The style sheet as HTML; see `css`."""
    return f"<style>{css(text)}</style>"


# Text on the primary colour is always white, and a button's shortcut even paler: illegible on the dark theme's
# light blue (#12801).
ON_PRIMARY = ":is(:--app, :--popover) :--primary :is(p, kbd, span) { color: var(--page); opacity: 1; }\n"
# The colours of highlighted code are the same on every ground, and too pale for ours.
LEGIBLE_CODE = """
:--app :--code .token.token { color: inherit; }
:--app :--code .token.keyword { font-weight: 700; }
:--app :--code .token.comment { font-style: italic; }
"""
# A container in which a fragment draws nothing leaves an empty box and a gap.
NO_EMPTY_BOXES = ":--layout:has(> :--vertical:empty) { display: none; }\n"
# A slider that sets nothing has only its label, which says so: its value would be taken for what counts instead.
NOTHING_TO_SET = ".st-key-guesses-unset :--slider { visibility: hidden; }\n"
# A selected pill differs from the others by its colour alone.
SIGNS = ':--chosen-pill::before, :--chosen-segment::before { content: "✓" / ""; margin-right: 0.3em; }\n'

# Buttons and boxes name their keys everywhere, also where there is no keyboard, and where there is no room. Under the
# prompt Streamlit says that Ctrl+Enter applies it, which is also what Run names: there it takes the prompt and runs it.
NO_KEYS_WITHOUT_ROOM = (
    ":--app .st-key-prompt :--instructions { display: none; }\n"
    "@media (max-width: 1100px) { :--app button kbd { display: none; } }\n"
    "@media (pointer: coarse), (max-width: 640px) { :--app button kbd, :--instructions { display: none; } }\n"
)
# A slider takes a finger anywhere on its track, so that scrolling the page sets it and does not scroll. Only the knob
# takes fingers, from as far around as a finger is wide.
NO_SWIPES = """
@media (pointer: coarse) {
  :is(input, textarea, select) { font-size: max(16px, 1em) !important; } /* else Safari zooms in */
  :--slider > [data-rac] { pointer-events: none; touch-action: pan-y !important; }
  :--slider > [data-rac] > [data-rac] { pointer-events: auto; }
  :--slider > [data-rac] > [data-rac]::after { content: ""; position: absolute; inset: -16px; }
}
"""
# A tooltip of more than 300 pixels is cut, and a finger that scrolls it closes it.
WHOLE_TIPS = ":--tip { max-height: calc(100vh - 2rem) !important; }\n"
# A metric's value that is wider than its card is cut.
WHOLE_METRICS = ":--metric, :--metric * { white-space: normal !important; overflow: visible !important; }\n"
# Links, switches and boxes show by a pale ground or a thin border that the keyboard is on them. A tab that was left
# keeps its ring, which is cut above and below, and the colour of the one that is open.
FOCUS = """
:--tab-name { box-shadow: none !important; }
:--tab-name:focus-visible { outline: 2px solid var(--accent) !important; outline-offset: -2px; }
:--tab-name:not([data-selected], :hover, :focus-visible) { color: inherit !important; }
:is(:--app, :--popover) :is(a, button, textarea, input, summary):focus-visible,
:is(:--app, :--popover) label:has(:is([type="checkbox"], [type="radio"]):focus-visible),
:--main:focus-visible { outline: 2px solid var(--accent) !important; outline-offset: 2px; }
:is(:--app, :--popover) :is(textarea, input):focus-visible, :--main:focus-visible { outline-offset: -2px; }
"""

# --- Fragments ---


def fragment(draw: Callable[P, R], run_every: float | None = None) -> Callable[P, R | None]:
    """`st.fragment`, alone in a container of its own.

    When Streamlit starts a fragment before the whole script's output has left the server (pressing one of its controls,
    or a timer, on a busy machine is enough), it removes the fragment's own block from the pending output. The browser
    then drops the block as a left-over of the previous run, everything after it moves up by one, and the fragment's
    output is drawn over the element after it. In a container of its own this cannot happen.
    """
    inner = st.fragment(draw, run_every=run_every)  # noqa: TID251

    @wraps(draw)
    def within(*given: P.args, **named: P.kwargs) -> R | None:
        with st.container():
            return inner(*given, **named)

    return within


# --- The log ---


def drop_double_close(record: logging.LogRecord) -> bool:
    """A filter of the web server's log, without errors about a page that was closed already.

    Streamlit takes whatever goes wrong when a page's message is read for a message of text, closes the connection, and
    fails if both sides have closed it by then. The web server logs that as an error with a traceback; nothing is wrong.
    """
    return not (record.exc_info and isinstance(record.exc_info[1], WebSocketDisconnected))


SCRIPTS_LOG = "streamlit.runtime.scriptrunner.script_runner"


def drop_missing_fragment(record: logging.LogRecord) -> bool:
    """A filter of `SCRIPTS_LOG`, without warnings about a press in a part of the page that was taken away meanwhile.

    Streamlit skips such a message, and warns unless a timer sent it (issue 9080); nothing has to be done, it says.
    """
    return not str(record.msg).startswith("Couldn't find fragment with id")


# --- The address ---

LAG_S = 10.0  # a message that took longer was held up by something else


def came_by_history() -> bool:
    """Whether the browser's back or forward button started this run of the script.

    Streamlit keeps that private. A context without the flag is an error and not a "no", which would undo going back.
    """
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


@dataclass(slots=True)
class _Written:
    value: str | None  # None: the key was removed
    before: set[str | None] = field(default_factory=set)  # values the browser may still have
    at: float = 0.0


class LaggingAddress:
    """An address that keeps what was written until the browser knows it.

    Every message of the browser includes its address. Streamlit takes that as the truth even if it was sent before the
    server's last change arrived: on a slow line, or after two quick presses, the change would be lost. This writes it
    again.
    """

    def __init__(self) -> None:
        self._written: dict[str, _Written] = {}

    def put(self, key: str, value: str | None) -> None:
        """Write the key; None removes it."""
        written = self._written.setdefault(key, _Written(value))
        written.before.add(st.query_params.get(key))
        written.value, written.at = value, time.monotonic()
        _write(st.query_params, key, value)

    def catch_up(self, *, afresh: bool = False) -> None:
        """Write again what a late message of the browser does not include; `afresh`: its address is authoritative."""
        if afresh or came_by_history():
            self._written.clear()
        now = time.monotonic()
        for key, written in list(self._written.items()):
            there = st.query_params.get(key)
            if now - written.at > LAG_S or (there != written.value and there not in written.before):
                del self._written[key]
            elif there != written.value:
                _write(st.query_params, key, written.value)


def _write(address: MutableMapping[str, str], key: str, value: str | None) -> None:
    if value is None:
        address.pop(key, None)
    elif address.get(key) != value:
        address[key] = value


# --- A browser that comes back ---


def brought_along(key: str) -> Any:
    """What the widget with this key holds in a browser whose session is new here; None if it sent nothing.

    After the server was started again, a page stays as it is until its visitor presses something. That press starts a
    session, and only a widget that was drawn gives its value: what was typed meanwhile is in the press, under the
    widget's id, which ends with its key.
    """
    context = get_script_run_ctx()
    for each in context.session_state.get_widget_states() if context is not None else ():
        if each.id.split("-", 2)[-1] == key and (
            kind := each.WhichOneof("value")
        ):  # an id is $$ID-<hash>-<key>
            value = getattr(each, kind)
            return list(value.data) if kind.endswith("array_value") else value
    return None


# --- The page's frame ---

# Streamlit makes a place of the browser's history of all that it writes into the address. Popovers are outside the
# element that has the theme's colour scheme, where colours are those of the light theme. Its page says `lang="en"`,
# whatever is written on it (#15726). On a phone the navigation is a sidebar over the page, which stays when it has led
# to another one. A page's scroll position stays when all of it is replaced, and nothing can scroll to an element.
_frame = st.components.v2.component(
    "specdec_frame", html="<i hidden>\n</i>", js=(HERE / "frame.js").read_text(encoding="utf-8")
)
# An element without height still has a gap; the header covers what is scrolled to the very top.
FRAME = """
:--layout:has(> .st-key-frame) { display: none; }
.st-key-open, .st-key-player, .st-key-lane-form { scroll-margin-block: 4.5rem 1rem; }
"""
FIXES = (
    ON_PRIMARY
    + LEGIBLE_CODE
    + NO_EMPTY_BOXES
    + NOTHING_TO_SET
    + NO_KEYS_WITHOUT_ROOM
    + NO_SWIPES
    + WHOLE_TIPS
    + WHOLE_METRICS
    + FOCUS
    + FRAME
)


def frame(**asked: Any) -> None:
    """Mount `frame.js` with what `frame.py` asks of it; the script runs again when the colour scheme changes."""
    selectors = {"app": SELECTORS["app"], "main": SELECTORS["main"], "menu": SELECTORS["collapse"]}
    with st.container(key="frame"):
        _frame(key="frame-of-page", data={**asked, "selectors": selectors}, on_scheme_change=lambda: None)


# --- Headers ---


def inline_scripts() -> list[str]:
    """Content security policy sources for the inline scripts of Streamlit's page.

    The page has no nonce, so without these hashes the policy would have to allow every inline script.
    """
    page = Path(st.__file__).parent / "static" / "index.html"
    scripts = re.findall(
        r"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", page.read_text(encoding="utf-8"), re.DOTALL
    )
    return [f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts]
