"""A draft is trained while one watches: its tokens per pass rise, it races itself as it was, and can be downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from pydantic import Field

from app.course.drawing.scene import (
    Button,
    Download,
    Html,
    Markdown,
    Notice,
    Part,
    Place,
    Values,
    choose,
)
from app.course.files.lesson import Strict
from app.course.files.words import Words
from app.course.live import training
from app.course.live.training import Training
from app.decoding.jobs import Busy
from app.records import visitor
from app.text import plain
from specdec_lessons.distilled import HELD_BACK, Distilled, Score, Standing

if TYPE_CHECKING:
    from app.charts import Chart


class With(Strict):
    """`kinds`: of text, from which the learner chooses."""

    kinds: tuple[str, ...] = Field(("story", "code"), min_length=1)


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The kind of text and the button that starts."""
    words, going = at.words, active()
    named = lambda name: words(f"distilling.kind-{name}")  # noqa: E731
    return [
        Markdown(words("distilling.what", prompts=HELD_BACK), "small"),
        choose("kind", words("distilling.kind"), given.kinds, given.kinds[0], named, off=going),
        Button(
            "start", words("distilling.start"), None, "model_training", going, words("distilling.start_help")
        ),
    ]


def active() -> bool:
    """Whether the visitor's draft is being trained."""
    last = _mine()
    return last is not None and last.active


def _mine() -> Training | None:
    return training.trainings().of(visitor.of_session())


def acted(name: str, act: object, given: With, values: Values, at: Place) -> Values:
    """Start or stop a training."""
    if name == "stop" and (last := _mine()):
        last.cancel()
    if name == "start":
        try:
            training.trainings().begin(values["kind"], visitor.of_session())
        except Busy:
            return {"busy": True}
    return {"busy": False}


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The visitor's last training."""
    words, job = at.words, _mine()
    parts: list[Part] = []
    if values.get("busy"):
        parts.append(Notice("warning", words("distilling.busy", most=training.ACTIVE), "hourglass_top"))
    if job is None:
        return parts
    job.seen()
    if job.active:
        parts.append(Button("stop", words("distilling.stop"), icon="stop"))
    parts += _progress(job, words)
    if job.scored:
        parts.append(chart(job, words))
    if job.result is not None:
        parts += [
            Html(table(job, job.result, words)),
            Markdown(gained(job.result, words)),
            Download(
                "download", words("distilling.download"), job.result.weights,
                f"draft-{job.kind}.safetensors", "application/octet-stream", words("distilling.download_help"),
            ),
        ]  # fmt: skip
    return parts


def _progress(job: Training, words: Words) -> list[Part]:
    """One sentence on where it is, or why it ended."""
    if job.state == "failed":
        return [Notice("warning", plain(job.error or words("distilling.failed")), "error")]
    if job.state == "stopped":
        return [Notice("info", words("distilling.stopped"), "stop")]
    if not job.active:
        return []
    last = job.last
    if last is None:
        return [Notice("info", words("distilling.waiting", ahead=job.place), "hourglass_top")]
    said = words(f"distilling.{last.phase}", tokens=last.tokens, prompts=HELD_BACK)
    return [Notice("info", plain(said), share=last.share)]


def chart(job: Training, words: Words) -> Chart:
    """Tokens per pass on the prompts held back, while the draft learns."""
    import plotly.graph_objects as go

    from app.charts.chart import Chart, lay_out
    from app.theme import GREY, ORANGE

    seconds = [standing.seconds - job.scored[0].seconds for standing in job.scored]
    passes = [score.tokens_per_pass for score in scores(job.scored)]
    figure = go.Figure()
    figure.add_scatter(
        x=seconds,
        y=passes,
        customdata=[score.acceptance for score in scores(job.scored)],
        mode="lines+markers",
        line={"color": ORANGE, "width": 3},
        name=words("distilling.yours"),
        hovertemplate=words("distilling.hover"),
    )
    if job.result is not None and job.result.shipped is not None:
        figure.add_hline(
            y=job.result.shipped.tokens_per_pass,
            line={"color": GREY, "width": 2, "dash": "dash"},
            annotation_text=words("distilling.shipped"),
        )
    lay_out(
        figure,
        300,
        {"title": words("distilling.x"), "rangemode": "tozero", "zeroline": True},
        {"title": words("distilling.y"), "range": [0.95, max(1.5, 1.08 * max(passes), _highest(job))]},
        hovermode=None,
    )
    score = scores(job.scored)[-1]
    said = words("distilling.now", alpha=score.acceptance, passes=score.tokens_per_pass)
    return Chart(
        figure,
        said,
        plain(words("distilling.source", machine=job.machine, prompts=HELD_BACK)),
        words("distilling.alt", first=passes[0], last=passes[-1], seconds=seconds[-1]),
    )


def _highest(job: Training) -> float:
    shipped = job.result.shipped if job.result else None
    return 1.08 * shipped.tokens_per_pass if shipped else 0.0


def scores(standings: Sequence[Standing]) -> list[Score]:
    """The scores of the reports that have one."""
    return [standing.score for standing in standings if standing.score is not None]


def table(job: Training, result: Distilled, words: Words) -> str:
    """The draft before, after, and the one that ships: α, tokens per pass, and the speedup of those that raced."""
    known = scores(job.scored)
    before, after = (
        sum(getattr(heat, side) for heat in result.heats) / len(result.heats) for side in ("before", "after")
    )
    rows = [
        ("before", known[0].acceptance, before, f"{words.number(result.speedup('before'), '.2f')}×"),
        ("after", known[-1].acceptance, after, f"{words.number(result.speedup('after'), '.2f')}×"),
    ]
    if result.shipped is not None:
        rows.append(("shipped", result.shipped.acceptance, result.shipped.tokens_per_pass, "–"))
    body = "".join(
        f"<tr><th scope='row'>{escape(words(f'distilling.{name}'))}</th>"
        f"<td>{words.number(alpha, '.0%')}</td><td>{words.number(passes, '.2f')}</td>"
        f"<td>{speedup}</td></tr>"
        for name, alpha, passes, speedup in rows
    )
    heads = "".join(
        f"<th scope='col'>{escape(words(f'distilling.{key}'))}</th>"
        for key in ("draft", "alpha", "passes", "speedup")
    )
    return (
        "<style>.distilled{border-collapse:collapse;font-variant-numeric:tabular-nums}"
        ".distilled :is(th,td){text-align:left;padding:.25rem 1.25rem .25rem 0;font-weight:400;"
        "border-bottom:1px solid color-mix(in srgb,currentColor 25%,transparent)}"
        ".distilled td{font-weight:650}</style>"
        f"<table class='distilled'><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    )


def gained(result: Distilled, words: Words) -> str:
    """What the training gained, with its interval."""
    gain, low, high = result.gain
    return words(
        "distilling.gained", gain=gain, low=low, high=high, prompts=len(result.heats), tokens=result.tokens
    )
