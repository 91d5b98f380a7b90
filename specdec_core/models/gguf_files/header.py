"""The header of a GGUF file: its metadata and the table of its tensors, and the unpacking of one tensor.

A model may be split into several files (`…-00001-of-00003.gguf`): the first has the metadata, and each has a part of
the tensors. They are read as one.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from specdec_core.foundations.errors import ModelError

MAGIC = b"GGUF"
SUFFIX = ".gguf"
VERSIONS = (2, 3)
LARGEST_BYTES = 16_000_000_000
MAX_TENSORS = 100_000
MAX_DIMENSIONS = 4
PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<suffix>\.gguf)", re.IGNORECASE)
_FIXED = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class Stored:
    """One tensor of a file: `shape` is torch's order, `start` and `bytes` say where it is in `path`."""

    path: Path
    name: str
    shape: tuple[int, ...]
    format: int  # ggml's number of the number format
    start: int
    bytes: int

    @property
    def count(self) -> int:
        """How many numbers it has."""
        return int(np.prod(self.shape, dtype=object))


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a model's file, or its files together, say before the weights.

    `facts` are the metadata; an array of strings is given as its length.
    """

    path: Path
    facts: Mapping[str, Any]
    tensors: tuple[Stored, ...]

    @property
    def architecture(self) -> str:
        """`general.architecture`, in which the names of other entries begin; empty where there is none."""
        found = self.facts.get("general.architecture")
        return found if isinstance(found, str) else ""

    @property
    def names(self) -> frozenset[str]:
        """The names of the tensors."""
        return frozenset(stored.name for stored in self.tensors)


def parts(path: Path) -> list[Path]:
    """The files of a model in their order: the file itself, or all parts if its name says that it is one of several."""
    found = PART.fullmatch(path.name)
    if found is None:
        return [path]
    stem, count, suffix = found["stem"], found["count"], found["suffix"]
    return [path.with_name(f"{stem}-{at:05}-of-{count}{suffix}") for at in range(1, int(count) + 1)]


def read(path: Path) -> GgufHeader:
    """The header of a whole GGUF model: of all its files where it is split.

    Raises:
        ModelError: one sentence, if a file is missing, too large, cut off or damaged, or has a tensor in a number
            format that is not unpacked.
    """
    files = parts(path)
    size = sum(_size(file) for file in files)
    if size > LARGEST_BYTES:
        raise ModelError(
            f"'{path.name}' has {size / 1e9:,.1f} GB, and GGUF models of up to {LARGEST_BYTES / 1e9:,.0f} GB are "
            "converted. Choose a smaller model."
        )
    headers = [_one(file) for file in files]
    count = headers[0].facts.get("split.count", 0)
    if isinstance(count, int) and count > 1 and count != len(files):
        raise ModelError(
            f"'{path.name}' is one part of a model that was split into {count}, and its name does not say where the "
            f"others are (…-00001-of-{count:05}.gguf). Give it the name it was published with, or join the parts."
        )
    return GgufHeader(files[0], headers[0].facts, tuple(stored for one in headers for stored in one.tensors))


def unpack(stored: Stored) -> np.ndarray:
    """The numbers of a tensor, float32, in its shape."""
    import gguf

    blob = np.memmap(stored.path, mode="r", dtype=np.uint8)[stored.start : stored.start + stored.bytes]
    rows = blob.reshape(*stored.shape[:-1], -1)
    found = gguf.dequantize(rows, gguf.GGMLQuantizationType(stored.format)).reshape(stored.shape)
    return np.asarray(found, dtype=np.float32)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError as error:
        raise ModelError(f"'{file.name}' cannot be read: {error.strerror or 'unknown reason'}.") from error


def _one(path: Path) -> GgufHeader:
    """The header of one file."""
    name = path.name
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise ModelError(
                    f"'{name}' is not a GGUF file: it does not begin with the letters GGUF. Fetch it again, or choose "
                    "another."
                )
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return _Reader(path, content).header()
    except ModelError:
        raise
    except OSError as error:
        raise ModelError(f"'{name}' cannot be read: {error.strerror or 'unknown reason'}.") from error
    except (struct.error, UnicodeDecodeError, ValueError, OverflowError, MemoryError) as error:
        raise ModelError(
            f"'{name}' is cut off or damaged: its header cannot be read. Fetch it again."
        ) from error


class _Reader:
    """Reads one file's header from its beginning."""

    def __init__(self, path: Path, content: mmap.mmap) -> None:
        self.path, self.content, self.at = path, content, len(MAGIC)

    def header(self) -> GgufHeader:
        edition, tensors, entries = self.take("IQQ")
        if edition not in VERSIONS:
            raise ModelError(
                f"'{self.path.name}' is of version {edition} of the GGUF format (its bytes read as little-endian), and "
                f"versions {' and '.join(map(str, VERSIONS))} are read. Choose a newer file."
            )
        if tensors > MAX_TENSORS or entries > MAX_TENSORS:
            raise ValueError("too many")
        facts = {}
        for _ in range(entries):
            key = self.text()
            facts[key] = self.value(self.take("I")[0])
        table = [self.tensor() for _ in range(tensors)]
        alignment = facts.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise ValueError("alignment")
        start = -(-self.at // alignment) * alignment
        found = tuple(
            Stored(self.path, name, shape, kind, start + offset, _bytes(self.path.name, name, shape, kind))
            for name, shape, kind, offset in table
        )
        self.whole(found)
        return GgufHeader(self.path, facts, found)

    def whole(self, found: Collection[Stored]) -> None:
        """Refuse a file that ends before its last tensor, or whose tensors overlap: a small file could expand without
        bound."""
        end = max((stored.start + stored.bytes for stored in found), default=0)
        needed = max(end, sum(stored.bytes for stored in found))
        if needed > len(self.content):
            raise ModelError(
                f"'{self.path.name}' is cut off: it should have {needed / 1e6:,.1f} MB and has "
                f"{len(self.content) / 1e6:,.1f} MB. Fetch it again."
            )

    def take(self, layout: str) -> tuple[Any, ...]:
        found = struct.unpack_from("<" + layout, self.content, self.at)
        self.at += struct.calcsize("<" + layout)
        return found

    def text(self) -> str:
        (length,) = self.take("Q")
        start, self.at = self.at, self.at + length
        if self.at > len(self.content):
            raise ValueError("a text beyond the end")
        return self.content[start : self.at].decode("utf-8")

    def value(self, kind: int) -> Any:
        """One value; an array of texts as its length."""
        if kind in _FIXED:
            return self.take(_FIXED[kind])[0]
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            raise ValueError(f"value of type {kind}")
        element, count = self.take("IQ")
        if element in _FIXED:
            return list(self.take(f"{count}{_FIXED[element]}"))
        if element != _STRING or 8 * count > len(self.content):
            raise ValueError(f"array of type {element}")
        length, content, at = struct.Struct("<Q").unpack_from, self.content, self.at
        for _ in range(count):
            at += 8 + length(content, at)[0]
        self.at = at
        return count

    def tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name, (dimensions,) = self.text(), self.take("I")
        if not 0 < dimensions <= MAX_DIMENSIONS:
            raise ValueError(f"{dimensions} dimensions")
        shape = self.take(f"{dimensions}Q")
        kind, offset = self.take("IQ")
        return name, tuple(reversed(shape)), kind, offset


def _bytes(file: str, tensor: str, shape: tuple[int, ...], kind: int) -> int:
    """The bytes a tensor takes in its file."""
    import gguf

    known = kind in set(gguf.GGMLQuantizationType)
    if not known or not _unpacks(kind):
        title = gguf.GGMLQuantizationType(kind).name if known else f"with the number {kind}"
        raise ModelError(
            f"'{file}' has weights ('{tensor[:60]}') in the number format {title}, which gguf {version('gguf')} does "
            "not unpack. Choose a file in another format, such as Q8_0."
        )
    block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(kind)]
    if shape[-1] % block:
        raise ValueError("a row that is no multiple of its block")
    return int(np.prod(shape, dtype=object)) // block * size


@cache
def _unpacks(kind: int) -> bool:
    """Whether the package `gguf` turns a number format into float32."""
    import gguf

    form = gguf.GGMLQuantizationType(kind)
    try:
        gguf.dequantize(np.zeros((1, gguf.GGML_QUANT_SIZES[form][1]), dtype=np.uint8), form)
    except NotImplementedError:
        return False
    return True
