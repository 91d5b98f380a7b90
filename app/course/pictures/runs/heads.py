"""What follows each first guess, in the trees of a recorded example: the same list below every token, or another?

Medusa's heads all read one hidden state, so their guesses two places on are one list, whatever token precedes it. EAGLE
reads that token as well. Everything shown is recorded; the bars are the heads' own probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from pydantic import Field, field_validator

from app.course.drawing.scene import Columns, Html, Markdown, Part, Place, Values, choose, slide, style
from app.course.facts.recorded import trace
from app.course.files.lesson import Strict
from app.course.files.words import Words
from app.records import examples as recorded
from app.theme import SIGNS
from specdec_core.record.schema import Round
from specdec_core.record.trace import Trace

DEEPEST = 3
LISTS = 4  # side by side
MAX_GUESSES = 5  # guesses of a list
TEXT = 70  # characters of the text before the tree


class With(Strict):
    """`examples`: of `medusa` and `eagle`, or others whose trees branch; if several, the learner picks one."""

    examples: list[str] = Field(min_length=1, max_length=3)

    @field_validator("examples")
    @classmethod
    def branching(cls, given: list[str]) -> list[str]:
        """Whether their trees continue below more than one token."""
        for key in given:
            if not forked(trace(key)):
                raise ValueError(f"no tree of the example “{key}” continues below two tokens; choose another")
        return given


@dataclass(frozen=True, slots=True)
class Below:
    """A list of guesses: the path above it, and its tokens with their probability and verdict."""

    above: str
    guesses: tuple[tuple[str, float | None, str], ...]


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The choice of the example and the round."""
    words, parts, picked = at.words, [], given.examples[0]
    if len(given.examples) > 1:
        offered = choose(
            "example", words("heads.which"), given.examples, picked,
            lambda key: named(f"heads.name-{key}", key, words),
        )  # fmt: skip
        parts, picked = [offered], offered.of(values)
    rounds = forked(trace(picked))
    if len(rounds) > 1:
        name = f"round-{picked}"
        parts.append(slide(name, words("heads.round"), rounds, _first(picked), lambda index: str(index + 1)))
    return [Columns(parts)]


def _first(example: str) -> int:
    """The round that is shown first: one in which a guess was accepted."""
    found = trace(example)
    rounds = forked(found)
    return next((at for at in rounds if "accepted" in found.rounds[at].nodes.verdict), rounds[0])


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The lists of one round."""
    picked = values.get("example", given.examples[0])
    found, example = trace(picked), recorded.find(picked)
    assert example is not None
    row = found.rounds[values.get(f"round-{picked}", _first(picked))]
    origin = at.words("heads.recorded", machine=example.machine, date=example.recorded[:10])
    return [style(__file__), Html(lists(found, row, picked, at.words)), Markdown(origin, "small")]


def forked(found: Trace) -> list[int]:
    """The rounds with guesses below at least two tokens of the first level."""
    return [at for at, row in enumerate(found.rounds) if len(dict(levels(found, row)).get(2, [])) > 1]


def levels(found: Trace, row: Round) -> Iterator[tuple[int, list[Below]]]:
    """For each depth its lists, each below another token of the previous depth; only what the target saw."""
    nodes = row.nodes
    children: dict[int, list[int]] = {}
    for at, parent in enumerate(nodes.parent[: row.nodes_read]):
        children.setdefault(parent, []).append(at)
    front = [-1]
    for depth in range(1, DEEPEST + 1):
        above = [parent for parent in front if parent in children]
        if above:
            yield depth, [_below(found, row, parent, children[parent]) for parent in above]
        front = [child for parent in above for child in children[parent]]


def _below(found: Trace, row: Round, parent: int, children: list[int]) -> Below:
    nodes, own = row.nodes, row.nodes.model_q
    way = []
    while parent >= 0:
        way.append(_text(found, nodes.token[parent]))
        parent = nodes.parent[parent]
    guesses = tuple(
        (_text(found, nodes.token[at]), own[at] if own else None, nodes.verdict[at]) for at in children
    )
    return Below("".join(reversed(way)), guesses)


def beginnings(lists_: list[Below]) -> int:
    """The number of distinct beginnings of the lists."""
    return len({each.guesses[0][0] for each in lists_})


def lists(found: Trace, row: Round, example: str, words: Words) -> str:
    """The lists as HTML."""
    before = found.header.prompt + "".join(
        found.output.texts[: sum(len(each.committed.token) for each in found.rounds[: row.index])]
    )
    out = [
        f"<p class='heads-text'>{escape(words('heads.text'))} <q translate='no'>…{escape(before[-TEXT:])}</q></p>"
    ]
    for depth, found_ in levels(found, row):
        kind = "same" if beginnings(found_) == 1 else "other"
        name = named(f"heads.level-{example}", "", words, depth=depth) or words("heads.level", depth=depth)
        reads = escape(named(f"heads.{'first' if depth == 1 else 'reads'}-{example}", "", words))
        if depth > 1 and (unread := named(f"heads.unread-{example}", "", words)):
            reads += f" <s>{escape(unread)}</s>"
        verdict = ""
        if len(found_) > 1:
            sentence = words(f"heads.{kind}", count=len(found_), ways=beginnings(found_))
            verdict = (
                f"<span class='verdict {kind}'>{'=' if kind == 'same' else '≠'} {escape(sentence)}</span>"
            )
        cards = "".join(_card(each, words) for each in found_[:LISTS])
        more = len(found_) - LISTS
        rest = f"<li class='more'>{escape(words('heads.more', count=more))}</li>" if more > 0 else ""
        out.append(
            f"<section aria-label='{escape(name, quote=True)}'><p class='level'><strong>{escape(name)}</strong> "
            f"<span class='reads'>{reads}</span>{verdict}</p><ul class='lists'>{cards}{rest}</ul></section>"
        )
    key = "".join(
        f"<span>{mark} {escape(words(f'heads.{verdict}'))}</span>" for verdict, mark in MARKS.items()
    )
    return f"<div class='heads'>{''.join(out)}<p class='heads-key'>{key}</p></div>"


MARKS = {verdict: SIGNS[verdict] for verdict in ("accepted", "rejected", "unreached")}


def _card(below: Below, words: Words) -> str:
    rows = "".join(
        f"<li class='{verdict}'><span class='mark' aria-hidden='true'>{MARKS.get(verdict, '·')}</span>"
        f"<code>{_shown(text)}</code>{_bar(chance, words)}"
        f"<span class='unseen'>{escape(named(f'heads.{verdict}', verdict, words))}</span></li>"
        for text, chance, verdict in below.guesses[:MAX_GUESSES]
    )
    above = (
        f"{escape(words('heads.after'))} <code>{_shown(below.above)}</code>"
        if below.above
        else escape(words("heads.first"))
    )
    return f"<li class='list'><p>{above}</p><ol>{rows}</ol></li>"


def _bar(chance: float | None, words: Words) -> str:
    if chance is None:
        return ""
    bar = f"<span class='bar' aria-hidden='true'><i style='width:{chance:.1%}'></i></span>"
    return f"{bar}<span class='chance'>{words.number(chance, '.0%')}</span>"


def named(key: str, otherwise: str, words: Words, **values: object) -> str:
    """A string of the catalogue, or `otherwise` if it has none."""
    try:
        return words(key, **values)
    except KeyError:
        return otherwise


def _text(found: Trace, token: int) -> str:
    return found.texts.get(str(token), "�")


def _shown(text: str) -> str:
    """A token with its spaces and line breaks made visible."""
    return escape(text.replace(" ", "␣").replace("\n", "↵"))
