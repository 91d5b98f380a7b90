"""One greedy round as stairs: one target pass answers after every guess, and the guesses are compared with the answers.

Each row is a text that the pass has read and, one place further on, what the target writes there. So every answer
is below the guess that it judges; the comparison runs from left to right and ends at the first difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from pydantic import Field, model_validator

from app.course.drawing.scene import Button, Columns, Html, Markdown, Part, Place, Values, choose, style
from app.course.facts import greedy_round
from app.course.facts.greedy_round import GreedyRound
from app.course.files.lesson import Strict
from app.course.files.words import Words
from app.theme import SIGNS

MARKS = {**SIGNS, "waiting": ""}
NONE = 0


class With(Strict):
    """`before`: the last word written; `target`: the words the target writes; `drafts`: other texts, each first
    different at another place. `wrong`: the place where the guesses err (0: nowhere); `choose`: the learner sets
    it; `ask`: only the guesses are shown."""

    before: str = Field(min_length=1, max_length=12)
    target: str = Field(min_length=3, max_length=120)
    drafts: list[str] = Field(min_length=1, max_length=8)
    wrong: int = 0
    choose: bool = False
    ask: bool = False

    @model_validator(mode="after")
    def fits(self) -> With:
        """Whether every draft departs from the target's text, each at a different place."""
        target = self.target.split()
        seen = set()
        for draft in self.drafts:
            words = draft.split()
            if len(words) != len(target):
                raise ValueError(
                    f"“{draft}” has {len(words)} words and the target's text {len(target)}; give both as many"
                )
            place = next(
                (at for at, (one, other) in enumerate(zip(target, words, strict=True), 1) if one != other), 0
            )
            if place in seen or not 0 < place < len(target):
                raise ValueError(
                    f"“{draft}” has to leave the target's text at a guess where no other draft does"
                )
            seen.add(place)
        if self.wrong and self.wrong not in seen:
            raise ValueError(f"no draft is first wrong at guess {self.wrong}; there are {sorted(seen)}")
        return self

    def round(self, wrong: int) -> GreedyRound:
        """The round whose guesses are first wrong at that place, or right throughout."""
        target = self.target.split()
        drafts = [target, *(draft.split() for draft in self.drafts)]
        return greedy_round.play(
            target, next(draft for draft in drafts if first_wrong(target, draft) == wrong)
        )


@dataclass(frozen=True, slots=True)
class Moment:
    """The current step: 0 the guesses, 1 the pass, then one guess after the other, at last what is written."""

    step: int
    judged: int
    """Guesses that are held against their answers by now."""
    done: bool


def first_wrong(target: list[str], draft: list[str]) -> int:
    """The first place, from 1, at which they differ; 0 if they do not."""
    return next(
        (at for at, (one, other) in enumerate(zip(target, draft, strict=True), 1) if one != other), NONE
    )


def steps(of: GreedyRound) -> int:
    """The number of the last step."""
    return 2 + sum(verdict != "unreached" for verdict in of.verdicts)


def moment(of: GreedyRound, step: int) -> Moment:
    """What has happened at a step."""
    step = max(0, min(step, steps(of)))
    return Moment(step, min(max(0, step - 1), steps(of) - 2), step == steps(of))


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The place of the first wrong guess, where the learner chooses it, and the buttons that step through the round."""
    if given.ask:
        return []
    picked, wrong = [], given.wrong
    if given.choose:
        places = sorted(first_wrong(given.target.split(), draft.split()) for draft in given.drafts)
        offered = choose(
            "wrong",
            at.words("stairs.wrong"),
            [NONE, *places],
            given.wrong,
            lambda place: at.words("stairs.none") if place == NONE else str(place),
            resets=["step"],  # another round is shown whole: what changes is the number of tokens written
        )
        picked, wrong = [offered], offered.of(values)
    played = given.round(wrong)
    step = _step(given, played, values)
    buttons = [
        Button(
            name, at.words(f"stairs.{name}"), {"step": to}, f"chevron_{icon}", not 0 <= to <= steps(played)
        )
        for name, icon, to in (("back", "left", step - 1), ("next", "right", step + 1))
    ]
    return [Columns([*picked, *buttons], gap="small")]


def _step(given: With, played: GreedyRound, values: Values) -> int:
    """The step of the round that is shown."""
    last = steps(played)
    return min(int(values.get("step", last if given.choose else 0)), last)


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The stairs at a step, or the question."""
    played = given.round(values.get("wrong", given.wrong))
    if given.ask:
        return [style(__file__), Html(question(given.before, played, given.wrong, at.words))]
    shown = picture(given.before, played, moment(played, _step(given, played, values)), at.words)
    return [style(__file__), Html(shown), Markdown(at.words("stairs.origin"), "small")]


def question(before: str, of: GreedyRound, wrong: int, words: Words) -> str:
    """The guesses alone, the first wrong one marked, without their outcome or a number to read the answer from."""
    chips = "".join(
        f"<td class='guess rejected'><b>{escape(word)}</b><i>✗</i></td>"
        if at == wrong
        else f"<td class='guess waiting'><b>{escape(word)}</b></td>"
        for at, word in enumerate(of.guesses, 1)
    )
    return (
        f"<table class='stairs ask'><caption>{escape(words('stairs.guesses'))}</caption><tbody>"
        f"<tr translate='no'><td class='root'><b>{escape(before)}</b></td>{chips}</tr></tbody></table>"
    )


def picture(before: str, of: GreedyRound, now: Moment, words: Words) -> str:
    """The stairs at a moment, as a table: guesses, the pass, its answers one place on, what is written."""
    size = len(of.guesses) + 2
    seen = [verdict if at < now.judged or now.done else "waiting" for at, verdict in enumerate(of.verdicts)]
    rows = [_head(words("stairs.guesses"), size), _guesses(before, of, seen, now)]
    if now.step == 0:
        rows.append(
            f"<tr><td class='pass ahead' colspan={size}>{escape(words('stairs.pass_ahead'))}</td></tr>"
        )
    else:
        sentence = escape(words("stairs.pass", rows=len(of.answers)))
        rows.append(
            f"<tr><td class='pass{' new' if now.step == 1 else ''}' colspan={size}>{sentence}</td></tr>"
        )
        rows += [_answer(before, of, at, seen, now, words) for at in range(len(of.answers))]
    if now.done:
        rows += [_head(words("stairs.written"), size), _written(before, of)]
    return (
        f"<div class='stairs-frame'><p class='said' role='status'><span>"
        f"{escape(words('stairs.step', step=now.step, last=steps(of)))}</span> {_sentence(of, now, words)}</p>"
        f"<table class='stairs'><caption class='unseen'>{escape(words('stairs.table'))}</caption>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _head(text: str, size: int) -> str:
    return f"<tr><th colspan={size} scope='colgroup'>{escape(text)}</th></tr>"


def _guesses(before: str, of: GreedyRound, seen: list[str], now: Moment) -> str:
    cells = "".join(
        f"<td class='guess {verdict}{' new' if now.step > 1 and at == now.judged - 1 and not now.done else ''}'>"
        f"<b>{escape(word)}</b><i>{MARKS[verdict] or at + 1}</i></td>"
        for at, (word, verdict) in enumerate(zip(of.guesses, seen, strict=True))
    )
    return f"<tr translate='no'><td class='root'><b>{escape(before)}</b></td>{cells}<td></td></tr>"


def _answer(before: str, of: GreedyRound, at: int, seen: list[str], now: Moment, words: Words) -> str:
    """One row: the text that was read, and the answer after it."""
    read = f"<td class='read'>{escape(before)}</td>" + "".join(
        f"<td class='read{' wrong' if seen[place] == 'rejected' else ''}'>{escape(of.guesses[place])}</td>"
        for place in range(at)
    )
    kind = _kind(of, at, seen, now)
    new = (
        now.step == 1
        or (now.done and kind in ("corrected", "bonus"))
        or (not now.done and at == now.judged - 1)
    )
    mark = "=" if kind == "accepted" else MARKS.get(kind, "")
    empty = "<td></td>" * (len(of.guesses) - at)
    return (
        f"<tr translate='no'>{read}"
        f"<td class='answer {kind}{' new' if new else ''}'><b>{escape(of.answers[at])}</b><i>{mark}</i></td>"
        f"{empty}</tr>"
    )


def _kind(of: GreedyRound, at: int, seen: list[str], now: Moment) -> str:
    """An answer's outcome."""
    if at < len(seen) and seen[at] != "waiting":
        return "corrected" if seen[at] == "rejected" else seen[at]
    stopped = "rejected" in seen
    if stopped:
        return "unreached"
    return "bonus" if now.done and at == len(of.guesses) else "waiting"


def _written(before: str, of: GreedyRound) -> str:
    kinds = ["accepted"] * (len(of.written) - 1) + [of.last]
    cells = "".join(
        f"<td class='token {kind} new'><b>{escape(word)}</b><i>{MARKS[kind]}</i></td>"
        for word, kind in zip(of.written, kinds, strict=True)
    )
    empty = "<td></td>" * (len(of.guesses) + 1 - len(of.written))
    return f"<tr class='out' translate='no'><td class='root'><b>{escape(before)}</b></td>{cells}{empty}</tr>"


def _sentence(of: GreedyRound, now: Moment, words: Words) -> str:
    """The moment in a sentence."""
    if now.step == 0:
        return escape(words("stairs.sentence_guesses", guesses=len(of.guesses)))
    if now.step == 1:
        return escape(words("stairs.sentence_pass", rows=len(of.answers)))
    if now.done:
        unreached = of.verdicts.count("unreached")
        which = "bonus" if of.last == "bonus" else "corrected_tail" if unreached else "corrected"
        sentence = words(
            f"stairs.sentence_{which}", tokens=len(of.written), word=of.written[-1], unreached=unreached
        )
        return f"<strong>{escape(words('stairs.count', tokens=len(of.written)))}</strong> {escape(sentence)}"
    at = now.judged - 1
    key = "same" if of.verdicts[at] == "accepted" else "differs"
    return escape(words(f"stairs.sentence_{key}", number=at + 1, guess=of.guesses[at], answer=of.answers[at]))
