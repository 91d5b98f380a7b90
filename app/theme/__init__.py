"""Every colour of the product, each written once: for figures in Python, for everything else as `CSS`.

No difference is shown by colour alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class ColourPair(NamedTuple):
    """A colour on the light ground and on the dark one."""

    light: str
    dark: str


COLOURS = {
    "page": ColourPair("#fbfaf8", "#14181f"),
    "panel": ColourPair("#f1efea", "#1e242e"),
    "border": ColourPair("#dcd8cf", "#353d4a"),
    "text": ColourPair("#121823", "#e8e6e1"),
    "accent": ColourPair("#1f5fa8", "#8fbcf0"),
    # After Okabe and Ito, moved until text keeps 4.5:1 on the page.
    "target": ColourPair("#0b65a8", "#6db7f2"),
    "draft": ColourPair("#b4560f", "#f0a06a"),
    "rejected": ColourPair("#b0420a", "#ff9a62"),
    "corrected": ColourPair("#8a3a86", "#e3a0dd"),
    "bonus": ColourPair("#7c5c00", "#efca55"),
    "pruned": ColourPair("#4f6724", "#b4cc86"),
    "discarded": ColourPair("#56599a", "#b4b7f0"),
    "right": ColourPair("#1d6b57", "#6fc3b0"),
    "lit": ColourPair("#c67f00", "#ffb84d"),  # a ring around what is pointed at
    "marked": ColourPair("#ffe08a", "#6b5200"),  # the ground of a passage that is pointed out
}
PAGE, TEXT = COLOURS["page"], COLOURS["text"]

# The browser resolves `light-dark` where a property is used, so this sheet at the root serves shadow roots as well.
CSS = (
    ":root { "
    + " ".join(f"--{name}: light-dark({pair.light}, {pair.dark});" for name, pair in COLOURS.items())
    + " --accepted: var(--target); --muted: color-mix(in srgb, var(--text) 72%, var(--page));"
    + " --veil: rgb(0 0 0 / 45%); }\n"
)

# Of figures, which know no `light-dark`: the same hues, at 3:1 against either page.
BLUE, ORANGE, GREEN = "#2f7fc4", "#d0742f", "#2f8f76"
PURPLE, GOLD, GREY = "#a0629a", "#9a7d0a", "#7b8494"
WHITE = "#ffffff"  # letters on these


def faint(colour: str, share: float) -> str:
    """So much of the colour over whatever is behind it."""
    return f"rgba({', '.join(map(str, _parts(colour)))}, {share})"


def mixed(colour: str, share: float) -> str:
    """So much of the colour on the light page, opaque."""
    parts = zip(_parts(colour), _parts(PAGE.light), strict=True)
    return "#" + "".join(f"{round(share * part + (1 - share) * page):02x}" for part, page in parts)


def _parts(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


# the parts of a round's time, named as in the player
PARTS = {
    "draft": (ORANGE, "-"),  # as in the player
    "target pass": (BLUE, ""),
    "other work": (GREY, "."),
}


class Look(NamedTuple):
    """A lane's style as a line, a bar and a point."""

    colour: str
    dash: str
    pattern: str
    symbol: str


LANES = (
    Look(GREY, "dot", "", "circle"),
    Look(BLUE, "solid", "/", "square"),
    Look(ORANGE, "dash", "x", "diamond"),
    Look(GREEN, "dashdot", ".", "triangle-up"),
    Look(PURPLE, "longdash", "\\", "x"),
    Look(GOLD, "longdashdot", "+", "star"),
)

# The signs of verdicts and sources; the player has the same ones (`MARK` in signs.js).
SIGNS = {"accepted": "✓", "corrected": "↻", "bonus": "★", "rejected": "✗", "unreached": "·"}
# Where a committed token came from, in the hues and signs of the player's verdicts.
SOURCES = {
    "accepted": (BLUE, SIGNS["accepted"], "accepted guess"),
    "corrected": (PURPLE, SIGNS["corrected"], "corrected"),
    "bonus": (GOLD, SIGNS["bonus"], "bonus"),
    "plain": (GREY, "–", "no guess there"),
    "unknown": (GREY, "?", "guesses there are unknown"),
}

# Faster is blue, slower is orange, and both start with a step so that a cell just below 1× is as visible as one above.
# Translucent, so that the page's text stays legible on them in light and dark.
SLOWER_FASTER = (
    (0.0, faint(ORANGE, 0.62)),
    (0.4999, faint(ORANGE, 0.22)),
    (0.4999, faint(GREY, 0.08)),
    (0.5001, faint(GREY, 0.08)),
    (0.5001, faint(BLUE, 0.22)),
    (1.0, faint(BLUE, 0.62)),
)
MORE = ((0.0, faint(GREEN, 0.06)), (1.0, faint(GREEN, 0.6)))
CLEAR = faint(WHITE, 0)


def fill(colour: str, pattern: str) -> dict[str, Any]:
    """A bar's marker: the colour with its pattern."""
    drawn = {"shape": pattern, "size": 6, "solidity": 0.25, "fillmode": "overlay", "fgcolor": PAGE.light}
    return {"color": colour, "pattern": drawn, "line": {"width": 0}}


def look(lane: int) -> Look:
    """The style of lane number `lane`; after the sixth they repeat."""
    return LANES[lane % len(LANES)]
