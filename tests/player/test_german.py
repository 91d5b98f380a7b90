"""The player in German: its modules run, and nothing that it says is English."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

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


SHAPES = """async names => {
  const kind = value => Array.isArray(value) ? "list" : value && typeof value === "object"
    ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, kind(one)])) : typeof value;
  const modules = await Promise.all(names.map(name => import(`/player/${name}?shape`)));
  return Object.fromEntries(modules.map((module, at) => [names[at], kind({ ...module })]));
}"""


@pytest.mark.browser
def test_every_text_takes_what_the_english_one_takes(page: Page, browser: Browser) -> None:
    """A function in both languages, or a string in both. Catches: a text with facts put in, translated as a sentence
    without: the player stops where it calls it."""
    names = sorted(served.texts("de"))
    german = page.evaluate(SHAPES, names)
    with serving() as english_server:
        other = browser.new_page()
        other.goto(english_server.state.url)
        assert other.evaluate(SHAPES, names) == german
        other.close()
    assert len(names) > 4 and german["text/text.js"]["T"]["opened"] == "function"


LEAVES = """async names => {
  const found = {};
  const walk = (path, value) => value && typeof value === "object"
    ? Object.entries(value).forEach(([key, one]) => walk(`${path}.${key}`, one)) : found[path] = String(value);
  for (const name of names) walk(name, { ...await import(`/player/${name}?leaves`) });
  return found;
}"""


@pytest.mark.browser
def test_a_proposer_is_not_called_a_draft(page: Page, browser: Browser) -> None:
    """Catches: “q des Drafts” in a run whose guesses are copied, or made by heads: there is no draft in it."""
    names = sorted(served.texts("de"))
    german = page.evaluate(LEAVES, names)
    with serving() as english_server:
        other = browser.new_page()
        other.goto(english_server.state.url)
        english_ones = other.evaluate(LEAVES, names)
        other.close()
    of_any = [path for path, said in english_ones.items() if re.search(r"\bproposer('s)?\b(?! *[=?:])", said)]
    assert len(of_any) > 10
    assert [path for path in of_any if re.search(r"\b(der|des|dem|den) Drafts?\b", german[path])] == []
