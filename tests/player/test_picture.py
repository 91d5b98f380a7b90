"""Views as pictures: what an SVG holds, that a PNG has its pixels, and the menu that saves them."""

from __future__ import annotations

from base64 import b64decode
from io import BytesIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from app.theme import PAGE, TEXT
from tests.player.conftest import FRAME, Server, open_player

SVG, HTML = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xhtml}"


def picture(page: Page, selector: str) -> dict[str, Any]:
    """A part of the player as SVG text and as the bytes of a PNG."""
    made: dict[str, Any] = page.evaluate(
        """async (selector) => {
          const { svgOf, pngOf } = await import("/player/picture.js");
          const part = shadow.querySelector(selector);
          const bytes = new Uint8Array(await (await pngOf(part)).arrayBuffer());
          return { ...svgOf(part), png: btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")) };
        }""",
        selector,
    )
    return made | {"png": b64decode(made["png"])}


def pixels(png: bytes) -> tuple[int, int, set[bytes]]:
    """Width, height and the colours of a PNG."""
    image = Image.open(BytesIO(png)).convert("RGB")
    data = image.tobytes()
    return *image.size, {data[at : at + 3] for at in range(0, len(data), 3)}


def test_an_svg_holds_the_view_s_text_as_text_and_names_no_other_place(page: Page) -> None:
    """Round 7 proposes <script>, the target adds <img onerror>: both are text in the picture, and nothing runs."""
    open_player(page, cursor={"round": 7, "node": None})
    made = picture(page, ".strip")
    root = ElementTree.fromstring(made["text"])
    assert root.tag == f"{SVG}svg"
    text = "".join(root.find(f"{SVG}foreignObject").itertext())  # type: ignore[union-attr]
    assert "<script>alert(1)</script>" in text
    assert "<img src=x onerror=alert(2)>" in text
    names = {element.tag for element in root.iter()}
    assert not names & {f"{HTML}script", f"{SVG}script", f"{HTML}img", f"{HTML}iframe"}
    named = [
        value for element in root.iter() for name, value in element.attrib.items() if name in ("href", "src")
    ]
    assert named == []
    assert "http" not in made["text"].replace("http://www.w3.org/", "")


def test_a_png_has_the_view_s_size_twice_and_its_colours(page: Page) -> None:
    open_player(page, cursor={"round": 1, "node": None})
    box = page.locator(".odds").bounding_box()
    assert box is not None
    made = picture(page, ".odds")
    width, height, colours = pixels(made["png"])
    assert (width, height) == (2 * made["width"], 2 * made["height"])
    assert abs(made["width"] - box["width"] - 24) <= 1
    paper, ink = (bytes.fromhex(colour.light[1:]) for colour in (PAGE, TEXT))
    assert {paper, ink} <= colours
    assert len(colours) > 20, "letters are drawn smoothly"


def test_what_had_to_be_scrolled_to_is_in_the_picture(page: Page) -> None:
    page.set_viewport_size({"width": 780, "height": 900})
    open_player(page)
    page.evaluate("shadow.querySelector('.leads .pane').style.blockSize = '60px'")
    page.evaluate(FRAME)
    page.evaluate(FRAME)  # the pane settles on whole rows
    low = page.evaluate("shadow.querySelector('.leads').getBoundingClientRect().height")
    full = page.evaluate("shadow.querySelector('.leads .pane').scrollHeight")
    assert full > 90
    assert picture(page, ".leads")["height"] > low + full - 60


def test_control_characters_and_halves_of_characters_do_not_spoil_a_picture(
    page: Page, server: Server
) -> None:
    server.files["/traces/spec.json"] = server.files["/traces/spec.json"].replace(
        " quick", "\\u0001\\ud800\\u0000"
    )
    open_player(page, cursor={"round": 1, "node": None})
    made = picture(page, ".leads")
    ElementTree.fromstring(made["text"])
    assert "\ufffd" in made["text"]
    assert made["png"].startswith(b"\x89PNG")


@pytest.mark.parametrize("kind", ["SVG", "PNG"])
def test_the_menu_saves_what_is_on_screen_with_keys_alone(page: Page, kind: str) -> None:
    open_player(page, cursor={"round": 3, "node": None})
    button = page.get_by_role("button", name="Save a view as a picture")
    button.focus()
    page.keyboard.press("Enter")
    expect(button).to_have_attribute("aria-expanded", "true")
    choice = page.get_by_role("button", name=f"Save Odds as {kind}")
    choice.focus()
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert download.value.suggested_filename == f"specdec-odds-round-3.{kind.lower()}"
    start = Path(download.value.path()).read_bytes()[:8]
    assert start.startswith(b"<svg" if kind == "SVG" else b"\x89PNG")
    expect(button).to_be_focused()
    expect(button).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("Enter")
    expect(button).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Escape")
    expect(button).to_have_attribute("aria-expanded", "false")
    expect(button).to_be_focused()
