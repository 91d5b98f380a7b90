"""Decoders side by side on every prompt, in turn and in one process: A B C … A B C …, so that a slow minute of the
machine affects all of them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

import specdec_core as sd

from .engines.llama_cpp import Decoder, Peer
from .subjects import Mode, Prompt, Subjects

PLAIN, DRAFT, DRAFT_OFF, PLAIN_OFF = "plain", "draft-model", "draft-model, no record", "plain, no record"
LOOKUP = "prompt-lookup"
GENERATE, STATIC = "generate", "generate, static cache"
ASSISTED, GENERATE_LOOKUP = "generate, assisted", "generate, prompt lookup"
LOOKUP_TOKENS = 10  # guessed at a time by prompt lookup, here and there


Kind = Literal["wall", "cpu", "clock"]


@dataclass(slots=True)
class Timing:
    """One decoder on one prompt: seconds of whole calls (by the wall clock, and of CPU), of the lane's clock."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    clock: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    rates: tuple[float | None, float | None] = (None, None)  # acceptance rate, tokens per pass


@dataclass(slots=True)
class Comparison:
    """All timings, by prompt and decoder."""

    timings: dict[Prompt, dict[str, Timing]]
    threads: dict[str, int]
    mismatches: list[str]

    def ratio(self, slow: str, fast: str, kind: Kind = "wall") -> dict[str, float]:
        """For each family the median over its prompts of (median time of `slow`) / (median time of `fast`)."""
        families: dict[str, list[float]] = defaultdict(list)
        for prompt, by_name in self.timings.items():
            one, other = (getattr(by_name[name], kind) for name in (slow, fast))
            families[prompt.family].append(median(one) / median(other))
        return {family: median(ratios) for family, ratios in families.items()}

    def speed(self, name: str) -> float:
        """Tokens per second of whole calls: median over prompts."""
        return median(
            len(timings[name].tokens) / median(timings[name].wall) for timings in self.timings.values()
        )

    def rate(self, index: int) -> dict[str, float]:
        """Per family the draft's mean acceptance rate (0) or tokens per pass (1)."""
        families: dict[str, list[float]] = defaultdict(list)
        for prompt, by_name in self.timings.items():
            value = by_name[DRAFT].rates[index]
            if value is not None:
                families[prompt.family].append(value)
        return {family: sum(values) / len(values) for family, values in families.items()}


Timed = Callable[[Prompt, Timing], list[int]]
"""A decoder that writes the tokens after a prompt."""


def compare(
    subjects: Subjects,
    prompts: Iterable[Prompt],
    *,
    length: int,
    gamma: int,
    repeats: int,
    on_progress: Callable[[str], None],
    peer: Peer | None = None,
) -> Comparison:
    """Time every decoder on every prompt `repeats` times, interleaved, after one untimed call each; llama.cpp too,
    where a `peer` is given."""
    prompts, short = list(prompts), min(length, 24)
    theirs: dict[str, tuple[Mode, int]] = {
        GENERATE: ("plain", 0),
        STATIC: ("static cache", 0),
        GENERATE_LOOKUP: ("prompt lookup", LOOKUP_TOKENS),
        ASSISTED: ("assisted", gamma),
    }
    threads = sorted({subjects.models.threads, subjects.default_threads})
    counts = {
        name: _fastest(threads, lambda count, how=how: subjects.generate(prompts[0].ids, short, count, *how))  # type: ignore[misc]
        for name, how in theirs.items()
    }

    def in_lab(proposer: str, record: str, guesses: int = gamma) -> Timed:
        settings = sd.Settings(proposer=proposer, draft_length=guesses, max_new_tokens=length, record=record)
        return lambda prompt, timing: _decoded(subjects, settings, prompt, timing)

    decoders = {
        PLAIN: in_lab("none", "full"),
        DRAFT: in_lab("draft-model", "full"),
        LOOKUP: in_lab("prompt-lookup", "full", LOOKUP_TOKENS),
        **{
            name: lambda prompt, timing, name=name, how=how: subjects.generate(  # type: ignore[misc]
                prompt.ids, length, counts[name], *how
            )
            for name, how in theirs.items()
        },
        DRAFT_OFF: in_lab("draft-model", "off"),
        PLAIN_OFF: in_lab("none", "off"),
        **{
            name: lambda prompt, timing, call=call: call(prompt.ids, length)  # type: ignore[misc]
            for name, call in _fastest_of(peer, subjects, prompts[0], counts).items()
        },
    }
    result = Comparison({}, counts, [])
    for prompt in prompts:
        on_progress(f"{prompt.family}: {prompt.name}")
        result.timings[prompt] = timings = _interleaved(decoders, prompt, repeats)
        result.mismatches += [
            f"{prompt.family}, {prompt.name}: {name} differs from {GENERATE} at token {place}"
            for name in decoders
            if (place := _first_difference(timings[name].tokens, timings[GENERATE].tokens)) is not None
        ]
    return result


def _decoded(subjects: Subjects, settings: sd.Settings, prompt: Prompt, timing: Timing) -> list[int]:
    """A decode by the lab, whose own clock and rates are noted."""
    trace = sd.decode(subjects.models, prompt.ids, settings)
    timing.clock.append(trace.stats.decode_s)
    timing.rates = (trace.stats.acceptance_rate, trace.stats.tokens_per_pass)
    return trace.token_ids


def _interleaved(decoders: Mapping[str, Timed], prompt: Prompt, repeats: int) -> dict[str, Timing]:
    """Every decoder once untimed, then all of them in turn."""
    timings = {name: Timing() for name in decoders}
    for name, decoder in decoders.items():
        timings[name].tokens = decoder(prompt, Timing())
    for _ in range(repeats):
        for name, decoder in decoders.items():
            began, busy = time.perf_counter(), time.process_time()
            decoder(prompt, timings[name])
            timings[name].wall.append(time.perf_counter() - began)
            timings[name].cpu.append(time.process_time() - busy)
    return timings


def _fastest_of(
    peer: Peer | None, subjects: Subjects, prompt: Prompt, counts: dict[str, int]
) -> dict[str, Decoder]:
    """llama.cpp's ways of decoding, each with its best number of threads, which is added to `counts`."""
    found = {}
    for name, load in peer.ways.items() if peer else ():
        loaded = {count: load(count) for count in sorted({1, subjects.default_threads})}
        counts[name] = _fastest(
            list(loaded),
            lambda count, loaded=loaded: loaded[count](prompt.ids, 24),  # type: ignore[misc]
        )
        found[name] = loaded[counts[name]]
    return found


def _fastest(counts: Sequence[int], call: Callable[[int], object]) -> int:
    """The number of threads with which a call is fastest: every peer gets its best."""
    seconds: dict[int, list[float]] = {count: [] for count in counts}
    for turn in range(4):
        for count in counts:
            began = time.perf_counter()
            call(count)
            if turn:
                seconds[count].append(time.perf_counter() - began)
    return min(counts, key=lambda count: median(seconds[count]))


def _first_difference(one: list[int], other: list[int]) -> int | None:
    if one == other:
        return None
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
