"""What the numbers were measured on: devices, dtypes, versions, memory."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from specdec_core.foundations.errors import ModelError
from specdec_core.foundations.lazy_torch import torch

DTYPES = ("float32", "bfloat16", "float16")
EIGHT = "8-bit"
WEIGHTS = ("auto", "16-bit", EIGHT)


def choose_device(device: str | torch.device) -> torch.device:
    """`auto` is cuda, mps, or cpu, whichever is available first; anything else is used as given.

    Raises:
        ModelError: if the device is unknown or absent.
    """
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        chosen = None
    present = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if chosen is None or chosen.type not in present:
        raise ModelError(f"There is no device '{device}'; expected auto, cpu, cuda or mps.")
    if not present[chosen.type]:
        raise ModelError(f"This machine has no '{chosen.type}' device; choose cpu, or auto.")
    return chosen


def choose_dtype(dtype: str | torch.dtype, device: torch.device) -> torch.dtype:
    """`auto` is bfloat16 on cuda and float32 elsewhere; 8-bit weights are computed in float32.

    Raises:
        ModelError: if there is none of that name.
    """
    dtype = str(dtype).removeprefix("torch.")
    if dtype == EIGHT:
        return torch.float32
    if dtype == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    if dtype not in DTYPES:
        raise ModelError(f"There is no dtype '{dtype}'; expected auto, {', '.join((*DTYPES, EIGHT))}.")
    chosen: torch.dtype = getattr(torch, dtype)
    return chosen


def choose_bits(weights: str, device: torch.device, dtype: torch.dtype, usual: int = 16) -> int:
    """The bits of a weight; `auto` is `usual` where this machine can compute with it.

    Raises:
        ModelError: if there are no such weights, or this machine cannot compute with them.
    """
    if weights not in WEIGHTS:
        raise ModelError(f"There are no weights '{weights}'; expected {', '.join(WEIGHTS)}.")
    if weights == "16-bit" or (weights == "auto" and usual == 16):
        return 16
    from .compiled.library import library

    if device.type == "cpu" and dtype == torch.float32 and library() is not None:
        return 8
    if weights == EIGHT:
        raise ModelError(
            "8-bit weights are computed in float32 on a CPU with AVX2, under Linux; this is "
            f"{str(dtype).removeprefix('torch.')} on {describe(device)}. Choose 16-bit weights."
        )
    return 16


def describe(device: torch.device) -> str:
    """The machine in words, e.g. 'AMD EPYC, 2 cores'."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"{_processor()}, {os.cpu_count()} cores"


def available_bytes(device: torch.device) -> int:
    """Memory that is free for weights on `device`, in bytes."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    import psutil

    return int(psutil.virtual_memory().available)


SMALL_MODEL = 50_000_000  # parameters below which a pass is too short to be split between CPU threads


@cache
def _all_threads() -> int:
    """CPU threads that torch uses by itself; read before any run changes the number, as a new thread would see that."""
    return torch.get_num_threads()


def fitting_threads(device: torch.device, parameters: int) -> int:
    """The best number of CPU threads for a model of that size; one for a small model."""
    most = _all_threads()
    return 1 if device.type == "cpu" and parameters < SMALL_MODEL else most


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Compute on `count` CPU threads, and restore torch's setting."""
    _all_threads()
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def packages() -> dict[str, str]:
    """Versions of the packages that computed a trace."""
    found = {"python": platform.python_version()}
    for name in ("torch", "transformers"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # vendored without metadata
            found[name] = "unknown"
    from specdec_core.foundations.paths import __version__

    return {"specdec_core": __version__, **found}


@cache
def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
