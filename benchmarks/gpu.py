"""`python -m benchmarks.gpu --out FOLDER`: on this GPU, how near is decoding to the rate at which memory can be read,
how much of that is owed to CUDA graphs, and does speculative decoding gain what the width-aware formula says?

The weights are random: only times and rates of acceptance are measured, no text means anything. How well the draft
guesses is chosen instead: it is the target's own first layers, and the layers above them are scaled down until the two
distributions overlap as much as is wanted. `FOLDER/speed.json` is written again after each part, so that a run that is
cut off keeps what was done; a part that fails leaves its error there and does not disturb the others.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import torch
import torch.nn.functional as F
import typer
from torch import Tensor
from transformers.utils import logging

import specdec_core as sd
from specdec_core.runtime.machine import choose_device, choose_dtype, describe, packages
from specdec_core.runtime.timing.width_curve import WIDTHS, width_curve
from specdec_measure.machines.model_sizes import SHAPES, Shape, shape

from .drafts.chosen_draft import LEAST, MOST, PASSES, PROMPT, Bench, load, speculative
from .parts import Found, Report, told

GRAPHS, GRAPHS_OFF, EAGER = "ours, graphs", "ours, graphs, no record", "ours, kernel by kernel, no record"
GENERATE, STATIC = "generate", "generate, static cache, compiled"
TINY = Shape("tiny", "for a test", 4, 64, 4, 2, 16, 128, 512, False)
# of the whole time
SHARES = {"machine": 0.06, "model": 0.2, "plain": 0.3, "widths": 0.08, "speculative": 0.2, "static": 0.16}

Write = Callable[[int], list[int]]  # from a number of tokens to as many


def synchronise(device: torch.device) -> None:
    """Wait until the device has finished."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(call: Callable[[], object], device: torch.device, repeats: int = 20) -> float:
    """Median seconds of a call after an untimed one, on a GPU by its own clock."""
    seconds: list[float] = []
    for _ in range(repeats + 1):
        if device.type == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            end.synchronize()
            seconds.append(start.elapsed_time(end) / 1e3)
        else:
            began = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - began)
    return median(seconds[1:])


def driver() -> str:
    """The GPU driver's version, "unknown" where nothing tells it."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return next(iter(answer.stdout.split()), "unknown")


@torch.inference_mode()
def machine(found: Found, device: torch.device) -> None:
    """Names, versions and date; bytes per second of copying (read and written), of adding up, and of multiplying a row
    with a matrix, as decoding does."""
    found |= {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe(device),
        "driver": driver(),
        "cuda": torch.version.cuda or "none",
        "packages": {**packages(), "torch": str(torch.__version__)},
    }
    rows, columns = (131_072, 8_192) if device.type == "cuda" else (1_024, 1_024)
    matrix = torch.empty(rows, columns, dtype=torch.bfloat16, device=device).normal_()
    other, row = torch.empty_like(matrix), matrix[:1].clone()
    found["buffer_bytes"] = matrix.nbytes
    found["copy_bytes_per_s"] = 2 * matrix.nbytes / timed(lambda: other.copy_(matrix), device)
    found["sum_bytes_per_s"] = matrix.nbytes / timed(lambda: matrix.sum(dtype=torch.float32), device)
    found["product_bytes_per_s"] = matrix.nbytes / timed(lambda: F.linear(row, matrix), device)


def ours(models: sd.Models, prompt: list[int], record: str) -> Write:
    """Plain decoding, greedy."""

    def write(length: int) -> list[int]:
        settings = sd.Settings(proposer="none", max_new_tokens=length, record=record)
        return sd.decode(models, prompt, settings).token_ids

    return write


def theirs(bench: Bench, **options: Any) -> Write:
    """transformers' own `generate`, greedy."""
    ids, model = bench.ids, bench.model

    def write(length: int) -> list[int]:
        # transformers types a causal model without its GenerationMixin
        output: Tensor = model.generate(  # type: ignore[operator]
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=length,
            min_new_tokens=length,
            do_sample=False,
            pad_token_id=0,
            **options,
        )
        new: list[int] = output[0, ids.shape[1] :].tolist()
        return new

    return write


def in_turn(
    ways: dict[str, Write], bench: Bench, found: Found, until: float, new: int, rate: float | None
) -> None:
    """Time whole calls A B … A B …; the time of a call for a single token is taken off, so that what is left is that of
    the other tokens' passes.

    A whole call of each comes before and is not counted: the first of a length takes up to three times as long.

    Args:
        rate: bytes per second that the device copies.
    """
    firsts = _first_calls(ways, bench, found, new)
    texts: dict[str, list[int]] = {}
    times: dict[str, dict[int, list[float]]] = {name: {1: [], new: []} for name in firsts}
    for turn in range(MOST):
        if turn >= LEAST and time.perf_counter() > until:
            break
        for name, by_length in times.items():
            for length, seconds in by_length.items():
                taken, texts[name] = seconds_of(ways[name], length, bench.device)
                seconds.append(taken)
        found["turns"] = turn + 1
        for name, by_length in times.items():
            whole = median(by_length[new])
            per_token = (whole - median(by_length[1])) / (new - 1)
            speed = bench.read / per_token if per_token > 0 else None  # noise, where it is not
            found[name] = {
                "tokens_per_s": new / whole,
                "s_per_token": per_token,
                "bytes_per_s": speed,
                "share_of_copying": speed / rate if speed and rate else None,
                "calls_s": by_length[new],
                "one_token_s": by_length[1],
                "first_call_s": firsts[name],
                "tokens_as_first": _common(texts[name], next(iter(texts.values()))),
            }


def _first_calls(ways: dict[str, Write], bench: Bench, found: Found, length: int) -> dict[str, float]:
    """Seconds of one call of each way; one that fails has its error in `found` and is left out."""
    firsts = {}
    for name, write in ways.items():
        try:
            firsts[name] = seconds_of(write, length, bench.device)[0]
        except Exception as error:  # of any kind: the other ways are to be measured all the same
            found[name] = {"error": told(error)}
    return firsts


def seconds_of(write: Write, length: int, device: torch.device) -> tuple[float, list[int]]:
    """Seconds of a whole call, and its tokens."""
    synchronise(device)
    began = time.perf_counter()
    tokens = write(length)
    synchronise(device)
    if len(tokens) != length:
        raise RuntimeError(f"{length} tokens were wanted and {len(tokens)} written.")
    return time.perf_counter() - began, tokens


def _common(one: list[int], other: list[int]) -> int:
    """How many tokens are the same before the first that is not: 16 bits let nearly equal tokens change places."""
    pairs = enumerate(zip(one, other, strict=True))
    return next((place for place, (a, b) in pairs if a != b), len(one))


def widths(bench: Bench, found: Found, until: float) -> None:
    """T(n), and the time of a draft pass, with graphs and without."""
    share = (until - time.perf_counter()) / 2
    for name, models in ((GRAPHS, bench.models), (EAGER, bench.eager)):
        curve = width_curve(models, WIDTHS, prefix=PROMPT, repeats=PASSES, budget_s=share)
        found[name] = {"prefix": curve.prefix, "target_s": curve.table, "draft_s": curve.draft_s}


def main(
    out: Annotated[Path, typer.Option(help="Folder for speed.json.")],
    size: Annotated[str, typer.Option("--shape", help=f"{', '.join(SHAPES)}; tiny for a test.")] = "8B",
    budget: Annotated[float, typer.Option(min=1.0, help="Seconds for all parts.")] = 100.0,
    dtype: Annotated[str, typer.Option(help="bfloat16, float16 or float32.")] = "bfloat16",
    new: Annotated[int, typer.Option(min=8, max=512, help="New tokens per call.")] = 128,
) -> None:
    """Measure decoding on the CUDA device, or on the CPU where there is none, to test this."""
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    one, device = TINY if size == TINY.name else shape(size), choose_device("auto")
    kind, report = choose_dtype(dtype, device), Report(out, budget, SHARES)
    report.part("machine", lambda found, until: machine(found, device))
    bench = report.part("model", lambda found, until: load(found, one, device, kind))
    if bench is None:
        raise typer.Exit(1)
    rate = report.content["machine"].get("copy_bytes_per_s")
    off = ours(bench.models, bench.prompt, "off")
    ways = {GRAPHS: ours(bench.models, bench.prompt, "full"), GENERATE: theirs(bench)}
    ways |= {GRAPHS_OFF: off, EAGER: ours(bench.eager, bench.prompt, "off")}
    report.part("plain", lambda found, until: in_turn(ways, bench, found, until, new, rate))
    report.part("widths", lambda found, until: widths(bench, found, until))
    report.part("speculative", lambda found, until: speculative(bench, found, until, new))
    # last, as compiling may take long
    ways = {GRAPHS_OFF: off, STATIC: theirs(bench, cache_implementation="static")}
    report.part("static", lambda found, until: in_turn(ways, bench, found, until, new, rate))
    typer.echo(f"Written: {report.path}")


if __name__ == "__main__":
    typer.run(main)
