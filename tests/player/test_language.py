"""The player's texts are in its messages and nowhere else, so that a language can bring its own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page
from starlette.applications import Starlette
from starlette.testclient import TestClient

from app.course.files import words
from app.export import served
from app.player import STATIC
from app.web import routes
from tests.app import pseudo
from tests.player.conftest import Server, open_player, serving

TRACES = Path(__file__).resolve().parents[2] / "assets" / "traces"
MESSAGES = "text/messages.js"
PHRASE = re.compile(r"[A-Za-z]{3,} [A-Za-z]{3,}")
# What is read or heard in the player, in pieces, without what models and visitors wrote.
SAID = """() => {
  const own = ".token, .proposal, .prompt, .committed, .node, .prop, pre, code, [data-node], .lane-name, .origin";
  const found = [];
  for (const one of shadow.querySelectorAll("*")) {
    if (one.closest(own) || one.tagName === "STYLE") continue;
    found.push(...["aria-label", "title", "placeholder"].map((name) => one.getAttribute(name) ?? ""));
    const text = [...one.childNodes].filter((node) => node.nodeType === 3).map((node) => node.data).join(" ");
    if (text.trim()) found.push(text);
  }
  return found;
}"""


def left(said: list[str], kept: set[str]) -> Iterator[str]:
    """The pieces with a phrase outside of brackets."""
    for text in said:
        # a view may show the half of a text before its colon
        bare = re.sub(f"{pseudo.OPEN}[^{pseudo.CLOSE}]*$", " ", text)
        while (
            shorter := re.sub(f"{pseudo.OPEN}[^{pseudo.OPEN}{pseudo.CLOSE}]*{pseudo.CLOSE}", " ", bare)
        ) != bare:
            bare = shorter
        for name in kept:
            bare = bare.replace(name, " ")
        if PHRASE.search(re.sub("‘[^’]*’?", " ", bare)):
            yield text


@pytest.fixture(scope="module")
def brackets() -> Iterator[Server]:
    """A server with the catalogues in brackets; its own, as the page may keep the modules of the shared one."""
    with serving() as handler:
        text = (STATIC / MESSAGES).read_text(encoding="utf-8")
        handler.state.files[f"/player/{MESSAGES}"] = pseudo.script(text)
        yield handler.state


@pytest.fixture
def server(brackets: Server) -> Server:
    return brackets


@pytest.mark.browser
@pytest.mark.parametrize("name", ["draft-model", "eagle", "lookahead", "prompt-lookup", "medusa"])
def test_every_phrase_of_the_player_comes_from_its_catalogue(page: Page, name: str) -> None:
    """Catches: a sentence that is written in a view, where no language can reach it."""
    lanes = [
        json.loads((TRACES / f"{each}.json").read_text(encoding="utf-8")) for each in (f"{name}-plain", name)
    ]
    # Single words stay out of brackets, as they may be keys; two of them in a row are no sentence of a view.
    labels = ["Plain lane of it", "Other lane of it"]
    traces = [{"label": label, "trace": lane} for label, lane in zip(labels, lanes, strict=True)]
    for step in (None, 0, 1, 2):
        open_player(page, traces=traces, cursor={"round": 3, "step": step, "node": 0})
        said = page.evaluate(SAID)
        assert sum(pseudo.OPEN in text for text in said) > 20
        assert (found := list(left(said, {*labels, "rows stays", "rows stay"}))) == [], "\n".join(found)


def test_a_language_brings_its_own_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catches: one language's texts served for another, a file that caches keep although it may change."""
    own = tmp_path / "lessons" / "xx" / served.FOLDER
    own.mkdir(parents=True)
    mine = (STATIC / MESSAGES).read_text(encoding="utf-8").replace("Waiting for the run", "Mine")
    (own / "messages.js").write_text(mine, encoding="utf-8")
    monkeypatch.setattr(served, "assets", lambda: tmp_path)
    served.code.cache_clear()
    served.name.cache_clear()
    client = TestClient(Starlette(routes=routes.routes()))
    own_file, english = (client.get(f"/{served.address(language)}") for language in ("xx", None))
    assert "Mine to start" in own_file.text and "Waiting for the run" not in own_file.text
    assert "Waiting for the run to start" in english.text and "export const mount" in english.text
    assert "immutable" in english.headers["cache-control"]
    before = client.get(f"/player/xx-{'0' * 16}.js")  # asked for by a page from before an update
    assert (before.text, before.headers["cache-control"]) == (own_file.text, "no-cache")
    for other in (f"yy-{'0' * 16}.js", "player.js", "../player/static/player.js", "xx.js"):
        assert client.get(f"/player/{other}").status_code == 404
    assert words.Words("xx", tmp_path / "lessons").player == "xx"
    assert words.Words("yy", tmp_path / "lessons").player is None
    served.code.cache_clear()
    served.name.cache_clear()
