"""Places for the numbers of a surface's lines: beside each line, farthest from what else is drawn.

plotly would put them anywhere on the lines, below the dots as well.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from math import hypot, inf

Point = tuple[float, float]

BESIDE = 17  # pixels from a line to the middle of its number


def places(
    x: Sequence[float],
    rows: Sequence[Sequence[float]],
    levels: Sequence[float],
    taken: Sequence[Point],
    pixels: Point,
) -> dict[float, Point]:
    """For each level that occurs the middle of its number.

    Args:
        x, rows: the surface, whose rows are at y = 1, 2, … and each rise with x.
        taken: points that the numbers keep away from.
        pixels: about how many pixels one step of x and one of y are.
    """
    lines = {
        level: [(_crossing(x, row, level), y) for y, row in enumerate(rows, 1) if row[0] < level < row[-1]]
        for level in levels
    }
    found: dict[float, Point] = {}
    for level, line in lines.items():
        beside = BESIDE / pixels[0]
        spots = [(at + side, y) for at, y in line for side in (beside, -beside) if x[0] < at + side < x[-1]]
        drawn = [*taken, *found.values(), *line]
        others = [point for other in lines if other != level for point in lines[other]]
        if spots:
            found[level] = max(
                spots,
                # half of the distance to other lines, so that the nearest line is the number's own
                key=lambda spot: min(_nearest(spot, drawn, pixels), _nearest(spot, others, pixels) / 2),
            )
    return found


def _nearest(spot: Point, points: Sequence[Point], pixels: Point) -> float:
    return min((apart(spot, point, pixels) for point in points), default=inf)


def apart(one: Point, other: Point, pixels: Point) -> float:
    """Pixels between two points."""
    return hypot((one[0] - other[0]) * pixels[0], (one[1] - other[1]) * pixels[1])


def _crossing(x: Sequence[float], row: Sequence[float], level: float) -> float:
    """Where a rising row reaches the level, on a straight line between its points."""
    after = bisect(row, level)
    part = (level - row[after - 1]) / (row[after] - row[after - 1])
    return x[after - 1] + part * (x[after] - x[after - 1])
