"""The player's texts stand in its modules `text*.js` and nowhere else, so that a language can bring its own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page
from starlette.testclient import TestClient

from app.course import words
from app.player import STATIC, player_folder
from app.web import routes
from tests.app import pseudo
from tests.player.conftest import Server, open_player, serving

TRACES = Path(__file__).resolve().parents[2] / "assets" / "traces"
CATALOGUES = sorted(path.name for path in STATIC.glob("text*.js"))
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
        for file in CATALOGUES:
            text = (STATIC / file).read_text(encoding="utf-8")
            handler.state.files[f"/player/{file}"] = pseudo.script(text)
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
    own = tmp_path / "xx" / words.PLAYER
    own.mkdir(parents=True)
    (own / "text.js").write_text("export const mine = true;", encoding="utf-8")
    (own / "walk.js").write_text("alert(1)", encoding="utf-8")
    monkeypatch.setattr(words, "FOLDER", tmp_path)
    from starlette.applications import Starlette

    client = TestClient(Starlette(routes=routes.routes()))
    folder = player_folder("xx")
    assert client.get(f"/{folder}/text.js").text == "export const mine = true;"
    for file in ("walk.js", "text_tree.js", "player.js"):  # not a catalogue, or not there: the player's own
        assert client.get(f"/{folder}/{file}").text == (STATIC / file).read_text(encoding="utf-8")
    assert client.get(f"/{player_folder()}/text.js").text == (STATIC / "text.js").read_text(encoding="utf-8")
    assert client.get(f"/{folder}/../text.js").status_code in (404, 200)
    assert words.Words("xx", tmp_path).player == "xx"
    assert words.Words("yy", tmp_path).player is None
