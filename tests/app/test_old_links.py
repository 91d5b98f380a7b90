"""Links that were given away before: each still asks for the run that it asked for when it was made.

`links.json` was written by the app of 2026-11-22, with `outcome` below. It is a record, not an expectation that may be
written anew when it fails: a link on a course page or in a mail cannot be changed. The bare address of a family whose
usual proposer begins with other options since then is not in it: it asks for no lane, and the page may choose a better.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from streamlit.testing.v1 import AppTest

from app import config as policy
from app import services
from app.choosing import defaults
from app.decoding.loaded import Loaded
from app.decoding.models import ModelCache, ModelChoice
from app.decoding.runs import Runs
from specdec_core.settings import Settings

from .conftest import OPERATOR, scripted_family
from .test_current import CHAT_PROMPTS, MAIN, REAL, chat_models

FILE = Path(__file__).parent / "links.json"
USUAL = Settings().model_dump(mode="json")


@pytest.fixture(scope="module")
def real() -> Any:
    """The chat model; a run of it changes nothing in it."""
    return chat_models()


@pytest.fixture
def server(
    request: pytest.FixtureRequest, fresh: Runs, prompts: Path, monkeypatch: pytest.MonkeyPatch, real: Any
) -> Iterator[None]:
    """A server of the named kind: `tiny` has the bundled family alone, `chat` a chat model without trained parts as
    its default, `heads` one with them."""
    kind = request.param
    if kind == "tiny":
        yield
        return
    (prompts / "chat-question.toml").write_text(CHAT_PROMPTS, encoding="utf-8")
    built = {ModelChoice(): scripted_family(), REAL: Loaded(real)}
    shelf = ModelCache(lambda choice: built[choice], lambda *asked: None)
    for choice in built:
        shelf.get(choice)
    runs = Runs(lambda choice, gone: shelf.get(choice, gone))
    monkeypatch.setattr(services, "shelf", lambda: shelf)
    monkeypatch.setattr(services, "runs", lambda: runs)
    operator = policy.read({**OPERATOR, "SPECDEC_DEFAULT_MODELS": defaults.REAL})
    monkeypatch.setattr(services, "operator", lambda: operator)
    there = partial(defaults.proposers, there=lambda part: kind == "heads")
    monkeypatch.setattr(defaults, "proposers", there)
    yield
    runs.close()


def outcome(page: str, query: str) -> dict[str, Any]:
    """What the page makes of a link, in settings and not in words: what Run then asks for, or that it is refused; how
    many complaints the page has, and what its address says afterwards.

    Of a lane's settings those that are not the core's defaults.
    """
    at = AppTest.from_file(MAIN, default_timeout=60)
    if page != "lab":
        at.switch_page(f"app_pages/{page}.py")
    for key, values in parse_qs(query, keep_blank_values=True).items():
        at.query_params[key] = values
    at.run()
    assert not at.exception
    complaints = sum(len(warning.value.splitlines()) for warning in at.warning)
    at.button(key="go").click().run()
    assert not at.exception
    address = {key: values for key, values in at.query_params.items() if values}
    run = services.runs().get("".join(address.pop("run", "")))
    found: dict[str, Any] = {"complaints": complaints, "address": address}
    if run is None:
        assert at.error
        return {**found, "refused": True}
    request = run.request
    lanes = [
        {key: value for key, value in lane.model_dump(mode="json").items() if value != USUAL[key]}
        for lane in request.lanes
    ]
    return {**found, "prompt": request.prompt, "chat": request.chat, "system": request.system, "lanes": lanes,
            "models": asdict(request.choice)}  # fmt: skip


@pytest.mark.parametrize(
    ("server", "link"),
    [(link["server"], link) for link in json.loads(FILE.read_text(encoding="utf-8"))],
    indirect=["server"],
    ids=lambda value: f"{value['page']}?{value['query'][:60]}" if isinstance(value, dict) else value,
)
def test_a_link_of_before_asks_for_the_same(server: None, link: dict[str, Any]) -> None:
    then = link["outcome"]
    if "penalty" not in link["query"] and "generation" not in link["query"]:
        # each kind of prompt had a penalty of its own then, which no link named; now no prompt sets one
        for lane in then.get("lanes", ()):
            lane.pop("repetition_penalty", None)
    assert json.loads(json.dumps(outcome(link["page"], link["query"]))) == then


NAMED = {"depth": 3, "top_k": 2, "nodes": 4}
WRITTEN = {"proposer": "draft-model", "gamma": "6", "length": "confidence"}
LEFT_OUT = {"depth": 3, "top_k": 3, "nodes": 8}  # what a link means that leaves it out


@pytest.mark.parametrize("server", ["heads"], indirect=True)
@pytest.mark.parametrize(
    ("query", "options", "address"),
    [
        ("", {}, WRITTEN),
        ("tokens=8", {}, {**WRITTEN, "tokens": "8"}),
        ("gamma=3", LEFT_OUT, {"gamma": "3", "proposer": "eagle"}),
        ("proposer=eagle&o.top_k=2&o.nodes=4", NAMED, {"proposer": "eagle", "o.top_k": "2", "o.nodes": "4"}),
        ("proposer=eagle", LEFT_OUT, {"proposer": "eagle"}),
    ],
)
def test_where_no_link_names_a_lane_the_page_begins_with_what_pays_and_says_so(
    server: None, query: str, options: dict[str, Any], address: dict[str, Any]
) -> None:
    """The address it writes asks for the same once more. Catches: a link of before that gets the new lane, a new one
    that will change its meaning when the start changes again."""
    found = outcome("lab", query)
    assert found["lanes"][1].get("options", {}) == options
    named = {key: "".join(value) for key, value in found["address"].items()}
    assert named == address
    again = outcome("lab", "&".join(f"{key}={value}" for key, value in named.items()))
    assert again["lanes"] == found["lanes"]


@pytest.mark.parametrize("server", ["heads"], indirect=True)
def test_the_options_of_before_can_be_chosen_and_survive_a_reload(server: None) -> None:
    """Catches: an address without options that is taken for a bare one, and a length that stays of another proposer."""
    at = AppTest.from_file(MAIN, default_timeout=60).run()
    assert (at.slider(key="gamma").value, at.selectbox(key="length").value) == (6, "confidence")
    at.selectbox(key="proposer").select("eagle").run()
    assert (at.slider(key="gamma").value, at.selectbox(key="length").value) == (4, "fixed")
    assert at.number_input(key="o.eagle.nodes").value == 3
    at.slider(key="o.eagle.depth").set_value(3)
    at.slider(key="o.eagle.top_k").set_value(3)
    at.number_input(key="o.eagle.nodes").set_value(8)
    at.run()
    address = {key: "".join(values) for key, values in at.query_params.items()}
    assert address == {"proposer": "eagle"}
    found = outcome("lab", "proposer=eagle")
    assert found["lanes"][1]["options"] == LEFT_OUT


@pytest.mark.parametrize("server", ["heads"], indirect=True)
def test_a_length_that_a_link_names_is_not_taken_for_the_one_before(server: None) -> None:
    """Catches: a link opened in a session that had another proposer, whose length is then begun anew."""

    def script() -> None:
        from app.choosing import form
        from app.lanes.lane import Lane

        for proposer in ("draft-model", "eagle"):
            form.put(Lane(proposer, 6, length="confidence"), "one")
            form.follow_proposer(proposer, "one")

    at = AppTest.from_function(script, default_timeout=60).run()
    assert not at.exception
    assert (at.session_state["one.gamma"], at.session_state["one.length"]) == (6, "confidence")
