"""Build the compiled kernels, `specdec_core/runtime/compiled/*.so`, with the C compiler of the package ziglang: the
same bytes on every machine. `python -m scripts.kernels [FOLDER]`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from specdec_core.runtime.compiled.library import FOLDER, TARGETS

# no fused sums but those that are written, so that every processor rounds alike; nothing of this machine in the file
FLAGS = (
    *("-O3", "-std=c11", "-ffp-contract=off", "-fno-math-errno", "-Wall", "-Wextra", "-Werror"),
    *("-shared", "-fPIC", "-s", "-g0", "-fvisibility=hidden", "-Wl,--build-id=none"),
)


def build(folder: Path = FOLDER) -> list[Path]:
    """Build all into `folder`; their paths.

    Raises:
        subprocess.CalledProcessError: if ziglang is missing or the source does not compile.
    """
    made = []
    for name, (target, processor) in TARGETS.items():
        made.append(folder / f"{name}.so")
        command = [sys.executable, "-m", "ziglang", "cc", "-target", target, f"-mcpu={processor}", *FLAGS]
        # by a relative name: a path would be a part of the file
        subprocess.run([*command, "-o", str(made[-1].resolve()), "kernels.c"], cwd=FOLDER, check=True)
    return made


if __name__ == "__main__":
    for path in build(*(Path(argument) for argument in sys.argv[1:])):
        print(f"{path}: {path.stat().st_size:,} bytes")
