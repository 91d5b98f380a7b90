"""The player in German: its modules run, and nothing that it says is English."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from app.export import served
from tests.app import english
from tests.player.conftest import Server, open_player, serving

from .test_language import SAID, TRACES

TOKENS = re.compile(r"^ |  ")  # most begin with a space; texts of the player do not
QUOTED = re.compile("„[^“]*“")  # what models wrote
# Names of drafts, rules and machines are recorded with a run, and stay as they are.
RECORDED = {"Spur A", "Spur B"}


@pytest.fixture(scope="module")
def german() -> Iterator[Server]:
    """A server of its own with the German modules, as the page may keep the modules of the shared one."""
    with serving() as handler:
        for name, path in served.texts("de").items():
            handler.state.files[f"/player/{name}"] = path.read_text(encoding="utf-8")
        yield handler.state


@pytest.fixture
def server(german: Server) -> Server:
    return german


@pytest.mark.browser
@pytest.mark.parametrize("name", ["draft-model", "medusa", "lookahead", "prompt-lookup"])
def test_every_text_is_german(page: Page, name: str) -> None:
    """Catches: a module that does not run; a value of a text that is put in as an English word."""
    lanes = [
        json.loads((TRACES / f"{each}.json").read_text(encoding="utf-8")) for each in (f"{name}-plain", name)
    ]
    traces = [
        {"label": label, "trace": lane} for label, lane in zip(("Spur A", "Spur B"), lanes, strict=True)
    ]
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    for step in (0, 1, 2, None):
        open_player(page, traces=traces, cursor={"round": 3, "step": step, "node": 0})
        said = [QUOTED.sub(" ", text) for text in page.evaluate(SAID) if not TOKENS.search(text)]
        said = [text for text in said if text.strip() not in RECORDED]
        assert sum("Runde" in text for text in said) > 3
        found = [(english.left("de", text), text[:100]) for text in said if english.left("de", text)]
        assert (found, problems) == ([], []), str(found)


def test_a_proposer_is_not_called_a_draft() -> None:
    """Catches: “q des Drafts” in a run whose guesses are copied, or made by heads: there is no draft in it."""
    german = english.messages("de")
    of_any = [key for key, text in english.messages("en").items() if re.search(r"\bproposer('s)?\b", text)]
    assert len(of_any) > 10
    assert [key for key in of_any if re.search(r"\b(der|des|dem|den) Drafts?\b", german[key])] == []
