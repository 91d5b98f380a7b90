"""What if it ran elsewhere? The lanes' recorded rounds under another machine's clock, next to the measured ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from app.text import count, plain
from app.ui import address, tables
from app.ui.fragment import fragment
from app.ui.glossary import define
from app.ui.state import state
from app.ui.widgets import pick
from specdec_core.foundations.errors import SettingsError
from specdec_core.record.trace import Trace
from specdec_measure.analysis.whatif import WhatIf
from specdec_measure.machines.costs import Costs
from specdec_measure.records.repeats import sentences
from specdec_measure.sweep.measured import MeasuredCase

from . import whatif as core
from .timing import speeds, speedup

OWN = " Choose a published model's size or type your own, such as 14B or 360M."


@fragment
def show(
    traces: Sequence[Trace],
    labels: Sequence[str],
    repeats: Sequence[MeasuredCase] = (),
    numbers: Sequence[int] = (),
) -> None:
    """The view of a comparison's lanes; plain decoding among them is the measured baseline.

    Args:
        repeats, numbers: as in `table`; measured speedups are those of the repeats where there are any.
    """
    shipped, bad = core.profiles()
    for problem in bad:
        st.warning(plain(problem), icon=":material/broken_image:")
    known = core.suited({**shipped, **core.watched(state.watched.values())}, traces[0].header.target.name)
    lanes = [lane for lane, trace in enumerate(traces) if trace.header.settings.get("proposer") != "none"]
    if not known or not lanes:
        st.info(
            "There is no profile for these rounds."
            if not known
            else "Plain decoding gains and loses nothing elsewhere: add a lane that guesses.",
            icon=":material/schedule:",
        )
        return
    st.markdown(
        "The same recorded rounds on another machine's clock. What was guessed and accepted stays the same; only the "
        "times change."
    )
    choice = _chosen(known)
    profile = known[choice.profile]
    try:
        costs = core.costs_of(profile, choice)
    except SettingsError as error:
        st.warning(plain(str(error)), icon=":material/memory:")
        return
    results = core.results_of([traces[lane] for lane in lanes], profile, costs)
    computed = [one if isinstance(one, WhatIf) else None for one in results]
    names = [labels[lane] for lane in lanes]
    plain_lane = next((one for one in traces if one.header.settings.get("proposer") == "none"), None)
    numbers = numbers or range(len(traces))
    measured = [
        speedup(plain_lane, traces[lane], repeats, numbers[lane]) if plain_lane else None for lane in lanes
    ]
    shown = [(name, once, one) for name, once, one in zip(names, measured, computed, strict=True) if one]
    words = core.sentences(
        [name for name, _, _ in shown], [once for _, once, _ in shown], [one for _, _, one in shown], profile, choice
    )  # fmt: skip
    if words:
        st.markdown(f"**{plain(words[0])}** " + plain(" ".join(words[1:])))
    if why_apart := core.same_machine(plain_lane, profile, costs, repeats):
        st.caption(f":material/schedule: {plain(why_apart)}")
    for looping in sentences({name: traces[lane].loops() for name, lane in zip(names, lanes, strict=True)}):
        st.caption(f":material/repeat: {plain(looping)}")
    for name, result in zip(names, results, strict=True):
        if isinstance(result, str):
            st.caption(f":material/block: {plain(name)}: {plain(result)}")
    _charts(names, lanes, measured, computed, costs, profile, _origin(traces[lanes[0]], repeats))
    _lengths(names, [traces[lane] for lane in lanes], costs, profile)
    _table(shown)
    _assumptions(profile, costs, [one for one in computed if one])


def _origin(trace: Trace, repeats: Sequence[MeasuredCase]) -> str:
    """Where and when the measured speedups were measured."""
    turns = len(speeds(repeats, 0))
    mean = [f"mean of {count(turns, 'repeat')}"] if turns else []
    return ", ".join([trace.header.machine, trace.header.created[:10], *mean])


def _chosen(known: Mapping[str, core.Machine]) -> core.WhatIfChoice:
    """What the controls say; above them what is wrong with a typed size, or with the address, which then follows."""
    slot = st.container()
    asked = core.choices_in(address.params())
    wrong = core.problems(known, asked)
    choice, wanted, unread = _choose(known, asked)
    for size in unread:
        slot.warning(plain(size), icon=":material/straighten:")
    # The choices correct the address; its errors are shown until they change again.
    said, about = state.whatif_link
    said = wrong or (said if about == wanted else [])
    state.whatif_link = (said, wanted)
    if said:
        slot.warning("  \n".join(map(plain, said)), icon=":material/link_off:")
    address.write((), {key: [value] for key, value in wanted.items()}, (*core.KEYS, *core.OLD_KEYS))
    return choice


def _charts(
    names: Sequence[str],
    lanes: Sequence[int],
    measured: Sequence[float | None],
    computed: Sequence[WhatIf | None],
    costs: Costs,
    profile: core.Machine,
    here: str,
) -> None:
    from app.charts import batches, whatif
    from app.charts.draw import draw

    with st.grid(2, min_column_width=380, gap="medium"):
        with st.container():
            draw(whatif.clocks(names, measured, computed, here), "whatif-clocks")
        with st.container():
            draw(whatif.widths(costs, names, lanes, computed, profile.provenance), "whatif-widths")
    if costs.batch > 1 and (measured_together := core.together()) is not None:
        draw(batches.together(*measured_together), "whatif-together")


def _lengths(names: Sequence[str], traces: Sequence[Trace], costs: Costs, profile: core.Machine) -> None:
    """What other choices of the draft length would have made of the first lane on which they can be replayed."""
    from app.charts.draw import draw
    from app.charts.lengths import chosen_lengths

    charts = (chosen_lengths(*lane, costs, profile.provenance) for lane in zip(traces, names, strict=True))
    if (chart := next(filter(None, charts), None)) is not None:
        draw(chart, "whatif-lengths")


def _table(shown: Sequence[tuple[str, float | None, WhatIf]]) -> None:
    """The figures of the bars, with labelled columns."""
    if not shown:
        return
    how = shown[0][2].how
    rows = [
        {
            "lane": name,
            "speedup, measured": "—" if once is None else f"{once:.2f}×" + bound,
            "speedup, modelled": f"{one.speedup:.2f}×" + bound,
            "tokens/s per request, modelled": f"{one.tokens_per_second:,.0f}",
            "drafting, modelled": "in its passes"
            if one.costs.drafting_within
            else f"{one.draft_s / one.seconds:.0%} of the time",
            "rounds": f"{len(one.rounds):,}",
        }
        for name, once, one in shown
        for bound in [" (a bound)" if one.off_the_clock else ""]
    ]
    plain_speed = 1.0 / shown[0][2].costs.target(1)
    tables.draw(rows, "Speedups on this clock")
    st.caption(f"{how} · plain decoding there: {plain_speed:,.0f} tokens/s per request")


def _assumptions(profile: core.Machine, costs: Costs, computed: Sequence[WhatIf]) -> None:
    with st.expander("What this assumes", icon=":material/fact_check:", key="whatif-assumptions"):
        st.markdown(f"**{plain(profile.label)}** · {profile.kind} pass times")
        st.markdown("\n".join(f"- {plain(said)}" for said in [*profile.assumptions, costs.counted] if said))
        st.markdown("**The rounds**")
        priced = dict.fromkeys(said for one in computed for said in one.assumptions)
        last = "What a round spends outside the models (searching, judging, Python) is not carried over."
        st.markdown("\n".join(f"- {plain(said)}" for said in [*priced, last]))


def _choose(
    known: Mapping[str, core.Machine], asked: Mapping[str, str]
) -> tuple[core.WhatIfChoice, dict[str, str], list[str]]:
    """The controls, which begin as the address `asked`: the choice, those that are not the default ones, and what to
    say of sizes that were replaced by their default."""
    unread: list[str] = []
    picked: dict[str, str] = {}
    wanted: dict[str, str] = {}

    def control(key: str, label: str, words: str) -> None:
        given = st.session_state.get(key, asked.get(key))  # a size may be the visitor's own
        offered = core.options(known, picked if given is None else {**picked, key: given}).get(key)
        typed = key in core.SIZES and key in st.session_state and given is not None
        if (
            typed
            and offered
            and given not in offered
            and (said := core.no_size(given, picked.get("target_size")))
        ):
            unread.append(said)
        if offered is None:
            return
        if st.session_state.get(key) not in offered:  # not offered any more, or not drawn yet
            st.session_state[key] = core.one_of(asked.get(key), list(offered))
        if key == "batch" and len(offered) > 1:
            picked[key] = str(st.select_slider(label, list(offered), key=key, help=words))
        else:
            picked[key] = pick(label, offered, key, words, accept_new_options=key in core.SIZES)
        if picked[key] != next(iter(offered)):
            wanted[key] = picked[key]

    control(
        "machine",
        "Machine",
        "Recorded: pass times that were measured on the machine named; the speedups are modelled from them. Modelled: "
        "the pass times too, as a roofline of the machine's published figures. The assumptions are listed below.\n\n"
        + define("Provenance"),
    )
    with st.grid(4, min_column_width=170, gap="small"):
        for key, label, words in (
            ("target_size", "Target size", "The model whose passes are timed. What was accepted stays as recorded."
             + OWN),
            ("draft_size", "Draft size", "Used by lanes that draft with a separate model." + OWN),
            ("batch", "Batch", "How many texts are decoded together. One read of the weights serves all of them, so "
             "a pass fills up sooner and speculation pays less."),
            ("context", "Context", "How many tokens of each text are in the KV cache, in every round."),
        ):  # fmt: skip
            control(key, label, words)
    choice = core.WhatIfChoice(
        picked["machine"],
        int(picked.get("batch", 1)),
        int(picked.get("context", 0)),
        picked.get("target_size"),
        picked.get("draft_size"),
    )
    return choice, wanted, unread
