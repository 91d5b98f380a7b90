"""The site's own pages as HTML: a shell, with a script in the course alone, and the parts that fill it."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path

from app.course import shuffle
from app.course.common_claims.claims import VERDICTS, Claim, Drawn, Figure
from app.course.common_claims.claims_chart import named, said
from app.course.files.lesson import Item, Lesson, Picture
from app.course.files.words import Words
from app.export.linker import link
from app.records.examples import Example
from app.room.pages.marked import html, inline
from app.theme import CSS, SIGNS
from specdec_core.models.catalogue import BUNDLED
from specdec_core.record.trace import Trace

from .texts import LANGUAGES, TEXTS

APP = Path(__file__).resolve().parents[1]
MARKS = {name: SIGNS[name] for name in ("accepted", "corrected", "bonus", "rejected")}
GLYPHS = {"true": "✓", "conditional": "◐", "false": "✗"}
ROUNDS_SHOWN = 7
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
PLACES = {
    "index.html": "name",
    "live.html": "live",
    "races.html": "races_short",
    "course.html": "course",
    "claims.html": "claims",
}
TRANSLATED = re.compile("(live|course|claims|lessons/.*).html")


def page(here: str, title: str, body: str, script: str = "") -> str:
    """A whole document; `here` is its place in the site, such as lessons/race.html; the script runs last."""
    policy = allowing(script) if script else POLICY
    texts = f' data-texts="{escape(json.dumps(TEXTS.script, ensure_ascii=False))}"' if script else ""
    script = script and f"<script>{script}</script>\n"
    return f"""<!doctype html>
<html lang="{TEXTS.language}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>{_style()}</style>
</head>
<body>
{navigation(here)}
<main{texts}>
{body}
</main>
{script}</body>
</html>
"""


def allowing(script: str) -> str:
    """The policy of a page with this one script."""
    return f"{POLICY}; script-src 'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"


@cache
def script(module: str) -> str:
    """A script of the site's own, from `page/`: the module's `open` runs."""
    return link(APP, f"site/page/{module}.js", "open")


@cache
def _style() -> str:
    return CSS + Path(__file__).with_name("site.css").read_text(encoding="utf-8")


def navigation(here: str) -> str:
    """The links to the other parts, relative, so that the site works from any folder."""
    up, own = "../" * here.count("/"), here.removeprefix(TEXTS.folder)
    links = "".join(
        f'<a href="{up}{_placed(place)}"{" aria-current=page" if place == own else ""}>{escape(TEXTS[name])}</a>'
        for place, name in PLACES.items()
    )
    (other,) = (language for language in LANGUAGES if language != TEXTS.language)
    folder = "" if other == LANGUAGES[0] else f"{other}/"
    there = f"{up}{folder}{own if TRANSLATED.fullmatch(own) else 'course.html'}"
    return (
        f'<nav>{links}<a href="{there}" hreflang="{other}" lang="{other}">{escape(TEXTS["other"])}</a></nav>'
    )


def _placed(place: str) -> str:
    """Where a page is in the language that is written, from the site's root."""
    return TEXTS.folder + place if TRANSLATED.fullmatch(place) else place


def start(example: Example, trace: Trace) -> str:
    """The start page: the story, a recorded run, the ways on."""
    stats, lane = trace.stats, example.lanes[-1]
    facts = TEXTS["picture_after"].format(tokens=stats.tokens, passes=stats.target_passes)
    if lane.speedup is not None:
        facts += " " + TEXTS["measured"].format(
            speedup=f"{lane.speedup:.2f}×", machine=example.machine, date=example.recorded[:10]
        )
    marks = " · ".join(
        f"{mark} {words}" for mark, words in zip(MARKS.values(), TEXTS["legend"].split(" · "), strict=True)
    )
    return f"""<h1>{escape(TEXTS["title"])}</h1>
<p>{escape(TEXTS["lead"])}</p>
<p class="small">{escape(TEXTS["picture"].format(millions=f"{trace.header.target.parameters / 1e6:.1f}"))}</p>
<ol class="rounds">{"".join(_round(trace, at) for at in range(min(ROUNDS_SHOWN, len(trace.rounds))))}</ol>
<p class="small">{escape(marks)}</p>
<p>{escape(facts)}</p>
<p><a class="main" href="live.html">{escape(TEXTS["try"])}</a>
<a href="{race_place(example)}">{escape(TEXTS["watch"])}</a></p>
<p class="small">{escape(TEXTS["about"])} <a href="specdec-course-scorm.zip">{escape(TEXTS["package"])}</a></p>"""


def _round(trace: Trace, at: int) -> str:
    """One round: what it wrote, and the first guess that was rejected."""
    row = trace.rounds[at]
    first = sum(len(each.committed.token) for each in trace.rounds[:at])
    parts = [
        _token(trace.output.texts[first + number], source)
        for number, source in enumerate(row.committed.source)
    ]
    if "rejected" in row.nodes.verdict:
        lost = row.nodes.token[row.nodes.verdict.index("rejected")]
        parts.insert(len(parts) - 1, _token(trace.texts.get(str(lost), ""), "rejected"))
    return f"<li>{''.join(parts)}</li>"


def _token(text: str, kind: str) -> str:
    shown = escape(text.replace("\n", "⏎"))
    return f'<span class="{kind}">{shown}<small aria-hidden="true">{MARKS.get(kind, "")}</small></span>'


def race_place(example: Example) -> str:
    """Where an example's page is, from the site's root."""
    return f"races/{example.id}.html"


def races(examples: Iterable[Example], families: Mapping[str, str]) -> str:
    """The list of recorded races; `families` are their models, by the examples' ids."""
    listed = list(examples)
    parts = [f"<h1>{escape(TEXTS['races'])}</h1><p>{escape(TEXTS['races_about'])}</p>"]
    for kind, title in (("proposer", "proposers"), ("lesson", "memorable")):
        rows = "".join(_race(each, families[each.id]) for each in listed if each.kind == kind)
        parts.append(f'<h2>{escape(TEXTS[title])}</h2><ul class="list">{rows}</ul>')
    return "\n".join(parts)


def _race(example: Example, family: str) -> str:
    lane = example.lanes[-1]
    speed = TEXTS["speedup"].format(speedup=f"{lane.speedup:.2f}×") if lane.speedup else TEXTS["alone"]
    facts = f"{TEXTS['tiny' if family == BUNDLED else 'chat']} · {speed} · {example.machine}, {example.recorded[:10]}"
    return (
        f'<li><a href="{race_place(example)}">{escape(example.title)}</a>'
        f'<p>{escape(example.look_for)}</p><p class="small">{escape(facts)}</p></li>'
    )


def course(lessons: Sequence[Lesson]) -> str:
    """The list of lessons."""
    rows = "".join(
        f'<li data-lesson="{lesson.id}"><a href="lessons/{lesson.id}.html">'
        f"{escape(lesson.number)} · {escape(lesson.front.title)}</a>"
        f"<p>{escape(lesson.front.about)}</p></li>"
        for lesson in lessons
    )
    about = (
        f'<h1>{escape(TEXTS["course"])}</h1><p>{escape(TEXTS["course_about"])}</p><div id="progress"></div>'
    )
    return f'{about}<ul class="list">{rows}</ul>'


def lesson(made: Lesson, following: Lesson | None, examples: Mapping[str, Example]) -> str:
    """A lesson's questions with their answers folded, what explains them, and its recorded runs."""
    front, sections = made.front, made.sections
    right, asked = made.right["predict"], sections["check"]
    outcome = f"{made.answer:.3g}" if made.answer is not None else _said(sections["predict"].items, right)
    parts = [
        f"<h1>{escape(made.number)} · {escape(front.title)}</h1>", html(sections["hook"].prose),
        _asked(made, "predict", outcome, _why(sections["predict"].items, right)),
        f'<div id="after"><h2>{escape(TEXTS["explain"])}</h2>', html(sections["explain"].prose),
        runs(made.pictures.values(), examples, TEXTS["recorded"], up="../"),
        _asked(made, "check", _said(asked.items, made.right["check"]), _why(asked.items, asked.items)),
        "</div>",
    ]  # fmt: skip
    if following is not None:
        said_next = TEXTS["next"].format(title=f"{following.number} · {following.front.title}")
        parts.append(f'<p><a href="{following.id}.html">{escape(said_next)}</a></p>')
    return "\n".join(parts)


def _asked(made: Lesson, part: str, outcome: str, why: str) -> str:
    """A question with its answer; what the script needs to ask it is in its attributes."""
    front = made.front.predict
    facts = {"lesson": made.id, "name": part, "kind": front.kind if part == "predict" else "choice"}
    if facts["kind"] == "number":
        facts |= {"low": f"{front.low:g}", "high": f"{front.high:g}", "step": f"{front.step:g}"}
        facts |= {"right": repr(made.answer), "band": repr(made.band)}
    else:
        facts["right"] = " ".join(sorted(made.right[part]))
    data = "".join(f' data-{name}="{escape(value)}"' for name, value in facts.items())
    return (
        f'<h2 id="{part}">{escape(TEXTS[part])}</h2><div id="{part}-asked">{html(made.sections[part].prose)}</div>'
        f'<div class="ask" role="group" aria-labelledby="{part}" aria-describedby="{part}-asked"{data}>'
        f"{_options(made, part)}{_answer(outcome, why)}</div>"
    )


def _options(made: Lesson, part: str) -> str:
    items = made.sections[part].items
    ordered = part == "predict" and made.front.predict.ordered
    keys = list(items) if ordered else shuffle.order(items, f"{made.id}-{part}", shuffle.PAPER)
    if not items:
        return ""
    return (
        '<ul class="options">'
        + "".join(f'<li data-key="{key}">{inline(items[key].text)}</li>' for key in keys)
        + "</ul>"
    )


def _said(items: Mapping[str, Item], right: Iterable[str]) -> str:
    chosen = set(right)
    return ", ".join(item.text for key, item in items.items() if key in chosen)


def _why(items: Mapping[str, Item], keys: Iterable[str]) -> str:
    """The notes of these options, each said once."""
    chosen = set(keys)
    notes = dict.fromkeys(item.note for key, item in items.items() if key in chosen and item.note)
    return "\n\n".join(notes)


def _answer(outcome: str, why: str) -> str:
    return (
        f"<details><summary>{escape(TEXTS['answer'])}</summary>"
        f'<p class="verdict">{inline(outcome)}</p>{html(why)}</details>'
    )


def runs(pictures: Iterable[Picture | None], examples: Mapping[str, Example], title: str, up: str) -> str:
    """Links to the recorded runs that these pictures show; `up` leads to the language's folder."""
    up += "../" * TEXTS.folder.count("/")
    found: dict[str, str] = {}
    for picture in pictures:
        given = {} if picture is None else picture.given
        named = given.get("examples") or ([given["example"]] if isinstance(given.get("example"), str) else [])
        for key in named:
            place = [f"{name}={given[name]}" for name in ("round", "view") if name in given]
            found.setdefault(str(key), "#" + "&".join(place) if place else "")
    links = [
        f'<a href="{up}{race_place(examples[key])}{escape(where)}">{escape(examples[key].title)}</a>'
        for key, where in found.items()
        if key in examples
    ]
    return f"<p>{escape(title)} {' · '.join(links)}</p>" if links else ""


def claims(made: Sequence[tuple[Claim, str]], examples: Mapping[str, Example], words: Words) -> str:
    """All claims, each with the provenance of its chart; the verdicts are folded."""
    parts = [f"<h1>{escape(TEXTS['claims_title'])}</h1><p>{escape(TEXTS['claims_about'])}</p>"]
    for claim, provenance in made:
        front, shown = claim.front, claim.sections["demonstration"]
        drawn = (
            _chart(front.chart, claim.drawn, shown.items, provenance, words)
            if front.chart and claim.drawn
            else ""
        )
        sources = " · ".join(
            f'<a href="{escape(source.link)}" rel="noreferrer">{escape(source.name)}</a>'
            for source in (*front.heard, *front.beside)
        )
        assert claim.verdict in VERDICTS
        parts.append(
            f"<h2>{escape(words('claims.quoted', claim=front.claim))}</h2>"
            f"<details><summary>{escape(TEXTS['verdict'])}</summary>"
            f'<p class="verdict">{GLYPHS[claim.verdict]} {escape(words(f"claims.is_{claim.verdict}"))}</p>'
            f"{html(claim.sections['answer'].prose)}{drawn}"
            f'{runs([front.picture], examples, TEXTS["play"], up="")}<p class="small">{sources}</p></details>'
        )
    return "\n".join(parts)


def _chart(figure: Figure, drawn: Drawn, texts: Mapping[str, Item], provenance: str, words: Words) -> str:
    """A claim's chart as a table whose numbers are drawn as bars, so that it needs no script."""
    number = words.number
    names = [texts[key].text for key in drawn.series]
    most = max(1e-9, *(value for values in drawn.series.values() for value in values))
    rows = ""
    for at, across in enumerate(drawn.across):
        cells = "".join(
            f"<td>{said(values[at], figure, number)}"
            f'<i style="inline-size: {max(0.0, 8 * values[at] / most):.2f}rem"></i></td>'
            for values in drawn.series.values()
        )
        rows += f'<tr><th scope="row">{escape(named(across, figure, texts, number))}</th>{cells}</tr>'
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    level = f"{texts['level'].text}: {said(drawn.level, figure, number)}. " if drawn.level is not None else ""
    head = f'<thead><tr><th scope="col">{escape(texts["across"].text)}</th>{head}</tr></thead>'
    note = f"{texts['up'].text}. {level}{provenance.removesuffix('.')}."
    return (
        f"<figure><figcaption>{escape(texts['title'].text)}</figcaption>"
        f'<div class="scroll" tabindex="0"><table>{head}<tbody>{rows}</tbody></table></div>'
        f'<p class="small">{escape(note)}</p></figure>'
    )
