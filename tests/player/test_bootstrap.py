"""What Streamlit is given: the mount function in Python, and the few lines that fetch the player's code."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect
from streamlit.testing.v1 import AppTest

from app import player
from tests.player.conftest import Server, data


def test_the_page_can_mount_it() -> None:
    def script() -> None:
        from app.player import player

        shown = player(mode="replay", traces=[{"label": "Plain", "url": "/traces/plain.json"}])
        assert shown.cursor is None and shown.done is None

    ran = AppTest.from_function(script, default_timeout=10).run()
    assert not ran.exception


def test_every_module_keeps_text_out_of_markup() -> None:
    """Catches: a token that the browser would read as markup."""
    for file in player.STATIC.rglob("*.js"):
        code = file.read_text(encoding="utf-8")
        assert not [
            sink
            for sink in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(")
            if sink in code
        ]


@pytest.mark.browser
def test_runs_again_and_again_and_cleans_up(page: Page, server: Server) -> None:
    """Streamlit calls the function on every change of data or theme, and the last cleanup at unmount."""
    server.files["/bootstrap.js"] = player._JS
    page.evaluate(
        """async (data) => {
          const { default: run } = await import(URL.createObjectURL(
            new Blob([await (await fetch("/bootstrap.js")).text()], { type: "text/javascript" })));
          window.parent_element = document.createElement("div");
          const root = document.createElement("div");
          root.className = "specdec-player";
          parent_element.append(root);
          document.body.append(parent_element);
          const ignore = () => null;
          window.again = (next) => (window.cleanup = run(
            { data: next, parentElement: parent_element, setStateValue: ignore, setTriggerValue: ignore }));
          again(data);
          again(data);
        }""",
        data(cursor={"round": 3, "node": None}),
    )
    expect(page.locator(".where")).to_have_text("Round 3 of 12")
    page.evaluate("parent_element.querySelector('.player').id = 'first'")
    page.evaluate("data => again(data)", data(cursor={"round": 5, "node": None}))
    expect(page.locator(".where")).to_have_text("Round 5 of 12")
    expect(page.locator("#first")).to_have_count(1)
    page.evaluate("cleanup()")
    expect(page.locator(".player")).to_have_count(0)
