"""A room without its pages: states, codes, tallies, what each page may show, the export."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.course.files import reading
from app.room import codes, export, host_actions, lesson_plan, states, tally
from app.room.asked import Asked, asked
from app.room.limits import Limit
from app.room.pages import views
from app.room.pages.marked import html
from app.room.runs import running
from app.room.states import MOVES, Now, Room, RoomRefused
from app.room.tally import Vote

LESSONS = [key for _, key, _, _ in reading.titles("en")]
ANSWERS = {"right", "outcome", "why", "answer", "band", "tallies", "beliefs", "advice", "results"}


def room_at(now: Now, order: tuple[str, ...] = ("coin", "length")) -> Room:
    return Room("CODE34", 0.0, "en", False, order, now, 1)


def driven(*moves: str, lesson: str = "coin") -> Now:
    now = Now()
    for at, move in enumerate(moves):
        now = states.step(now, move, float(at), lesson)
    return now


def answers(question: Asked, student: str, vote: int = 1, wrong: bool = False) -> Vote:
    """A right answer, or a wrong one."""
    if question.kind == "number":
        given: Any = question.lesson.front.predict.low if wrong else question.answer
    else:
        given = next(key for key in question.items if (key in question.right) != wrong)
        given = given if question.kind == "choice" else [given] if wrong else sorted(question.right)
    return Vote(
        student, question.lesson.id, question.part, vote, given, question.is_right(given), 3.0, float(vote)
    )


def test_every_state_leads_on_and_only_as_allowed() -> None:
    """Catches: a state that a class is stuck in, and a move that skips the vote."""
    reached = {Now().state}
    for _ in range(6):
        for state in list(reached):
            for move in MOVES[state]:
                reached.add(states.step(replace(Now(), state=state), move, 0.0, "coin").state)
    assert reached == set(MOVES)
    for state, allowed in MOVES.items():
        for move in {each for moves in MOVES.values() for each in moves} - set(allowed):
            with pytest.raises(RoomRefused):
                states.step(replace(Now(), state=state), move, 0.0, "coin")
    again = driven("open", "close", "discuss", "again")
    assert (again.state, again.vote, again.part) == ("open", 2, "predict")
    assert driven("open", "close", "reveal", "check", "close", "discuss", "again").state == "check"


@pytest.mark.parametrize(
    ("right", "of", "said"),
    [(0, 0, None), (29, 100, "explain"), (30, 100, "discuss"), (70, 100, "discuss"), (71, 100, "reveal")],
)
def test_the_advice_after_a_vote(right: int, of: int, said: str | None) -> None:
    assert states.advice(right, of) == said


def test_a_room_ends_by_itself_after_twelve_hours() -> None:
    now = driven("open")
    assert states.ended(now, 0.0, states.LIFE_S - 1) is now
    assert states.ended(now, 0.0, states.LIFE_S).state == "ended"


def test_where_a_room_is_survives_the_database() -> None:
    """Catches: a field of the state that is lost, or comes back as another type, after a restart."""
    now = replace(
        driven("open", "close", "discuss", "again", "close", "reveal", "follow"),
        moves=(("a", ["B"]), ("b", None)),
    )
    assert Now.from_json(json.loads(json.dumps(now.to_json()))) == now
    before = {**now.to_json(), "pointer": [1, 0.2, 0.7, [0, "text"]]}  # an earlier version's host could point
    assert Now.from_json(json.loads(json.dumps(before))) == now


def test_the_class_follows_a_player() -> None:
    """Catches: a list of moves that grows with each step of the host's, a cursor with anything else in it."""
    room = room_at(driven("open", "close", "reveal", "follow", lesson="trees"))
    body = {"step": room.now.step, "move": "control", "control": "player"}
    for at in (3, 4):
        cursor = {
            "round": at,
            "step": None,
            "view": "mask",
            "of": "trees-watch-medusa",
            "html": "<b>",
            "node": [1],
        }
        room = host_actions.changed(room, 1.0, {**body, "value": {"cursor": cursor}})
    kept = {"round": 4, "step": None, "node": None, "lead": None, "view": "mask", "of": "trees-watch-medusa"}
    assert room.now.moves == (("player", {"cursor": kept}),)
    assert views.student(room, "de", [], 0.0)["moved"] == [["player", {"cursor": kept}]]


def test_codes_cannot_be_misread_or_guessed() -> None:
    """Catches: look-alikes, words, and codes that follow from one another."""
    made = {codes.code() for _ in range(500)}
    assert len(made) > 497  # of 86 million: two alike happen once in 700 times, three pairs never
    assert not set("".join(made)) & set("0O1IL2Z5S8BUVAE")
    assert all(codes.is_code(codes.typed(f" {code[:3].lower()}-{code[3:]} ")) for code in made)
    assert len(codes.LETTERS) ** codes.LENGTH > 5e7


def test_a_limit_holds_and_ends() -> None:
    clock = [0.0]
    limit = Limit(2, 60.0, lambda: clock[0])
    assert [limit.count("a") for _ in range(3)] == [False, False, True]
    assert not limit.reached("b")
    clock[0] = 61.0
    assert not limit.reached("a")


def test_a_button_counts_for_what_the_host_saw() -> None:
    """Catches: a second press, or one on the host's phone meanwhile, that leads the room on twice."""
    room = room_at(driven("open"))
    closed = host_actions.changed(room, 1.0, {"move": "close", "step": room.now.step})
    with pytest.raises(RoomRefused):
        host_actions.changed(closed, 1.0, {"move": "reveal", "step": room.now.step})
    for body in (
        {"move": "open", "lesson": "no-such"},
        {"move": "fly"},
        {},
    ):
        with pytest.raises(RoomRefused):
            host_actions.changed(room_at(driven("open", "close", "reveal")), 1.0, {"step": 3, **body})


def test_a_lesson_is_inserted_next_and_once() -> None:
    room = room_at(driven("open"), ("race", "coin", "length"))
    moved = host_actions.changed(room, 1.0, {"move": "insert", "lesson": "race", "step": 1})
    assert moved.order == ("coin", "race", "length")


@pytest.mark.parametrize("key", LESSONS)
def test_nothing_about_the_answer_is_sent_before_the_reveal(key: str) -> None:
    """Catches: a right option, a note or a count in what a student gets: the same is sent, whatever the answer is."""
    for part in ("predict", "check"):
        question = asked("en", key, views.part_of(part))
        assert question is not None
        first = ("open",) if part == "predict" else ("open", "close", "reveal", "check")
        for moves in (
            first,
            (*first, "close"),
            (*first, "close", "discuss"),
            (*first, "close", "discuss", "again"),
        ):
            now = driven(*moves, lesson=key)
            mine = [answers(question, "me", wrong=True)]
            sent = views.student(room_at(now), "en", mine, 0.0)
            assert not ANSWERS & every_key(sent), now.state
            assert "right" not in sent["mine"]["1"]
            text = json.dumps(sent, ensure_ascii=False)
            for item in question.items.values():
                assert not item.note or json.dumps(html(item.note), ensure_ascii=False)[1:-1] not in text
            shown = views.screen(room_at(now), [answers(question, "you")], 2, 0.0)
            assert not ANSWERS & every_key(shown), now.state
            assert not views.may_see(now, "watch")
            assert not views.may_see(now, "change")
        sent = views.student(room_at(driven(*first, "close", "reveal", lesson=key)), "en", mine, 0.0)
        assert sent["outcome"]
        assert sent["mine"]["1"]["right"] is False


@pytest.mark.parametrize("key", LESSONS)
def test_what_is_sent_does_not_depend_on_the_answer(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: a right option in whatever field of a page, before the reveal: an order, a class, a number."""
    for part in ("predict", "check"):
        question = asked("en", key, views.part_of(part))
        assert question is not None
        lesson = question.lesson
        other = next(iter(sorted(question.items.keys() - question.right)), "")
        right = {**lesson.right, part: frozenset({other})}
        answer = None if lesson.answer is None else lesson.answer / 2 + 1
        turned = replace(question, lesson=replace(lesson, right=right, answer=answer))
        first = ("open",) if part == "predict" else ("open", "close", "reveal", "check")
        mine, others = [answers(question, "me", wrong=True)], [answers(question, "you")]

        def sent(given: Asked, now: Now, others: list[Vote], mine: list[Vote] = mine) -> str:
            monkeypatch.setattr(views, "asked", lambda language, lesson, part: given)
            pages = [
                views.student(room_at(now), "en", mine, 0.0),
                views.screen(room_at(now), others, 2, 0.0),
            ]
            return json.dumps(pages)

        for more in ((), ("close",), ("close", "discuss"), ("close", "discuss", "again")):
            now = driven(*first, *more, lesson=key)
            assert sent(question, now, others) == sent(turned, now, others), now.state
            assert sent(question, now, others) == sent(question, now, [answers(question, "you", wrong=True)])
        now = driven(*first, "close", "reveal", lesson=key)
        assert sent(question, now, others) != sent(turned, now, others)


def every_key(value: Any) -> set[str]:
    """The keys of all mappings in it, and options' keys where votes are counted by them."""
    if isinstance(value, dict):
        return set(value).union(*map(every_key, value.values()))
    return set().union(*map(every_key, value)) if isinstance(value, list | tuple) else set()


@pytest.mark.parametrize("key", LESSONS)
def test_every_lesson_runs_in_a_room(key: str) -> None:
    """Catches: a lesson whose question, answer, tally or text a room cannot take; and markup that stays raw."""
    for part in ("predict", "check"):
        question = asked("en", key, views.part_of(part))
        assert question is not None
        votes = [answers(question, "a"), answers(question, "b", wrong=True), answers(question, "b", vote=2)]
        for vote in votes:
            assert question.read(json.loads(json.dumps(vote.given))) == vote.given
        assert question.read("no-such") is None
        found = tally.count(question, votes, 1)
        assert (found.answered, found.right) == (2, 1)
        assert tally.changed(votes)["gained"] == 1
        moves = (
            ("open", "close", "reveal", "follow")
            if part == "predict"
            else ("open", "close", "reveal", "check")
        )
        seen = views.host(
            room_at(driven(*moves, lesson=key), (key,)), votes, 2, 0, 0.0, lesson_plan.titles("en")
        )
        text = json.dumps([seen, views.student(room_at(driven(*moves, lesson=key)), "en", votes[:1], 0.0)])
        assert "$" not in text.replace("${", "")
        assert ":material" not in text


@pytest.mark.parametrize("key", LESSONS)
def test_options_have_one_order_on_all_screens(key: str) -> None:
    """Catches: a class that talks of B, which is another answer on the projector than on a phone."""
    for moves in (("open",), ("open", "close", "reveal", "check")):
        room = room_at(driven(*moves, lesson=key))
        screen = views.screen(room, [], 2, 0.0)
        assert [option for option, _ in views.student(room, "de", [], 0.0)["options"]] == [
            option for option, _ in screen["options"]
        ]


def test_languages_count_together() -> None:
    """Catches: a vote in another language that counts as another option; a language that the course lacks."""
    found, english = asked("xx", "race", "predict"), asked("en", "race", "predict")
    assert found is not None
    assert english is not None
    assert found.lesson == english.lesson


def test_the_export_pairs_both_votes_and_names_nobody() -> None:
    """Catches: a seat's digest in a file, two rows for one student's question, a formula for a spreadsheet."""
    question = asked("en", "race", "predict")
    assert question is not None
    votes = [answers(question, "secret-seat", wrong=True), answers(question, "secret-seat", vote=2)]
    found = export.rows(room_at(driven("open")), votes, {"secret-seat": "=1+1"}, 9.0)
    assert len(found) == 1
    assert (found[0]["right_1"], found[0]["right_2"], found[0]["student"]) == (False, True, 1)
    for text in (export.as_csv(found), export.as_json(room_at(Now()), found)):
        assert "secret-seat" not in text
    assert "'=1+1" in export.as_csv(found)


def test_the_export_tells_votes_from_what_is_none() -> None:
    """Catches: raised cards as students, one vote's cards under the other's count, a vote of nobody, a tree's measures
    as a right answer in Python's notation."""
    tree = {"model": "Tiny", "width": 2, "speed": 9.5}
    votes = [
        Vote("paper both", "race", "predict", 1, "both", True, 1.0, 1.0, 12),
        Vote("paper code", "race", "predict", 1, "code", False, 1.0, 1.0, 0),
        Vote("paper both", "race", "predict", 2, "both", True, 1.0, 2.0, 5),
        Vote("seat", "race", "predict", 1, "code", False, 1.0, 3.0),
        Vote("seat", "race", tally.OWN, 1, tree, True, 1.0, 4.0),
    ]
    found = export.rows(room_at(driven("open")), votes, {}, 9.0)
    assert [(row["by"], row["student"], row["vote_1"], row["vote_2"], row["count"]) for row in found[:3]] == [
        ("cards", "", "both", "", 12),
        ("cards", "", "", "both", 5),
        ("student", 1, "code", "", 1),
    ]
    assert (len(found), found[3]["vote_1"], found[3]["right_1"]) == (4, tree, "")
    cell = next(csv.DictReader(io.StringIO(export.as_csv(found[3:]))))["vote_1"]
    assert json.loads(cell) == tree


def test_of_how_many_counts_those_who_raised_cards() -> None:
    """Catches: six of three who answered."""
    votes = [Vote("paper both", "race", "predict", 1, "both", True, 1.0, 1.0, 4)]
    votes += [Vote(seat, "race", "predict", 1, "code", False, 1.0, 1.0) for seat in "ab"]
    room = room_at(driven("open", lesson="race"))
    for here, of in ((3, 7), (1, 6)):
        seen = views.screen(room, votes, here, 0.0)
        assert (seen["answered"], seen["of"]) == (6, of)


def test_a_student_s_results_name_what_was_not_answered() -> None:
    """Catches: a question that the class had and the results leave out; a number without how near it had to be."""
    question = asked("de", "length", "predict")
    assert question is not None
    now = replace(
        driven("open", "close", "reveal", "check", "close", "reveal", lesson="length"), state="ended"
    )
    mine = [answers(question, "me"), Vote("me", "", "run 1 round 1", 1, "accepted", True, 1.0, 1.0)]
    mine.append(replace(mine[1], part="run 1 round 2"))
    seen = views.student(room_at(replace(now, unseen=("run 1 round 2",))), "de", mine, 0.0)
    assert [len(row["said"]) for row in seen["results"]] == [1, 0]
    assert seen["results"][0]["outcome"] == "3,69 (3,4 bis 3,98 gilt als richtig)"
    assert seen["hits"] == (1, 1)


def test_what_counts_as_right_is_said_exactly() -> None:
    """Catches: a bound that is rounded outwards, so that who answers with it reads that it is right, and is wrong."""
    for question in filter(None, (asked("en", key, "predict") for key in LESSONS)):
        if question.answer is None or not question.band:
            continue
        said = re.fullmatch(r"\S+ \((\S+) to (\S+) counts as right\)", question.outcome())
        assert said is not None
        low, high = float(said[1]), float(said[2])
        assert question.is_right(low) and question.is_right(high)
        assert not question.is_right(low - 0.01) and not question.is_right(high + 0.01)


def test_a_question_is_discussed_once() -> None:
    """Catches: a host told after the second vote, or after late votes on it, to let the class vote again: a third vote,
    in which everybody's answer is locked in already."""
    question = asked("en", "race", "predict")
    assert question is not None
    votes = [answers(question, seat, vote, wrong=vote == 1) for seat in "ab" for vote in (1, 2)]
    before = ("open", "close", "discuss", "again", "close")
    for moves, said, offered in (
        (before[:2], "explain", ["discuss", "reveal", "end"]),
        ((*before[:2], "reveal", "open", "close"), "explain", ["discuss", "reveal", "end"]),
        (before, None, ["reveal", "end"]),
        ((*before, "reveal", "open", "close"), None, ["reveal", "end"]),
        ((*before, "reveal", "check", "close"), None, ["discuss", "reveal", "end"]),
    ):
        cast = [vote for vote in votes if vote.vote == 1 or "again" in moves]
        room = room_at(driven(*moves, lesson="race"), ("race",))
        seen = views.host(room, cast, 2, 0, 0.0, lesson_plan.titles("en"))
        assert (seen["advice"], seen["moves"]) == (said, offered), moves
    with pytest.raises(RoomRefused):
        states.step(driven(*before), "discuss", 9.0)


QUIET = {  # what no page of ours can bring about
    "This request cannot be read.", "This request is too large.", "This picture is not open now.",
    "This is accepted only from this server's own pages.", "There is no such file.", "The step is missing.",
    "The course has no such lesson.",
    "This lesson is not one of this room's.", "Cards can be counted while a question with one answer is open.",
    "Choose a width and a depth.",
}  # fmt: skip


def test_what_the_server_refuses_is_said_in_german() -> None:
    """Catches: a German page with an English refusal on it, because the sentence was changed or is new."""
    folder = Path(host_actions.__file__).parent
    said: set[str] = set()
    for path in (*folder.rglob("*.py"), *(folder.parent / "web").glob("room*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for call in ast.walk(tree):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("Stop", "RoomRefused"):
                whole = [
                    each
                    for given in call.args
                    for each in ast.walk(given)
                    if not isinstance(given, ast.JoinedStr)
                ]
                said |= {
                    str(each.value)
                    for each in whole
                    if isinstance(each, ast.Constant) and str(each.value).endswith(".")
                }
    german = lesson_plan.refusals("de")
    assert len(said) > 15
    assert "There is no room with this code." in said
    assert (said | {states.MOVED_ON}) - set(german) == QUIET
    assert f"Type a prompt of up to {running.MOST_PROMPT} characters." in german
    assert (
        f"A tree here has a width of 1 to {running.MAX_BRANCHES} and a depth of 1 to {running.MAX_GUESSES}."
        in german
    )
    assert all(own != sentence for sentence, own in german.items())
    assert lesson_plan.refusals("en") == dict(zip(german, german, strict=True))


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("de-DE", "de"),
        ("fr,de;q=0.7,en;q=0.3", "de"),
        ("en-GB,de", "en"),
        ("fr", "en"),
        ("", "en"),
        (";,-", "en"),
    ],
)
def test_a_page_speaks_the_browser_s_language(accepted: str, language: str) -> None:
    assert lesson_plan.read(accepted) == language


def test_markup_of_a_text_stays_text() -> None:
    assert "<b>" not in html("<b>x</b>")
    assert html(r"it keeps $\sum_x \min(p, q)$ of them") == "<p>it keeps Σₓ min(p, q) of them</p>\n"
    assert html(r"$(1-\alpha^{\gamma+1})/(1-\alpha)$") == "<p>(1-α^(γ+1))/(1-α)</p>\n"  # not α^γ + 1
