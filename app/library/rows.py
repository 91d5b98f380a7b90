"""Runs in a list: one card each, with its name and figures."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from app.lanes.lane import LETTERS
from app.records import access as entries
from app.records.examples import Example
from app.records.listing import LibraryEntry, side_by_side
from app.records.store import Saved
from app.records.summary import Summary
from app.text import plain
from app.ui import tables
from specdec_core.proposers import PROPOSERS
from specdec_core.settings import Settings
from specdec_measure.sweep.totals import beyond

from . import unusual

ENDS = {"length": "length reached", "eos": "the model ended it", "stop": "stop text", "cancelled": "stopped"}
STYLE = """<style>
[class*="st-key-open-"] button, [class*="st-key-open-"] button > div { justify-content: flex-start; text-align: left; }
[class*="st-key-open-"] button p { text-align: left; font-size: 1rem; }
</style>"""  # Streamlit centres buttons, but these are headings
Open = Callable[[str], None]  # of a run, by its key
Pick = Callable[[str, str], None]  # of a run, by its key and that of its box


def row(entry: LibraryEntry, picked: Collection[str], on_open: Open, on_pick: Pick) -> None:
    """A kept run: its name opens it; proposer, date and figures."""
    saved = entry.source
    assert isinstance(saved, Saved)
    with st.container(border=True, key=f"row-{entry.key}"):
        what, figures, choose = st.columns([5, 3, 1.2], vertical_alignment="center")
        with what, st.container(gap="xxsmall"):
            _title(entry, on_open)
            own = unusual.of(saved)
            marks = [plain(words) for words in own.shared] + times(saved)
            if saved.link:
                marks.append("shared by link")
            if any(lane.problem for lane in entry.lanes):
                marks.append("**fails its audit**")
            named = [plain(entries.start(entry.prompt))] if saved.name else []
            lanes = ", ".join(plain(_named(entry, lane, own.lanes[lane])) for lane in range(len(entry.lanes)))
            st.caption("  \n".join([*named, " · ".join([lanes, *marks])]))
        with figures:
            st.markdown("  \n".join(lines(entry)))
        with choose:
            _pick(entry, picked, on_pick)


def card(entry: LibraryEntry, picked: Collection[str], on_open: Open, on_pick: Pick) -> None:
    """A recorded example: its title opens it; what to look for, and its figures."""
    example = entry.source
    assert isinstance(example, Example)
    with st.container(border=True, height="stretch", key=f"row-{example.id}", gap="xsmall"):
        _title(entry, on_open)
        st.markdown(plain(example.look_for))
        st.caption(f"{plain(entry.lanes[-1].label)} on “{plain(entries.start(entry.prompt))}”")
        st.markdown(figures(entry.lanes[-1], elsewhere=True))
        _pick(entry, picked, on_pick)


def _title(entry: LibraryEntry, on_open: Open) -> None:
    st.button(
        f"**{plain(entry.title)}**",
        key=f"open-{entry.key}",
        type="tertiary",
        icon=":material/play_circle:",
        on_click=on_open,
        args=(entry.key,),
        wrap=True,
    )


def _pick(entry: LibraryEntry, picked: Collection[str], on_pick: Pick) -> None:
    box = f"pick-{entry.key}-{entry.key in picked}"
    st.checkbox("Compare", value=entry.key in picked, key=box, on_change=on_pick, args=(entry.key, box))


def _named(entry: LibraryEntry, number: int, further: Sequence[str]) -> str:
    """A lane's name after its letter, and `further` settings; an imported lane's name has no letter."""
    label, letter = entry.lanes[number].label, f"{LETTERS[number]} · "
    name = label if len(entry.lanes) == 1 or label.startswith(letter) else letter + label
    return ", ".join([name, *(words for words in further if words not in label)])


def lines(entry: LibraryEntry) -> list[str]:
    """The figures of a card, a line for each lane."""
    elsewhere = not _measured_here(entry)
    letters = [f"**{letter}** · " if len(entry.lanes) > 1 else "" for letter in LETTERS]
    return [
        letter + figures(lane, elsewhere=elsewhere)
        for letter, lane in zip(letters, entry.lanes, strict=False)
    ]


def _measured_here(entry: LibraryEntry) -> bool:
    return isinstance(entry.source, Saved) and not entries.imported(entry)


def figures(lane: Summary, *, elsewhere: bool) -> str:
    """A lane's tokens per pass and its speedup, each with its source."""
    passes = f"**{lane.tokens_per_pass:.2f}** tokens per pass" if lane.tokens_per_pass else "no target pass"
    if lane.plain:
        speed = f"{lane.tokens_per_second:.0f} tokens/s" if lane.tokens_per_second else "not timed"
        return f"{passes} · {speed} {'recorded' if elsewhere else 'measured'}"
    return f"{passes} · {speedup(lane, elsewhere=elsewhere)}"


def speedup(lane: Summary, *, elsewhere: bool) -> str:
    """A lane's speedup over the plain lane of its own run, and the kind of figure it is."""
    if lane.speedup is None:
        return (
            "no speedup: no baseline of 16 tokens in the same run"
            if lane.tokens >= 16
            else "too short for a speedup"
        )
    kind = PROPOSERS.get(lane.proposer)
    word = "recorded" if elsewhere else "measured"
    if kind and kind.off_the_clock:
        return f"**{lane.speedup:.2f}×** speedup, a bound: drafting is not counted"
    if beyond(lane.speedup, lane.tokens_per_pass):
        word += ", above the tokens per pass: timing noise"
    elif lane.firm is False:
        word += f", not clearly {direction(lane.speedup)}"
    return f"**{lane.speedup:.2f}×** speedup, {word}" + (", lossy rule" if lane.lossy else "")


def direction(speedup: float) -> str:
    """The direction of a speedup, as far as its two decimals show one."""
    return "faster or slower" if f"{speedup:.2f}" == "1.00" else "faster" if speedup > 1 else "slower"


def table(shown: Sequence[LibraryEntry]) -> None:
    """Every figure of the open lanes, one row each."""
    found = []
    for entry, number in side_by_side(shown):
        lane = entry.lanes[number]
        elsewhere = not _measured_here(entry)
        name = lane.label if len(shown) == 1 else f"{lane.label} ({entry.title})"
        found.append(
            {
                "Lane": name,
                "Tokens": str(lane.tokens),
                "Target passes": str(lane.passes),
                "Tokens per pass": f"{lane.tokens_per_pass:.2f}" if lane.tokens_per_pass else "—",
                "Acceptance rate α": f"{lane.acceptance:.0%}" if lane.acceptance is not None else "—",
                "Tokens per second": f"{lane.tokens_per_second:.0f}" if lane.tokens_per_second else "—",
                "Speedup in its own run": "baseline"
                if lane.plain
                else speedup(lane, elsewhere=elsewhere).replace("**", ""),
                "Ended": ENDS.get(lane.end, lane.end),
            }
        )
    tables.draw(found, "Figures of the open lanes")
    for lane in dict.fromkeys(entry.lanes[number] for entry, number in side_by_side(shown)):
        if reason := why_no_alpha(lane):
            st.caption(f"No α for {plain(lane.label)}: {reason}")


def why_no_alpha(lane: Summary) -> str | None:
    """Why a lane has no acceptance rate, as far as its figures tell; None if it has one or needs none."""
    if lane.plain or lane.acceptance is not None:
        return None
    if _drafts(lane) == "chain":
        return "nothing was judged."
    if lane.proposer not in PROPOSERS:
        return "its record does not tell which guesses were rejected, or they were trees, which have no single rate."
    if lane.tokens > lane.passes:  # so something was accepted
        return "its proposals were trees, whose rejected siblings would mix different things into one figure."
    return "nothing was judged, or its proposals were trees, which have no single rate."


def _drafts(lane: Summary) -> str:
    """What the lane's proposer drafts; empty if it is unknown here."""
    kind = PROPOSERS.get(lane.proposer)
    return kind.drafts(Settings(proposer=lane.proposer)) if kind else ""


def size(bytes_: int) -> str:
    """A number of bytes, rounded."""
    return (
        f"{bytes_ / 1e6:,.0f} MB"
        if bytes_ >= 1e7
        else f"{bytes_ / 1e6:.1f} MB"
        if bytes_ >= 1e5
        else f"{bytes_ / 1e3:.0f} kB"
    )


def times(saved: Saved) -> list[str]:
    """When a run was recorded, and when it was imported if it was, as Markdown."""
    if saved.origin != "imported":
        return [when(saved.created)]
    came = f"**imported** {when(saved.created)}"
    try:
        moment = datetime.fromisoformat(saved.recorded)
    except ValueError:  # another program's
        return [came]
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return [f"recorded {when(moment.timestamp())}", came]


def when(seconds: float) -> str:
    """A time in the visitor's time zone."""
    moment = datetime.fromtimestamp(seconds, _zone())
    return f"{moment.day} {moment:%b %Y, %H:%M}"


def _zone() -> tzinfo:
    try:
        return ZoneInfo(st.context.timezone or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC
