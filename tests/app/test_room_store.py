"""The rooms in the database, and their routes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.testclient import TestClient

from app import config as policy
from app import services
from app.records.database import Database
from app.records.keys import digest
from app.room import codes, here, host_actions, store
from app.room.limits import Limit
from app.room.live import Live
from app.room.states import KEPT_S, LIFE_S, RoomRefused
from app.room.store import Cast, Rooms
from app.web import room as routes
from app.web import room_address, room_request

from .conftest import OPERATOR
from .loops import run

TOKEN = codes.token()


@pytest.fixture
def rooms(tmp_path: Path) -> Iterator[Rooms]:
    database = Database(tmp_path / "rooms.sqlite3")
    yield Rooms(database)
    database.close()


def opened(rooms: Rooms, lesson: str = "race") -> tuple[str, str]:
    """A room with an open question, and one seat's digest."""
    code, _ = rooms.create([lesson, "coin"], "en", named=True)
    rooms.join(code, TOKEN, " Ann\u0000a ")
    rooms.drive(
        code, lambda room, at: host_actions.changed(room, at, {"move": "open", "lesson": lesson, "step": 0})
    )
    return code, digest(TOKEN)


def cast(code: str, seat: str, vote: int = 1, given: str = "code") -> Cast:
    return Cast(code, seat, "race", "predict", vote, given, True)


def press(rooms: Rooms, code: str, *moves: str) -> None:
    for move in moves:
        now = rooms.room(code)
        assert now is not None
        body = {"move": move, "step": now.now.step}
        rooms.drive(code, lambda room, at, body=body: host_actions.changed(room, at, body))  # type: ignore[misc]


def test_a_vote_counts_once_while_the_question_is_open(rooms: Rooms) -> None:
    """Catches: voting twice, for another question, for the second vote early, after closing; a count that follows."""
    code, seat = opened(rooms)
    sentences = rooms.cast([cast(code, seat), cast(code, seat, given="both"), cast(code, "other", vote=2)])
    assert [sentence is None for sentence in sentences] == [True, False, False]
    press(rooms, code, "close")
    assert rooms.cast([cast(code, "late")]) != [None]
    press(rooms, code, "discuss", "again")
    mixed = rooms.cast([cast("FFFFFF", seat), cast(code, seat, vote=2), cast(code, seat, vote=2)])
    assert mixed[1] is None and mixed[0] == "There is no room with this code."
    assert mixed[2] == "You have already answered; an answer that is locked in stays."
    news = rooms.news(code, -1)
    assert news is not None
    assert [(vote.student, vote.vote, vote.given) for vote in news[1]] == [
        (seat, 1, "code"),
        (seat, 2, "code"),
    ]
    assert rooms.names(code) == {seat: "Anna"}


def test_a_second_process_learns_of_every_vote_once(rooms: Rooms, tmp_path: Path) -> None:
    """Catches: a replica that misses a vote or shows it twice."""
    other = Rooms(Database(tmp_path / "rooms.sqlite3"))
    code, seat = opened(rooms)
    first = other.news(code, -1)
    assert first is not None
    rooms.cast([cast(code, seat), cast(code, "b")])
    second = other.news(code, first[0].version)
    assert second is not None
    assert [vote.student for vote in second[1]] == [seat, "b"]
    third = other.news(code, second[0].version)
    assert third is not None
    assert third[1] == []


def test_rooms_end_and_are_deleted_whole(tmp_path: Path) -> None:
    """Catches: a room without end, and votes that outlive their room."""
    clock = [1000.0]
    rooms = Rooms(Database(tmp_path / "rooms.sqlite3"), lambda: clock[0])
    code, seat = opened(rooms)
    rooms.cast([cast(code, seat)])
    clock[0] += LIFE_S + 1
    found = rooms.room(code)
    assert found is not None
    assert found.now.state == "ended"
    with pytest.raises(RoomRefused):
        rooms.join(code, codes.token(), "")
    assert rooms.cast([cast(code, "late")]) != [None]
    assert rooms.outdated() == []
    clock[0] += KEPT_S
    assert rooms.outdated() == [code]
    assert rooms.delete(code) == [seat]
    assert rooms.room(code) is None
    assert seat.encode() not in (tmp_path / "rooms.sqlite3").read_bytes()


def test_cards_counted_by_hand_replace_their_last_count(rooms: Rooms) -> None:
    code, _ = opened(rooms)
    rooms.raised(code, [("code", True, 3)])
    rooms.raised(code, [("code", True, 12)])
    news = rooms.news(code, -1)
    assert news is not None
    assert [(vote.student, vote.count) for vote in news[1]] == [("paper code", 12)]


def test_votes_that_arrive_together_are_each_acknowledged(rooms: Rooms) -> None:
    """Catches: an acknowledgement that belongs to another's vote in the same transaction."""
    code, _ = opened(rooms)

    async def all_at_once() -> list[str | None]:
        live = Live(lambda: rooms)
        return await asyncio.gather(*(live.cast(cast(code, f"seat {at % 50}")) for at in range(60)))

    found = run(all_at_once())
    assert found.count(None) == 50
    news = rooms.news(code, -1)
    assert news is not None
    assert len(news[1]) == 50


@pytest.fixture
def visitor(rooms: Rooms, monkeypatch: pytest.MonkeyPatch) -> Callable[[], TestClient]:
    """Browsers, each with cookies of its own."""
    live = Live(lambda: rooms)
    monkeypatch.setattr(here, "rooms", lambda: rooms)
    monkeypatch.setattr(here, "live", lambda: live)
    monkeypatch.setattr(room_request, "unknown", Limit(5, 60.0))
    monkeypatch.setattr(routes, "unknown", room_request.unknown)
    app = Starlette(routes=routes.routes())
    return lambda: TestClient(app, raise_server_exceptions=False)


def test_only_a_seat_votes_and_only_the_host_drives(rooms: Rooms, visitor: Callable[[], TestClient]) -> None:
    """Catches: a vote without a seat, from another site or at another step; a room driven without its secret."""
    teacher, student, stranger = visitor(), visitor(), visitor()
    made = teacher.post("/r/start", json={"lessons": ["race", "nonsense"], "language": "en"}).json()
    code = made["code"]
    assert "specdec_seat" not in str(stranger.get(f"/r/{code}").headers)
    assert student.post(f"/r/{code}/join", json={"name": "x"}).status_code == 200
    assert student.post(f"/r/{code}/host", json={"secret": codes.token()}).status_code == 403
    assert teacher.post(f"/r/{code}/host", json={"secret": made["host"]}).status_code == 204
    go = {"move": "open", "lesson": "race", "step": 0}
    assert student.post(f"/r/{code}/host/drive", json=go).status_code == 403
    assert (
        teacher.post(f"/r/{code}/host/drive", json=go, headers={"sec-fetch-site": "cross-site"}).status_code
        == 403
    )
    assert teacher.post(f"/r/{code}/host/drive", json=go).status_code == 204
    vote = {"step": 1, "given": "both"}
    assert stranger.post(f"/r/{code}/vote", json=vote).status_code == 401
    assert student.post(f"/r/{code}/vote", json={**vote, "step": 7}).status_code == 409
    assert student.post(f"/r/{code}/vote", json={**vote, "given": ["both"]}).status_code == 400
    assert student.post(f"/r/{code}/vote", json=vote).status_code == 204
    assert student.post(f"/r/{code}/vote", json={**vote, "given": "code"}).status_code == 409
    assert student.get(f"/r/{code}/still/watch").status_code == 403
    assert student.get(f"/r/{code}/host/votes.csv").status_code == 403
    assert len(teacher.get(f"/r/{code}/host/votes.json").json()["rows"]) == 1
    assert b"svg" in stranger.get(f"/r/{code}/qr.svg").content
    assert student.get(f"/r/{code}/host/qr.svg").status_code == 403
    assert b"svg" in teacher.get(f"/r/{code}/host/qr.svg").content
    for client, status in ((student, 403), (teacher, 204)):
        assert client.post(f"/r/{code}/host/delete").status_code == status
    assert rooms.room(code) is None


def test_start_leads_its_host_back_to_a_room_and_nobody_else(
    rooms: Rooms, visitor: Callable[[], TestClient]
) -> None:
    """Catches: a host who closed the tab and finds no way back; a way into a room for whoever made up a cookie; a page
    that speaks English to a German browser."""
    teacher, stranger = visitor(), visitor()
    made = teacher.post("/r/start", json={"lessons": ["race"], "language": "en"}).json()
    code = made["code"]

    def shown(client: TestClient, **headers: str) -> Any:
        text = client.get("/r/start", headers=headers).text
        return json.loads(text.partition('id="data">')[2].partition("</script>")[0])

    stranger.cookies.set(f"specdec_host_{code}", codes.token())
    assert teacher.post(f"/r/{code}/host", json={"secret": made["host"]}).status_code == 204
    assert [shown(client)["rooms"] for client in (teacher, stranger)] == [[code], []]
    german = shown(stranger, **{"accept-language": "de-CH,de;q=0.9,en;q=0.5"})
    assert german["language"] == "de"
    assert german["refused"]["This room has ended."] == "Dieser Raum ist beendet."
    teacher.post(f"/r/{code}/host/drive", json={"move": "end", "step": 0})
    assert shown(teacher)["rooms"] == []


@pytest.mark.parametrize("room", ["en", "de"])
def test_the_big_screen_speaks_one_language(
    rooms: Rooms, visitor: Callable[[], TestClient], room: str
) -> None:
    """Catches: a lesson in English among German words, on the projector of somebody whose browser is German."""
    code, _ = rooms.create(("race",), room, False)
    browser = "de" if room == "en" else "en"
    for page, language in (("/screen", room), ("/host", room), ("", browser), (f"?lang={room}", room)):
        text = visitor().get(f"/r/{code}{page}", headers={"accept-language": browser}).text
        assert f'<html lang="{language}">' in text, page


def test_a_class_gets_an_address_that_it_can_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a QR code of localhost, which opens nothing on a student's phone; the path that a proxy adds, lost."""

    def shared(listens: str, address: str) -> str | None:
        monkeypatch.setattr(services, "operator", lambda: policy.read({**OPERATOR, "HOST": listens}))
        name, _, path = address.partition("/")
        headers = [(b"host", name.encode())]
        return room_address.shared(
            Request(
                {"type": "http", "method": "GET", "path": f"/{path}", "query_string": b"", "headers": headers}
            )
        )

    monkeypatch.setattr(room_address, "network", lambda: "10.1.2.3")
    assert shared("0.0.0.0", "localhost:8501/r/C7KMNP/qr.svg") == "http://10.1.2.3:8501/r"
    assert shared("127.0.0.1", "localhost:8501/r/C7KMNP/screen") is None
    assert shared("127.0.0.1", "lab.example/specdec/r/C7KMNP/host") == "http://lab.example/specdec/r"
    monkeypatch.undo()
    found = room_address.network()
    assert found is None or not policy.is_loopback(found)


def test_what_no_page_sends_is_a_sentence(rooms: Rooms, visitor: Callable[[], TestClient]) -> None:
    """Catches: a traceback over an unhashable move, lists nested to the limit or an origin that is no address; half an
    emoji that is stored, after which no page of the room can be written again."""
    teacher = visitor()
    made = teacher.post("/r/start", json={"lessons": ["race"], "language": "en"}).json()
    code = made["code"]
    drive_at = f"/r/{code}/host/drive"
    teacher.post(f"/r/{code}/host", json={"secret": made["host"]})
    for move in ([], {}, None, 1):
        refused = teacher.post(drive_at, json={"move": move, "step": 0})
        assert (refused.status_code, "moved on" in refused.json()["error"]) == (409, True), move
    for at, move in enumerate(("open", "close", "reveal", "follow")):
        sent = teacher.post(drive_at, json={"move": move, "lesson": "race", "step": at})
        assert sent.status_code == 204, sent.text
    half = '{"move": "control", "control": "x", "value": "a\\ud83d", "step": 4}'
    assert teacher.post(drive_at, content=half).status_code == 204
    room = rooms.room(code)
    assert room is not None
    assert room.now.moves == (("x", "a"),)
    nested = half.replace('"a\\ud83d"', "[" * 900 + "]" * 900)
    assert teacher.post(drive_at, content=nested).status_code in (204, 400)
    refused = teacher.post(drive_at, content=half, headers={"origin": "http://["})
    assert (refused.status_code, "own pages" in refused.json()["error"]) == (403, True)


def test_codes_cannot_be_tried_one_after_the_other(visitor: Callable[[], TestClient]) -> None:
    """Catches: a room found by trying; whoever sits in one is not shut out by it."""
    teacher, student, guesser = visitor(), visitor(), visitor()
    code = teacher.post("/r/start", json={"lessons": ["race"]}).json()["code"]
    assert student.post(f"/r/{code}/join", json={}).status_code == 200
    tries = [guesser.post(f"/r/{codes.code()}/join", json={}).status_code for _ in range(6)]
    assert tries == [404] * 5 + [429]
    assert guesser.post(f"/r/{code}/join", json={}).status_code == 429
    for guess in (code, codes.code()):  # a cookie of one's own making opens nothing
        guesser.cookies.set(f"specdec_seat_{guess}", codes.token())
        assert guesser.post(f"/r/{guess}/join", json={}).status_code == 429
    assert student.post(f"/r/{code}/join", json={}).status_code == 200


def test_a_full_room_says_so(rooms: Rooms, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MOST_SEATS", 1)
    code, _ = opened(rooms)
    with pytest.raises(RoomRefused, match="full"):
        rooms.join(code, codes.token(), "")
