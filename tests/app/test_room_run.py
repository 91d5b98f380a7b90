"""What a room runs: the class's run with its votes, and the trees of students."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app import services
from app.course.files import reading
from app.decoding.runs import Runs
from app.records.database import Database
from app.records.journal import Journal
from app.records.keys import digest
from app.room import codes, export, here, host_actions, states, tally
from app.room.asked import PICTURED, asked
from app.room.live import Live
from app.room.pages import stills, views, views_run
from app.room.runs import running, together, trees
from app.room.runs.together import ROUND_S, VOTE_S, ClassRun, RunProgress, next_s, read, shown
from app.room.states import Now, Room, RoomRefused
from app.room.store import Cast, Rooms
from app.room.tally import Vote
from app.web.routes import routes as all_routes


def message(verdicts: list[str], text: str = "x") -> str:
    """A round of a chain, as its event stream has it."""
    kept = [verdict for verdict in verdicts if verdict == "accepted"]
    last = "corrected" if "rejected" in verdicts else "bonus"
    return json.dumps(
        {
            "type": "step",
            "texts": [text] * (len(kept) + 1),
            "sources": [*kept, last],
            "node_texts": [f"{text}{at}" for at in range(len(verdicts))],
            "verdict": verdicts,
        }
    )


GOOD, BAD, NONE = ["accepted", "rejected", "unreached"], ["rejected", "unreached", "unreached"], []


def said(*rounds: list[str], over: bool = True) -> RunProgress:
    return read([*map(message, rounds), *(['{"type":"finished"}'] if over else [])])


def asking(at: int, **more: Any) -> Now:
    run = ClassRun("run", "ticket", 2, "Once", "Tiny", 0.0, at, voting=True)
    return replace(Now(state="run", step=3, since=10.0, until=30.0, run=run), **more)


def vote(student: str, at: int, given: str, right: bool) -> Vote:
    return Vote(student, "", together.part(2, at), 1, given, right, 1.0, 1.0)


def pages(now: Now, found: RunProgress, votes: list[Vote], at: float) -> list[dict[str, Any]]:
    """What each kind of page gets: a student's, the projector's, the host's."""
    room = Room("CODE34", 0.0, "en", False, ("coin",), now, 1)
    run = views_run.followed(now, found, votes, at)
    mine = [each for each in votes if each.student == "me"]
    return [
        views.student(room, "en", mine, at, run),
        views.screen(room, votes, 2, at, run),
        views.host(room, votes, 2, 0, at, {"coin": "Coin"}, run),
    ]


def test_a_verdict_is_on_no_page_before_the_vote_on_it_is_closed() -> None:
    """Catches: a page that changes with the verdict, or with what comes after it, while the class still votes; and the
    others' votes on a student's page or the projector's."""
    before, votes = asking(1), [vote("me", 0, "accepted", True), vote("me", 1, "rejected", True)]
    first, second = said(GOOD, GOOD, GOOD), said(GOOD, BAD, over=False)
    assert pages(before, first, votes, 29.9) == pages(before, second, votes, 29.9)
    others = [*votes, vote("you", 1, "accepted", False)]
    student, screen, host = pages(before, first, votes, 29.9)
    more = pages(before, first, others, 29.9)
    assert student == more[0]
    assert screen == {**more[1], "answered": 1}
    assert host["counted"] != more[2]["counted"]
    assert "ticket" not in json.dumps([*more, student])
    assert student["run"]["mine"] == "rejected"
    assert student["run"]["verdict"] is None
    # by the clock alone, and by the host's press
    for now, at in ((before, 30.0), (states.step(before, "verdict", 20.0, run=stepped(before)), 20.0)):
        student = pages(now, first, others, at)[0]
        assert student["run"]["verdict"] == {"was": "accepted", "guess": "x0", "right": 1, "of": 2}
        assert (student["run"]["rounds"], student["run"]["hits"], student["run"]["class"]) == (
            2,
            (2, 2),
            (2, 3),
        )
        assert student["run"]["alpha"] == (2, 4)
        assert len(student["run"]["pieces"]) == 6


def stepped(now: Now, move: str = "verdict", at: float = 20.0) -> ClassRun:
    return states.steered(now, move, said(GOOD, GOOD, GOOD), at)


def test_rounds_follow_one_another_at_a_pace_that_can_be_read() -> None:
    """Catches: a run that is over on the pages before anybody has read it, and a page that is not drawn again."""
    run = replace(ClassRun(), pace=True, shown=1)
    assert [shown(run, 10.0, None, 4, 10.0 + after * ROUND_S) for after in (0, 0.9, 1, 2.5, 9)] == [
        1,
        1,
        2,
        3,
        4,
    ]
    assert next_s(run, 10.0, None, said(GOOD, GOOD), 10.25) == pytest.approx(ROUND_S - 0.25)
    assert next_s(run, 10.0, None, said(GOOD, GOOD), 12.0) is None
    asked = asking(0)
    assert next_s(asked.run or run, 10.0, 30.0, said(GOOD), 12.0) == pytest.approx(18.0)


def test_what_the_host_can_do_with_a_run() -> None:
    """Catches: a vote on a round without a guess, or after the last one; a verdict twice; a vote that is opened again
    once its verdict is on the pages."""
    held = asking(0, run=replace(ClassRun(), number=1))
    found = said(GOOD, NONE, BAD)
    assert states.steered(held, "ask", found, 11.0).shown == 0
    later = replace(held, run=replace(ClassRun(), shown=1))
    assert states.steered(later, "ask", found, 11.0) == ClassRun(shown=2, voting=True)
    for end, sentence in ((True, "no further guess"), (False, "not there yet")):
        with pytest.raises(RoomRefused, match=sentence):
            states.steered(replace(held, run=ClassRun(shown=3)), "ask", replace(found, over=end), 11.0)
    with pytest.raises(RoomRefused, match="moved on"):
        states.steered(asking(0), "verdict", found, 31.0)
    room = Room("CODE34", 0.0, "en", False, ("coin",), asking(0), 1)
    body = {"move": "longer", "step": 3}
    assert (host_actions.changed(room, 29.0, body).now.until or 0) > 30.0
    with pytest.raises(RoomRefused, match="moved on"):
        host_actions.changed(room, 31.0, body)
    moves = pages(asking(0), found, [], 20.0)[2]["moves"]
    assert "verdict" in moves
    seen = pages(replace(asking(1), until=None), found, [], 20.0)[2]  # after the verdict
    assert "answered" not in seen
    assert not {"ask", "on", "follow", "check"} & set(moves)


def test_a_run_survives_the_database_and_old_rooms_have_none() -> None:
    """Catches: a room of an earlier version, or one with a run, that cannot be read after a restart."""
    now = asking(1)
    assert Now.from_json(json.loads(json.dumps(now.to_json()))) == now
    old = {key: value for key, value in Now().to_json().items() if key != "run"}
    assert Now.from_json(old) == Now()


def test_votes_on_a_run_close_by_the_clock_and_are_exported(tmp_path: Path) -> None:
    """Catches: a vote after the verdict, a second one, one that the export lacks; a lesson's results with them."""
    clock = [1000.0]
    rooms = Rooms(Database(tmp_path / "rooms.sqlite3"), lambda: clock[0])
    code, _ = rooms.create(["coin"], "en", named=False)
    run = ClassRun("id", "ticket", 1, "Once", "Tiny", 0.0, 0, voting=True)
    rooms.drive(code, lambda room, at: replace(room, now=states.step(room.now, "run", at)))
    rooms.drive(code, lambda room, at: replace(room, now=states.step(room.now, "ask", at, run=run)))
    mine = Cast(code, "me", "", together.part(1, 0), 1, "accepted", True)
    late = replace(mine, seat="late")
    assert [each is None for each in rooms.cast([mine, mine, replace(mine, part=together.part(1, 1))])] == [
        True,
        False,
        False,
    ]
    clock[0] += VOTE_S
    assert rooms.cast([late]) != [None]
    news = rooms.news(code, -1)
    assert news is not None

    def judged(at: float, room: Room = news[0]) -> list[tuple[str, str, object]]:
        return [
            (row["question"], row["vote_1"], row["right_1"]) for row in export.rows(room, news[1], {}, at)
        ]

    assert judged(clock[0]) == [("run 1 round 1", "accepted", True)]
    assert judged(clock[0] - 1.0) == [("run 1 round 1", "accepted", "")]  # nobody has seen the verdict
    left = states.step(news[0].now, "wait", clock[0] - 1.0)
    assert judged(clock[0], replace(news[0], now=left)) == [("run 1 round 1", "accepted", "")]
    assert states.step(news[0].now, "wait", clock[0]).unseen == ()
    assert views.results(news[0], "en", news[1]) == []


@pytest.fixture
def visitor(fresh: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], TestClient]:
    """Browsers, each with cookies of its own, at a server with the scripted models."""
    rooms = Rooms(Database(tmp_path / "rooms.sqlite3"))
    live = Live(lambda: rooms, running.said)
    monkeypatch.setattr(here, "rooms", lambda: rooms)
    monkeypatch.setattr(here, "live", lambda: live)
    app = Starlette(routes=all_routes())
    return lambda: TestClient(app, raise_server_exceptions=False)


def until(fact: Callable[[], Any]) -> Any:
    end = time.monotonic() + 60
    while not (found := fact()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def begun(visitor: Callable[[], TestClient]) -> tuple[TestClient, TestClient, str]:
    """A host and a student in a room."""
    teacher, student = visitor(), visitor()
    made = teacher.post("/r/start", json={"lessons": ["coin"], "language": "en"}).json()
    code = made["code"]
    assert teacher.post(f"/r/{code}/host", json={"secret": made["host"]}).status_code == 204
    assert student.post(f"/r/{code}/join", json={}).status_code == 200
    return teacher, student, code


def press(teacher: TestClient, code: str, *moves: str, **more: str) -> None:
    for move in moves:
        room = here.rooms().room(code)
        assert room is not None
        answer = teacher.post(f"/r/{code}/host/drive", json={"move": move, "step": room.now.step, **more})
        assert answer.status_code == 204, answer.text


def test_a_class_votes_on_a_real_run(visitor: Callable[[], TestClient]) -> None:
    """Catches: a run that never reaches the room, a vote that is judged by something else than the record, a run that
    others can read or that outlives its room."""
    teacher, student, code = begun(visitor)
    assert (
        teacher.post(f"/r/{code}/host/drive", json={"move": "run", "step": 0, "prompt": " "}).status_code
        == 409
    )
    press(teacher, code, "run", prompt="abc")
    room = here.rooms().room(code)
    assert room is not None
    run = room.now.run
    found: RunProgress = until(lambda: each if (each := running.said(run)).over else None)
    assert len(found.rounds) > 1
    assert run is not None
    assert (
        student.get(f"/runs/{run.run}/events").status_code == 404
    )  # its verdicts are nobody's before the vote
    press(teacher, code, "ask")
    for answer, status in ((["accepted"], 400), ("both", 400), ("accepted", 204), ("rejected", 409)):
        assert student.post(f"/r/{code}/vote", json={"step": 2, "given": answer}).status_code == status
    press(teacher, code, "verdict")
    rows = teacher.get(f"/r/{code}/host/votes.json").json()["rows"]
    assert [(row["vote_1"], row["right_1"]) for row in rows] == [
        ("accepted", found.rounds[0].first == "accepted")
    ]
    assert services.library().runs_of(f"room {code}") == []
    assert teacher.post(f"/r/{code}/host/delete", json={}).status_code == 204
    assert services.runs().get(run.run) is None


def test_a_run_that_its_server_lost_is_said_so(fresh: Runs) -> None:
    """Catches: a room that waits for ever for a run that ended with its process."""
    gone = ClassRun("no-such-run", "ticket", 1, "Once", "Tiny", began=time.time())
    assert running.said(gone) == RunProgress()
    assert running.said(replace(gone, began=0.0)).lost


def test_a_student_s_own_tree_is_measured_by_the_server(visitor: Callable[[], TestClient]) -> None:
    """Catches: a figure that the browser claims, a run on another prompt that counts, a tree beyond the challenge's, a
    run while the room does not play."""
    teacher, student, code = begun(visitor)
    press(teacher, code, "open", lesson="coin")
    body = {"step": 1, "width": 2, "depth": 3, "speed": 1e9}
    assert student.post(f"/r/{code}/run", json=body).status_code == 409
    press(teacher, code, "close", "reveal", "follow", "play")
    body["step"] = 5
    assert student.post(f"/r/{code}/run", json={**body, "width": 99}).status_code == 409
    for prompt, counts in (("ab", 0), ("", 1)):
        where = student.post(f"/r/{code}/run", json={**body, "prompt": prompt}).json()["events"]
        said = student.get(f"/{where}").text
        assert '"type":"finished"' in said
        assert visitor().get(f"/{where}".split("?")[0]).status_code == 404
        news = until(lambda: here.rooms().news(code, -1))
        if counts:
            news = until(lambda: found if (found := here.rooms().news(code, -1)) and found[1] else None)
        best = views_run.challenge(news[1], "coin")
        assert best["ran"] == counts
    assert best["best"][0]["width"] == 2
    assert 0 < best["best"][0]["speed"] < 1e9
    stats = json.loads(next(line[6:] for line in said.splitlines() if '"finished"' in line))["stats"]
    assert best["best"][0]["speed"] == stats["tokens_per_second"]


def test_a_deleted_room_s_runs_are_forgotten_in_every_process(
    fresh: Runs, place: Path | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Catches: what students ran on another web process, or the class long ago, outliving the room."""
    database = Database(place)
    rooms = Rooms(database)
    code, _ = rooms.create(["coin"], "en", named=False)
    token = codes.token()
    rooms.join(code, token, "")
    kept = running.guest(code + "x")
    there = Runs(lambda choice, gone: services.shelf().get(choice, gone))
    there._journal = Journal(database, 10**9, there.drop)
    here_ = Journal(database, 10**9)
    runs = []
    try:
        with monkeypatch.context() as patch:
            patch.setattr(services, "runs", lambda: there)
            for guest in (running.guest(code), running.guest(code, digest(token)), kept):
                runs.append(running.own_tree(guest, "abc", "tiny", 2, 2, lambda run: None))
        until(lambda: all(here_.find(run.id, None, run.ticket) for run in runs))
        monkeypatch.setattr(fresh, "_journal", here_)
        host_actions.delete(rooms, code)
        assert [here_.find(run.id, None, run.ticket) is None for run in runs] == [True, True, False]
        if database.shared:  # several processes have PostgreSQL
            until(lambda: [there.get(run.id) is None for run in runs] == [True, True, False])
    finally:
        there.close()
        for journal in (here_, there._journal):
            journal.close()
        database.close()


def test_a_run_whose_room_was_deleted_meanwhile_is_forgotten_at_its_end(
    visitor: Callable[[], TestClient],
) -> None:
    """Catches: a run that was not in the database yet when its room was deleted, and stays."""
    teacher, _student, code = begun(visitor)
    press(teacher, code, "open", lesson="coin")
    press(teacher, code, "close", "reveal", "follow", "play")
    room = here.rooms().room(code)
    assert room is not None
    seat = next(iter(here.rooms().names(code)))
    here.rooms().delete(code)
    run = trees.begin(here.rooms(), room, seat, {"prompt": "ab", "width": 2, "depth": 2})
    until(lambda: services.runs().get(run.id) is None)


def test_the_best_three_are_the_fastest_of_one_model(tmp_path: Path) -> None:
    """Catches: speeds of two models in one list, a slower run that replaces a faster one, a fourth place."""
    rooms = Rooms(Database(tmp_path / "rooms.sqlite3"))
    code, _ = rooms.create(["coin"], "en", named=False)
    for seat, speed, model in (("a", 900, "Tiny"), ("b", 50, "Real"), ("b", 40, "Real"), ("c", 70, "Real")):
        result = {"model": model, "speed": speed, "width": 1, "depth": 1, "per_pass": 2.0}
        rooms.ran(code, seat, "coin", result)
    news = rooms.news(code, -1)
    assert news is not None
    assert [each["speed"] for each in tally.fastest(news[1], "coin")] == [70, 50]
    assert views_run.challenge(news[1] * 9, "coin")["best"] == tally.fastest(news[1] * 9, "coin")[:3]
    assert tally.fastest(news[1], "other") == []


def test_every_lesson_s_pictures_are_drawn_for_a_class(caplog: pytest.LogCaptureFixture) -> None:
    """Catches: a lesson whose picture fails outside a session, or needs a button that a class does not have: the host
    would show nothing; and a walk that walks no lessons."""
    keys = [key for _, key, _, _ in reading.titles("en")]
    assert len(keys) == len(list((reading.FOLDER / "en").glob("[0-9]*.md"))) > 20
    pictures = 0
    for key in keys:
        question = asked("en", key, "predict")
        assert question is not None
        for step in PICTURED:
            picture = question.picture(step)
            if picture is None:
                continue
            kinds = {node["kind"] for node in stills.still("en", key, step) or []}
            assert kinds & {"html", "chart", "component"}, f"{key} {step}: {kinds}"
            pictures += 1
    assert pictures > 2 * len(keys) - 2
    # whatever this thread logs; one of an earlier test may still look for its database, which has ended
    assert not [record for record in caplog.records if record.thread == threading.get_ident()]


def test_nodes_of_a_tree_are_set_one_by_one() -> None:
    """Catches: a builder in a room that only offers whole trees; a removed node that comes back."""

    def tree(moves: tuple[tuple[str, Any], ...]) -> tuple[str, list[list[int]]]:
        nodes = stills.still("en", "trees", "change", moves) or []
        found = next(each for each in nodes if each.get("module") == "tree" and each["data"]["slots"])
        return found["id"], [node["path"] for node in found["data"]["nodes"]]

    key, start = tree(())
    given = [
        [key, {"do": "add", "path": [*start[0], 0]}],
        [key, {"do": "add", "path": [1]}],
        [key, "nonsense"],
    ]
    made = host_actions.moves(given)
    _, grown = tree(made)
    assert [0] in grown
    assert [1] in grown
    _, cut = tree((*made, (key, {"do": "remove", "path": [0]})))
    assert sorted(cut) == [[], [1]]
    assert host_actions.moves([[key, {"do": "fly", "path": [0]}]]) == ()


def test_a_player_s_cursor_draws_nothing_anew() -> None:
    """Catches: a picture that is drawn for every step of the host's in a player."""
    before = stills.still("en", "trees", "watch")
    moves = host_actions.moves([["x", {"cursor": {"round": 2, "of": "y"}}]])
    assert len(moves) == 1
    assert stills.still("en", "trees", "watch", moves) is before


def test_sliders_that_share_one_mass_show_what_counts() -> None:
    """Catches: a slider at 0.60 beside a table that says 0.00."""

    def places(*moves: tuple[str, float]) -> list[str]:
        nodes = stills.still("de", "shared", "change", tuple((key, [at]) for key, at in moves)) or []
        return [node["names"][node["value"]] for node in nodes if node["kind"] == "slider"]

    one, other = [
        node["id"] for node in stills.still("de", "shared", "change") or [] if node["kind"] == "slider"
    ]
    assert places() == ["0,10", "0,60"]
    assert places((one, 20)) == ["1,00", "0,00"]
    assert places((other, 14), (one, 20)) == ["1,00", "0,00"]
    assert places((one, 20), (other, 14), (one, 10)) == ["0,50", "0,50"]


def test_a_control_shows_only_what_it_can_have() -> None:
    """Catches: a picture that no page of the room gets, because somebody moved a slider to a place it has not."""

    def slider(*values: Any) -> Any:
        moves = host_actions.moves([[key, value] for value in values])
        return next(
            each for each in stills.still("en", "weights", "watch", moves) or [] if each["kind"] == "slider"
        )

    key = ""
    first = slider()
    key = first["id"]
    for value in (1, "x", [], ["x"], {"do": "add", "path": []}, [1e300], [None], [[1]]):
        assert slider(value) == first, value
    other = len(first["names"]) - 1 if first["names"] else first["high"]
    assert other != first["value"]
    assert slider([other])["value"] == other


@pytest.mark.parametrize(("lesson", "step"), [("race", "watch"), ("weights", "watch"), ("fails", "change")])
def test_a_german_page_follows_an_english_host(lesson: str, step: str) -> None:
    """Catches: a control that is known by its name, which is another in each language: the picture of whoever reads
    the other one stays as it was while the host moves."""

    def controls(language: str, moves: tuple[tuple[str, Any], ...] = ()) -> list[dict[str, Any]]:
        nodes = stills.still(language, lesson, step, moves) or []
        return [node for node in nodes if node["kind"] in ("group", "select", "slider")]

    for at, control in enumerate(controls("en")):
        last = len(control["names"]) - 1 if control["names"] else control["high"]
        value = last if control["kind"] == "select" else [last]
        assert value != control["value"]
        assert value != [control["value"]]
        moves = host_actions.moves([[control["id"], value]])
        english, german = (controls(language, moves)[at] for language in ("en", "de"))
        assert english["value"] == german["value"] == (last if control["kind"] == "slider" else value)
    assert controls("en")
    assert [each["id"] for each in controls("en")] == [each["id"] for each in controls("de")]
