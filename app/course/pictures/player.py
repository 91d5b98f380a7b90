"""A recorded example in the player: everything the lab shows of a run, with no model loaded."""

from __future__ import annotations

from typing import Any

import streamlit as st
from pydantic import Field, field_validator

from app.course.lesson import Strict
from app.player import CURSOR
from app.records import examples as recorded
from app.running.flow import draw as draw_player
from app.ui import address, presenter
from app.ui.fragment import fragment

from . import Place


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


def draw(given: With, at: Place) -> None:
    """Draw the player, with a choice of examples if there are several (in a presentation shown below it)."""

    @fragment
    def show() -> None:
        with st.container(key="course-recorded"):
            example = choose(given, at)
        draw_player(
            f"{at.id}-{at.step}-{example.id}",
            mode="replay",
            traces=lanes(example)[-1:] if given.alone else lanes(example),
            provenance="recorded",
            provenance_note=f"{example.machine}, {example.recorded[:10]}",
            autoplay=given.autoplay,
            present=presenter.presenting(),
            view_first=given.view is not None,
            language=at.words.player,
            key=at.key("player"),
        )

    for key in ("round", "step", "view"):
        if (value := getattr(given, key)) is not None and key not in st.query_params:
            address.put(key, str(value))
    show()


def choose(given: With, at: Place) -> recorded.Example:
    """The example to show, picked by the learner if there are several."""
    picked = given.examples[0]
    if len(given.examples) > 1:
        picked = st.segmented_control(
            at.words("player.which"),
            given.examples,
            default=picked,
            format_func=lambda example: at.words(f"examples.{example}"),
            required=True,
            key=at.key("example"),
            on_change=forget,
        )
    example = recorded.find(picked)
    assert example is not None
    st.caption(at.words("player.recorded", machine=example.machine, date=example.recorded[:10]))
    return example


def lanes(example: recorded.Example) -> list[dict[str, Any]]:
    """Its lanes for the player, fetched by the browser itself."""
    return [
        {"label": lane.label, "url": f"/traces/{name}.json"}
        for name, lane in zip(example.files, example.lanes, strict=True)
    ]


def forget() -> None:
    """The cursor of one example does not apply to another."""
    address.drop(CURSOR)
