"""Colours and patterns of the phases and lanes. No difference is shown by colour alone."""

from __future__ import annotations

from typing import Any, NamedTuple

# Okabe-Ito hues, adjusted to 3:1 contrast against both page backgrounds.
PHASES = {
    "draft": ("#d0742f", "/"),
    "verify": ("#2f7fc4", ""),
    "judge": ("#a0629a", "x"),
    "commit": ("#2f8f76", "."),
}
OTHER = ("#7b8494", "-")  # a plain lane's time before its passes; drawn only where there is any


class Look(NamedTuple):
    """A lane's style as a line, a bar and a point."""

    colour: str
    dash: str
    pattern: str
    symbol: str


LANES = (
    Look("#7b8494", "dot", "", "circle"),
    Look("#2f7fc4", "solid", "/", "square"),
    Look("#d0742f", "dash", "x", "diamond"),
    Look("#2f8f76", "dashdot", ".", "triangle-up"),
    Look("#a0629a", "longdash", "\\", "x"),
    Look("#9a7d0a", "longdashdot", "+", "star"),
)

# Where a committed token came from, in the hues and signs of the player's verdicts (`MARK` in text.js).
SOURCES = {
    "accepted": ("#2f7fc4", "✓", "accepted guess"),
    "corrected": ("#a0629a", "↻", "corrected"),
    "bonus": ("#9a7d0a", "★", "bonus"),
    "plain": ("#7b8494", "–", "no guess there"),
}

# Faster is blue, slower is orange, and both start with a step so that a cell just below 1× is as visible as one above.
# Translucent, so that the page's text stays legible on them in light and dark.
SLOWER_FASTER = (
    (0.0, "rgba(208, 105, 47, 0.62)"),
    (0.4999, "rgba(208, 105, 47, 0.22)"),
    (0.4999, "rgba(123, 132, 148, 0.08)"),
    (0.5001, "rgba(123, 132, 148, 0.08)"),
    (0.5001, "rgba(47, 127, 196, 0.22)"),
    (1.0, "rgba(47, 127, 196, 0.62)"),
)
MORE = ((0.0, "rgba(47, 143, 118, 0.06)"), (1.0, "rgba(47, 143, 118, 0.6)"))


def fill(colour: str, pattern: str) -> dict[str, Any]:
    """A bar's marker: the colour with its pattern."""
    drawn = {"shape": pattern, "size": 6, "solidity": 0.25, "fillmode": "overlay", "fgcolor": "#fbfaf8"}
    return {"color": colour, "pattern": drawn, "line": {"width": 0}}


def look(lane: int) -> Look:
    """The style of lane number `lane`; after the sixth they repeat."""
    return LANES[lane % len(LANES)]
