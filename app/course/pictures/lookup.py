"""Prompt lookup on any two texts: what is read, and what the model then writes. Arcs join what was copied from where.

The core's own loop runs with a target that writes the second text word for word, so every match, guess and verdict is
the proposer's own. Here each word and each sign is a token.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

import streamlit as st
from pydantic import Field, field_validator

from specdec_core.trace import Trace

from .. import replay
from ..lesson import Strict
from ..words import Words
from . import Place

MOST = 900  # characters of either text
_PIECE = re.compile(r"\s*(?:\w+|[^\w\s])")
WIDE, HIGH = 1000, 190


class With(Strict):
    """`samples`: texts of lookup.toml; of several the learner picks one. `own`: both texts can be changed."""

    samples: list[str] = Field(["edit"], min_length=1, max_length=4)
    own: bool = False
    ngram: int = Field(3, ge=1, le=8)
    gamma: int = Field(8, ge=1, le=16)

    @field_validator("samples")
    @classmethod
    def there(cls, given: list[str]) -> list[str]:
        """Names, no paths or prose."""
        if strange := [name for name in given if not re.fullmatch(r"[a-z]{1,20}", name)]:
            raise ValueError(f"“{strange[0][:20]}” is no name of a sample; see strings/lookup.toml")
        return given


@dataclass(frozen=True, slots=True)
class Copy:
    """One round with a match: where its guesses were copied from and to (token numbers), how many, how many passed."""

    source: int
    target: int
    matched: int
    guessed: int
    passed: int


@dataclass(frozen=True, slots=True)
class Found:
    """Both texts as pieces, the copies, and how many passes it took."""

    read: tuple[str, ...]
    written: tuple[str, ...]
    copies: tuple[Copy, ...]
    passes: int


def draw(given: With, at: Place) -> None:
    """The texts, their copies, and what that came to."""
    st.html(Path(__file__).with_suffix(".css"))
    words = at.words
    sample_key, read_key, write_key = at.key("sample"), at.key("read"), at.key("write")

    def fill() -> None:
        name = st.session_state.get(sample_key) or given.samples[0]
        st.session_state[read_key] = words(f"lookup.read-{name}")
        st.session_state[write_key] = words(f"lookup.write-{name}")

    @st.fragment
    def show() -> None:
        if given.own and read_key not in st.session_state:
            fill()
        sample = given.samples[0]
        if len(given.samples) > 1:
            sample = (
                st.segmented_control(
                    words("lookup.sample"),
                    given.samples,
                    default=sample,
                    format_func=lambda name: words(f"lookup.name-{name}"),
                    key=sample_key,
                    on_change=fill if given.own else None,
                )
                or sample
            )
        texts = words(f"lookup.read-{sample}"), words(f"lookup.write-{sample}")
        if given.own:
            first, second = st.columns(2)
            texts = (
                first.text_area(words("lookup.read"), max_chars=MOST, height=150, key=read_key),
                second.text_area(words("lookup.write"), max_chars=MOST, height=150, key=write_key),
            )
        if not pieces(texts[0]) or not pieces(texts[1]):
            st.info(words("lookup.empty"), icon=":material/edit:")
            return
        found = run(texts[0][:MOST], texts[1][:MOST], given.ngram, given.gamma)
        st.html(shown(found, words))
        st.markdown(told(found, words))
        st.caption(words("lookup.exact", ngram=given.ngram, gamma=given.gamma))

    show()


def pieces(text: str) -> tuple[str, ...]:
    """A text as words and signs, each with the space before it."""
    return tuple(_PIECE.findall(text))


def run(read: str, write: str, ngram: int, gamma: int) -> Found:
    """Let the core's prompt lookup help a target that writes the second text."""
    first, second = pieces(read), pieces(write)
    ids: dict[str, int] = {}
    tokens = [ids.setdefault(piece.strip(), len(ids)) for piece in (*first, *second)]
    trace = replay.written(
        tuple(tokens[: len(first)]), tuple(tokens[len(first) :]), "prompt-lookup", gamma, max_ngram=ngram
    )
    return Found(first, second, copies(trace, len(first)), trace.stats.target_passes)


def copies(trace: Trace, begin: int) -> tuple[Copy, ...]:
    """The rounds that found a match; `begin` is the number of the first token that was written."""
    found, at = [], begin
    for row in trace.rounds:
        start = row.note.get("match_start")
        if isinstance(start, int) and row.nodes.token:
            matched = int(row.note["match_length"])  # type: ignore[arg-type]
            passed = sum(verdict == "accepted" for verdict in row.nodes.verdict)
            found.append(Copy(start + matched, at, matched, len(row.nodes.token), passed))
        at += len(row.committed.token)
    return tuple(found)


def told(found: Found, words: Words) -> str:
    """What it came to."""
    copied = sum(copy.passed for copy in found.copies)
    wrong = sum(copy.guessed - copy.passed for copy in found.copies)
    return words(
        "lookup.told", tokens=len(found.written), passes=found.passes, tau=len(found.written) / found.passes,
        copied=copied, wrong=wrong, searched=len(found.copies),
    )  # fmt: skip


def shown(found: Found, words: Words) -> str:
    """The arcs over both texts, and the texts with what was copied marked."""
    begin, total = len(found.read), len(found.read) + len(found.written)
    hits = [copy for copy in found.copies if copy.passed]
    misses = [copy for copy in found.copies if not copy.passed]
    paths = "".join(_arc(copy, total, "miss") for copy in misses) + "".join(
        _arc(copy, total, "hit") for copy in hits
    )
    edge = begin / total * WIDE
    label = words("lookup.arcs", hits=len(hits), misses=len(misses))
    picture = (
        f"<svg viewBox='0 0 {WIDE} {HIGH}' role='img' aria-label='{escape(label, quote=True)}' "
        f"preserveAspectRatio='none'><rect class='read' x='0' y='{HIGH - 14}' width='{edge:.1f}' height='14'/>"
        f"<rect class='written' x='{edge:.1f}' y='{HIGH - 14}' width='{WIDE - edge:.1f}' height='14'/>{paths}</svg>"
    )
    sides = (
        f"<p class='sides'><span style='width:{begin / total:.2%}'>{escape(words('lookup.read'))}</span>"
        f"<span>{escape(words('lookup.write'))}</span></p>"
    )
    source: dict[int, int] = {}
    target: dict[int, int] = {}
    for number, copy in enumerate(hits, 1):
        for step in range(copy.passed):
            target[copy.target + step] = number
            source.setdefault(copy.source + step, number)
    texts = _marked(found.read, 0, source, "from") + _marked(found.written, begin, target, "copied")
    key = escape(words("lookup.key"))
    return (
        f"<div class='lookup'>{picture}{sides}<div class='texts'>{texts}</div><p class='key'>{key}</p></div>"
    )


def _arc(copy: Copy, total: int, kind: str) -> str:
    """From the middle of what was copied to the middle of where it went."""
    size = copy.passed if kind == "hit" else 1
    first = (copy.source + size / 2) / total * WIDE
    last = (copy.target + size / 2) / total * WIDE
    floor = HIGH - 14
    top = floor - min(1.9 * (floor - 6), abs(last - first) * 0.75 + 24)
    width = max(2.0, size / total * WIDE) if kind == "hit" else 2.0
    return (
        f"<path class='{kind}' d='M{first:.1f} {floor} C{first:.1f} {top:.1f} {last:.1f} {top:.1f} {last:.1f} {floor}' "
        f"stroke-width='{width:.1f}'/>"
    )


def _marked(texts: tuple[str, ...], begin: int, numbers: dict[int, int], kind: str) -> str:
    """A text with the copied stretches marked and numbered."""
    out, now = [], 0
    for at, text in enumerate(texts):
        number = numbers.get(begin + at, 0)
        if number != now:
            out.append("</mark>" if now else "")
            space = text[: len(text) - len(text.lstrip())]
            out.append(escape(space))
            out.append(f"<mark class='{kind}'><sup>{number}</sup>" if number else "")
            text, now = text.lstrip(), number
        out.append(escape(text))
    out.append("</mark>" if now else "")
    return f"<p class='text {kind}'>{''.join(out)}</p>"
