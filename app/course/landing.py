"""The first thing that a visitor sees: the recorded race, which plays once and rests on its finish."""

from __future__ import annotations

from functools import cache
from typing import Any

import streamlit as st

from app.metrics.numbers import measured_speedup
from app.records import examples as recorded
from app.ui import address
from specdec_core.foundations.errors import TraceError
from specdec_core.record.trace import Trace

from .drawing.scene import style
from .files.words import FOLDER, Words
from .pictures.runs import race

EXAMPLE = "landing"
STYLE = """<style>
.st-key-landing > :first-child { min-block-size: 24rem; } /* nothing moves when the race has come */
.st-key-landing { max-width: 72rem; margin: 1rem auto 0; gap: 0.75rem; }
.st-key-landing .race { font-size: 1.125rem; gap: 1.1rem; }
.st-key-landing .race .track { height: clamp(2.25rem, 6vh, 3.5rem); }
.st-key-landing .race pre { border: 0; padding: 0; min-height: 4.5em; font-family: inherit;
  font-size: clamp(1.125rem, 1.7vw, 1.5rem); line-height: 1.75; }
.st-key-landing .race figcaption { display: none; } /* the lanes have the same names */
.st-key-landing .race-result { font-size: clamp(1.5rem, 3.4vw, 2.25rem); line-height: 1.2; text-wrap: balance; }
</style>"""


def draw() -> None:
    """The race, and the round that shows how it is done, one press away."""
    with st.container(key="landing"):
        st.html(drawn())
        with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
            st.button("Step through one round", icon=":material/footprint:", key="step", on_click=_step)
            st.markdown("or type your own.", width="content")
        st.caption(_origin())


def _step() -> None:
    address.put("round", str(best_round()))


@cache
def lanes() -> tuple[Trace, Trace]:
    """The recording: plain decoding, and the lane with the helper."""
    plain, other = (
        Trace.from_json(recorded.files()[f"{EXAMPLE}{end}"].read_bytes()) for end in ("-plain", "")
    )
    return plain, other


@cache
def drawn() -> str:
    """The race as HTML.

    Raises:
        TraceError: if the recording does not bear out what is said at its end.
    """
    plain, other = lanes()
    gain = measured_speedup(plain.stats, other.stats)
    if gain is None or plain.token_ids != other.token_ids:
        raise TraceError(f"The recording “{EXAMPLE}” has no speedup, or two texts.")
    shown = race.race(plain, other, _said, "", _said("race.finish", gain=gain))
    return style(race.__file__).html + shown


@cache
def best_round() -> int:
    """The number of the first round, counted from 1, of those that kept most guesses before they rejected one."""
    rounds = [list(row.nodes.verdict) for row in lanes()[1].rounds]
    kept = [one.count("accepted") if "rejected" in one else 0 for one in rounds]
    return 1 + kept.index(max(kept))


@cache
def _origin() -> str:
    plain, _ = lanes()
    slow = race.SHOWN_S / plain.rounds[-1].end_s
    return _said("race.recorded", machine=plain.header.machine, date=plain.header.created[:10], slow=slow)


def _said(key: str, /, **values: Any) -> str:
    words, short = Words("en", FOLDER), key.replace("race.", "race.landing_")
    return words(short if short in words.all() else key, **values)
