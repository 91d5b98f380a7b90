"""Build the compiled kernels with the C compiler of the package ziglang, the same bytes on every machine: those of the
decoder, `specdec_core/runtime/compiled/*.so`, and the live page's, `app/live/engine/*.wasm`.
`python -m scripts.kernels [FOLDER]`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from specdec_core.runtime.compiled.library import FOLDER, TARGETS

# no fused sums but those that are written, so that every processor rounds alike; nothing of this machine in the file
COMMON = (
    "-O3",
    "-std=c11",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-s",
    "-g0",
)
FLAGS = ("-shared", "-fPIC", "-fvisibility=hidden", "-Wl,--build-id=none")
LIVE = Path(__file__).resolve().parent.parent / "app" / "live" / "engine"
LIVE_TARGETS = {"plain": "generic+simd128", "relaxed": "generic+simd128+relaxed_simd"}


def build(folder: Path = FOLDER) -> list[Path]:
    """Build the decoder's into `folder`; their paths.

    Raises:
        subprocess.CalledProcessError: if ziglang is missing or the source does not compile.
    """
    return [
        _built(FOLDER, folder / f"{name}.so", target, processor, FLAGS)
        for name, (target, processor) in TARGETS.items()
    ]


def build_live(folder: Path = LIVE) -> list[Path]:
    """Build the live page's into `folder`; returns and raises as `build`."""
    return [
        _built(
            LIVE, folder / f"{name}.wasm", "wasm32-freestanding", processor, ("-nostdlib", "-Wl,--no-entry")
        )
        for name, processor in LIVE_TARGETS.items()
    ]


def _built(source: Path, made: Path, target: str, processor: str, flags: tuple[str, ...]) -> Path:
    command = [
        sys.executable,
        "-m",
        "ziglang",
        "cc",
        "-target",
        target,
        f"-mcpu={processor}",
        *COMMON,
        *flags,
    ]
    # by a relative name: a path would be a part of the file
    subprocess.run([*command, "-o", str(made.resolve()), "kernels.c"], cwd=source, check=True)
    return made


if __name__ == "__main__":
    folders = [Path(argument) for argument in sys.argv[1:]]
    for path in [*build(*folders), *build_live(*folders)]:
        print(f"{path}: {path.stat().st_size:,} bytes")
