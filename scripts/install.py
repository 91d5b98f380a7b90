"""Install into this Python's environment what the arguments name, as `pip install` takes them: by uv, in a quarter of
pip's time, else by pip.

With BUILD=auto uv takes PyTorch from PyTorch's own index, in the build that suits the machine: on Linux without an
NVIDIA card that is the CPU build, where the default one brings gigabytes of CUDA. uv takes the places that pip's
settings name, which it does not read itself.
"""

from __future__ import annotations

import ast
import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

UV = "uv==0.13.9"
OWN = Path(sys.prefix) / ".uv"
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


def places() -> list[str] | None:
    """uv's options for the places where pip looks; None where pip may look nowhere but at what the arguments name."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    settings: dict[str, str] = {}
    for line in listed.stdout.splitlines():  # the environment's first, which counts before the files'
        name, _, value = line.partition("=")
        settings.setdefault(name.rpartition(".")[2], str(ast.literal_eval(value)))
    if listed.returncode or "no-index" in settings:
        return None
    kinds = ("index-url", "extra-index-url", "find-links")
    return [
        word for kind in kinds for place in settings.get(kind, "").split() for word in (f"--{kind}", place)
    ]


def uv() -> str | None:
    """The program: the machine's, or one beside the environment's packages; None where it cannot be had."""
    own = OWN / "bin" / "uv"
    found = shutil.which("uv") or (str(own) if own.is_file() else None)
    if found is None:
        fetched = subprocess.run(
            [*PIP, "install", "--target", str(OWN), UV], capture_output=True, check=False
        )
        found = str(own) if fetched.returncode == 0 and own.is_file() else None
    return found


def main(arguments: list[str]) -> int:
    """The exit status of what installed, or of pip, which says why it could not."""
    known = places()
    program = uv() if known is not None else None
    if program is not None:
        options = [
            "--quiet",
            "--index-strategy",
            "unsafe-best-match",
            "--python",
            sys.executable,
            *(known or ()),
        ]
        if os.environ.get("BUILD") == "auto" and platform.system() == "Linux":
            command = [program, "pip", "install", *options, "--torch-backend", "auto", *arguments]
            if _run(command, UV_HTTP_RETRIES="1"):
                return 0
            if not _has_torch():
                print(
                    "PyTorch's own index cannot be used here, so the build is the one that pip's index has: of the "
                    "default index, on Linux with an x86-64 processor, the CUDA build (5 GB installed instead of 1.4).",
                    flush=True,
                )
        if _run([program, "pip", "install", *options, *arguments]):
            return 0
    return subprocess.run([*PIP, "install", *arguments], check=False).returncode


def _run(command: list[str], **environment: str) -> bool:
    result = subprocess.run(command, env=os.environ | environment, capture_output=True, check=False)
    return result.returncode == 0


def _has_torch() -> bool:
    try:
        return bool(version("torch"))
    except PackageNotFoundError:
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
