"""Where two lanes of a race guess differently; each place opens in the player."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app.decoding.run import Run
from app.lanes.lane import LETTERS
from app.metrics.differences import NO_GUESS, Differences, Spot, differences
from app.player import CURSOR
from app.text import count, plain
from app.theme import SIGNS
from app.ui import address, frame
from app.ui.state import state
from specdec_core.record.trace import Trace

MOST_SPOTS = 40
MARKS = {"accepted": SIGNS["accepted"], "rejected": SIGNS["rejected"], "not guessed": NO_GUESS}


def draw(shown: Run, traces: Sequence[Trace], numbers: Sequence[int]) -> None:
    """Where two lanes guess differently; each place opens the player there. `numbers` are their places in the run."""
    with st.expander("Where two lanes guess differently", icon=":material/call_split:", key="partings"):
        first, second = st.columns(2)
        options = list(range(len(traces)))
        names = [shown.request.labels[number] for number in numbers]
        one = first.selectbox("This lane", options, index=min(1, len(options) - 1), format_func=names.__getitem__,
                              key="part_one")  # fmt: skip
        other = second.selectbox("against", options, index=len(options) - 1, format_func=names.__getitem__,
                                 key="part_other")  # fmt: skip
        if one == other:
            st.caption("Choose two different lanes.")
            return
        found = differences(traces[one], traces[other])
        letters = (LETTERS[numbers[one]], LETTERS[numbers[other]])
        st.markdown(
            f"From token {found.parts + 1} on their texts differ; only the tokens before it are compared."
            if found.parts
            else "Their texts differ from the first token on."
            if found.parts == 0
            else f"They wrote the same {count(found.shared, 'token')}."
        )
        if not found.spots:
            st.caption(none_alone(found))
            return
        st.caption(
            f"{count(len(found.spots), 'token')} that one of them guessed and the other did not "
            f"(✓ guessed it, ✗ guessed another, {NO_GUESS} not guessed, as bonus tokens are not). Each opens the "
            "player there."
        )
        with st.container(horizontal=True, gap="xsmall"):
            for spot in found.spots[:MOST_SPOTS]:
                _spot(shown, spot, letters, other)
        if len(found.spots) > MOST_SPOTS:
            st.caption(f"The first {MOST_SPOTS} are listed.")


def none_alone(found: Differences) -> str:
    """Why no place is listed; only the text that both lanes wrote is compared."""
    if found.parts is None:
        return "Each token was guessed right by both or by neither."
    if not found.shared:
        return "So there is no place at which their guesses could be compared."
    return (
        f"Only the {count(found.shared, 'token')} that both wrote alike can be compared: each was guessed right by "
        "both or by neither."
    )


def signs(token: str) -> str:
    """A token on one line with the player's signs for line breaks, tabs and spaces; that before a word is left out."""
    text = token.replace("\n", "⏎").replace("\t", "⇥")
    words = text.strip(" ")
    return words if words and text == f" {words}" else text.replace(" ", "␣") if words != text else text


def _spot(shown: Run, spot: Spot, letters: tuple[str, str], lead: int) -> None:
    """A button that opens the player at the place, with lane `lead`, the second of the two, leading."""
    outcomes = " ".join(
        f"{letter}{MARKS[outcome]}" for letter, outcome in zip(letters, spot.outcomes, strict=True)
    )
    guessed = [
        f"{letter} guessed “{guess}”"
        for letter, guess in zip(letters, spot.guesses, strict=True)
        if guess is not None
    ]
    st.button(
        f"{spot.position + 1} “{plain(signs(spot.token))}” {outcomes}",
        key=f"spot-{spot.position}",
        help=plain("; ".join(guessed)),
        on_click=_open,
        args=(shown.id, lead, spot.rounds[1], spot.nodes[1]),
    )


def _open(run: str, lead: int, index: int, node: int | None) -> None:
    """Put the player at a lane's round; its new name invalidates the old cursor."""
    address.drop(CURSOR)
    address.put("lead", str(lead))
    address.put("round", str(index + 1))
    if node is not None:
        address.put("node", str(node))
    state.jump = (run, state.jump[1] + 1)
    frame.reveal("player")
