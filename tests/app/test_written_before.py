"""What earlier versions wrote still opens: traces, libraries with runs, rooms and sweeps, answers, links of the course.

The files under `old` were written by the code of the day that they are named after; in the newest library the name of
the process that measured a sweep was replaced. They are records: when a test fails, the code is wrong, not the file.
Links of the lab and the comparison are in `links.json` (test_old_links.py).
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from app.compare.sweep_store import SweepTable
from app.compare.sweeps import Sweeps
from app.course import progress
from app.decoding.device_queue import DeviceQueue
from app.decoding.models import ModelChoice
from app.decoding.runs import Runs
from app.records import importing, keeping
from app.records.database import Database
from app.records.store import Library
from app.room import export
from app.room.schema import rooms as room_table
from app.room.store import Rooms
from specdec_core.proposers import PROPOSERS
from specdec_core.record.read import parse_traces
from specdec_core.record.trace import Trace

from .conftest import scripted_family
from .course_page import page
from .kept import ANNA, BEN

OLD = Path(__file__).parent / "old"
PROMPT = "The old café 🦊 was"
LABELS = ["Plain decoding", "Draft model", "Branching"]
LINKS = {
    "2026-11-21": "QsPyla5w4sZqLuPOgV9xNo0l",
    "2026-11-22": "b-smQ3TQR3ZQXTImJzr0A6Bb",
    "2026-11-23-noon": "KHE_oArghsoTlfzWg8feDqbE",
    "2026-11-23": "te1Js1mY7oryqN8_CZAwD7um",
}
ROOMS = {"2026-11-23-noon": "7PG4MQ", "2026-11-23": "C4Q966"}
SWEEP = "elHiZK-GeMhdczhD"
TRACES = [OLD / "2026-11-21" / f"{name}.json" for name in ("plain", "draft-model", "branching")]
RACE = OLD / "2026-11-23" / "race.json"


def contents(trace: Trace, written: dict[str, Any]) -> None:
    """Compare a trace that was read with what its file says of each token, each round and all counts."""
    assert trace.audit() == []
    assert (trace.header.prompt, trace.text) == (PROMPT, written["output"]["text"])
    assert trace.token_ids == written["output"]["ids"]
    assert len(trace.rounds) == len(written["rounds"])
    again = json.loads(trace.to_json())
    for name in ("output", "stats", "rounds"):
        _within(written[name], again[name])
    assert again["header"]["settings"]["proposer"] == written["header"]["settings"]["proposer"]


def _within(old: Any, new: Any) -> None:
    """Everything that the old record has is in the new one, unchanged; the new one may have more."""
    if isinstance(old, dict):
        for key, value in old.items():
            _within(value, new[key])
    elif isinstance(old, list):
        assert len(old) == len(new)
        for one, other in zip(old, new, strict=True):
            _within(one, other)
    else:
        assert old == new


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_an_old_trace_is_read_as_it_was_written_and_exported_as_a_page(path: Path) -> None:
    """Catches: a column that was renamed, a field without a default, a count that is defined otherwise now."""
    from app.export.page import make

    written = json.loads(path.read_text(encoding="utf-8"))
    trace = Trace.from_json(path.read_text(encoding="utf-8"))
    contents(trace, written)
    assert PROPOSERS[trace.header.settings["proposer"]]
    assert len(trace.frames()["rounds"]) == len(written["rounds"])
    assert written["header"]["id"] in make([trace])


@pytest.mark.parametrize("paths", [TRACES, [RACE]], ids=["traces", "race"])
def test_an_old_file_is_imported(paths: list[Path]) -> None:
    library = Library()
    for path in paths:
        found, lanes = importing.take(ANNA, path.read_bytes(), library)
        assert [lane.problem for lane in lanes] == [None] * len(lanes)
        content = json.loads(path.read_text(encoding="utf-8"))
        written = content if isinstance(content, list) else [content]
        for lane, old in enumerate(written):
            contents(Trace.from_json(library.trace(found, lane, ANNA) or b""), old)
            assert lanes[lane].tokens_per_pass == pytest.approx(old["stats"]["tokens_per_pass"])
    library.close()


def test_the_lanes_of_an_old_race_still_are_of_one_race() -> None:
    lanes = parse_traces(RACE.read_bytes())
    assert [lane.header.settings["proposer"] for lane in lanes] == ["none", "draft-model", "branching"]
    assert len({lane.header.race.id for lane in lanes if lane.header.race}) == 1


@pytest.fixture(params=LINKS)
def day(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A day of which there is a library, which is now `library.sqlite3`."""
    name: str = request.param
    (tmp_path / "library.sqlite3").write_bytes(
        gzip.decompress((OLD / name / "library.sqlite3.gz").read_bytes())
    )
    return name


def test_a_run_of_an_old_library_opens_for_its_owner_and_by_its_link(
    day: str, tmp_path: Path, fresh: Runs
) -> None:
    """Catches: a migration that loses a column, a request that cannot be read, so that the run has no page."""
    library = Library(tmp_path / "library.sqlite3")
    (saved,) = library.runs_of(ANNA)
    assert (saved.id, saved.name, saved.prompt, saved.link) == ("oldrun", "an old one", PROMPT, LINKS[day])
    assert [lane.label for lane in saved.lanes] == LABELS
    assert [lane.tokens for lane in saved.lanes] == [6, 6, 6] and library.runs_of(BEN) == []
    for lane in range(3):
        packed = library.trace("oldrun", lane, ANNA)
        assert packed and packed == library.trace(LINKS[day], lane, None)
        contents(Trace.from_json(packed), json.loads(packed))
    own, shared = (
        keeping.find(key, whose, fresh, library) for key, whose in (("oldrun", ANNA), (LINKS[day], BEN))
    )
    if (
        day == "2026-11-21"
    ):  # that version did not keep what was asked for: the library's page alone shows its runs
        assert own is None and shared is None
    else:
        assert own is not None and shared is not None
        assert list(own.request.labels) == LABELS and own.request.lanes[2].stop == ("\n\n",)
        assert len(shared.traces) == 3 and not shared.belongs_to(BEN)
    assert library.rename(ANNA, "oldrun", "another name")
    library.close()
    assert Library(tmp_path / "library.sqlite3").runs_of(ANNA)[0].name == "another name"


@pytest.mark.parametrize("day", ROOMS, indirect=True)
def test_an_old_room_goes_on_where_it_was(day: str, tmp_path: Path) -> None:
    """Catches: a room that stands open in a class while its server is upgraded, and that cannot be read any more."""
    database = Database(tmp_path / "library.sqlite3")
    with database.transaction() as connection:
        created: float = connection.execute(select(room_table.c.created)).scalar_one()
    rooms = Rooms(database, lambda: created + 60)
    news = rooms.news(ROOMS[day], -1)
    assert news is not None
    room, votes = news[:2]
    assert (room.order, room.now.state, room.now.lesson, room.now.part) == (
        ("race", "coin"),
        "open",
        "race",
        "predict",
    )
    assert [(vote.given, vote.right) for vote in votes] == [("code", True)]
    (row,) = export.rows(room, votes, rooms.names(room.code), created + 60)
    assert (row["nickname"], row["vote_1"], row["right_1"]) == ("Ben", "code", True)
    database.close()


@pytest.mark.parametrize("day", ["2026-11-23"], indirect=True)
def test_an_old_sweep_is_shown(day: str, tmp_path: Path) -> None:
    database = Database(tmp_path / "library.sqlite3")
    sweeps = Sweeps(
        lambda choice, gone: scripted_family(),
        lambda device: DeviceQueue(),
        store=SweepTable(database, write_s=0.0),
    )
    found = sweeps.get(SWEEP, ANNA)
    assert found is not None and found.state == "done" and found.error is None
    assert [case.prompt for case in found.order.cases] == ["Once upon a time", "A list of"]
    assert found.order.choice == ModelChoice() and len(found.rows) == found.order.cells == 4
    assert {row.label for row in found.rows} == set(LABELS[:2])
    database.close()


@pytest.mark.parametrize("day", ["2026-11-21", "2026-11-23"])
def test_old_answers_are_taken_up_again(day: str) -> None:
    kept = progress.from_json((OLD / day / "course.json").read_text(encoding="utf-8"))
    assert kept.lessons["coin"].predict == progress.Answer(["A", "B"], False, "2026-11-21T20:00:00+00:00")
    assert kept.lessons["length"].predict == progress.Answer(3.7, True, "2026-11-21T20:01:00+00:00")
    assert (kept.lessons["race"].done, kept.lessons["race"].farthest) == (True, 5)
    assert kept.inventories["before"]["M1"].given == "once"
    assert kept.claims["coding"].given == "true" and kept.notes == {"sandbox": "It guesses “so”."}
    assert kept.language == ("" if day == "2026-11-21" else "de")


@pytest.mark.parametrize("day", ["2026-11-23-noon", "2026-11-23"], indirect=True)
def test_old_answers_in_a_library_are_taken_up_again(day: str, tmp_path: Path) -> None:
    library = Library(tmp_path / "library.sqlite3")
    assert progress.from_json(library.progress(ANNA) or "").lessons["race"].farthest == 5
    library.close()


# What addresses of the course could ask for on 2026-11-21.
LESSONS = (
    "race weights first-word tokens draft-verify coin lossless blind lookup lookahead draft-model early-exit medusa "
    "eagle trees rules length overlap fails sandbox"
).split()
HIDDEN = "rail,change,explain,code,check,lab,home"


@pytest.mark.parametrize("lesson", LESSONS)
def test_an_old_link_opens_its_lesson(lesson: str) -> None:
    """Catches: a lesson that was given another name, so that a link on a course page leads nowhere."""
    at = page(lesson=lesson, at="watch", hide="code,lab", order=",".join(LESSONS))
    assert [warning.value for warning in at.warning] == [] and not at.error
    assert at.title[0].value.split(" · ")[0]


@pytest.mark.parametrize(
    "query",
    [{"hide": HIDDEN, "present": "1"}, {"order": "race,coin", "lang": "en"}, {"inventory": "before", "question": "M1"},
     {"inventory": "after"}, {"claims": "1"}, {"sheet": "1"}, {"order": ",".join(LESSONS), "sheet": "1"}],
    ids=lambda query: "&".join(query),
)  # fmt: skip
def test_an_old_link_of_the_course_is_understood(query: dict[str, str]) -> None:
    at = page(**query)
    assert [warning.value for warning in at.warning] == [] and not at.error
