"""The headline numbers on the page, each with its definition and source."""

from __future__ import annotations

import streamlit as st

from app.decoding.run import Run
from app.metrics import numbers
from app.text import count, plain
from app.ui.glossary import define
from app.ui.state import state
from specdec_core.proposers import PROPOSERS
from specdec_core.record.schema import Stats
from specdec_core.record.trace import Trace
from specdec_core.rules import lossy as lossy_rule
from specdec_core.settings import Settings
from specdec_measure.analysis.diagnosis import Diagnosis, why
from specdec_measure.records.repeats import percent
from specdec_measure.sweep.totals import MIN_TOKENS, beyond

from .why import Why, held_up_words
from .why import html as html_of_why

MEASURED = "measured · this machine, this run"
FORMULA = (
    "Theorem 3.8 of Leviathan et al. (2023): (1 − α^(γ+1)) / ((1 − α)(γc + 1)). "
    "It assumes that every guess is accepted with the same probability α, whatever came before, that each round drafts "
    "exactly γ tokens, and that a target pass over γ + 1 tokens costs as much as one over a single token. "
    "Where the measurement differs, one of these does not hold."
)
EXPECTED = (
    "\n\nHere α = {alpha:.1%}, γ = {gamma}, c = {cost:.3f}, so a round should bring {tokens:.2f} tokens in the time of "
    "{time:.2f} plain passes. "
)
TAKEN = (
    "Measured: {tokens:.2f} tokens in {cost:.2f} plain rounds, with {proposed:.1f} guesses. Where the tokens differ, "
    "guesses were not all equally likely to be accepted, or fewer than γ were made; where the times differ, the wider "
    "pass cost more."
)
NOISY = (
    "The measured speedup is above the tokens per pass. That cannot be, since a round takes at least a plain pass: "
    "something else on the machine slowed plain decoding down. Run again while it is quiet."
)
BY_LEVEL = (
    "Here the proposals were trees. At most one of several siblings can be accepted, so one rate for all would "
    "mislead. Each figure is of one level: of the rounds in which a guess of that level was judged, the share in which "
    "one was accepted. Where the tree ends, no further level is judged. It is not the share of all guesses sent: of a "
    "tree, one path at most is kept."
)
NONE = "—"
Tile = tuple[str, str, str, str]
"""Label, value, help and source."""


def show(run: Run) -> None:
    """The numbers of a finished run, and whether the lanes wrote the same text."""
    traces = run.traces
    if 0 not in traces:
        return
    if 1 not in traces:
        _alone(traces[0])
        return
    first, other, lane = traces[0], traces[1], run.request.lanes[1]
    found, slowed = why(first, other), held_up_words(first, other)
    loops, lossy, untimed = other.loops(), lossy_rule(other), PROPOSERS[lane.proposer].off_the_clock
    speedup = numbers.measured_speedup(first.stats, other.stats)
    noisy = beyond(speedup, other.stats.tokens_per_pass)
    part = (lossy or lane.temperature > 0) and numbers.parting(first, other) is not None
    marks = {  # the first that holds says where the measured speedup is from
        f"none: fewer than {MIN_TOKENS} tokens in a lane": speedup is None,
        "a bound: drafting is not counted": untimed,
        "measured · lossy rule": lossy,
        "measured · texts differ": part,
        "above τ: timing noise": noisy,
        MEASURED + (", slowed by other programs" if slowed else ""): True,
    }
    source = next(mark for mark, holds in marks.items() if holds)
    tiles = [
        _measured(first.stats, other.stats, speedup, source, part),
        *_modelled(lane, first.stats, other.stats, found),
        _acceptance(other),
        *_passes(other.stats),
    ]
    repeats = f" · {percent(loops.share)} of the text repeats" if loops.spans else ""
    # beside a figure that there is none of, nothing is said
    _metrics([(*tile, "" if tile[1] == NONE else repeats) for tile in tiles])
    if noisy:
        st.caption(f":material/warning: {NOISY}")
    if found and not untimed:
        st.html(html_of_why([Why(1, found.short + slowed, found)]))
    penalty_note(run)
    same, sentence = numbers.verdict_on_texts(first, other)
    icon = {True: ":material/check_circle:", False: ":material/warning:", None: ":material/casino:"}[same]
    if lossy:
        icon = ":material/warning:"
    st.markdown(f"{icon} {plain(sentence)}")
    if loops.spans:
        st.markdown(f":material/repeat: {plain(loops.sentence)}", help=define("Repeated text"))


def _alone(first: Trace) -> None:
    """Plain decoding without a lane to compare it with."""
    speed = first.stats.tokens_per_second
    words = "Committed tokens by decoding time; prefill excluded."
    _metrics(
        [
            ("Tokens per second", f"{speed:.0f}" if speed else NONE, words, MEASURED),
            ("Tokens", f"{first.stats.tokens}", "How many tokens were committed.", _end(first.end)),
        ]
    )
    st.caption("Plain decoding alone: choose a proposer to race against it.")
    if what := first.loops().what:
        st.caption(f":material/repeat: {plain(what[0].upper() + what[1:])}.")


def _measured(base: Stats, stats: Stats, speedup: float | None, source: str, part: bool) -> Tile:
    """`part`: whether the lanes wrote different texts."""
    return (
        "Measured speedup",
        _times(speedup),
        define("Measured speedup")
        + f"\n\nHere {_speed(stats.tokens_per_second)} against {_speed(base.tokens_per_second)}. "
        "Writing the record is not timed." + ("\n\nThe two lanes wrote different texts." if part else ""),
        source,
    )


def _modelled(lane: Settings, base: Stats, stats: Stats, found: Diagnosis | None) -> list[Tile]:
    """What the formula expects; none where it does not apply."""
    modelled = numbers.unmodelled(lane) or numbers.modelled_speedup(base, stats, lane.draft_length)
    if modelled is None or isinstance(modelled, str):
        return []
    words = f"{define('Modelled speedup')}\n\n{FORMULA}" + _formula_and_round(modelled, found)
    source = "modelled · Theorem 3.8 (Leviathan et al. 2023)"
    return [("Modelled speedup", _times(modelled.speedup), words, source)]


def _acceptance(other: Trace) -> Tile:
    """One rate, or one for each level of a tree."""
    stats = other.stats
    words = define("Acceptance rate α", "Not reached")
    if stats.acceptance_rate is None and stats.acceptance_by_depth:
        rates = " · ".join(f"{rate:.0%}" for rate in stats.acceptance_by_depth[:3])
        return "Acceptance by level", rates, f"{words}\n\n{BY_LEVEL}", f"measured · {numbers.by_level(other)}"
    source = f"measured · {stats.accepted} of {stats.judged} judged"
    return "Acceptance rate α", _share(stats.acceptance_rate), words, source


def _passes(stats: Stats) -> tuple[Tile, Tile]:
    passes, tokens = count(stats.target_passes, "pass"), count(stats.tokens, "token")
    return (
        (
            "Tokens per pass τ",
            f"{stats.tokens_per_pass:.2f}" if stats.tokens_per_pass else NONE,
            define("Tokens per target pass τ"),
            f"measured · {tokens}, {passes}",
        ),
        (
            "Target passes saved",
            f"{numbers.passes_saved(stats)} of {stats.tokens}",
            "Plain decoding needs one target pass for every token; this is how many passes the lane saved. "
            + define("Target pass"),
            f"measured · {passes} for {tokens}",
        ),
    )


def penalty_note(run: Run) -> None:
    """That the lanes had a repetition penalty, with the race without it; nothing where they had none."""
    given = next(iter(run.traces.values())).header.settings.get("repetition_penalty")
    if given in (None, 1):
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(
            f":material/repeat: All of this is with a repetition penalty of {given:g}. It makes text harder to guess, "
            "for some ways of guessing far more than for others.",
            width="content",
        )
        st.button("Race again without it", key="without_penalty", on_click=_without_penalty)


def _without_penalty() -> None:
    state.repetition_penalty, state.again = 1.0, True


def _formula_and_round(modelled: numbers.ModelledSpeedup, found: Diagnosis | None) -> str:
    """What the formula expects of a round, beside what was measured."""
    expected = EXPECTED.format(
        alpha=modelled.alpha,
        gamma=modelled.gamma,
        cost=modelled.cost,
        tokens=modelled.tokens,
        time=modelled.time,
    )
    if found is None:
        return expected
    return expected + TAKEN.format(tokens=found.tokens, cost=found.cost, proposed=modelled.proposed_per_round)


def _metrics(rows: list[tuple[str, ...]]) -> None:
    """Label, value, help and source of each; anything after the source is joined to it."""
    with st.grid(len(rows), min_column_width=206, gap="small"):
        for label, value, words, *source in rows:
            with st.container(border=True, height="stretch", gap="xsmall"):
                st.metric(label, value, help=words)
                st.caption("".join(source))


def _times(value: float | None) -> str:
    return f"{value:.2f}×" if value is not None else NONE


def _share(value: float | None) -> str:
    return f"{value:.0%}" if value is not None else NONE


def _speed(value: float | None) -> str:
    if not value:
        return "nothing"
    digits = (
        0 if value >= 100 else 1 if value >= 10 else 2
    )  # so that the ratio of two of them is that of the tile
    return f"{value:.{digits}f} tokens/s"


def _end(reason: str) -> str:
    return {
        "length": "length reached",
        "eos": "the model ended the text",
        "stop": "stop text reached",
        "cancelled": "stopped",
    }[reason]
