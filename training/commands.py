"""Which commands were run, for the model card."""

from __future__ import annotations

import sys
from pathlib import Path

from training.options import RUNS


def recorded_commands(runs: Path) -> list[str]:
    """The training commands that were run, in order, each once, as noted by `remember_command`."""
    path = runs / "commands.log"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return list(dict.fromkeys(lines))


def remember_command(runs: Path) -> None:
    """Note the command that has just succeeded for the model card; without the corpus folder's path."""
    arguments = sys.argv[1:]
    if not arguments or runs != RUNS:
        return
    pairs = zip(["", *arguments[:-1]], arguments, strict=True)
    kept = ["training/corpus" if before == "--corpus" else word for before, word in pairs]
    with (runs / "commands.log").open("a", encoding="utf-8") as file:
        file.write("python -m training " + " ".join(kept) + "\n")
