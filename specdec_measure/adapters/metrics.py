"""Counters on a page of `/metrics`, or in what Prometheus answers of them, series by series.

Lines are read by prometheus_client's own parser, one at a time, since pages are copied in parts and from tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor, log10
from typing import Any, TypeVar

from prometheus_client.parser import text_string_to_metric_families

from specdec_core.foundations.errors import TraceError

from .acceptance import Acceptance, Series, Stated, counted, number, ratio

SINCE_START = "/metrics, everything since the server started"
Key = TypeVar("Key", str, int)
NAME = re.compile(r"(?:\w+_)?(vllm|llamacpp|sglang)[:_](\w+)")
ANYWHERE = re.compile(r"(?:vllm|llamacpp|sglang)[:_]")
MAX_LINE_LENGTH = 20_000  # characters of a line; the patterns take the square of a longer one's time
ENGINES = {"vllm": "vLLM", "llamacpp": "llama.cpp", "sglang": "SGLang"}
AT = "by position"
ROUNDS, GUESSES, ACCEPTED, TOKENS, EMITTED = (
    "rounds",
    "guesses",
    "accepted guesses",
    "tokens",
    "emitted tokens",
)
COUNTERS = {  # their names less the engine's and `_total`
    "spec_decode_num_drafts": ROUNDS,
    "spec_decode_num_draft_tokens": GUESSES,
    "spec_decode_num_accepted_tokens": ACCEPTED,
    "spec_decode_num_accepted_tokens_per_pos": AT,
    "spec_decode_num_emitted_tokens": EMITTED,  # of vLLM's first engine alone
    "draft_verify_steps": ROUNDS,
    "draft_tokens": GUESSES,
    "draft_tokens_accepted": ACCEPTED,
    "tokens_predicted": TOKENS,
    "generation_tokens": TOKENS,
    "spec_verify_calls": ROUNDS,
}
GAUGES = {  # SGLang's
    "spec_accept_length": "accept length",
    "spec_accept_rate": "accept rate",
    "spec_cap_length": "cap length",
    "spec_block_accept_length": "block accept length",
    "spec_num_steps": "steps",
    "spec_num_draft_tokens": "tokens of a full draft",
}
POSITIONS = ("position", "pos")
# A row of Prometheus' own table, or of its command line: `name{…} | 12`, `name{…} => 12 @[1700000000]`.
ROW = re.compile(r"^\|?\s*(\S.*?)\s*(?:\||=>)\s*([-+0-9.eE]+)(?:\s*@\[[^\]]*\])?\s*\|?\s*$")
DIGITS = 6  # llama.cpp prints no more of a number
SAYS_LESS = "vLLM's first engine counts as accepted what was judged behind a rejection too; "


@dataclass(frozen=True, slots=True)
class Sample:
    """One number of a page: the engine's short name, the counter's, its labels."""

    engine: str
    name: str
    labels: Mapping[str, str]
    value: float


def of_lines(lines: Iterable[str]) -> list[Sample]:
    """The samples about guesses among some lines."""
    return [sample for line in lines if (sample := _of_line(line)) is not None]


def of_query(content: Any) -> list[Sample] | None:
    """The samples in an answer of Prometheus to a query; of a range each series' last. None if it is none.

    Raises:
        TraceError: one sentence, if a value is no number.
    """
    data = content.get("data", content) if isinstance(content, dict) else None
    rows = data.get("result") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(rows, list) or not rows:
        return None
    if data.get("resultType", "vector") not in ("vector", "matrix"):
        return None
    found = []
    for row in rows:
        metric = row.get("metric") if isinstance(row, dict) else None
        if not isinstance(metric, dict):
            return None
        pairs = [row["value"]] if "value" in row else row.get("values")
        if not isinstance(pairs, list) or not pairs or not isinstance(pairs[-1], list) or len(pairs[-1]) != 2:
            return None
        labels = {str(name): str(value) for name, value in metric.items()}
        try:
            value = float(pairs[-1][1])
        except (TypeError, ValueError):
            raise TraceError(f"A value of the query is no number: {str(pairs[-1][1])[:40]!r}.") from None
        if (sample := _named(labels.pop("__name__", ""), labels, value)) is not None:
            found.append(sample)
    return found


def read(samples: Sequence[Sample], source: str = SINCE_START) -> Acceptance | None:
    """The counts of all series together, or the gauges where there are no counters; None without any.

    Raises:
        TraceError: one sentence, if they contradict each other, or are of several engines.
    """
    engines = list(
        dict.fromkeys(ENGINES[sample.engine] for sample in samples if sample.name not in (TOKENS,))
    )
    if len(engines) > 1:
        raise TraceError(f"The file has counts of {' and '.join(engines)}; import each engine's alone.")
    if not engines:
        return None
    parts: dict[tuple[tuple[str, str], ...], _Part] = {}
    gauges: dict[str, list[float]] = {}
    for sample in samples:
        if sample.name in GAUGES.values():
            gauges.setdefault(sample.name, []).append(ratio(sample.value, sample.name))
            continue
        labels = {name: value for name, value in sample.labels.items() if name not in POSITIONS}
        parts.setdefault(tuple(sorted(labels.items())), _Part()).add(sample)
    # Processes that share the work report the same value.
    stated = [Stated(name, tuple(dict.fromkeys(values))) for name, values in gauges.items()]
    told = {labels: part for labels, part in parts.items() if part.counts.keys() - {TOKENS} or part.at}
    if not told:
        return Acceptance(engines[0], "/metrics, the last interval", stated=tuple(stated)) if stated else None
    series = [Series(labels, part.counts, part.at, part.created) for labels, part in told.items()]
    models = {value for one in series for name, value in one.labels if name == "model_name"}
    remarks = [f"Summed over {len(models)} models."] if len(models) > 1 else []
    # Counters of written tokens may have other labels than those of guesses.
    written = [part.counts[TOKENS] for part in parts.values() if TOKENS in part.counts]
    return summed(engines[0], source, series, written, remarks, stated)


@dataclass(slots=True)
class _Part:
    """A series while its samples are read."""

    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    at: dict[int, tuple[int, int]] = field(default_factory=dict)
    created: float | None = None

    def add(self, sample: Sample) -> None:
        if sample.name == "created":
            self.created = max(self.created or 0.0, sample.value)
            return
        span = _span(sample)
        if sample.name != AT:
            _once(self.counts, sample.name, span)
            return
        place = next((sample.labels[name] for name in POSITIONS if name in sample.labels), "")
        if place.isdecimal() and len(place) < 5:
            _once(self.at, int(place), span)


def _once(spans: dict[Key, tuple[int, int]], key: Key, span: tuple[int, int]) -> None:
    """Keep a number of a series, of which a page has one, maybe under two spellings.

    Raises:
        TraceError: one sentence, if there is another already.
    """
    if spans.setdefault(key, span) != span:
        what = key if isinstance(key, str) else f"accepted guesses at position {key}"
        raise TraceError(
            f"The {what} of the same series are there twice, {spans[key][0]:,} and {span[0]:,}: import each page "
            "alone, of two that follow each other the later one with --since."
        )


def _of_line(line: str) -> Sample | None:
    if len(line) > MAX_LINE_LENGTH or not ANYWHERE.search(line) or line.startswith("#"):
        return None
    text = f"{row[1]} {row[2]}" if (row := ROW.match(line)) else line.strip()
    try:
        families = list(text_string_to_metric_families(text))
    except (ValueError, IndexError):
        return None
    samples = [sample for family in families for sample in family.samples]
    if len(samples) != 1 or not samples[0].name:
        return None
    return _named(samples[0].name, samples[0].labels, float(samples[0].value))


def _named(name: str, labels: Mapping[str, str], value: float) -> Sample | None:
    """A sample about guesses; None for any other.

    Raises:
        TraceError: one sentence, if a counter is no whole number.
    """
    if not (found := NAME.fullmatch(name)):
        return None
    engine, short = found[1], found[2].removesuffix("_total")
    if short == "spec_decode_num_drafts_created":
        return Sample(engine, "created", labels, value)
    if engine == "sglang" and short in GAUGES:
        return Sample(engine, GAUGES[short], labels, value)
    return Sample(engine, COUNTERS[short], labels, number(value, short)) if short in COUNTERS else None


def _span(sample: Sample) -> tuple[int, int]:
    """The least and the most that a printed number may mean: llama.cpp prints six digits."""
    value = int(sample.value)
    if sample.engine != "llamacpp" or value < 10**DIGITS:
        return value, value
    step = 10 ** (floor(log10(value)) + 1 - DIGITS)
    return (value, value) if value % step else (ceil(value - step / 2), floor(value + step / 2))


def summed(
    engine: str,
    source: str,
    series: Sequence[Series],
    written: Sequence[tuple[int, int]],
    remarks: Sequence[str],
    stated: Sequence[Stated],
) -> Acceptance:
    """The series together; a number that is not certain is None, and a remark says between which it is."""
    unsure, sums = [], dict[str, int | None]()
    for name in (ROUNDS, GUESSES, ACCEPTED, EMITTED):
        spans = [one.counts[name] for one in series if name in one.counts]
        sums[name] = None
        if len(spans) == len(series):  # else some series does not count it
            low, high = sum(span[0] for span in spans), sum(span[1] for span in spans)
            sums[name] = low if low == high else None
            if low != high:
                unsure.append((name, low, high))
    at = _positions(series)
    for name, low, high in unsure:
        if name == ACCEPTED and at is not None and low <= sum(at) <= high:
            sums[ACCEPTED] = sum(at)
    more = [
        f"{engine} prints six digits of a number: the {name} are between {low:,} and {high:,}."
        for name, low, high in unsure
        if sums[name] is None
    ]
    if sums[EMITTED] is not None:
        more.append(f"{SAYS_LESS}{sums[EMITTED]:,} tokens were written in rounds with guesses.")
    certain = [low for low, high in written if low == high]
    found = counted(
        engine, source, rounds=sums[ROUNDS], drafted=sums[GUESSES], accepted=sums[ACCEPTED], at=at or (),
        remarks=[*remarks, *more], tokens=sum(certain) if written and len(certain) == len(written) else None,
        stated=stated,
    )  # fmt: skip
    return replace(found, series=tuple(series)) if source == SINCE_START else found


def _positions(series: Sequence[Series]) -> list[int] | None:
    """Accepted guesses by position over all series; None where one is not certain.

    Raises:
        TraceError: one sentence, if a position between others is missing.
    """
    places = sorted({place for one in series for place in one.at})
    if places != list(range(len(places))):
        raise TraceError(
            "A position between others is missing among the accepted guesses; the file may be cut off."
        )
    if any(low != high for one in series for low, high in one.at.values()):
        return None
    if any(not one.at and one.counts.get(ACCEPTED, (0, 0))[1] for one in series):
        return None  # one does not say where its guesses were accepted
    return [sum(one.at.get(place, (0, 0))[0] for one in series) for place in places]
