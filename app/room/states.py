"""What a room is doing: its states, who may lead from one to the next, and what to do after a vote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

State = Literal["waiting", "open", "locked", "discuss", "reveal", "follow", "play", "check", "ended"]
Part = Literal["predict", "check"]
Advice = Literal["explain", "discuss", "reveal"]

ASKING = ("open", "check")  # a vote may be cast
LIFE_S = 12 * 3600.0  # then a room ends by itself
KEPT_S = 7 * 24 * 3600.0  # and after this it is deleted
DISCUSS_S, OPEN_S, MORE_S = 120.0, 90.0, 30.0
MOST_MOVES = 60  # of controls, on a picture that a class follows
FEW, MANY = 0.3, 0.7


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
    pointer: tuple[float, float, float] | None = None
    """Where the host points: the number of the picture's part, and shares of its width and height."""
    asked: tuple[str, ...] = field(default=())
    """What has been asked so far, as `lesson/part`."""

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @staticmethod
    def from_json(given: dict[str, Any]) -> Now:
        """Back from plain values."""
        moves = tuple((str(key), value) for key, value in given.get("moves", ()))
        pointer = tuple(given["pointer"]) if given.get("pointer") else None
        return Now(**{**given, "moves": moves, "pointer": pointer, "asked": tuple(given.get("asked", ()))})


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


class Refused(ValueError):
    """The host asked for what the room cannot do now; its text can be shown."""


def step(now: Now, move: str, at: float, lesson: str = "", picture: str = "watch") -> Now:
    """The room after the host's move.

    Raises:
        Refused: if that move does not lead on from here.
    """
    if move not in MOVES[now.state]:
        raise Refused("The room has moved on; this button no longer applies.")
    return replace(_MADE[move](now, at, lesson, picture), step=now.step + 1, since=at)


def longer(now: Now, at: float) -> Now:
    """The same with more time on the clock."""
    return replace(now, until=max(now.until or at, at) + MORE_S)


def pointed(now: Now, where: Sequence[float] | None) -> Now:
    """The same with the host's pointer there."""
    if where is None:
        return replace(now, pointer=None)
    part, across, down = where
    return replace(now, pointer=(part, min(max(across, 0.0), 1.0), min(max(down, 0.0), 1.0)))


def moved(now: Now, control: str, value: Any) -> Now:
    """The same with a control of the picture set; the last of several values of one control counts."""
    moves = now.moves
    if moves and moves[-1][0] == control and value is not None:
        moves = moves[:-1]
    return replace(now, moves=(*moves, (control, value))[-MOST_MOVES:])


def advice(right: int, answered: int) -> Advice | None:
    """What peer instruction suggests after a vote: under 30 % right explain first, from there to 70 % discuss."""
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
        pointer=None,
    )


def _open(now: Now, at: float, lesson: str, picture: str) -> Now:
    return _asking(now, at, "open", "predict", 1, lesson)


def _check(now: Now, at: float, lesson: str, picture: str) -> Now:
    return _asking(now, at, "check", "check", 1, now.lesson)


def _again(now: Now, at: float, lesson: str, picture: str) -> Now:
    return _asking(now, at, "check" if now.part == "check" else "open", now.part, 2, now.lesson)


def _follow(now: Now, at: float, lesson: str, picture: str) -> Now:
    same = now.picture == picture and now.state in ("follow", "play")
    return replace(
        now, state="follow", until=None, picture=picture, pointer=None, moves=now.moves if same else ()
    )


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
    "wait": _to("waiting"),
    "end": _to("ended"),
}
MOVES: dict[State, tuple[str, ...]] = {
    "waiting": ("open", "end"),
    "open": ("close", "end"),
    "check": ("close", "end"),
    "locked": ("discuss", "reveal", "end"),
    "discuss": ("again", "reveal", "end"),
    "reveal": ("follow", "check", "open", "wait", "end"),
    "follow": ("follow", "play", "check", "open", "wait", "end"),
    "play": ("follow", "check", "open", "wait", "end"),
    "ended": (),
}
