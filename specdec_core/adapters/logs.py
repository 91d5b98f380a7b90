"""Counters that vLLM, SGLang and llama.cpp print: in their logs, and on the page `/metrics` that Prometheus reads.

Written after what their documentation and their users' logs show; none was run here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from specdec_core.errors import TraceError

from .acceptance import Acceptance, Stated, counted, number, of_rates

SINCE_START = "/metrics, everything since the server started"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
NUMBER = r"(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
COUNTER = re.compile(
    r"^(vllm|llamacpp):spec_decode_(num_drafts|num_draft_tokens|num_accepted_tokens(?:_per_pos)?)_total"
    rf"(\{{[^}}]*\}})?\s+{NUMBER}(?:\s+[0-9]+)?\s*$"
)
POSITION = re.compile(r'\bpos(?:ition)?="([0-9]{1,4})"')
GAUGE = re.compile(rf"^sglang:(spec_accept_length|spec_accept_rate)(?:\{{[^}}]*\}})?\s+{NUMBER}")
VLLM = re.compile(r"SpecDecoding metrics: (.*)")
LLAMA_CPP = re.compile(
    r"draft acceptance(?: rate)? = +-?[0-9.]+ \( *(-?[0-9]+) accepted / +(-?[0-9]+) generated\)(.*)"
)
SGLANG = re.compile(rf"Decode batch.*?accept len: {NUMBER}(?:.*?accept rate: {NUMBER})?")
NAMES = {"vllm": "vLLM", "llamacpp": "llama.cpp"}
LENGTH, RATE = "accept length", "accept rate"  # SGLang's own names


def read(text: str) -> Acceptance | None:
    """The counters in a log or on a page of metrics; None if there are none.

    Raises:
        TraceError: one sentence, if they contradict each other, or are of several engines.
    """
    lines = COLOURS.sub("", text).splitlines()
    readers = (_metrics, _gauges, _vllm, _llama_cpp, _sglang)
    found = [counts for read_some in readers if (counts := read_some(lines)) is not None]
    _check_one([counts.engine for counts in found])
    return found[0] if found else None


def _check_one(engines: Sequence[str]) -> None:
    """Refuse counts of several engines, which cannot be told apart in a sum."""
    names = list(dict.fromkeys(engines))
    if len(names) > 1:
        raise TraceError(f"The file has counts of {' and '.join(names)}; import each engine's alone.")


def later(now: Acceptance, before: Acceptance) -> Acceptance:
    """What was counted between two looks at the same counters.

    Raises:
        TraceError: one sentence, if they are not the same counters, or were set back between.
    """
    if SINCE_START not in now.source or (now.engine, now.source) != (before.engine, before.source):
        raise TraceError("Only two pages of /metrics of the same engine have a difference.")
    length = max(len(now.at), len(before.at))
    pairs = [
        (now.rounds, before.rounds), (now.drafted, before.drafted), (now.accepted, before.accepted),
        *zip(*(each.at + (0,) * (length - len(each.at)) for each in (now, before)), strict=True),
    ]  # fmt: skip
    found = [None if one is None or other is None else one - other for one, other in pairs]
    if any(count is not None and count < 0 for count in found):
        raise TraceError(
            "The counters are lower than before: the server was started again between, or the files are swapped."
        )
    rounds, drafted, accepted, *at = found
    return counted(
        now.engine, "/metrics, the difference between two snapshots", rounds=rounds, drafted=drafted, accepted=accepted,
        at=[count or 0 for count in at], remarks=now.remarks,
    )  # fmt: skip


def _metrics(lines: list[str]) -> Acceptance | None:
    """The counters of vLLM and llama.cpp, which have the same names; summed over engines."""
    engine, sums, at, models = "", dict[str, int](), dict[int, int](), set[str]()
    for line in lines:
        if not (found := COUNTER.match(line)):
            continue
        _check_one([engine or NAMES[found[1]], NAMES[found[1]]])
        engine, labels, count = NAMES[found[1]], found[3] or "", number(float(found[4]), found[2])
        models.update(re.findall(r'model_name="([^"]*)"', labels))
        if found[2] == "num_accepted_tokens_per_pos":
            if place := POSITION.search(labels):
                at[int(place[1])] = at.get(int(place[1]), 0) + count
        else:
            sums[found[2]] = sums.get(found[2], 0) + count
    if not sums and not at:
        return None
    if sorted(at) != list(range(len(at))):
        raise TraceError(
            "A position between others is missing among the accepted guesses; the file may be cut off."
        )
    remarks = [f"Summed over {len(models)} models."] if len(models) > 1 else []
    return counted(
        engine, SINCE_START, rounds=sums.get("num_drafts"), drafted=sums.get("num_draft_tokens"),
        accepted=sums.get("num_accepted_tokens"), at=[at[place] for place in range(len(at))], remarks=remarks,
    )  # fmt: skip


def _gauges(lines: list[str]) -> Acceptance | None:
    """SGLang's two gauges; processes that share the work report the same value."""
    found = [gauge for line in lines if (gauge := GAUGE.match(line))]
    if not found:
        return None
    names = {"spec_accept_length": LENGTH, "spec_accept_rate": RATE}
    stated = [
        Stated(names[name], tuple(dict.fromkeys(_ratio(one[2], name) for one in found if one[1] == name)))
        for name in names
    ]
    return Acceptance(
        "SGLang", "/metrics, the last interval", stated=tuple(one for one in stated if one.values)
    )


def _vllm(lines: list[str]) -> Acceptance | None:
    said = [found[1] for line in lines if (found := VLLM.search(line))]
    pattern = r"Accepted: (-?[0-9]+) tokens.*Drafted: (-?[0-9]+) tokens"
    whole = [pair for line in said if (pair := _pair(line, pattern))]
    details = [
        (_last(line, "Mean acceptance length: "), _rates(line, "Per-position acceptance rate: "))
        for line in said
    ]
    return _summed("vLLM", whole, details, len(said))


def _llama_cpp(lines: list[str]) -> Acceptance | None:
    said = [found for line in lines if (found := LLAMA_CPP.search(line))]
    details = [
        (_last(one[3], "mean acceptance length = "), _rates(one[3], "acceptance rate per position = ("))
        for one in said
    ]
    return _summed("llama.cpp", [(int(one[1]), int(one[2])) for one in said], details, len(said))


def _sglang(lines: list[str]) -> Acceptance | None:
    said = [found for line in lines if (found := SGLANG.search(line))]
    if not said:
        return None
    rates = tuple(_ratio(one[2], RATE) for one in said if one[2])
    stated = [Stated(LENGTH, tuple(_ratio(one[1], LENGTH) for one in said)), Stated(RATE, rates)]
    return Acceptance("SGLang", _lines(len(said)), stated=tuple(one for one in stated if one.values))


def _summed(
    engine: str,
    pairs: list[tuple[int, int]],
    details: list[tuple[float | None, list[float]]],
    lines: int,
) -> Acceptance | None:
    """The lines of a log as one; rounds and positions only if every line's are certain."""
    if not lines:
        return None
    if len(pairs) < lines:
        raise TraceError(
            f"{lines - len(pairs)} of {lines} lines of {engine} about guesses lack their counts; "
            "the file may be cut off."
        )
    for accepted, drafted in pairs:
        number(accepted, "accepted guesses")
        number(drafted, "guesses")
    remarks, rounds, at = [], 0, list[int]()
    for (accepted, drafted), (mean, rates) in zip(pairs, details, strict=True):
        one = of_rates(accepted, drafted, mean, rates) if mean is not None else None
        if one is None:
            remarks = ["Rounds and positions are unknown: not every line determines them."]
            break
        rounds += one[0]
        at = [sum(both) for both in _padded(at, one[1])]
    return counted(
        engine, _lines(lines), rounds=None if remarks else rounds, drafted=sum(pair[1] for pair in pairs),
        accepted=sum(pair[0] for pair in pairs), at=[] if remarks else at, remarks=remarks,
    )  # fmt: skip


def _ratio(text: str, name: str) -> float:
    value = float(text)
    if value < 0:
        raise TraceError(f"'{name}' is negative, {value:g}.")
    return value


def _padded(one: list[int], other: list[int]) -> Iterator[tuple[int, int]]:
    length = max(len(one), len(other))
    return zip(one + [0] * (length - len(one)), other + [0] * (length - len(other)), strict=True)


def _pair(line: str, pattern: str) -> tuple[int, int] | None:
    found = re.search(pattern, line)
    return (int(found[1]), int(found[2])) if found else None


def _last(line: str, before: str) -> float | None:
    found = re.search(re.escape(before) + r" *([0-9]+\.[0-9]+)", line)
    return float(found[1]) if found else None


def _rates(line: str, before: str) -> list[float]:
    found = re.search(re.escape(before) + r"((?:[0-9]\.[0-9]{3}(?:, )?)+)", line)
    return [float(rate) for rate in found[1].rstrip(", ").split(", ")] if found else []


def _lines(count: int) -> str:
    return f"its log, {count:,} line{'s' if count != 1 else ''}"
