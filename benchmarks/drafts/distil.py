"""What a minute of distilling gains in the course's lesson on training a draft.

    python -m benchmarks.drafts.distil                                  a minute of stories, on two threads
    python -m benchmarks.drafts.distil --kind code --seconds 30
    python -m benchmarks.drafts.distil --seconds 3                      whether it works at all

A draft of the shape of the bundled one starts from random weights, learns from text that the target writes, and then
races itself before training on prompts held back, as on the page: same code, same budget. The figure is the gain in
tokens per pass with its 95% interval; the bar is +0.4 on its lower end. A machine that does other work trains less.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch

import specdec_core as sd
from specdec_lessons.distilled import Distilled
from specdec_lessons.distilling import OPENINGS, LiveTraining

BAR = 0.4


def main(argv: Sequence[str] | None = None) -> None:
    """Train, race, and print what was gained."""
    given = _arguments(argv)
    torch.set_num_threads(given.threads)
    training = LiveTraining(sd.load_models(), given.kind, given.seconds, lambda: False)
    for report in training.run():
        if isinstance(report, Distilled):
            print(f"\n{said(report)}")
        elif report.score is not None:
            print(
                f"\r{report.seconds:5.0f} s  {report.score.tokens_per_pass:.2f} tokens per pass",
                end="",
                flush=True,
            )


def said(found: Distilled) -> str:
    """The gain, its interval, and whether it reaches the bar."""
    gain, low, high = found.gain
    reached = "reached" if low >= BAR else "not reached"
    return (
        f"Gained {gain:+.2f} tokens per pass (95% interval {low:+.2f} to {high:+.2f}, {len(found.heats)} prompts "
        f"held back) from {found.tokens:,} tokens in {found.steps} steps; speedup over plain decoding "
        f"{found.speedup('before'):.2f}× before, {found.speedup('after'):.2f}× after. The bar of {BAR:+} is {reached}."
    )


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.drafts.distil", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--kind", choices=sorted(OPENINGS), default="story")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="for writing and training; the race comes on top"
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    return parser.parse_args(argv)


if __name__ == "__main__":
    main()
