"""Draw the animation of two rounds in the README from a recorded trace, step by step as in the player.

.venv/bin/python -m scripts.round_animation

Needs Chromium (`make test` installs it) and Pillow, which comes with Streamlit.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from tests.chromium import chromium
from tests.load.player import show

ROOT = Path(__file__).resolve().parent.parent
TRACES = ("chat-draft-model-plain", "chat-draft-model")
FIRST, LAST = 4, 5  # rounds
STEP_MS, END_MS = 900, 2_200
TO = ROOT / "assets" / "screenshots" / "round.webp"


def main() -> None:
    """Draw and save."""
    traces = [
        json.loads((ROOT / "assets" / "traces" / f"{name}.json").read_text(encoding="utf-8"))
        for name in TRACES
    ]
    frames: list[Image.Image] = []
    shown: list[int] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1120, "height": 580}, reduced_motion="reduce")
        header = traces[-1]["header"]
        show(page, traces, f"{header['machine']}, {header['created'][:10]}", round=FIRST, step=0)
        where = page.locator(".where")
        while (said := where.inner_text()).startswith(tuple(f"Round {at} " for at in range(FIRST, LAST + 1))):
            page.wait_for_timeout(100)  # the panes have scrolled
            frames.append(Image.open(io.BytesIO(page.screenshot())))
            shown.append(STEP_MS if ":" in said else END_MS)
            page.locator(".player").press("ArrowRight")
        browser.close()
    first, *rest = frames
    first.save(TO, save_all=True, append_images=rest, duration=shown, loop=0, quality=80, method=6)
    print(f"{TO.relative_to(ROOT)}: {len(frames)} frames, {TO.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
