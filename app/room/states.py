"""What a room is doing: its states, who may lead from one to the next, and what to do after a vote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from .runs.together import VOTE_S, ClassRun, RunProgress, is_open, shown

State = Literal["waiting", "open", "locked", "discuss", "reveal", "follow", "play", "run", "check", "ended"]
Part = Literal["predict", "check"]
Advice = Literal["explain", "discuss", "reveal"]

ASKING = ("open", "check")  # a vote may be cast
LIFE_S = 12 * 3600.0  # then a room ends by itself
KEPT_S = 7 * 24 * 3600.0  # and after this it is deleted
DISCUSS_S, OPEN_S, MORE_S = 120.0, 90.0, 30.0
MOST_MOVES = 60  # of controls, on a picture that a class follows
FEW, MANY = 0.3, 0.7
STEERED = ("ask", "verdict", "on")  # moves on the run that the class follows
MOVED_ON = "The room has moved on; this button no longer applies."


@dataclass(frozen=True, slots=True)
class Now:
    """Where a room is. `step` counts the host's steps; `lesson` is "" before the first question."""

    state: State = "waiting"
    lesson: str = ""
    part: Part = "predict"
    vote: int = 1
    step: int = 0
    since: float = 0.0
    until: float | None = None
    """When the timer runs out, in seconds since 1970; it closes nothing by itself."""
    picture: str = "watch"
    """The step of the lesson whose picture is followed: watch or change."""
    moves: tuple[tuple[str, Any], ...] = ()
    """What was done with the picture's controls, in order: a control's id and its value."""
    asked: tuple[str, ...] = field(default=())
    """What has been asked so far, as `lesson/part`."""
    twice: tuple[str, ...] = ()
    """What of it has been voted on a second time."""
    run: ClassRun | None = None
    """The class's latest run."""
    unseen: tuple[str, ...] = ()
    """The rounds of runs that were voted on, and left before their verdict was shown."""

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @staticmethod
    def from_json(given: dict[str, Any]) -> Now:
        """Back from plain values; a room of an earlier version also has where its host pointed."""
        moves = tuple((str(key), value) for key, value in given.get("moves", ()))
        run = ClassRun(**given["run"]) if given.get("run") else None
        lists = {name: tuple(given.get(name, ())) for name in ("asked", "twice", "unseen")}
        known = {name: value for name, value in given.items() if name != "pointer"}
        return Now(**{**known, "moves": moves, "run": run, **lists})

    def secret(self, at: float) -> tuple[str, ...]:
        """The round that is voted on at this time: its verdict is on no page yet."""
        voting = self.state == "run" and self.run is not None and is_open(self.run, self.until, at)
        return (self.run.part,) if self.run is not None and voting else ()

    def votes_on(self, at: float) -> tuple[str, str, int] | None:
        """What a vote counts for at this time: its lesson, part and number; None while none is taken."""
        if self.state in ASKING:
            return self.lesson, self.part, self.vote
        part = next(iter(self.secret(at)), None)
        return None if part is None else (self.lesson, part, 1)


@dataclass(frozen=True, slots=True)
class Room:
    """A room as it is stored. `order` are the lessons' ids; `named`: whether students may give a nickname."""

    code: str
    created: float
    language: str
    named: bool
    order: tuple[str, ...]
    now: Now
    version: int


class RoomRefused(ValueError):
    """The host asked for what the room cannot do now; its text can be shown."""


def step(
    now: Now, move: str, at: float, lesson: str = "", picture: str = "watch", run: ClassRun | None = None
) -> Now:
    """The room after the host's move; `run` is the class's run after it, where the move concerns one.

    Raises:
        Refused: if that move does not lead on from here.
    """
    if move not in possible(now):
        raise RoomRefused(MOVED_ON)
    new = _MADE[move](now, at, lesson, picture)
    left = () if move == "verdict" else now.secret(at)
    return replace(new, step=now.step + 1, since=at, run=run or now.run, unseen=(*now.unseen, *left))


def possible(now: Now) -> tuple[str, ...]:
    """What leads on from here. A question is discussed once: in a third vote all answers would be locked in already."""
    voted_twice = f"{now.lesson}/{now.part}" in now.twice
    return tuple(move for move in MOVES[now.state] if not (move == "discuss" and voted_twice))


def steered(now: Now, move: str, heard: RunProgress, at: float) -> ClassRun:
    """The class's run after one of the moves `STEERED`.

    Raises:
        Refused: if there is nothing to vote on, or the vote is closed already.
    """
    run = now.run
    if run is None or (move == "verdict") != is_open(run, now.until, at):
        raise RoomRefused(MOVED_ON)
    if move == "verdict":
        return replace(run, shown=run.shown + 1, voting=False, pace=False)
    count = shown(run, now.since, now.until, len(heard.rounds), at)
    if move == "on":
        return replace(run, shown=count, voting=False, pace=True)
    following = (at for at in range(count, len(heard.rounds)) if heard.rounds[at].first is not None)
    asked = next(following, None)
    if asked is None:
        over = "This run has no further guess to vote on."
        raise RoomRefused(over if heard.over else "The next guess is not there yet; press again in a moment.")
    return replace(run, shown=asked, voting=True, pace=False)


def longer(now: Now, at: float) -> Now:
    """The same with more time on the clock."""
    return replace(now, until=max(now.until or at, at) + MORE_S)


def is_cursor(value: Any) -> bool:
    """Whether a move is where the host stands in a player, which the pages follow without another drawing."""
    return isinstance(value, dict) and "cursor" in value


def moved(now: Now, control: str, value: Any) -> Now:
    """The same with a control of the picture set; the last of several values of one control counts."""
    moves = now.moves
    if is_cursor(value):
        moves = tuple(move for move in moves if move[0] != control or not is_cursor(move[1]))
    elif moves and moves[-1][0] == control and value is not None and not isinstance(value, dict):
        moves = moves[:-1]
    return replace(now, moves=(*moves, (control, value))[-MOST_MOVES:])


def advice(right: int, answered: int) -> Advice | None:
    """What peer instruction suggests after a vote: under 30% right explain first, from there to 70% discuss."""
    if not answered:
        return None
    share = right / answered
    return "explain" if share < FEW else "discuss" if share <= MANY else "reveal"


def ended(now: Now, created: float, at: float) -> Now:
    """The room at this time: it ends by itself."""
    if now.state == "ended" or at - created < LIFE_S:
        return now
    return replace(now, state="ended", step=now.step + 1, since=created + LIFE_S, until=None)


def _asking(now: Now, at: float, state: State, part: Part, vote: int, lesson: str) -> Now:
    asked = tuple(dict.fromkeys((*now.asked, f"{lesson}/{part}")))
    return replace(
        now,
        state=state,
        lesson=lesson,
        part=part,
        vote=vote,
        until=at + OPEN_S,
        asked=asked,
        moves=(),
    )


def _open(now: Now, at: float, lesson: str, picture: str) -> Now:
    return _asking(now, at, "open", "predict", 1, lesson)


def _check(now: Now, at: float, lesson: str, picture: str) -> Now:
    return _asking(now, at, "check", "check", 1, now.lesson)


def _again(now: Now, at: float, lesson: str, picture: str) -> Now:
    new = _asking(now, at, "check" if now.part == "check" else "open", now.part, 2, now.lesson)
    return replace(new, twice=(*now.twice, f"{now.lesson}/{now.part}"))


def _follow(now: Now, at: float, lesson: str, picture: str) -> Now:
    same = now.picture == picture and now.state in ("follow", "play")
    return replace(now, state="follow", until=None, picture=picture, moves=now.moves if same else ())


def _to(state: State, seconds: float | None = None) -> Callable[[Now, float, str, str], Now]:
    def made(now: Now, at: float, lesson: str, picture: str) -> Now:
        return replace(now, state=state, until=None if seconds is None else at + seconds)

    return made


_MADE: dict[str, Callable[[Now, float, str, str], Now]] = {
    "open": _open,
    "check": _check,
    "close": _to("locked"),
    "discuss": _to("discuss", DISCUSS_S),
    "again": _again,
    "reveal": _to("reveal"),
    "follow": _follow,
    "play": _to("play"),
    "run": _to("run"),
    "ask": _to("run", VOTE_S),
    "verdict": _to("run"),
    "on": _to("run"),
    "wait": _to("waiting"),
    "end": _to("ended"),
}
MOVES: dict[State, tuple[str, ...]] = {
    "waiting": ("open", "run", "end"),
    "open": ("close", "end"),
    "check": ("close", "end"),
    "locked": ("discuss", "reveal", "end"),
    "discuss": ("again", "reveal", "end"),
    "reveal": ("follow", "check", "open", "run", "wait", "end"),
    "follow": ("follow", "play", "check", "open", "run", "wait", "end"),
    "play": ("follow", "check", "open", "run", "wait", "end"),
    "run": ("ask", "verdict", "on", "run", "follow", "check", "open", "wait", "end"),
    "ended": (),
}
