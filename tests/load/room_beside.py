"""What goes on beside the class of `tests.load.room`: real browsers that follow the room, and somebody's live runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from playwright.async_api import Page, async_playwright

from ..chromium import chromium
from .classroom import alone

QUIET_S = 0.5  # before a step, so that a page's last redrawing is not taken for the step's
TOKENS = 200  # of each live run
LATE_S = 30.0
# When the page was drawn anew, as its user sees it: with the frame after the change.
WATCH = """() => {
    globalThis.drawn = [];
    const note = () => requestAnimationFrame(() => setTimeout(() => globalThis.drawn.push(Date.now() / 1000)));
    new MutationObserver(note).observe(document.getElementById("page"), { childList: true });
}"""


@asynccontextmanager
async def browsers(port: int, code: str, number: int) -> AsyncIterator[list[Page]]:
    """The projector's page, and students' on phones for the rest of the number, each in a browser of its own."""
    async with async_playwright() as playwright:
        started = [
            await playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
            for _ in range(number)
        ]
        pages = []
        for at, browser in enumerate(started):
            size = {"width": 390, "height": 844} if at else {"width": 1440, "height": 900}
            page = await browser.new_page(viewport=size)  # type: ignore[arg-type]
            await page.goto(f"http://127.0.0.1:{port}/r/{code}{'' if at else '/screen'}")
            if at:
                await page.get_by_role("button").click()
            await page.locator("div.student" if at else ".code").wait_for()
            await page.evaluate(WATCH)
            pages.append(page)
        try:
            yield pages
        finally:
            for browser in started:
                await browser.close()


async def drawn(pages: Sequence[Page], since: float) -> list[float]:
    """How long after that moment, in seconds since 1970, each page was drawn anew."""

    async def one(page: Page) -> float:
        async with asyncio.timeout(LATE_S):
            while not (at := await page.evaluate("(since) => drawn.find((at) => at >= since)", since)):
                await asyncio.sleep(0.05)
        return float(at) - since

    return list(await asyncio.gather(*map(one, pages)))


@asynccontextmanager
async def runs(port: int) -> AsyncIterator[list[float]]:
    """A visitor of the lab who starts one race after the other; the value is how long each took."""
    took: list[float] = []

    async def on() -> None:
        while True:
            began = time.perf_counter()
            await alone(port, TOKENS)
            took.append(time.perf_counter() - began)

    task = asyncio.create_task(on())
    try:
        yield took
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
