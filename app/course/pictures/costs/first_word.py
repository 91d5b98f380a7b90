"""Waiting for an answer on one scale of time: the prompt is read, the first round comes, then all the others.

Either lanes recorded in this lab, whose first token comes out of the first round, or an answer modelled for a serving
engine, whose first token comes out of the pass over the prompt; prompt and answer are as long as the learner chooses.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import pairwise

from pydantic import Field, model_validator

from app.course.drawing.scene import Columns, Html, Markdown, Part, Place, Values, choose, slide, style
from app.course.facts.first_word import answer
from app.course.facts.machines import modelled
from app.course.facts.recorded import trace
from app.course.files.lesson import Strict
from app.course.files.words import Words
from app.records import examples as recorded


class With(Strict):
    """Either `example`: an id of assets/traces/index.toml that was raced against plain decoding; or `machines`:
    modelled profiles of assets/profiles, each with its title, `prompts` and `answers`: numbers of tokens to
    choose from, and the acceptance rate `alpha` and draft length `gamma` of the guesses."""

    example: str = ""
    machines: dict[str, str] = Field({}, max_length=4)
    prompts: list[int] = Field([], max_length=12)
    answers: list[int] = Field([], max_length=12)
    alpha: float = Field(0.8, ge=0.0, le=1.0)
    gamma: int = Field(4, ge=1, le=16)

    @model_validator(mode="after")
    def known(self) -> With:
        """Whether there is something to draw, and only one thing."""
        if bool(self.example) == bool(self.machines):
            raise ValueError("give either `example` or `machines`")
        if self.example:
            trace(self.example, plain=True)
        if self.machines and (len(self.prompts) < 2 or len(self.answers) < 2):
            raise ValueError("`prompts` and `answers` need at least two numbers to choose from")
        for machine in self.machines:
            modelled(machine)
            answer(machine, max(self.prompts), max(self.answers), self.alpha, self.gamma)
        return self


APART = 0.005  # of the width: narrower rounds would vanish into the lines between them, so there are none


@dataclass(frozen=True, slots=True)
class WordLane:
    """Seconds of one lane: reading the prompt, the ends of its rounds after that.

    The first round ends with the first token: at 0 if the pass over the prompt yields it. `draft_s` is how long the
    draft then reads the prompt before the other rounds.
    """

    name: str
    prompt_s: float
    rounds_s: tuple[float, ...]
    draft_s: float = 0.0

    @property
    def first_s(self) -> float:
        """When the first token is there."""
        return self.prompt_s + self.rounds_s[0]

    @property
    def end_s(self) -> float:
        """When the last one is there."""
        return self.prompt_s + self.rounds_s[-1]


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The machine and the lengths of prompt and answer, if it is modelled."""
    words, names = at.words, list(given.machines)
    if given.example:
        return []
    picked = [
        choose(
            "machine", words("first-word.machine"), names, names[0], given.machines.__getitem__, look="list"
        ),
        slide("prompt", words("first-word.prompt"), given.prompts, given.prompts[0]),
        slide("answer", words("first-word.answer"), given.answers, given.answers[0]),
    ]
    return [Columns(picked, (1, 1, 1), gap="small", align="top")]


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The lanes."""
    words = at.words
    names = (words("first-word.plain"), words("first-word.guesses"))
    if example := recorded.find(given.example):
        found = [
            _recorded(given.example, plain, name) for plain, name in zip((True, False), names, strict=True)
        ]
        origin = words("first-word.recorded", machine=example.machine, date=example.recorded[:10])
        return [style(__file__), Html(lanes(found, words)), Markdown(origin, "small")]
    machine = values["machine"]
    found = [
        _modelled(machine, values["prompt"], values["answer"], alpha, gamma, name)
        for (alpha, gamma), name in zip(((0.0, 0), (given.alpha, given.gamma)), names, strict=True)
    ]
    origin = words(
        "first-word.modelled", machine=modelled(machine).label, alpha=given.alpha, gamma=given.gamma
    )
    return [style(__file__), Html(lanes(found, words)), Markdown(origin, "small")]


def _recorded(example: str, plain: bool, name: str) -> WordLane:
    found = trace(example, plain)
    return WordLane(name, found.stats.prefill_s, tuple(row.end_s for row in found.rounds))


def _modelled(machine: str, prompt: int, tokens: int, alpha: float, gamma: int, name: str) -> WordLane:
    found = answer(machine, prompt, tokens, alpha, gamma)
    rounds = min(200, max(1, round(found.rest_s / found.round_s)))
    ends = (0.0, *(found.draft_s + found.rest_s * (at + 1) / rounds for at in range(rounds)))
    return WordLane(name, found.prompt_s, ends, found.draft_s)


def lanes(found: list[WordLane], words: Words) -> str:
    """The lanes on one scale, each with the times of its first and its last token."""
    longest = max(lane.end_s for lane in found)
    drawn = "".join(_lane(lane, longest, words) for lane in found)
    there = {kind for lane in found for kind, start, end in _pieces(lane) if end > start}
    key = "".join(
        f"<li class='{kind}'>{escape(words(f'first-word.{kind}'))}</li>"
        for kind in ("reading", "round", "draft", "rest")
        if kind in there
    )
    return f"<section class='first-word'>{drawn}<ul>{key}</ul></section>"


def _pieces(lane: WordLane) -> list[tuple[str, float, float]]:
    """What the lane's time goes to, in order: its kind, start and end in seconds."""
    first = lane.first_s
    ends = (first + lane.draft_s, *(lane.prompt_s + end for end in lane.rounds_s[1:]))
    return [
        ("reading", 0.0, lane.prompt_s),
        ("round", lane.prompt_s, first),
        ("draft", first, ends[0]),
        *(("rest", start, end) for start, end in pairwise(ends)),
    ]


def _lane(lane: WordLane, longest: float, words: Words) -> str:
    pieces = "".join(
        f"<i class='{kind}{' apart' if (end - start) / longest >= APART else ''}' "
        f"style='left:{start / longest:.3%};width:{(end - start) / longest:.3%}'></i>"
        for kind, start, end in _pieces(lane)
        if end > start
    )
    first = lane.first_s / longest
    side = "left" if first < 0.55 else "right"
    place = first if side == "left" else 1.0 - first
    done = words("first-word.done", time=_time(lane.end_s, words))
    word = words("first-word.first", time=_time(lane.first_s, words))
    return (
        f"<div class='wait'><p><strong>{escape(lane.name)}</strong><span>{escape(done)}</span></p>"
        f"<div class='axis' aria-hidden='true'>{pieces}</div>"
        f"<p class='mark {side}' style='{side}:{place:.3%}'>{escape(word)}</p></div>"
    )


def _time(seconds: float, words: Words) -> str:
    """Seconds to three digits; thousandths for small values."""
    number = words.number
    return f"{number(seconds, '.3g')} s" if seconds >= 1.0 else f"{number(seconds * 1e3, '.3g')} ms"
