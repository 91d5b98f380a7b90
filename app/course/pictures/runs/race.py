"""Two recorded lanes on one clock, in slow motion: plain decoding above, the speculative one below. CSS alone animates
it, once, so that it can be restarted and stands still at the end."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from itertools import pairwise

from pydantic import Field, field_validator

from app.course.drawing.scene import Button, Columns, Html, Markdown, Part, Place, Values, choose, style
from app.course.facts.recorded import trace
from app.course.files.lesson import Strict
from app.metrics.numbers import measured_speedup
from app.records import examples as recorded
from specdec_core.record.trace import Trace

BEGINS = re.compile(r"^\n*( (?=\S))?")  # what is not shown of a text's beginning; a program's indentation is
SHOWN_S = 4.8  # how long the slower lane takes on screen


class With(Strict):
    """`examples`: ids of assets/traces/index.toml that were raced against plain decoding, each with its title;
    if several, the learner picks one."""

    examples: dict[str, str] = Field(min_length=1, max_length=6)

    @field_validator("examples")
    @classmethod
    def there(cls, given: dict[str, str]) -> dict[str, str]:
        """Whether each of them ships with a plain lane."""
        known = [example.id for example in recorded.examples() if len(example.files) == 2]
        if strange := [key for key in given if key not in known]:
            raise ValueError(f"there is no recorded race “{strange[0]}”; there are {', '.join(known)}")
        return given


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The choice, if there is one, and the button that starts it again."""
    words = at.words
    names = list(given.examples)
    again = Button("again", words("race.again"), {"turn": values.get("turn", 0) + 1}, "replay")
    if len(names) == 1:
        return [again]
    which = choose("example", words("race.which"), names, names[0], given.examples.__getitem__)
    return [Columns([which, again])]


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The race."""
    picked = values.get("example", next(iter(given.examples)))
    example = recorded.find(picked)
    assert example is not None
    shown = race(trace(picked, plain=True), trace(picked), at.words, f"{picked}-{values.get('turn', 0)}")
    origin = at.words("race.recorded", machine=example.machine, date=example.recorded[:10])
    return [style(__file__), Html(shown), Markdown(origin, "small")]


def race(plain: Trace, other: Trace, words: Callable[..., str], turn: str, finish: str | None = None) -> str:
    """The race as HTML; another `turn` restarts it. `finish` is said at its end in place of the figures."""
    ends = [lane.rounds[-1].end_s for lane in (plain, other)]
    slow = SHOWN_S / max(ends)
    first = min(ends)
    names = (words("race.plain"), words("race.other"))
    lanes = "".join(
        _track(lane, name, end, max(ends), slow, first if end > first else None, words)
        for lane, name, end in zip((plain, other), names, ends, strict=True)
    )
    texts = "".join(
        _text(lane, name, slow, first if end > first else None, words)
        for lane, name, end in zip((plain, other), names, ends, strict=True)
    )
    same = words("race.same", tokens=len(plain.token_ids))
    if plain.token_ids != other.token_ids:
        same = words("race.different")
    label = escape(words("race.label"), quote=True)
    gain = measured_speedup(plain.stats, other.stats)
    result = words("race.result", gain=gain, slow=slow) if gain else words("race.short", slow=slow)
    finish = f"{same} {result}" if finish is None else finish
    return (
        f"<section class='race' data-turn='{escape(turn, quote=True)}' aria-label='{label}'>"
        f"{lanes}<ul class='race-key'><li class='draft'>{escape(words('race.draft'))}</li>"
        f"<li class='check'>{escape(words('race.check'))}</li></ul>"
        f"<div class='race-texts'>{texts}</div>"
        f"<p class='race-result' style='--at:{SHOWN_S:.2f}s'>{escape(finish)}</p></section>"
    )


def _track(
    lane: Trace,
    name: str,
    end: float,
    longest: float,
    slow: float,
    other_end: float | None,
    words: Callable[..., str],
) -> str:
    """A lane's time as a bar, a piece for each round: drafting, then the pass of the large model and the rest."""
    pieces = "".join(
        f"<i class='draft' style='left:{row.start_s / end:.3%};width:{row.draft_s / end:.3%}'></i>"
        f"<i class='check' style='left:{(row.start_s + row.draft_s) / end:.3%};"
        f"width:{(row.end_s - row.start_s - row.draft_s) / end:.3%}'></i>"
        for row in lane.rounds
    )
    mark = ""
    if other_end is not None:
        mark = f"<b class='there' style='left:{other_end / longest:.2%};--at:{other_end * slow:.2f}s'></b>"
    done = words("race.done", ms=end * 1e3, passes=len(lane.rounds))
    return (
        f"<div class='race-lane'><p><strong>{escape(name)}</strong>"
        f"<span class='later' style='--at:{end * slow:.2f}s'>{escape(done)}</span></p>"
        f"<div class='track' aria-hidden='true'><div class='rounds' style='width:{end / longest:.2%};"
        f"--for:{end * slow:.2f}s'>{pieces}</div>{mark}</div></div>"
    )


def _text(lane: Trace, name: str, slow: float, other_end: float | None, words: Callable[..., str]) -> str:
    """A lane's text, a piece for each round, each at its time; a flag marks its end when the other finished."""
    cuts = [0]
    for row in lane.rounds:
        cuts.append(cuts[-1] + len(row.committed.token))
    parts, flagged, started = [], other_end is None, False
    for row, (start, stop) in zip(lane.rounds, pairwise(cuts), strict=True):
        if not flagged and other_end is not None and row.end_s > other_end:
            flagged = True
            parts.append(
                f"<b class='flag' style='--at:{other_end * slow:.2f}s'>⚑ {escape(words('race.flag'))}</b>"
            )
        several = "several" if stop - start > 1 else "one"
        piece = "".join(lane.output.texts[start:stop])
        piece = piece if started else BEGINS.sub("", piece)
        started = started or bool(piece)
        parts.append(f"<span class='{several}' style='--at:{row.end_s * slow:.2f}s'>{escape(piece)}</span>")
    label = escape(name, quote=True)
    return (
        f"<figure aria-label='{label}'><figcaption>{escape(name)}</figcaption>"
        f"<pre tabindex='0'>{''.join(parts)}</pre></figure>"
    )
