"""A recorded example in the player: everything the lab shows of a run, with no model loaded."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from app.course.drawing.scene import Component, Markdown, Part, Place, Values, choose
from app.course.files.lesson import Strict
from app.player import CURSOR
from app.records import examples as recorded


class With(Strict):
    """`examples`: ids of assets/traces/index.toml; if several, the learner picks one. `round` and `view` open there."""

    examples: list[str] = Field(min_length=1, max_length=6)
    round: int | None = None
    step: int | None = None
    view: str | None = None
    autoplay: bool = False
    alone: bool = False
    """Whether the plain lane is left out, so that the asked-for view is nearer."""

    @field_validator("examples")
    @classmethod
    def there(cls, given: list[str]) -> list[str]:
        """Whether each of them ships."""
        recorded.require(given)
        return given


def controls(given: With, values: Values, at: Place) -> list[Part]:
    """The example, picked by the learner if there are several; the cursor of one does not apply to another."""
    words, parts, picked = at.words, [], given.examples[0]
    if len(given.examples) > 1:
        offered = choose(
            "example", words("player.which"), given.examples, picked, lambda name: words(f"examples.{name}"),
            resets=CURSOR,
        )  # fmt: skip
        parts, picked = [offered], offered.of(values)
    example = recorded.find(picked)
    assert example is not None
    origin = words("player.recorded", machine=example.machine, date=example.recorded[:10])
    return [*parts, Markdown(origin, "small")]


def scene(given: With, values: Values, at: Place) -> list[Part]:
    """The player."""
    example = recorded.find(values.get("example", given.examples[0]))
    assert example is not None
    shown = {
        "of": f"{at.id}-{at.step}-{example.id}",
        "mode": "replay",
        "traces": lanes(example)[-1:] if given.alone else lanes(example),
        "provenance": "recorded",
        "provenance_note": f"{example.machine}, {example.recorded[:10]}",
        "autoplay": given.autoplay,
        "view_first": given.view is not None,
        "language": at.words.player,
        "cursor": {"round": given.round, "step": given.step, "view": given.view},
    }
    return [Component("player", "player", shown)]


def lanes(example: recorded.Example) -> list[dict[str, Any]]:
    """Its lanes for the player, fetched by the browser itself."""
    return [
        {"label": lane.label, "url": f"/traces/{name}.json"}
        for name, lane in zip(example.files, example.lanes, strict=True)
    ]
