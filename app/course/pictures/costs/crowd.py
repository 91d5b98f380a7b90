"""Recorded rounds on the clock of a large machine that serves more and more requests at once, labelled as modelled; and
what was measured with the bundled models."""

from __future__ import annotations

from math import log10

import plotly.graph_objects as go
from pydantic import Field, field_validator

from app.charts import batches
from app.charts.chart import Chart, below, lay_out
from app.course.drawing.scene import Columns, Part, Place, Values, slide
from app.course.facts.failing import crowd, machines, served
from app.course.facts.recorded import trace
from app.course.files.lesson import Strict
from app.course.files.words import Words
from app.course.live import measured
from app.records import examples as recorded
from app.theme import GREY, ORANGE, Look, look

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
CONTEXTS = (128, 512, 2_048, 8_192, 32_768)


class With(Strict):
    """`examples`: recorded rounds; `profile`: a machine of assets/profiles; the sliders' initial values."""

    examples: list[str] = Field(min_length=1, max_length=4)
    profile: str = "h100-sxm"
    batch: int = 1
    context: int = 512

    @field_validator("examples")
    @classmethod
    def there(cls, given: list[str]) -> list[str]:
        """Whether each of them ships."""
        recorded.require(given)
        if len({trace(example).header.prompt for example in given}) > 1:
            raise ValueError("the lines are compared, so take recordings of one prompt")
        return given

    @field_validator("profile")
    @classmethod
    def machine(cls, given: str) -> str:
        """Whether the machine exists."""
        machines(given)
        return given


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The number of requests and the length of the text."""
    words = at.words
    return [
        Columns(
            [
                slide("batch", words("crowd.batch"), BATCHES, given.batch),
                slide("context", words("crowd.context"), CONTEXTS, given.context, words.whole),
            ],
            (1, 1),
            align="top",
        )
    ]


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The lines, and what was measured."""
    return [lines(given, values["batch"], values["context"], at.words), together(given, at.words)]


def looks(given: With) -> dict[str, Look]:
    """A style for each proposer of the two charts."""
    proposers = [*map(proposer_of, given.examples), *(lane.proposer for lane in served().lanes)]
    return {proposer: look(number) for number, proposer in enumerate(dict.fromkeys(proposers), 1)}


def proposer_of(example: str) -> str:
    """Who proposed in a recorded example."""
    return str(trace(example).header.settings["proposer"])


def together(given: With, words: Words) -> Chart:
    """The measured speedups, with those expected."""
    found = served()
    lanes = {lane.proposer: measured.name("lane", lane.proposer, words) for lane in found.lanes}
    said = [
        words("crowd.together-now", name=name, batch=one.batch, speed=one.speedup, low=one.low, high=one.high)
        for proposer, name in lanes.items()
        for lane in found.lanes
        if lane.proposer == proposer
        for one in (lane.batches[0], lane.batches[-1])
    ]
    texts = batches.Texts(
        title=words("crowd.together-title", lanes=", ".join(lanes.values())),
        provenance=words(
            "crowd.together-source",
            machine=found.machine, threads=found.threads, date=found.date[:10], repeats=found.repeats,
            target=found.target, draft=found.draft, repeated=found.repeated,
        ) + "".join(
            " " + words(f"crowd.together-{said}")
            for said, holds in (("busy", found.busy), ("processor", found.clock == "processor"))
            if holds
        ),
        said=" ".join(said),
        x=words("crowd.x"),
        y=words("crowd.y"),
        measured=words("crowd.together-measured"),
        expected=words("crowd.together-expected"),
        interval=words("crowd.together-interval"),
        lanes=lanes,
    )  # fmt: skip
    return batches.together(found, texts, looks(given))


def lines(given: With, batch: int, context: int, words: Words) -> Chart:
    """Modelled speedup over the number of requests, a line for each example; what does not fit has no point."""
    figure = go.Figure()
    styles = looks(given)
    sentences, highest = [], 4.0
    for example in given.examples:
        speeds = [crowd(example, given.profile, requests, context) for requests in BATCHES]
        now = crowd(example, given.profile, batch, context)
        proposer = proposer_of(example)
        style, name = styles[proposer], measured.name("lane", proposer, words)
        sentences.append(
            words("crowd.no_room", name=name)
            if now is None
            else words("crowd.now", name=name, speed=now, batch=batch)
        )
        figure.add_scatter(
            name=name if now is None else words("crowd.legend", name=name, speed=now),
            x=BATCHES,
            y=speeds,
            mode="lines+markers",
            line={"color": style.colour, "dash": style.dash, "width": 3},
            marker={
                "symbol": style.symbol,
                "size": [17 if requests == batch else 8 for requests in BATCHES],
                "opacity": 1,
            },
            hovertemplate=words("crowd.hover") + "<extra></extra>",
        )
        highest = max([highest, *filter(None, speeds)])
    figure.add_hline(y=1.0, line={"color": GREY, "width": 2, "dash": "dot"})
    figure.add_hrect(y0=0.05, y1=1.0, fillcolor=ORANGE, opacity=0.12, line_width=0, layer="below")
    figure.add_vline(x=batch, line={"color": GREY, "width": 1, "dash": "dot"})
    figure.add_annotation(
        x=0.01, xref="paper", xanchor="left", y=-0.02, yanchor="top", text=words("crowd.slower"),
        showarrow=False, font={"size": 13},
    )  # fmt: skip
    lay_out(
        figure,
        400,
        {"title": words("crowd.x"), "type": "log", "tickvals": BATCHES, "range": [-0.08, 2.8]},
        {
            "title": words("crowd.y"),
            "type": "log",
            "tickvals": [0.25, 0.5, 1, 2, 4, 8, 16],
            "ticktext": ["¼×", "½×", "1×", "2×", "4×", "8×", "16×"],
            "range": [log10(0.2), log10(1.3 * highest)],
        },
        legend=below(0.2) | {"font": {"size": 14}},
    )
    machine = machines(given.profile)
    pair = machine.costs(1, context).pair
    fits = all(crowd(example, given.profile, batch, context) is not None for example in given.examples)
    return Chart(
        figure,
        words("crowd.title" if fits else "crowd.full", batch=batch, context=words.whole(context)),
        words(
            "crowd.modelled", machine=machine.label, pair=pair, prompt=trace(given.examples[0]).header.prompt
        ),
        " ".join(sentences),
    )
