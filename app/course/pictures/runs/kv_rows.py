"""The target's KV cache in a recorded round: the rows before it, those that the pass wrote, and those that stay."""

from __future__ import annotations

from html import escape

from pydantic import Field, field_validator

from app.course.drawing.scene import Html, Markdown, Part, Place, Values, choose, slide, style
from app.course.facts import kv_rows as rows
from app.course.facts.recorded import trace
from app.course.files.lesson import Strict
from app.course.files.words import Words
from app.records import examples as recorded
from specdec_core.record.schema import Round
from specdec_core.record.trace import Trace

BEFORE = 4  # rows of the text that are drawn


class With(Strict):
    """`examples`: recorded rounds; if several, the learner picks one. `round`: the one shown first, from 0; `still`:
    no other can be chosen."""

    examples: list[str] = Field(min_length=1, max_length=4)
    round: int = Field(0, ge=0)
    still: bool = False

    @field_validator("examples")
    @classmethod
    def there(cls, given: list[str]) -> list[str]:
        """Whether each of them ships."""
        recorded.require(given)
        return given


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The recording, where there are several, and the round."""
    words, parts, picked = at.words, [], given.examples[0]
    if len(given.examples) > 1:
        offered = choose(
            "example",
            words("kv-rows.which"),
            given.examples,
            picked,
            lambda name: words(f"kv-rows.name-{name}"),
        )
        parts, picked = [offered], offered.of(values)
    if not given.still:
        last = len(trace(picked).rounds)
        first = min(given.round + 1, last)
        parts.append(slide(f"round-{picked}", words("kv-rows.round"), range(1, last + 1), first))
    return [*parts]


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The strips of a round."""
    picked = values.get("example", given.examples[0])
    found, example = trace(picked), recorded.find(picked)
    assert example is not None
    number = values.get(f"round-{picked}", given.round + 1) - 1
    shown = strips(found, found.rounds[min(number, len(found.rounds) - 1)], at.words)
    origin = at.words("kv-rows.recorded", machine=example.machine, date=example.recorded[:10])
    return [style(__file__), Html(shown), Markdown(origin, "small")]


def strips(found: Trace, row: Round, words: Words) -> str:
    """What the pass wrote after the cache's rows, and what is kept of it."""
    written = [*found.header.prompt_texts, *found.output.texts]
    before = written[max(0, row.cache_before - BEFORE) : row.cache_before]
    tokens = [written[row.cache_before], *(found.texts.get(str(token), "�") for token in row.nodes.token)]
    stays = rows.kept(row)
    pass_rows = [
        (text, "kept" if at in stays else "gone") for at, text in enumerate(tokens[: 1 + row.nodes_read])
    ]
    first = _strip(words("kv-rows.read", rows=len(pass_rows)), [(text, "old") for text in before], pass_rows)
    after = [(tokens[at], "kept") for at in stays]
    second = _strip(words("kv-rows.after", rows=row.cache_after), [(text, "old") for text in before], after)
    said = words(
        "kv-rows.sentence",
        before=row.cache_before,
        read=len(pass_rows),
        kept=len(stays),
        gone=len(pass_rows) - len(stays),
        last=_shown(written[row.cache_after]) if row.cache_after < len(written) else "",
    )
    signs = "".join(
        f"<li><b class='{kind}'>{sign}</b> {escape(words(f'kv-rows.{kind}'))}</li>"
        for kind, sign in SIGNS.items()
    )
    return (
        f"<section class='cache'>{first}{second}<ul>{signs}</ul><p role='status'>{escape(said)}</p></section>"
    )


SIGNS = {"old": "·", "kept": "✓", "gone": "✗"}


def _strip(label: str, before: list[tuple[str, str]], rows: list[tuple[str, str]]) -> str:
    cells = "".join(
        f"<li class='{kind}'><span translate='no'>{escape(_shown(text))}</span><b>{SIGNS[kind]}</b></li>"
        for text, kind in [*before, *rows]
    )
    return f"<p>{escape(label)}</p><ol><li class='old'>…</li>{cells}</ol>"


def _shown(text: str) -> str:
    return text.replace(" ", "␣").replace("\n", "↵")
