"""axe-core, an independent checker, asked about a page as it stands: about what of it has not been checked before."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import axe_playwright_python
from playwright.sync_api import Page

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
OURS = (Path(__file__).parent / "axe.js").read_text(encoding="utf-8")
LOOK = f"async () => ({OURS.rstrip()}).look()"
CHECK = f"async (before) => ({OURS.rstrip()}).check(before)"
REDRAWN = 5  # a chart may be drawn anew, for a window of another size, while its texts are measured
_measured: set[str] = set()  # looks with enough contrast
_tried: set[str] = set()  # texts, each at its place, that axe was asked about
_asked: Counter[str] = Counter()  # how many texts of each look
TRIES = 20  # a look of which axe could measure none of so many texts, such as single letters, is left
_clean: set[str] = set()  # parts of pages that broke no other rule


def check(page: Page, state: str = "") -> None:
    """Assert that the page as it stands breaks no rule; Streamlit's own elements are held to it too."""
    page.mouse.move(1, 1)  # away from what shows something while it is pointed at
    for _ in range(REDRAWN):
        # As one text each way: Playwright would take lists apart, value by value.
        seen = json.loads(page.evaluate(LOOK))
        known = {
            "measured": [look for look in set(seen["looks"]) if look in _measured or _asked[look] >= TRIES],
            "tried": sorted(_tried.intersection(seen["sights"])),
            "clean": sorted(_clean.intersection(seen["parts"])),
        }
        if not seen["ready"] and _new(seen):
            page.evaluate(AXE)  # by the debugger, which no policy of the page forbids
        result = json.loads(page.evaluate(CHECK, json.dumps(known)))
        if not result["redrawn"]:
            break
    assert result["broken"] == [], "\n".join([state, *result["broken"]])
    assert result["mouse"] == [], f"{state}: these take a click and no key: {result['mouse']}"
    assert known["clean"] or "button-name" in result["passed"], f"{state}: axe looked at nothing"
    assert result["measured"], f"{state}: axe measured no contrast"
    assert result["found"] == [], "\n".join([state, *result["found"]])
    _measured.update(set(result["measured"]).difference(known["measured"]))
    _asked.update(result["asked"])
    _tried.update(result["tried"])
    _clean.update(result["clean"])


def _new(seen: dict[str, list[str]]) -> bool:
    """Whether there is something to ask axe about: the first part is the whole page."""
    texts = zip(seen["looks"], seen["sights"], strict=True)
    return seen["parts"][0] not in _clean or any(
        look not in _measured and _asked[look] < TRIES and sight not in _tried for look, sight in texts
    )
