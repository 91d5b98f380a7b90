"""What each page may show of a run: the class's, and the students' own.

While the class votes on a round, nothing of its verdict is sent, and no count of the votes but to the host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.room import tally
from app.room.runs import together
from app.room.runs.running import MAX_BRANCHES, MAX_GUESSES, NODES
from app.room.runs.together import ANSWERS, ClassRound, ClassRun, RunProgress
from app.room.states import Now
from app.room.tally import Vote

BEST = 3


def moment(now: Now, said: RunProgress, at: float) -> tuple[int, bool]:
    """How many rounds the pages show at this time, and whether the class votes on the next one."""
    run = now.run or ClassRun()
    count = together.shown(run, now.since, now.until, len(said.rounds), at)
    return count, together.is_open(run, now.until, at)


def followed(now: Now, said: RunProgress, votes: Sequence[Vote], at: float) -> dict[str, Any]:
    """The class's run as every page has it; `votes` are the whole class's."""
    run, (count, asking) = now.run or ClassRun(), moment(now, said, at)
    rounds = said.rounds[:count]
    ended = said.over and count >= len(said.rounds)
    return {
        "prompt": run.prompt,
        "model": run.model,
        "pieces": [list(piece) for each in rounds for piece in each.pieces],
        "rounds": count,
        "alpha": together.rate(rounds),
        "class": tally.class_hits(votes, closed(run, count)),
        "asking": asking,
        "guesses": list(said.rounds[count].guesses) if asking and count < len(said.rounds) else [],
        "verdict": _verdict(rounds[-1], run, count - 1, votes)
        if rounds and not asking and not run.pace
        else None,
        "place": said.place,
        "lost": said.lost and ended,
        "error": said.error if ended and not said.lost else "",
        "over": ended,
    }


def student(now: Now, seen: Mapping[str, Any], mine: Sequence[Vote]) -> dict[str, Any]:
    """What a student's page adds to that: how this student voted."""
    run, count = now.run or ClassRun(), seen["rounds"]
    given = {vote.part: vote for vote in mine}
    asked = given.get(run.part) if seen["asking"] else None
    last = given.get(together.part(run.number, count - 1))
    return {
        "mine": asked.given if asked else None,
        "last": {"given": last.given, "right": last.right} if last else None,
        "hits": tally.class_hits(mine, closed(run, count)),
    }


def hits(now: Now, mine: Iterable[Vote]) -> tuple[int, int]:
    """Of a student's votes on all runs' rounds whose verdict was shown: how many were right, and how many there are."""
    return tally.class_hits(
        mine, {vote.part for vote in mine if together.is_round(vote.part)} - set(now.unseen)
    )


def counted(now: Now, votes: Iterable[Vote]) -> dict[str, int]:
    """How many said what of the round that is voted on."""
    part = now.run.part if now.run is not None else ""
    found = [vote.given for vote in votes if vote.part == part]
    return {answer: found.count(answer) for answer in ANSWERS}


def own(mine: Iterable[Vote], lesson: str) -> dict[str, Any]:
    """A student's own runs: what can be chosen, and the best so far."""
    best = tally.fastest(mine, lesson)
    return {"nodes": NODES, "widest": MAX_BRANCHES, "deepest": MAX_GUESSES, "best": best[0] if best else None}


def challenge(votes: Iterable[Vote], lesson: str) -> dict[str, Any]:
    """The fastest of the students' own trees, and how many students have run one."""
    found = tally.fastest(votes, lesson)
    return {"nodes": NODES, "best": found[:BEST], "ran": len(found)}


def closed(run: ClassRun, count: int) -> set[str]:
    """The parts of the rounds that the pages show: only these votes may be counted on a page."""
    return {together.part(run.number, at) for at in range(count)}


def _verdict(found: ClassRound, run: ClassRun, at: int, votes: Iterable[Vote]) -> dict[str, Any]:
    """How the first guess of a round was judged, and how many of the class had said so."""
    right, of = tally.class_hits(votes, {together.part(run.number, at)})
    return {"was": found.first, "guess": found.guesses[0] if found.guesses else "", "right": right, "of": of}
