"""`python -m benchmarks.published [MAKER …]`: the fixtures of `tests/core/published` made anew by the makers' packages.

Each maker runs in a virtual environment of its own below `benchmarks/results`, with the releases that it names.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from . import common

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ROOT / "benchmarks" / "results" / "published"
OUT = ROOT / "tests" / "core" / "published"
MAKERS = (
    "block_heads", "speculators_heads", "speculators_mtp", "specforge_heads", "transformers_mtp", "repositories",
    "vllm_layouts", "vllm_mtp", "others",
)  # fmt: skip
UNWANTED = ("torchvision", "torchaudio", "torchcodec")
"""What some of these packages bring and none of them needs here; builds of another index do not load."""


def python_of(maker: str) -> str:
    """A Python with the maker's packages, installed if they are not there."""
    packages = ("torch==2.13.0", *import_module(f"benchmarks.published.{maker}").PACKAGES)
    folder = ROOMS / maker
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        for package in packages:
            subprocess.run([python, "-m", "pip", "install", "-q", *package.split()], check=True)
        subprocess.run([python, "-m", "pip", "uninstall", "-q", "-y", *UNWANTED], check=True)
        (folder / "ready").touch()
    return str(python)


def main(makers: Annotated[list[str] | None, typer.Argument(help="All by default.")] = None) -> None:
    """Make the fixtures."""
    here = "from pathlib import Path; from benchmarks.published import common, {0}; "
    here += "out = Path({1!r}); {0}.make(out, common.target(out / 'target'))"
    for maker in makers or MAKERS:
        if maker == "repositories" and "SPECDEC_CHECKOUTS" not in os.environ:
            print("repositories: skipped, SPECDEC_CHECKOUTS names no folder.", file=sys.stderr)
            continue
        code = here.format(maker, str(OUT))
        subprocess.run([python_of(maker), "-c", code], check=True, cwd=ROOT, env=os.environ | common.QUIET)


if __name__ == "__main__":
    typer.run(main)
