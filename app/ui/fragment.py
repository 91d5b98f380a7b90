"""A fragment in a container of its own (quirks.py) that starts with the correct address (address.py) and reports
when the library cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, overload

import streamlit as st

from app.records.database import Unavailable
from app.text import plain

from . import address, presenter, quirks
from .state import state

P = ParamSpec("P")
R = TypeVar("R")


@overload
def fragment(draw: Callable[P, R]) -> Callable[P, R | None]: ...
@overload
def fragment(*, run_every: float | None = None) -> Callable[[Callable[P, R]], Callable[P, R | None]]: ...
def fragment(draw: Callable[..., Any] | None = None, *, run_every: float | None = None) -> Any:
    """`st.fragment` as documented; `run_every` in seconds. Its output does not affect its neighbours."""
    if draw is None:
        return lambda function: _alone(function, run_every)
    return _alone(draw, None)


def _alone(draw: Callable[P, R], run_every: float | None) -> Callable[P, R | None]:
    @wraps(draw)
    def current(*given: P.args, **named: P.kwargs) -> R | None:
        address.catch_up()
        if state.presented not in (None, presenter.presenting()):
            # The browser sent a press of Leave along with a fragment's own change: the page around is the old one.
            st.rerun()
        try:
            return draw(*given, **named)
        except Unavailable as error:  # main.py does not run around a fragment's own reruns
            st.error(plain(str(error)), icon=":material/error:")
            return None

    return quirks.fragment(current, run_every)
