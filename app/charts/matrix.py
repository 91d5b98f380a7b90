"""The matrix of a sweep: kinds of text against lanes. Losses are as visible as wins."""

from __future__ import annotations

from html import escape
from math import isfinite, log
from typing import TYPE_CHECKING, Any, Literal

import plotly.graph_objects as go

from app.text import count
from app.theme import MORE, SLOWER_FASTER
from specdec_measure.analysis.advice import MIN_CASES
from specdec_measure.sweep.totals import beyond, mark

from .chart import Chart, lay_out
from .panels import broken, empty

if TYPE_CHECKING:
    import pandas as pd

Measure = Literal["speedup", "tokens_per_pass", "alpha"]
TITLES = {
    "speedup": "Where does guessing pay off? ▲ faster, ▼ slower than plain decoding, ≈ undecided",
    "tokens_per_pass": "How many tokens does a target pass yield? Not a speedup: it leaves out what guessing costs",
    "alpha": "How often is a guess accepted? On chains only: a tree has no single rate",
}
LOOPS = " ↺"  # marks a cell with looping texts
HEAD_LINES, HEAD_LINE = 9, 15  # of a lane's name above its column: at most, and pixels of each
SATURATED_AT = 3.0  # the speedup at which the colour saturates


def comparison_matrix(table: pd.DataFrame, measure: Measure, provenance: str) -> Chart:
    """One cell per family and lane of a sweep's `summary`; plain decoding is the baseline.

    Args:
        table: the result of `specdec_measure.sweep.run.summary`, of finished or unfinished sweeps.
    """
    lines = {(line["family"], line["lane"]): line for line in table.to_dict("records")}
    families = list(dict.fromkeys(family for family, _ in lines))
    lanes = sorted({lane for _, lane in lines if lane > 0})
    if not families or not lanes:
        said = "Nothing has been measured yet."
        return Chart(empty(said), TITLES[measure], provenance, said)
    labels = {line["lane"]: str(line["label"]) for line in lines.values()}
    names = [labels[lane] for lane in lanes]
    cells = [[lines.get((family, lane)) for lane in lanes] for family in families]
    across, down = list(range(len(lanes))), list(range(len(families)))
    figure = go.Figure(
        go.Heatmap(
            x=across,
            y=down,
            z=[[_shade(cell, measure) for cell in row] for row in cells],
            zmin=-1.0 if measure == "speedup" else 0.0,
            zmax=1.0,
            text=[[words(cell, measure) for cell in row] for row in cells],
            texttemplate="%{text}",
            textfont={"size": 14},
            customdata=[[_hover(cell, measure) for cell in row] for row in cells],
            hovertemplate="%{customdata}<extra></extra>",
            hoverongaps=True,
            colorscale=SLOWER_FASTER if measure == "speedup" else MORE,
            showscale=False,
            xgap=3,
            ygap=3,
        )
    )
    heads = [_head(name, max(10, 44 // len(lanes))) for name in names]
    above = HEAD_LINE * max(head.count("<br>") + 1 for head in heads) + 12
    lay_out(
        figure,
        above + 46 * len(families) + 8,
        {
            "tickvals": across, "ticktext": heads, "tickfont": {"size": 11}, "tickangle": 0, "side": "top",
            "showgrid": False,
        },
        {
            "tickvals": down,
            "ticktext": [broken(family, 14) for family in families],
            "autorange": "reversed",
            "showgrid": False,
            "automargin": True,
        },
        margin={"t": above},
        minreducedheight=46,  # of the plot; Plotly would cut the heads above a single row
    )  # fmt: skip
    sentences = " ".join(
        f"{family}: {', '.join(f'{name} {words(cell, measure)}' for name, cell in zip(names, row, strict=True))}."
        for family, row in zip(families, cells, strict=True)
    )
    return Chart(figure, TITLES[measure], provenance, f"{TITLES[measure]}. {sentences}")


def _head(label: str, width: int) -> str:
    """A lane's name above its column, its letter on a line of its own."""
    letter, dot, rest = label.partition(" · ")
    return (
        f"<b>{escape(letter, quote=False)}</b><br>{broken(rest, width, HEAD_LINES)}"
        if dot and len(letter) == 1
        else broken(label, width, HEAD_LINES)
    )


def words(cell: dict[str, Any] | None, measure: Measure) -> str:
    """A cell's text: sign and number, or why there is none."""
    if cell is None:
        return "…"
    if not cell["prompts"]:
        return "failed"
    value = _value(cell, measure)
    if value is None:
        return "–"
    if measure == "speedup":
        said = ("≈" if crosses(cell) else mark(value)) + f" {value:.2f}×" + (" ?" if noisy(cell) else "")
    else:
        said = f"{value:.2f}" if measure == "tokens_per_pass" else f"{value:.0%}"
    return said + (LOOPS if loops(cell) else "")


def loops(cell: dict[str, Any]) -> int:
    """How many of its texts loop, which flatters every measure."""
    value = cell.get("looping")
    return int(value) if value is not None and isfinite(value) else 0


def crosses(cell: dict[str, Any]) -> bool:
    """Whether the prompts are too few, or too unlike, to call it faster or slower: the middle half includes 1."""
    low, high = _value(cell, "speedup_q1"), _value(cell, "speedup_q3")
    return cell["compared"] < MIN_CASES or (low is not None and high is not None and low <= 1.0 <= high)


def noisy(cell: dict[str, Any]) -> bool:
    """Whether its speedup is larger than speculation can explain."""
    return beyond(_value(cell, "speedup"), _value(cell, "tokens_per_pass"))


def _value(cell: dict[str, Any], name: str) -> float | None:
    value = cell[name]
    return float(value) if value is not None and isfinite(value) else None


def _shade(cell: dict[str, Any] | None, measure: Measure) -> float | None:
    value = _value(cell, measure) if cell is not None and cell["prompts"] else None
    if value is None or value <= 0:
        return None
    if measure == "speedup":
        equal = cell is None or crosses(cell) or mark(value) == "="  # as the text says
        return 0.0 if equal else max(-1.0, min(1.0, log(value) / log(SATURATED_AT)))
    return min(1.0, (value - 1.0) / 4.0) if measure == "tokens_per_pass" else value


def _hover(cell: dict[str, Any] | None, measure: Measure) -> str:
    if cell is None:
        return "not measured yet"
    said = [f"<b>{escape(str(cell['label']), quote=False)}</b> on {escape(str(cell['family']), quote=False)}"]
    if cell["prompts"]:
        said.append(count(cell["prompts"], "prompt"))
    if cell["failed"]:
        said.append(f"{count(cell['failed'], 'cell')} failed")
    if (speedup := _value(cell, "speedup")) is not None and measure == "speedup":
        if cell["compared"] < cell["prompts"]:
            said.append(f"of which {cell['compared']} with enough tokens to compare speeds:")
        said.append(f"{speedup:.2f}× (median over prompts)")
        if noisy(cell):
            said.append(f"? more than its {cell['tokens_per_pass']:.2f} tokens per pass: timing noise")
        said.append(
            f"middle half of the prompts {cell['speedup_q1']:.2f} to {cell['speedup_q3']:.2f}×, "
            f"all {cell['speedup_min']:.2f} to {cell['speedup_max']:.2f}×"
        )
        said.append(f"slower than plain on {cell['slower']:.0%} of prompts")
        spread = _value(cell, "repeats_apart")
        said.append(
            f"repeats of a prompt are {spread:.0%} apart" if spread is not None else "one repeat, no spread"
        )
    elif measure == "speedup" and cell["prompts"]:
        said.append("too few tokens to compare speeds")
    if measure == "tokens_per_pass" and (tau := _value(cell, "tokens_per_pass")) is not None:
        said.append(f"τ = {tau:.2f} (median over prompts)")
    if measure == "alpha":
        if _value(cell, "alpha") is not None:
            said.append(f"{cell['accepted']} of {cell['judged']} judged guesses accepted")
            said.append(f"95% Wilson interval {cell['alpha_low']:.0%} to {cell['alpha_high']:.0%}")
        else:
            said.append("no single rate: trees, or nothing judged")
    if number := loops(cell):
        said.append(
            f"↺ {number} of {count(cell['prompts'], 'text')} {'loops' if number == 1 else 'loop'}, which flatters it: "
            f"{cell['repeated']:.0%} of all tokens repeat"
        )
    return "<br>".join(said)
