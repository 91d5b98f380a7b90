"""A recorded text, token by token: how much each surprised the large model, and whether the small one guessed it.

With `boxes` the words in question are in lettered boxes, and nothing is revealed about any of them.
"""

from __future__ import annotations

import re
from html import escape
from string import ascii_uppercase

from pydantic import Field, field_validator

from app.course.drawing.scene import (
    Area,
    Button,
    Html,
    Markdown,
    Notice,
    Part,
    Place,
    Values,
    choose,
    style,
)
from app.course.facts.ease import WITHIN, JudgedToken, boxes, ribbon
from app.course.facts.recorded import trace
from app.course.files.lesson import Strict
from app.course.files.words import Words
from app.course.live import asking
from app.records import examples as recorded
from app.text import plain

HIGHEST = 5.0  # bits of a full bar


class With(Strict):
    """`examples`: ids of assets/traces/index.toml, each with its title; if several, the learner picks one.

    `boxes`: the number of words in question. With `outcomes` their outcome is shown as well, as is every other token's.
    `own`: an initial sentence that the learner can edit and give to the two models on this machine.
    """

    examples: dict[str, str] = Field(min_length=1, max_length=6)
    boxes: int = Field(0, ge=0, le=12)
    outcomes: bool = True
    own: str = Field("", max_length=200)

    @field_validator("examples")
    @classmethod
    def there(cls, given: dict[str, str]) -> dict[str, str]:
        """Whether each of them is recorded token by token."""
        for example in given:
            ribbon(example)
        return given


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The choice of a text, if there is one."""
    names = list(given.examples)
    if len(names) == 1:
        return []
    return [choose("example", at.words("ribbon.which"), names, names[0], given.examples.__getitem__)]


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The text, and where the learner may try one, a sentence of their own."""
    picked = values.get("example", next(iter(given.examples)))
    found = boxes(picked, given.boxes) if given.boxes else ()
    example = recorded.find(picked)
    assert example is not None
    prompt, tokens = trace(picked).header.prompt, ribbon(picked)
    shown = with_outcomes(prompt, tokens, found, at.words) if given.outcomes else boxed(prompt, tokens, found)
    origin = at.words(
        "ribbon.recorded" if given.outcomes else "ribbon.before",
        machine=example.machine,
        date=example.recorded[:10],
    )
    own = _own(given.own, values.get("answer"), at.words) if given.own else []
    return [style(__file__), Html(shown), Markdown(origin, "small"), *own]


def _own(first: str, found: asking.Read | str | None, words: Words) -> list[Part]:
    """A sentence of the learner's, and what the two models said of it."""
    parts: list[Part] = [
        Area("own", words("ribbon.own"), first, most=300, height=80),
        Button("ask", words("ribbon.ask"), icon="psychology_alt"),
    ]
    if isinstance(found, asking.Read):
        origin = words("ribbon.measured", machine=found.machine, target=found.target, draft=found.draft)
        parts += [Html(with_outcomes("", found.tokens, (), words)), Markdown(origin, "small")]
    elif found is not None:
        known = ("loading", "busy", "failed")
        parts.append(Notice("warning", words(f"ribbon.{found}") if found in known else plain(found), "info"))
    return parts


def acted(name: str, act: object, given: With, values: Values, at: Place) -> Values:
    """Let the two models read the learner's sentence."""
    return {"answer": asking.ask(values.get("own", given.own))} if name == "ask" else {}


def boxed(prompt: str, tokens: tuple[JudgedToken, ...], found: tuple[int, ...]) -> str:
    """The text with its boxes; only the tokens' letters."""
    shown = tokens[: max(WITHIN, *(at + 1 for at in found))]
    pieces = "".join(
        _box(token.text, ascii_uppercase[found.index(at)]) if at in found else escape(token.text)
        for at, token in enumerate(shown)
    )
    more = " …" if len(shown) < len(tokens) else ""
    pieces = re.sub(r"\n{2,}", "\n", pieces)
    return (
        f"<section class='ribbon boxed'><p class='before' translate='no'>{escape(_end(prompt))}</p>"
        f"<p class='text' translate='no'>{pieces}{more}</p></section>"
    )


def _box(text: str, letter: str) -> str:
    lead = text[: len(text) - len(text.lstrip())]
    return f"{lead}<span class='box'><b>{letter}</b>{escape(text.strip())}</span>"


def with_outcomes(prompt: str, tokens: tuple[JudgedToken, ...], found: tuple[int, ...], words: Words) -> str:
    """Every token with a bar for its surprise, and whether the small model guessed it."""
    end = words("ribbon.end")
    items = "".join(
        _token(token, ascii_uppercase[found.index(at)] if at in found else "", end, words)
        for at, token in enumerate(tokens)
    )
    kinds = [kind for guessed, kind in KINDS.items() if any(token.guessed is guessed for token in tokens)]
    key = "".join(f"<li class='{kind}'>{escape(words(f'ribbon.{kind}'))}</li>" for kind in (*kinds, "height"))
    before = f"<p class='before' translate='no'>{escape(_end(prompt))}</p>" if prompt else ""
    label = escape(words("ribbon.text"), quote=True)
    return (
        f"<section class='ribbon'><ul class='key'>{key}</ul>{before}"
        f"<ol class='tokens' aria-label='{label}'>{items}</ol></section>"
    )


KINDS = {True: "guessed", False: "missed", None: "unasked"}
GLYPHS = {"guessed": "✓", "missed": "✗", "unasked": "·"}


def _token(token: JudgedToken, letter: str, end: str, words: Words) -> str:
    kind = KINDS[token.guessed]
    instead = _visible(token.instead, end)
    apart = "" if token.text[:1].strip() else " apart"
    said = words(f"ribbon.said_{kind}", bits=token.bits, instead=instead)
    height = min(1.0, token.bits / HIGHEST)
    box = f"<b class='letter'>{letter}</b>" if letter else ""
    own = f" <em translate='no'>{escape(instead)}</em>" if kind == "missed" else ""
    return (
        f"<li class='{kind}{apart}' title='{escape(said, quote=True)}'>"
        f"<span class='bar' style='--h:{height:.3f}'></span>{box}"
        f"<span class='word' translate='no'>{escape(_visible(token.text, end))}</span>"
        f"<span class='glyph' aria-hidden='true'>{GLYPHS[kind]}{own}</span>"
        f"<span class='only-read'>{escape(said)}</span></li>"
    )


def _visible(text: str, end: str) -> str:
    """A token as displayed: a line break as a sign, and an empty one as a word."""
    return text.replace("\n", "↵").replace("\t", "→").strip(" ") or ("␣" if text else end)


def _end(prompt: str, most: int = 160) -> str:
    """The end of a prompt, from a word on."""
    if len(prompt) <= most:
        return prompt
    return "… " + prompt[-most:].partition(" ")[2]
