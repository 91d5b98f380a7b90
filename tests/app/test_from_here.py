"""From here: a run that goes on from another one with a token that its viewer chose."""

from __future__ import annotations

import time
from typing import Any

from app import services
from app.decoding.run import Run
from app.decoding.runs import Runs
from app.records import keeping
from app.running import from_here
from app.ui.state import state
from specdec_core.record.schema import Branch

from .kept import ANNA, finish


def run_of(saving: Runs) -> Run:
    saved = finish(saving)
    assert saved is not None
    run = saving.get(saved.id)
    assert run is not None
    return run


def chosen(run: Run, at: int, lane: int = 1) -> dict[str, Any]:
    """The least likely candidate that the record names there."""
    trace = run.traces[lane]
    places = [place for row in trace.rounds for place in row.positions]
    return {"trace": trace.header.id, "at": at, "token": places[at].model_p.id[-1]}


def goes_on(saving: Runs, run: Run, at: int) -> Run:
    asked = from_here.request(run, chosen(run, at))
    assert asked is not None
    found = saving.start(asked)
    assert found.wait(20) and found.error is None
    deadline = time.monotonic() + 20  # the library keeps it a moment after its end
    while services.library().get(ANNA, found.id) is None and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def test_both_lanes_go_on_with_the_token_and_say_so(saving: Runs) -> None:
    """Catches: a lane without the forced token, a record or a request that forgets it, settings that change."""
    first = run_of(saving)
    second = goes_on(saving, first, 7)
    of = first.traces[1]
    token = chosen(first, 7)["token"]
    for trace in second.traces.values():
        assert trace.header.prompt_ids == [*of.header.prompt_ids, *of.token_ids[:7], token]
        assert trace.header.branch == Branch(of.header.id, 7, token)
    assert second.traces[0].token_ids == second.traces[1].token_ids
    assert second.request.lanes == first.request.lanes and second.request.choice == first.request.choice
    assert second.before.startswith(of.header.prompt) and second.before.endswith(of.texts[str(token)])
    assert second.traces[0].header.prompt == second.request.prompt


def test_the_library_brings_it_back_with_the_way_to_it(saving: Runs) -> None:
    """Catches: a branch that is another run after a restart, and a trail that is lost."""
    first = run_of(saving)
    second = goes_on(saving, first, 3)
    saving.drop(second.id)
    found = keeping.find(second.id, ANNA, saving, services.library())
    assert found is not None and found is not second and found.request == second.request
    assert [one["run"] for one in from_here.trail(found)] == [first.id, second.id]


def test_one_can_go_back_and_on_again_until_another_branch_begins(saving: Runs) -> None:
    """Catches: a first run that cannot be reached, a branch that is lost by going back, others' runs in the row."""
    first = run_of(saving)
    assert from_here.trail(first) == []
    second = goes_on(saving, first, 3)
    names = [(one["run"], one["text"], one["shown"]) for one in from_here.trail(second)]
    word = first.traces[1].texts[str(chosen(first, 3)["token"])]
    assert names == [(first.id, None, False), (second.id, word, True)]
    assert [one["shown"] for one in from_here.trail(first)] == [True, False]
    third = goes_on(saving, first, 9)
    assert [one["run"] for one in from_here.trail(third)] == [first.id, third.id]
    assert from_here.trail(third.seen_by("a-link")) == []
    state.trail = []


def test_what_the_record_does_not_have_is_not_run(saving: Runs) -> None:
    """Catches: a browser's invented place or token that reaches the decoder."""
    run = run_of(saving)
    good = chosen(run, 3)
    assert from_here.request(run, good) is not None
    for wrong in (
        {"trace": "another"},
        {"at": -1},
        {"at": 25},
        {"at": 3.5},
        {"at": True},
        {"token": 10**6},
        {"token": "5"},
        {"token": None},
    ):
        assert from_here.request(run, {**good, **wrong}) is None, wrong
