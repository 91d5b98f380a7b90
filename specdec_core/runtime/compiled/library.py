"""The compiled kernels: which build this processor runs, and its structures and functions as ctypes sees them."""

from __future__ import annotations

import ctypes
import logging
import os
import platform
import sys
from ctypes import POINTER, Structure, c_float, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path

import torch

FOLDER = Path(__file__).parent
# by system and machine: each build and the instructions it needs (names of `torch.cpu.get_capabilities`), fastest first
BUILDS: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {
    ("linux", "x86_64"): {
        "x86-64-avx512vnni": ("avx512_f", "avx512_bw", "avx512_cd", "avx512_dq", "avx512_vl", "avx512_vnni"),
        "x86-64-avx2": ("avx2", "fma3", "f16c", "bmi2"),
    },
}
# of each: the target and the processor that zig's C compiler is given
TARGETS = {
    "x86-64-avx512vnni": ("x86_64-linux-gnu.2.17", "x86_64_v4+avx512vnni"),
    "x86-64-avx2": ("x86_64-linux-gnu.2.17", "x86_64_v3"),
}

_log = logging.getLogger(__name__)


class Linear(Structure):
    """A packed linear layer, `Linear` of kernels.c."""

    _fields_ = (
        ("bits", c_int32),
        ("out", c_int32),
        ("inputs", c_int32),
        ("weights", c_void_p),
        ("scales", c_void_p),
        ("bias", c_void_p),
        ("group", c_int32),
    )


class Layer(Structure):
    """`Layer` of kernels.c."""

    _fields_ = (
        *((name, c_void_p) for name in ("before_attention", "before_mlp", "query_norm", "key_norm")),
        *((name, Linear) for name in ("attention_input", "attention_output", "gate_and_up", "down")),
    )


class PassModel(Structure):
    """`Model` of kernels.c."""

    _fields_ = (
        *((name, c_int32) for name in ("layers", "d", "heads", "shared", "width", "hidden")),
        ("eps", c_float),
        ("scaling", c_float),
        ("layer", POINTER(Layer)),
        *((name, c_void_p) for name in ("norm", "cos", "sin")),
        ("output", Linear),
    )


class Pass(Structure):
    """`Pass` of kernels.c."""

    _fields_ = (
        ("model", POINTER(PassModel)),
        *((name, c_int32) for name in ("first", "last", "n", "end", "capacity", "logits")),
        *((name, c_void_p) for name in ("input", "states", "normed", "out", "positions", "mask")),
        ("mask_stride", c_int64),
        ("kv", c_void_p),
        ("work", c_void_p),
        ("threads", c_int32),
    )


class Product(Structure):
    """`Product` of kernels.c."""

    _fields_ = (
        ("linear", POINTER(Linear)),
        ("rows", c_void_p),
        ("out", c_void_p),
        ("work", c_void_p),
        ("n", c_int32),
        ("threads", c_int32),
    )


@cache
def library() -> ctypes.CDLL | None:
    """The build for this processor, on torch's threads; None where there is none, or `SPECDEC_KERNELS` is 0."""
    if os.environ.get("SPECDEC_KERNELS") == "0":
        return None
    builds = BUILDS.get((sys.platform, platform.machine().lower()), {})
    able = torch.cpu.get_capabilities()
    name = next((name for name, needed in builds.items() if all(map(able.get, needed))), None)
    if name is None:
        return None
    try:
        return opened(FOLDER / f"{name}.so")
    except (OSError, AttributeError) as error:  # a C library or a file system that does not take it
        _log.warning("The compiled kernels cannot be opened (%s); torch's products are used.", error)
        return None


def opened(path: Path) -> ctypes.CDLL:
    """A build, on torch's threads where its OpenMP library has GNU's entry points, else on one.

    Raises:
        OSError, AttributeError: if it cannot be opened, or lacks a function.
    """
    found = ctypes.CDLL(str(path))
    found.specdec_work_floats.restype = c_int64
    found.specdec_work_floats.argtypes = (POINTER(PassModel), c_int32, c_int32, c_int32)
    found.specdec_pass.restype, found.specdec_product.restype = None, None
    found.specdec_pass.argtypes, found.specdec_product.argtypes = (POINTER(Pass),), (POINTER(Product),)
    for file in sorted((Path(torch.__file__).parent / "lib").glob("libgomp*")):
        threads = ctypes.CDLL(str(file))  # the library that torch has opened
        found.specdec_threads(
            *(ctypes.cast(one, c_void_p) for one in (threads.GOMP_parallel, threads.omp_get_num_threads))
        )
        break
    return found
