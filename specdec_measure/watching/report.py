"""A watched server as lines of a table, as JSON and as one HTML file without scripts."""

from __future__ import annotations

from dataclasses import asdict
from html import escape
from typing import Any

from specdec_measure.fitting.report import POLICY, STYLE

from .cause import Cause
from .numbers import Watched, content

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


def as_json(found: Watched, why: Cause) -> dict[str, Any]:
    """All of it, with a name and a version."""
    return {"format": "specdec-watch", "version": 1, **content(found), "cause": asdict(why)}


def page(found: Watched, why: Cause) -> str:
    """The whole document."""
    title = f"Speculation of {found.engine} at {found.url}"
    table = "\n".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="number">{escape(value)}</td>'
        f'<td class="why">{escape(more)}</td></tr>'
        for name, value, more in lines(found)
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f'<meta name="viewport" content="width=device-width">\n<title>{escape(title)}</title>\n'
        f"<style>\n{STYLE.read_text(encoding='utf-8')}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n"
        f'<p class="lead">{escape(why.name[:1].upper() + why.name[1:])}. {escape(why.seen)}</p>\n'
        f"<p>{escape(why.change)}</p>\n"
        f'<div class="scroll"><table><tbody>\n{table}\n</tbody></table></div>\n</body>\n</html>\n'
    )
