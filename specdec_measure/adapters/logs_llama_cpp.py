"""llama.cpp's log: a line for each request, and statistics of each way to guess that add up over requests."""

from __future__ import annotations

import re
from itertools import zip_longest

from .acceptance import Acceptance, counted, digits, of_shares
from .loglines import lines_of, mean_of, rates_of, summed

REQUEST = re.compile(
    r"draft acceptance(?: rate)? = +-?[0-9.]+ \( *(-?[0-9]+) accepted / +(-?[0-9]+) generated\)(.*)"
)
TASK = re.compile(r"\btask (-?\d+) \|")
MEAN = r"(?:mean acceptance length|mean len) = "
RATES = r"(?:acceptance rate per position|acc per pos) = \("
STATISTICS = re.compile(
    r"statistics\s+(\S+?): #calls.*?#gen drafts = +(\d+), #acc drafts = +\d+, "
    r"#gen tokens = +(\d+), #acc tokens = +(\d+)(.*)"
)


def read_lines(lines: list[str]) -> Acceptance | None:
    """The requests of a log, with rounds from its statistics where the lines do not determine them."""
    pairs, details, tasks = list[tuple[int, int]](), list[tuple[float | None, list[float]]](), list[str]()
    for line in lines:
        task = found[1] if (found := TASK.search(line)) else ""
        if said := REQUEST.search(line):
            pairs.append((digits(said[1], "accepted guesses"), digits(said[2], "guesses")))
            details.append((mean_of(said[3], MEAN), rates_of(said[3], RATES)))
            tasks.append(task)
        elif pairs and task in ("", tasks[-1]) and not details[-1][1] and (rates := rates_of(line, RATES)):
            details[-1] = details[-1][0], rates  # of the request before
    requests = summed("llama.cpp", pairs, details)
    statistics = _statistics(lines)
    if requests is None or statistics is None:
        return requests or statistics
    same = (requests.drafted, requests.accepted) == (statistics.drafted, statistics.accepted)
    return statistics if same and (requests.rounds is None or not requests.at) else requests


def _statistics(lines: list[str]) -> Acceptance | None:
    """The last line of each way to guess, and of each server where a log has several: its counts then fall."""
    rows = [found for line in lines if (found := STATISTICS.search(line))]
    if not rows:
        return None
    lasts: list[re.Match[str]] = []
    for name in dict.fromkeys(row[1] for row in rows):
        of_one = [row for row in rows if row[1] == name]
        after = zip_longest(of_one, of_one[1:])
        lasts += [row for row, then in after if then is None or _of(then)[1] < _of(row)[1]]
    rounds, drafted, accepted = (sum(_of(row)[at] for row in lasts) for at in range(3))
    columns: list[list[int]] | None = []
    for row in lasts:
        rates, own = rates_of(row[5], r"#acc rate/pos = \("), _of(row)[0]
        at = of_shares(rates, own, 0.0005) if rates and own < 1_000 else None
        certain = at is not None and sum(at) == _of(row)[2]
        columns = [*columns, at] if columns is not None and at is not None and certain else None
    return counted(
        "llama.cpp", f"{lines_of(len(rows))} of statistics", rounds=rounds, drafted=drafted, accepted=accepted,
        at=[sum(column) for column in zip_longest(*columns, fillvalue=0)] if columns else [],
    )  # fmt: skip


def _of(row: re.Match[str]) -> tuple[int, int, int]:
    """Drafts, guesses and accepted guesses."""
    drafts, drafted, accepted = (digits(row[at], "a count") for at in (2, 3, 4))
    return drafts, drafted, accepted
