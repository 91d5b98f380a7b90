"""Counters that engines and command-line tools print as text: in logs, in a block at the end, on pages of metrics."""

from __future__ import annotations

import re
from itertools import zip_longest

from specdec_core.foundations.errors import TraceError

from . import logs_llama_cpp, metrics
from .acceptance import Acceptance, Stated, counted, digits, number, of_shares, ratio, together
from .differences import later
from .form import Form
from .loglines import lines_of, mean_of, rates_of, summed
from .unwrapping import COLOURS

__all__ = ["FORMS", "later", "read"]

NUMBER = r"(-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
VLLM = re.compile(r"SpecDecoding metrics: (.*)")
FIRST_VLLM = re.compile(
    r"Speculative metrics: .*Number of speculative tokens: (-?\d+), Number of accepted tokens: (-?\d+), "
    r"Number of draft tokens: (-?\d+), Number of emitted tokens: (-?\d+)"
)
SGLANG = re.compile(rf"Decode batch.*?\baccept len: {NUMBER}(.*)")
SGLANG_MORE = {
    "accept rate": rf"\baccept rate: {NUMBER}",
    "cap length": rf"\bcap len: {NUMBER}",
    "block accept length": rf"\bblock accept len: {NUMBER}",
}
BLOCK = re.compile(r"\b(n_draft|n_predict|n_drafted|n_accept)\s*=\s*(-?\d+)\s*$")
BENCH = re.compile(rf"^\s*(Drafts|Draft tokens|Accepted tokens|Position (\d+))(?: \(%\))?:\s+{NUMBER}\s*$")


def read(text: str) -> Acceptance | None:
    """The counters in a log or on a page of metrics; None if there are none.

    Raises:
        TraceError: one sentence, if they contradict each other, or are of several engines or forms.
    """
    return of_lines(COLOURS.sub("", text).splitlines())


def of_lines(lines: list[str]) -> Acceptance | None:
    """As `read`, of lines without colours."""
    found = [
        (form, counts)
        for form in FORMS
        if form.read_lines is not None and (counts := form.read_lines(lines)) is not None
    ]
    names = list(dict.fromkeys(counts.engine for _, counts in found))
    if len(names) > 1:
        raise TraceError(f"The file has counts of {' and '.join(names)}; import each engine's alone.")
    if len(found) > 1:
        raise TraceError(
            f"The file has the same engine's counts in several forms ({', '.join(form.name for form, _ in found)}); "
            "import each alone."
        )
    return found[0][1] if found else None


def _metrics(lines: list[str]) -> Acceptance | None:
    return metrics.read(metrics.of_lines(lines))


def _vllm(lines: list[str]) -> Acceptance | None:
    said = [found[1] for line in lines if (found := VLLM.search(line))]
    pattern = re.compile(r"Accepted: (-?[0-9]+) tokens.*Drafted: (-?[0-9]+) tokens")
    whole = [
        (digits(pair[1], "accepted guesses"), digits(pair[2], "guesses"))
        for line in said
        if (pair := pattern.search(line))
    ]
    if len(whole) < len(said):
        raise TraceError(
            f"{len(said) - len(whole)} of {len(said)} lines of vLLM about guesses lack their counts; "
            "the file may be cut off."
        )
    details = [
        (mean_of(line, r"Mean acceptance length: "), rates_of(line, r"Per-position acceptance rate: "))
        for line in said
    ]
    return summed("vLLM", whole, details)


def _first_vllm(lines: list[str]) -> Acceptance | None:
    """Counters since the server started, in each line; it starts again where they fall."""
    rows = [
        [digits(count, "a count of vLLM's line") for count in found.groups()]
        for line in lines
        if (found := FIRST_VLLM.search(line))
    ]
    if not rows:
        return None
    lasts = [row for row, after in zip_longest(rows, rows[1:]) if after is None or after[2] < row[2]]
    accepted, drafted, emitted = (sum(row[place] for row in lasts) for place in (1, 2, 3))
    sizes = {row[0] for row in lasts}
    rounds = drafted // min(sizes) if len(sizes) == 1 and min(sizes) and drafted % min(sizes) == 0 else None
    told = f" in {rounds:,} rounds with guesses" if rounds is not None else ""
    return counted(
        "vLLM", lines_of(len(rows)), rounds=None, drafted=drafted, accepted=accepted,
        remarks=[f"{metrics.SAYS_LESS}{emitted:,} tokens were written{told}."],
    )  # fmt: skip


def _sglang(lines: list[str]) -> Acceptance | None:
    said = [found for line in lines if (found := SGLANG.search(line))]
    if not said:
        return None
    stated = [Stated("accept length", tuple(_ratio(one[1], "accept length") for one in said))]
    for name, pattern in SGLANG_MORE.items():
        values = [_ratio(found[1], name) for one in said if (found := re.search(pattern, one[2]))]
        stated.append(Stated(name, tuple(values)))
    return Acceptance("SGLang", lines_of(len(said)), stated=tuple(one for one in stated if one.values))


def _block(lines: list[str]) -> Acceptance | None:
    """What llama-speculative and llama-speculative-simple print at the end."""
    blocks, block = list[dict[str, int]](), dict[str, int]()
    for line in lines:
        if found := BLOCK.search(line):
            block[found[1]] = digits(found[2], found[1])
        if "n_accept" in block and "n_drafted" in block:
            blocks.append(block)
            block = {}
    each = [
        counted(
            "llama.cpp", "the end of llama-speculative", rounds=None, drafted=number(one["n_drafted"], "n_drafted"),
            accepted=number(one["n_accept"], "n_accept"), tokens=one.get("n_predict"),
        )
        for one in blocks
    ]  # fmt: skip
    return together(each, f"the ends of {len(each)} runs of llama-speculative") if each else None


def _bench(lines: list[str]) -> Acceptance | None:
    """The block about guesses that vLLM's `bench serve` prints."""
    blocks = list[dict[str, str]]()
    for line in lines:
        if found := BENCH.match(line):
            if found[1] == "Drafts":
                blocks.append({})
            if blocks:
                blocks[-1][found[1]] = found[3]
    each = []
    for block in blocks:
        if not {"Drafts", "Draft tokens", "Accepted tokens"} <= block.keys():
            raise TraceError(
                "The block of vLLM's bench serve lacks some of its counts; the file may be cut off."
            )
        rounds, drafted, accepted = (
            number(float(block[name]), name) for name in ("Drafts", "Draft tokens", "Accepted tokens")
        )
        rates = [float(value) / 100 for name, value in block.items() if name.startswith("Position")]
        at = of_shares(rates, rounds, 0.00005) if rounds < 10_000 else None
        each.append(
            counted(
                "vLLM", "the end of bench serve", rounds=rounds, drafted=drafted, accepted=accepted,
                at=at if at and sum(at) == accepted else [],
            )
        )  # fmt: skip
    return together(each, f"the ends of {len(each)} runs of bench serve") if each else None


def _ratio(text: str, name: str) -> float:
    return ratio(float(text), name)


FORMS = (
    Form(
        "/metrics of vLLM, llama.cpp or SGLang", "**vLLM 0.32.0, llama.cpp 0.10434**; SGLang 0.5.23, by source", "yes",
        "yes; not SGLang's", "yes; not SGLang's", "yes; not SGLang's", "no",
        "llama.cpp's numbers from a million on, of which it prints six digits", read_lines=_metrics,
    ),
    Form(
        "vLLM's log", "**0.32.0**", "where the rounded ratios allow one answer", "yes", "yes", "as the rounds", "no",
        "the interval that was not printed yet", read_lines=_vllm,
    ),
    Form(
        "vLLM 0.6's log (Speculative metrics)", "0.5 to 0.8, by source", "no", "yes",
        "with those judged behind a rejection", "no", "no", "", read_lines=_first_vllm,
    ),
    Form(
        "llama.cpp's log", "**b11434, 0.10434**; 2026-01 to 2026-09, by source",
        "where the rounded ratios allow one answer", "yes", "yes", "at -lv 4, or in its statistics", "no",
        "requests without guesses", read_lines=logs_llama_cpp.read_lines,
    ),
    Form(
        "llama-speculative's block", "2023 to 2026, by source", "no", "yes", "yes", "no", "no", "rounds",
        read_lines=_block,
    ),
    Form(
        "SGLang's log", "0.4 to 0.5.23, by source", "no", "no", "no", "no", "no", "all but ratios",
        read_lines=_sglang,
    ),
    Form(
        "vLLM's bench serve, as printed", "0.32, by source", "yes", "yes", "yes",
        "up to 9,999 rounds", "no", "single requests", read_lines=_bench,
    ),
)  # fmt: skip
