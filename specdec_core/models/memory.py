"""What models need of the memory, known before their weights are read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from specdec_core.foundations.errors import ModelError
from specdec_core.foundations.lazy_torch import torch
from specdec_core.runtime.machine import available_bytes

from . import catalogue
from .files import sources, weight_files
from .files.hub import auto, check_config, check_name, check_present, read_config
from .files.load_errors import sentences, short
from .files.quantised import WIDENED, check_quantised, method
from .gguf_files import convert as gguf
from .gguf_files import header as gguf_header

IGNORE = "SPECDEC_IGNORE_MEMORY"
ROOM = 1.1  # weights and what computing with them takes, as a multiple of their size


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """What a model takes before it is loaded: its parameters, and bytes of memory for its weights."""

    name: str
    parameters: int
    bytes: int


def need(source: str, device: torch.device, dtype: torch.dtype) -> MemoryNeed:
    """What the model of a folder or hub id needs, from its configuration alone: parameters are counted without
    allocating them. Weights that stay quantised take as much as their files, where these are here.

    Raises:
        ModelError: if it has no readable configuration, or one of a model that is refused.
    """
    config, name = read_config(source), short(source)
    with sentences(source):
        check_config(config, name)
        check_quantised(config, name)
        with torch.device("meta"):
            count = auto(config).from_config(config, trust_remote_code=False).num_parameters()
    packed = method(config) not in (None, *WIDENED)
    here = weight_files.of_folder(Path(source)) if packed and Path(source).is_dir() else []
    files = sum(file.stat().st_size for file in here)
    return MemoryNeed(name, count, int((files or count * dtype.itemsize) * ROOM))


def ahead(name: str, draft: str | None, device: torch.device, dtype: torch.dtype) -> tuple[str, bool]:
    """What a target and its draft need together and what is free, as a sentence, and whether that fits; before any
    weights are downloaded. Of a catalogue entry this is known without a network.

    Raises:
        ModelError: if a model has no readable configuration, or one of a model that is refused.
    """
    needs = _parts(name, device, dtype)
    if draft is not None:  # in place of the entry's own
        needs = [*needs[:1], *_parts(draft, device, dtype)[:1]]
    return said(needs, device)


def _parts(name: str, device: torch.device, dtype: torch.dtype) -> list[MemoryNeed]:
    entry = catalogue.find(name)
    return _listed(entry, dtype) if entry is not None else [_ahead(name, device, dtype)]


def _listed(entry: catalogue.CatalogueEntry, dtype: torch.dtype) -> list[MemoryNeed]:
    """What the catalogue says of an entry's target and draft."""
    parts = [(entry.target, entry.parameters)]
    if entry.draft is not None:
        parts.append((entry.draft, entry.draft_parameters))
    return [
        MemoryNeed(short(name), int(size * 1e6), int(size * 1e6 * dtype.itemsize * ROOM))
        for name, size in parts
    ]


def _ahead(name: str, device: torch.device, dtype: torch.dtype) -> MemoryNeed:
    check_name(name)
    path = Path(sources.resolve(name))
    bare = path.is_dir() and not (path / "config.json").is_file()
    if bare and gguf.find(path) is None:
        raise ModelError(
            f"The folder '{short(name)}' holds no model: neither a config.json nor a GGUF file. Choose another folder."
        )
    if bare:
        raise ModelError(
            f"The folder '{short(name)}' holds a GGUF file: what it needs is known once it is converted."
        )
    if name.lower().endswith(gguf_header.SUFFIX):
        raise ModelError(f"'{short(name)}' is a GGUF file: what it needs is known once it is converted.")
    source = str(path) if path.exists() else name
    check_present(source)
    return need(source, device, dtype)


def check_memory(needs: Sequence[MemoryNeed], device: torch.device) -> str:
    """What some models need together and what is free, as a sentence, unless that cannot fit.

    Raises:
        ModelError: if it cannot; `SPECDEC_IGNORE_MEMORY=1` loads it anyway.
    """
    sentence, fits = said(needs, device)
    if not fits:
        raise ModelError(sentence)
    return sentence


def said(needs: Sequence[MemoryNeed], device: torch.device) -> tuple[str, bool]:
    """What some models need together and what is free, as a sentence, and whether loading them would be tried."""
    needed, free = sum(one.bytes for one in needs), available_bytes(device)
    parameters = sum(one.parameters for one in needs)
    *first, last = (f"'{one.name}'" for one in needs)
    names = f"{', '.join(first)} and {last}" if first else last
    sentence = (
        f"{names} need{'s' if len(needs) == 1 else ''} about {_size(needed)} for {_millions(parameters)} M "
        f"parameters, and {device.type} has {_size(free)} free."
    )
    if needed > free and os.environ.get(IGNORE, "") in ("", "0"):
        advice = f"Choose a smaller model or a 16-bit dtype; {IGNORE}=1 tries it anyway."
        return f"{sentence} {advice}", False
    return sentence, True


def _millions(count: int) -> str:
    """Parameters in millions; of a few, two digits, so that none are rounded up to one million."""
    return f"{count / 1e6:,.0f}" if count >= 1e7 else f"{count / 1e6:.2g}"


def _size(count: int) -> str:
    """Bytes as a reader counts them."""
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.0f} MB"
