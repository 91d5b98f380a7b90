"""Links that were given away before: each still asks for the run that it asked for when it was made.

`links.json` was written by the app of 2026-11-22, with `outcome` below. It is a record, not an expectation that may be
written anew when it fails: a link on a course page or in a mail cannot be changed.
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
from app.choosing import usual
from app.decoding.loaded import Loaded
from app.decoding.models import Choice, Shelf
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
    built = {Choice(): scripted_family(), REAL: Loaded(real)}
    shelf = Shelf(lambda choice: built[choice], lambda *asked: None)
    for choice in built:
        shelf.get(choice)
    runs = Runs(lambda choice, gone: shelf.get(choice, gone))
    monkeypatch.setattr(services, "shelf", lambda: shelf)
    monkeypatch.setattr(services, "runs", lambda: runs)
    operator = policy.read({**OPERATOR, "SPECDEC_DEFAULT_MODELS": usual.REAL})
    monkeypatch.setattr(services, "operator", lambda: operator)
    there = partial(usual.guessers, there=lambda part: kind == "heads")
    monkeypatch.setattr(usual, "guessers", there)
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
    assert json.loads(json.dumps(outcome(link["page"], link["query"]))) == link["outcome"]
