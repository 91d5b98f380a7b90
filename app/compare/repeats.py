"""The same race repeated, lanes in turn, so that a speedup has a spread and advice an uncertainty.

Repeats are a sweep over one prompt; the address names it.
"""

from __future__ import annotations

import streamlit as st

from app.decoding.jobs import Busy
from app.decoding.run import Request, Run
from app.records import visitor
from app.text import count, plain
from app.ui import address, quirks
from app.ui.fragment import fragment
from app.ui.state import State, state
from specdec_core.analysis.advice import LEAST_CASES, Advice, advise, ineligible
from specdec_core.errors import SpecdecError
from specdec_core.proposers import PROPOSERS
from specdec_core.sweep.cases import Case
from specdec_core.sweep.measured import Measured

from .sweep import Order, Sweep
from .sweeps import sweeps

TURNS = 7  # six is the minimum to distinguish two lanes
ADDRESS = "repeats"


def job(run: Run) -> Sweep | None:
    """The repeats that the address names, if they are of this run's lanes and prompt."""
    found = sweeps().get(st.query_params.get(ADDRESS), visitor.of_session())
    return (
        found if found is not None and found.order.cases == _order(run).cases and _same(found, run) else None
    )


def rows(run: Run) -> list[Measured]:
    """The cells measured so far; empty before the first."""
    found = job(run)
    return list(found.rows) if found else []


def why_not(request: Request) -> str | None:
    """Why a run cannot be repeated, as a sentence; None if it can."""
    if any("person" in PROPOSERS[lane.proposer].needs for lane in request.lanes):
        return (
            "A lane with a person guessing is not repeated: nobody wants to type the same words seven times."
        )
    return None


def begin(run: Run) -> str | None:
    """Start repeats if their button was pressed, before what they change is drawn; why they were refused, if so."""
    if state.repeat:
        try:
            address.put(ADDRESS, sweeps().start(_order(run), visitor.of_session(), "repeats").id)
        except (SpecdecError, Busy) as error:
            return str(error)
    return None


def controls(run: Run, refused: str | None) -> None:
    """The button that starts repeats, and their progress; `refused`: what `begin` said."""
    found, refusal = job(run), why_not(run.request)
    busy = found is not None and found.active

    @fragment(run_every=0.5 if busy else None)
    def progress() -> None:
        current = job(run)
        if current is None or not busy:
            return
        sweeps().watch(current)
        if not current.active:
            quirks.rerun()
        done, total = len(current.rows), current.order.cells
        st.progress(min(1.0, done / total), text=f"{done} of {count(total, 'cell')} measured")

    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            f"Repeat {TURNS} times",
            icon=":material/replay:",
            key=State.repeat.key,
            disabled=busy or refusal is not None,
            help="Runs all lanes again, in turns, without recording, to give the speedup a spread. "
            f"{LEAST_CASES} turns are needed at least to tell two lanes apart.",
        )
        if found is not None and busy and found.owner == visitor.of_session():
            st.button(
                "Stop repeating",
                icon=":material/stop:",
                key="stop_repeats",
                on_click=lambda: sweeps().cancel(found),
            )
    progress()
    if refusal:
        st.caption(refusal)
    if found is not None and found.error:
        st.error(plain(found.error), icon=":material/error:")
    if refused:
        st.error(plain(refused), icon=":material/error:")


def recommendation(run: Run) -> Advice | None:
    """The recommendation from the repeats among the eligible lanes."""
    return advise(rows(run), run.request.labels, leave_out=ineligible(run.request.lanes))


def advice(run: Run) -> None:
    """The recommendation with its uncertainty."""
    found = recommendation(run)
    if found is None:
        st.caption(
            "No recommendation: no two eligible lanes (lossless, with drafting counted) wrote enough to be "
            "compared."
            if rows(run)
            else "No recommendation yet. What the Race tab says is from the scatter of the rounds within "
            "this one run; another run may be faster or slower as a whole. Repeat it to see how much."
        )
        return
    st.markdown(f":material/{'thumb_up' if found.clear else 'balance'}: {plain(found.sentence)}")
    out = ", ".join(
        run.request.labels[number].partition(" · ")[0] for number in ineligible(run.request.lanes)
    )
    st.caption(
        "measured · lane against lane within each repeat; intervals by bootstrap over the repeats, p by a sign test; "
        "each pair judged by itself"
        + (f" · not eligible: {out} (lossy, or its drafting is not counted)" if out else "")
    )


def _order(run: Run) -> Order:
    request = run.request
    system = request.system if run.templated else ""
    case = Case("comparison", "prompt", request.prompt, chat=run.templated, system=system)
    return Order((case,), request.lanes, request.labels, TURNS, request.choice)


def _same(found: Sweep, run: Run) -> bool:
    """Whether the repeats are of the run's lanes; the sweep's lanes record nothing."""
    wanted = tuple(lane.but(record="off") for lane in run.request.lanes)
    return found.order.lanes == wanted and found.order.choice == run.request.choice
