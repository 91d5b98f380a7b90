"""The pieces that decide whether drafting pays: what a pass over n tokens costs, a draft step, loading, stopping."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
import time
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F

import specdec_core as sd
from specdec_core.runtime.machine import threads
from specdec_core.runtime.timing import width_curve as hardware

from .subjects import Prompt, Subjects

ROOT = Path(__file__).resolve().parent.parent


def width_curve(subjects: Subjects, repeats: int) -> tuple[dict[int, float], float]:
    """Seconds of a target pass over n tokens, and of one draft step; medians over that many repeats."""
    curve = hardware.width_curve(subjects.models, repeats=repeats, budget_s=math.inf)
    assert curve.draft_s is not None
    return curve.table, curve.draft_s


def streaming(subjects: Subjects, repeats: int) -> float:
    """Seconds of multiplying one row with every matrix of the target once, by the fastest of torch's plain products.

    No decoder in torch can be faster: each pass reads all weights.
    """
    named = subjects.target.named_parameters()  # a tied output matrix is among them once, as the embedding
    tied = subjects.target.config.tie_word_embeddings
    weights = [one.detach() for name, one in named if one.dim() == 2 and (tied or "embed_tokens" not in name)]
    rows = [torch.ones(1, weight.shape[1]) for weight in weights]
    columns = [weight.t().contiguous() for weight in weights]
    best = math.inf
    with torch.inference_mode(), threads(subjects.models.threads):
        for product, matrices in ((F.linear, weights), (torch.mm, columns)):
            seconds = []
            for _ in range(repeats + 1):
                began = time.perf_counter()
                for row, matrix in zip(rows, matrices, strict=True):
                    product(row, matrix)
                seconds.append(time.perf_counter() - began)
            best = min(best, median(seconds[1:]))
    return best


def loading(repeats: int) -> dict[str, float]:
    """Seconds: `load_models` again in this process, and in a fresh one from its start to the first token."""
    again = []
    for _ in range(repeats):
        began = time.perf_counter()
        sd.load_models(device="cpu")
        again.append(time.perf_counter() - began)
    script = (
        "import specdec_core as sd; models = sd.load_models(device='cpu'); "
        "sd.decode(models, 'Once', sd.Settings(max_new_tokens=1)); print('decoded', flush=True)"
    )
    fresh = []
    for _ in range(repeats):
        began = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError("The fresh process ended before its first token.")
            fresh.append(time.perf_counter() - began)  # not its end: torch takes a second to leave
    return {"load again": median(again), "fresh process to first token": median(fresh)}


def stopping(subjects: Subjects, prompt: Prompt, repeats: int) -> dict[str, float]:
    """Seconds from requesting a stop until the trace is there, and seconds of one round."""
    waits, rounds = [], []
    settings = sd.Settings(max_new_tokens=400)
    for turn in range(repeats):
        stop, running, ended = threading.Event(), threading.Event(), threading.Event()
        traces: list[sd.Trace] = []

        def work(stop=stop, running=running, ended=ended, traces=traces) -> None:  # type: ignore[no-untyped-def]
            for event in sd.stream(subjects.models, prompt.ids, settings, cancelled=stop.is_set):
                if isinstance(event, sd.Step):
                    running.set()
                elif isinstance(event, sd.Ended):
                    ended.set()
                elif isinstance(event, sd.Finished):
                    traces.append(event.trace)

        threading.Thread(target=work, daemon=True).start()
        running.wait()
        time.sleep(0.02 + 0.005 * turn)  # falls into different phases of a round
        began = time.perf_counter()
        stop.set()
        ended.wait()
        waits.append(time.perf_counter() - began)
        while not traces:
            time.sleep(0.001)
        rounds += [row.end_s - row.start_s for row in traces[0].rounds]
    return {"stop to end": median(waits), "longest stop": max(waits), "one round": median(rounds)}
