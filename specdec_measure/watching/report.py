"""A watched server as lines of a table, as JSON and as one HTML file without scripts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from html import escape
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from specdec_core.foundations.errors import TraceError, sentence
from specdec_measure.records.document import document

from .cause import LENGTH_FLAG, Cause
from .numbers import Watched, content

FORMAT = "specdec-watch"
LENGTHS = "Other draft lengths on this server, by its own times and its own acceptance"
MOST_DEPTH = 10_000  # guesses of a round
Lines = list[tuple[str, str, str]]


def lines(found: Watched) -> Lines:
    """Name, value and meaning of each number that is known."""
    rows: Lines = [
        (
            "requests",
            f"{found.requests:,}",
            f"{found.shared:,} more with others beside them, left out" if found.shared else "",
        ),
        (
            "passes; rounds with guesses",
            f"{found.passes:,}; {found.rounds:,}",
            "after each answer's first token",
        ),
        ("guesses; accepted", f"{found.drafted:,}; {found.accepted:,}", ""),
    ]
    rows += [
        (f"accepted at position {place}", f"{share:.1%}", f"of rounds; {low:.1%} to {high:.1%}")
        for place, (share, low, high) in enumerate(found.at, 1)
    ]
    if found.tokens_per_round is not None and found.tokens_per_pass is not None:
        rows.append(
            ("tokens per round; per pass", f"{found.tokens_per_round:.2f}; {found.tokens_per_pass:.2f}", "")
        )
    if found.neutral is not None:
        rows.append(("the same greedily, without penalties", f"{found.neutral[0]:.2f}", "tokens per round"))
    rows += _times(found)
    if found.running or found.waiting:
        rows.append(
            ("requests at a time; waiting", f"{found.running:.1f}; {found.waiting:.1f}", "on average")
        )
    return rows


def _times(found: Watched) -> Lines:
    rows: Lines = []
    if found.step_s is not None:
        engine = f"{1e3 * found.engine_step_s:.2f} ms as the engine counts" if found.engine_step_s else ""
        rows.append(("time of a pass", f"{1e3 * found.step_s:.2f} ms", engine))
    if (line := found.line) is not None:
        spans = [f"{1e3 * low:.2f} to {1e3 * high:.2f}" for low, high in (line.a_span, line.b_span)]
        seen = f"fitted over {line.lengths[0]:.1f} to {line.lengths[1]:.1f} guesses a pass"
        rows.append(("a + b·k: a", f"{1e3 * line.a:.2f} ms", f"{spans[0]}; {seen}"))
        rows.append(("b, for each guess", f"{1e3 * line.b:.2f} ms", spans[1]))
        if found.cost is not None:
            plain = 1e3 * (found.pass_s(0) or 0.0)
            where = "measured" if found.plain_step_s else "extrapolated"
            rows.append(
                (
                    "a pass without guesses",
                    f"{plain:.2f} ms",
                    f"{where}; each guess adds {found.cost:.2f} of it",
                )
            )
    else:
        rows.append(("a + b·k", "unknown", "needs a second address, with other draft lengths or none"))
    if found.tps is not None:
        rows.append(
            (
                "tokens a second",
                f"{found.tps:.1f}",
                f"{found.plain_tps:.1f} without guesses" if found.plain_tps else "",
            )
        )
    if found.speedup is not None:
        rows.append(
            ("speedup", f"{found.speedup:.2f}×", "measured" if found.plain_tps else "modelled by a + b·k")
        )
    if found.ceiling is not None and found.best_length is not None:
        best = found.speedup_at(found.best_length) or 0.0
        rows.append(
            ("a perfect drafter", f"{found.ceiling:.2f}×", f"modelled, {found.depth} guesses at this cost")
        )
        rows.append(
            ("best number of guesses", f"{found.best_length}", f"of 0 to {found.depth}; modelled {best:.2f}×")
        )
    return rows


def lengths(found: Watched) -> list[dict[str, str]]:
    """What other draft lengths would give on this server; empty where that is unknown."""
    if found.line is None or not found.at:
        return []
    low, high = found.line.lengths
    rows = []
    for length in range(found.depth + 1):
        seen = found.plain_step_s is not None if length == 0 else low - 0.5 <= length <= high + 0.5
        rows.append(
            {
                "guesses a round": f"{length}" + (", as now" if length == found.depth else ""),
                "tokens a round": f"{1 + sum(found.survival[:length]):.2f}",
                "time of a pass, a + b·k": f"{1e3 * (found.pass_s(length) or 0.0):.2f} ms"
                + ("" if seen else ", extrapolated"),
                "speedup, modelled": f"{found.speedup_at(length) or 0.0:.2f}×",
            }
        )
    rows.append(
        {"guesses a round": f"{found.depth + 1} and more"} | dict.fromkeys(list(rows[0])[1:], "unknown")
    )
    return rows


def read(data: bytes) -> Watched:
    """The numbers of a file that `as_json` made.

    Raises:
        TraceError: one sentence, if it is none.
    """
    try:
        content = from_json(data, allow_inf_nan=False)
        if (content["format"], content["version"]) != (FORMAT, 1):
            raise ValueError(f"its format is not {FORMAT}, version 1")
        found = TypeAdapter(Watched).validate_python(content)
        line, shares = found.line, [one for at in found.at for one in at]
        times = [
            one for one in (found.step_s, found.plain_step_s, found.tps, found.plain_tps) if one is not None
        ]
        if found.engine not in LENGTH_FLAG or len(found.at) > MOST_DEPTH or found.depth > MOST_DEPTH:
            raise ValueError("it is of no engine or no draft length that is known")
        if any(not 0 <= one <= 1 for one in shares) or any(not 0 < one < 1e6 for one in times):
            raise ValueError("a share is not between 0 and 1, or a time or a speed not above 0")
        if line is not None and not (
            0 < line.a < 1e6
            and 0 <= line.b < 1e6
            and 0 <= min(line.lengths) <= max(line.lengths) <= MOST_DEPTH
        ):
            raise ValueError("its a + b·k is no time")
    except ValidationError as error:
        raise TraceError(f"The file is not what specdec watch writes: {sentence(error)}") from None
    except (ValueError, KeyError, TypeError) as error:
        said = f"'{error.args[0]}' is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
        raise TraceError(f"The file is not what specdec watch writes: {said}.") from None
    return found


def as_json(found: Watched, why: Cause) -> dict[str, Any]:
    """All of it, with a name and a version."""
    return {"format": FORMAT, "version": 1, **content(found), "cause": asdict(why)}


def page(found: Watched, why: Cause) -> str:
    """The whole document."""
    title = f"Speculation of {found.engine} at {found.url}"
    table = _table(
        f'<tr><th scope="row">{escape(name)}</th><td class="number">{escape(value)}</td>'
        f'<td class="why">{escape(more)}</td></tr>'
        for name, value, more in lines(found)
    )
    if rows := lengths(found):
        heads = "".join(f"<th>{escape(head)}</th>" for head in rows[0])
        cells = ("".join(f"<td>{escape(value)}</td>" for value in row.values()) for row in rows)
        table += f"<h2>{LENGTHS}</h2>\n" + _table(
            [f"<tr>{heads}</tr>", *(f"<tr>{one}</tr>" for one in cells)]
        )
    said = f"{why.name[:1].upper()}{why.name[1:]}. {why.seen}"
    return document(
        title,
        [
            f"<h1>{escape(title)}</h1>",
            f'<p class="lead">{escape(said)}</p>\n<p>{escape(why.change)}</p>',
            table,
        ],
    )


def _table(rows: Iterable[str]) -> str:
    return '<div class="scroll"><table><tbody>\n' + "\n".join(rows) + "\n</tbody></table></div>\n"
