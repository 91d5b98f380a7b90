"""From an address to what is shown: which runs a visitor may see, and where the player finds their traces."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from . import examples as recorded
from .examples import Example
from .listing import LibraryEntry, side_by_side
from .store import Library, Saved

EXAMPLE = "recorded."  # prefix of an example's name in the address; ids and links have no full stop
GONE = json.dumps({"error": "This run is no longer kept; it was deleted."}).encode()
TITLE = 60  # characters of a prompt that serve as a run's name


def of_saved(saved: Saved, key: str | None = None) -> LibraryEntry:
    """A kept run; `key` if it is not reached by its own id."""
    title = saved.name or f"“{start(saved.prompt)}”"
    return LibraryEntry(key or saved.id, title, saved.prompt, saved.created, saved.lanes, saved)


def of_example(example: Example) -> LibraryEntry:
    """A bundled example."""
    return LibraryEntry(EXAMPLE + example.id, example.title, example.prompt, 0.0, example.lanes, example)


def start(prompt: str) -> str:
    """The beginning of a prompt, on one line."""
    words = " ".join(prompt[: 4 * TITLE].split())
    return words if len(words) <= TITLE and len(prompt) <= 4 * TITLE else words[:TITLE].rstrip() + "…"


def open_one(key: str, owner: str, library: Library) -> LibraryEntry | None:
    """What `key` names for this visitor: an example, a run of their own, or one that a link opens. None otherwise,
    whether it belongs to somebody else, was deleted, or never existed."""
    if key.startswith(EXAMPLE):
        example = recorded.find(key.removeprefix(EXAMPLE))
        return of_example(example) if example else None
    mine = library.get(owner, key)
    if mine is not None:
        return of_saved(mine)
    shared = library.shared(key)
    return of_saved(shared, key) if shared else None


def is_mine(entry: LibraryEntry) -> bool:
    """Whether the visitor may rename, share and delete it: only its owner reaches it by its id."""
    return isinstance(entry.source, Saved) and entry.key == entry.source.id


def traces(
    entries: Sequence[LibraryEntry], owner: str, library: Library, *, inline: bool
) -> list[dict[str, Any]]:
    """The lanes for the player. `inline`: the browser cannot prove ownership, so the page includes the traces."""
    lanes = []
    labels = [entry.lanes[number].label for entry, number in side_by_side(entries)]
    for entry, number in side_by_side(entries):
        label = entry.lanes[number].label
        if labels.count(label) > 1 and len(entries) > 1:
            label = f"{label} ({entry.title})"
        if isinstance(entry.source, Example):
            lanes.append({"label": label, "url": f"/traces/{entry.source.files[number]}.json"})
        elif inline and is_mine(entry):
            lanes.append(
                {"label": label, "trace": json.loads(data(entry, number, owner, library) or b"null")}
            )
        else:
            lanes.append({"label": label, "url": f"/traces/{entry.key}-{number}.json"})
    return lanes


def origin(entry: LibraryEntry) -> str:
    """Where and when it was recorded, according to the record."""
    source = entry.source
    where = f"{source.machine}, {source.recorded[:10]}"
    return f"imported: {where}" if imported(entry) else where


def origins(given: Iterable[LibraryEntry]) -> str:
    """Where and when several were recorded: each machine with its first and last day."""
    days: dict[str, set[str]] = {}
    for entry in given:
        days.setdefault(entry.source.machine, set()).add(entry.source.recorded[:10])
    spans = ((machine, min(found), max(found)) for machine, found in sorted(days.items()))
    return " and ".join(
        f"{machine}, {first}" + (f" to {last}" if last != first else "") for machine, first, last in spans
    )


def imported(entry: LibraryEntry) -> bool:
    """Whether it was imported from a file, so that nothing in it counts as measured here."""
    return isinstance(entry.source, Saved) and entry.source.origin == "imported"


def measured_here(entry: LibraryEntry) -> bool:
    """Whether its figures count as measured, i.e. it is known to have run on this server."""
    return isinstance(entry.source, Saved) and not imported(entry)


def remark(entry: LibraryEntry) -> str | None:
    """The note above a run that is not simply the visitor's own."""
    if isinstance(entry.source, Example):
        return entry.source.look_for
    said = []
    if imported(entry):
        said.append("From elsewhere: nothing here counts as measured on this server.")
    if not is_mine(entry):
        said.append("Shared with you by link: you can read it and step through it.")
    if problem := next((lane.problem for lane in entry.lanes if lane.problem), None):
        said.append(f"Its record contradicts itself, so do not trust its figures: {problem}")
    return " ".join(said) or None


def data(entry: LibraryEntry, number: int, owner: str, library: Library) -> bytes:
    """The JSON of one of an entry's lanes; a sentence as JSON once it is deleted."""
    if isinstance(entry.source, Example):
        return (recorded.FOLDER / f"{entry.source.files[number]}.json").read_bytes()
    return library.trace(entry.key, number, owner) or GONE
