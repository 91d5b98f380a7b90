"""Drafting during the target's pass: one worker per lane, with nothing left running between rounds.

The draft guesses that its whole proposal is accepted, guesses the next token, and continues (PEARL, Liu et al. 2024,
calls it post-verify). It drafts what the next round would have drafted, with that round's random numbers, so a
guess that comes true changes the timing and not the text.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from threading import Event
from typing import Any

from specdec_core.foundations.lazy_torch import torch


class Ahead:
    """Runs small steps on another thread, on a CUDA device also on another stream, until they finish or are stopped.

    Args:
        device: where the draft computes.
        count: number of CPU threads.

    Attributes:
        asked, began, ended: when the last job was asked for, began and ended, by `time.perf_counter`.
    """

    def __init__(self, device: torch.device, count: int) -> None:
        self.device, self.count = device, count
        self.asked = self.began = self.ended = 0.0
        self._stop = Event()
        self._workers: ThreadPoolExecutor | None = None  # a thread only for lanes that overlap
        self._job: Future[None] | None = None
        self._stream: Any = None

    def begin(self, advance: Callable[[], bool]) -> None:
        """Call `advance` in the background until it returns False; returns at once.

        Until `end`, the worker owns what `advance` works on.
        """
        if self._workers is None:
            self._workers = ThreadPoolExecutor(1, "specdec-ahead")
            self._stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None
        if self._stream:  # wait for the draft's work on the caller's stream
            self._stream.wait_stream(torch.cuda.current_stream(self.device))
        self.asked = time.perf_counter()
        self._stop.clear()
        self._job = self._workers.submit(self._run, advance)

    def end(self) -> None:
        """Let the running step finish and start no other. Raises what a step raised."""
        job, self._job = self._job, None
        if job is not None:
            self._stop.set()
            job.result()

    def beside(self, seconds: float) -> float:
        """For how many of the first `seconds` since the last request the job ran."""
        return max(0.0, min(self.ended, self.asked + seconds) - self.began)

    def close(self) -> None:
        """End the job and the thread; exceptions are ignored."""
        self._stop.set()
        if self._workers is not None:
            self._workers.shutdown(wait=True, cancel_futures=True)
            self._workers = self._job = None

    def _run(self, advance: Callable[[], bool]) -> None:
        self.began = time.perf_counter()
        if torch.get_num_threads() != self.count:
            torch.set_num_threads(self.count)
        stream = self._stream
        try:
            with torch.inference_mode(), torch.cuda.stream(stream) if stream else nullcontext():
                going = True
                while going and not self._stop.is_set():
                    going = advance()
                    if stream:
                        stream.synchronize()  # a step that is only queued could not be stopped
        finally:
            self.ended = time.perf_counter()
