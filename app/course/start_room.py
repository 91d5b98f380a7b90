"""The way from the course to a room, in which a class votes together; its pages are `app/room`'s."""

from __future__ import annotations

import streamlit as st

from .files.words import Words


def draw(words: Words) -> None:
    """A link to the page that starts one."""
    st.link_button(
        words("room.start"),
        f"r/start?lang={words.language}",
        icon=":material/groups:",
        help=words("room.start_about"),
    )
