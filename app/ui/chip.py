"""A lane's chip: its letter on its colour with its line's dash below, the same on every page."""

from __future__ import annotations

from html import escape

from app.lanes.lane import LETTERS
from app.theme import WHITE, look

DASHES = {  # plotly's dash names as alternating pixels of line and gap
    "solid": (28,),
    "dot": (2, 3),
    "dash": (7, 3),
    "dashdot": (8, 3, 2, 3),
    "longdash": (12, 4),
    "longdashdot": (14, 3, 3, 3),
}


def chip(number: int) -> str:
    """HTML of lane `number`'s chip, with a name for screen readers."""
    drawn = look(number)
    line = f"display:block;height:4px;margin-top:2px;background:{_dashed(drawn.colour, DASHES[drawn.dash])}"
    letter = (
        "display:block;line-height:24px;border-radius:6px;text-align:center;font-weight:700;font-size:15px;"
        f"color:{WHITE};background:{_deep(drawn.colour)}"
    )
    return (
        f'<span role="img" aria-label="Lane {LETTERS[number]}" style="display:inline-block;width:28px;flex:none">'
        f'<span style="{letter}">{LETTERS[number]}</span><span style="{line}"></span></span>'
    )


def heading(number: int, title: str) -> str:
    """HTML of a chip followed by the lane's title."""
    return (
        '<div style="display:flex;gap:10px;align-items:center;min-width:0">'
        f'{chip(number)}<strong style="overflow-wrap:anywhere">{escape(title)}</strong></div>'
    )


def _dashed(colour: str, lengths: tuple[int, ...]) -> str:
    """A repeating gradient that looks like the lane's line in the charts."""
    stops, at = [], 0
    for place, length in enumerate(lengths):
        stops.append(f"{colour if place % 2 == 0 else 'transparent'} {at}px {at + length}px")
        at += length
    return f"repeating-linear-gradient(90deg in srgb,{','.join(stops)})"


def _deep(colour: str) -> str:
    """A lane's colour, dark enough for white letters (4.5:1) in either theme."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(part * 0.74):02x}" for part in (red, green, blue))
