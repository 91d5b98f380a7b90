"""Does guessing still pay when several requests are served together?

    python -m benchmarks.batch                            batches of 1 to 16 of the bundled models
    python -m benchmarks.batch --json assets/models/batches.json      the same, kept for lesson 11 and "What if"

For each batch size, as many of the shipped prompts are decoded together by plain decoding and by each proposer, in
turn (A B C, C B A, …), every repeat with other prompts. Compared are the tokens a second of all requests over the
rounds in which none of them had ended. The 95% interval is a bootstrap over the repeats, so it holds for prompts and
moments like these. Expected is what the passes of a single request give: a pass over n tokens of B texts is
taken to last as long as one over B × n tokens of one text.

On a machine that cannot be left alone, `--cpu` counts seconds of the processor instead, which others disturb less; the
file says so.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median
from types import SimpleNamespace
from typing import Any

import specdec_core as sd
from specdec_core.engine import decode
from specdec_core.runtime.machine import packages
from specdec_core.runtime.timing import width_curve as curve
from specdec_core.runtime.timing.pass_times import pass_time
from specdec_core.runtime.timing.width_curve import WidthCurve, width_curve
from specdec_measure.batch.decode import Batch, decode_batch
from specdec_measure.machines.batches import Batches, BatchServed, BatchTimes, write
from specdec_measure.records.repeats import find
from specdec_measure.sweep.cases import Audience, shipped

PROPOSERS = ("draft-model", "prompt-lookup")
SAMPLES = 4_000  # of the bootstrap


@dataclass
class Measured:
    """One lane at one batch size: tokens a second, and tokens and target passes of all its requests; what is expected
    of its rounds, in tokens a second."""

    speeds: list[float] = field(default_factory=list)
    expected: list[float] = field(default_factory=list)
    tokens: int = 0
    passes: int = 0

    def add(self, batch: Batch, curves: Curves) -> None:
        """One more repeat."""
        self.speeds.append(batch.tokens_per_second)
        self.expected.append(curves.tokens_per_second(batch))
        self.tokens += sum(one.stats.tokens for one in batch.texts)
        self.passes += sum(one.stats.target_passes for one in batch.texts)

    @property
    def tokens_per_pass(self) -> float:
        """τ."""
        return self.tokens / self.passes


@dataclass(frozen=True)
class Curves:
    """T(n) of target and draft, of a single request."""

    target: WidthCurve
    draft: WidthCurve
    drafts: bool = False

    def tokens_per_second(self, batch: Batch) -> float:
        """What a batch's rounds would give if a pass over n tokens of B texts were one over B × n tokens of one."""
        rounds = [row for row in batch.rounds if row.texts == len(batch.texts)]
        seconds = 0.0
        for row in rounds:
            seconds += pass_time(self.target.table, row.texts * row.width)
            if self.drafts:
                seconds += (row.width - 1) * pass_time(self.draft.table, row.texts)
        return sum(row.committed for row in rounds) / seconds


class Measuring:
    """The models and settings, and what was measured so far."""

    def __init__(self, given: argparse.Namespace) -> None:
        models = sd.load_models(given.family, device="cpu", dtype="float32")
        self.models = replace(models, eos=frozenset())  # every request as long
        audience: Audience = "chat" if models.chat_template else "text"
        self.pool = [case.asked for case in shipped(audience=audience)]
        self.given = given
        common = {
            "max_new_tokens": given.tokens,
            "temperature": given.temperature,
            "draft_length": given.gamma,
        }
        self.settings = {name: sd.Settings(proposer=name, **common) for name in ("none", *PROPOSERS)}
        self.texts = self.other_texts = self.tokens = self.repeated = 0

    def batch(self, size: int, curves: Curves) -> dict[str, Measured]:
        """All lanes at one batch size."""
        found = {name: Measured() for name in self.settings}
        for repeat in range(-1, self.given.repeats):  # the first is the warm-up
            prompts = random.Random(f"{size} {repeat}").sample(self.pool, size)
            order = list(self.settings) if repeat % 2 else list(self.settings)[::-1]
            batches = {
                name: decode_batch(self.models, prompts, self.settings[name], seeds=range(size))
                for name in order
            }
            if repeat < 0:
                continue
            for name, one in batches.items():
                found[name].add(one, replace(curves, drafts=name == "draft-model"))
            for text in batches["none"].texts:
                self.tokens += len(text.output.ids)
                self.repeated += sum(span.size for span in find(text.output.ids))
            if not self.given.temperature:
                self._compare(batches)
        return found

    def _compare(self, batches: dict[str, Batch]) -> None:
        written = {name: [text.output.ids for text in one.texts] for name, one in batches.items()}
        for name in PROPOSERS:
            pairs = list(zip(written["none"], written[name], strict=True))
            self.texts += len(pairs)
            self.other_texts += sum(one != other for one, other in pairs)

    def curves(self, sizes: Sequence[int]) -> Curves:
        """T(n) of target and draft alone, as wide as the batches' passes."""
        widths = sorted({size * width for size in sizes for width in (1, self.given.gamma + 1)})
        assert self.models.draft is not None
        alone = replace(self.models, target=self.models.draft, draft=None)
        seconds = 2.0 if self.given.repeats > 2 else 0.2
        return Curves(
            width_curve(replace(self.models, draft=None), widths, repeats=1_000, budget_s=seconds),
            width_curve(alone, sorted({*sizes}), repeats=1_000, budget_s=seconds),
        )


def interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    """The geometric mean, and its 95% interval by a bootstrap; the same ratios give the same interval."""
    logs, chance = [math.log(one) for one in ratios], random.Random(0)
    means = sorted(fmean(chance.choices(logs, k=len(logs))) for _ in range(SAMPLES))
    middle, low, high = fmean(logs), means[SAMPLES * 25 // 1000], means[SAMPLES * 975 // 1000 - 1]
    return math.exp(middle), math.exp(min(low, middle)), math.exp(max(high, middle))


def measure(given: argparse.Namespace) -> Batches:
    """Everything, with a line for each figure as it is known."""
    load, measuring = os.getloadavg()[0], Measuring(given)
    if given.cpu:
        by_cpu(measuring.models.threads)
    models, sizes = measuring.models, sorted({*given.batches})
    curves = measuring.curves(sizes)
    lanes: dict[str, list[BatchTimes]] = {name: [] for name in PROPOSERS}
    print(
        f"{'batch':>5} {'proposer':14}{'speedup':>8}  95% interval {'expected':>10}{'τ':>6}{'tokens/s':>10}"
    )
    for size in sizes:
        found = measuring.batch(size, curves)
        plain = found["none"]
        for name in PROPOSERS:
            lane = found[name]
            ratios = [one / other for one, other in zip(lane.speeds, plain.speeds, strict=True)]
            speedup, low, high = interval(ratios)
            foreseen = median(one / other for one, other in zip(lane.expected, plain.expected, strict=True))
            row = BatchTimes(
                batch=size, speedup=_rounded(speedup), low=_rounded(low), high=_rounded(high),
                tokens_per_pass=_rounded(lane.tokens_per_pass), expected=_rounded(foreseen),
                plain=_rounded(median(plain.speeds)), tokens_per_second=_rounded(median(lane.speeds)),
            )  # fmt: skip
            lanes[name].append(row)
            print(
                f"{size:5} {name:14}{row.speedup:7.2f}×   {row.low:.2f} … {row.high:.2f}{row.expected:9.2f}×"
                f"{row.tokens_per_pass:6.2f}{row.tokens_per_second:10.0f}",
                flush=True,
            )
    assert models.draft is not None
    return Batches(
        format="specdec-batches", version=1, machine=models.machine, device=models.device, dtype=models.dtype,
        clock="processor" if given.cpu else "wall",
        threads=models.threads, load=round(load, 1), target=models.target.info.name, draft=models.draft.info.name,
        temperature=given.temperature, draft_length=given.gamma, tokens=given.tokens, repeats=given.repeats,
        repeated=round(measuring.repeated / measuring.tokens, 3), texts=measuring.texts,
        other_texts=measuring.other_texts, date=datetime.now(UTC).isoformat(timespec="seconds"), packages=packages(),
        lanes=tuple(BatchServed(proposer=name, batches=tuple(rows)) for name, rows in lanes.items()),
    )  # fmt: skip


def by_cpu(threads: int) -> None:
    """From now on all clocks count this thread's processor time."""
    if threads != 1:
        raise SystemExit(f"--cpu counts one thread, and these models run on {threads}.")
    modules: list[Any] = [decode, curve]
    for module in modules:
        module.time = SimpleNamespace(perf_counter=time.thread_time)


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, and write the file where one is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--family", default="tiny", help="as for load_models")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8, 16])
    parser.add_argument("--tokens", type=int, default=64, help="written to each prompt")
    parser.add_argument("--gamma", type=int, default=4, help="draft length")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--cpu", action="store_true", help="processor time, of models that run on one thread")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", type=Path, help="the file to write")
    given = parser.parse_args(argv)
    batches = measure(given)
    print(f"{batches.other_texts} of {batches.texts} greedy texts are not those of plain decoding.")
    if batches.busy:
        print(f"The machine was busy (load {batches.load:g}); measure again when it is idle.")
    if given.json is not None:
        write(batches, given.json)


if __name__ == "__main__":
    main()
