"""Take the README's pictures, each at three widths, light and dark, from a running app.

    make run                                                  # in another terminal; wait until the chat model is ready
    .venv/bin/python -m scripts.screenshots [--url http://localhost:8501] [--only lab,compare,course]

The lab and the comparison run once and are then shown at every size. Their figures are measured, so leave the machine
alone meanwhile. Needs Chromium (`make test` installs it) and Pillow, which comes with Streamlit.
"""

from __future__ import annotations

import argparse
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from PIL import Image
from playwright.sync_api import BrowserContext, Page, sync_playwright

from tests.chromium import chromium

FOLDER = Path(__file__).resolve().parent.parent / "assets" / "screenshots"
SIZES = ((1440, 900), (1024, 768), (390, 844))
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
LONG_MS = 300_000
RUN = re.compile("^Run")  # a pruned guess has it inside
# A visitor to whom runs are shown in real time.
RETURNING = 'localStorage.setItem("specdec-first-round", "seen")'


def lab(page: Page, url: str) -> None:
    """A run of the chat model, at its most telling round."""
    page.goto(f"{url}/")
    _run(page)
    page.get_by_text("Target passes saved").wait_for(timeout=LONG_MS)


def compare(page: Page, url: str) -> None:
    """The usual lanes on one prompt."""
    page.goto(f"{url}/compare")
    _run(page)
    page.locator(".lanes.many .ended:not(:empty)").last.wait_for(state="attached", timeout=LONG_MS)


def course(page: Page, url: str) -> None:
    """A lesson's first screen."""
    page.goto(f"{url}/course?lesson=coin")
    page.locator(".st-key-course-coin-prediction").wait_for(timeout=60_000)


PAGES = {"lab": lab, "compare": compare, "course": course}


def _run(page: Page) -> None:
    page.get_by_role("button", name=RUN).first.click(timeout=LONG_MS)
    page.locator(".player.is-live").wait_for(timeout=LONG_MS)
    page.locator(".player:not(.is-live)").wait_for(timeout=LONG_MS)


def taken(context: BrowserContext, name: str, url: str) -> Iterator[tuple[str, bytes]]:
    """The page's pictures, by name."""
    page = context.new_page()
    page.set_viewport_size({"width": SIZES[0][0], "height": SIZES[0][1]})
    PAGES[name](page, url)
    for width, height in SIZES:
        for scheme in SCHEMES:
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            player = page.locator(".player")
            if name != "course":
                player.first.evaluate("player => player.scrollIntoView({ block: 'start' })")
            page.mouse.move(0, 0)
            page.wait_for_timeout(1_500)  # charts and panes have followed
            yield f"{name}-{width}-{scheme}", page.screenshot()
    page.close()


def main() -> None:
    """Take and save them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--url", default="http://localhost:8501")
    parser.add_argument("--only", default=",".join(PAGES), help="names joined by commas")
    arguments = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        context = browser.new_context(reduced_motion="reduce")
        context.set_default_timeout(LONG_MS)
        context.add_init_script(RETURNING)
        for name in arguments.only.split(","):
            for title, picture in taken(context, name, arguments.url):
                to = FOLDER / f"{title}.webp"
                Image.open(io.BytesIO(picture)).save(to, quality=86, method=6)
                print(f"{to.name}: {to.stat().st_size / 1e3:.0f} kB")
        browser.close()


if __name__ == "__main__":
    main()
