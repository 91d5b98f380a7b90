"""The browser of tests and measurements: the system's Chromium, or Playwright's own."""

from __future__ import annotations

import shutil

# The shell is Chromium without its own windows, which take half of its time and which nobody sees.
CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """Its path; None leaves it to Playwright."""
    return next(filter(None, map(shutil.which, CHROMIUMS)), None)
