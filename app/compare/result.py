"""Shown below the lanes once there is a run: the race, its table, charts, and downloads."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app import services
from app.decoding.run import Run
from app.lanes.naming import letters
from app.running import headline
from app.running.flow import Flow
from app.running.why import Why, slowed
from app.running.why import html as html_of_why
from app.text import count, plain
from app.ui import presenter, quirks, tables
from app.ui.state import State, state
from specdec_core.foundations.errors import SpecdecError
from specdec_core.proposers import PROPOSERS
from specdec_core.record.trace import Trace
from specdec_measure.analysis import combined
from specdec_measure.analysis.advice import ineligible
from specdec_measure.analysis.diagnosis import why
from specdec_measure.analysis.memory import MemoryLine
from specdec_measure.records.repeats import percent

from . import divergences, editor, export_tab, repeats
from .table import html, megabytes, table
from .timing import answer, speeds, verdict

# A tab is empty until it has been drawn: were the page shorter than the window then, it would jump to its top. The
# answer has its place from the start, and stays in sight above the player that the page is scrolled to.
STYLE = """<style>
.st-key-tab > div > :--tab:not(:has(:--element)) { min-height: calc(100vh - 6rem); }
.st-key-answer { min-block-size: 5.5rem; gap: 0.25rem; }
@media (min-width: 1100px) {
  .st-key-answer :--horizontal { flex-wrap: nowrap; }
  :--page:has(.st-key-answer) { --stage: calc(100dvh - 15rem); --stage-least: 28rem; }
  :--page:has(.st-key-answer) .st-key-player { scroll-margin-block-start: 14rem; }
}
</style>"""


def show(run: Flow) -> None:
    """The tabs; those after the first need a finished run with its plain lane."""
    shown, active = run.shown, run.active
    assert shown is not None
    origin = repeats.origin(shown)
    if presenter.presenting():
        run.play(note=origin)
        return
    st.html(quirks.css(STYLE))
    top = st.container(key="answer")
    if state.tab not in editor.TABS:  # not drawn before, as in a presentation
        state.tab = state.last_picked.get(State.tab.key, editor.RACE)
    tabs = dict(zip(editor.TABS, st.tabs(editor.TABS, key=State.tab.key, on_change="rerun"), strict=True))
    state.last_picked[State.tab.key] = state.tab
    found = {} if active else shown.traces  # read once: each is looked up, and perhaps unpacked
    numbers, traces = list(found), list(found.values())
    ready = bool(traces) and 0 in numbers
    with tabs[editor.RACE]:
        if tabs[editor.RACE].open:
            run.play(note=origin)
            if ready:
                verdicts(shown, traces, numbers)
                divergences.draw(shown, traces, numbers)
                for said in combined.sentences(traces, [shown.request.labels[number] for number in numbers]):
                    st.caption(f":material/call_merge: {plain(said)}")
    with top:
        if ready:
            _answer(shown, traces, numbers)
        elif active:
            st.caption("The lane to take is named here when the race is over.")
    draws = _table, _charts, _prompts, _what_if, _take_along
    for name, draw in zip(editor.TABS[1:], draws, strict=True):
        with tabs[name]:
            if not tabs[name].open:
                continue
            if ready:
                draw(shown, traces, numbers)
            else:
                st.info("Shown when the race is over." if active else "The run produced nothing to compare.")


def _answer(shown: Run, traces: Sequence[Trace], numbers: Sequence[int]) -> None:
    """The lane to take, on one line, with the button that makes it surer; whatever holds for all lanes is said here."""
    refused = repeats.begin(shown)
    labels, out = letters(shown.request.labels), ineligible(shown.request.lanes)
    with st.container(horizontal=True, vertical_alignment="center"):
        if said := answer(traces, numbers, labels, repeats.rows(shown), out):
            st.markdown(f"#### {plain(said)}")
        repeats.controls(shown, refused)
    notes = []
    if disturbed := [labels[number] for number, trace in zip(numbers, traces, strict=True) if slowed(trace)]:
        notes.append(f"Other programs slowed {', '.join(disturbed)} down in this run.")
    if loops := [
        f"{labels[number]} {percent(found.share)} of the text"
        for number, trace in zip(numbers, traces, strict=True)
        if number and (found := trace.loops()).spans
    ]:
        notes.append(f"Careful, repetition is easy to guess: {', '.join(loops)}.")
    if notes:
        st.caption(f":material/info: {plain(' '.join(notes))}")


def verdicts(shown: Run, traces: Sequence[Trace], numbers: Sequence[int]) -> None:
    """Per lane one sentence and one bar: faster or slower than plain decoding, and why."""
    st.markdown("**Why faster, why slower?**")
    measured = repeats.rows(shown)
    found_of = []
    for number, trace in zip(numbers[1:], traces[1:], strict=True):
        found = why(traces[0], trace)
        words = found.short if found else _why_unknown(trace)
        if over_repeats := verdict(measured, number):  # which outweigh the one run that the bar is of
            words = f"{over_repeats} First run: {words[0].lower()}{words[1:]}"
        if PROPOSERS[shown.request.lanes[number].proposer].off_the_clock:
            words += " Its drafting is off the clock, so this is a bound, not a speedup."
        found_of.append(Why(number, words, found))
    st.html(html_of_why(found_of))
    headline.penalty_note(shown)
    st.caption(_measured(shown))


def _measured(shown: Run) -> str:
    """The caption of figures of the race itself."""
    return f"measured · {repeats.origin(shown)}"


def _why_unknown(trace: Trace) -> str:
    """Why a lane's speed cannot be reported."""
    if not trace.rounds and trace.stats.target_passes:
        return "Recorded without its rounds, so where its time went is unknown."
    return "Too few tokens were decoded to tell."


def ledgers(shown: Run, traces: Sequence[Trace]) -> list[list[MemoryLine] | None]:
    """Each lane's memory, if its models are still loaded."""
    models = services.shelf().ready(shown.request.choice)
    found: list[list[MemoryLine] | None] = []
    for trace in traces:
        try:
            found.append(models.ledger(trace) if models else None)
        except SpecdecError:
            found.append(None)
    return found


def _table(shown: Run, traces: Sequence[Trace], numbers: Sequence[int]) -> None:
    measured = repeats.rows(shown)
    lines = ledgers(shown, traces)
    lanes = [shown.request.lanes[number] for number in numbers]
    titles = [shown.request.labels[number].partition(" · ")[2] for number in numbers]
    rows = table(traces, lanes, measured, lines, numbers)
    st.html(html(rows, titles, numbers))
    turns = len(speeds(measured, 0))
    repeated = f"speeds and times: the mean of {count(turns, 'repeat')}, without the first run"
    when = repeated if turns else "this run"
    st.caption(
        f"measured · this machine, {when}. Memory is calculated, not measured. Proved rows are marked."
    )
    if noise := repeats.noise(measured):
        st.caption(f":material/warning: {plain(noise)}")
    repeats.advice(shown)
    with st.expander("What the rows mean", icon=":material/menu_book:"):
        for row in rows:
            st.markdown(f"**{plain(row.title)}** ({plain(row.source)})  \n{plain(row.words)}")
    with st.expander("Memory ledger", icon=":material/memory:"):
        for number, found in zip(numbers, lines, strict=True):
            if found:
                st.markdown(f"**{plain(shown.request.labels[number])}**")
                tables.draw(
                    [
                        {
                            "what": f"– of it: {line.name[0].lower()}{line.name[1:]}"
                            if line.part
                            else line.name,
                            "size": megabytes(line.size).replace(" ", "\u00a0"),
                            "source": line.source,
                            "how": line.explanation,
                        }
                        for line in found
                    ],
                    f"Memory of {shown.request.labels[number]}",
                )
        st.caption(
            "Not included: activations inside a pass, probabilities other than the logits, and the record itself."
        )


def _charts(shown: Run, traces: Sequence[Trace], numbers: Sequence[int]) -> None:
    from app import charts
    from app.charts.draw import draw

    labels = [shown.request.short[number] for number in numbers]
    draws = (
        charts.tokens_against_time,
        charts.time_budget,
        charts.round_timeline,
        charts.tokens_per_pass,
        charts.acceptance_by_depth,
        charts.speedup_surface,
    )
    with st.grid(2, min_column_width=420, gap="medium"):
        for chart in draws:
            with st.container():
                draw(chart(traces, labels, _measured(shown)), chart.__name__)
    # as wide as the page: one row per lane
    draw(charts.difference_strip(traces, labels, _measured(shown)), "difference_strip")


def _prompts(shown: Run, traces: Sequence[Trace], numbers: Sequence[int]) -> None:
    from . import sweep_view

    request = shown.request
    sweep_view.show(request.lanes, request.labels, request.choice, shown.templated, request.system)


def _what_if(shown: Run, traces: Sequence[Trace], numbers: Sequence[int]) -> None:
    from . import whatif_view

    labels = [shown.request.short[number] for number in numbers]
    whatif_view.show(traces, labels, repeats.rows(shown), numbers)


def _take_along(shown: Run, traces: Sequence[Trace], numbers: Sequence[int]) -> None:
    export_tab.show(shown, traces, numbers, ledgers(shown, traces))
