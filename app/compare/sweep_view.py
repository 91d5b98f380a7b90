"""A sweep on the comparison page: the matrix of families and lanes fills while one watches, and can be downloaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import streamlit as st

from app.choosing import presets
from app.decoding.jobs import OVER, Busy
from app.decoding.models import ModelChoice
from app.lanes import page_settings
from app.lanes.naming import letters
from app.records import visitor
from app.records.database import Unavailable
from app.running.downloads import button
from app.text import count, plain
from app.ui import address, tables
from app.ui.fragment import fragment
from app.ui.state import State, state
from specdec_core.proposers import PROPOSERS, Proposer
from specdec_core.rules import RULES
from specdec_core.settings import Settings
from specdec_measure.analysis.advice import advise, ineligible
from specdec_measure.sweep.measured import MeasuredCase
from specdec_measure.sweep.totals import csv_of, failures, looping, summary, to_csv, to_json

from .repeats import say
from .sweep import Order, Sweep
from .sweep_form import ADDRESS, form, penalty
from .sweeps import sweeps
from .table import NOTHING

if TYPE_CHECKING:  # plotly is imported with the first chart
    from app.charts.matrix import Measure

FAILURES = 5  # shown one by one


def show(
    lanes: Sequence[Settings],
    labels: Sequence[str],
    choice: ModelChoice,
    chat: bool = False,
    system: str = "",
) -> None:
    """The form for a sweep of these lanes, and the sweep that the address names, if any.

    Args:
        lanes: as raced; lane 0 is plain decoding.
        labels: their names.
        choice: the models they ran on.
        chat, system: whether those models use a chat template, and with which system line.
    """
    job = sweeps().get(st.query_params.get(ADDRESS), visitor.of_session())
    st.markdown(
        "**The same lanes on many prompts.** One prompt shows how guessing works; many show where it pays off."
    )
    if job is None and ADDRESS in st.query_params:
        st.info(
            "The sweep of this link is no longer kept on this server. Start it again below.",
            icon=":material/history:",
        )
    kept = [at for at, lane in enumerate(lanes) if "person" not in PROPOSERS[lane.proposer].needs]
    if len(kept) < len(lanes):
        st.caption(
            "The lane with a person guessing is left out: nobody types the same words for every prompt."
        )
    going = job is not None and job.active
    form([lanes[at] for at in kept], [labels[at] for at in kept], choice, (chat, system), busy=going)
    job = sweeps().get(
        st.query_params.get(ADDRESS), visitor.of_session()
    )  # it may have been started just now
    if job is not None:
        _watch(job)


def _watch(job: Sweep) -> None:
    """A sweep's progress, its buttons, and the results so far."""
    began_active = job.active
    mine = job.owner == visitor.of_session()

    @fragment(run_every=1.0 if began_active else None)
    def live() -> None:
        shown = sweeps().get(job.id, visitor.of_session()) or job if job.elsewhere else job
        shown.seen()
        if began_active != shown.active or ADDRESS not in st.query_params:
            st.rerun()
        rows = list(shown.rows)
        with st.container(horizontal=True, vertical_alignment="center", key="sweep_state"):
            _state(shown, len(rows))
            _buttons(shown, mine)
        for said in (State.sweep_refused.take(), shown.error):
            if said:
                st.error(plain(said), icon=":material/error:")
        if rows:
            origin = "measured · this machine, this sweep" + (" so far" if shown.active else "")
            matrix(rows, shown.about, origin)
        if rows and not shown.active:
            _advice(shown.order, rows)

    live()
    if job.rows and not job.active:
        _downloads(job)


def _advice(order: Order, rows: Sequence[MeasuredCase]) -> None:
    """Which lane to take on such prompts, and how sure that is."""
    if found := advise(rows, letters(order.labels), leave_out=ineligible(order.lanes)):
        say(found)


def _state(job: Sweep, done: int) -> None:
    cells = job.order.cells
    state = job.state
    if state in OVER:
        words = {
            "done": f"All {count(cells, 'cell')} measured.",
            "stopped": f"Stopped after {done:,} of {count(cells, 'cell')}.",
            "failed": f"Ended after {done:,} of {count(cells, 'cell')}.",
        }[state]
        st.markdown(words)
        return
    words = f"{done:,} of {count(cells, 'cell')}"
    if job.state == "loading":
        words += " · loading the models"
    elif job.elsewhere:
        words += " · measured by another process of this server"
    elif job.place:
        words += f" · waiting for {count(job.place, 'run')} ahead"
    elif job.ahead is None:
        words += " · warming up"
    elif job.left_s is not None:
        words += f" · about {_duration(job.left_s)} left"
    if (ahead := job.ahead) is not None:
        words += f" · {plain(ahead.case.family)}: {plain(ahead.case.name)}, {plain(ahead.label)}"
    st.progress(min(1.0, done / cells), text=words)


def _buttons(job: Sweep, mine: bool) -> None:
    if not mine:
        st.caption("Somebody else's sweep: you can watch it; only they can stop it.")
        return
    if job.elsewhere:
        return
    if job.active:
        st.button(
            "Cancel",
            icon=":material/stop:",
            key="sweep_cancel",
            on_click=job.cancel,
            help="Ends within one round; what was measured is kept, and the sweep can continue later.",
        )
        return
    if job.state != "done":
        st.button(
            "Resume",
            icon=":material/play_arrow:",
            key="sweep_resume",
            on_click=_do,
            args=(job, sweeps().resume),
            help="Continues where it stopped; a turn that was cut short is measured again.",
        )
    st.button(
        "Delete",
        icon=":material/delete:",
        key="sweep_delete",
        on_click=_do,
        args=(job, sweeps().delete),
        help="Deletes this sweep and what it measured from the server, for everybody who has its link.",
    )


def _do(job: Sweep, change: Callable[[Sweep], object]) -> None:
    """Change a sweep before the page is drawn with it."""
    try:
        change(job)
    except (Busy, Unavailable) as error:
        state.sweep_refused = str(error)
    else:
        if sweeps().get(job.id, visitor.of_session()) is None:
            address.put(ADDRESS, None)


def matrix(rows: Sequence[MeasuredCase], about: dict[str, object], provenance: str) -> None:
    """The matrix of families and lanes, one measure at a time, and the same as a table."""
    from app.charts import comparison_matrix
    from app.charts.draw import draw
    from app.charts.matrix import noisy

    table = summary(rows)
    titles = {family.name: family.title for family in presets.families()}
    table["family"] = [titles.get(name, name) for name in table["family"]]
    measures = page_settings.SWEEP_MEASURE.titles()
    measure = st.segmented_control(
        "Shown in each cell",
        list(measures),
        format_func=measures.__getitem__,
        key=State.sweep_measure.key,
        persist_state="session",
        required=True,
        help="Three views: τ ignores the cost of guessing, α ignores the length of the draft.",
    )
    address.write([page_settings.SWEEP_MEASURE])
    origin = [provenance, str(about.get("machine", "")), str(about.get("device", ""))]
    origin.append(
        "all prompts' judged guesses together"
        if measure == "alpha"
        else "medians over prompts and their repeats"
    )
    shared = about.get("lanes")
    origin[-1] += penalty(shared[0].get("repetition_penalty") if isinstance(shared, list) else None)
    draw(comparison_matrix(table, cast("Measure", measure), " · ".join(filter(None, origin))), "sweep_matrix")
    if measure == "speedup" and any(noisy(line) for line in table.to_dict("records")):
        st.caption(
            ":material/warning: ? marks a speedup above the tokens per pass, which guessing cannot reach: the timing "
            "was disturbed. Measure again while the machine is quiet, with more repeats."
        )
    if repeats := looping(table.to_dict("records")):
        st.caption(f":material/repeat: {plain(repeats)} They carry ↺.")
    free = {row.label: None for row in rows if (lane := _settings(row, about)) and _kind(lane).off_the_clock}
    if free:
        st.caption(f":material/info: a bound, since drafting is not counted: {plain(', '.join(free))}")
    lossy = [row.label for row in rows if _is_lossy(row, about)]
    if lossy:
        names = ", ".join(dict.fromkeys(lossy))
        st.caption(f":material/warning: lossy, so their texts may differ: {plain(names)}")
    failed = failures(rows)
    for failure in failed[:FAILURES]:
        st.caption(f":material/error: {plain(failure)}")
    if len(failed) > FAILURES:
        st.caption(f"… and {len(failed) - FAILURES} more; the JSON has them all.")
    with st.expander("As a table, with intervals", icon=":material/table:", key="sweep_table"):
        tables.draw([_line(line) for line in table.to_dict("records")], "The sweep's figures")
        st.caption(
            "Speedups and τ are medians over prompts and their repeats, α is over all prompts' judged guesses "
            "together. In brackets: the middle half of the prompts, and the 95% Wilson interval. The CSV has more."
        )


def _line(line: dict[Any, Any]) -> dict[str, str]:
    """A line of the summary in words."""

    line = {**line, "plural": "" if line["looping"] == 1 else "s"}

    def cell(form: str, *names: str) -> str:
        values = [line[name] for name in names]
        return NOTHING if any(value is None or value != value for value in values) else form.format(*values)

    return {
        "Kind of text": str(line["family"]),
        "Lane": str(line["label"]),
        "Prompts": f"{line['prompts']}"
        + (f", speeds of {line['compared']}" if 0 < line["compared"] < line["prompts"] else "")
        + (f", {count(line['failed'], 'cell')} failed" if line["failed"] else ""),
        "Speedup": cell("{:.2f}× ({:.2f} to {:.2f})", "speedup", "speedup_q1", "speedup_q3")
        if line["compared"] > 1
        else cell("{:.2f}×", "speedup"),
        "Slower on": cell("{:.0%} of prompts", "slower"),
        "Spread of repeats": cell("{:.0%}", "repeats_apart"),
        "Tokens per pass τ": cell("{:.2f}", "tokens_per_pass"),
        "Acceptance rate α": cell("{:.0%} ({:.0%} to {:.0%})", "alpha", "alpha_low", "alpha_high"),
        "Same text as plain decoding": cell("{:.0%} of prompts", "same_text"),
        "Loops": cell("{:.0f} text{} ({:.0%} of tokens repeat)", "looping", "plural", "repeated"),
    }


def _is_lossy(row: MeasuredCase, about: dict[str, object]) -> bool:
    lane = _settings(row, about)
    return lane is not None and not RULES[lane["rule"]].lossless


def _settings(row: MeasuredCase, about: dict[str, object]) -> dict[str, Any] | None:
    """A cell's lane settings; None for plain decoding."""
    lanes = about.get("lanes")
    return lanes[row.lane] if row.lane and isinstance(lanes, list) else None


def _kind(lane: dict[str, Any]) -> type[Proposer]:
    return PROPOSERS[lane["proposer"]]


def _downloads(job: Sweep) -> None:
    rows = list(job.rows)
    name = f"specdec-sweep-{job.id}"
    with st.container(horizontal=True, key="sweep_downloads"):
        button("Cells (CSV)", lambda: to_csv(rows), f"{name}-cells.csv", "One row per cell.", "table_view")
        about = "One row per kind of text and lane, with quartiles and intervals."
        button("Matrix (CSV)", lambda: csv_of(summary(rows)), f"{name}-matrix.csv", about, "table_view")
        about = "Cells, matrix, settings, models, machine and versions."
        button("Everything (JSON)", lambda: to_json(job.about, rows), f"{name}.json", about)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return count(max(1, round(seconds)), "second")
    return count(round(seconds / 60), "minute") if seconds < 5400 else f"{seconds / 3600:.1f} hours"
