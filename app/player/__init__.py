"""The player: the one component that draws a run while it happens and walks through it afterwards.

Its code is plain ES modules in the rooms of `static/`, which the app serves as one file; no build step. Streamlit gets
a small bootstrap that imports it, because its components take inline code only. The style sheets go inline as well,
into the component's shadow root.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import streamlit as st

from app.export import served

STATIC = Path(__file__).parent / "static"
SHEETS = STATIC / "style"

CURSOR = ("round", "step", "node", "lead", "view")
"""The position of a viewer, whole numbers but the last: `lead` is the lane whose rounds the cursor walks through (None:
the last); `round` one of its rounds (0 is the prompt; more than there are is the end; None is the most telling round);
`step` an event within that round, counted from 0 (None: the whole round); `node` a proposal's number in it (−1 is the
token the target wrote itself; None selects nothing); `view` the view that is open; where there is room, tree and odds
are one. Values out of range are clamped."""
VIEWS = ("tree", "mask", "odds", "window")


class Seen(Protocol):
    """What the player reports: `cursor` has the keys in `CURSOR` and "of", once the viewer has moved. The others are
    None but in the one script run after: `done` is the run's id once a live run has ended; `branch` is a candidate to
    go on from (`trace`: the record's id, `at`: after so many of its tokens, `token`); `back` a run of the trail."""

    cursor: Mapping[str, Any] | None
    done: str | None
    branch: Mapping[str, Any] | None
    back: str | None


_HTML = '<div class="specdec-player"></div>\n<div hidden></div>'

# Streamlit calls the default export again on every change of data or theme, and its returned function at unmount.
_JS = """
const players = new WeakMap();

async function load(code) {
  // Pages live one level below the app's root; an address with a closing slash looks one level deeper.
  try {
    return await import(new URL(code, document.baseURI).href);
  } catch {
    return await import(new URL(`../${code}`, document.baseURI).href);
  }
}

export default function ({ data, parentElement, setStateValue, setTriggerValue }) {
  let own = players.get(parentElement);
  if (!own) {
    own = { data, player: null, gone: false, api: {} };
    players.set(parentElement, own);
    const root = parentElement.querySelector(".specdec-player");
    load(data.code).then(({ mount }) => {
      if (own.gone) return;
      own.player = mount(root, own.data, {
        setStateValue: (...args) => own.api.setStateValue(...args),
        setTriggerValue: (...args) => own.api.setTriggerValue(...args),
        branch: (trace, at, token) => own.api.setTriggerValue("branch", { trace: trace.header.id, at, token }),
        back: (run) => own.api.setTriggerValue("back", run),
      });
    }, () => {
      root.textContent = "The player could not be loaded. Reload the page.";
    });
  }
  own.data = data;
  own.api = { setStateValue, setTriggerValue };
  own.player?.update(data);
  return () => {
    own.gone = true;
    own.player?.destroy();
    players.delete(parentElement);
  };
}
"""


_component = st.components.v2.component(
    "specdec_player",
    html=_HTML,
    css="\n".join(path.read_text(encoding="utf-8") for path in sorted(SHEETS.glob("*.css"))),
    js=_JS,
)


def player(key: str = "player", **shown: Any) -> Seen:
    """Draw a run with these `data`; with the same `key`, new data goes to the same player.

    Returns:
        The component's reported state.
    """
    return _component(
        key=key,
        data=data(**shown),
        on_cursor_change=lambda: None,
        on_done_change=lambda: None,
        on_branch_change=lambda: None,
        on_back_change=lambda: None,
    )


def data(
    *,
    mode: Literal["live", "replay"],
    traces: Sequence[Mapping[str, Any]] = (),
    events: str | None = None,
    provenance: Literal["measured", "recorded"] = "measured",
    provenance_note: str = "",
    cursor: Mapping[str, int | str | None] | None = None,
    autoplay: bool = False,
    prompt: str | None = None,
    of: str = "",
    rules: Mapping[str, Mapping[str, Any]] | None = None,
    proposers: Mapping[str, str] | None = None,
    compared: bool = True,
    present: bool = False,
    view_first: bool = False,
    addressed: bool = False,
    branches: bool = False,
    trail: Sequence[Mapping[str, Any]] = (),
    language: str | None = None,
) -> dict[str, Any]:
    """What the player's code is given to draw a run: live from its event stream, or from finished traces.

    Args:
        mode: "live" follows `events` and becomes a replay by itself when the run is done.
        traces: one mapping per lane, plain decoding first: `label`, and `url` (relative to the app's root) or `trace`
            (a trace as parsed JSON). The first plain lane is the baseline of the speedups.
        events: the address of the run's event stream; with mode "live".
        provenance: the source of the figures in one word; `provenance_note` names machine and date.
        cursor: where the viewer is to be; see `CURSOR`.
        autoplay: play a replay from its beginning, unless the cursor names a round or the viewer prefers no motion.
        prompt: the prompt's text, shown while a live run has no trace yet.
        of: a name of what is shown, returned with the cursor: an old cursor does not apply to a new run.
        rules: for each acceptance rule by name its `title` and whether it is `lossless`.
        proposers: what each proposer by name does, in a sentence or two; a pointer over a lane's name brings it up.
        compared: whether the lanes were raced in one run; if not, no speedup is shown.
        present: presentation mode: one large lane and view.
        view_first: in a presentation, the view is above the lane, for a page whose text asks about the view.
        addressed: whether the page keeps the cursor in its address; the player then puts it there first.
        branches: whether the viewer can go on from a candidate in the odds.
        trail: runs that go on from each other: `run`, `text` of the token it began with, whether it is `shown`.
        language: the language of the texts, if the app has its own player catalogue for it.
    """
    from specdec_measure.sweep.totals import MIN_TOKENS

    return {
        "mode": mode, "events": events, "provenance": provenance, "provenance_note": provenance_note, "of": of,
        "autoplay": autoplay, "prompt": prompt, "compared": compared, "present": present, "addressed": addressed,
        "traces": [dict(trace) for trace in traces],
        "cursor": {name: (cursor or {}).get(name) for name in CURSOR},
        "rules": {name: dict(rule) for name, rule in (rules or {}).items()},
        "proposers": dict(proposers or {}),
        "view_first": view_first and present, "branches": branches, "trail": [dict(one) for one in trail],
        "code": served.address(language),
        "least": MIN_TOKENS,
    }  # fmt: skip
