"""The button that saves a run as one page, wherever runs can be downloaded."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st


def race(title: str, make: Callable[[], str], name: str, key: str) -> None:
    """A download of a race's lanes as one file, `name`.json."""
    st.download_button(
        title,
        data=make,
        file_name=f"{name}.json",
        mime="application/json",
        on_click="ignore",
        icon=":material/data_object:",
        key=key,
        help="All lanes with their baseline in one file. The library imports it as one run, here or on another server.",
    )


def draw(title: str, make: Callable[[], str], name: str, key: str) -> None:
    """A download of `make`'s result as `name`.html; it is made on demand."""
    st.download_button(
        title,
        data=make,
        file_name=f"{name}.html",
        mime="text/html",
        on_click="ignore",
        icon=":material/slideshow:",
        key=key,
        help="One file that plays this run in any browser, without a server or a network.",
    )
