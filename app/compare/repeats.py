"""The same race repeated, lanes in turn, so that a speedup has a spread and advice an uncertainty.

Repeats are a sweep over one prompt; the address names it. Each press of the button is a case of that sweep, and the
next sweep begins with what the one before has measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import streamlit as st

from app.decoding.jobs import Busy
from app.decoding.run import Request, Run
from app.lanes.naming import letters
from app.records import visitor
from app.running.flow import HERE
from app.text import count, plain
from app.ui import address
from app.ui.fragment import fragment
from app.ui.state import State, state
from specdec_core.foundations.errors import SpecdecError
from specdec_core.proposers import PROPOSERS
from specdec_measure.analysis.advice import MIN_CASES, Advice, advise, ineligible
from specdec_measure.sweep.cases import Case
from specdec_measure.sweep.measured import MeasuredCase, complete_turns

from .sweep import Order, Sweep
from .sweeps import sweeps
from .timing import speeds

TURNS = 7  # of a press; six is the minimum to distinguish two lanes
PRESSES = 6  # at most
NOISE = 1.5  # plain decoding's highest over its lowest speed from which the machine was not quiet
ADDRESS = "repeats"


def job(run: Run) -> Sweep | None:
    """The repeats that the address names, if they are of this run's lanes and prompt."""
    found = sweeps().get(st.query_params.get(ADDRESS), visitor.of_session())
    if found is None or found.order.cases != _order(run, len(found.order.cases)).cases:
        return None
    return found if _same(found, run) else None


def rows(run: Run) -> list[MeasuredCase]:
    """The cells measured so far, their turns counted through all presses of the button; empty before the first."""
    found = job(run)
    if found is None:
        return []
    before = {case.name: TURNS * press for press, case in enumerate(found.order.cases)}
    return [replace(row, name=_name(0), repeat=before[row.name] + row.repeat) for row in list(found.rows)]


def origin(run: Run) -> str:
    """Where and when the figures of the race itself were measured, for their captions."""
    turns = len(speeds(rows(run), 0))
    if not turns:
        return HERE["provenance_note"]
    return f"this machine, the first run; the Table has the mean of {count(turns, 'repeat')}"


def noise(measured: Sequence[MeasuredCase]) -> str | None:
    """A sentence where plain decoding's speed varied so much over the repeats that the machine was not quiet."""
    found = speeds(measured, 0)
    if not found or max(found) <= NOISE * min(found):
        return None
    return (
        f"The machine was not quiet: plain decoding ran at {min(found):.0f} to {max(found):.0f} tokens/s over these "
        "repeats."
    )


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
        earlier = job(run)
        known = list(earlier.rows) if earlier else []
        order = _order(run, min(PRESSES, _turns(earlier) // TURNS + 1))
        try:
            address.put(ADDRESS, sweeps().start(order, visitor.of_session(), "repeats", known).id)
        except (SpecdecError, Busy) as error:
            return str(error)
    return None


def controls(run: Run, refused: str | None) -> None:
    """The button that starts repeats, and their progress; `refused`: what `begin` said."""
    found, refusal = job(run), why_not(run.request)
    busy = found is not None and found.active
    turns = _turns(found)

    @fragment(run_every=0.5 if busy else None)
    def progress() -> None:
        current = job(run)
        if current is None or not busy:
            return
        current.seen()
        if not current.active:
            st.rerun()
        done, total = len(current.rows), current.order.cells
        st.progress(min(1.0, done / total), text=f"{done} of {count(total, 'cell')} measured")

    with st.container(horizontal=True, vertical_alignment="center", width="content"):
        st.button(
            f"Repeat {TURNS - turns % TURNS} more times" if turns else f"Repeat {TURNS} times",
            icon=":material/replay:",
            key=State.repeat.key,
            disabled=busy or refusal is not None or turns >= PRESSES * TURNS,
            help="Runs all lanes again, in turns, without recording, to give the speedup a spread. "
            f"{MIN_CASES} turns are needed at least to tell two lanes apart. Pressed again, it adds to them, up to "
            f"{PRESSES * TURNS}.",
        )
        if found is not None and busy and found.owner == visitor.of_session():
            st.button(
                "Stop repeating",
                icon=":material/stop:",
                key="stop_repeats",
                on_click=found.cancel,
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
    return advise(rows(run), letters(run.request.labels), leave_out=ineligible(run.request.lanes))


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
    say(found)
    out = ", ".join(letters(run.request.labels)[number] for number in ineligible(run.request.lanes))
    st.caption(
        "measured · lane against lane within each repeat; intervals by bootstrap over the repeats, tries by a sign "
        "test; each pair judged by itself"
        + (f" · not eligible: {out} (lossy, or its drafting is not counted)" if out else "")
    )


def say(found: Advice) -> None:
    """The answer, then a line for each pair and how to read them."""
    icon = "thumb_up" if found.clear else "balance"
    lines = "\n".join(f"- {plain(line)}" for line in found.lines)
    st.markdown(f":material/{icon}: **{plain(found.answer)}**\n\n{lines}")
    if found.notes:
        st.caption(plain(found.notes))


def _order(run: Run, presses: int) -> Order:
    """The repeats of so many presses of the button, all of the same prompt."""
    request = run.request
    system = request.system if run.templated else ""
    case = Case("comparison", _name(0), request.prompt, chat=run.templated, system=system)
    cases = tuple(replace(case, name=_name(press)) for press in range(presses))
    return Order(cases, request.lanes, request.labels, TURNS, request.choice)


def _name(press: int) -> str:
    """The case of a press of the button; no two cases of a sweep have one name."""
    return f"prompt {press + 1}" if press else "prompt"


def _turns(found: Sweep | None) -> int:
    """How many turns are measured in every lane."""
    if found is None:
        return 0
    lanes = len(found.order.lanes)
    return len(complete_turns(found.rows, lanes)) // lanes


def _same(found: Sweep, run: Run) -> bool:
    """Whether the repeats are of the run's lanes; the sweep's lanes record nothing."""
    wanted = tuple(lane.but(record="off") for lane in run.request.lanes)
    return found.order.lanes == wanted and found.order.choice == run.request.choice
