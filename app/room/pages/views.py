"""What each page may show in each state. `student` makes everything that is sent to a student, and nothing else is.

Before its state allows, no right option, no note, no count and nobody else's answer is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.course.files import reading
from app.room import states, tally
from app.room.asked import Asked, asked
from app.room.states import ASKING, STEERED, Now, Part, Room, advice
from app.room.tally import Vote

from . import views_run
from .marked import html, inline

PARTS = ("predict", "check")  # a lesson's questions; other votes are on a run
Seen = Mapping[str, Any]
RESULTS = ("reveal", "follow", "play")


def student(
    room: Room,
    language: str,
    mine: Sequence[Vote],
    at: float,
    run: Seen | None = None,
) -> dict[str, Any]:
    """What a student's page shows; `mine` are this student's own votes, `run` is what `views_run.followed` made."""
    now, question = room.now, current(room, language)
    seen: dict[str, Any] = {"state": now.state, "step": now.step, "vote": now.vote, "part": now.part}
    if now.state == "ended":
        return {**seen, "results": results(room, language, mine), "hits": views_run.hits(now, mine)}
    if run is not None:
        return {**seen, "run": {**run, **views_run.student(now, run, mine)}, "left": _left(now, at)}
    if question is None or now.state == "waiting":
        return seen
    seen["title"] = f"{question.lesson.number} · {question.lesson.front.title}"
    seen["mine"] = {
        str(vote.vote): {"said": inline(question.said(vote.given)), "given": vote.given}
        for vote in of_question(mine, now)
    }
    if now.state in (*ASKING, "locked", "discuss"):
        seen |= _asking(question)
        seen |= {"left": _left(now, at)}
    if now.state in RESULTS:
        seen |= {"outcome": inline(question.outcome()), "why": html(question.why())}
        for vote in of_question(mine, now):
            seen["mine"][str(vote.vote)]["right"] = vote.right
    if now.state in ("follow", "play"):
        seen |= _followed(question, now)
    if now.state == "play":
        seen["own"] = views_run.own(mine, now.lesson)
    return seen


def screen(
    room: Room, votes: Sequence[Vote], here: int, at: float, run: Seen | None = None
) -> dict[str, Any]:
    """What the projector shows: the question and how many have answered; bars once they are revealed."""
    now, question = room.now, current(room, room.language)
    seen: dict[str, Any] = {
        "state": now.state,
        "step": now.step,
        "vote": now.vote,
        "part": now.part,
        "here": here,
        "code": room.code,
    }
    if run is not None:
        seen |= {"run": run, "left": _left(now, at)}
        answered = sum(views_run.counted(now, votes).values())
        return {**seen, "answered": answered, "of": max(here, answered)} if run["asking"] else seen
    if question is None or now.state in ("waiting", "ended"):
        return seen
    seen |= {
        "title": f"{question.lesson.number} · {question.lesson.front.title}",
        **_answered(tally.count(question, votes, now.vote), here),
        "left": _left(now, at),
        **_asking(question),
    }
    if now.state in RESULTS:
        seen |= _revealed(question, votes)
    if now.state in ("follow", "play"):
        seen |= _followed(question, now)
    if now.state == "play":
        seen["challenge"] = views_run.challenge(votes, now.lesson)
    return seen


def host(
    room: Room,
    votes: Sequence[Vote],
    here: int,
    lost: int,
    at: float,
    titles: Mapping[str, str],
    run: Seen | None = None,
) -> dict[str, Any]:
    """What the host sees: everything."""
    now, question = room.now, current(room, room.language)
    seen = screen(room, votes, here, at, run)
    seen |= {
        "moves": _moves(now, run),
        "lesson": now.lesson,
        "lost": lost,
        "lessons": dashboard(room, votes, titles),
        "others": [[key, title] for key, title in titles.items() if key not in room.order],
        "picture": now.picture,
    }
    if now.state == "run":
        seen["counted"] = views_run.counted(now, votes)
    if question is None or now.state == "ended":
        return seen
    seen["pictures"] = [step for step in ("watch", "change") if question.picture(step) is not None]
    if now.state == "run":
        return seen
    found = tally.count(question, votes, 1)
    seen |= _revealed(question, votes)
    seen |= {
        "advice": advice(found.right, found.answered) if "discuss" in seen["moves"] else None,
        "beliefs": {key: inline(question.belief(key)) for key in question.items if key not in question.right},
    }
    return seen


def _moves(now: Now, run: Seen | None) -> list[str]:
    """The buttons that the host has: without a lesson none about one, of a run those that can do something now."""
    moves = [move for move in states.possible(now) if now.lesson or move not in ("follow", "check")]
    if run is None:
        return moves
    of_run = ("verdict",) if run["asking"] else () if run["over"] else ("ask", "on")
    return [move for move in moves if move not in STEERED or move in of_run]


def dashboard(room: Room, votes: Sequence[Vote], titles: Mapping[str, str]) -> list[dict[str, Any]]:
    """Lesson by lesson: how many answered, how many were right, the commonest mistake and what helps against it."""
    rows = []
    for lesson in room.order:
        row: dict[str, Any] = {"lesson": lesson, "title": titles.get(lesson, lesson), "parts": []}
        for part in ("predict", "check"):
            if f"{lesson}/{part}" in room.now.asked and (question := asked(room.language, lesson, part)):
                row["parts"].append(_part(room, question, votes))
        rows.append(row)
    return rows


def _part(room: Room, question: Asked, votes: Sequence[Vote]) -> dict[str, Any]:
    first, second = (tally.count(question, votes, vote) for vote in (1, 2))
    wrong = tally.commonest(question, votes)
    missed = question.lesson.front.check.misconception(wrong or "") if question.part == "check" else None
    return {
        "part": question.part,
        "answered": first.answered,
        "first": first.right,
        "again": second.answered,
        "second": second.right,
        "belief": inline(question.belief(wrong) or question.items[wrong].text) if wrong else "",
        "helps": helps(room, missed, question.lesson.id) if missed else None,
    }


def helps(room: Room, misconception: str, but: str) -> list[str] | None:
    """A lesson about that misconception that the room has not asked yet: its id and title."""
    covered = reading.misconceptions(room.language)
    for number, key, title, _ in reading.titles(room.language):
        if misconception in covered[key] and key != but and f"{key}/predict" not in room.now.asked:
            return [key, f"{number} · {title}"]
    return None


def results(room: Room, language: str, mine: Iterable[Vote]) -> list[dict[str, Any]]:
    """A student's own answers beside the right ones, once the room has ended; of a question without one, none."""
    given = sorted((vote for vote in mine if vote.part in PARTS), key=lambda vote: (vote.at, vote.vote))
    rows = []
    for name in dict.fromkeys([*room.now.asked, *(f"{vote.lesson}/{vote.part}" for vote in given)]):
        lesson, _, part = name.partition("/")
        question = asked(language, lesson, part_of(part))
        if question is None:
            continue
        said = [
            {"said": inline(question.said(vote.given)), "right": vote.right}
            for vote in given
            if f"{vote.lesson}/{vote.part}" == name
        ]
        rows.append(
            {
                "title": f"{question.lesson.number} · {question.lesson.front.title}",
                "question": html(question.prose),
                "outcome": inline(question.outcome()),
                "said": said,
            }
        )
    return rows


def current(room: Room, language: str) -> Asked | None:
    """The question that the room is at."""
    return asked(language, room.now.lesson, room.now.part) if room.now.lesson else None


def of_question(votes: Iterable[Vote], now: Now) -> list[Vote]:
    """The votes on the question that the room is at."""
    return [vote for vote in votes if vote.lesson == now.lesson and vote.part == now.part]


def may_see(now: Now, step: str) -> bool:
    """Whether a student or the projector may have the picture of this step now; the later ones answer the question."""
    if step == "predict":
        return now.part == "predict" and now.state in (*ASKING, "locked", "discuss", *RESULTS)
    return now.state in ("follow", "play") and step == now.picture


def _answered(found: tally.VoteTally, here: int) -> dict[str, int]:
    """How many answered, of how many: those without a device, who raised cards, are not among those who are here."""
    devices = found.answered - found.cards
    return {"answered": found.answered, "of": max(here, devices) + found.cards}


def _asking(question: Asked) -> dict[str, Any]:
    front = question.lesson.front.predict
    asking: dict[str, Any] = {
        "hook": inline(question.hook),
        "prose": html(question.prose),
        "kind": question.kind,
        "options": [[key, inline(question.items[key].text)] for key in question.order()],
        "still": question.part == "predict" and question.picture("predict") is not None,
    }
    if question.kind == "number":
        asking["scale"] = {"low": front.low, "high": front.high, "step": front.step}
    return asking


def _revealed(question: Asked, votes: Sequence[Vote]) -> dict[str, Any]:
    return {
        "tallies": [tally.as_json(tally.count(question, votes, vote)) for vote in (1, 2)],
        "right": sorted(question.right),
        "answer": question.answer,
        "band": question.band,
        "outcome": inline(question.outcome()),
        "why": html(question.why()),
    }


def _followed(question: Asked, now: Now) -> dict[str, Any]:
    return {
        "picture": now.picture,
        "text": html(question.lesson.sections[now.picture].prose),
        "moved": len(now.moves) and [list(move) for move in now.moves],
    }


def _left(now: Now, at: float) -> float | None:
    return None if now.until is None else max(0.0, round(now.until - at, 1))


def part_of(name: str) -> Part:
    """A question's part by its name."""
    return "check" if name == "check" else "predict"
