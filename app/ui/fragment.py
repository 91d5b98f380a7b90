"""A fragment that keeps to its place: `st.fragment`, alone in a container of its own.

Where Streamlit 1.67 starts a fragment before what the whole script drew has left the server (a pressed control of the
fragment, a timer, and a busy machine are enough), it takes the fragment's own block out of what still waits to be sent.
The browser then drops the block as a left-over of the run before, everything behind it moves up by one, and the
fragment's answer is drawn over the element that stood behind it. In a container of its own nothing stands behind it.
It also begins with the address as it ought to be (address.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, overload

import streamlit as st

from app.records.store import Unavailable
from app.text import plain

from . import address

P = ParamSpec("P")
R = TypeVar("R")


@overload
def fragment(draw: Callable[P, R]) -> Callable[P, R | None]: ...
@overload
def fragment(*, run_every: float | None = None) -> Callable[[Callable[P, R]], Callable[P, R | None]]: ...
def fragment(draw: Callable[..., Any] | None = None, *, run_every: float | None = None) -> Any:
    """`st.fragment` as it is documented; `run_every` in seconds. What it draws touches nothing beside it."""
    if draw is None:
        return lambda function: _alone(function, run_every)
    return _alone(draw, None)


def _alone(draw: Callable[P, R], run_every: float | None) -> Callable[P, R | None]:
    @wraps(draw)
    def current(*given: P.args, **named: P.kwargs) -> R | None:
        address.catch_up()
        try:
            return draw(*given, **named)
        except Unavailable as error:  # a fragment that runs alone is not in main.py's hands
            st.error(plain(str(error)), icon=":material/error:")
            return None

    inner = st.fragment(current, run_every=run_every)  # noqa: TID251

    @wraps(draw)
    def within(*given: P.args, **named: P.kwargs) -> R | None:
        with st.container():
            return inner(*given, **named)

    return within
