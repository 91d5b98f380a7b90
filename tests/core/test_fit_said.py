"""What `specdec fit` says: its refusals, its progress, its result and its report."""

from __future__ import annotations

from pathlib import Path

import pytest

import specdec_core as sd
from specdec_core.fitting.state import Cell, State
from specdec_core.sweep.measured import Measured


def test_the_advice_for_a_damaged_file_works(tmp_path: Path) -> None:
    """Catches: “Take that line out” for the first line, without which the file is no fit's."""
    state = State.open(tmp_path, {"machine": "this"})
    state.add(Cell("search", "some", Measured("own", "line 1", 1, "some", 0, tokens=3, seconds=1.5)), 2.0)
    whole = state.path.read_text()
    for damaged, way in (
        (1, "Delete the file to begin again, or choose"),
        (2, "Take that line out, or choose"),
    ):
        lines = whole.splitlines(keepends=True)
        lines[damaged - 1] = "{damaged\n"
        state.path.write_text("".join(lines))
        with pytest.raises(
            sd.SpecdecError, match=rf"^Line {damaged} of '.*' is damaged\. {way} another folder\.$"
        ):
            State.open(tmp_path, {"machine": "this"})
    del lines[1]
    state.path.write_text("".join(lines))
    assert not State.open(tmp_path, {"machine": "this"}).cells
    state.path.write_text(whole.partition("\n")[2])
    with pytest.raises(sd.SpecdecError, match="Choose another folder, or delete the file to begin again"):
        State.open(tmp_path, {"machine": "this"})
    state.path.unlink()
    assert not State.open(tmp_path, {"machine": "this"}).cells
