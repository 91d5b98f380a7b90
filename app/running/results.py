"""Below the player: a finished run's charts and downloads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import streamlit as st

from app.choosing import controls, current
from app.decoding.run import Run
from app.lanes import page_settings
from app.lanes.lane import Lane, to_address, usual
from app.records import examples as recorded

from . import downloads, headline


def unsaved_note(run: Run) -> None:
    """A note about a run that the library could not keep."""
    if run.unsaved:
        st.warning(
            "The library could not keep this run: it is full, or its file cannot be written. Download what you need.",
            icon=":material/warning:",
        )


def charts(run: Run) -> None:
    """The charts side by side."""
    from app import charts as drawn
    from app.charts.draw import draw as put

    traces = run.traces
    lanes = list(traces.values())
    labels = [run.request.labels[lane] for lane in traces]
    if any(trace.rounds for trace in lanes):
        for column, draw in zip(
            st.columns(2, gap="medium"), (drawn.round_timeline, drawn.tokens_against_time), strict=True
        ):
            with column:
                put(draw(lanes, labels, headline.MEASURED), draw.__name__)


def onward(run: Run) -> None:
    """Where one goes from here."""
    with st.container(horizontal=True, gap="medium", key="onward"):
        st.page_link(
            "app_pages/course.py",
            label="One round, step by step",
            icon=":material/school:",
            query_params={"lesson": "draft-verify"},
        )
        st.page_link(
            "app_pages/compare.py",
            label="Proposers, side by side",
            icon=":material/view_week:",
            query_params={
                "lane": _beside(run),
                **page_settings.address_of_prompt(run.request.prompt, None, None),
            },
        )


def _beside(run: Run) -> list[str]:
    """The run's own lanes and then the usual ones, as the comparison's address writes them."""
    own = [Lane.of(settings) for settings in run.request.lanes if settings.proposer != "none"]
    others = usual([current.begins(name) for name in current.proposers()])
    known = {lane.proposer for lane in own}
    return to_address([*own, *(lane for lane in others if lane.proposer not in known)], others)


def download_box(run: Run) -> None:
    """The run's downloads."""
    with st.popover("Download", icon=":material/download:"):
        downloads.of_run(run)


@dataclass(frozen=True, slots=True)
class Shown:
    """A recorded example as the lab shows it before a run: its lanes for the player, what to notice, and its origin."""

    id: str
    traces: tuple[dict[str, str], ...]
    look_for: str
    origin: str


@cache
def example(named: str | None, proposer: str, family: str) -> Shown | None:
    """The recorded example of that name, else the one that introduces a proposer: the first bundled one for this family
    of models, else for another. None if there is none."""
    found = sorted(
        recorded.recipes()[0], key=lambda recipe: (recipe.id != named, recipe.family != family)
    )  # stable
    there = [recipe for recipe in found if recorded.files().keys() >= set(recipe.files)]
    for recipe in there:
        if recipe.id == named or recipe.lanes()[-1].proposer == proposer:
            built = recorded.build(recipe)
            labels = [controls.label(lane) for lane in recipe.lanes()]
            return Shown(
                id=recipe.id,
                traces=tuple(
                    {"label": label, "url": f"/traces/{name}.json"}
                    for label, name in zip(labels, recipe.files, strict=True)
                ),
                look_for=built.look_for,
                origin=f"{built.machine}, {built.recorded[:10]}",
            )
    return None
